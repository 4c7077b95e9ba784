"""Writes to one API server: paced, retried where that is safe, merged and in order per pod.

The binding cycle calls `bind_pod` and waits; status patches are queued and return at once with a future that nobody
has to await. Patches of one pod are sent one after the other, and those that still wait are merged into one. A binding
makes waiting patches of its pod pointless and is never overtaken by one. Deciding what to write is the callers' work.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from berth.kube.binding import Binder, BindOutcome
from berth.kube.clock import SYSTEM_CLOCK, Backoff, Clock, second_time
from berth.kube.errors import (
    ApiError,
    ConflictError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from berth.kube.pacing import TokenBucket
from berth.kube.session import JSON, STRATEGIC_MERGE_PATCH, Api
from berth.kube.status_patch import KnownStatus, StatusChange, apply_change, patch_body

_MAX_TRIES = 4
_BACKOFF_FIRST_S = 0.01
_BACKOFF_FACTOR = 5.0
_BACKOFF_CAP_S = 5.0
_BACKOFF_JITTER = 0.1
_PATCHES_IN_FLIGHT = 16


class PatchResult(enum.Enum):
    """What became of a status patch."""

    WRITTEN = "written"
    NO_EFFECT = "no effect"  # the status is as wanted already: nothing was sent
    SUPERSEDED = "superseded"  # a newer patch or a binding of the pod took its place before it was sent
    SKIPPED = "skipped"  # the pod is being bound: nothing was sent
    GONE = "gone"  # there is no such pod any more
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PatchOutcome:
    """The outcome of one status patch; `error` says why it is GONE or FAILED."""

    result: PatchResult
    error: KubeError | None = None


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata


@dataclass(slots=True, eq=False)
class _Patch:
    """A status patch that has not been sent yet."""

    known: KnownStatus
    change: StatusChange
    done: asyncio.Future[PatchOutcome]


@dataclass(slots=True, eq=False)
class _Lane:
    """What is under way for one pod: at most one write, and at most one patch that waits behind it."""

    path: str
    waiting: _Patch | None = None
    task: asyncio.Task[None] | None = None  # sends patches while there are any
    sending: bool = False  # the task has had its turn: a patch is under way
    binding: bool = False


class Dispatcher:
    """The one way by which the scheduler writes."""

    def __init__(self, session: Api, *, qps: float, burst: int, clock: Clock = SYSTEM_CLOCK) -> None:
        """Make a dispatcher for *session*.

        Args:
            session: where to write.
            qps: writes per second in the long run, negative for no limit (`clientConnection.qps`).
            burst: writes at once (`clientConnection.burst`).
            clock: for pacing, backoff and time stamps.
        """
        self._session = session
        self._clock = clock
        self._pace = TokenBucket(qps, burst, clock=clock)
        self._binder = Binder(session, self._pace, clock=clock)
        self._lanes: dict[str, _Lane] = {}
        self._room = asyncio.Semaphore(_PATCHES_IN_FLIGHT)

    @property
    def backlog(self) -> int:
        """For how many pods a binding or a status patch is under way or waits for its turn."""
        return len(self._lanes)

    async def close(self) -> None:
        """Give up all patches that are queued or under way; their futures are cancelled."""
        tasks = [lane.task for lane in self._lanes.values() if lane.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def bind_pod(
        self, namespace: str, name: str, uid: str, node: str, may_bind: Callable[[], bool] = lambda: True
    ) -> BindOutcome:
        """Bind a pod, after the patch of it that is under way and instead of the one that waits. See `Binder`."""
        lane = self._lanes.get(uid)
        if lane is None:
            lane = self._lanes[uid] = _Lane("")
        lane.binding = True
        try:
            _drop_waiting(lane)
            if lane.task is not None:
                if not lane.sending:
                    lane.task.cancel()  # it only queues for its turn, and has nothing to send any more
                await asyncio.wait([lane.task])
            return await self._binder.bind_pod(namespace, name, uid, node, may_bind)
        finally:
            lane.binding = False
            if lane.task is None:
                self._lanes.pop(uid, None)

    def patch_status(
        self, namespace: str, name: str, uid: str, known: KnownStatus, change: StatusChange
    ) -> asyncio.Future[PatchOutcome]:
        """Queue a change of a pod's status and return at once.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: of the pod; patches of the same uid are merged and kept in order.
            known: the newest known status, which the patch is the difference to.
            change: what shall be different.

        Returns:
            The outcome, once there is one; it is never an exception. It may be dropped.

        Source: k8s pkg/scheduler/backend/api_dispatcher, call_queue.go (merging and relevance of calls).
        """
        done: asyncio.Future[PatchOutcome] = asyncio.get_running_loop().create_future()
        lane = self._lanes.get(uid)
        if lane is None:
            lane = self._lanes[uid] = _Lane(f"/api/v1/namespaces/{namespace}/pods/{name}/status")
        if lane.binding:
            done.set_result(PatchOutcome(PatchResult.SKIPPED))
            return done
        if lane.waiting is not None:
            change = change.over(lane.waiting.change)
            _drop_waiting(lane)
        lane.waiting = _Patch(known, change, done)
        if lane.task is None:
            lane.task = asyncio.create_task(self._send_patches(uid, lane))
        return done

    async def delete_pod(self, namespace: str, name: str, uid: str) -> bool:
        """Delete this very pod, with its own grace period; False when it is gone already.

        Raises:
            ApiError: the server refuses, or does not say whether this pod is there.
            TransportError: the server cannot be reached.
        """
        body = msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": uid}})
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        try:
            await self.write("DELETE", path, body)
        except NotFoundError:
            return False
        except ConflictError:  # the name belongs to another pod by now, or somebody else wrote at the same moment
            if await self._is_there(path, uid):
                raise
            return False
        return True

    async def _is_there(self, path: str, uid: str) -> bool:
        try:
            found = _decode_object(await self._session.request("GET", path))
        except NotFoundError:
            return False
        return found.metadata.uid == uid

    async def write(
        self, method: str, path: str, body: bytes | None, *, content_type: str = JSON, retry_conflict: bool = False
    ) -> bytes:
        """Send a write that may safely be repeated, paced, up to four times, and return the answer's body.

        Args:
            method: `PUT`, `PATCH` or `DELETE`; a `POST` only where a repetition does no harm.
            path: percent-encoded.
            body: of the request.
            content_type: of *body*.
            retry_conflict: repeat after a 409 too, for patches that name no resourceVersion.

        Raises:
            ApiError: the server refuses, or still cannot answer properly.
            TransportError: the server still cannot be reached.
        """
        backoff = Backoff(
            initial_s=_BACKOFF_FIRST_S,
            cap_s=_BACKOFF_CAP_S,
            factor=_BACKOFF_FACTOR,
            jitter=_BACKOFF_JITTER,
            clock=self._clock,
        )
        tries = 1
        while True:
            await self._pace.acquire()
            try:
                return await self._session.request(method, path, body, content_type=content_type)
            except (TransportError, ServerError, TooManyRequestsError, ConflictError) as error:
                if tries >= _MAX_TRIES or (isinstance(error, ConflictError) and not retry_conflict):
                    raise
                tries += 1
                await backoff.wait(error.retry_after_s if isinstance(error, ApiError) else None)

    # -- patches ------------------------------------------------------------------------------------------------

    async def _send_patches(self, uid: str, lane: _Lane) -> None:
        """Send the waiting patch of one pod, and whatever comes to wait meanwhile."""
        try:
            async with self._room:
                lane.sending = True
                while (patch := lane.waiting) is not None:
                    lane.waiting = None
                    await self._send_patch(lane, patch)
        finally:
            lane.task, lane.sending = None, False
            if lane.waiting is not None:
                lane.waiting.done.cancel()
                lane.waiting = None
            if not lane.binding:
                self._lanes.pop(uid, None)

    async def _send_patch(self, lane: _Lane, patch: _Patch) -> None:
        """Send one patch and settle its future."""
        now = second_time(self._clock.wall_ns())
        after = apply_change(patch.known, patch.change, now)
        try:
            outcome = _NO_EFFECT if after is None else await self._write_status(lane.path, patch.known, after)
        except BaseException:
            patch.done.cancel()
            raise
        if outcome.result is PatchResult.WRITTEN and lane.waiting is not None:
            # What waits was asked for before this was written: its difference must be taken to what is there now.
            waiting = lane.waiting
            waiting.known = apply_change(waiting.known, patch.change, now) or waiting.known
        if not patch.done.done():
            patch.done.set_result(outcome)

    async def _write_status(self, path: str, before: KnownStatus, after: KnownStatus) -> PatchOutcome:
        body = patch_body(before, after)
        try:
            await self.write("PATCH", path, body, content_type=STRATEGIC_MERGE_PATCH, retry_conflict=True)
        except NotFoundError as error:
            return PatchOutcome(PatchResult.GONE, error)
        except KubeError as error:
            return PatchOutcome(PatchResult.FAILED, error)
        return _WRITTEN


def _drop_waiting(lane: _Lane) -> None:
    """Tell whoever asked for the patch that waits that it will not be sent."""
    if lane.waiting is not None:
        if not lane.waiting.done.done():
            lane.waiting.done.set_result(PatchOutcome(PatchResult.SUPERSEDED))
        lane.waiting = None


_decode_object = msgspec.json.Decoder(_Object).decode
_WRITTEN = PatchOutcome(PatchResult.WRITTEN)
_NO_EFFECT = PatchOutcome(PatchResult.NO_EFFECT)
