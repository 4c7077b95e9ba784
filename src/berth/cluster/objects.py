"""`Objects`: everything that is neither pod nor node, as the API server last showed it.

Plugins look up here what their rules rest on: services, claims, volumes, classes.  The engine writes as events arrive,
before it tells the queue, so that a hint finds what the event is about.

Source: the informer listers of client-go.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from berth.api.meta import ObjectMeta


class ApiObject(Protocol):
    """Anything with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name, namespace, version."""


K = TypeVar("K", bound=ApiObject)

Change = Callable[[Any, Any], None]
"""(the object before, the object after) of one change; None before an add and after a delete."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[K]):
    """One kind of object.

    Attributes:
        name: as manifests and messages write it, such as ``PersistentVolumeClaim``.
        type: what it is decoded into.
        event_resource: what events about such objects are called, where plugins can wait for them; empty otherwise.
    """

    name: str
    type: type[K]
    event_resource: str = ""


@dataclass(slots=True)
class _Shelf:
    by_namespace: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 0
    listeners: list[Change] = field(default_factory=list)


class Objects:
    """All objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._shelves: dict[str, _Shelf] = {}

    def get(self, kind: Kind[K], name: str, namespace: str = "") -> K | None:
        """The object of that name, if there is one."""
        found: K | None = self._shelf(kind).by_namespace.get(namespace, {}).get(name)
        return found

    def list(self, kind: Kind[K], namespace: str | None = None) -> Iterator[K]:
        """The objects of a namespace, or of all of them, in the order in which they came."""
        shelf = self._shelf(kind)
        if namespace is not None:
            yield from shelf.by_namespace.get(namespace, {}).values()
            return
        for objects in shelf.by_namespace.values():
            yield from objects.values()

    def version(self, kind: Kind[Any]) -> int:
        """Grows with every change of an object of this kind."""
        return self._shelf(kind).version

    def put(self, kind: Kind[K], obj: K) -> K | None:
        """Record an object, new or changed; returns its version before."""
        shelf = self._shelf(kind)
        objects = shelf.by_namespace.setdefault(obj.metadata.namespace, {})
        old: K | None = objects.get(obj.metadata.name)
        objects[obj.metadata.name] = obj
        self._changed(shelf, old, obj)
        return old

    def remove(self, kind: Kind[K], name: str, namespace: str = "") -> K | None:
        """Record that an object is gone; returns its last version, None if there was none."""
        shelf = self._shelf(kind)
        old: K | None = shelf.by_namespace.get(namespace, {}).pop(name, None)
        if old is not None:
            self._changed(shelf, old, None)
        return old

    def listen(self, kind: Kind[Any], change: Change) -> None:
        """Call *change* after every change of an object of this kind."""
        self._shelf(kind).listeners.append(change)

    def counts(self) -> Mapping[str, int]:
        """How many objects of each kind there are."""
        return {name: sum(map(len, shelf.by_namespace.values())) for name, shelf in self._shelves.items()}

    def _shelf(self, kind: Kind[Any]) -> _Shelf:
        shelf = self._shelves.get(kind.name)
        if shelf is None:
            shelf = self._shelves[kind.name] = _Shelf()
        return shelf

    @staticmethod
    def _changed(shelf: _Shelf, old: Any, new: Any) -> None:
        shelf.version += 1
        for listener in shelf.listeners:
            listener(old, new)
