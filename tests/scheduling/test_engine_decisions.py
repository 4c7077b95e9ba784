"""The next decision, and what becomes of a pod whose attempt failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.builders import a_pod
from tests.framework.fakes import Filter, Permit, PostFilter, PreFilter, Reserve, profile_of
from tests.scheduling.builders import with_metadata
from tests.scheduling.worlds import World, a_world

from berth.cluster.cache import Cluster
from berth.framework.interface import PermitResult
from berth.framework.status import SUCCESS, Code, PluginError, Status, error, unresolvable, unschedulable
from berth.scheduling.engine import EngineSettings
from berth.scheduling.instructions import Drop, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.api.pod import Pod
    from berth.cluster.pods import PodInfo
    from berth.framework.cycle_state import CycleState
    from berth.framework.interface import Plugin

WAIT = Status(Code.WAIT, ("hold on",))
POD = a_pod("p")
OTHER = a_pod("other")
FAILED = error('running Bind plugin "Binder": broken')


# -- taking the next pod ----------------------------------------------------------------------------------------------


def test_without_ready_pods_there_is_nothing_to_decide() -> None:
    assert a_world().next() is None


def test_a_pod_that_fits_is_to_be_bound() -> None:
    world = a_world()
    bind = world.assumed(POD)
    assert (bind.node_name, bind.info.pod.spec.node_name, bind.waiting) == ("n1", "n1", None)
    assert bind.queued.pod is POD
    assert bind.profile is world.engine.profiles["default-scheduler"]
    assert world.place(POD) == "F, assumed on n1"
    assert world.next() is None


def test_the_more_important_pod_is_decided_first() -> None:
    world = a_world()
    world.add(a_pod("low", priority=1), a_pod("high", priority=9), a_pod("none"))
    assert [world.bound().info.pod.metadata.name for _ in range(3)] == ["high", "low", "none"]


def test_a_pod_that_is_going_away_is_not_tried_and_its_condition_is_left_alone() -> None:
    world = a_world()
    pod = with_metadata(POD, deletion_timestamp="2030-01-01T00:00:00Z")
    report = world.add(pod).reported()
    assert report == Report(
        pod=pod,
        controller="default-scheduler",
        reason="",
        message="skip schedule deleting pod: default/p",
        update_status=False,
    )
    assert world.place(pod) == ""


def test_a_pod_that_counts_on_a_node_already_is_dropped() -> None:
    world = a_world()
    world.engine.binding_permitted(world.assumed(POD))
    assert world.add(POD).next() == Drop(POD)
    assert world.place(POD) == "assumed on n1"


def test_a_pod_of_a_profile_that_is_not_there_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    world = a_world()
    stray = a_pod("p", spec={"scheduler_name": "nobody"})
    world.queue.add(world.cluster.info(stray))
    assert world.next() == Drop(stray)
    assert world.place(stray) == ""
    assert "profile not found for scheduler name 'nobody'" in caplog.text


def test_each_profile_decides_by_its_own_plugins() -> None:
    picky = profile_of(PreFilter("Never", unresolvable("never")), scheduler_name="picky")
    world = a_world(others={"picky": picky})
    mine, theirs = a_pod("mine", spec={"scheduler_name": "picky"}), a_pod("theirs")
    report = world.add(mine).reported()
    assert (report.controller, report.message) == ("picky", "0/1 nodes are available: never.")
    assert world.assumed(theirs).profile is world.engine.profiles["default-scheduler"]


def test_each_attempt_at_a_pod_draws_its_ties_anew_and_the_seed_replays_them() -> None:
    def nodes_of(seed: int) -> list[str]:
        world = a_world(nodes=[f"n{number}" for number in range(32)], settings=EngineSettings(seed=seed))
        names: list[str] = []
        for attempt in range(6):
            bind = world.add(POD).bound() if not attempt else world.bound()
            names.append(bind.node_name)
            world.engine.binding_permitted(bind)
            world.engine.binding_failed(bind, FAILED)
            world.now_s += 60
            world.queue.flush_backoff_completed()
        return names

    assert nodes_of(1) == nodes_of(1) != nodes_of(2)
    assert len(set(nodes_of(1))) > 3


# -- permission -------------------------------------------------------------------------------------------------------


def test_a_placement_that_waits_is_known_until_it_is_permitted() -> None:
    world = a_world(Permit("P", WAIT, 7))
    bind = world.assumed(POD)
    assert bind.waiting is not None
    assert bind.waiting.pending == {"P": 7}
    assert bind.waiting.pod.spec.node_name == "n1"
    assert world.engine.waiting.get(POD.uid) is bind.waiting
    world.engine.binding_permitted(bind)
    assert world.engine.waiting.get(POD.uid) is None
    assert world.place(POD) == "assumed on n1"


class Waking(Permit):
    """Wants a waiting pod tried at once."""

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        if pod.key == POD.key:
            state.pods_to_activate[OTHER.key] = OTHER
        return super().permit(state, pod, node_name)


@pytest.mark.parametrize("answer", [SUCCESS, WAIT])
def test_pods_that_a_plugin_wants_tried_at_once_are(answer: Status) -> None:
    world = a_world(Waking("P", answer))
    third = a_pod("third")
    world.rejected(OTHER, third)
    bind = world.assumed(POD)
    assert (world.place(OTHER), world.place(third)) == ("A", "U")
    assert bind.state.pods_to_activate == {}
    bind.state.pods_to_activate[third.key] = third
    world.engine.binding_permitted(bind)
    world.engine.binding_succeeded(bind)
    assert world.place(third) == "A"


def test_pods_are_not_tried_at_once_for_a_placement_that_came_to_nothing() -> None:
    world = a_world(Waking("P"), Permit("Q", unschedulable("no")))
    world.rejected(OTHER)
    world.add(POD).reported()
    assert world.place(OTHER) == "U"


# -- failures ---------------------------------------------------------------------------------------------------------


def close_all(world: World) -> None:
    world.close(world.nodes)


def nothing(world: World) -> None:
    del world


def lose_nodes(world: World) -> None:
    for name in list(world.nodes):
        world.remove_node(name)


# plugins besides, what happens before; where the pod is then, reason, message, what becomes of its promise
ATTEMPTS: dict[str, tuple[list[Plugin], Callable[[World], None], str, str, str, str | None]] = {
    "no node fits": ([], close_all, "U", "Unschedulable", "0/1 nodes are available: 1 F says no.", ""),
    "no node fits, and room was made": (
        [PostFilter("Post", SUCCESS, "n1")],
        close_all,
        "U",
        "Unschedulable",
        "0/1 nodes are available: 1 F says no.",
        "n1",
    ),
    "no node fits, and nobody tried to make room": (
        [PostFilter("Post", unschedulable("not eligible"))],
        close_all,
        "U",
        "Unschedulable",
        "0/1 nodes are available: 1 F says no. not eligible",
        None,
    ),
    "there are no nodes": ([], lose_nodes, "E", "Unschedulable", "no nodes available to schedule pods", ""),
    "PreFilter rejects": (
        [PreFilter("P", unresolvable("never"))],
        nothing,
        "U",
        "Unschedulable",
        "0/1 nodes are available: never.",
        "",
    ),
    "PreFilter fails": (
        [PreFilter("P", error("boom"))],
        nothing,
        "E",
        "SchedulerError",
        'running PreFilter plugin "P": boom',
        "",
    ),
    "Reserve rejects": (
        [Reserve("P", unresolvable("rejected on reserve"))],
        nothing,
        "U",
        "Unschedulable",
        "0/1 nodes are available: 1 rejected on reserve.",
        "",
    ),
    "Reserve fails": (
        [Reserve("P", error("reserve error"))],
        nothing,
        "E",
        "SchedulerError",
        'running Reserve plugin "P": reserve error',
        "",
    ),
    "Permit rejects": (
        [Permit("P", unschedulable("rejected on permit"))],
        nothing,
        "U",
        "Unschedulable",
        "0/1 nodes are available: 1 rejected on permit.",
        "",
    ),
    "Permit waits for something outside": (
        [Permit("P", Status(Code.PENDING, ("not yet",)))],
        nothing,
        "U",
        "Unschedulable",
        "0/1 nodes are available: 1 not yet.",
        "",
    ),
    "Permit fails": (
        [Permit("P", error("permit error"))],
        nothing,
        "E",
        "SchedulerError",
        'running Permit plugin "P": permit error',
        "",
    ),
}


@pytest.mark.parametrize(
    ("plugins", "before", "place", "reason", "message", "promise"), ATTEMPTS.values(), ids=ATTEMPTS
)
def test_after_an_attempt_in_which(
    plugins: list[Plugin],
    before: Callable[[World], None],
    place: str,
    reason: str,
    message: str,
    promise: str | None,
) -> None:
    world = a_world(*plugins)
    before(world)
    report = world.add(POD).reported()
    assert report == Report(
        pod=POD, controller="default-scheduler", reason=reason, message=message, nominated_node_name=promise
    )
    assert world.place(POD) == place
    assert world.queue.nominator.node_of(POD.uid) == (promise or None)


def rejectors(world: World, pod: Pod) -> tuple[set[str], set[str]]:
    entry = world.queue.get_pod(pod.key)
    assert entry is not None
    return entry.unschedulable_plugins, entry.pending_plugins


def test_the_queue_knows_who_rejected_the_pod_and_for_whom_it_waits() -> None:
    waiting = Permit("P", Status(Code.PENDING, ("not yet",)))
    world = a_world(waiting)
    world.add(POD).reported()
    assert rejectors(world, POD) == ({"P"}, {"P"})


def test_those_who_rejected_a_pod_earlier_are_forgotten() -> None:
    fickle = PreFilter("P", unschedulable("no"))
    world = a_world(fickle)
    world.add(POD).reported()
    assert rejectors(world, POD) == ({"P"}, set())
    fickle.answer = PluginError("boom")
    world.queue.activate([POD])
    world.reported()
    assert rejectors(world, POD) == (set(), set())
    assert world.place(POD) == "E"


def test_a_promise_is_kept_where_nobody_tried_to_make_room_and_given_up_otherwise() -> None:
    post = PostFilter("Post", unschedulable("not eligible"))
    world = a_world(post, closed=("n1",))
    promised = a_pod("p", nominated="n1")
    world.add(promised).reported()
    assert world.queue.nominator.node_of(POD.uid) == "n1"
    post.nominated = ""
    world.queue.activate([promised])
    assert world.reported().nominated_node_name == ""
    assert world.queue.nominator.node_of(POD.uid) is None


# -- what the API server shows meanwhile ------------------------------------------------------------------------------


def gone(world: World) -> None:
    del world.listed[POD.key]


def bound_elsewhere(world: World) -> None:
    world.listed[POD.key] = a_pod("p", on="n9")


def recreated(world: World) -> None:
    world.listed[POD.key] = a_pod("p", uid="another")


def changed(world: World) -> None:
    world.listed[POD.key] = with_metadata(POD, labels={"changed": "yes"})


# what the API server shows when the attempt has failed; where the pod is then, whether users are told
MEANWHILE: dict[str, tuple[Callable[[World], None], str, bool]] = {
    "the same": (nothing, "U", True),
    "another version": (changed, "U", True),
    "nothing of it": (gone, "", True),
    "that it was bound": (bound_elsewhere, "", True),
    "another pod of its name": (recreated, "", False),
}


@pytest.mark.parametrize(("meanwhile", "place", "told"), MEANWHILE.values(), ids=MEANWHILE)
def test_if_the_api_server_shows(meanwhile: Callable[[World], None], place: str, told: bool) -> None:
    world = a_world(PostFilter("Post", SUCCESS, "n1"), closed=("n1",))
    meanwhile(world.add(POD))
    shown = world.listed.get(POD.key, POD)
    instruction = world.next()
    assert world.place(POD) == place
    assert isinstance(instruction, Report) is told
    assert instruction == Drop(POD) or isinstance(instruction, Report)
    if isinstance(instruction, Report):
        assert instruction.pod == shown
    entry = world.queue.get_pod(POD.key)
    assert (entry.pod if entry else None) == (shown if place else None)
    assert (world.queue.nominator.node_of(POD.uid) is not None) is (place != "")
    assert world.queue.in_flight_count() == 0


# -- promises ---------------------------------------------------------------------------------------------------------


def test_a_pod_promised_a_node_is_promised_none_once_it_is_placed() -> None:
    world = a_world()
    bind = world.assumed(replace(POD, status=replace(POD.status, nominated_node_name="n1")))
    assert bind.node_name == "n1"
    assert world.queue.nominator.node_of(POD.uid) is None


def test_pods_promised_room_count_for_those_that_are_decided_later() -> None:
    cluster = Cluster()
    full = Filter("Full", cluster, lambda name, _pod: bool(cluster.table.pod_count[cluster.table.row_of(name)]))
    world = a_world(full, PostFilter("Post", SUCCESS, "n1"), nodes=("n1", "n2"), cluster=cluster)
    world.rejected(a_pod("promised", priority=5))
    assert world.assumed(a_pod("low", priority=1)).node_name == "n2"
    assert world.add(a_pod("lower")).reported().message == "0/2 nodes are available: 2 Full says no."
    assert world.assumed(a_pod("high", priority=6)).node_name == "n1"
