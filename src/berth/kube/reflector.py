"""A local copy of one kind of object, kept equal to the API server's by list and watch.

A `Reflector` lists in pages, watches from there with bookmarks, resumes where a cut happened, and lists again only
when the server has forgotten (410): then the difference to the copy is delivered, so that handlers never see the seam.
Objects are decoded straight from the watch's bytes into a msgspec type; one that cannot be decoded is reported and
skipped. Handlers are plain functions, called in order; an exception from one is a bug and ends `run`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Backoff, Clock
from berth.kube.errors import (
    ApiError,
    ForbiddenError,
    GoneError,
    KubeError,
    NotFoundError,
    ServerError,
    Status,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
    error_from_status,
)

if TYPE_CHECKING:
    from berth.kube.session import Api

_log = logging.getLogger(__name__)

PAGE_LIMIT = 500
_LIST_TIMEOUT_S = 60.0
_WATCH_TIMEOUT_S = 300.0  # asked of the server, stretched by up to as much again so that watches do not end together
_IDLE_MARGIN_S = 30.0
_YIELD_AFTER_LINES = 64  # lines handled in one go before other tasks get the loop
_SHORT_WATCH_S = 1.0  # a watch that ends sooner, with nothing said, counts as a failure
_BACKOFF_FIRST_S = 0.4
_BACKOFF_CAP_S = 10.0


class Metadata(Protocol):
    """What a reflector reads of an object's `metadata`."""

    @property
    def name(self) -> str:
        """Unique in its namespace, at one time."""

    @property
    def namespace(self) -> str:
        """Empty for cluster-wide objects."""

    @property
    def uid(self) -> str:
        """Unique for ever."""

    @property
    def resource_version(self) -> str:
        """Changes with every change."""


class KubeObject(Protocol):
    """Anything with `metadata`."""

    @property
    def metadata(self) -> Metadata:
        """Name, uid and version."""


T = TypeVar("T", bound=KubeObject)
T_contra = TypeVar("T_contra", bound=KubeObject, contravariant=True)
AnyT = TypeVar("AnyT")  # also msgspec.Raw, where an object is looked at twice
Key: TypeAlias = tuple[str, str]  # namespace (empty for cluster-wide objects), name


class Handler(Protocol[T_contra]):
    """Who wants to know. The calls come one at a time, in the order of the server's changes."""

    def on_add(self, obj: T_contra, is_initial: bool) -> None:
        """*obj* is new; *is_initial* until the first list is complete."""

    def on_update(self, old: T_contra, new: T_contra) -> None:
        """*new* replaces *old*, the same object earlier; changes in between may have been missed."""

    def on_delete(self, obj: T_contra, final_state_unknown: bool) -> None:
        """*obj* is gone, or left the selector; with *final_state_unknown* it is only the last state that we saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """What to list and watch.

    Attributes:
        path: of the collection, such as `/api/v1/pods`.
        kind: the msgspec type of one object.
        field_selector: as the API takes it, such as `status.phase!=Succeeded`.
        label_selector: the same for labels.
        transform: applied to every object before it is stored and delivered, to strip it or to share parts of it with
            other objects; it keeps the identity.
    """

    path: str
    kind: type[T]
    field_selector: str = ""
    label_selector: str = ""
    transform: Callable[[T], T] | None = None

    def list_path(self, limit: int, token: str) -> str:
        """Path and query of one page; *limit* 0 asks for everything at once."""
        query = self._selectors()
        if limit:
            query["limit"] = str(limit)
        if token:
            query["continue"] = token
        return self.path + "?" + urlencode(query, quote_via=quote) if query else self.path

    def watch_path(self, resource_version: str, timeout_s: int) -> str:
        """Path and query of a watch from *resource_version* on."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_s),
            **self._selectors(),
        }
        return self.path + "?" + urlencode(query, quote_via=quote)

    def _selectors(self) -> dict[str, str]:
        pairs = {"fieldSelector": self.field_selector, "labelSelector": self.label_selector}
        return {name: value for name, value in pairs.items() if value}


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[AnyT]):
    metadata: _ListMeta
    items: list[AnyT]


