"""The HTTPS server: who asks, whether they may, and which page they get.

`open_listener` takes the port early, so that a port in use ends the start. `SecureServer` then answers on it: it
authenticates, authorizes, and only then looks whether there is such a page, so that strangers learn nothing. Pages are
made elsewhere (`berth.runtime.serving.pages`).

Source: k8s apiserver pkg/server/secure_serving.go, pkg/server/config.go (``DefaultBuildHandlerChain``) and
cmd/kube-scheduler/app/server.go (``buildHandlerChain``).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import msgspec
from aiohttp import web

from berth.runtime.faults import ServingError
from berth.runtime.logs import V3, fields
from berth.runtime.serving.authentication import Refused, User, peer_of
from berth.runtime.serving.delegation import ReviewError

if TYPE_CHECKING:
    import ssl

    from aiohttp.web_protocol import RequestHandler

    from berth.config.options import RunOptions
    from berth.runtime.serving.authentication import Authenticator
    from berth.runtime.serving.authorization import Authorizer

_log = logging.getLogger(__name__)

_IDLE_S: Final = 90.0
_READ_HEADER_S: Final = 32.0
_SHUTDOWN_S: Final = 5.0
_LONGEST_HEADER: Final = 1 << 20
_BACKLOG: Final = 128
_REASONS: Final = {
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    500: "InternalError",
}

Handle: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.Response]]


class ListenError(ServingError):
    """The port cannot be had; the text names the address and the reason."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is at a path.

    Attributes:
        handle: makes the answer.
        methods: that it understands; with GET comes HEAD.
        wrong_method: the status for others.
    """

    handle: Handle
    methods: frozenset[str] = frozenset({"GET"})
    wrong_method: int = 405


class HasContext(Protocol):
    """Has the TLS context for listeners."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context."""


def open_listener(options: RunOptions) -> socket.socket | None:
    """Take the port of the flags; None if nothing is to be served (``--secure-port 0``).

    Raises:
        ListenError: the port cannot be had.
    """
    if options.secure_port == 0:
        return None
    address = ip_address(options.bind_address)
    everywhere = address.is_unspecified and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if everywhere or address.version == 6 else socket.AF_INET  # noqa: PLR2004 -- IP's own
    try:
        return socket.create_server(
            ("" if everywhere else options.bind_address, options.secure_port),
            family=family,
            backlog=_BACKLOG,
            reuse_port=options.permit_port_sharing,
            dualstack_ipv6=everywhere,
        )
    except OSError as error:
        raise ListenError(f"listen on {options.bind_address}:{options.secure_port}: {error.strerror}") from error


class SecureServer:
    """Serves pages to those who may see them.

    Args:
        listener: where to; closed with the server.
        tls: the certificates.
        authenticator: tells who asks.
        authorizer: tells whether they may.
        pages: by path, exactly.
    """

    def __init__(
        self,
        listener: socket.socket,
        tls: HasContext,
        authenticator: Authenticator,
        authorizer: Authorizer,
        pages: Mapping[str, Page],
    ) -> None:
        self._listener, self._tls = listener, tls
        self._authenticator, self._authorizer = authenticator, authorizer
        self._pages = pages
        self._http = _Connections(
            self._answer,
            keepalive_timeout=_IDLE_S,
            access_log=None,
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
        )
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    async def start(self) -> None:
        """Answer from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._http,
            sock=self._listener,
            backlog=_BACKLOG,
            ssl=self._tls.context,
            ssl_handshake_timeout=_READ_HEADER_S,
            ssl_shutdown_timeout=_SHUTDOWN_S,
        )
        _log.info("serving securely", extra=fields(address=":".join(map(str, self.address))))

    async def close(self) -> None:
        """Stop listening, and let requests that are being answered finish, for some seconds."""
        if self._server is None:
            self._listener.close()
            return
        self._server.close()
        self._http.pre_shutdown()
        await self._http.shutdown(_SHUTDOWN_S)
        await self._server.wait_closed()
        _log.info("stopped serving")

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        self._http.heard(request)
        began_s = time.monotonic()
        response = await self._respond(request)
        response.headers.setdefault("Cache-Control", "no-cache, private")
        if _log.isEnabledFor(V3):
            took_s = time.monotonic() - began_s
            line = fields(verb=request.method, URI=request.path, status=response.status, latency=f"{took_s:.6f}s")
            _log.log(V3, "HTTP", extra=line)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        path, verb = request.path, request.method.lower()
        try:
            user = await self._authenticator.authenticate(
                request.headers, peer_of(request.get_extra_info("ssl_object"))
            )
        except Refused as refused:
            _log.warning("request refused, its sender cannot be told: %s", refused)
            return status_response(401, "Unauthorized")
        try:
            decision = await self._authorizer.authorize(user, path, verb)
        except ReviewError as error:
            _log.warning("it cannot be told whether %r may %s %s: %s", user.name, verb, path, error)
            return status_response(500, f"authorization failed: {error}")
        if not decision.allowed:
            return status_response(403, _refusal(user, path, verb, decision.reason))
        page = self._pages.get(path)
        if page is None:
            return web.Response(status=404, text="404 page not found\n", headers={"X-Content-Type-Options": "nosniff"})
        if request.method not in page.methods and not (request.method == "HEAD" and "GET" in page.methods):
            response = status_response(page.wrong_method, f"method {request.method} is not supported on {path}")
            response.headers["Allow"] = ", ".join(sorted(page.methods))
            return response
        return await page.handle(request)


def status_response(code: int, message: str) -> web.Response:
    """An error as Kubernetes words it: a ``Status`` object."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": _REASONS.get(code, ""),
        "code": code,
    }
    return web.Response(
        status=code,
        body=msgspec.json.encode(body) + b"\n",
        content_type="application/json",
        headers={"X-Content-Type-Options": "nosniff"},
    )


def _refusal(user: User, path: str, verb: str, reason: str) -> str:
    text = f'forbidden: User "{user.name}" cannot {verb} path "{path}"'
    return f"{text}: {reason}" if reason else text


class _Connections(web.Server):
    """Closes connections on which no request comes in time; aiohttp watches only those that have had one."""

    def __init__(self, handle: Handle, **options: object) -> None:
        super().__init__(handle, **options)  # type: ignore[arg-type]  # the base class passes these through untyped
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        loop = asyncio.get_running_loop()
        self._silent[handler] = loop.call_later(_READ_HEADER_S, transport.abort)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._forget(handler)
        super().connection_lost(handler, exc)

    def heard(self, request: web.BaseRequest) -> None:
        """A request came in full."""
        self._forget(request.protocol)

    def _forget(self, handler: RequestHandler) -> None:
        timer = self._silent.pop(handler, None)
        if timer is not None:
            timer.cancel()
