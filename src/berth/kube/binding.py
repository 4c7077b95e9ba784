"""Binding one pod to one node, and finding out what really happened.

A binding is the one write that must not be repeated blindly: an answer can be lost after the server has carried the
request out. So whenever the outcome is in doubt the pod itself is read, and its uid and node decide. A binding that was
in doubt and has not taken place is sent again to the same node, never given up for another: the first request may
still be under way inside the server.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Backoff, Clock
from berth.kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)

if TYPE_CHECKING:
    from berth.kube.pacing import TokenBucket
    from berth.kube.session import Api

_MAX_POSTS = 5
_BACKOFF_FIRST_S = 0.05
_BACKOFF_CAP_S = 5.0
_HOLD_S = 0.1  # between two looks at whether we may bind again


class BindResult(enum.Enum):
    """What became of a binding, and what the caller does next."""

    BOUND = "bound"  # the pod runs on our node: go on to PostBind
    CONFLICT = "conflict"  # the pod has another node, or the name belongs to another pod: forget ours
    GONE = "gone"  # there is no such pod any more: forget it
    FAILED = "failed"  # refused, not bound when it was last read, or not to be read: requeue with the error


@dataclass(frozen=True, slots=True)
class BindOutcome:
    """The settled outcome of one binding.

    Attributes:
        result: what became of it.
        error: why it is not BOUND; of a CONFLICT or FAILED that a read settled, the error that made us read.
        node: for a CONFLICT, the node that the pod has; empty where the pod is another one.
        posts: how many POSTs it took.
    """

    result: BindResult
    error: KubeError | None = None
    node: str = ""
    posts: int = 1


class _Target(msgspec.Struct):
    kind: str
    name: str


class _BindingMeta(msgspec.Struct):
    name: str
    namespace: str
    uid: str


class _Binding(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _BindingMeta
    target: _Target


class _PodMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _PodMeta
    spec: _PodSpec


@dataclass(slots=True)
class _Attempt:
    """One binding that did not go smoothly, and how its last POST ended."""

    path: str
    body: bytes
    uid: str
    node: str
    may_bind: Callable[[], bool]
    error: KubeError
    posts: int = 1

    def outcome(self, result: BindResult, node: str = "") -> BindOutcome:
        return BindOutcome(result, self.error, node, self.posts)


_encode = msgspec.json.Encoder().encode
_decode_pod = msgspec.json.Decoder(_Pod).decode


class Binder:
    """Sends bindings and settles the doubtful ones."""

    def __init__(self, session: Api, pace: TokenBucket, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._session = session
        self._pace = pace
        self._clock = clock

    async def bind_pod(
        self, namespace: str, name: str, uid: str, node: str, may_bind: Callable[[], bool] = lambda: True
    ) -> BindOutcome:
        """Bind the pod to *node* and return what certainly became of it.

        While the server cannot be reached after an answer was lost, this goes on asking until it is cancelled.

        Args:
            namespace: of the pod.
            name: of the pod.
            uid: of the pod.
            node: where it is to run.
            may_bind: asked right before each POST, after all waiting; while it says no, the binding is held.

        Source: k8s pkg/scheduler/framework/plugins/defaultbinder/default_binder.go, Bind.
        """
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        body = _encode(
            _Binding("v1", "Binding", _BindingMeta(name=name, namespace=namespace, uid=uid), _Target("Node", node))
        )
        await self._turn(may_bind)
        try:
            await self._session.request("POST", path + "/binding", body)
        except KubeError as error:
            return await self._settle(_Attempt(path, body, uid, node, may_bind, error))
        return _BOUND

    async def _turn(self, may_bind: Callable[[], bool]) -> None:
        """Wait until a POST may be sent."""
        await self._pace.acquire()
        while not may_bind():
            await self._clock.sleep(_HOLD_S)

    async def _settle(self, attempt: _Attempt) -> BindOutcome:
        """What became of a binding whose first POST failed."""
        backoff = Backoff(initial_s=_BACKOFF_FIRST_S, cap_s=_BACKOFF_CAP_S, clock=self._clock)
        while True:
            error = attempt.error
            if isinstance(error, NotFoundError):
                return attempt.outcome(BindResult.GONE)
            if _is_in_doubt(error):
                settled = await self._read(attempt, backoff)
                if settled is not None:
                    return settled
            elif not isinstance(error, TooManyRequestsError | TransportError):
                return attempt.outcome(BindResult.FAILED)
            if attempt.posts >= _MAX_POSTS:
                return attempt.outcome(BindResult.FAILED)
            await backoff.wait(_retry_after_s(error))
            await self._turn(attempt.may_bind)
            attempt.posts += 1
            try:
                await self._session.request("POST", attempt.path + "/binding", attempt.body)
            except KubeError as again:
                attempt.error = again
            else:
                return BindOutcome(BindResult.BOUND, posts=attempt.posts)

    async def _read(self, attempt: _Attempt, backoff: Backoff) -> BindOutcome | None:
        """What the pod itself says; None when it has no node yet. Asks until there is an answer, or a refusal."""
        while True:
            try:
                pod = _decode_pod(await self._session.request("GET", attempt.path))
            except NotFoundError:
                return attempt.outcome(BindResult.GONE)
            except ForbiddenError as refused:  # asking again would not help; if it is bound, the next binding says so
                attempt.error = refused
                return attempt.outcome(BindResult.FAILED)
            except (KubeError, msgspec.MsgspecError) as unread:
                await backoff.wait(_retry_after_s(unread))
                continue
            return _told_by(pod, attempt)


def _told_by(pod: _Pod, attempt: _Attempt) -> BindOutcome | None:
    if pod.metadata.uid != attempt.uid:
        return attempt.outcome(BindResult.CONFLICT)
    if pod.spec.node_name == attempt.node:
        return BindOutcome(BindResult.BOUND, posts=attempt.posts)
    if pod.spec.node_name:
        return attempt.outcome(BindResult.CONFLICT, pod.spec.node_name)
    if pod.metadata.deletion_timestamp is not None:
        return attempt.outcome(BindResult.FAILED)
    return None


_BOUND = BindOutcome(BindResult.BOUND)


def _is_in_doubt(error: KubeError) -> bool:
    """Whether a POST that ended with *error* may have been carried out, or met something that only a read explains."""
    if isinstance(error, TransportError):
        return error.may_be_applied
    return isinstance(error, ServerError | ConflictError)


def _retry_after_s(error: Exception) -> float | None:
    return error.retry_after_s if isinstance(error, ApiError) else None
