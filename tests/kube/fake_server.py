"""An API server that does as it is told: scripted answers over real HTTP, and a record of what was asked.

Every (method, path) has a queue of answers; the last one stays. An answer is a status with a body, a stream of chunks,
a connection that is dropped, or silence.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from berth.kube.credentials import CredentialKeeper, Credentials, InCluster

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """What to do with one request.

    `chunks` are sent as a stream, one write each; then the stream ends, or is cut when `cut`, or stays when `stay`.
    `drop` closes the connection without a word, `hang` never answers.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] | None = None
    cut: bool = False
    stay: bool = False
    drop: bool = False
    hang: bool = False


def status_answer(code: int, reason: str = "", message: str = "", **headers: str) -> Answer:
    """An error as the API server words it."""
    return Answer(code, status_body(code, reason, message), {name.replace("_", "-"): v for name, v in headers.items()})


def status_body(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": message or f"told to answer {code}",
        "reason": reason,
        "code": code,
    }


class FakeServer:
    """See the module."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.url = ""
        self.client_names: list[str] = []  # common names of client certificates, request by request
        self._answers: dict[tuple[str, str], deque[Answer]] = defaultdict(deque)
        self._closing = asyncio.Event()

    def on(self, method: str, path: str, *answers: Answer) -> None:
        """Add answers to the queue of one path (without its query)."""
        self._answers[method, path].extend(answers)

    def asked(self, method: str, path: str = "") -> list[Seen]:
        return [seen for seen in self.seen if seen.method == method and (not path or seen.path == path)]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        self.seen.append(
            Seen(
                request.method,
                request.path,
                dict(request.query),
                dict(request.headers),
                json.loads(raw) if raw else None,
            )
        )
        self._note_client(request)
        queue = self._answers.get((request.method, request.path))
        if not queue:
            return _respond(status_answer(404, "NotFound"))
        answer = queue.popleft() if len(queue) > 1 else queue[0]
        if answer.hang:
            await self._closing.wait()
        if answer.drop or answer.hang:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if answer.chunks is not None:
            return await self._stream(request, answer)
        return _respond(answer)

    def _note_client(self, request: web.BaseRequest) -> None:
        assert request.transport is not None
        certificate = request.transport.get_extra_info("peercert")
        if certificate:
            names = dict(pair for group in certificate["subject"] for pair in group)
            self.client_names.append(names.get("commonName", ""))

    async def _stream(self, request: web.BaseRequest, answer: Answer) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in answer.chunks or ():
            await response.write(chunk)
            await asyncio.sleep(0)
        if answer.stay:
            await self._closing.wait()
        if answer.cut:
            assert request.transport is not None
            await asyncio.sleep(0.005)
            request.transport.abort()
            return response
        await response.write_eof()
        return response

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[FakeServer]:
        runner = web.ServerRunner(web.Server(self.handle), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port = runner.addresses[0][1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        try:
            yield self
        finally:
            self._closing.set()
            await runner.cleanup()


def _respond(answer: Answer) -> web.Response:
    body = answer.body
    text = body if isinstance(body, str) else json.dumps({} if body is None else body)
    return web.Response(status=answer.status, text=text, headers=answer.headers, content_type="application/json")


def keeper_for(url: str, **changes: Any) -> CredentialKeeper:
    """A keeper of fixed credentials that cannot be renewed."""

    async def load(_: object) -> Credentials:
        return Credentials(server=url, **changes)

    return CredentialKeeper(InCluster(), Credentials(server=url, **changes), load=load)
