"""What the API server shows, and what becomes of it in queue and cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.builders import a_node, a_pod
from tests.framework.fakes import Permit
from tests.scheduling.builders import with_metadata
from tests.scheduling.worlds import World, a_world

from berth.api.meta import ObjectMeta
from berth.api.node import Taint
from berth.api.workloads import Namespace
from berth.cluster.kinds import NAMESPACE
from berth.cluster.objects import Kind
from berth.framework.status import Code, Status, error, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.api.node import Node
    from berth.api.pod import Pod

FOREIGN = {"scheduler_name": "somebody-else"}
WAIT = Status(Code.WAIT, ("hold on",))
POD = a_pod("p", priority=10)
BOUND = a_pod("p", on="n1", priority=10)


def nominated(pod: Pod, node_name: str) -> Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node_name))


def labelled(pod: Pod) -> Pod:
    return with_metadata(pod, labels={"changed": "yes"})


# -- pods -------------------------------------------------------------------------------------------------------------

ALIEN = a_pod("p", spec=FOREIGN)
GOING = with_metadata(POD, deletion_timestamp="2030-01-01T00:00:00Z")

# what happens; where the pod is then, and what waiting pods are told of
POD_EVENTS: dict[str, tuple[Callable[[World], object], str, list[str]]] = {
    "a pod of ours comes": (lambda w: w.add(POD), "A", []),
    "a pod of somebody else comes": (lambda w: w.add(ALIEN), "", []),
    "a bound pod comes": (lambda w: w.add(BOUND), "bound on n1", ["AssignedPodAdd"]),
    "a bound pod of somebody else comes": (
        lambda w: w.add(a_pod("p", on="n1", spec=FOREIGN)),
        "bound on n1",
        ["AssignedPodAdd"],
    ),
    "a pod that is going away comes": (lambda w: w.add(GOING), "A", []),
    "a pod of ours changes": (lambda w: w.add(POD).update(labelled(POD)), "A", []),
    "a pod of somebody else changes": (lambda w: w.add(ALIEN).update(labelled(ALIEN)), "", []),
    "a bound pod changes": (
        lambda w: w.add(BOUND).quiet().update(labelled(BOUND)),
        "bound on n1",
        ["AssignedPodUpdatePodLabel"],
    ),
    "a bound pod changes in several respects": (
        lambda w: w.add(a_pod("p", on="n1", cpu="2")).quiet().update(labelled(a_pod("p", on="n1", cpu="1"))),
        "bound on n1",
        ["AssignedPodUpdatePodLabel", "AssignedPodUpdatePodScaleDown"],
    ),
    "a pod of ours is bound by others": (lambda w: w.add(POD).bind(POD, "n1"), "bound on n1", ["AssignedPodAdd"]),
    "a pod of somebody else is bound": (
        lambda w: w.add(ALIEN).bind(ALIEN, "n1"),
        "bound on n1",
        ["AssignedPodAdd"],
    ),
    "our placement is confirmed": (lambda w: w.placed(POD).bind(POD, "n1"), "F, bound on n1", ["AssignedPodAdd"]),
    "a pod that we placed is bound elsewhere": (
        lambda w: w.placed(POD).bind(POD, "n9"),
        "F, bound on n9",
        ["AssignedPodAdd"],
    ),
    "a pod that we placed changes": (lambda w: w.placed(POD).update(labelled(POD)), "F, assumed on n1", []),
    "a pod that we placed is shown again": (lambda w: w.placed(POD).add(POD), "A, F, assumed on n1", []),
    "a pod that we placed is going away": (lambda w: w.placed(POD).terminate(POD), "F", ["AssignedPodDelete"]),
    "a pod that we placed is gone": (lambda w: w.placed(POD).delete(POD), "F", ["AssignedPodDelete"]),
    "a pod that we placed is gone, as a list shows": (
        lambda w: w.placed(POD).delete(POD, final_state_unknown=True),
        "F",
        ["AssignedPodDelete"],
    ),
    "a pod of ours is gone": (lambda w: w.add(POD).delete(POD), "", []),
    "a pod of ours is gone, as a list shows": (lambda w: w.add(POD).delete(POD, final_state_unknown=True), "", []),
    "a pod of somebody else is gone": (lambda w: w.add(ALIEN).delete(ALIEN), "", []),
    "a bound pod is gone": (lambda w: w.add(BOUND).quiet().delete(BOUND), "", ["AssignedPodDelete"]),
    "a bound pod is gone, as a list shows": (
        lambda w: w.add(BOUND).quiet().delete(BOUND, final_state_unknown=True),
        "",
        ["AssignedPodDelete"],
    ),
    "a bound pod is gone that was last seen waiting": (
        lambda w: w.add(BOUND).quiet().delete(POD, final_state_unknown=True),
        "",
        ["AssignedPodDelete"],
    ),
    "a waiting pod was replaced by another of its name": (
        lambda w: w.add(a_pod("p", uid="old")).update(POD),
        "A",
        [],
    ),
    "a bound pod was replaced by another of its name": (
        lambda w: w.add(a_pod("p", uid="old", on="n1")).quiet().update(POD),
        "A",
        ["AssignedPodDelete"],
    ),
    "a pod that we placed was replaced by another of its name": (
        lambda w: w.placed(a_pod("p", uid="old")).update(POD),
        "A",
        ["AssignedPodDelete"],
    ),
}


@pytest.mark.parametrize(("happen", "place", "labels"), POD_EVENTS.values(), ids=POD_EVENTS)
def test_where_a_pod_is_after(happen: Callable[[World], object], place: str, labels: list[str]) -> None:
    world = a_world()
    happen(world)
    assert (world.place(POD), world.labels()) == (place, labels)
    assert world.cluster.placed(a_pod("p", uid="old").uid) is None


def test_the_queue_holds_the_newest_version() -> None:
    world = a_world()
    new = world.add(POD).update(labelled(POD))
    entry = world.queue.get_pod(POD.key)
    assert entry is not None
    assert entry.pod == new


def test_the_same_version_shown_again_changes_nothing() -> None:
    world = a_world()
    world.add(POD).show_again(labelled(POD))
    entry = world.queue.get_pod(POD.key)
    assert entry is not None
    assert entry.pod == POD


def test_the_cluster_holds_the_newest_version_of_a_bound_pod_and_the_placed_one_of_an_assumed_pod() -> None:
    world = a_world()
    bind = world.assumed(POD)
    world.update(labelled(POD))
    placed = world.cluster.placed(POD.uid)
    assert placed is not None
    assert placed.info is bind.info
    confirmed = world.bind(labelled(POD), "n1")
    changed = world.update(with_metadata(confirmed, labels={}))
    placed = world.cluster.placed(POD.uid)
    assert placed is not None
    assert placed.info.pod == changed


def test_room_follows_the_pod() -> None:
    world = a_world(nodes=("n1", "n2"), closed=("n2",))
    used = world.cluster.table.usage
    pod = a_pod("p", cpu="1")
    world.assumed(pod)
    assert (used("n1")["cpu"], used("n2")) == (1000, {})
    bound = world.bind(pod, "n2")
    assert (used("n1"), used("n2")["cpu"]) == ({}, 1000)
    container = replace(bound.spec.containers[0], resources=a_pod(cpu="3").spec.containers[0].resources)
    bound = world.update(replace(bound, spec=replace(bound.spec, containers=(container,))))
    assert used("n2")["cpu"] == 3000
    world.delete(bound)
    assert used("n2") == {}


def test_a_placement_that_waits_for_permission_is_stopped_when_its_pod_goes_away() -> None:
    for go in (World.terminate, World.delete):
        world = a_world(Permit("P", WAIT))
        bind = world.assumed(POD)
        world.rejected(a_pod("other"))
        go(world, POD)
        assert bind.waiting is not None
        assert bind.waiting.outcome == unschedulable("removed")
        assert world.labels() == ["AssignedPodDelete"]
        assert world.place(POD) == "F, assumed on n1"  # until its binding task gives the room back
        assert world.place(a_pod("other")) == "B"


def test_a_pod_that_is_going_away_and_then_gone_gives_its_room_back_once() -> None:
    world = a_world(Permit("P", WAIT))
    bind = world.assumed(POD)
    terminating = world.terminate(POD)
    world.delete(terminating)
    assert world.place(POD) == "F"
    report = world.engine.binding_failed(bind, unschedulable("removed"), while_waiting=True)
    assert world.place(POD) == ""
    assert report is not None
    assert report.message == "0/1 nodes are available: 1 removed."


# -- promises ---------------------------------------------------------------------------------------------------------

PROMISED = nominated(a_pod("promised", priority=100), "n1")
LOW, HIGH = a_pod("low", priority=1), a_pod("high", priority=1000)

# what happens to the pod that was promised n1; which waiting pods return
PROMISE_EVENTS: dict[str, tuple[Callable[[World], object], set[str]]] = {
    "it is promised another node": (lambda w: w.update(nominated(PROMISED, "n2")), {"promised", "low"}),
    "it is promised none": (lambda w: w.update(nominated(PROMISED, "")), {"promised", "low"}),
    "it is gone": (lambda w: w.delete(PROMISED), {"low"}),
}


@pytest.mark.parametrize(("happen", "returning"), PROMISE_EVENTS.values(), ids=PROMISE_EVENTS)
def test_pods_that_are_not_more_important_return_when(happen: Callable[[World], object], returning: set[str]) -> None:
    world = a_world()
    world.rejected(PROMISED, LOW, HIGH)
    happen(world)
    assert world.labels() == ["AssignedPodDelete"]
    assert {pod.metadata.name for pod in (PROMISED, LOW, HIGH) if world.place(pod) == "B"} == returning
    assert world.place(HIGH) == "U"


def test_a_pod_that_we_placed_while_it_was_going_away_is_not_given_up_for_that() -> None:
    world = a_world()
    world.placed(POD)
    world.listed[POD.key] = GOING
    world.update(labelled(GOING))
    assert (world.place(POD), world.labels()) == ("F, assumed on n1", [])


def test_a_first_promise_makes_room_for_nobody() -> None:
    world = a_world()
    plain = nominated(PROMISED, "")
    world.rejected(plain, LOW)
    world.update(PROMISED)
    assert world.labels() == []
    assert world.place(LOW) == "U"
    world.update(labelled(PROMISED))
    assert world.labels() == []


def test_the_queue_keeps_the_book_of_promises() -> None:
    world = a_world()
    world.add(PROMISED)
    assert world.queue.nominator.node_of(PROMISED.uid) == "n1"
    world.update(nominated(PROMISED, "n2"))
    assert world.queue.nominator.node_of(PROMISED.uid) == "n2"
    world.bind(nominated(PROMISED, "n2"), "n1")
    assert world.queue.nominator.node_of(PROMISED.uid) is None


# -- nodes ------------------------------------------------------------------------------------------------------------

TAINT = Taint(key="team", value="a", effect="NoSchedule")

# the node before and after; what waiting pods are told of
NODE_CHANGES = {
    "nothing that matters": (a_node(), a_node(), []),
    "its labels": (a_node(), a_node(labels={"a": "b"}), ["NodeUpdateNodeLabel"]),
    "a taint": (a_node(), a_node(taints=[TAINT]), ["NodeUpdateNodeTaint"]),
    "a cordon": (a_node(), a_node(unschedulable=True), []),
    "a cordon less": (a_node(unschedulable=True), a_node(), ["NodeUpdateNodeTaint"]),
    "what it offers": (a_node(cpu="1"), a_node(cpu="2"), ["NodeUpdateNodeAllocatable"]),
    "the same offer in other words": (a_node(cpu="1"), a_node(cpu="1000m"), []),
    "several things": (
        a_node(cpu="1"),
        a_node(cpu="2", labels={"a": "b"}),
        ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"],
    ),
}


@pytest.mark.parametrize(("before", "after", "labels"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_waiting_pods_are_told_when_a_node_changes(before: Node, after: Node, labels: list[str]) -> None:
    world = a_world(nodes=[before])
    world.set_node(after)
    assert world.labels() == labels
    assert world.cluster.table.node(0) == after


def test_waiting_pods_hear_of_a_new_node_that_is_there() -> None:
    world = a_world()
    there: list[int | None] = []
    world.queue.on_move = lambda: there.append(world.cluster.table.row_of("n2"))
    world.set_node(a_node("n2"))
    assert (world.labels(), there) == (["NodeAdd"], [1])


def test_waiting_pods_hear_that_a_node_goes_while_it_is_still_there() -> None:
    world = a_world()
    there: list[int | None] = []
    world.queue.on_move = lambda: there.append(world.cluster.table.row_of("n1"))
    world.remove_node("n1")
    assert (world.labels(), there) == (["NodeDelete"], [0])
    assert world.cluster.table.row_of("n1") is None


def test_a_new_node_brings_waiting_pods_back() -> None:
    world = a_world(closed=("n1",))
    world.rejected(POD)
    world.set_node(a_node("n2"))
    assert world.place(POD) == "B"
    world.now_s += 20
    world.queue.flush_backoff_completed()
    assert world.bound().node_name == "n2"


# -- other objects ----------------------------------------------------------------------------------------------------


def test_other_objects_bring_waiting_pods_back() -> None:
    world = a_world()
    world.rejected(POD)
    foo, claim = Kind("Foo", Namespace, "foos.v1.example.com"), Kind("Claim", Namespace, "PersistentVolumeClaim")
    thing = Namespace(metadata=ObjectMeta(name="thing"))
    world.engine.object_added(foo, thing)
    assert world.place(POD) == "U"
    world.engine.object_updated(claim, thing, thing)
    assert world.place(POD) == "B"


def test_other_objects_are_kept_before_waiting_pods_hear_of_them() -> None:
    world = a_world()
    thing = Namespace(metadata=ObjectMeta(name="thing"))
    world.engine.object_added(NAMESPACE, thing)
    assert world.cluster.objects.get(NAMESPACE, "thing") is thing
    world.engine.object_deleted(NAMESPACE, thing)
    assert world.cluster.objects.get(NAMESPACE, "thing") is None


# -- the first node ---------------------------------------------------------------------------------------------------


def test_pods_that_found_no_node_are_tried_when_the_first_one_comes_however_long_they_are_to_pause() -> None:
    world = a_world(nodes=())
    world.add(POD)
    for _ in range(3):
        assert world.reported().message == "no nodes available to schedule pods"
        world.engine.queue.activate([POD])
    assert world.reported().pod.uid == POD.uid
    assert world.place(POD) == "E"
    world.set_node(a_node("n1"))
    assert world.place(POD) == "A"
    assert world.bound().node_name == "n1"


def test_pods_that_pause_are_not_tried_when_a_further_node_comes() -> None:
    world = a_world(nodes=("n1",))
    world.add(POD)
    bind = world.bound()
    world.engine.binding_permitted(bind)
    world.engine.binding_failed(bind, error("server away"))
    assert world.place(POD) == "E"
    world.set_node(a_node("n2"))
    assert world.place(POD) == "E"
