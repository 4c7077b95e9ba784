"""Asking the API server about a request that we were sent: reviews, and a memory of their answers.

Authentication and authorization both work this way: POST a review, read its status, remember it for some seconds. Here
is what they share; what a review says and what follows from it is theirs.

Source: k8s apiserver pkg/util/webhook/webhook.go; pkg/authentication/token/cache.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Backoff, Clock
from berth.kube.errors import ApiError, KubeError, ServerError, TooManyRequestsError, TransportError
from berth.kube.pacing import TokenBucket
from berth.runtime.metrics.client import NO_ANSWER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from berth.kube.session import Api
    from berth.runtime.metrics.access import AccessMetrics

REVIEW_QPS: Final = 200.0
REVIEW_BURST: Final = 400
_TIMEOUT_S: Final = 10.0
_TRIES: Final = 5
_FIRST_PAUSE_S: Final = 0.5
_PAUSE_FACTOR: Final = 1.5
_PAUSE_JITTER: Final = 0.2
_CREATED: Final = "201"

V = TypeVar("V")
S = TypeVar("S", bound=msgspec.Struct)


class ReviewError(Exception):
    """The API server could not be asked, or gave no sensible answer; the text says which review and why."""


class Reviewer(Generic[S]):
    """Sends one kind of review.

    Args:
        api: the API server.
        pace: shared by all kinds of review.
        name: ``authn`` or ``authz``, for the metrics.
        path: of the collection that reviews are posted to.
        kind: of the review, such as ``TokenReview``.
        status: the type of its ``status``.
        metrics: hear of each request.
        clock: for the pauses between tries.
    """

    def __init__(
        self,
        api: Api,
        pace: TokenBucket,
        *,
        name: str,
        path: str,
        kind: str,
        status: type[S],
        metrics: AccessMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api, self._pace, self._clock, self._metrics = api, pace, clock, metrics
        self._name, self._path = name, path
        group = path.removeprefix("/apis/").rpartition("/")[0]
        self._head = {"apiVersion": group, "kind": kind}
        answer: Any = msgspec.defstruct(kind, [("status", status)])
        self._decode = msgspec.json.Decoder(answer).decode

    async def review(self, spec: dict[str, Any]) -> S:
        """Post a review with *spec*, again where a later try may help, and return its status.

        Raises:
            ReviewError: there is no answer.
        """
        body = msgspec.json.encode({**self._head, "spec": spec})
        backoff = Backoff(
            initial_s=_FIRST_PAUSE_S, cap_s=math.inf, factor=_PAUSE_FACTOR, jitter=_PAUSE_JITTER, clock=self._clock
        )
        for tries_left in reversed(range(_TRIES)):
            try:
                status: S = self._decode(await self._post(body)).status
            except (ServerError, TooManyRequestsError, TransportError) as error:
                if not tries_left:
                    raise ReviewError(f"{self._head['kind']}: {error}") from error
                await backoff.wait(error.retry_after_s if isinstance(error, ApiError) else None)
            except (KubeError, msgspec.MsgspecError) as error:
                raise ReviewError(f"{self._head['kind']}: {error}") from error
            else:
                return status
        raise AssertionError("the last try returns or raises")

    async def _post(self, body: bytes) -> bytes:
        await self._pace.acquire()
        began_s, code = self._clock.monotonic(), _CREATED
        try:
            return await self._api.request("POST", self._path, body, timeout_s=_TIMEOUT_S)
        except KubeError as error:
            code = str(error.status) if isinstance(error, ApiError) else NO_ANSWER
            raise
        finally:
            if self._metrics is not None:
                self._metrics.reviewed(self._name, code, self._clock.monotonic() - began_s)


class Memory(Generic[V]):
    """Answers by key, each for its own time; questions asked twice at once are asked once.

    Args:
        monotonic: seconds that never go backwards.
        limit: how many answers are kept; the oldest go first.
    """

    def __init__(self, monotonic: Callable[[], float], limit: int = 4096) -> None:
        self._monotonic = monotonic
        self._limit = limit
        self._known: dict[bytes, tuple[V, float]] = {}
        self._asked: dict[bytes, asyncio.Task[tuple[V, float]]] = {}

    async def get(self, key: bytes, ask: Callable[[], Awaitable[tuple[V, float]]]) -> V:
        """The answer for *key*; *ask* gives it with the seconds that it holds good. Errors are not remembered."""
        known = self._known.get(key)
        if known is not None and self._monotonic() < known[1]:
            return known[0]
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.ensure_future(_await(ask))
            task.add_done_callback(lambda done: self._answered(key, done))
        return (await asyncio.shield(task))[0]  # whoever asked first may hang up without harming the others

    def _answered(self, key: bytes, task: asyncio.Task[tuple[V, float]]) -> None:
        del self._asked[key]
        if task.cancelled() or task.exception() is not None:
            return
        answer, holds_s = task.result()
        if holds_s > 0:
            self._known.pop(key, None)
            self._known[key] = (answer, self._monotonic() + holds_s)
            while len(self._known) > self._limit:
                del self._known[next(iter(self._known))]


async def _await(ask: Callable[[], Awaitable[V]]) -> V:
    return await ask()
