"""An API in memory for tests in virtual time: each request is answered by a function, after a while."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from berth.kube.session import JSON


@dataclass(frozen=True)
class Sent:
    """One request, and when it was sent."""

    method: str
    path: str
    body: Any
    content_type: str
    at_s: float


class ScriptedApi:
    """Answers `{}` to everything, unless a function of the tests answers or raises."""

    def __init__(self, answer: Callable[[Sent], object] | None = None, *, takes_s: float = 0.001) -> None:
        self.sent: list[Sent] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.answer = answer
        self.takes_s = takes_s

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = "",
        timeout_s: float | None = None,
    ) -> bytes:
        assert accept == ""
        assert timeout_s is None
        at_s = asyncio.get_running_loop().time()
        sent = Sent(method, path, None if body is None else json.loads(body), content_type, at_s)
        self.sent.append(sent)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.takes_s)
        finally:
            self.in_flight -= 1
        answer = self.answer(sent) if self.answer is not None else None
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer or {}).encode()

    def stream(self, path: str, *, idle_timeout_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(f"no streams here: {path} {idle_timeout_s}")


def answers(*script: object) -> Callable[[Sent], object]:
    """One after the other; the last one stays."""
    left = list(script)

    def answer(_: Sent) -> object:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer
