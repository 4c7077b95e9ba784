"""`Shortages`: every combination of missing resources that was met, as a small number.

A node may lack several resources at once, and the answer for it names them all.  Nodes by the thousand share a handful
of combinations, so each combination gets a number when it is first met, which stays valid for as long as the plugin
lives.  Owned by the NodeResourcesFit plugin.
"""

from typing import Final, NamedTuple

import numpy as np

from berth.cluster.columns import Mask
from berth.framework.interface import Rejections
from berth.framework.status import SUCCESS, Code, PluginError, Status

NOTHING: Final = 0  # the number of the combination that lacks nothing
_MOST: Final = int(np.iinfo(np.int16).max)


class Shortage(NamedTuple):
    """What a node lacks.

    Attributes:
        reasons: one text for each resource, in the order in which they were looked at.
        unresolvable: whether some request is larger than all that the node has, so that no eviction helps.
    """

    reasons: tuple[str, ...]
    unresolvable: bool


class Shortages:
    """The combinations met so far, numbered."""

    def __init__(self) -> None:
        none = Shortage((), unresolvable=False)
        self._met: list[Shortage] = [none]
        self._numbers: dict[Shortage, int] = {none: NOTHING}
        self._successors: dict[tuple[int, str, bool], int] = {}
        self._statuses: list[Status] = [SUCCESS]

    def add(self, numbers: Rejections, short: Mask, beyond: Mask, reason: str) -> None:
        """Join one more missing resource to what is missing already.

        Args:
            numbers: int16, shape (n,): what is missing so far; written to.
            short: bool, shape (n,): where the resource is missing.
            beyond: bool, shape (n,): where it could not be had on an empty node either.
            reason: what to say about it.

        Raises:
            PluginError: there are more combinations than numbers.
        """
        places = np.flatnonzero(short)
        marks = numbers[places].astype(np.intp) * 2 + beyond[places]
        successors = np.zeros(2 * len(self._met), dtype=np.int16)
        for mark in np.flatnonzero(np.bincount(marks)).tolist():
            successors[mark] = self.joined(mark >> 1, reason, unresolvable=bool(mark & 1))
        numbers[places] = successors[marks]

    def status(self, number: int) -> Status:
        """The answer for nodes that lack this combination."""
        return self._statuses[number]

    def joined(self, number: int, reason: str, *, unresolvable: bool) -> int:
        """The combination *number* and one more missing resource.

        Raises:
            PluginError: there are more combinations than numbers.
        """
        key = (number, reason, unresolvable)
        successor = self._successors.get(key)
        if successor is None:
            before = self._met[number]
            shortage = Shortage((*before.reasons, reason), unresolvable or before.unresolvable)
            successor = self._successors[key] = self._number_of(shortage)
        return successor

    def _number_of(self, shortage: Shortage) -> int:
        number = self._numbers.get(shortage)
        if number is None:
            number = len(self._met)
            if number > _MOST:
                raise PluginError(f"more than {_MOST} different combinations of missing resources")
            self._met.append(shortage)
            self._numbers[shortage] = number
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if shortage.unresolvable else Code.UNSCHEDULABLE
            self._statuses.append(Status(code, shortage.reasons))
        return number
