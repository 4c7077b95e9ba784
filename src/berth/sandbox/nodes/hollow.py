"""Nodes without machines: a builder of node objects, and a kubelet that only pretends.

`HollowNode` describes a node; `HollowKubelet` registers nodes and then plays the kubelet for all of them: a pod that
was bound starts running, a pod that is being deleted stops and goes. It works through an `Access`, either straight on
a registry in the same process (`access.DirectAccess`) or over HTTP (`access.HttpAccess`), so the same kubelet serves
the embedded API server and a real one. Time enters as `sleep` and `clock`, so that tests need not wait.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Protocol

from berth.sandbox.kinds.errors import ApiError
from berth.sandbox.nodes.statuses import finished_status, running_status
from berth.sandbox.objects import items, parse_time, rfc3339, rfc3339_micro, section, utc_now

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
    from datetime import datetime

JsonObject = dict[str, Any]

_log = logging.getLogger(__name__)

ZONES: Final = ("zone-a", "zone-b", "zone-c")
REGION: Final = "sandbox"
NODE_RESOURCES: Final = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
_NODES: Final = "/api/v1/nodes"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_S: Final = 40
_RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HollowNode:
    """One node to be.

    Attributes:
        resources: capacity by resource name; extended resources such as `example.com/gpu` go here.
        taints: as in `spec.taints`.
    """

    name: str
    zone: str = ZONES[0]
    resources: Mapping[str, str] = field(default_factory=lambda: NODE_RESOURCES)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[JsonObject, ...] = ()

    def manifest(self, now: str, kubelet_version: str, address: str) -> JsonObject:
        """The Node object.

        Args:
            now: when its conditions began.
            kubelet_version: such as `v1.37.0`.
            address: its internal IP.
        """
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/region": REGION,
            **self.labels,
        }
        spec: JsonObject = {"taints": list(self.taints)} if self.taints else {}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": {"berth.dev/hollow": "true"}},
            "spec": spec,
            "status": {
                "capacity": dict(self.resources),
                "allocatable": dict(self.resources),
                "conditions": _node_conditions(now),
                "addresses": [
                    {"type": "InternalIP", "address": address},
                    {"type": "Hostname", "address": self.name},
                ],
                "nodeInfo": _node_info(self.name, kubelet_version),
            },
        }


def zoned_nodes(
    count: int, *, zones: tuple[str, ...] = ZONES, prefix: str = "node", resources: Mapping[str, str] = NODE_RESOURCES
) -> list[HollowNode]:
    """*count* alike nodes, dealt out over *zones*, named `node-0` and so on with as many digits as are needed."""
    digits = len(str(count - 1))
    return [
        HollowNode(name=f"{prefix}-{index:0{digits}d}", zone=zones[index % len(zones)], resources=resources)
        for index in range(count)
    ]


def _node_conditions(now: str) -> list[JsonObject]:
    healthy = (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    )
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for kind, status, reason, message in healthy
    ]


def _node_info(name: str, kubelet_version: str) -> JsonObject:
    return {
        "architecture": "amd64",
        "bootID": name,
        "containerRuntimeVersion": "hollow://1.0",
        "kernelVersion": "hollow",
        "kubeProxyVersion": "",
        "kubeletVersion": kubelet_version,
        "machineID": name,
        "operatingSystem": "linux",
        "osImage": "Hollow Linux",
        "systemUUID": name,
    }


class Access(Protocol):
    """What a hollow kubelet needs of an API server; paths and bodies are those of the HTTP API."""

    async def request(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """Do one request; a PATCH is a strategic merge patch.

        Raises:
            ApiError: the server refused.
        """
        ...

    def watch_pods(self) -> AsyncGenerator[tuple[str, JsonObject], None]:
        """All bound pods, then their changes, as (type of change, pod); ends when the stream does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take on hollow nodes, in seconds.

    Attributes:
        start_s: from binding to running.
        stop_s: from the mark of deletion to the end, besides what its preStop hooks sleep; never longer than the
            pod's grace.
        job_s: from running to success, for pods of Jobs; None lets them run for ever, as all other pods do.
        heartbeat_s: between two looks after each node, its lease and what it offers; None does neither.
    """

    start_s: float = 0.0
    stop_s: float = 0.0
    job_s: float | None = None
    heartbeat_s: float | None = None


class HollowKubelet:
    """The kubelets of all hollow nodes.

    Args:
        access: the API server.
        pace: how long things take.
        kubelet_version: what the nodes report.
        clock: the time that statuses carry.
        sleep: how to wait.
    """

    def __init__(
        self,
        access: Access,
        *,
        pace: Pace | None = None,
        kubelet_version: str = "v1.37.0",
        clock: Callable[[], datetime] = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._access = access
        self._pace = pace or Pace()
        self._version = kubelet_version
        self._clock = clock
        self._sleep = sleep
        self._addresses: dict[str, str] = {}  # of the registered nodes
        self._pods = 0  # pods that got an address so far
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}  # (uid, what is done) -> what is under way

    async def register(self, nodes: Iterable[HollowNode]) -> None:
        """Create the nodes; one that exists already is left as it is.

        Raises:
            ApiError: the server refused for another reason.
        """
        for node in nodes:
            number = len(self._addresses)
            address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
            manifest = node.manifest(rfc3339(self._clock()), self._version, address)
            try:
                await self._access.request("POST", _NODES, manifest)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
            self._addresses[node.name] = address

    async def run(self) -> None:
        """Play kubelet until cancelled."""
        beat = asyncio.create_task(self._beat()) if self._pace.heartbeat_s else None
        try:
            while True:
                try:
                    async with aclosing(self._access.watch_pods()) as changes:
                        async for kind, pod in changes:
                            self._see(kind, pod)
                except (ApiError, OSError) as error:
                    _log.warning("the hollow kubelet lost its watch and begins again", extra={"reason": str(error)})
                    await self._sleep(_RETRY_S)
        finally:
            doomed = [*self._tasks.values(), *([beat] if beat else [])]
            for task in doomed:
                task.cancel()
            await asyncio.gather(*doomed, return_exceptions=True)

    def _see(self, kind: str, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if kind == "DELETED":
            for name in ("start", "stop"):
                if task := self._tasks.pop((uid, name), None):
                    task.cancel()
        elif "deletionTimestamp" in metadata:
            # Without grace the API server is done with it, or waits for somebody else's finalizer.
            if metadata.get("deletionGracePeriodSeconds"):
                self._begin((uid, "stop"), self._stop, pod)
        elif section(pod, "status").get("phase") == "Pending":
            self._begin((uid, "start"), self._start, pod)

    def _begin(self, name: tuple[str, str], work: Callable[[JsonObject], Awaitable[None]], pod: JsonObject) -> None:
        if name in self._tasks:
            return
        task = self._tasks[name] = asyncio.create_task(self._guarded(work, pod))
        task.add_done_callback(lambda done: self._tasks.pop(name, None) if self._tasks.get(name) is done else None)

    async def _guarded(self, work: Callable[[Any], Awaitable[None]], subject: Any) -> None:
        try:
            await work(subject)
        except (ApiError, OSError) as error:
            if getattr(error, "reason", "") not in ("NotFound", "Conflict"):
                _log.warning("a hollow node could not report", extra={"reason": str(error)})

    async def _start(self, pod: JsonObject) -> None:
        await self._sleep(self._pace.start_s)
        self._pods += 1
        number = self._pods
        address = f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{number & 255}"
        host = self._addresses.get(pod["spec"]["nodeName"], "10.0.0.0")
        status = running_status(pod, rfc3339(self._clock()), address, host)
        await self._report(pod, status)
        if self._pace.job_s is not None and _is_of_a_job(pod):
            await self._sleep(self._pace.job_s)
            await self._report(pod, finished_status(pod, rfc3339(self._clock())))

    async def _report(self, pod: JsonObject, status: JsonObject) -> None:
        await self._access.request("PATCH", f"{_path(pod)}/status", {"status": status, **_same(pod)})

    async def _stop(self, pod: JsonObject) -> None:
        metadata = pod["metadata"]
        left = parse_time(metadata["deletionTimestamp"]) - self._clock()
        await self._sleep(min(self._pace.stop_s + pre_stop_s(pod), max(left, timedelta()).total_seconds()))
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        await self._access.request("DELETE", _path(pod), options)

    async def _beat(self) -> None:
        period_s = self._pace.heartbeat_s or 0.0
        while True:
            for name in list(self._addresses):
                await self._guarded(self._renew, name)
                await self._guarded(self._offer, name)
            await self._sleep(period_s)

    async def _renew(self, node_name: str) -> None:
        renewed = {"spec": {"holderIdentity": node_name, "renewTime": rfc3339_micro(self._clock())}}
        try:
            await self._access.request("PATCH", f"{_LEASES}/{node_name}", renewed)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": node_name},
                "spec": {**renewed["spec"], "leaseDurationSeconds": _LEASE_S},
            }
            await self._access.request("POST", _LEASES, lease)

    async def _offer(self, node_name: str) -> None:
        """Make allocatable what somebody added to the node's capacity, and no longer what was taken out of it."""
        path = f"{_NODES}/{node_name}"
        changes = offer(section(await self._access.request("GET", path), "status"))
        if changes:
            await self._access.request("PATCH", f"{path}/status", {"status": {"allocatable": changes}})