class _Event(msgspec.Struct, Generic[AnyT], gc=False):
    type: str
    object: AnyT


class _PartialMetadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _PartialObject(msgspec.Struct):
    metadata: _PartialMetadata = msgspec.field(default_factory=_PartialMetadata)


_decode_raw_page = msgspec.json.Decoder(_Page[msgspec.Raw]).decode
_decode_raw_event = msgspec.json.Decoder(_Event[msgspec.Raw]).decode
_decode_partial = msgspec.json.Decoder(_PartialObject).decode
_decode_status = msgspec.json.Decoder(Status).decode

Malformed: TypeAlias = Callable[[bytes, Exception], None]
Problem: TypeAlias = Callable[[str, KubeError], None]
Recovery: TypeAlias = Callable[[str], None]


class Reflector(Generic[T]):
    """Keeps `store` equal to what the API server holds, and tells the handlers about every difference.

    Attributes:
        store: the last known object by (namespace, name); read it, never write to it.
    """

    def __init__(
        self,
        session: Api,
        resource: Resource[T],
        handlers: list[Handler[T]],
        *,
        clock: Clock = SYSTEM_CLOCK,
        on_malformed: Malformed | None = None,
        on_problem: Problem | None = None,
        on_recovery: Recovery | None = None,
        page_limit: int = PAGE_LIMIT,
    ) -> None:
        """Make a reflector; nothing happens until `run`.

        Args:
            session: where to ask.
            resource: what to ask for.
            handlers: called in this order.
            clock: for backoff and jitter.
            on_malformed: told of each object that could not be decoded: its bytes, and why. Logged when not given.
            on_problem: told of each failed list or watch: which, and why. Logged when not given.
            on_recovery: told which list or watch works again.
            page_limit: objects per page of a list.
        """
        self.store: dict[Key, T] = {}
        self._session = session
        self._resource = resource
        self._transform = resource.transform
        self._handlers = handlers
        self._clock = clock
        self._on_malformed = on_malformed or self._log_malformed
        self._on_problem = on_problem or self._log_problem
        self._on_recovery = on_recovery
        self._failing: set[str] = set()  # the lists and watches that did not work when last tried
        self._page_limit = page_limit
        self._backoff = Backoff(initial_s=_BACKOFF_FIRST_S, cap_s=_BACKOFF_CAP_S, clock=clock)
        self._forgotten = False  # whether the last thing that went wrong was that the server had forgotten
        self._resource_version = ""  # where to watch from; empty when a list is due
        self._synced = asyncio.Event()
        kind: Any = resource.kind
        self._decode_page: Callable[[bytes], _Page[T]] = msgspec.json.Decoder(_Page[kind]).decode
        self._decode_event: Callable[[bytes], _Event[T]] = msgspec.json.Decoder(_Event[kind]).decode
        self._decode_object: Callable[[bytes | msgspec.Raw], T] = msgspec.json.Decoder(kind).decode

    @property
    def has_synced(self) -> bool:
        """Whether the first list has been delivered to the handlers in full."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until `has_synced`."""
        await self._synced.wait()

    async def run(self) -> None:
        """List and watch until cancelled, whatever the server does."""
        while True:
            watching = bool(self._resource_version)
            try:
                if not watching:
                    await self._list()
                    self._works("list")
                elif not await self._watch():
                    await self._backoff.wait()
            except KubeError as error:
                what = f"{'watch' if watching else 'list'} {self._resource.path}"
                self._failing.add(what)
                self._on_problem(what, error)
                await self._recover_from(error)

    def _works(self, verb: str) -> None:
        """The list or the watch does what it should; whoever was told otherwise is told so."""
        if self._failing and (what := f"{verb} {self._resource.path}") in self._failing:
            self._failing.discard(what)
            if self._on_recovery is not None:
                self._on_recovery(what)

    async def _recover_from(self, error: KubeError) -> None:
        """Decide between watching on and listing again, and wait before doing either.

        A server that has forgotten answers again after whatever made us wait for longer and longer: that is over, and
        every second until the list is read is one in which decisions rest on the past.
        """
        if isinstance(error, GoneError) and not self._forgotten:
            self._backoff.reset()
        self._forgotten = isinstance(error, GoneError)
        if isinstance(error, ApiError) and not isinstance(error, _KEEPS_POSITION):
            self._resource_version = ""
        await self._backoff.wait(error.retry_after_s if isinstance(error, ApiError) else None)

    # -- list ---------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Read all pages and deliver the difference to the store; objects missing from all pages are gone.

        A list that works does not end the backoff: a server that lists well and refuses every watch must not be
        listed without pause.
        """
        seen: set[Key] = set()
        limit, token = self._page_limit, ""
        while True:
            try:
                body = await self._session.request(
                    "GET", self._resource.list_path(limit, token), timeout_s=_LIST_TIMEOUT_S
                )
            except GoneError:
                if not token:
                    raise
                # The pages outlived the server's memory: ask for all of it at once. What was delivered stays valid.
                seen.clear()
                limit, token = 0, ""
                continue
            meta = await self._take_page(body, seen)
            token = meta.continue_
            if not token:
                break
        for key in [key for key in self.store if key not in seen]:
            self._drop(key)
        self._resource_version = meta.resource_version
        self._synced.set()

    async def _take_page(self, body: bytes, seen: set[Key]) -> _ListMeta:
        try:
            page = self._decode_page(body)
        except msgspec.ValidationError:
            page = self._salvage_page(body, seen)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TransportError(f"list {self._resource.path}: no JSON: {error}", may_be_applied=False) from error
        for count, obj in enumerate(page.items, 1):
            meta = obj.metadata
            seen.add((meta.namespace, meta.name))
            self._take(obj)
            if count % _YIELD_AFTER_LINES == 0:
                await asyncio.sleep(0)
        return page.metadata

    def _salvage_page(self, body: bytes, seen: set[Key]) -> _Page[T]:
        """Decode a page object by object, leaving out the malformed ones; those we know keep their last state."""
        try:
            raw = _decode_raw_page(body)
        except msgspec.MsgspecError as error:
            raise TransportError(f"list {self._resource.path}: no list: {error}", may_be_applied=False) from error
        items: list[T] = []
        for item in raw.items:
            try:
                items.append(self._decode_object(item))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._on_malformed(bytes(item), error)
                meta = _partial_metadata(item)
                seen.add((meta.namespace, meta.name))
        return _Page(raw.metadata, items)

    # -- watch --------------------------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Follow the server until it ends the stream; False when it ended at once and had nothing new."""
        timeout_s = _WATCH_TIMEOUT_S * (1.0 + self._clock.chance())
        path = self._resource.watch_path(self._resource_version, int(timeout_s))
        started_s, started_from = self._clock.monotonic(), self._resource_version
        lines = 0
        splitter = LineSplitter()
        async with self._session.stream(path, idle_timeout_s=timeout_s + _IDLE_MARGIN_S) as chunks:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    self._take_line(line)
                    lines += 1
                    if lines % _YIELD_AFTER_LINES == 0:
                        await asyncio.sleep(0)
                if self._resource_version != started_from:
                    self._backoff.reset()
                    self._works("watch")
        lasted = self._clock.monotonic() - started_s >= _SHORT_WATCH_S
        if lasted:
            self._backoff.reset()
            self._works("watch")
        return lasted or self._resource_version != started_from

    def _take_line(self, line: bytes) -> None:
        try:
            event = self._decode_event(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._take_odd_line(line, error)
            return
        obj = event.object
        kind = event.type
        if kind == "MODIFIED" or kind == "ADDED":  # noqa: PLR1714  cheaper than a membership test, and hot
            self._resource_version = obj.metadata.resource_version
            self._take(obj)
        elif kind == "DELETED":
            self._resource_version = obj.metadata.resource_version
            self._take_deletion(obj)
        else:
            self._take_odd_line(line, None)

    def _take_odd_line(self, line: bytes, error: Exception | None) -> None:
        """A bookmark, an ERROR, or an object that could not be decoded into our type (*error* says why)."""
        try:
            event = _decode_raw_event(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as no_event:
            self._on_malformed(line, no_event)
            return
        if event.type == "ERROR":
            raise _error_of(event.object)
        meta = _partial_metadata(event.object)
        if event.type == "BOOKMARK":
            self._take_bookmark(meta.resource_version)
            return
        self._on_malformed(line, error or ValueError(f"unknown watch event type {event.type!r}"))
        self._resource_version = meta.resource_version or self._resource_version
        key = (meta.namespace, meta.name)
        if event.type == "DELETED" and key in self.store:
            self._drop(key)

    def _take_bookmark(self, resource_version: str) -> None:
        """Move on to *resource_version*; one that lies behind us means that the server's past was replaced."""
        if _is_older(resource_version, self._resource_version):
            raise GoneError(410, "Expired", f"bookmark {resource_version} lies before {self._resource_version}")
        self._resource_version = resource_version or self._resource_version

    # -- store --------------------------------------------------------------------------------------------------

    def _take(self, obj: T) -> None:
        """Put *obj* into the store and tell the handlers what that changed."""
        if self._transform is not None:
            obj = self._transform(obj)
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        old = self.store.get(key)
        if old is not None:
            old_meta = old.metadata
            if old_meta.uid == meta.uid:
                if old_meta.resource_version != meta.resource_version:
                    self.store[key] = obj
                    for handler in self._handlers:
                        handler.on_update(old, obj)
                return
            self._drop(key)
        self.store[key] = obj
        is_initial = not self._synced.is_set()
        for handler in self._handlers:
            handler.on_add(obj, is_initial)

    def _take_deletion(self, obj: T) -> None:
        """Remove *obj*, unless what we hold under its name is another, later object."""
        meta = obj.metadata
        key = (meta.namespace, meta.name)
        old = self.store.get(key)
        if old is None or old.metadata.uid != meta.uid:
            return
        del self.store[key]
        for handler in self._handlers:
            handler.on_delete(obj, False)

    def _drop(self, key: Key) -> None:
        """Remove an object whose end we did not see."""
        old = self.store.pop(key)
        for handler in self._handlers:
            handler.on_delete(old, True)

    def _log_malformed(self, raw: bytes, error: Exception) -> None:
        _log.warning("%s: an object cannot be read and is left out: %s: %.200r", self._resource.path, error, raw)

    def _log_problem(self, what: str, error: KubeError) -> None:
        _log.warning("%s: %s", what, error)


# After these the position in the stream is still good; after any other answer the list is read again.
_KEEPS_POSITION = (ServerError, TooManyRequestsError, UnauthorizedError, ForbiddenError, NotFoundError)


class LineSplitter:
    """Cuts a stream of chunks into lines; a line may span any number of chunks."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that *chunk* completes, without their line ends; blank ones are left out."""
        lines = chunk.split(b"\n")
        if len(lines) > 1 and self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        if tail := lines.pop():
            self._parts.append(tail)
        return [line for line in lines if line]


def _partial_metadata(raw: bytes | msgspec.Raw) -> _PartialMetadata:
    """As much of an object's identity as can be read; empty fields where even that fails."""
    try:
        return _decode_partial(raw).metadata
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _PartialMetadata()


def _error_of(raw: msgspec.Raw) -> ApiError:
    try:
        return error_from_status(_decode_status(raw))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ServerError(500, "", f"unreadable ERROR event: {bytes(raw)[:200]!r}")


def _is_older(candidate: str, current: str) -> bool:
    """Whether both are numbers and *candidate* is the smaller one. Source: KEP-5504, comparable resource versions."""
    return candidate.isdecimal() and current.isdecimal() and int(candidate) < int(current)
