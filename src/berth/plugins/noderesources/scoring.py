"""Strategies that turn "so much is offered, so much would be taken" into a score per node, and the figures for them.

Shared by NodeResourcesFit, whose arguments choose the strategy, and NodeResourcesBalancedAllocation, which has one of
its own.  A resource that a node does not offer is left out of that node's score; one beyond CPU, memory and storage is
left out for all nodes unless the pod asks for it.

Source: k8s pkg/scheduler/framework/plugins/noderesources: resource_allocation.go, least_allocated.go,
most_allocated.go, requested_to_capacity_ratio.go.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.framework.interface import MAX_NODE_SCORE, Scores
from berth.framework.plugin_args import CPU_AND_MEMORY, ResourceSpec, ScoringStrategy, UtilizationShapePoint

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
MAX_UTILIZATION: Final = 100
_SHAPE_FACTOR: Final = MAX_NODE_SCORE // 10  # shapes score 0..10

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_NON_ZERO: Final = {CPU: 0, MEMORY: 1}  # rows of the table's `non_zero`

Grid = NDArray[np.int64]  # shape (k, n): k resources, n nodes
Column = NDArray[np.int64]  # shape (k, 1)
Strategy = Callable[[Grid, Grid, Column], Scores]
"""(offered, taken with the pod, weights) to scores 0..100; ``offered`` is 0 where a resource does not count."""


class Figures(NamedTuple):
    """What the resources of a score amount to, for some nodes.

    Attributes:
        offered: int64, shape (k, n): allocatable; 0 where the node does not offer the resource.
        taken: int64, shape (k, n): taken by the pods that are there.
        asked: int64, shape (k, 1): what the pod asks for.
        weights: int64, shape (k, 1).
    """

    offered: Grid
    taken: Grid
    asked: Column
    weights: Column


class Ask(NamedTuple):
    """The resources that count in a pod's score, and what the pod asks of each.

    Attributes:
        names: the resources.
        amounts: int64, shape (k, 1).
        weights: int64, shape (k, 1).
    """

    names: tuple[str, ...]
    amounts: Column
    weights: Column

    @property
    def empty(self) -> bool:
        """Whether the pod asks for none of them."""
        return not np.count_nonzero(self.amounts)


def weighted(resources: Sequence[ResourceSpec]) -> tuple[tuple[str, int], ...]:
    """Names and weights; CPU and memory where none are given, weight 1 where it is 0."""
    return tuple((resource.name, resource.weight or 1) for resource in resources or CPU_AND_MEMORY)


def ask_of(resources: Sequence[tuple[str, int]], requests: Mapping[str, int]) -> Ask:
    """The configured *resources* that count for a pod with these *requests*."""
    counted = [(name, requests.get(name, 0), weight) for name, weight in resources]
    counted = [each for each in counted if each[0] in _NATIVE or each[1]]
    return Ask(
        tuple(name for name, _, _ in counted),
        np.array([[amount] for _, amount, _ in counted], dtype=np.int64).reshape(-1, 1),
        np.array([[weight] for _, _, weight in counted], dtype=np.int64).reshape(-1, 1),
    )


def figures(table: NodeTable, ask: Ask, rows: Rows, *, non_zero: bool) -> Figures:
    """Offered and taken amounts of the resources of *ask* on *rows*.

    Args:
        table: the nodes.
        ask: from `ask_of`.
        rows: which nodes.
        non_zero: count pods that ask for no CPU or memory with the default amounts.
    """
    shape = (len(ask.names), len(rows))
    offered, taken = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for i, name in enumerate(ask.names):
        index = table.resource_index(name)
        if index is None:
            continue
        offered[i] = table.allocatable[index][rows]
        if non_zero and name in _NON_ZERO:
            taken[i] = table.non_zero[_NON_ZERO[name]][rows]
        else:
            taken[i] = table.requested[index][rows]
    return Figures(offered, taken, ask.amounts, ask.weights)


def quotient(dividend: Grid, divisor: Grid) -> Grid:
    """*dividend* / *divisor*, rounded toward zero; no divisor may be 0."""
    result = dividend // divisor
    negative = result < 0
    if np.count_nonzero(negative):
        result += negative & (result * divisor != dividend)
    return result


def least_allocated(offered: Grid, taken: Grid, weights: Column) -> Scores:
    """The weighted mean of the shares that stay free."""
    shares = quotient((offered - taken) * MAX_NODE_SCORE, np.maximum(offered, 1))
    shares[taken > offered] = 0
    return _weighted_mean(shares, weights, offered)


def most_allocated(offered: Grid, taken: Grid, weights: Column) -> Scores:
    """The weighted mean of the shares that are taken."""
    shares = quotient(np.minimum(taken, offered) * MAX_NODE_SCORE, np.maximum(offered, 1))
    return _weighted_mean(shares, weights, offered)


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Strategy:
    """The strategy that maps utilization to a score by a broken line through the points of *shape*."""
    line = np.array([broken_line(shape, utilization) for utilization in range(MAX_UTILIZATION + 1)], dtype=np.int64)

    def strategy(offered: Grid, taken: Grid, weights: Column) -> Scores:
        utilization = quotient(taken * MAX_UTILIZATION, np.maximum(offered, 1))
        utilization[taken > offered] = MAX_UTILIZATION
        scores = line[np.clip(utilization, 0, MAX_UTILIZATION)]
        counted = weights * ((scores > 0) & (offered != 0))
        total, weight = (scores * counted).sum(axis=0), counted.sum(axis=0)
        mean: Scores = (2 * total + weight) // np.maximum(2 * weight, 1)  # half away from zero; nothing is negative
        return mean

    return strategy


def broken_line(shape: Sequence[UtilizationShapePoint], utilization: int) -> int:
    """The score 0..100 for one utilization.

    Source:
        k8s pkg/scheduler/framework/plugins/helper/shape_score.go, ``BuildBrokenLinearFunction``.
    """
    before = shape[0]
    if utilization <= before.utilization:
        return before.score * _SHAPE_FACTOR
    for point in shape[1:]:
        if utilization <= point.utilization:
            start = before.score * _SHAPE_FACTOR
            rise = (point.score * _SHAPE_FACTOR - start) * (utilization - before.utilization)
            run = point.utilization - before.utilization
            return start + (rise // run if rise >= 0 else -(-rise // run))
        before = point
    return before.score * _SHAPE_FACTOR


def make_strategy(arguments: ScoringStrategy) -> Strategy:
    """The strategy that the arguments ask for.

    Raises:
        ValueError: there is no such strategy, or it lacks its shape.
    """
    if arguments.type == LEAST_ALLOCATED:
        return least_allocated
    if arguments.type == MOST_ALLOCATED:
        return most_allocated
    if arguments.type != REQUESTED_TO_CAPACITY_RATIO:
        raise ValueError(f"scoring strategy {arguments.type} is not supported")
    ratio = arguments.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise ValueError(f"scoring strategy {arguments.type} needs a shape")
    return requested_to_capacity_ratio(ratio.shape)


def _weighted_mean(shares: Grid, weights: Column, offered: Grid) -> Scores:
    if np.count_nonzero(offered) == offered.size and offered.size:
        total: Scores = (shares * weights).sum(axis=0)
        total //= int(weights.sum())
        return total
    counted = weights * (offered != 0)
    return quotient((shares * counted).sum(axis=0), np.maximum(counted.sum(axis=0), 1))