def offer(status: JsonObject) -> JsonObject:
    """What to change in `allocatable` so that it names the resources of `capacity`; a null takes one away.

    Quantities of resources that both name are left to whoever set them.

    Source:
        k8s pkg/kubelet/nodestatus/setters.go, `MachineInfo`, which copies capacity to allocatable.
    """
    capacity, allocatable = section(status, "capacity"), section(status, "allocatable")
    added = {name: quantity for name, quantity in capacity.items() if name not in allocatable}
    return added | dict.fromkeys(name for name in allocatable if name not in capacity)


def pre_stop_s(pod: JsonObject) -> float:
    """How long the pod's containers sleep in their preStop hooks, in seconds; they do so at the same time."""
    hooks = [section(section(container, "lifecycle"), "preStop") for container in pod["spec"]["containers"]]
    return max((float(section(hook, "sleep").get("seconds") or 0) for hook in hooks), default=0.0)


def _is_of_a_job(pod: JsonObject) -> bool:
    return any(owner["kind"] == "Job" for owner in items(pod["metadata"], "ownerReferences"))


def _path(pod: JsonObject) -> str:
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def _same(pod: JsonObject) -> JsonObject:
    """The part of a patch that makes it fail on a pod of the same name that came later."""
    return {"metadata": {"uid": pod["metadata"]["uid"]}}
