"""How much room there is for new volumes of a class, and where.

Kept by class as storage drivers report it.  Owned by the VolumeBinding plugin.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/binder.go, ``hasEnoughCapacity``; KEP-1472.
"""

import logging
from dataclasses import dataclass

from berth.api.quantity import QuantityError, value
from berth.api.storage import CsiStorageCapacity
from berth.cluster.kinds import CSI_STORAGE_CAPACITY
from berth.cluster.objects import Objects
from berth.plugins.volume_binding.reach import Reach, ReachFinder

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Room:
    """What a storage driver says about one part of the cluster.

    Attributes:
        limit_bytes: how large a volume may be; None where that is not known.
        capacity_bytes: how much there is; None where that is not known.
        reach: the nodes that this part of the cluster serves; None for all.
    """

    limit_bytes: int | None
    capacity_bytes: int | None
    reach: Reach | None


class Capacities:
    """All storage capacities, by class.

    Args:
        objects: where they are shown.
        finder: knows which nodes they serve.
    """

    def __init__(self, objects: Objects, finder: ReachFinder) -> None:
        self._finder = finder
        self._by_class: dict[str, dict[tuple[str, str], Room]] = {}
        for capacity in objects.list(CSI_STORAGE_CAPACITY):
            self._changed(None, capacity)
        objects.listen(CSI_STORAGE_CAPACITY, self._changed)

    def rooms(self, class_name: str, size_bytes: int) -> list[Room]:
        """What is large enough for a volume of a class, in the order in which it was reported first."""
        rooms = self._by_class.get(class_name, {}).values()
        return [room for room in rooms if room.limit_bytes is not None and room.limit_bytes >= size_bytes]

    def _changed(self, old: CsiStorageCapacity | None, new: CsiStorageCapacity | None) -> None:
        room = None if new is None else self._room(new)
        if new is not None and room is not None:
            self._by_class.setdefault(new.storage_class_name, {})[_key(new)] = room
        gone = old is not None and (room is None or new is None or new.storage_class_name != old.storage_class_name)
        if old is not None and gone:
            rooms = self._by_class.get(old.storage_class_name, {})
            rooms.pop(_key(old), None)
            if not rooms:
                self._by_class.pop(old.storage_class_name, None)

    def _room(self, capacity: CsiStorageCapacity) -> Room | None:
        try:
            limit, whole = (None if text is None else value(text) for text in (capacity.limit, capacity.capacity))
        except QuantityError as error:
            _log.error("csistoragecapacity %s: %s; it is left out of account", "/".join(_key(capacity)), error)
            return None
        return Room(limit, whole, self._finder.of_topology(capacity.node_topology))


def _key(capacity: CsiStorageCapacity) -> tuple[str, str]:
    return capacity.metadata.namespace, capacity.metadata.name
