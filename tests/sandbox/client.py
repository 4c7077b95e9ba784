"""What the tests of the embedded API server say to it: requests, watches, small objects."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Self

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
EVENT_TIMEOUT_S = 5.0


class Refused(Exception):  # noqa: N818 - reads as what happened
    """The server answered with a Status."""

    def __init__(self, status: JsonObject) -> None:
        super().__init__(status["message"])
        self.code: int = status["code"]
        self.reason: str = status.get("reason", "")
        self.message: str = status["message"]
        self.details: JsonObject = status.get("details", {})


class Watch:
    """Events of a watch stream, one at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next(self, timeout_s: float = EVENT_TIMEOUT_S) -> JsonObject:
        """The next event; fails the test if none comes."""
        async with asyncio.timeout(timeout_s):
            line = await self._response.content.readline()
        assert line, "the watch ended"
        event: JsonObject = json.loads(line)
        return event

    async def take(self, count: int) -> list[tuple[str, str]]:
        """The next events as (type, name)."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def ended(self) -> bool:
        """Whether the stream ends, without a further event."""
        async with asyncio.timeout(EVENT_TIMEOUT_S):
            return await self._response.content.readline() == b""

    def close(self) -> None:
        self._response.close()


class Client:
    """Requests with JSON in and out."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self.session = aiohttp.ClientSession(headers=headers)
        self._watches: list[Watch] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.close()
        await self.session.close()

    async def call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", accept: str = "*/*"
    ) -> JsonObject:
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": kind, "Accept": accept}
        async with self.session.request(method, self.url + path, data=data, headers=headers) as response:
            answer: JsonObject = await response.json(content_type=None)
        if not response.ok:
            raise Refused(answer)
        return answer

    async def get(self, path: str, accept: str = "*/*") -> JsonObject:
        return await self.call("GET", path, accept=accept)

    async def post(self, path: str, body: JsonObject) -> JsonObject:
        return await self.call("POST", path, body)

    async def put(self, path: str, body: JsonObject) -> JsonObject:
        return await self.call("PUT", path, body)

    async def patch(self, path: str, body: Any, form: str = "strategic") -> JsonObject:
        return await self.call("PATCH", path, body, kind=PATCHES[form])

    async def delete(self, path: str, options: JsonObject | None = None) -> JsonObject:
        return await self.call("DELETE", path, options)

    async def bind(self, name: str, node: str, **metadata: str) -> JsonObject:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        return await self.post(f"{PODS}/{name}/binding", {"metadata": {"name": name, **metadata}, "target": target})

    async def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await self.get(path))["items"]]

    async def watch(self, path: str, **query: str) -> Watch:
        response = await self.session.get(self.url + path, params={"watch": "true", **query})
        assert response.status == 200, await response.text()
        self._watches.append(Watch(response))
        return self._watches[-1]


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; fails the test if it never does."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


def pod(name: str = "web", **spec: Any) -> JsonObject:
    """A small pod; `labels` and other metadata go under `metadata`."""
    metadata = {"name": name, **spec.pop("metadata", {})}
    containers = [{"name": "main", "image": "registry.example/pause:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def node(name: str = "node-1", *, cpu: str = "4", labels: dict[str, str] | None = None) -> JsonObject:
    resources = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"capacity": resources},
    }
