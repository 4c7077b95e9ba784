"""Stand-ins for what the serving side talks to: an API server that answers reviews, and time that passes at will."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from berth.kube.clock import Clock
from berth.kube.errors import NotFoundError
from berth.kube.pacing import TokenBucket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 -- a path, not a secret
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
CONFIG_MAP = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"


class HandClock:
    """Time that passes only when somebody sleeps, or when `now_s` is moved."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.slept: list[float] = []
        self.clock = Clock(monotonic=lambda: self.now_s, sleep=self._sleep, chance=lambda: 0.0)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


class FakeApi:
    """An API server with a function per path; what a function returns is the answer, what it raises is the error."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.asked: dict[str, list[Any]] = defaultdict(list)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = "application/json",
        accept: str = "",
        timeout_s: float | None = None,
    ) -> bytes:
        del method, content_type, accept, timeout_s
        document = json.loads(body) if body else None
        self.asked[path].append(document)
        if path not in self.answers:
            raise NotFoundError(404, "NotFound", path)
        return json.dumps(self.answers[path](document)).encode()

    def stream(self, path: str, *, idle_timeout_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(path, idle_timeout_s)

    def knows_tokens(self, **users: dict[str, Any]) -> None:
        """Recognize these tokens as those of these users."""

        def answer(review: Any) -> Any:
            user = users.get(review["spec"]["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"error": "who is that?"}}

        self.answers[TOKEN_REVIEWS] = answer

    def allows(self, *users: str, reason: str = "") -> None:
        """Allow everything to these users, and nothing to others."""
        self.answers[ACCESS_REVIEWS] = lambda review: {
            "status": {"allowed": review["spec"]["user"] in users, "reason": reason}
        }


def pace() -> TokenBucket:
    """No limit."""
    return TokenBucket(-1, 0)
