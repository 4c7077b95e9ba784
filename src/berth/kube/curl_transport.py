"""Requests over libcurl, at a fraction of the CPU that aiohttp takes for each; HTTP/2 where the server offers it.

libcurl owns connections, TLS and HTTP; this module prepares its handles and says what its errors mean. Three habits of
libcurl are reined in. It sends a request again when a connection that it used before breaks without an answer: bodies
are given to it so that they cannot be read twice, which makes that an error. It keeps a connection on which answers
stay out: after such a timeout, new requests get new connections. It looks for authorities where its own build keeps
them: it is told where Python does.

Importing this module fails where pycurl is missing or too old; the session then uses aiohttp.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pycurl
from pycurl import AsyncCurlMulti

from berth.kube.transport import CONNECT_TIMEOUT_S, FIRST_ERROR_STATUS, Answer, base_headers, no_answer

if TYPE_CHECKING:
    from berth.kube.credentials import Credentials
    from berth.kube.errors import TransportError

_MAX_CONNECTIONS = 32  # of HTTP/1.1; one of HTTP/2 carries a hundred requests at a time
_IDLE_S = 60  # API servers close idle connections after 90 s; we must be first
_PROBE_AFTER_S, _PROBE_EVERY_S = 30, 10
_UNACKNOWLEDGED_MS = 15_000  # a lost connection of HTTP/2 holds up every request

_Kind = tuple[str, str, str, bool]  # method, content type, what is accepted, whether there is a body


@dataclass(slots=True)
class _Handle:
    """An easy handle that is set up for one kind of request, and where it puts the answer."""

    curl: Any
    chunks: list[bytes] = field(default_factory=list)


class CurlTransport:
    """See `Transport`; used from one event loop."""

    def __init__(self, server: str, credentials: Credentials, user_agent: str) -> None:
        """Prepare requests to *server*; connections are made when they are needed."""
        self._credentials = credentials
        self._authorization = credentials.authorization
        self._user_agent = user_agent
        self._address = _Address.of(server, credentials)
        self._multi = _new_multi()
        self._idle: dict[_Kind, list[_Handle]] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._may_multiplex = server.startswith("https:")  # until an answer has shown that it does not
        self._closed = False

    async def exchange(
        self, method: str, path: str, body: bytes | None, *, content_type: str, accept: str, timeout_s: float
    ) -> Answer:
        """See `Transport`."""
        kind = (method, content_type, accept, body is not None)
        idle = self._idle.get(kind)
        if idle is None:
            idle = self._idle[kind] = []
        handle = idle.pop() if idle else self._new_handle(*kind)
        curl, multi = handle.curl, self._multi
        curl.setopt(pycurl.URL, self._address.base + path)
        curl.setopt(pycurl.TIMEOUT_MS, max(1, int(timeout_s * 1000)))
        if body is not None:
            curl.setopt(pycurl.POSTFIELDSIZE, len(body))
            curl.setopt(pycurl.READFUNCTION, BytesIO(body).read)
        try:
            await multi.add_handle(curl)
        except pycurl.error as error:
            raise self._failure(method, path, curl, multi, error) from error
        except asyncio.CancelledError as error:
            # The handle is given up: the loop takes it out of libcurl's hands only a moment later.
            if self._closed and not _is_being_cancelled():
                raise no_answer(method, path, "the session was closed", may_be_applied=_was_sent(curl)) from error
            raise
        status = curl.getinfo(pycurl.RESPONSE_CODE)
        retry_after = _retry_after(curl) if status >= FIRST_ERROR_STATUS else None
        content = b"".join(handle.chunks)
        handle.chunks.clear()
        idle.append(handle)
        if self._may_multiplex and curl.getinfo(pycurl.INFO_HTTP_VERSION) < pycurl.CURL_HTTP_VERSION_2_0:
            self._may_multiplex = False
            self._idle = {}
        return Answer(status, content, retry_after)

    def authorize(self, authorization: str) -> None:
        """See `Transport`; handles that are under way go to lists that nobody takes from any more."""
        self._authorization = authorization
        self._idle = {}

    async def close(self) -> None:
        """See `Transport`."""
        self._closed = True
        for task in self._retiring:
            task.cancel()
        await asyncio.gather(*self._retiring, return_exceptions=True)
        await self._multi.aclose()

    def _failure(self, method: str, path: str, curl: Any, multi: Any, error: Any) -> TransportError:
        code, reason = error.args
        sent = _was_sent(curl)
        if code == pycurl.E_OPERATION_TIMEDOUT and sent and multi is self._multi:
            self._multi = _new_multi()
            task = asyncio.get_running_loop().create_task(_retire(multi))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        if code == pycurl.E_SEND_FAIL_REWIND:  # libcurl would have sent it again, had we let it
            reason = "the connection was lost before an answer came"
        return no_answer(method, path, reason, may_be_applied=sent)

    def _new_handle(self, method: str, content_type: str, accept: str, has_body: bool) -> _Handle:
        headers = base_headers(self._user_agent, self._authorization) | {"Content-Type": content_type}
        if accept:
            headers["Accept"] = accept
        if self._address.host:
            headers["Host"] = self._address.host
        curl = pycurl.Curl()
        handle = _Handle(curl)
        curl.setopt(pycurl.HTTPHEADER, [*(f"{name}: {value}" for name, value in headers.items()), "Expect:"])
        curl.setopt(pycurl.WRITEFUNCTION, handle.chunks.append)
        if method != "GET":
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.CUSTOMREQUEST, method)
        if method != "GET" and not has_body:
            # Without a body nothing keeps libcurl from sending it again, except that the connection was never used.
            curl.setopt(pycurl.POSTFIELDSIZE, 0)
            curl.setopt(pycurl.FRESH_CONNECT, 1)
        # The first requests wait to see whether one connection will do for all. Over HTTP/1.1 none waits: libcurl would
        # let it wait for another's answer.
        curl.setopt(pycurl.PIPEWAIT, self._may_multiplex)
        _set_up_connection(curl, self._address)
        _set_up_tls(curl, self._credentials)
        return handle


@dataclass(frozen=True, slots=True)
class _Address:
    """Where requests go.

    Attributes:
        base: what all URLs begin with; its host is the name that the certificate has to have.
        route: where that host really is, in libcurl's notation; empty when the name is the address.
        host: the Host header then.
    """

    base: str
    route: str = ""
    host: str = ""

    @classmethod
    def of(cls, server: str, credentials: Credentials) -> _Address:
        parts = urlsplit(server)
        name = credentials.tls_server_name
        if not name or parts.scheme != "https":
            return cls(server)
        port = parts.port or 443
        host = parts.netloc.removesuffix(f":{port}")
        return cls(f"https://{name}:{port}{parts.path}", f"{name}:{port}:{host}:{port}", parts.netloc)


def _set_up_connection(curl: Any, address: _Address) -> None:
    curl.setopt(pycurl.NOSIGNAL, 1)
    curl.setopt(pycurl.PROXY, "")  # whether there is one was decided elsewhere
    curl.setopt(pycurl.PATH_AS_IS, 1)
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(CONNECT_TIMEOUT_S * 1000))
    curl.setopt(pycurl.MAXAGE_CONN, _IDLE_S)
    curl.setopt(pycurl.TCP_KEEPALIVE, 1)
    curl.setopt(pycurl.TCP_KEEPIDLE, _PROBE_AFTER_S)
    curl.setopt(pycurl.TCP_KEEPINTVL, _PROBE_EVERY_S)
    curl.setopt(pycurl.SOCKOPTFUNCTION, _notice_loss)
    if address.route:
        curl.setopt(pycurl.CONNECT_TO, [address.route])


def _set_up_tls(curl: Any, credentials: Credentials) -> None:
    curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
    if not credentials.verify:
        curl.setopt(pycurl.SSL_VERIFYPEER, 0)
        curl.setopt(pycurl.SSL_VERIFYHOST, 0)
    elif credentials.ca_pem:
        curl.setopt(pycurl.CAPATH, None)
        curl.setopt(pycurl.CAINFO_BLOB, credentials.ca_pem.encode())
    else:
        trusted = ssl.get_default_verify_paths()
        curl.setopt(pycurl.CAINFO, trusted.cafile)
        curl.setopt(pycurl.CAPATH, trusted.capath)
    if credentials.cert_pem:
        curl.setopt(pycurl.SSLCERT_BLOB, credentials.cert_pem.encode())
        curl.setopt(pycurl.SSLKEY_BLOB, credentials.key_pem.encode())


def _notice_loss(descriptor: int, _purpose: int) -> int:
    """Make a new socket find out that the other side has vanished while requests are under way."""
    if sys.platform == "linux":
        sock = socket.socket(fileno=descriptor)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
        finally:
            sock.detach()
    return int(pycurl.SOCKOPT_OK)


def _new_multi() -> Any:
    multi = AsyncCurlMulti()
    multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, _MAX_CONNECTIONS)
    return multi


async def _retire(multi: Any) -> None:
    """Close the connections of *multi* when the requests on them have ended."""
    try:
        await asyncio.gather(*multi.futures(), return_exceptions=True)
    finally:
        await multi.aclose()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _was_sent(curl: Any) -> bool:
    """Whether any byte of the request has been handed to a connection."""
    return bool(curl.getinfo(pycurl.REQUEST_SIZE))


def _retry_after(curl: Any) -> str | None:
    seconds = curl.getinfo(pycurl.RETRY_AFTER)
    return str(seconds) if seconds else None
