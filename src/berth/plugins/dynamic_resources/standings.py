"""`Standings`: on which nodes demands can be met, and how well, kept between pods.

Most nodes are as they were when an equal demand was judged last.  What is known of a node is forgotten when devices of
a pool that it sees are given or given back, or a slice of such a pool changes; everything is forgotten when nodes
come, go or get other labels.

Owned by the DynamicResources plugin.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.allocator import Allocator
from berth.plugins.dynamic_resources.errors import NodeAllocationError
from berth.plugins.dynamic_resources.ids import PoolId
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.requests import Demand
from berth.plugins.dynamic_resources.scoring import score_of_alternatives

FITS: Final = 1
CANNOT_ALLOCATE: Final = 2
AT_FAULT: Final = 3
_UNKNOWN: Final = 0
_REMEMBERED: Final = 16  # demands

_UNRANKED: Final = -1

Verdicts = NDArray[np.int8]
"""Of rows: `FITS`, `CANNOT_ALLOCATE` or `AT_FAULT`."""

Ranks = NDArray[np.int32]
"""Of rows: what the alternatives that are met there score."""


class _Known(NamedTuple):
    """What is known of the rows of the table, for one demand."""

    verdicts: Verdicts
    ranks: Ranks


class Standings:
    """What is known of nodes.

    Args:
        table: the nodes.
        inventory: all devices.
        allocated: the devices that claims have.
        allocator: finds devices.
    """

    def __init__(self, table: NodeTable, inventory: Inventory, allocated: AllocatedState, allocator: Allocator) -> None:
        self._table, self._inventory, self._allocator = table, inventory, allocator
        self._known: dict[object, _Known] = {}
        self._layout = table.layout
        allocated.listen(self._devices_changed)
        inventory.listen(self._node_changed)

    def judge(self, demand: Demand, rows: Rows, clock: Callable[[], Callable[[], bool] | None]) -> Verdicts:
        """int8, shape (len(rows),): where the demand can be met.

        Args:
            demand: what is asked for.
            rows: the nodes.
            clock: makes for each node what tells whether it is time to give up; None for no such time.

        Raises:
            AllocationError: no decision is possible.
        """
        known = self._about(demand).verdicts
        for row in rows[known[rows] == _UNKNOWN].tolist():
            try:
                fits = self._allocator.fits(self._table.node(row), demand, clock())
            except NodeAllocationError:
                known[row] = AT_FAULT
            else:
                known[row] = FITS if fits else CANNOT_ALLOCATE
        return known[rows]

    def rank(self, demand: Demand, rows: Rows) -> Ranks:
        """int32, shape (len(rows),): what the alternatives score that are met on *rows*, where the demand can be met.

        Raises:
            AllocationError: no decision is possible.
        """
        ranks = self._about(demand).ranks
        for row in rows[ranks[rows] == _UNRANKED].tolist():
            ranks[row] = score_of_alternatives(self._allocator.alternatives(self._table.node(row), demand))
        return ranks[rows]

    def _about(self, demand: Demand) -> _Known:
        if self._layout != self._table.layout:
            self._layout = self._table.layout
            self._known.clear()
        known = self._known.pop(demand.token, None)
        if known is None:
            size = len(self._table.live)
            known = _Known(np.zeros(size, dtype=np.int8), np.full(size, _UNRANKED, dtype=np.int32))
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
        self._known[demand.token] = known
        return known

    def _devices_changed(self, pool: PoolId) -> None:
        if self._known:
            for name in self._inventory.nodes_of(pool):
                self._node_changed(name)

    def _node_changed(self, name: str | None) -> None:
        """What is known of a node, or of all, may no longer be right."""
        if name is None:
            self._known.clear()
            return
        row = self._table.row_of(name)
        if row is not None:
            for known in self._known.values():
                if row < len(known.verdicts):
                    known.verdicts[row], known.ranks[row] = _UNKNOWN, _UNRANKED
