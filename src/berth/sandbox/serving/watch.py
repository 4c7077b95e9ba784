"""Watch streams: from the log of a collection to a chunked response.

A watcher is a position in the log. Whenever the collection changes it wakes, takes all changes since its position,
turns them into lines and writes them at once; lines are shared between watchers. A reader so slow that its position
was trimmed loses its connection, as with kube-apiserver, and lists again.

Called by `handlers` for a GET with `watch`; relies on `store` for changes and on `selectors` for what to show.

Source: k8s apiserver/pkg/storage/cacher/cache_watcher.go, apiserver/pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds import errors
from berth.sandbox.kinds.conform import zero
from berth.sandbox.kinds.fields import message_of
from berth.sandbox.storage.store import ExpiredError, encode, encode_entry, entry_of, watch_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from berth.sandbox.kinds.resources import Resource
    from berth.sandbox.storage.store import Change, Collection, Entry, Store

JsonObject = dict[str, Any]

_INITIAL_EVENTS_END: Final = {"k8s.io/initial-events-end": "true"}
_BATCH: Final = 2_000  # changes turned into one write


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """What a watcher asked for.

    Attributes:
        namespace: only objects of this namespace; None for all.
        matches: only objects for which this holds; None for all.
        version: the version that the reader has seen; None to begin with the current state.
        bookmarks: whether the reader wants to hear of versions without changes.
        announce_end: whether a bookmark ends the initial events (`sendInitialEvents`).
        initial: whether the current objects are sent first.
        timeout_s: when the server ends the stream.
        bookmark_every_s: how often a bookmark is sent.
    """

    namespace: str | None = None
    matches: Callable[[JsonObject], bool] | None = None
    version: int | None = None
    bookmarks: bool = False
    announce_end: bool = False
    initial: bool = False
    timeout_s: float
    bookmark_every_s: float


class Encoder:
    """Turns changes and objects into lines; replaced where the reader wants tables or metadata only."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def change(self, change: Change, kind: str, entry: Entry | None) -> bytes:
        """The line for *change*, reported as *kind*, showing *entry* instead of the new state if given."""
        return change.line(self.resource, kind, entry)

    def added(self, entry: Entry) -> bytes:
        """The line for an object of the initial state."""
        return watch_line("ADDED", encode_entry(self.resource, entry))

    def bookmark(self, version: int, annotations: JsonObject | None = None) -> bytes:
        """The line that tells a version without a change."""
        known = message_of(self.resource)
        empty = zero(known) if known is not None else {}
        body = encode({**empty, "metadata": self.bookmark_metadata(version, annotations)})
        return watch_line("BOOKMARK", self.resource.head + body[1:])

    def bookmark_metadata(self, version: int, annotations: JsonObject | None) -> JsonObject:
        """The metadata of the object in a bookmark."""
        metadata: JsonObject = {"resourceVersion": str(version)}
        return {**metadata, "annotations": annotations} if annotations else metadata


class Watcher:
    """One reader of one collection.

    A reader that asks for a version which is no longer kept gets an error event, as from kube-apiserver.
    """

    def __init__(self, store: Store, resource: Resource, options: WatchOptions, encoder: Encoder) -> None:
        self._store = store
        self._collection: Collection = store.collection(resource)
        self._options = options
        self._encoder = encoder
        self._changed = asyncio.Event()
        self._stopped = False
        self._seen = store.version
        self._position = self._collection.end()
        self._refusal: errors.ApiError | None = None
        if options.version is not None and not options.initial:
            self._seen = options.version
            try:
                self._position = self._collection.position_after(options.version)
            except ExpiredError as error:
                self._refusal = errors.expired(str(error))

    def first_lines(self) -> bytes:
        """The current state, if it was asked for."""
        options = self._options
        if not options.initial:
            return b""
        entries = self._collection.entries(options.namespace)
        if options.matches is not None:
            entries = [entry for entry in entries if options.matches(entry.obj)]
        lines = [self._encoder.added(entry) for entry in entries]
        if options.announce_end:
            lines.append(self._encoder.bookmark(self._seen, _INITIAL_EVENTS_END))
        return b"".join(lines)

    def next_lines(self) -> bytes:
        """Everything that happened since the last call; empty if nothing did.

        Raises:
            ExpiredError: the reader fell behind.
        """
        changes = self._collection.changes_from(self._position)[:_BATCH]
        self._position += len(changes)
        if changes:
            self._seen = changes[-1].version
        return b"".join(filter(None, map(self._line, changes)))

    def caught_up(self) -> bool:
        """Whether there is nothing more to report now."""
        return self._position == self._collection.end()

    def bookmark_line(self) -> bytes:
        """A bookmark at the newest version; only for a reader that is caught up."""
        self._seen = self._store.version
        return self._encoder.bookmark(self._seen)

    def _line(self, change: Change) -> bytes | None:
        options = self._options
        if options.namespace is not None and change.key[0] != options.namespace:
            return None
        if options.matches is None:
            return self._encoder.change(change, change.kind, None)
        before = change.previous is not None and options.matches(change.previous.obj)
        if change.kind == "DELETED":
            return self._encoder.change(change, "DELETED", None) if before else None
        after = options.matches(change.entry.obj)
        if after:
            return self._encoder.change(change, "MODIFIED" if before else "ADDED", None)
        if before and change.previous is not None:
            return self._encoder.change(change, "DELETED", entry_of(change.previous.obj, change.version))
        return None

    def stop(self) -> None:
        """End the stream soon, as a server does that goes away."""
        self._stopped = True
        self._changed.set()

    async def stream(self, response: web.StreamResponse) -> None:
        """Write to *response* until the reader's time is up, it falls behind, or `stop` is called."""
        end_watching = self._collection.subscribe(self._changed.set)
        try:
            await self._run(response)
        except ExpiredError:
            return  # the connection ends here; the reader lists again
        finally:
            end_watching()

    async def _run(self, response: web.StreamResponse) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.timeout_s
        next_bookmark = loop.time() + self._options.bookmark_every_s
        if self._refusal is not None:
            await response.write(watch_line("ERROR", encode(self._refusal.status())))
            return
        if lines := self.first_lines():
            await response.write(lines)
        while not self._stopped and loop.time() < end:
            self._changed.clear()
            if lines := self.next_lines():
                await response.write(lines)
            if not self.caught_up():
                continue
            if self._options.bookmarks and loop.time() >= next_bookmark:
                await response.write(self.bookmark_line())
                next_bookmark = loop.time() + self._options.bookmark_every_s
            await _wait(self._changed, min(end, next_bookmark) - loop.time())


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    """Wait for *event*, but no longer than *timeout_s*."""
    try:
        async with asyncio.timeout(max(timeout_s, 0)):
            await event.wait()
    except TimeoutError:
        return
