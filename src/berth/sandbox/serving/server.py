"""The embedded API server: HTTP on top of the verbs.

It takes a request apart, checks the token, finds the resource, calls the verb and sends the answer; refusals become
Status objects, unknown paths plain text, and watches chunked streams. Everything runs on the loop that called `start`.
Used by the sandbox command (in a process of its own, see `sandbox`) and by tests (in theirs).
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from aiohttp import web

from berth.sandbox.kinds import errors
from berth.sandbox.kinds.catalogue import built_in
from berth.sandbox.kinds.errors import quote
from berth.sandbox.kinds.routes import Route, resolve
from berth.sandbox.objects import rfc3339, utc_now
from berth.sandbox.serving.calls import Answer, Call, number, version_number
from berth.sandbox.serving.discovery import AGGREGATED, Discovery
from berth.sandbox.serving.handlers import Verbs
from berth.sandbox.serving.reviews import REVIEW_KINDS, reviewed
from berth.sandbox.serving.selectors import matcher
from berth.sandbox.serving.subresources import PodActions
from berth.sandbox.serving.tables import PartialEncoder, TableEncoder, form_of
from berth.sandbox.serving.watch import Encoder, Watcher, WatchOptions
from berth.sandbox.storage.admission import DefaultAdmission
from berth.sandbox.storage.bootstrap import create_system_objects
from berth.sandbox.storage.custom import CustomResources
from berth.sandbox.storage.namespaces import NamespaceReaper
from berth.sandbox.storage.registry import Registry
from berth.sandbox.storage.store import DEFAULT_HISTORY, Store, encode

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from datetime import datetime

    from aiohttp.typedefs import LooseHeaders

JsonObject = dict[str, Any]

_log = logging.getLogger(__name__)

_MIN_WATCH_S: Final = 1800.0
_STOP_S: Final = 0.5  # for requests under way when the server stops
_TURNS: Final = 5  # of the loop, until an accepted connection is known to the HTTP server
_MAX_BODY_BYTES: Final = 3 * 1024 * 1024
_PUBLIC: Final = ("/healthz", "/livez", "/readyz", "/version")  # served to everybody
_TRUE: Final = ("true", "1", "True")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How to serve.

    Attributes:
        host: address to listen on; loopback unless others shall reach it.
        port: 0 takes a free one.
        minor: which Kubernetes version to be, `1.36` or `1.37`.
        pod_groups: whether the pod group API is served.
        token: bearer token that requests have to carry; None lets everybody in.
        history: changes kept per kind for watches to resume from.
        bookmark_every_s: how often a watch that wants bookmarks gets one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    minor: str = "1.37"
    pod_groups: bool = False
    token: str | None = None
    history: int = DEFAULT_HISTORY
    bookmark_every_s: float = 60.0


class _Listener(web.Server):
    """Drops a connection that was accepted right before the end and comes to light after all others were closed.

    Attributes:
        closing: set when the end begins.
    """

    closing = False

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Serve the connection, unless it comes too late."""
        super().connection_made(handler, transport)
        if self.closing:
            transport.abort()


