"""Promises of nodes: those of other schedulers are respected, and those that cannot be kept are given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.builders import a_cluster, a_handle, a_node, a_pod
from tests.scheduling.worlds import World, a_world

from berth.api.meta import Condition
from berth.plugins.default_preemption.plugin import DefaultPreemption
from berth.plugins.noderesources.fit import NodeResourcesFit
from berth.scheduling.engine import EngineSettings
from berth.scheduling.instructions import Bind, Evict, GiveUp, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.api.meta import PodKey
    from berth.api.pod import Pod

PATIENCE_S = 60.0
GRACE_S = 30


def world_of(*nodes: str, cpu: str = "1") -> World:
    cluster = a_cluster()

    def look_up(key: PodKey) -> Pod | None:
        return world.listed.get(key)

    handle = a_handle(cluster, lister=look_up)
    world = a_world(
        NodeResourcesFit(None, handle),
        DefaultPreemption(None, handle),
        nodes=[a_node(name, cpu=cpu) for name in nodes],
        cluster=cluster,
        settings=EngineSettings(victim_patience_s=PATIENCE_S),
    )
    return world


def low(name: str, on: str, priority: int = 1) -> Pod:
    return a_pod(name, on=on, priority=priority, cpu="1", spec={"termination_grace_period_seconds": GRACE_S})


def high(name: str = "high", **more: object) -> Pod:
    return a_pod(name, priority=9, cpu="1", **more)  # type: ignore[arg-type]  # any field


def preempting(world: World, pod: Pod) -> Evict:
    """Show a pod, and have pods go for it."""
    report = world.add(pod).reported()
    assert report.evict is not None
    return report.evict


def foreign(name: str = "foreign", priority: int = 9, nominated: str = "n1") -> Pod:
    return a_pod(name, priority=priority, cpu="1", nominated=nominated, spec={"scheduler_name": "another"})


# -- pods of other schedulers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("priority", "outcome"), [(9, Report), (10, Report), (8, Bind)])
def test_room_promised_to_a_pod_of_another_scheduler_is_kept_from_less_important_ones(
    priority: int, outcome: type
) -> None:
    world = world_of("n1")
    world.add(foreign(priority=priority), high())
    assert isinstance(world.next(), outcome)


def lose(world: World, pod: Pod) -> None:
    world.update(replace(pod, status=replace(pod.status, nominated_node_name="")))


ENDINGS: dict[str, Callable[[World, Pod], object]] = {
    "it is gone": lambda world, pod: world.delete(pod),
    "it lost its promise": lose,
    "it was bound elsewhere": lambda world, pod: world.bind(pod, "n2"),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_the_room_is_free_once(end: Callable[[World, Pod], object]) -> None:
    world = world_of("n1")
    pod = foreign()
    world.add(pod, high()).reported()
    end(world, pod)
    assert world.queue.nominator.node_of(pod.uid) is None
    world.queue.activate([high()])
    assert world.bound().node_name == "n1"


def test_a_promise_to_a_pod_of_another_scheduler_may_come_later_and_move() -> None:
    world = world_of("n1", "n2")
    pod = foreign(nominated="")
    world.add(pod)
    for name in ("n1", "n2"):
        pod = world.update(replace(pod, status=replace(pod.status, nominated_node_name=name)))
        assert world.queue.nominator.node_of(pod.uid) == name
    assert [info.key for info in world.queue.nominator.pods_on("n2")] == [pod.key]


def test_pods_of_other_schedulers_keep_their_promises_when_ours_preempt() -> None:
    world = world_of("n1")
    world.add(low("a", "n1"), foreign(priority=5))
    assert preempting(world, high()).displaced == ()
    assert len(world.queue.nominator.pods_on("n1")) == 2


# -- promises that cannot be kept -------------------------------------------------------------------------------------


def test_a_pod_whose_promised_node_is_gone_is_tried_at_once_and_told_so() -> None:
    world = world_of("n1", "n2")
    world.add(low("a", "n1"), low("b", "n2", 5))
    world.engine.eviction_ended(preempting(world, high()), ok=True)
    world.remove_node("n1")
    given_up = world.next()
    assert isinstance(given_up, GiveUp)
    assert (given_up.pod.key, given_up.note) == (
        "default/high",
        "Nomination for node n1 given up: node n1 is gone",
    )
    report = world.reported()
    assert report.nominated_node_name == "n2"


def test_a_victim_that_does_not_go_in_time_is_counted_on_no_more() -> None:
    world = world_of("n1", "n2")
    victim = low("a", "n1")
    world.add(victim, low("b", "n2", 5))
    world.engine.eviction_ended(preempting(world, high()), ok=True)
    world.terminate(victim)
    nominations = world.engine.nominations
    for now_s in (0.0, PATIENCE_S, PATIENCE_S + GRACE_S - 1):
        nominations.flush(now_s)
        assert world.next() is None
    nominations.flush(PATIENCE_S + GRACE_S)
    given_up = world.next()
    assert isinstance(given_up, GiveUp)
    assert given_up.note == "Nomination for node n1 given up: pod default/a does not go"
    assert world.reported().nominated_node_name == "n2"
    nominations.flush(1e6)
    assert [type(each) for each in nominations.given_up] == []


def preempted(pod: Pod) -> Pod:
    """A pod that goes, told by a scheduler."""
    told = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    metadata = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return replace(pod, metadata=metadata, status=replace(pod.status, conditions=(told,)))


# who goes already when the pod is first seen, and what the pod was promised then
GOING: dict[str, tuple[Pod, str]] = {
    "because somebody deleted it": (replace(low("a", "n1"), metadata=preempted(low("a", "n1")).metadata), ""),
    "because we told it before we were started anew": (preempted(low("a", "n1")), "n1"),
}


@pytest.mark.parametrize(("victim", "nominated"), GOING.values(), ids=GOING)
def test_a_victim_that_goes_already_has_to_be_gone_in_time_too(victim: Pod, nominated: str) -> None:
    world = world_of("n1", "n2")
    world.add(victim, low("b", "n2", 5), high(nominated=nominated))
    report = world.reported()
    assert (report.evict, report.nominated_node_name) == (None, None if nominated else "n1")
    nominations = world.engine.nominations
    for now_s in (0.0, PATIENCE_S + GRACE_S - 1):
        nominations.flush(now_s)
        assert world.next() is None
    nominations.flush(PATIENCE_S + GRACE_S)
    given_up = world.next()
    assert isinstance(given_up, GiveUp)
    assert given_up.note == "Nomination for node n1 given up: pod default/a does not go"
    assert world.reported().nominated_node_name == "n2"


# what happens to the promise; that it is not given up whatever the time
KEPT: dict[str, Callable[[World, Pod], object]] = {
    "the victim went": lambda world, victim: world.delete(victim),
    "the pod is gone": lambda world, _: world.delete(world.listed[high().key]),
    "the pod was bound": lambda world, _: world.bind(world.listed[high().key], "n1"),
}


@pytest.mark.parametrize("event", KEPT.values(), ids=KEPT)
def test_nothing_is_given_up_where(event: Callable[[World, Pod], object]) -> None:
    world = world_of("n1")
    victim = low("a", "n1")
    world.add(victim)
    world.engine.eviction_ended(preempting(world, high()), ok=True)
    world.engine.nominations.flush(0.0)
    event(world, victim)
    world.engine.nominations.flush(1e6)
    assert not world.engine.nominations.given_up


def test_who_waits_behind_a_promise_that_only_we_know_of_returns_when_the_pod_is_gone() -> None:
    world = world_of("n1")
    pod = high()
    world.add(low("a", "n1"))
    evict = preempting(world, pod)
    world.engine.eviction_ended(evict, ok=True)
    world.delete(low("a", "n1"))
    world.rejected(high("second"))
    world.delete(pod)
    assert "AssignedPodDelete" in world.labels()


# -- what happens while victims are told to go ------------------------------------------------------------------------


def test_a_node_that_comes_while_victims_are_told_to_go_is_used_at_once_and_not_after_them() -> None:
    world = world_of("n1")
    world.add(low("a", "n1"))
    evict = preempting(world, high())
    world.now_s += 60  # it has no pause left
    world.set_node(a_node("n2", cpu="1"))
    assert world.next() is None  # but is held back
    world.engine.eviction_ended(evict, ok=True)
    assert world.bound().node_name == "n2"


def test_a_promised_node_that_goes_while_victims_are_told_to_go_is_given_up_after_that() -> None:
    world = world_of("n1", "n2")
    world.add(low("a", "n1"), low("b", "n2", 5))
    evict = preempting(world, high())
    world.remove_node("n1")
    assert isinstance(world.next(), GiveUp)
    assert world.next() is None
    world.engine.eviction_ended(evict, ok=True)
    assert world.reported().nominated_node_name == "n2"


def test_who_loses_a_promise_to_a_more_important_pod_is_tried_elsewhere_at_once() -> None:
    world = world_of("n1", "n2")
    world.add(low("a", "n1"), low("b", "n2", 5))
    middle = a_pod("middle", priority=7, cpu="1")
    world.engine.eviction_ended(preempting(world, middle), ok=True)
    assert preempting(world, high()).eviction.node_name == "n1"
    report = world.reported()
    assert (report.pod.metadata.name, report.nominated_node_name) == ("middle", "n2")
