"""How one request gets to the API server and its answer back: the contract, and its form on aiohttp.

A transport belongs to one set of connections, made with one set of credentials. It judges no answer: a status is handed
back as it came, and only the lack of an answer is an error. The session chooses the transport; `curl_transport` has the
cheaper one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import aiohttp
from yarl import URL

from berth.kube.errors import TransportError

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

CONNECT_TIMEOUT_S = 10.0
FIRST_ERROR_STATUS = 300  # an API server that redirects is none

_NO_HEADERS: dict[str, str] = {}
_PATCH_HEADERS = {kind: {"Content-Type": kind} for kind in (MERGE_PATCH, STRATEGIC_MERGE_PATCH)}


class Answer(NamedTuple):
    """What the server answered: the HTTP status, the whole body, and the Retry-After header where there was one."""

    status: int
    body: bytes
    retry_after: str | None


class Transport(Protocol):
    """One way to carry requests."""

    async def exchange(
        self, method: str, path: str, body: bytes | None, *, content_type: str, accept: str, timeout_s: float
    ) -> Answer:
        """Send one request, once, and return its whole answer, whatever its status.

        Args:
            method: in capitals.
            path: path and query, percent-encoded.
            body: sent as it is.
            content_type: of *body*.
            accept: instead of JSON, where not empty.
            timeout_s: from the call to the last byte of the answer.

        Raises:
            TransportError: no complete answer came; it says whether the request may have reached the server.
        """
        ...

    def authorize(self, authorization: str) -> None:
        """Send another Authorization header, or none where it is empty, from the next request on."""
        ...

    async def close(self) -> None:
        """Close all connections; requests under way end with a `TransportError`."""
        ...


def base_headers(user_agent: str, authorization: str) -> dict[str, str]:
    """The headers of every request that does not say otherwise."""
    headers = {"Accept": JSON, "Accept-Encoding": "identity", "Content-Type": JSON, "User-Agent": user_agent}
    if authorization:
        headers["Authorization"] = authorization
    return headers


def no_answer(method: str, path: str, reason: str, *, may_be_applied: bool) -> TransportError:
    """The error of a request that was not answered; what follows the path's question mark stays out of logs."""
    return TransportError(f"{method} {path.partition('?')[0]}: {reason}", may_be_applied=may_be_applied)


def aiohttp_failure(method: str, path: str, error: Exception) -> TransportError:
    """Ours for one of aiohttp's; only a connection that was never made is certain to have carried nothing."""
    never_sent = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
    return no_answer(method, path, f"{error}" or type(error).__name__, may_be_applied=not never_sent)


class AiohttpTransport:
    """Requests on the aiohttp session that also carries the streams; closed together with it, by its owner."""

    def __init__(self, http: aiohttp.ClientSession, server: str, options: dict[str, Any]) -> None:
        """Carry requests to *server* over *http*, each with *options*."""
        self._http = http
        self._server = server
        self._options = options

    async def exchange(
        self, method: str, path: str, body: bytes | None, *, content_type: str, accept: str, timeout_s: float
    ) -> Answer:
        """See `Transport`."""
        headers = (
            _NO_HEADERS if content_type is JSON else _PATCH_HEADERS.get(content_type, {"Content-Type": content_type})
        )
        if accept:
            headers = {**headers, "Accept": accept}
        limits = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(timeout_s, CONNECT_TIMEOUT_S))
        url = URL(self._server + path, encoded=True)
        try:
            async with self._http.request(
                method, url, data=body, headers=headers or None, timeout=limits, **self._options
            ) as answer:
                return Answer(answer.status, await answer.read(), answer.headers.get("Retry-After"))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise aiohttp_failure(method, path, error) from error

    def authorize(self, authorization: str) -> None:
        """Nothing to do: the headers are the aiohttp session's."""

    async def close(self) -> None:
        """Nothing to do: the connections are the aiohttp session's."""
