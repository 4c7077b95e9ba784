"""An API server in memory, in virtual time: pods and nodes that are listed and watched, bindings, events and leases."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from berth.kube.errors import ApiError, ConflictError, KubeError, NotFoundError
from berth.kube.session import JSON

if TYPE_CHECKING:
    from berth.api.node import Node
    from berth.api.pod import Pod

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
LEASE_EVENTS = "/api/v1/namespaces/kube-system/events"
BINDING = "/binding"


class ClusterApi:
    """See the module.

    Attributes:
        fault: what goes wrong with a request (method, path), if anything; a watch counts as ``WATCH``.
        takes_s: how long a binding takes.
        asked: method and path of each request, in order.
        bodies: what was written, by method and path.
    """

    def __init__(self) -> None:
        self.fault: Callable[[str, str], KubeError | None] = lambda _method, _path: None
        self.takes_s = 0.001
        self.asked: list[tuple[str, str]] = []
        self.bodies: defaultdict[tuple[str, str], list[Any]] = defaultdict(list)
        self.lease: dict[str, Any] | None = None
        self._objects: dict[str, dict[str, dict[str, Any]]] = {PODS: {}, NODES: {}}
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = {PODS: [], NODES: []}
        self._version = 0

    # -- what a test does and sees --------------------------------------------------------------------------------

    def add(self, *objects: Pod | Node) -> None:
        """Make objects appear."""
        for obj in objects:
            path = PODS if obj.metadata.namespace else NODES
            self._store(path, "ADDED", msgspec.to_builtins(obj))

    def placements(self) -> dict[str, str]:
        """The nodes of the pods that have one, by the pods' names."""
        pods = self._objects[PODS].values()
        return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}

    def notes(self, reason: str) -> list[str]:
        """What the events with this reason say."""
        return [event["note"] for event in self.bodies["POST", EVENTS] if event["reason"] == reason]

    def hold_lease(self, identity: str) -> None:
        """Let somebody else take the lease."""
        spec = {"holderIdentity": identity, "leaseDurationSeconds": 15, "leaseTransitions": 1}
        self._store_lease({"metadata": {"name": "kube-scheduler"}, "spec": spec})

    def was_asked(self, method: str, path: str) -> bool:
        return (method, path) in self.asked

    # -- the client's side ----------------------------------------------------------------------------------------

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
        del content_type, accept, timeout_s
        path = path.partition("?")[0]
        content = None if body is None else json.loads(body)
        self.asked.append((method, path))
        self.bodies[method, path].append(content)
        await asyncio.sleep(self.takes_s if path.endswith(BINDING) else 0.001)
        fault = self.fault(method, path)
        if fault is not None:
            raise fault
        return json.dumps(self._answer(method, path, content)).encode()

    @asynccontextmanager
    async def stream(self, path: str, *, idle_timeout_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        del idle_timeout_s
        path = path.partition("?")[0]
        self.asked.append(("WATCH", path))
        await asyncio.sleep(0.001)
        fault = self.fault("WATCH", path)
        if fault is not None:
            raise fault
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._watches[path].append(lines)
        try:
            yield _each(lines)
        finally:
            self._watches[path].remove(lines)

    def end_watches(self, path: str) -> None:
        """Make every watch of *path* end, as a server does after a while."""
        for lines in self._watches[path]:
            lines.put_nowait(b"")

    # -- the server's side ----------------------------------------------------------------------------------------

    def _answer(self, method: str, path: str, content: Any) -> Any:
        if method == "GET" and path in self._objects:
            items = [*self._objects[path].values()]
            return {"metadata": {"resourceVersion": str(self._version)}, "items": items}
        if path.startswith(LEASES):
            return self._answer_for_lease(method, content)
        if path.endswith(BINDING):
            pod = self._objects[PODS][content["metadata"]["name"]]
            if pod["spec"].get("nodeName"):
                raise ConflictError(409, "Conflict", f"pod {content['metadata']['name']} is already assigned")
            self._store(PODS, "MODIFIED", {**pod, "spec": {**pod["spec"], "nodeName": content["target"]["name"]}})
        return {}

    def _store(self, path: str, event: str, obj: dict[str, Any]) -> None:
        self._version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self._version)}}
        self._objects[path][obj["metadata"]["name"]] = obj
        for lines in self._watches[path]:
            lines.put_nowait(json.dumps({"type": event, "object": obj}).encode() + b"\n")

    def _answer_for_lease(self, method: str, content: Any) -> Any:
        if method == "POST":
            return self._store_lease(content)
        if self.lease is None:
            raise NotFoundError(404, "NotFound", "no lease")
        if method == "PUT":
            if content["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise ConflictError(409, "Conflict", "the lease has changed")
            return self._store_lease(content)
        return self.lease

    def _store_lease(self, lease: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self._version)}}
        return self.lease


async def _each(lines: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    while line := await lines.get():
        yield line


def refusing(error: ApiError, *requests: tuple[str, str]) -> Callable[[str, str], KubeError | None]:
    """These requests (method and path) are refused."""
    return lambda method, path: error if (method, path) in requests else None
