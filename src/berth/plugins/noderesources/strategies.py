"""Strategies that turn "so much is offered, so much would be taken" into a score per node.

Each is the weighted mean of the scores of the resources that the node offers, 0 where it offers none.  Called by
NodeResourcesFit, whose arguments choose one.  Amounts are int64, and so is the arithmetic: it wraps around, and
division rounds toward zero.

Source: k8s pkg/scheduler/framework/plugins/noderesources: least_allocated.go, most_allocated.go,
requested_to_capacity_ratio.go.
"""

from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from berth.api.quantity import wrapped
from berth.framework.interface import MAX_NODE_SCORE, Scores
from berth.framework.plugin_args import ScoringStrategy, UtilizationShapePoint
from berth.plugins.noderesources.scoring import Grid

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
_SHAPE_FACTOR: Final = MAX_NODE_SCORE // 10  # shapes score 0..10


class Strategy(Protocol):
    """Scores 0..100, for one node and for many."""

    def of_node(self, offered: Sequence[int], taken: Sequence[int], weights: Sequence[int]) -> int:
        """The score of a node, from k amounts each; ``taken`` counts the pod."""

    def of_nodes(self, offered: Grid, taken: Grid, weights: Sequence[int]) -> Scores:
        """int64, shape (n,): the scores of nodes, from amounts of shape (k, n), which may be written to."""


class LeastAllocated:
    """The share that stays free."""

    def of_node(self, offered: Sequence[int], taken: Sequence[int], weights: Sequence[int]) -> int:
        """See `Strategy`."""
        total = weight_of_all = 0
        for offer, take, weight in zip(offered, taken, weights, strict=True):
            if offer:
                weight_of_all += weight
                total += 0 if take > offer else weight * _share(wrapped(offer - take), offer)
        return quotient(wrapped(total), weight_of_all) if weight_of_all else 0

    def of_nodes(self, offered: Grid, taken: Grid, weights: Sequence[int]) -> Scores:
        """See `Strategy`."""
        beyond = taken > offered
        shares = _shares(np.subtract(offered, taken, out=taken), offered)
        shares[beyond] = 0
        return _weighted_mean(shares, offered, weights)


class MostAllocated:
    """The share that is taken."""

    def of_node(self, offered: Sequence[int], taken: Sequence[int], weights: Sequence[int]) -> int:
        """See `Strategy`."""
        total = weight_of_all = 0
        for offer, take, weight in zip(offered, taken, weights, strict=True):
            if offer:
                weight_of_all += weight
                total += weight * _share(min(take, offer), offer)
        return quotient(wrapped(total), weight_of_all) if weight_of_all else 0

    def of_nodes(self, offered: Grid, taken: Grid, weights: Sequence[int]) -> Scores:
        """See `Strategy`."""
        return _weighted_mean(_shares(np.minimum(taken, offered, out=taken), offered), offered, weights)


class RequestedToCapacityRatio:
    """A broken line from utilization to score; a resource that scores 0 does not count, and the mean is rounded."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._line = [broken_line(shape, utilization) for utilization in range(MAX_NODE_SCORE + 1)]

    def of_node(self, offered: Sequence[int], taken: Sequence[int], weights: Sequence[int]) -> int:
        """See `Strategy`."""
        total = weight_of_all = 0
        for offer, take, weight in zip(offered, taken, weights, strict=True):
            if not offer:
                continue
            utilization = MAX_NODE_SCORE if take > offer else _share(take, offer)
            score = self._line[max(0, min(utilization, MAX_NODE_SCORE))]
            if score:
                total += score * weight
                weight_of_all += weight
        return (2 * total + weight_of_all) // (2 * weight_of_all) if weight_of_all else 0

    def of_nodes(self, offered: Grid, taken: Grid, weights: Sequence[int]) -> Scores:
        """See `Strategy`."""
        beyond = taken > offered
        utilization = _shares(taken, offered)
        utilization[beyond] = MAX_NODE_SCORE
        scores = np.array(self._line, dtype=np.int64)[np.clip(utilization, 0, MAX_NODE_SCORE)]
        counted = _column(weights) * ((scores > 0) & (offered != 0))
        total, weight_of_all = (scores * counted).sum(axis=0), counted.sum(axis=0)
        mean: Scores = (2 * total + weight_of_all) // np.maximum(2 * weight_of_all, 1)  # half away from zero
        return mean


def make_strategy(arguments: ScoringStrategy) -> Strategy:
    """The strategy that the arguments ask for.

    Raises:
        ValueError: there is no such strategy, or it lacks its shape.
    """
    if arguments.type == LEAST_ALLOCATED:
        return LeastAllocated()
    if arguments.type == MOST_ALLOCATED:
        return MostAllocated()
    if arguments.type != REQUESTED_TO_CAPACITY_RATIO:
        raise ValueError(f"scoring strategy {arguments.type} is not supported")
    ratio = arguments.requested_to_capacity_ratio
    if ratio is None or not ratio.shape:
        raise ValueError(f"scoring strategy {arguments.type} needs a shape")
    return RequestedToCapacityRatio(ratio.shape)


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
            rise = (point.score - before.score) * _SHAPE_FACTOR
            run = point.utilization - before.utilization
            return before.score * _SHAPE_FACTOR + quotient(rise * (utilization - before.utilization), run)
        before = point
    return before.score * _SHAPE_FACTOR


def quotient(dividend: int, divisor: int) -> int:
    """*dividend* / *divisor*, rounded toward zero."""
    return dividend // divisor if (dividend < 0) is (divisor < 0) else -(-dividend // divisor)


def quotients(dividend: Grid, divisor: Grid) -> Grid:
    """The same for arrays; no divisor may be 0."""
    result = dividend // divisor
    negative = result < 0
    if np.count_nonzero(negative):
        result += negative & (result * divisor != dividend)
    return result


def _share(part: int, offered: int) -> int:
    return quotient(wrapped(part * MAX_NODE_SCORE), offered)


def _shares(part: Grid, offered: Grid) -> Grid:
    """*part*, which is written to, in hundredths of *offered*; whatever, where nothing is offered."""
    part *= MAX_NODE_SCORE
    return quotients(part, offered if _all_offered(offered) else np.where(offered == 0, 1, offered))


def _weighted_mean(shares: Grid, offered: Grid, weights: Sequence[int]) -> Scores:
    if _all_offered(offered) and weights:
        total = np.zeros(offered.shape[1], dtype=np.int64)
        for share, weight in zip(shares, weights, strict=True):
            total += share if weight == 1 else share * weight
        return quotients(total, np.full(1, sum(weights), dtype=np.int64))
    weight = _column(weights) * (offered != 0)
    return quotients((shares * weight).sum(axis=0), np.maximum(weight.sum(axis=0), 1))


def _all_offered(offered: Grid) -> bool:
    return bool(np.count_nonzero(offered) == offered.size)


def _column(weights: Sequence[int]) -> Grid:
    return np.array(weights, dtype=np.int64)[:, np.newaxis]
