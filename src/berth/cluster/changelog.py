"""Which rows of the node table were touched since when: an append-only log, trimmed.

A mark is a position in the log.  Whoever keeps verdicts about rows remembers the mark of the moment, and later
re-judges only the rows touched since.  Owned by `berth.cluster.nodes.NodeTable`.
"""

from typing import Final, NewType

Mark = NewType("Mark", int)

_LONGEST: Final = 65536
_KEPT: Final = 32768


class ChangeLog:
    """The rows touched, in order."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._dropped = 0  # entries that were trimmed off the front

    def touch(self, row: int) -> None:
        """Record that a fact about *row* changed."""
        self._rows.append(row)
        if len(self._rows) > _LONGEST:
            cut = len(self._rows) - _KEPT
            del self._rows[:cut]
            self._dropped += cut

    def mark(self) -> Mark:
        """The position of now."""
        return Mark(self._dropped + len(self._rows))

    def since(self, mark: Mark) -> list[int] | None:
        """The rows touched after *mark*, each once; None if the log no longer reaches back so far."""
        start = mark - self._dropped
        if start < 0:
            return None
        tail = self._rows[start:]
        return list(dict.fromkeys(tail))

    def rewind(self, mark: Mark) -> None:
        """Forget what was recorded after *mark*, because all of it has been undone."""
        del self._rows[max(0, mark - self._dropped) :]
