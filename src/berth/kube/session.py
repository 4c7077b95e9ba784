"""HTTP to one API server: requests, streams, and errors as our own tree.

An `ApiSession` owns keep-alive connections: aiohttp's for streams, and those of the cheapest `Transport` there is for
requests, because a burst of pods costs two POSTs each. It renews credentials on a 401 and repeats that one request (a
401 means that nothing was done); every other error is the caller's to judge.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import platform
import time
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import aiohttp
from yarl import URL

from berth import __version__
from berth.kube.errors import CredentialsError, UnauthorizedError, error_from_response
from berth.kube.proxy import proxy_for
from berth.kube.sockets import Sockets
from berth.kube.transport import (
    CONNECT_TIMEOUT_S,
    FIRST_ERROR_STATUS,
    JSON,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    AiohttpTransport,
    Answer,
    Transport,
    aiohttp_failure,
    base_headers,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from berth.kube.credentials import CredentialKeeper, Credentials

__all__ = [
    "DEFAULT_TIMEOUT_S",
    "JSON",
    "MERGE_PATCH",
    "STRATEGIC_MERGE_PATCH",
    "Api",
    "ApiSession",
    "MakeTransport",
    "RequestObserver",
    "cheapest_transport",
    "default_user_agent",
]

DEFAULT_TIMEOUT_S = 30.0  # a server that needs longer than this for one object is not answering
_KEEPALIVE_S = 60.0  # API servers close idle connections after 90 s; we must be first
_MAX_CONNECTIONS = 128
_STREAM_BUFFER_BYTES = 1 << 20
_STREAMS_RETIRE_AFTER_S = 30.0  # so long do streams stay on connections that were made with replaced credentials
_CUT_WITHIN_S = 5.0  # far more than the loop needs to see the end of its connections
_RETIRE_AFTER_S = 60.0  # after that, so long do requests have to finish: none is allowed more
_VERBOSITY_2 = logging.INFO - 2

_log = logging.getLogger(__name__)

MakeTransport: TypeAlias = "Callable[[str, Credentials, str], Transport]"
"""Makes a transport of its own connections to a base URL, with credentials and a user agent."""


@functools.cache
def cheapest_transport() -> MakeTransport | None:
    """The transport over libcurl; None where pycurl cannot be used, which is logged once: aiohttp has to do."""
    try:
        from berth.kube.curl_transport import CurlTransport  # noqa: PLC0415  there is no pycurl for every platform
    except ImportError as missing:
        _log.log(_VERBOSITY_2, "requests go over aiohttp, at several times the CPU: no usable pycurl: %s", missing)
        return None
    return CurlTransport


def default_user_agent() -> str:
    """`berth/<version> (<system>/<machine>)`, the form that API server logs expect."""
    return f"berth/{__version__} ({platform.system().lower()}/{platform.machine()})"


def _usable_proxy(proxy: str) -> str | None:
    if proxy and not proxy.startswith(("http://", "https://")):
        raise CredentialsError(f"proxy {proxy}: want an HTTP proxy, others are not supported")
    return proxy or None


def _host_of(server: str) -> str:
    """``name:port`` of a base URL, without the user that it may name."""
    return URL(server).raw_authority.rpartition("@")[2]


class Api(Protocol):
    """What the rest of this package needs of a session; see `ApiSession` for the meaning."""

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
        """Send one request and return the body of its successful answer."""
        ...

    def stream(self, path: str, *, idle_timeout_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a streaming GET."""
        ...


class RequestObserver(Protocol):
    """Hears how requests ended, for metrics; must not raise."""

    def request_finished(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """A request to *host* (``name:port``) was answered with *code*, or with None was not answered."""


class _Pool:
    """All connections made with one set of credentials, so that they can be retired together.

    Streams are aiohttp's; requests go over the given transport, but where a proxy is in the way over aiohttp too.
    """

    def __init__(
        self, server: str, credentials: Credentials, user_agent: str, make_transport: MakeTransport | None
    ) -> None:
        self._sockets = Sockets()
        connector = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS,
            keepalive_timeout=_KEEPALIVE_S,
            ssl=credentials.ssl_context() if server.startswith("https:") else True,
            socket_factory=self._sockets.open,
        )
        proxy = _usable_proxy(credentials.proxy or proxy_for(server, os.environ))
        self.http = aiohttp.ClientSession(
            connector=connector,
            headers=base_headers(user_agent, credentials.authorization),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            proxy=proxy,
        )
        self.streams: set[aiohttp.ClientResponse] = set()
        self.options: dict[str, Any] = {"allow_redirects": False}
        if credentials.tls_server_name:
            self.options["server_hostname"] = credentials.tls_server_name
        self.requests: Transport
        if make_transport is None or proxy:
            self.requests = AiohttpTransport(self.http, server, self.options)
        else:
            self.requests = make_transport(server, credentials, user_agent)

    def authorize(self, authorization: str) -> None:
        """Use another token from the next request on."""
        self.requests.authorize(authorization)
        if authorization:
            self.http.headers["Authorization"] = authorization
        else:
            self.http.headers.popall("Authorization", None)

    def end(self, answer: aiohttp.ClientResponse) -> None:
        """End an open stream; whoever reads it gets an error.

        The connection is cut: a server that is asked to agree to the end of a TLS connection may take its time.
        """
        self.streams.discard(answer)
        if answer.connection is not None and answer.connection.transport is not None:
            answer.connection.transport.abort()
        answer.close()

    def end_streams(self) -> None:
        """End all open streams. Closing the pool alone would leave their readers waiting."""
        for answer in tuple(self.streams):
            self.end(answer)

    async def close(self) -> None:
        """Close all connections, and wait until they are gone, also those that requests have given up."""
        self.end_streams()
        await self.requests.close()
        await self.http.close()
        await self._sockets.cut(timeout_s=_CUT_WITHIN_S)


