"""A cluster with devices, the plugin, and a pod on its way to a node, over a writer in memory; turns stand for time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from tests.builders import a_cluster, a_handle, a_node, rows_of
from tests.devices import a_device_class, a_pod_with, a_slice
from tests.framework.fakes import NoStatuses
from tests.storage import with_objects

from berth.api.dra import ResourceClaim
from berth.cluster.kinds import RESOURCE_CLAIM
from berth.framework.cycle_state import CycleState
from berth.framework.handle import WriteConflictError, WriteError
from berth.framework.plugin_args import DynamicResourcesArgs
from berth.framework.status import SUCCESS, Status
from berth.plugins.dynamic_resources.plugin import DynamicResources

if TYPE_CHECKING:
    from berth.api.node import Node
    from berth.api.pod import Pod, PodExtendedResourceClaimStatus
    from berth.cluster.cache import Cluster

Event = Callable[["Scene"], None]
T = TypeVar("T")
NOW_S = 1_782_864_000.0  # 2026-07-01T00:00:00Z
NOW = "2026-07-01T00:00:00Z"


@dataclass(eq=False)
class Turns:
    """A wait in which one thing happens each turn; the time is up when nothing is left to happen."""

    scene: Scene
    timeout_s: float
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1

    async def turn(self, at_most_s: float) -> bool:
        assert at_most_s > 0
        if not self.scene.story:
            return False
        await asyncio.sleep(0)
        self.scene.story.pop(0)(self.scene)
        return True


@dataclass
class Scene:
    """The cluster, what the API server has, and what was written."""

    cluster: Cluster
    pod: Pod = field(default_factory=lambda: a_pod_with("claim"))
    minor: str = "1.37"
    gates: dict[str, bool] = field(default_factory=dict)
    args: DynamicResourcesArgs | None = None
    stopwatch: Callable[[], float] | None = None
    refuses: str = "nothing"
    conflicts: int = 0
    story: list[Event] = field(default_factory=list)
    done: list[tuple[str, Any]] = field(default_factory=list)
    waits: list[Turns] = field(default_factory=list)
    elsewhere: ResourceClaim | None = None
    pending: list[Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=list)
    state: CycleState = field(default_factory=CycleState)
    plugin: DynamicResources = field(init=False)

    def __post_init__(self) -> None:
        handle = a_handle(
            self.cluster,
            minor=self.minor,
            gates=self.gates,
            claim_writer=self,
            clock=lambda: NOW_S,
            stopwatch=self.stopwatch,
        )
        self.plugin = DynamicResources(self.args, handle)

    # what the plugin is given

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        made = f"{claim.metadata.generate_name}x1"
        meta = msgspec.structs.replace(claim.metadata, name=made, uid=f"uid-of-{made}", resource_version="10")
        return self._write("create", msgspec.structs.replace(claim, metadata=meta))

    async def update_finalizers(self, before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
        return self._write("finalizers", _next_version(before, after))

    async def update_status(self, before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
        if self.conflicts:
            self.conflicts -= 1
            if self.elsewhere is not None:
                version = str(int(before.metadata.resource_version) + 1)
                meta = msgspec.structs.replace(self.elsewhere.metadata, resource_version=version)
                _show(self, msgspec.structs.replace(self.elsewhere, metadata=meta))
            raise WriteConflictError("the object has been modified")
        return self._write("status", _next_version(before, after))

    async def release(self, claim: ResourceClaim, pod: Pod) -> None:
        self._write("release", claim)
        assert pod.uid == self.pod.uid

    async def delete(self, claim: ResourceClaim) -> None:
        self._write("delete", claim)

    async def write_special_claim(self, pod: Pod, status: PodExtendedResourceClaimStatus) -> None:
        assert pod.uid == self.pod.uid
        self._write("pod", status)

    def wait(self, timeout_s: float) -> Turns:
        self.waits.append(Turns(self, timeout_s))
        return self.waits[-1]

    def later(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.pending.append(write)

    def tell(self, pod: Pod, reason: str, action: str, note: str) -> None:
        assert pod.uid == self.pod.uid
        self.done.append(("event", (reason, action, note)))

    def _write(self, doing: str, thing: T) -> T:
        if self.refuses in (doing, f"{doing} of {thing.metadata.name}" if isinstance(thing, ResourceClaim) else ""):
            raise WriteError("refused")
        self.done.append((doing, thing))
        return thing

    # what happens

    @property
    def info(self) -> Any:
        return self.cluster.info(self.pod)

    def pre_filter(self) -> Status:
        self.state = CycleState()
        return self.plugin.pre_filter(self.state, self.info).status

    def judge(self, *names: str) -> dict[str, str]:
        """Node -> the reason against it; empty where there is none.  PreFilter is run before."""
        assert self.pre_filter() == SUCCESS
        rows = rows_of(self.cluster, names or None)
        codes = self.plugin.filter(self.state, self.info, rows).tolist()
        reasons = [self.plugin.rejection(code).message if code else "" for code in codes]
        return dict(zip([self.cluster.table.name(row) for row in rows.tolist()], reasons, strict=True))

    def scores(self) -> dict[str, int]:
        rows = rows_of(self.cluster)
        raw = self.plugin.score(self.state, self.info, rows)
        normal = self.plugin.normalize(self.state, self.info, raw).tolist()
        return dict(zip([self.cluster.table.name(row) for row in rows.tolist()], normal, strict=True))

    def reserve(self, node: str = "n1") -> Status:
        self.judge()
        return self.plugin.reserve(self.state, self.info, node)

    def unreserve(self, node: str = "n1") -> None:
        self.plugin.unreserve(self.state, self.info, node)

    def ahead(self, node: str = "n1") -> Status:
        return self.plugin.pre_bind_pre_flight(self.state, self.info, node)

    async def pre_bind(self, *story: Event, node: str = "n1") -> Status:
        self.story = list(story)
        return await self.plugin.pre_bind(self.state, self.info, node)

    def post_filter(self) -> tuple[str, ...]:
        return self.plugin.post_filter(self.state, self.info, NoStatuses()).status.reasons

    async def catch_up(self) -> list[tuple[str, Any]]:
        """Perform what was put off; returns it."""
        self.done.clear()
        while self.pending:
            await self.pending.pop(0)()
        return self.done

    def claim(self, name: str = "claim") -> ResourceClaim:
        """The claim as it is known."""
        found = self.cluster.device_claims.get(name, "default")
        assert found is not None
        return found

    def doings(self) -> list[str]:
        return [doing for doing, _ in self.done]


def shows(claim: ResourceClaim) -> Event:
    """The API server shows a claim."""
    return lambda scene: _show(scene, claim)


def _show(scene: Scene, claim: ResourceClaim) -> None:
    scene.cluster.objects.put(RESOURCE_CLAIM, claim)


def goes(name: str) -> Event:
    """A claim is gone."""

    def happen(scene: Scene) -> None:
        scene.cluster.objects.remove(RESOURCE_CLAIM, name, "default")

    return happen


def a_scene(*objects: Any, nodes: tuple[Node, ...] = (), **fields: Any) -> Scene:
    """Two nodes; the first has two devices, of which the class ``gpu`` has all there are."""
    cluster = a_cluster(nodes or (a_node("n1"), a_node("n2")), minor=fields.get("minor", "1.37"))
    devices = a_slice("slice", "gpu-0", "gpu-1", on="n1")
    return Scene(with_objects(cluster, a_device_class("gpu"), devices, *objects), **fields)


def _next_version(before: ResourceClaim, after: ResourceClaim) -> ResourceClaim:
    version = str(int(before.metadata.resource_version) + 1)
    return msgspec.structs.replace(after, metadata=msgspec.structs.replace(after.metadata, resource_version=version))
