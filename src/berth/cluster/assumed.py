"""`AssumeCache`: objects of one kind as the API server showed them, and our own changes assumed until it shows them.

A plugin that promises something to a pod puts the changed object here, so that the next pod does not get it too; so
does one that has just written an object, with the version that was written.  The assumption holds until the API server
shows a later version of the object, which settles the matter, or until it is taken back.  Owned by
`berth.cluster.cache.Cluster`.

Source: k8s pkg/scheduler/util/assumecache/assume_cache.go.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from berth.cluster.objects import ApiObject, Kind, Objects

K = TypeVar("K", bound=ApiObject)
_Key = tuple[str, str]


class AssumeError(Exception):
    """The object that was to be changed is gone, or has changed meanwhile."""


class AssumeCache(Generic[K]):
    """The objects of one kind, assumed changes included.

    Args:
        objects: what the API server showed.
        kind: the kind.

    Attributes:
        taken_back: called after an assumption was taken back, with the object as it was assumed and as it is shown, or
            None if it is gone: nothing that the API server shows tells those of it who were in its way.
    """

    def __init__(self, objects: Objects, kind: Kind[K]) -> None:
        self._objects, self._kind = objects, kind
        self._assumed: dict[_Key, K] = {}
        self._listeners: list[Callable[[Any, Any], None]] = []
        self.taken_back: Callable[[Any, Any], None] = _nobody_asks
        objects.listen(kind, self._shown)

    def get(self, name: str, namespace: str = "") -> K | None:
        """The object of that name as assumed, or else as shown; None if there is none."""
        assumed = self._assumed.get((namespace, name))
        return self._objects.get(self._kind, name, namespace) if assumed is None else assumed

    def list(self) -> Iterator[K]:
        """All objects, each as assumed or else as shown, in the order in which they came."""
        for shown in self._objects.list(self._kind):
            yield self._assumed.get(_key(shown), shown)

    def assume(self, changed: K) -> None:
        """Take *changed*, made from the version that is shown or written since, for what the object is now.

        Raises:
            AssumeError: another version is shown, or none.
        """
        key = _key(changed)
        shown = self._objects.get(self._kind, key[1], key[0])
        name = "/".join(part for part in key if part)
        if shown is None:
            raise AssumeError(f'could not find object "{name}"')
        known, wanted = shown.metadata.resource_version, changed.metadata.resource_version
        if known != wanted and not is_older(known, wanted):
            raise AssumeError(f'"{name}" is out of sync (stored: {known}, assume: {wanted})')
        before = self._assumed.get(key, shown)
        self._assumed[key] = changed
        self._tell(before, changed)

    def restore(self, changed: K) -> None:
        """Take the assumption of *changed* back, if it still stands."""
        key = _key(changed)
        if self._assumed.get(key) is changed:
            del self._assumed[key]
            shown = self._objects.get(self._kind, key[1], key[0])
            self._tell(changed, shown)
            self.taken_back(changed, shown)

    def listen(self, change: Callable[[K | None, K | None], None]) -> None:
        """Call *change* after an object changed, really or by assumption; None before it came and after it went."""
        self._listeners.append(change)

    def _shown(self, old: K | None, new: K | None) -> None:
        shown = new if new is not None else old
        if shown is None:
            return
        assumed = self._assumed.get(_key(shown))
        if assumed is not None:
            if new is not None and not _is_settled(new.metadata.resource_version, assumed.metadata.resource_version):
                return
            del self._assumed[_key(shown)]
        self._tell(old if assumed is None else assumed, new)

    def _tell(self, old: K | None, new: K | None) -> None:
        for listener in self._listeners:
            listener(old, new)


def _nobody_asks(assumed: Any, shown: Any) -> None:
    del assumed, shown


def is_older(version: str, than: str) -> bool:
    """Whether the first of two versions of an object came before the second; False where they cannot be compared."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _is_settled(shown: str, assumed: str) -> bool:
    return shown != assumed and not is_older(shown, assumed)


def _key(obj: ApiObject) -> _Key:
    return obj.metadata.namespace, obj.metadata.name
