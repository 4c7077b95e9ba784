"""Versioned objects in memory: what etcd and the watch cache are to kube-apiserver.

One counter gives every write of any kind its resource version. A `Collection` holds the objects of one kind and a log
of their latest changes, from which watches resume; a reader that asks for a change that was trimmed gets
`ExpiredError`. An object is encoded once, when it is written, and everybody gets those bytes.

Objects are plain JSON dicts and are never changed after they were handed in: a writer builds a new dict that shares the
unchanged parts. No copy is made here, and none of HTTP, of admission or of asyncio is known here; readers that want to
be woken register a callback. Called by `registry` (writes) and `watch` (reads), on one thread.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.sandbox.kinds.resources import Resource

JsonObject = dict[str, Any]
Key = tuple[str, str]  # (namespace, name); the namespace is empty for objects of the whole cluster
ChangeKind = Literal["ADDED", "MODIFIED", "DELETED"]

DEFAULT_HISTORY: Final = 10_000  # changes kept per kind
encode = msgspec.json.Encoder().encode


class ExpiredError(Exception):
    """The change asked for is no longer in the log.

    Attributes:
        version: the version asked for.
        oldest: the oldest version from which a reader can still resume.
    """

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")
        self.version = version
        self.oldest = oldest


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One version of one object.

    Attributes:
        obj: the object without `kind` and `apiVersion`; read only.
        raw: `obj` as JSON.
        version: its `metadata.resourceVersion` as a number.
    """

    obj: JsonObject
    raw: bytes
    version: int


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One write: what it did to which object.

    Attributes:
        kind: as a watch without selector reports it.
        entry: the object after the write; of a deleted one, its last state under the version of the deletion.
        previous: the object before the write; None if there was none.
    """

    version: int
    kind: ChangeKind
    key: Key
    entry: Entry
    previous: Entry | None
    _lines: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def line(self, resource: Resource, kind: str, entry: Entry | None = None) -> bytes:
        """The watch line of this change as *resource* shows it; made once and shared by all watchers.

        Args:
            resource: whose watch it is.
            kind: the type to report, which depends on the watcher's selector.
            entry: what to show instead of `entry`; such a line is not kept.
        """
        if entry is not None:
            return watch_line(kind, encode_entry(resource, entry))
        name = (resource.api_version, kind)
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = watch_line(kind, encode_entry(resource, self.entry))
        return line


def watch_line(kind: str, body: bytes) -> bytes:
    """One event of a watch stream around an encoded object."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def encode_entry(resource: Resource, entry: Entry) -> bytes:
    """An object with its type, as *resource* shows it."""
    if resource.from_stored is None:
        return resource.head + entry.raw[1:]
    return resource.head + encode(resource.from_stored(entry.obj))[1:]


class Collection:
    """All objects of one kind, in the order of their keys, and the log of their latest changes."""

    def __init__(self, history: int) -> None:
        self._entries: dict[Key, Entry] = {}
        self._keys: list[Key] = []  # sorted; the same keys as `_entries`
        self._changes: list[Change] = []  # oldest first; trimmed in bulk to keep the cost of a write constant
        self._dropped = 0  # changes trimmed so far: the position of `_changes[0]`
        self._oldest = 0  # a reader that saw this version, or a newer one, can resume
        self._history = history
        self._wakers: set[Callable[[], None]] = set()

    def get(self, key: Key) -> Entry | None:
        """The object at *key*, or None."""
        return self._entries.get(key)

    def entries(self, namespace: str | None = None) -> list[Entry]:
        """The objects in the order of (namespace, name); of one namespace where it is given."""
        keys = self._keys
        if namespace is not None:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        entries = self._entries
        return [entries[key] for key in keys]

    def end(self) -> int:
        """The position after the latest change."""
        return self._dropped + len(self._changes)

    def position_after(self, version: int) -> int:
        """Where a reader that has seen everything up to *version* goes on.

        Raises:
            ExpiredError: changes after *version* were trimmed.
        """
        if version < self._oldest:
            raise ExpiredError(version, self._oldest)
        return self._dropped + bisect_left(self._changes, version + 1, key=lambda change: change.version)

    def changes_from(self, position: int) -> list[Change]:
        """The changes at *position* and later.

        Raises:
            ExpiredError: the reader fell behind what is kept.
        """
        if position < self._dropped:
            raise ExpiredError(position, self._oldest)
        return self._changes[position - self._dropped :]

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Have *wake* called after every change; returns the function that ends this."""
        self._wakers.add(wake)
        return lambda: self._wakers.discard(wake)

    def compact(self) -> None:
        """Forget all changes, so that readers have to list again."""
        self._trim(len(self._changes))

    def write(self, change: Change) -> None:
        """Apply a change; only `Store` calls this."""
        key = change.key
        if change.kind == "DELETED":
            del self._entries[key]
            del self._keys[bisect_left(self._keys, key)]
        else:
            if change.kind == "ADDED":
                insort(self._keys, key)
            self._entries[key] = change.entry
        self._changes.append(change)
        if len(self._changes) >= 2 * self._history:
            self._trim(self._history)
        for wake in list(self._wakers):
            wake()

    def _trim(self, count: int) -> None:
        if count == 0:
            return
        self._oldest = self._changes[count - 1].version
        self._dropped += count
        del self._changes[:count]


class Store:
    """All collections under one version counter.

    Args:
        history: changes kept per kind, at least; a watch older than that gets 410.
        first_version: where the counter starts.
    """

    def __init__(self, history: int = DEFAULT_HISTORY, first_version: int = 1) -> None:
        self._collections: dict[str, Collection] = {}
        self._history = history
        self.version = first_version

    def collection(self, resource: Resource) -> Collection:
        """The objects that *resource* shows."""
        collection = self._collections.get(resource.kept)
        if collection is None:
            collection = self._collections[resource.kept] = Collection(self._history)
        return collection

    def compact(self) -> None:
        """Forget the changes of all kinds: every watch that resumes from a version gets 410."""
        for collection in self._collections.values():
            collection.compact()

    def put(self, resource: Resource, key: Key, obj: JsonObject) -> Entry:
        """Write a new version of an object, or the first.

        Args:
            resource: of which kind.
            key: where.
            obj: the whole object; its resource version is set here. Not to be changed by the caller afterwards.

        Returns:
            What is now kept.
        """
        collection = self.collection(resource)
        previous = collection.get(key)
        entry = self._next(obj)
        kind: ChangeKind = "ADDED" if previous is None else "MODIFIED"
        collection.write(Change(entry.version, kind, key, entry, previous))
        return entry

    def remove(self, resource: Resource, key: Key) -> Entry:
        """Take an object away.

        Returns:
            Its last state, under the version of the deletion.

        Raises:
            KeyError: there is no such object.
        """
        collection = self.collection(resource)
        previous = collection.get(key)
        if previous is None:
            raise KeyError(key)
        entry = self._next(previous.obj)
        collection.write(Change(entry.version, "DELETED", key, entry, previous))
        return entry

    def _next(self, obj: JsonObject) -> Entry:
        self.version += 1
        return entry_of(obj, self.version)


def entry_of(obj: JsonObject, version: int) -> Entry:
    """The same object under another resource version, encoded."""
    stamped = stamp(obj, version)
    return Entry(stamped, encode(stamped), version)


def stamp(obj: JsonObject, version: int) -> JsonObject:
    """The same object under another resource version; metadata comes first."""
    metadata = {**obj.get("metadata", {}), "resourceVersion": str(version)}
    return {"metadata": metadata, **{name: value for name, value in obj.items() if name != "metadata"}}
