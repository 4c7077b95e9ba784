"""Events about objects, recorded without ever keeping the caller waiting.

`EventRecorder.event` puts an occurrence into a bounded queue and returns; a few workers post it as `events.k8s.io/v1`.
A second occurrence of the same thing turns the posted event into a series, further ones are only counted and sent by
the sweeps. What does not fit into the queue is dropped and counted: events are a courtesy, scheduling is not.

Source: k8s client-go tools/events, event_broadcaster.go and event_recorder.go.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Clock, micro_time, second_time
from berth.kube.errors import (
    AlreadyExistsError,
    ApiError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from berth.kube.pacing import TokenBucket
from berth.kube.session import STRATEGIC_MERGE_PATCH, Api

_log = logging.getLogger(__name__)

QUEUE_LIMIT = 10_000  # a crowd of pods that make room for others is worth several thousand within seconds
PILED_UP = 2_000  # from so many on, events do not wait for what is more urgent
NOTE_LIMIT_BYTES = 1024
_NOTE_END = b" ..."
_NAME_LIMIT = 253
_WORKERS = 8
_YIELD_S = 0.05
_LONGEST_YIELD_S = 1.0
_MAX_TRIES = 12
_RETRY_S = 10.0
_RETRY_JITTER = 0.25
_RESEND_S = 30 * 60.0
_FINISH_S = 6 * 60.0


class ObjectRef(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which object an event is about: a core/v1 ObjectReference."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class _Occurrence(NamedTuple):
    """One call of `event`, as it waits in the queue."""

    regarding: ObjectRef
    related: ObjectRef | None
    type: str
    reason: str
    action: str
    note: str
    controller: str
    may_repeat: bool
    at_ns: int


class _Meta(msgspec.Struct):
    name: str
    namespace: str


class _Series(msgspec.Struct, rename="camel"):
    count: int
    last_observed_time: str


class _Event(msgspec.Struct, rename="camel", omit_defaults=True):
    api_version: str
    kind: str
    metadata: _Meta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: ObjectRef
    note: str
    type: str
    related: ObjectRef | None = None
    series: _Series | None = None


class _Source(msgspec.Struct):
    component: str


class _CoreEvent(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _Meta
    involved_object: ObjectRef
    reason: str
    message: str
    source: _Source
    first_timestamp: str
    last_timestamp: str
    count: int
    type: str


@dataclass(slots=True)
class _Known:
    """What has been posted, for as long as it may repeat."""

    event: _Event
    last_ns: int


@dataclass(slots=True)
class _Job:
    """One event to write: posted when it is new, patched when it became a series."""

    event: _Event | _CoreEvent
    is_patch: bool = False
    tries: int = 0


_Key: TypeAlias = tuple[str, str, str, str, ObjectRef, "ObjectRef | None"]

_encode = msgspec.json.Encoder().encode


def cut_note(note: str) -> str:
    """*note*, at most 1024 bytes of UTF-8; a longer one keeps its first 1020 and ends in ` ...`."""
    raw = note.encode("utf-8", "replace")
    if len(raw) <= NOTE_LIMIT_BYTES:
        return note
    return (raw[: NOTE_LIMIT_BYTES - len(_NOTE_END)].decode("utf-8", "ignore").encode() + _NOTE_END).decode()


def event_name(regarding_name: str, at_ns: int) -> str:
    """The name of an event: that of its object and the time in hexadecimal nanoseconds; a UUID where it is too long."""
    name = f"{regarding_name}.{at_ns:x}"
    return name if len(name) <= _NAME_LIMIT else str(uuid.uuid4())


class EventRecorder:
    """Posts events in the background.

    Attributes:
        dropped: occurrences that found the queue full.
        failed: events that were given up: refused by the server, or tried twelve times.
        posted: events written for the first time.
    """

    def __init__(
        self,
        session: Api,
        *,
        hostname: str,
        qps: float,
        burst: int,
        clock: Clock = SYSTEM_CLOCK,
        workers: int = _WORKERS,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make a recorder; nothing is posted until `run`.

        Args:
            session: where to post.
            hostname: of this machine: the reporting instance is `<controller>-<hostname>`.
            qps: events per second in the long run, negative for no limit; events have a budget of their own.
            burst: events at once.
            clock: for pacing, retries, sweeps and time stamps.
            workers: how many events may be under way at a time.
            busy: whether the API server has more urgent things to do for us; all workers but one then hold back for a
                moment, unless events pile up.
        """
        self.dropped = 0
        self.failed = 0
        self.posted = 0
        self._session = session
        self._hostname = hostname
        self._pace = TokenBucket(qps, burst, clock=clock)
        self._clock = clock
        self._workers, self._busy = workers, busy
        self._queue: asyncio.Queue[_Occurrence | _Job] = asyncio.Queue(QUEUE_LIMIT)
        self._retries: set[asyncio.Task[None]] = set()
        self._known: dict[_Key, _Known] = {}

    def event(
        self,
        regarding: ObjectRef,
        event_type: str,
        reason: str,
        action: str,
        note: str,
        *,
        controller: str,
        related: ObjectRef | None = None,
        may_repeat: bool = True,
    ) -> None:
        """Record that something happened to *regarding*; returns at once, and never fails.

        Args:
            regarding: the object it happened to.
            event_type: `Normal` or `Warning`.
            reason: a word for machines.
            action: what was being done.
            note: a sentence for people; cut to 1024 bytes.
            controller: who reports, such as the scheduler name of the profile.
            related: a second object.
            may_repeat: False when the same thing cannot happen to the same object again, so that nothing needs to be
                remembered for it.
        """
        self._put(
            _Occurrence(
                regarding,
                related,
                event_type,
                reason,
                action,
                note,
                controller,
                may_repeat,
                self._clock.wall_ns(),
            )
        )

    def core_event(self, regarding: ObjectRef, event_type: str, reason: str, message: str, *, component: str) -> None:
        """Record a `core/v1` event, the older form in which leader election reports."""
        at_ns = self._clock.wall_ns()
        at = second_time(at_ns)
        event = _CoreEvent(
            api_version="v1",
            kind="Event",
            metadata=_meta(regarding, at_ns),
            involved_object=regarding,
            reason=reason,
            message=cut_note(message),
            source=_Source(component),
            first_timestamp=at,
            last_timestamp=at,
            count=1,
            type=event_type,
        )
        self._put(_Job(event))

    async def run(self) -> None:
        """Post events until cancelled; what then waits for another try is given up."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(self._workers):
                    tasks.create_task(self._work(yields=number > 0))
                tasks.create_task(self._sweep(_RESEND_S, self._resend_series))
                tasks.create_task(self._sweep(_FINISH_S, self._finish_idle))
        finally:
            for retry in self._retries:
                retry.cancel()

    async def drain(self) -> None:
        """Wait until everything that is queued now has been tried once; `run` has to be running."""
        await self._queue.join()

    def _put(self, item: _Occurrence | _Job) -> None:
        try:
            self._queue.put_nowait(item)
        except asyncio.QueueFull:
            self.dropped += 1

    # -- workers ------------------------------------------------------------------------------------------------

    async def _work(self, *, yields: bool) -> None:
        while True:
            item = await self._queue.get()
            try:
                if yields:
                    await self._let_urgent_things_pass()
                job = item if isinstance(item, _Job) else self._job_for(item)
                if job is not None:
                    await self._try(job)
            finally:
                self._queue.task_done()

    async def _let_urgent_things_pass(self) -> None:
        waited_s = 0.0
        while waited_s < _LONGEST_YIELD_S and self._busy() and self._queue.qsize() < PILED_UP:
            await self._clock.sleep(_YIELD_S)
            waited_s += _YIELD_S

    def _job_for(self, seen: _Occurrence) -> _Job | None:
        """What has to be written for an occurrence: an event, the start of a series, or nothing."""
        key = (seen.type, seen.action, seen.reason, seen.controller, seen.regarding, seen.related)
        known = self._known.get(key) if seen.may_repeat else None
        if known is None:
            event = self._event_for(seen)
            if seen.may_repeat:
                self._known[key] = _Known(event, seen.at_ns)
            return _Job(event)
        known.last_ns = seen.at_ns
        starts_series = known.event.series is None
        count = 2 if known.event.series is None else known.event.series.count + 1
        known.event.series = _Series(count, micro_time(seen.at_ns))
        return _Job(known.event, is_patch=True) if starts_series else None

    def _event_for(self, seen: _Occurrence) -> _Event:
        return _Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=_meta(seen.regarding, seen.at_ns),
            event_time=micro_time(seen.at_ns),
            reporting_controller=seen.controller,
            reporting_instance=f"{seen.controller}-{self._hostname}",
            action=seen.action,
            reason=seen.reason,
            regarding=seen.regarding,
            related=seen.related,
            note=cut_note(seen.note),
            type=seen.type,
        )

    async def _try(self, job: _Job) -> None:
        """Write one event; one that may succeed later comes back later."""
        job.tries += 1
        await self._pace.acquire()
        try:
            await self._write(job)
        except AlreadyExistsError:
            pass  # an earlier try was carried out and its answer lost
        except (TransportError, ServerError, TooManyRequestsError) as error:
            if job.tries >= _MAX_TRIES:
                self._give_up(job, error)
                return
            task = asyncio.get_running_loop().create_task(self._come_back(job, error))
            self._retries.add(task)
            task.add_done_callback(self._retries.discard)
        except KubeError as error:
            self._give_up(job, error)

    async def _write(self, job: _Job) -> None:
        event = job.event
        group = "/api/v1" if isinstance(event, _CoreEvent) else "/apis/events.k8s.io/v1"
        path = f"{group}/namespaces/{event.metadata.namespace}/events"
        if job.is_patch and isinstance(event, _Event):
            body = _encode({"series": event.series})
            try:
                await self._session.request(
                    "PATCH", f"{path}/{event.metadata.name}", body, content_type=STRATEGIC_MERGE_PATCH
                )
            except NotFoundError:
                job.is_patch = False  # the server has forgotten the event, or not seen it yet
            else:
                return
        await self._session.request("POST", path, _encode(event))
        self.posted += 1

    async def _come_back(self, job: _Job, error: KubeError) -> None:
        delay_s = _RETRY_S * (1.0 + _RETRY_JITTER * self._clock.chance())
        if isinstance(error, ApiError) and error.retry_after_s is not None:
            delay_s = max(delay_s, error.retry_after_s)
        await self._clock.sleep(delay_s)
        self._put(job)

    def _give_up(self, job: _Job, error: KubeError) -> None:
        self.failed += 1
        _log.warning("event %s is given up after %d tries: %s", job.event.metadata.name, job.tries, error)

    # -- sweeps -------------------------------------------------------------------------------------------------

    async def _sweep(self, interval_s: float, sweep: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(interval_s)
            sweep()

    def _resend_series(self) -> None:
        """Tell the server how far the running series have counted."""
        for known in self._known.values():
            if known.event.series is not None:
                self._put(_Job(known.event, is_patch=True))

    def _finish_idle(self) -> None:
        """Forget what has not happened again for six minutes; a series is sent a last time."""
        idle_since_ns = self._clock.wall_ns() - int(_FINISH_S * 1e9)
        for key, known in list(self._known.items()):
            if known.last_ns < idle_since_ns:
                del self._known[key]
                if known.event.series is not None:
                    self._put(_Job(known.event, is_patch=True))


def _meta(regarding: ObjectRef, at_ns: int) -> _Meta:
    return _Meta(name=event_name(regarding.name, at_ns), namespace=regarding.namespace or "default")
