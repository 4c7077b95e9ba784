"""The two ways in which a hollow kubelet reaches an API server: in the same process, or over HTTP.

`DirectAccess` calls the registry and reads the store's log without any encoding; `HttpAccess` speaks to any API server,
embedded or real. Both satisfy `hollow.Access`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import ClientTimeout

from berth.sandbox.kinds.conform import conformed
from berth.sandbox.kinds.errors import ApiError
from berth.sandbox.kinds.fields import message_of
from berth.sandbox.kinds.routes import Route, resolve
from berth.sandbox.objects import section, without
from berth.sandbox.storage import strategic
from berth.sandbox.storage.registry import DeleteOptions, Preconditions, Registry
from berth.sandbox.storage.store import ExpiredError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import aiohttp

JsonObject = dict[str, Any]

_PODS: Final = "/api/v1/pods"
_BOUND: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
_PATCH_TYPE: Final = "application/strategic-merge-patch+json"
_NO_TIMEOUT: Final = ClientTimeout(total=None)
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class DirectAccess:
    """Straight on a registry in this process."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pods = registry.table.served("", "v1", "pods")

    async def request(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """Do one request.

        Raises:
            ApiError: it was refused.
            ValueError: the path or method is none that a kubelet uses.
        """
        route = resolve(self._registry.table, path)
        if route is None:
            raise ValueError(f"no resource is served at {path}")
        return self._do(method, route, body or {})

    def _do(self, method: str, route: Route, body: JsonObject) -> JsonObject:
        registry, resource, key = self._registry, route.resource, (route.namespace, route.name)
        if method == "GET":
            return registry.get(resource, key).obj
        if method == "POST":
            obj, _ = conformed(resource, without(body, "kind", "apiVersion"))
            return registry.create(resource, route.namespace, obj).obj
        if method == "PATCH":
            kept = registry.get(resource, key).obj
            merged, _ = conformed(resource, strategic.merge(kept, body, message_of(resource)), kept)
            return registry.update(resource, key, merged, subresource=route.subresource).obj
        if method == "DELETE":
            uid = section(body, "preconditions").get("uid")
            options = DeleteOptions(grace_s=body.get("gracePeriodSeconds"), preconditions=Preconditions(uid=uid))
            return registry.delete(resource, key, options).entry.obj
        raise ValueError(f"a kubelet does no {method}")

    async def watch_pods(self) -> AsyncGenerator[tuple[str, JsonObject], None]:
        """All bound pods, then their changes."""
        collection = self._registry.store.collection(self._pods)
        changed = asyncio.Event()
        end_watching = collection.subscribe(changed.set)
        try:
            position = collection.end()
            for entry in collection.entries():
                if entry.obj["spec"].get("nodeName"):
                    yield "ADDED", entry.obj
            while True:
                changed.clear()
                changes = collection.changes_from(position)
                position += len(changes)
                for change in changes:
                    if change.entry.obj["spec"].get("nodeName"):
                        yield change.kind, change.entry.obj
                await changed.wait()
        except ExpiredError:
            return
        finally:
            end_watching()


class HttpAccess:
    """Over HTTP, with a session whose headers, TLS and base address are set by its owner.

    Args:
        session: made with `base_url`.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def request(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """Do one request.

        Raises:
            ApiError: the server refused.
            OSError: it could not be reached.
        """
        kind = _PATCH_TYPE if method == "PATCH" else "application/json"
        data = None if body is None else _encode(body)
        async with self._session.request(method, path, data=data, headers={"Content-Type": kind}) as response:
            answer: JsonObject = _decode(await response.read())
        if not response.ok:
            raise ApiError(response.status, answer.get("reason", ""), answer.get("message", ""), answer.get("details"))
        return answer

    async def watch_pods(self) -> AsyncGenerator[tuple[str, JsonObject], None]:
        """All bound pods, then their changes.

        Raises:
            ApiError: the server refused, or the stream told of an error.
            OSError: the connection broke.
        """
        fields = quote(_BOUND)
        listed = await self.request("GET", f"{_PODS}?fieldSelector={fields}")
        for pod in listed["items"] or []:
            yield "ADDED", pod
        version = listed["metadata"]["resourceVersion"]
        path = f"{_PODS}?fieldSelector={fields}&watch=true&resourceVersion={version}"
        async with self._session.get(path, timeout=_NO_TIMEOUT) as response:
            if not response.ok:
                raise ApiError(response.status, "", await response.text())
            async for line in response.content:
                event = _decode(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(status.get("code", 500), status.get("reason", ""), status.get("message", ""))
                yield event["type"], event["object"]
