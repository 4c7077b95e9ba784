"""`DeviceClasses`: which device class stands behind a resource name that pods ask for like any other.

A class can name an extended resource; besides, each class goes by a name that follows from its own.  Kept up to date as
classes come and go; owned by `berth.cluster.cache.Cluster`.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/extended/extendedresourcecache.go.
"""

from collections.abc import Iterable
from typing import Final

from berth.api.dra import DeviceClass
from berth.api.requests import DEVICE_CLASS_PREFIX
from berth.cluster.kinds import DEVICE_CLASS
from berth.cluster.objects import Objects

_NONE: Final[frozenset[str]] = frozenset()


class DeviceClasses:
    """Resource name -> class.

    Args:
        objects: where classes are shown.
    """

    def __init__(self, objects: Objects) -> None:
        self._by_resource: dict[str, DeviceClass] = {}
        objects.listen(DEVICE_CLASS, self._changed)

    def behind(self, resource: str) -> str | None:
        """The name of the class behind *resource*; None if there is none."""
        found = self._by_resource.get(resource)
        return None if found is None else found.metadata.name

    def backed(self, resources: Iterable[str]) -> frozenset[str]:
        """Those of the resources that some class stands behind."""
        if not self._by_resource:
            return _NONE
        return frozenset(name for name in resources if name in self._by_resource)

    def _changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if new is None:
            if old is not None:
                self._drop(old)
        else:
            self._add(old, new)

    def _add(self, old: DeviceClass | None, new: DeviceClass) -> None:
        name, resource = new.metadata.name, new.spec.extended_resource_name
        before = old.spec.extended_resource_name if old is not None else None
        if before and before != resource:
            self._by_resource.pop(before, None)
        if resource:
            rival = self._by_resource.get(resource)
            if rival is not None and rival.metadata.name != name and not _goes_before(new, rival):
                return  # the reference then leaves out the implied name, too
            self._by_resource[resource] = new
        self._by_resource[DEVICE_CLASS_PREFIX + name] = new

    def _drop(self, old: DeviceClass) -> None:
        if old.spec.extended_resource_name:
            self._by_resource.pop(old.spec.extended_resource_name, None)  # whoever it stands for, as in the reference
        self._by_resource.pop(DEVICE_CLASS_PREFIX + old.metadata.name, None)


def _goes_before(one: DeviceClass, other: DeviceClass) -> bool:
    """Whether the first of two classes that claim the same resource gets it: the newer one, or else by name."""
    times = one.metadata.creation_timestamp or "", other.metadata.creation_timestamp or ""
    return times[0] > times[1] if times[0] != times[1] else one.metadata.name < other.metadata.name
