"""The figures that resources are scored by: what nodes offer, what is taken, and what the pod adds to it.

Shared by NodeResourcesFit and NodeResourcesBalancedAllocation.  A resource that a node does not offer is left out of
that node's score, unless it has devices that stand for it; one beyond CPU, memory and storage is left out for all nodes
unless the pod asks for it.  There are
two forms throughout, for one node and for many at once: the single row that changed since an identical pod was judged
is the most frequent question of all, and plain numbers answer it several times quicker than arrays.

Source: k8s pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY
from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.framework.plugin_args import CPU_AND_MEMORY, ResourceSpec
from berth.plugins.noderesources.backing import DeviceFigures

FEW: Final = 8  # rows up to which plain numbers beat arrays

_NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_USUAL: Final = (CPU, MEMORY)  # the first rows of the table's columns, and the only ones of its `non_zero`

Grid = NDArray[np.int64]  # shape (k, n): k resources, n nodes


class Figures(NamedTuple):
    """What the resources of a score amount to, for some nodes.

    Attributes:
        offered: int64, shape (k, n): allocatable; 0 where the node does not offer the resource.
        taken: int64, shape (k, n): taken by the pods that are there.
    """

    offered: Grid
    taken: Grid


class NodeFigures(NamedTuple):
    """The same for one node, k numbers each."""

    offered: list[int]
    taken: list[int]


class Ask(NamedTuple):
    """The resources that count in a pod's score, and what the pod asks of each.

    Attributes:
        names: k resources.
        amounts: what the pod asks for.
        weights: what each counts.
    """

    names: tuple[str, ...]
    amounts: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def column(self) -> Grid:
        """The amounts as int64, shape (k, 1)."""
        return np.array(self.amounts, dtype=np.int64)[:, np.newaxis]


def weighted(resources: Sequence[ResourceSpec]) -> tuple[tuple[str, int], ...]:
    """Names and weights; CPU and memory where none are given, weight 1 where it is 0."""
    return tuple((resource.name, resource.weight or 1) for resource in resources or CPU_AND_MEMORY)


def ask_of(resources: Sequence[tuple[str, int]], requests: Mapping[str, int]) -> Ask:
    """The configured *resources* that count for a pod with these *requests*."""
    counted = [each for each in resources if each[0] in _NATIVE or requests.get(each[0], 0)]
    return Ask(
        tuple(name for name, _ in counted),
        tuple(requests.get(name, 0) for name, _ in counted),
        tuple(weight for _, weight in counted),
    )


def figures(table: NodeTable, ask: Ask, rows: Rows, *, non_zero: bool, devices: DeviceFigures | None = None) -> Figures:
    """Offered and taken amounts of the resources of *ask* on *rows*.

    Args:
        table: the nodes.
        ask: from `ask_of`.
        rows: which nodes.
        non_zero: count pods that ask for no CPU or memory with the default amounts.
        devices: count devices where the node offers nothing itself; None if there are none to count.
    """
    if ask.names == _USUAL:
        taken_by_all = table.non_zero if non_zero else table.requested[:2]
        return Figures(table.allocatable[:2].take(rows, axis=1), taken_by_all.take(rows, axis=1))
    shape = (len(ask.names), len(rows))
    offered, taken = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for i, name in enumerate(ask.names):
        index = table.resource_index(name)
        if index is not None:
            offered[i] = table.allocatable[index][rows]
            counts_defaults = non_zero and name in _USUAL
            taken[i] = (table.non_zero if counts_defaults else table.requested)[index][rows]
        if devices is not None and name not in _NATIVE:
            for spot in np.flatnonzero(offered[i] == 0).tolist():
                capacity, allocated = devices.on_node(name, int(rows[spot]))
                if capacity > 0:
                    offered[i, spot], taken[i, spot] = capacity, allocated
    return Figures(offered, taken)


def node_figures(
    table: NodeTable, ask: Ask, row: int, *, non_zero: bool, devices: DeviceFigures | None = None
) -> NodeFigures:
    """As `figures`, for one node."""
    offered, taken = [], []
    for name in ask.names:
        index = table.resource_index(name)
        counts_defaults = non_zero and name in _USUAL
        offer = 0 if index is None else table.allocatable.item(index, row)
        take = 0 if index is None else (table.non_zero if counts_defaults else table.requested).item(index, row)
        if devices is not None and not offer and name not in _NATIVE:
            capacity, allocated = devices.on_node(name, row)
            offer, take = (capacity, allocated) if capacity > 0 else (offer, take)
        offered.append(offer)
        taken.append(take)
    return NodeFigures(offered, taken)