class ApiSession:
    """A client of one API server; used from one event loop.

    Use it as an async context manager, or call `close`.
    """

    def __init__(
        self, keeper: CredentialKeeper, *, user_agent: str = "", timeout_s: float = DEFAULT_TIMEOUT_S, server: str = ""
    ) -> None:
        """Open a session; connections are made when they are needed.

        Args:
            keeper: whose credentials to use; shared by all sessions of a process.
            user_agent: what to tell the server; ours when empty.
            timeout_s: for a whole request, where the call names none.
            server: base URL instead of the credentials' own (the `--master` flag).

        Raises:
            CredentialsError: the TLS material cannot be used.
        """
        self._keeper = keeper
        self._user_agent = user_agent or default_user_agent()
        self._timeout_s = timeout_s
        self._make_transport = cheapest_transport()
        self._observer: RequestObserver | None = None
        self._server_override = server.rstrip("/")
        self._base = self._server_override or keeper.current.server.rstrip("/")
        self._host = _host_of(self._base)
        self._used = keeper.current
        self._pool = _Pool(self._base, keeper.current, self._user_agent, self._make_transport)
        self._retiring: set[asyncio.Task[None]] = set()
        keeper.subscribe(self._renewed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def server(self) -> str:
        """Base URL of the API server, without a trailing slash."""
        return self._base

    def observe(self, observer: RequestObserver) -> None:
        """Tell *observer* of every request from now on; of a stream, how it was opened."""
        self._observer = observer

    async def close(self) -> None:
        """Close all connections; streams end with a `TransportError`."""
        self._keeper.unsubscribe(self._renewed)
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._pool.close()

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
        """Send one request and return the body of its successful answer.

        Args:
            method: in capitals.
            path: path and query, percent-encoded, from the first slash on.
            body: sent as it is.
            content_type: of *body*.
            accept: instead of plain JSON.
            timeout_s: for the whole exchange, instead of the session's.

        Raises:
            ApiError: the server answered with an error (after one repetition with new credentials for a 401).
            TransportError: no complete answer came.
        """
        limit_s = self._timeout_s if timeout_s is None else timeout_s

        async def exchange() -> Answer:
            began_s, code = time.monotonic(), None
            try:
                answer = await self._pool.requests.exchange(
                    method, path, body, content_type=content_type, accept=accept, timeout_s=limit_s
                )
                code = answer.status
                return answer
            finally:
                self._tell(method, code, began_s)

        generation = self._keeper.generation
        answer = await exchange()
        if answer.status == HTTPStatus.UNAUTHORIZED and await self._keeper.renew(generation):
            answer = await exchange()
        if answer.status < FIRST_ERROR_STATUS:
            return answer.body
        raise error_from_response(answer.status, answer.body, answer.retry_after)

    @asynccontextmanager
    async def stream(self, path: str, *, idle_timeout_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a streaming GET; gives an iterator of chunks of bytes, cut anywhere, as they arrive.

        The iterator ends when the server ends the stream properly.

        Args:
            path: path and query, percent-encoded.
            idle_timeout_s: give up when nothing at all arrives for that long.

        Raises:
            ApiError: the server refused the stream.
            TransportError: the stream could not be opened, or broke (raised by the iterator).
        """
        generation, pool = self._keeper.generation, self._pool
        try:
            answer = await self._open_stream(pool, path, idle_timeout_s)
        except UnauthorizedError:
            if not await self._keeper.renew(generation):
                raise
            pool = self._pool
            answer = await self._open_stream(pool, path, idle_timeout_s)
        pool.streams.add(answer)
        try:
            yield _chunks(answer, path)
        finally:
            pool.end(answer)

    async def _open_stream(self, pool: _Pool, path: str, idle_timeout_s: float) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=idle_timeout_s)
        began_s, code = time.monotonic(), None
        try:
            answer = await pool.http.request(
                "GET",
                URL(self._base + path, encoded=True),
                timeout=timeout,
                read_bufsize=_STREAM_BUFFER_BYTES,
                **pool.options,
            )
            code = answer.status
            if answer.status < FIRST_ERROR_STATUS:
                return answer
            async with answer:
                raise error_from_response(answer.status, await answer.read(), answer.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise aiohttp_failure("GET", path, error) from error
        finally:
            self._tell("GET", code, began_s)

    def _tell(self, method: str, code: int | None, began_s: float) -> None:
        if self._observer is not None:
            self._observer.request_finished(method, self._host, code, time.monotonic() - began_s)

    def _renewed(self, credentials: Credentials) -> None:
        """Take over new credentials: a new token at once, new certificates on new connections."""
        if self._used.same_connection(credentials):
            self._used = credentials
            self._pool.authorize(credentials.authorization)
            return
        base = self._server_override or credentials.server.rstrip("/")
        fresh = _Pool(base, credentials, self._user_agent, self._make_transport)  # raises before anything has changed
        retired, self._pool = self._pool, fresh
        self._base, self._host, self._used = base, _host_of(base), credentials
        task = asyncio.get_running_loop().create_task(self._retire(retired))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _retire(self, pool: _Pool) -> None:
        """Make watches come back on new connections, and close the replaced ones when all requests have ended."""
        try:
            await asyncio.sleep(_STREAMS_RETIRE_AFTER_S)
            pool.end_streams()
            await asyncio.sleep(_RETIRE_AFTER_S)
        finally:
            await pool.close()


async def _chunks(answer: aiohttp.ClientResponse, path: str) -> AsyncIterator[bytes]:
    content = answer.content
    try:
        while chunk := await content.readany():
            yield chunk
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise aiohttp_failure("GET", path, error) from error
