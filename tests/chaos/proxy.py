"""A proxy in front of an API server that does to requests and watches what a `FaultPlan` says.

It speaks HTTPS with a certificate of its own, or plain HTTP, and passes credentials on as they are. It knows enough of
the API to tell watches, lists and writes of a resource apart, and nothing of objects: a watch is a stream of lines.
One proxy stands for the network of one client; several clients that are to fare differently get one each.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from typing import TYPE_CHECKING, NamedTuple, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from tests.chaos.faults import READS, STATUS_REASONS, Fate, FaultPlan, Kind
from tests.chaos.loops import LoopThread

from berth.sandbox.certificates import ServerIdentity, make_identity
from berth.sandbox.kubeconfig import write_kubeconfig
from berth.sandbox.objects import utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LOOPBACK = "127.0.0.1"
_HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "host", "content-length"}
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
LOSES_FOR_S = 0.5  # after the first lost line
_POLL_S = 0.02


class Asked(NamedTuple):
    """What a request wants: the verb of access rules, and the resource with its subresource."""

    verb: str
    resource: str


def asked(method: str, path: str, *, watch: bool) -> Asked:
    """Make out what a request wants; the resource of a path that is not about objects is the path."""
    parts = path.strip("/").split("/")
    if parts[0] not in {"api", "apis"} or len(parts) < (3 if parts[0] == "api" else 4):
        return Asked("get", path)
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    named = len(rest) > 1
    resource = "/".join([rest[0], *rest[2:]])
    if method == "GET":
        return Asked("watch" if watch else "get" if named else "list", resource)
    return Asked(_VERBS[method], resource)


class ChaosProxy:
    """A proxy on a thread of its own; a context manager.

    Args:
        upstream: base URL of the API server, whose certificate is not verified.
        plan: what happens to whom.
        tls: whether clients are served over HTTPS.
    """

    def __init__(self, upstream: str, plan: FaultPlan, *, tls: bool = True) -> None:
        self.plan = plan
        self._upstream = upstream.rstrip("/")
        self._identity: ServerIdentity | None = make_identity(utc_now()) if tls else None
        self._thread = LoopThread("chaos-proxy")
        self._open: set[asyncio.Transport] = set()
        self._lost: set[tuple[str, str]] = set()  # watches (path and peer) that have to list again
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.url = ""
        self.forwarded: list[tuple[float, Asked]] = []  # writes that reached the server, and when

    def __enter__(self) -> Self:
        self._thread.start()
        self._thread.call(self._start())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._thread.call(self._stop())
        self._thread.stop()

    def kubeconfig(self, path: Path, token: str | None = None) -> Path:
        """Write credentials for clients of this proxy."""
        write_kubeconfig(path, self.url, token=token, ca_pem=self._identity.ca_pem if self._identity else None)
        return path

    def isolate(self) -> None:
        """Break every connection, and let none come about until the plan heals or says otherwise."""
        self.plan.isolated = True
        self.plan.note("isolated")
        self.cut_all()

    def cut_all(self) -> None:
        """Break every connection; new ones are welcome."""
        self._thread.call(self._abort_all())

    # -- life ---------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(limit=0, ssl=trusting)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        context = self._identity.ssl_context() if self._identity else None
        site = web.TCPSite(self._runner, LOOPBACK, 0, ssl_context=context)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if context else 'http'}://{LOOPBACK}:{port}"

    async def _stop(self) -> None:
        await self._abort_all()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def _abort_all(self) -> None:
        for transport in tuple(self._open):
            transport.abort()
        self._open.clear()

    # -- requests -----------------------------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        if transport is None or self.plan.isolated:
            return _broken(request)
        self._open.add(transport)
        try:
            return await self._serve(request)
        except (aiohttp.ClientError, ConnectionError):  # the server is away, or the client is
            return _broken(request)
        finally:
            self._open.discard(transport)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        wanted = asked(request.method, request.path, watch=request.query.get("watch") in {"1", "true"})
        if wanted.verb == "watch" and (key := _reader(request)) in self._lost:
            self._lost.discard(key)
            return _refusal(410)
        fate = self.plan.of_request(*wanted)
        await asyncio.sleep(fate.delay_s)
        if fate.kind is Kind.REFUSE:
            return _refusal(fate.status)
        if fate.kind is Kind.CUT:
            return _broken(request)
        if wanted.verb not in READS:
            self.forwarded.append((time.monotonic(), wanted))
        async with await self._forward(request) as answer:
            if wanted.verb == "watch" and answer.status == 200:
                return await self._relay_watch(request, wanted.resource, answer)
            body = await answer.read()
            await self._held_back(wanted.resource)
            return self._answered(request, fate, answer, body)

    def _answered(
        self, request: web.Request, fate: Fate, answer: aiohttp.ClientResponse, body: bytes
    ) -> web.StreamResponse:
        if fate.kind is Kind.CUT_AFTER or self.plan.isolated:
            return _broken(request)
        if fate.kind is Kind.AFTER_COMMIT and answer.status < 400:
            return _refusal(504)
        return web.Response(status=answer.status, body=body, headers=_end_to_end(answer.headers))

    async def _forward(self, request: web.Request) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the proxy has not been started")
        body = await request.read()
        return await self._session.request(
            request.method, self._upstream + request.raw_path, data=body or None, headers=_end_to_end(request.headers)
        )

    async def _relay_watch(
        self, request: web.Request, resource: str, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        """Pass the lines of a watch on, as they come or as the plan wants them."""
        stream = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
        await stream.prepare(request)
        losing, unfinished = False, b""
        loop = asyncio.get_running_loop()
        async for chunk in answer.content.iter_any():
            *lines, unfinished = (unfinished + chunk).split(b"\n")
            for line in lines:
                await self._held_back(resource)
                if losing:
                    continue
                fate = self.plan.of_line(resource)
                await asyncio.sleep(fate.delay_s)
                if fate.kind is Kind.LOSE:
                    losing = True
                    self._lost.add(_reader(request))
                    loop.call_later(LOSES_FOR_S, _broken, request)  # whoever asks again is told to list
                    continue
                await stream.write((line + b"\n") * (2 if fate.kind is Kind.DUPLICATE else 1))
                if fate.kind is Kind.END:
                    return _broken(request)
        await stream.write_eof()
        return stream

    async def _held_back(self, resource: str) -> None:
        while resource in self.plan.stalled:  # noqa: ASYNC110 - the plan is changed from other threads
            await asyncio.sleep(_POLL_S)


def _reader(request: web.Request) -> tuple[str, str]:
    return request.path, request.headers.get("Authorization", "")


def _broken(request: web.Request) -> web.StreamResponse:
    """Cut the connection; what is returned goes nowhere."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


def _refusal(status: int) -> web.Response:
    reason = STATUS_REASONS[status]
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"a fault was injected: {reason}",
        "reason": reason,
        "code": status,
    }
    headers = {"Retry-After": "1"} if status == 429 else {}
    return web.Response(status=status, text=json.dumps(body), content_type="application/json", headers=headers)


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP)
