"""`LimitsBoard`: how many volumes many nodes would hold if pods came or went there.

Made by NodeVolumeLimits for questions about preemption; the rules are those of its filter.  Of the guests only those
with volumes matter, which are few.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, Self

import numpy as np

from berth.cluster.columns import Amounts, Rows
from berth.framework.interface import Rejections
from berth.framework.what_if import Guests, Indices
from berth.plugins.attached_volumes import AttachedVolumes, Countable

TOO_MANY: Final = 1

VolumesOf = Callable[[int, int], tuple[Countable, ...]]
"""(guest, row) -> the volumes of the guest that count on that node, each once."""


class LimitsBoard:
    """Volumes by driver and place.

    Args:
        attached: what is there now.
        guests: who comes and goes.
        wanted: what the pod brings, by driver.
        volumes_of: what guests bring.
        overwrite: writes other numbers where a driver is missing.
    """

    def __init__(
        self,
        attached: AttachedVolumes,
        guests: Guests,
        wanted: Mapping[str, frozenset[Countable]],
        volumes_of: VolumesOf,
        overwrite: Callable[[Rows, Rejections], None],
    ) -> None:
        rows = guests.rows
        self._attached, self._rows, self._places = attached, rows, guests.places
        self._wanted, self._overwrite = wanted, overwrite
        self._volumes = _by_guest(guests, wanted, volumes_of)
        self._limits = {driver: attached.limits(driver, rows) for driver in wanted}
        self._used = {driver: attached.used(driver, rows).copy() for driver in wanted}
        self._new = {driver: _new(attached, volumes, rows) for driver, volumes in wanted.items()}
        self._moved = Counter[tuple[int, Countable]]()

    def copy(self) -> Self:
        """A board that goes its own way from here."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._used = {driver: used.copy() for driver, used in self._used.items()}
        twin._new = {driver: new.copy() for driver, new in self._new.items()}
        twin._moved = self._moved.copy()
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come or go."""
        if not self._volumes:
            return
        for guest in guests.tolist():
            for volume in self._volumes.get(guest, ()):
                self._move(int(self._places[guest]), volume, by)

    def judge(self, places: Indices) -> Rejections:
        """1 where a driver would have too many volumes; another number where one is missing."""
        rejected = np.zeros(len(places), dtype=np.int16)
        for driver, limits in self._limits.items():
            limit, new = limits[places], self._new[driver][places]
            rejected[(limit >= 0) & (new > 0) & (self._used[driver][places] + new > limit)] = TOO_MANY
        self._overwrite(self._rows[places], rejected)
        return rejected

    def _move(self, place: int, volume: Countable, by: int) -> None:
        row = int(self._rows[place])
        before = self._attached.holders_on(volume, row) + self._moved[place, volume]
        self._moved[place, volume] += by
        change = int(before + by > 0) - int(before > 0)
        if not change:
            return
        if not self._attached.is_attached(volume, row):
            self._used[volume.driver][place] += change
        if volume in self._wanted[volume.driver]:
            self._new[volume.driver][place] -= change


def _by_guest(
    guests: Guests, wanted: Mapping[str, frozenset[Countable]], volumes_of: VolumesOf
) -> dict[int, tuple[Countable, ...]]:
    found: dict[int, tuple[Countable, ...]] = {}
    for guest in np.flatnonzero(guests.weights(lambda pod: len(pod.volumes))).tolist():
        volumes = volumes_of(guest, int(guests.rows[guests.places[guest]]))
        found[guest] = tuple(volume for volume in volumes if volume.driver in wanted)
    return found


def _new(attached: AttachedVolumes, volumes: frozenset[Countable], rows: Rows) -> Amounts:
    """int64, shape (len(rows),): how many of *volumes* no pod on the node uses."""
    new = np.full(len(rows), len(volumes), dtype=np.int64)
    for volume in volumes:
        holders = attached.holders(volume)
        if holders:
            new -= np.isin(rows, list(holders))
    return new
