"""What if pods were taken off nodes, or put on them?  The contract by which filters answer that for many nodes at once.

Each node in question is a world of its own: what comes and goes there changes nothing on the others.  Pods that may
come and go are its guests.  A filter whose answer depends on pods keeps a `Board` for such a question: sums by node,
which a guest that comes or goes moves.  A filter that never looks at pods says so, and is asked once.  For the others
the question is put node by node on the live cluster.

Used by PostFilter plugins, and where pods count that were only promised a node.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Amounts, Rows
from berth.cluster.pods import PodInfo
from berth.framework.status import Status

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Guests:
    """The nodes in question, and the pods that may come and go there.

    Attributes:
        rows: shape (places,): the nodes; a place is an index into them.
        places: shape (guests,): where each guest comes and goes.
        kinds: shape (guests,): which of ``samples`` each guest is like.
        samples: a pod of each kind.
        pod: a guest as the pod that it is.
    """

    rows: Rows
    places: Indices
    kinds: Indices
    samples: Sequence[PodInfo]
    pod: Callable[[int], PodInfo]

    def __len__(self) -> int:
        """How many guests there are."""
        return len(self.places)

    def everyone(self) -> Indices:
        """All guests."""
        return np.arange(len(self.places), dtype=np.intp)

    def per_place(self) -> Amounts:
        """int64, shape (places,): how many guests each has."""
        return np.bincount(self.places, minlength=len(self.rows))

    def at(self, place: int) -> "Guests":
        """The guests of one place alone; only for guests that are ordered by place."""
        start, stop = np.searchsorted(self.places, (place, place + 1)).tolist()
        return Guests(
            self.rows[place : place + 1],
            np.zeros(stop - start, dtype=np.intp),
            self.kinds[start:stop],
            self.samples,
            lambda guest: self.pod(start + guest),
        )

    def weights(self, weigh: Callable[[PodInfo], int]) -> Amounts:
        """int64, shape (guests,): *weigh* of each guest, asked once for each kind."""
        by_kind = np.fromiter(map(weigh, self.samples), dtype=np.int64, count=len(self.samples))
        return by_kind[self.kinds]


class Board(Protocol):
    """One filter's view of all places, while guests come and go.  All guests are where the live cluster has them."""

    def copy(self) -> Self:
        """A board that goes its own way from here."""

    def move(self, guests: Indices, by: int) -> None:
        """These guests, each once, come (1) or go (-1)."""

    def judge(self, places: Indices) -> NDArray[np.int16]:
        """int16, shape (len(places),): as `FilterPlugin.filter`, for the nodes of *places*."""


class Shifts:
    """A sum by place, which guests shift by a weight each.

    Args:
        places: shape (guests,): where each guest comes and goes.
        weights: int64, shape (guests,): by how much.
        sums: int64, shape (places,): the sums to start from; written to.
    """

    __slots__ = ("_any", "_places", "_weights", "sums")

    def __init__(self, places: Indices, weights: Amounts, sums: Amounts) -> None:
        self._places, self._weights, self.sums = places, weights, sums
        self._any = bool(np.count_nonzero(weights))

    def copy(self) -> "Shifts":
        """Sums that go their own way from here."""
        return Shifts(self._places, self._weights, self.sums.copy())

    def move(self, guests: Indices, by: int) -> None:
        """Let the weights of *guests* count *by* times more."""
        if self._any:
            np.add.at(self.sums, self._places[guests], by * self._weights[guests])


class Trial(Protocol):
    """The verdicts of all filters of a profile about a pod, while guests come and go.

    Pods of equal or higher priority that were promised a node are reckoned with: a node must do with and without them.
    To be used as a context, at the end of which all guests are where they were.
    """

    def __enter__(self) -> Self:
        """Begin."""

    def __exit__(self, *caught: object) -> None:
        """End."""

    def move(self, guests: Indices, by: int) -> None:
        """These guests, each once, come (1) or go (-1)."""

    def judge(self, places: Indices, *, again: bool = False) -> NDArray[np.int32]:
        """int32, shape (len(places),): 0 where the pod fits, else a verdict for `explain`.

        Args:
            places: the nodes, each once.
            again: whether these nodes have fitted in this trial before.

        Raises:
            TrialError: a filter cannot answer for all of these nodes at once.
        """

    def explain(self, verdict: int) -> Status:
        """What a verdict other than 0 means."""


class TrialError(Exception):
    """A filter could not answer for many nodes at once; asked node by node, it may answer for some."""
