"""`Promises`: who was promised room, row by row, of those that count against a pod.

A node that was promised to pods of equal or higher priority must do with and without them.  While many important pods
wait for their victims to go, hundreds of nodes are promised, and each attempt asks about all of them: so what was found
for pods of one priority is kept, and only the nodes where a promise was made or taken back since are looked at anew.

Asked by the search, and by whoever asks what would be if pods came or went.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from berth.api.meta import PodUid
from berth.api.quantity import QuantityError
from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.cluster.ranking import PodKinds
from berth.scheduling.what_if import Hopeful, Promised

NominatedPods = Callable[[str], Sequence[PodInfo]]
"""Node name -> the waiting pods that were promised room there."""

_BOOKS: Final = 16  # priorities that are remembered
_SPARE_KINDS: Final = 1024  # kinds of pods that may be out of use before all is looked at anew


class NominationLog(Protocol):
    """Tells which promises changed."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    def touched_since(self, version: int) -> Collection[str] | None:
        """The nodes that pods were promised, or not promised any more, since then; None if that is not known."""


@dataclass(slots=True, eq=False)
class _Book:
    """What was found for pods of one priority.

    Attributes:
        by_row: row -> who was promised it and counts.
        row_of: uid -> the row that this pod was promised.
        kinds: the kinds of these pods.
        version: of the promises that this rests on.
        membership: of the table.
    """

    by_row: dict[int, Hopeful] = field(default_factory=dict)
    row_of: dict[PodUid, int] = field(default_factory=dict)
    kinds: PodKinds = field(default_factory=PodKinds)
    version: int = -1
    membership: int = -1

    def enter(self, row: int, pods: Sequence[PodInfo]) -> None:
        self.by_row[row] = Hopeful(tuple(pods), tuple(map(self.kinds.number, pods)))
        for pod in pods:
            self.row_of[pod.uid] = row

    def strike(self, row: int) -> None:
        hopeful = self.by_row.pop(row, None)
        for pod in hopeful.pods if hopeful is not None else ():
            del self.row_of[pod.uid]


class Promises:
    """What the search needs of the book of nominations.

    Args:
        table: the nodes.
        pods_on: who was promised a node.
        nodes: the nodes where anybody was.
        log: tells what changed; None if nobody does, and all is looked at anew in each attempt.
    """

    def __init__(
        self,
        table: NodeTable,
        pods_on: NominatedPods,
        nodes: Callable[[], Collection[str]],
        log: NominationLog | None = None,
    ) -> None:
        self._table, self._pods_on, self._nodes, self._log = table, pods_on, nodes, log
        self._books: OrderedDict[int, _Book] = OrderedDict()
        self._of_attempt: tuple[dict[int, Hopeful], PodKinds] | None = None

    def __bool__(self) -> bool:
        """Whether any node was promised to anybody."""
        return bool(self._nodes())

    def begin(self) -> None:
        """A new attempt; what is asked from now on is worked out once, and holds until the next one."""
        self._of_attempt = None

    def about(self, pod: PodInfo, rows: Rows) -> Promised:
        """Who counts against *pod* on which of *rows*, which ascend."""
        if len(rows) == 1 and self._of_attempt is None:
            kinds = PodKinds()
            found = self._on(int(rows[0]), self._table.name(int(rows[0])), pod.priority)
            others = tuple(other for other in found if other.uid != pod.uid)
            return Promised({0: Hopeful(others, tuple(map(kinds.number, others)))} if others else {}, kinds.samples)
        if self._of_attempt is None:
            self._of_attempt = self._against(pod)
        by_row, kinds = self._of_attempt
        return Promised(_among(rows, by_row), kinds.samples)

    def _against(self, pod: PodInfo) -> tuple[dict[int, Hopeful], PodKinds]:
        book = self._book(pod.priority)
        row = book.row_of.get(pod.uid)
        if row is None:
            return book.by_row, book.kinds
        others = book.by_row[row].without(pod.uid)
        by_row = {**book.by_row, row: others}
        if not others.pods:
            del by_row[row]
        return by_row, book.kinds

    def _book(self, priority: int) -> _Book:
        """The book for pods of that priority, up to date."""
        book = self._books.get(priority)
        if book is None or not self._catch_up(book, priority):
            book = self._new_book(priority)
            self._books[priority] = book
        self._books.move_to_end(priority)
        if len(self._books) > _BOOKS:
            self._books.popitem(last=False)
        return book

    def _catch_up(self, book: _Book, priority: int) -> bool:
        """Whether the book could be brought up to date."""
        if self._log is None or book.membership != self._table.membership:
            return False
        if len(book.kinds.samples) > 2 * len(book.row_of) + _SPARE_KINDS:
            return False
        version = self._log.version
        touched = () if version == book.version else self._log.touched_since(book.version)
        if touched is None:
            return False
        rows = [(row, name) for name in touched if (row := self._table.row_of(name)) is not None]
        for row, _ in rows:  # all, before any is entered: a pod may have been promised another of these nodes
            book.strike(row)
        for row, name in rows:
            if pods := self._on(row, name, priority):
                book.enter(row, pods)
        book.version = version
        return True

    def _new_book(self, priority: int) -> _Book:
        book = _Book(version=-1 if self._log is None else self._log.version, membership=self._table.membership)
        for name in self._nodes():
            row = self._table.row_of(name)
            if row is not None and (pods := self._on(row, name, priority)):
                book.enter(row, pods)
        return book

    def _on(self, row: int, name: str, priority: int) -> list[PodInfo]:
        """Who was promised a node and counts against pods of *priority*.

        Left out are pods that run there already, and those whose requests are malformed: they can be placed nowhere,
        so they take no room.
        """
        there = self._table.pods(row)
        return [
            other
            for other in self._pods_on(name)
            if other.priority >= priority and other.uid not in there and _takes_room(other)
        ]


def _among(rows: Rows, by_row: dict[int, Hopeful]) -> dict[int, Hopeful]:
    """The part of *by_row* that is about *rows*, by place."""
    if not by_row or not len(rows):
        return {}
    wanted = list(by_row)
    spots = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    found = np.flatnonzero(rows[spots] == wanted)
    if len(found) == len(wanted):
        return dict(zip(spots.tolist(), by_row.values(), strict=True))
    return {int(spots[i]): by_row[wanted[i]] for i in found.tolist()}


def _takes_room(pod: PodInfo) -> bool:
    try:
        _ = pod.likeness, pod.taken_non_zero
    except QuantityError:
        return False
    return True
