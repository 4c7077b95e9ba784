"""The self-audit finds whatever was lost between informers and core, mends it, and is silent where all is well."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.builders import a_node, a_pod
from tests.devices import a_device_claim, a_result, an_allocation
from tests.kube.virtual_time import in_virtual_time, loop_clock
from tests.scheduling.worlds import World, a_world

from berth.api.meta import ObjectMeta
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.workloads import Namespace
from berth.cluster.kinds import NAMESPACE
from berth.runtime.audit import DIFFERENCES, SelfAudit

if TYPE_CHECKING:
    from collections.abc import Callable


WAITING, BOUND = a_pod("waiting"), a_pod("bound", on="n1")
TEAM = Namespace(metadata=ObjectMeta(name="team"))


@dataclass
class Desk:
    """A world, what the informers hold of it, and an audit."""

    world: World = field(default_factory=lambda: a_world(nodes=(), closed=("n1", "n2")))
    pods: dict[tuple[str, str], Pod] = field(default_factory=dict)
    nodes: dict[tuple[str, str], Node] = field(default_factory=dict)
    namespaces: dict[tuple[str, str], Any] = field(default_factory=dict)
    found: Counter[str] = field(default_factory=Counter)
    audits: int = 0

    def audit(self) -> SelfAudit:
        return SelfAudit(
            self.world.engine,
            self.pods,
            self.nodes,
            lambda: [(NAMESPACE, self.namespaces)],
            found=lambda kind: self.found.update([kind]),
            finished=self._finished,
            clock=loop_clock(),
        )

    def hold(self, *objects: Pod | Node) -> Desk:
        """Let informers hold objects without a word to the core."""
        for obj in objects:
            if isinstance(obj, Node):
                self.nodes["", obj.metadata.name] = obj
            else:
                self.pods[obj.metadata.namespace, obj.metadata.name] = self.world.listed[obj.key] = obj
        return self

    def tell(self, *objects: Pod | Node) -> Desk:
        """Tell the core of objects without a word to the informers."""
        for obj in objects:
            if isinstance(obj, Node):
                self.world.engine.node_added(obj)
            else:
                self.world.engine.pod_added(obj)
        return self

    def _finished(self) -> None:
        self.audits += 1


N1, N1_LATER = a_node("n1"), a_node("n1", labels={"zone": "b"})
RENAMED = replace(BOUND, metadata=replace(BOUND.metadata, labels={"app": "x"}, resource_version="2"))
RELABELLED = replace(WAITING, metadata=replace(WAITING.metadata, labels={"app": "x"}, resource_version="2"))
ON_N1 = replace(WAITING, spec=replace(WAITING.spec, node_name="n1"))


def promised_a_node(desk: Desk, pod: Pod) -> None:
    desk.world.listed[pod.key] = pod
    desk.world.queue.nominator.add(desk.world.cluster.info(pod))


# what was lost; what the audit finds; a question that is answered with yes afterwards
LOSSES: dict[str, tuple[Callable[[Desk], Any], str, Callable[[Desk], bool]]] = {
    "the coming of a node": (lambda d: d.hold(N1), "node", lambda d: d.world.cluster.table.row_of("n1") is not None),
    "the change of a node": (
        lambda d: d.hold(N1_LATER).tell(N1),
        "node",
        lambda d: d.world.cluster.table.node(0) is N1_LATER,
    ),
    "the end of a node": (lambda d: d.tell(N1), "node_gone", lambda d: len(d.world.cluster.table) == 0),
    "the coming of a pod": (lambda d: d.hold(WAITING), "pod_lost", lambda d: d.world.place(WAITING) == "A"),
    "the coming of a bound pod": (lambda d: d.hold(BOUND), "pod", lambda d: d.world.place(BOUND) == "bound on n1"),
    "the change of a bound pod": (
        lambda d: d.hold(RENAMED).tell(BOUND),
        "pod",
        lambda d: d.world.cluster.table.pods(0)[BOUND.uid].pod is RENAMED,
    ),
    "the change of a waiting pod": (
        lambda d: d.hold(RELABELLED).tell(WAITING),
        "pod",
        lambda d: [entry.pod for entry in d.world.queue.entries()] == [RELABELLED],
    ),
    "the end of a bound pod": (lambda d: d.tell(BOUND), "pod_gone", lambda d: d.world.place(BOUND) == ""),
    "the end of a waiting pod": (lambda d: d.tell(WAITING), "pod_not_waiting", lambda d: d.world.place(WAITING) == ""),
    "the end of a pod on its way": (
        lambda d: d.world.cluster.assume(d.world.cluster.info(WAITING).on("n1"), "n1"),
        "pod_gone",
        lambda d: d.world.cluster.counts()["pods"] == 0,
    ),
    "the end of a pod that was promised a node": (
        lambda d: promised_a_node(d, a_pod("hopeful", nominated="n1")),
        "nomination",
        lambda d: len(d.world.queue.nominator) == 0,
    ),
    "the coming of another object": (
        lambda d: d.namespaces.update({("", "team"): TEAM}),
        "object",
        lambda d: d.world.cluster.objects.get(NAMESPACE, "team") is TEAM,
    ),
    "the end of another object": (
        lambda d: d.world.engine.object_added(NAMESPACE, TEAM),
        "object_gone",
        lambda d: d.world.cluster.objects.get(NAMESPACE, "team") is None,
    ),
}


@pytest.mark.parametrize(("lose", "kind", "is_mended"), LOSSES.values(), ids=LOSSES)
async def test_it_finds_and_mends(
    lose: Callable[[Desk], Any],
    kind: str,
    is_mended: Callable[[Desk], bool],
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    lose(desk)
    audit = desk.audit()
    assert await audit.look() == 1
    assert desk.found == {kind: 1}
    assert is_mended(desk)
    assert "belief and informer differ, mended" in caplog.text
    assert await audit.look() == 0
    desk.world.cluster.validate()


def test_every_kind_of_difference_is_known() -> None:
    assert {kind for _, kind, _ in LOSSES.values()} | {"promise"} == set(DIFFERENCES)


async def test_devices_promised_to_nobody_are_taken_back_the_second_time_they_are_seen() -> None:
    desk = Desk()
    claims = desk.world.cluster.device_claims
    claims.promise(a_device_claim(allocation=an_allocation(a_result("gpu-0"))))
    audit = desk.audit()
    assert [await audit.look() for _ in range(3)] == [0, 1, 0]
    assert desk.found == {"promise": 1}
    assert claims.promises() == []


async def test_a_pod_that_was_bound_unnoticed_waits_no_longer() -> None:
    desk = Desk().hold(N1, ON_N1).tell(N1, WAITING)
    await desk.audit().look()
    assert desk.found == {"pod": 1, "pod_not_waiting": 1}
    assert desk.world.place(WAITING) == "bound on n1"


async def test_what_is_as_it_should_be_is_left_alone() -> None:
    desk = Desk(a_world(nodes=()))
    foreign = a_pod("foreign", spec={"scheduler_name": "somebody-else"})
    tried, ending = a_pod("tried"), a_pod("ending", metadata={"deletion_timestamp": "2030-01-01T00:00:00Z"})
    desk.hold(N1, BOUND, foreign, tried, ending).tell(N1, BOUND, foreign, tried)
    bind = desk.world.bound()
    assert await desk.audit().look() == 0  # assumed, and in flight
    desk.world.engine.binding_permitted(bind)
    assert await desk.audit().look() == 0  # assumed only
    assert desk.audits == 2


async def test_a_malformed_object_is_told_of_once_for_each_version(caplog: pytest.LogCaptureFixture) -> None:
    broken = replace(N1, status=replace(N1.status, allocatable={"cpu": "much"}))
    desk = Desk().hold(broken)
    audit = desk.audit()
    assert await audit.look() == 1
    assert "self-audit: node n1: belief and informer differ, cannot be mended" in caplog.text
    assert await audit.look() == 0
    desk.hold(replace(broken, metadata=replace(broken.metadata, resource_version="9")))
    assert await audit.look() == 1
    desk.hold(N1)
    assert await audit.look() == 1
    assert desk.world.cluster.table.row_of("n1") is not None


async def test_nothing_is_remembered_of_a_malformed_object_that_is_gone() -> None:
    broken = replace(N1, status=replace(N1.status, allocatable={"cpu": "much"}))
    desk = Desk().hold(broken)
    audit = desk.audit()
    for _ in range(2):
        assert [await audit.look(), await audit.look()] == [1, 0]
        desk.nodes.clear()
        assert await audit.look() == 0
        desk.hold(broken)


@in_virtual_time
async def test_it_looks_once_per_period() -> None:
    desk = Desk().hold(N1)
    task = asyncio.create_task(desk.audit().run(60.0))
    await asyncio.sleep(59.0)
    assert desk.audits == 0
    await asyncio.sleep(121.5)
    assert desk.audits == 3
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