class EmbeddedApiServer:
    """An API server in this process, on the running loop.

    Args:
        options: how to serve.
        tls: serve HTTPS with this context; None for plain HTTP.
        clock: the time that objects carry.

    Attributes:
        registry: the objects, for access without HTTP.
        url: where it is served; set by `start`.
    """

    def __init__(
        self,
        options: ServerOptions | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.options = options or ServerOptions()
        self._tls = tls
        table = built_in(self.options.minor, pod_groups=self.options.pod_groups)
        store = Store(history=self.options.history)
        admission = DefaultAdmission(store, table, lambda: rfc3339(clock()), self.options.minor)
        self.registry = Registry(store, table, admission, clock=clock)
        create_system_objects(self.registry)
        self._custom = CustomResources(self.registry)
        self._reaper = NamespaceReaper(self.registry)
        self._discovery = Discovery(table, self.options.minor)
        self._verbs = Verbs(self.registry)
        self._pods = PodActions(self.registry)
        self._watchers: set[Watcher] = set()
        self._runner: web.ServerRunner | None = None
        self._listener: _Listener | None = None
        self._socket: socket.socket | None = None
        self._jitter = random.Random()
        self._port = self.options.port
        self.url = ""

    async def start(self) -> None:
        """Begin to serve; `url` is set afterwards. After a stop, it serves the same objects at the same address again.

        Raises:
            OSError: the address cannot be used.
        """
        host = self.options.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, self._port), family=family)
        self._port = self._socket.getsockname()[1]
        loop = asyncio.get_running_loop()
        make_request = partial(web.BaseRequest, loop=loop, client_max_size=_MAX_BODY_BYTES)
        self._listener = _Listener(
            self._serve, request_factory=make_request, handler_cancellation=True, access_log=None
        )
        self._runner = web.ServerRunner(self._listener, shutdown_timeout=_STOP_S)
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, ssl_context=self._tls).start()
        named = f"[{host}]" if family == socket.AF_INET6 else host
        self.url = f"{'https' if self._tls else 'http'}://{named}:{self._port}"

    async def stop(self) -> None:
        """End all watches and stop serving; the objects stay."""
        self.drop_watches()
        if self._runner is not None and self._listener is not None and self._socket is not None:
            # A connection that asyncio accepts in the very turn in which its server closes is lost without being
            # closed, so accepting ends first, and what was accepted gets its turns.
            asyncio.get_running_loop().remove_reader(self._socket)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            self._listener.closing = True
            await self._runner.cleanup()
            self._runner = self._listener = self._socket = None

    def drop_watches(self) -> None:
        """End every watch stream, as a restarting API server does."""
        for watcher in list(self._watchers):
            watcher.stop()

    def compact(self) -> None:
        """Forget the past, as etcd does: watches from an old version and later pages of a list get 410."""
        self.registry.store.compact()
        self._verbs.lists.forget()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._dispatch(request)
        except errors.ApiError as error:
            return _json(error.code, encode(error.status()), error.headers)
        except web.HTTPRequestEntityTooLarge:
            return _json(413, encode(errors.too_large(_MAX_BODY_BYTES).status()))
        except errors.NotServedError:
            return web.Response(status=404, text="404 page not found\n")
        except Exception as error:
            if isinstance(error, ConnectionError):
                raise
            _log.exception("request failed", extra={"path": request.path})
            failure = errors.ApiError(500, "InternalError", f"Internal error occurred: {error}")
            return _json(500, encode(failure.status()))

    async def _dispatch(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query_text = request.raw_path.partition("?")
        if not path.startswith(_PUBLIC):
            self._authenticate(request)
        route = resolve(self.registry.table, path)
        if route is None:
            return self._about(path, request.headers.get("Accept", ""))
        sent = request.headers
        call = Call(
            route=route,
            query=dict(parse_qsl(query_text, keep_blank_values=True)) if query_text else {},
            body=await request.read() if request.body_exists else b"",
            content_type=sent.get("Content-Type", "").partition(";")[0].strip(),
            accept=sent.get("Accept", ""),
        )
        if request.method == "GET" and not route.name and call.query.get("watch") in _TRUE:
            return await self._watch(request, call)
        answer = self._answer(request.method, call)
        response = _json(answer.code, answer.body)
        for text in answer.warnings:
            response.headers.add("Warning", f"299 - {quote(text)}")
        return response

    def _about(self, path: str, accept: str) -> web.Response:
        answer = self._discovery.answer(path, accept)
        if answer is None:
            raise errors.NotServedError
        if isinstance(answer, str):
            return web.Response(text=answer)
        response = _json(200, encode(answer))
        if self._discovery.is_aggregated(path, accept):
            response.headers["Content-Type"] = AGGREGATED
        return response

    def _authenticate(self, request: web.BaseRequest) -> None:
        token = self.options.token
        if token is not None and request.headers.get("Authorization") != f"Bearer {token}":
            raise errors.unauthorized()

    def _answer(self, method: str, call: Call) -> Answer:
        verbs, route = self._verbs, call.route
        if method == "GET":
            return verbs.get(call) if route.name else verbs.list_(call)
        if method == "POST":
            return self._post(call)
        if method == "PUT" and route.name:
            return verbs.update(call)
        if method == "PATCH" and route.name:
            return verbs.patch(call)
        if method == "DELETE" and route.name and not route.subresource:
            return verbs.delete(call)
        if method == "DELETE" and not route.name and "deletecollection" in route.resource.verbs:
            return verbs.delete_collection(call)
        raise errors.method_not_allowed()

    def _post(self, call: Call) -> Answer:
        route, resource = call.route, call.route.resource
        if route.subresource == "binding":
            return self._pods.bind(call, route.name)
        if route.subresource == "eviction":
            return self._pods.evict(call)
        if route.name or resource.namespaced != bool(route.namespace):
            raise errors.method_not_allowed()
        if resource.built_in_kind == "Binding":
            return self._pods.bind(call, "")
        if resource.built_in_kind in REVIEW_KINDS:
            review = reviewed(resource.kind, self._verbs.body_object(call), self.options.token)
            return Answer(201, resource.head + encode(review)[1:])
        return self._verbs.create(call)

    async def _watch(self, request: web.BaseRequest, call: Call) -> web.StreamResponse:
        options = self._watch_options(call.route, call.query)
        encoder = self._encoder(call)
        watcher = Watcher(self.registry.store, call.route.resource, options, encoder)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        self._watchers.add(watcher)
        try:
            await watcher.stream(response)
            await response.write_eof()
        finally:
            self._watchers.discard(watcher)
        return response

    def _encoder(self, call: Call) -> Encoder:
        resource, form = call.route.resource, form_of(call.accept)
        if form == "table":
            return TableEncoder(resource, call.query.get("includeObject", ""), self.registry.clock)
        return PartialEncoder(resource) if form == "metadata" else Encoder(resource)

    def _watch_options(self, route: Route, query: dict[str, str]) -> WatchOptions:
        version = version_number(query, watch=True)
        initial_events = query.get("sendInitialEvents") in _TRUE
        if initial_events and query.get("resourceVersionMatch") != "NotOlderThan":
            raise errors.initial_events_need_match()
        timeout_s = number(query, "timeoutSeconds") or _MIN_WATCH_S * (1 + self._jitter.random())
        return WatchOptions(
            namespace=route.namespace or None,
            matches=matcher(route.resource, query.get("labelSelector", ""), query.get("fieldSelector", "")),
            version=version or None,
            bookmarks=query.get("allowWatchBookmarks") in _TRUE,
            announce_end=initial_events,
            initial=initial_events or version == 0,
            timeout_s=float(timeout_s),
            bookmark_every_s=self.options.bookmark_every_s,
        )


def _json(code: int, body: bytes, headers: LooseHeaders | None = None) -> web.Response:
    return web.Response(body=body, status=code, content_type="application/json", headers=headers)
