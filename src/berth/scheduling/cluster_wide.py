"""The filters that look beyond a node, asked in every cycle on top of what is kept about each node alone.

Each is asked in its place among all filters: not about a node that an earlier one rejected, but about one that only a
later one did.  Which rows are left is known at once; who rejected the others is put together when somebody reads it,
since the reasons are wanted only of pods that fit nowhere.
"""

import numpy as np

from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Rejections
from berth.scheduling.equivalence import Kept
from berth.scheduling.verdicts import FEASIBLE, SHIFT, Placed, Verdicts, ask, position_of


class Answers:
    """What has been found about all nodes so far.

    Args:
        kept: the verdicts by filters of scope ROW.
        table: the nodes.

    Attributes:
        feasible: the rows that fit, ascending; not to be written to.
    """

    def __init__(self, kept: Kept, table: NodeTable) -> None:
        self.feasible = kept.feasible()
        self._verdicts, self._table = kept.verdicts, table
        self._last_rejector = kept.last_rejector()
        self._is_own = False  # whether `_verdicts` may be written to
        self._pending: list[tuple[int, Rows, Rejections]] = []

    def ask(self, placed: Placed, state: CycleState, pod: PodInfo) -> None:
        """Ask one filter, about the nodes that none before it rejected.

        Raises:
            CycleError: it could not answer.
        """
        position, plugin = placed
        in_order = self._last_rejector < position
        rows = self.feasible if in_order else self._reaching(position)
        codes = ask(plugin, state, pod, rows)
        if not np.count_nonzero(codes):
            return
        self._pending.append((position, rows, codes))
        if in_order:
            self._last_rejector = position
            left = np.flatnonzero(codes == 0)
            self.feasible = left if _starts_the_table(rows) else rows[left]
        else:
            self.feasible = np.flatnonzero(self.verdicts() == FEASIBLE)

    def verdicts(self) -> Verdicts:
        """int32, shape (capacity,): the first rejection of each row; to be asked before the cluster changes."""
        if self._pending and not self._is_own:
            self._verdicts, self._is_own = self._verdicts.copy(), True
        for position, rows, codes in self._pending:
            rejected = codes.nonzero()[0]
            self._verdicts[rows[rejected]] = codes[rejected].astype(np.int32) + (position << SHIFT)
        self._pending.clear()
        return self._verdicts

    def _reaching(self, position: int) -> Rows:
        live = self._table.live_rows()
        before = self.verdicts()[live]
        reaching: Rows = live[(before == FEASIBLE) | (position_of(before) > position)]
        return reaching


def _starts_the_table(rows: Rows) -> bool:
    """Whether *rows*, which ascend, are all rows from the first on."""
    return len(rows) > 0 and bool(rows[-1] == len(rows) - 1)
