"""For each of some nodes, the first thing of a list that can be reached from there.

The list may be long, and most of it be reached from one node each: such things are looked at together.  Those that are
reached from several nodes are looked at one by one, but of those with the same reach only the first, as long as no
claim before has taken it.

Called by `berth.plugins.volume_binding.search` for volumes, and for storage capacities.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Mask, Rows
from berth.plugins.volume_binding.reach import Reach, ReachFinder

NOTHING: Final = -1

Choices = NDArray[np.int64]
"""Shape (len(rows),): index of what was chosen for each row; `NOTHING` where nothing was."""

Taken = Callable[[NDArray[np.intp], Rows], Mask]
"""(indices of things, as many places in the rows) to a mask: where the thing is not to be had at its place."""


class Placed(Protocol):
    """Something that can be reached from some nodes."""

    @property
    def reach(self) -> Reach | None:
        """These nodes; None for all."""


T = TypeVar("T", bound=Placed)


class Shortlist(Generic[T]):
    """Things in the order in which they are to be chosen; good until nodes come, go or change their labels.

    Args:
        things: these things.
        finder: knows from where they can be reached.
    """

    def __init__(self, things: Sequence[T], finder: ReachFinder) -> None:
        self.things, self._finder = things, finder

    @cached_property
    def _singles(self) -> Rows:
        """int, shape (len(things),): the one row from which each can be reached; -1 where it is not exactly one."""
        return self._finder.single_rows(thing.reach for thing in self.things)

    @cached_property
    def _others(self) -> list[int]:
        """The indices of those that are not reached from exactly one row."""
        return np.flatnonzero(self._singles == NOTHING).tolist()

    def first(self, spot_of: Rows, open_: Mask, taken: Taken | None = None) -> Choices:
        """The index of the first thing for each row.

        Args:
            spot_of: int, shape (capacity of the table,): where each row stands among those asked about; -1 elsewhere.
            open_: bool, shape (n,): which of those asked about want something.
            taken: where things are not to be had; None if all are.
        """
        chosen = np.full(len(open_), NOTHING, dtype=np.int64)
        left = open_.copy()
        exhausted: set[Reach | None] = set()
        start = 0
        for other in (*self._others, len(self.things)):
            if not np.count_nonzero(left):
                break
            self._choose_singles(start, other, spot_of, left, chosen, taken)
            start = other + 1
            if other < len(self.things) and self.things[other].reach not in exhausted:
                reach = self.things[other].reach
                spots = _open_spots(reach, left, spot_of)
                free = spots
                if taken is not None and len(spots):
                    free = spots[~taken(np.full(len(spots), other, dtype=np.intp), spots)]
                chosen[free] = other
                left[free] = False
                if len(free) == len(spots):
                    exhausted.add(reach)
        return chosen

    def _choose_singles(
        self, start: int, end: int, spot_of: Rows, left: Mask, chosen: Choices, taken: Taken | None
    ) -> None:
        if start >= end:
            return
        spots = spot_of[self._singles[start:end]]
        here = np.flatnonzero(spots != NOTHING)
        here = here[left[spots[here]]]
        if taken is not None and len(here):
            here = here[~taken(here + start, spots[here])]
        if len(here):
            rows, first = np.unique(spots[here], return_index=True)
            chosen[rows] = here[first] + start
            left[rows] = False


def _open_spots(reach: Reach | None, left: Mask, spot_of: Rows) -> Rows:
    """Which of the places that are left can be reached."""
    if reach is None:
        return np.flatnonzero(left)
    spots: Rows = spot_of[reach.rows()]
    spots = spots[spots != NOTHING]
    return spots[left[spots]]
