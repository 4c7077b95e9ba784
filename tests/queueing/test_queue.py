"""Entering, leaving, and where a pod is in between."""

from __future__ import annotations

import pytest
from tests.queueing.builders import (
    BOTH,
    NEWEST,
    NODE_ADD,
    OLDEST,
    GatePlugin,
    ScriptedHint,
    make_pod,
    make_world,
    waiter,
)

from berth.api.pod import Pod, PodSchedulingGroup, PodSpec, PodStatus
from berth.cluster.pods import PodInfo
from berth.framework.events import FORCE_ACTIVATE, Action, ClusterEvent, Hint, Resource
from berth.framework.features import Behaviours
from berth.framework.status import SUCCESS, Status, unresolvable
from berth.queueing.inflight import RecordedEvent
from berth.queueing.places import Place
from berth.queueing.queue import QueueError, SchedulingQueue
from berth.queueing.settings import QueueSettings

LOW, MID, HIGH = (make_pod(name, priority=p) for name, p in (("low", 1), ("mid", 5), ("high", 9)))


def test_a_queue_without_profiles_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one profile"):
        SchedulingQueue({}, clock=lambda: 0.0, behaviours=NEWEST, lister=lambda _key: None)


def test_pods_leave_by_priority_and_keep_their_nominations() -> None:
    pods = [make_pod(name, priority=p, nominated="node1") for name, p in (("mid", 5), ("low", 1), ("high", 9))]
    world = make_world()
    world.add(*pods)
    assert world.popped() == ["high", "mid", "low"]
    assert [info.uid for info in world.queue.nominator.pods_on("node1")] == [pod.uid for pod in pods]
    assert world.ledger.queued == {("active", "UnscheduledPodAdd"): 3}


def test_of_equal_pods_the_one_that_failed_waits_behind() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(make_pod("first"))
    world.clock.advance(1)
    world.add(make_pod("second"))
    first = world.pop()
    world.clock.advance(1)
    world.fail(first, pending=["x"])
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.popped() == ["second", "first"]


def test_nobody_is_woken_for_nothing() -> None:
    world = make_world(waiter("x", NODE_ADD), pre_enqueue=[GatePlugin("gate", ["held"])])
    world.add(make_pod("held"))
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    world.queue.flush_backoff_completed()
    world.queue.flush_unschedulable_leftover()
    assert world.wakes == []
    assert not world.queue.has_work()
    world.add(make_pod("free"))
    assert len(world.wakes) == 1
    assert world.queue.has_work()


def test_an_attempt_keeps_what_the_pod_was_rejected_by() -> None:
    world = make_world(waiter("x", NODE_ADD))
    entry = world.reject(make_pod(), "x", pending=["y"])
    world.queue.activate([entry.pod])
    assert world.pop() is entry
    assert (entry.unschedulable_plugins, entry.pending_plugins, entry.attempts) == ({"x"}, {"y"}, 2)


def test_the_first_attempt_is_timed_when_the_pod_may_first_be_tried() -> None:
    gate = GatePlugin("gate", ["p"])
    world = make_world(waiter("gate", NODE_ADD), pre_enqueue=[gate])
    world.add(make_pod("p"))
    entry = next(world.queue.entries())
    assert entry.initial_attempt_timestamp_s is None
    world.clock.advance(5)
    gate.held.clear()
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    world.clock.advance(5)
    world.fail(world.pop(), "x")
    assert entry.initial_attempt_timestamp_s == 1005


def test_a_pod_that_is_in_flight_already_is_not_handed_out_twice(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    world.add(make_pod("p1"))
    twin = world.pop()
    world.add(make_pod("p1"), make_pod("p2"))
    assert world.pop().pod.metadata.name == "p2"
    assert world.queue.counts()["active"] == 0
    assert "tracked in multiple places in the scheduler: default/p1" in caplog.text
    world.queue.done(twin.uid)
    assert world.queue.in_flight_count() == 1


def test_a_pod_is_not_taken_back_twice() -> None:
    messages = []
    for prepare in ("unschedulable", "active", "backoff"):
        world = make_world(waiter("x", NODE_ADD))
        world.add(make_pod())
        entry = world.pop()
        if prepare == "active":
            world.add(make_pod())
        else:
            world.fail(entry, *(("x",) if prepare == "unschedulable" else ()))
        with pytest.raises(QueueError) as raised:
            world.fail(entry, "x")
        messages.append(str(raised.value))
        assert world.queue.in_flight_count() == 0
        assert world.queue._places.place_of(entry.key) == prepare
    assert messages == [
        "Pod default/p is already present in unschedulable queue",
        "Pod default/p is already present in the active queue",
        "Pod default/p is already present in the backoff queue",
    ]


def test_a_failed_pod_that_was_not_in_flight_backs_off(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(make_pod())
    entry = world.pop()
    world.queue.done(entry.uid)
    world.fail(entry, "x")
    assert world.place(entry.pod) == "B"
    assert "in flight Pod isn't found in the scheduling queue" in caplog.text


@pytest.mark.parametrize(("pod_groups", "place"), [(True, "B"), (False, "U")], ids=["gate on", "gate off"])
def test_a_rejected_member_of_a_group_backs_off_where_groups_exist(pod_groups: bool, place: str) -> None:
    world = make_world(waiter("x", NODE_ADD), settings=QueueSettings(pod_groups=pod_groups))
    pod = Pod(metadata=make_pod().metadata, spec=PodSpec(scheduling_group=PodSchedulingGroup(pod_group_name="g")))
    assert world.place(world.reject(pod, "x").pod) == place


def test_without_backoff_an_error_means_another_try_at_once() -> None:
    world = make_world(settings=QueueSettings(max_backoff_s=0))
    assert world.place(world.reject(make_pod()).pod) == "A"


# Backoff and early tries


def test_what_is_active_goes_before_what_backs_off() -> None:
    world = make_world(waiter("x", NODE_ADD))
    high = world.reject(HIGH, "x")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(high.pod) == "B"
    world.add(MID)
    assert world.popped() == ["mid", "high"]
    assert world.ledger.queued["active", "PopFromBackoffQ"] == 1


def test_a_pod_is_tried_early_however_long_it_would_back_off() -> None:
    settings = QueueSettings(initial_backoff_s=100, max_backoff_s=100)
    world = make_world(waiter("x", NODE_ADD), settings=settings)
    entry = world.reject(make_pod(), "x")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert len(world.wakes) == 2
    assert world.pop() is entry


def test_after_an_error_a_pod_is_not_tried_early() -> None:
    world = make_world()
    entry = world.reject(make_pod())
    assert world.place(entry.pod) == "E"
    assert world.queue.pop() is None
    assert not world.queue.has_work()
    world.clock.advance(1)
    world.queue.flush_backoff_completed()
    assert world.queue.pop() is None
    world.clock.advance(1)
    world.queue.flush_backoff_completed()
    assert world.pop() is entry
    assert world.ledger.queued["active", "BackoffComplete"] == 1


def test_early_tries_come_in_the_order_of_the_pauses() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(LOW, HIGH)
    high, low = world.pop(), world.pop()
    world.fail(low, "x")
    world.clock.advance(1)
    world.fail(high, "x")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.popped() == ["low", "high"]


def test_with_the_gate_off_nothing_is_tried_early() -> None:
    world = make_world(waiter("x", NODE_ADD), settings=QueueSettings(pop_from_backoff_q=False))
    entry = world.reject(make_pod(), "x")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(entry.pod) == "B"
    assert not world.queue.has_work()
    assert world.queue.pop() is None
    assert len(world.wakes) == 1


# One particular pod


def test_one_particular_pod_is_taken_from_wherever_it_waits() -> None:
    for expected in ("A", "B", "U", "E"):
        world = make_world(waiter("x", NODE_ADD))
        world.add(make_pod())
        if expected != "A":
            world.fail(world.pop(), *(() if expected == "E" else ("x",)))
        if expected == "B":
            world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
        assert world.place(make_pod()) == expected
        entry = world.queue.pop_specific_pod(make_pod())
        assert entry is not None
        assert world.place(entry.pod) == "F"


def test_a_gated_pod_is_not_taken_unless_its_gate_opens() -> None:
    gate = GatePlugin("gate", ["p"])
    world = make_world(pre_enqueue=[gate])
    world.add(make_pod())
    assert world.queue.pop_specific_pod(make_pod()) is None
    assert world.place(make_pod()) == "U"
    gate.held.clear()
    assert world.queue.pop_specific_pod(make_pod()) is not None


def test_a_pod_that_nobody_knows_is_not_taken() -> None:
    assert make_world().queue.pop_specific_pod(make_pod()) is None


# Activation


def test_activation_lets_waiting_pods_be_tried_at_once() -> None:
    for expected in ("A", "B", "U", "E"):
        world = make_world(waiter("x", NODE_ADD))
        world.add(make_pod())
        if expected != "A":
            world.fail(world.pop(), *(() if expected == "E" else ("x",)))
        if expected == "B":
            world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
        world.queue.activate([make_pod()])
        assert world.place(make_pod()) == "A"
        assert world.queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}
        assert world.ledger.queued["active", "ForceActivate"] == (expected != "A")


def test_activation_of_a_pod_in_flight_is_kept_for_its_return() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(make_pod("p"), make_pod("other"))
    entries = {entry.pod.metadata.name: entry for entry in (world.pop(), world.pop())}
    world.queue.activate([make_pod("p"), make_pod("unknown")])
    assert world.queue._in_flight.listing()[2:] == [RecordedEvent(FORCE_ACTIVATE, None, make_pod("p"))]
    world.fail(entries["other"], "x")
    world.fail(entries["p"], "x")
    assert world.place(make_pod("other")) == "U"
    assert world.place(make_pod("p")) == "B"


def test_activation_runs_the_gate_unless_the_pod_backs_off() -> None:
    gate = GatePlugin("gate")
    for backing_off in (True, False):
        world = make_world(waiter("x", NODE_ADD), pre_enqueue=[gate])
        gate.held.clear()
        world.reject(make_pod(), "x")
        if backing_off:
            world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
        gate.held.add("p")
        world.queue.activate([make_pod()])
        assert world.place(make_pod()) == ("A" if backing_off else "U")


# Updates


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    world = make_world()
    world.update(make_pod(), make_pod(nominated="node1"))
    assert world.place(make_pod()) == "A"
    assert len(world.queue.nominator.pods_on("node1")) == 1
    assert world.ledger.queued == {("active", "UnscheduledPodUpdate"): 1}
    assert len(world.wakes) == 1


def test_an_update_of_an_active_pod_changes_its_place_in_the_row() -> None:
    world = make_world()
    world.add(MID, LOW)
    world.update(LOW, make_pod("low", priority=9))
    assert world.place(LOW) == "A"
    assert world.popped() == ["low", "mid"]


@pytest.mark.parametrize("plugins", [("x",), ()], ids=["after a rejection", "after an error"])
def test_an_update_of_a_pod_that_backs_off_leaves_it_there(plugins: tuple[str, ...]) -> None:
    world = make_world(waiter("x", NODE_ADD))
    entry = world.reject(make_pod(), *plugins)
    if plugins:
        world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    before, until_s = world.place(entry.pod), entry.backoff_expiration_s
    world.update(make_pod(), make_pod(labels={"a": "b"}))
    assert world.place(entry.pod) == before
    assert entry.pod.metadata.labels == {"a": "b"}
    assert entry.backoff_expiration_s == until_s


OWN_LABEL = {
    "1.36": ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL),
    "1.37": ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL),
}
AFTER_UPDATE = {
    "the hint is content and the pause lasts": (Hint.QUEUE, 0, "B"),
    "the hint is content and the pause is over": (Hint.QUEUE, 10, "A"),
    "the hint is not content": (Hint.SKIP, 10, "U"),
}


@pytest.mark.parametrize(("answer", "wait_s", "place"), AFTER_UPDATE.values(), ids=AFTER_UPDATE)
@pytest.mark.parametrize("version", BOTH)
def test_an_update_may_be_what_a_pod_waits_for(version: str, answer: Hint, wait_s: float, place: str) -> None:
    event = OWN_LABEL[version]
    world = make_world(waiter("x", event, ScriptedHint(answer)), behaviours=BOTH[version])
    entry = world.reject(make_pod(), "x")
    world.clock.advance(wait_s)
    world.update(make_pod(), make_pod(labels={"a": "b"}))
    assert world.place(entry.pod) == place
    assert world.ledger.hints == [("x", event.label, answer.value)]
    if place != "U":
        assert world.ledger.queued["active" if place == "A" else "backoff", event.label] == 1


def test_an_update_that_is_several_events_moves_the_pod_once() -> None:
    hint = ScriptedHint()
    world = make_world(waiter("x", ClusterEvent(Resource.TARGET_POD, Action.UPDATE), hint))
    entry = world.reject(make_pod(), "x")
    world.update(make_pod(), make_pod(labels={"a": "b"}, tolerations=1))
    assert world.place(entry.pod) == "B"
    assert hint.calls == 1


def test_with_the_gate_off_a_later_event_of_the_same_update_may_end_the_pause() -> None:
    label, toleration = (
        ClusterEvent(Resource.TARGET_POD, action) for action in (Action.UPDATE_POD_LABEL, Action.UPDATE_POD_TOLERATION)
    )
    for later, expected in ((Hint.QUEUE, "A"), (Hint.SKIP, "B")):
        world = make_world(
            waiter("x", label),
            waiter("y", toleration, ScriptedHint(later)),
            settings=QueueSettings(pop_from_backoff_q=False),
        )
        entry = world.reject(make_pod(), "x", pending=["y"])
        world.update(make_pod(), make_pod(labels={"a": "b"}, tolerations=1))
        assert world.place(entry.pod) == expected


def test_an_update_of_a_pod_in_flight_is_judged_when_it_comes_back() -> None:
    event = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
    world = make_world(waiter("x", event))
    world.add(make_pod())
    entry = world.pop()
    world.update(make_pod(), make_pod(labels={"a": "b"}))
    assert world.place(entry.pod) == "F"
    world.fail(entry, "x")
    assert world.place(entry.pod) == "B"


@pytest.mark.parametrize(
    ("behaviours", "resource", "asked"),
    [(NEWEST, Resource.TARGET_POD, []), (NEWEST, Resource.UNSCHEDULED_POD, ["UnscheduledPodUpdatePodLabel"])],
    ids=["one who waits for its own updates", "one who waits for those of others"],
)
def test_an_update_of_a_pod_in_flight_is_a_stranger_s_to_other_pods(
    behaviours: Behaviours, resource: Resource, asked: list[str]
) -> None:
    hint = ScriptedHint(Hint.SKIP)
    world = make_world(waiter("x", ClusterEvent(resource, Action.UPDATE_POD_LABEL), hint), behaviours=behaviours)
    world.add(make_pod("p"), make_pod("other"))
    entries = {entry.pod.metadata.name: entry for entry in (world.pop(), world.pop())}
    world.update(make_pod("p"), make_pod("p", labels={"a": "b"}))
    world.fail(entries["other"], "x")
    assert [event for _, event, _ in world.ledger.hints] == asked
    assert world.place(make_pod("other")) == "U"


def test_an_update_that_opens_the_gate_lets_the_pod_in() -> None:
    event = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)

    class Gates:
        name = "SchedulingGates"

        def pre_enqueue(self, pod: PodInfo) -> Status:
            return unresolvable("waiting for scheduling gates") if pod.pod.spec.scheduling_gates else SUCCESS

    world = make_world(waiter("SchedulingGates", event), pre_enqueue=[Gates()])
    world.add(make_pod(gates=["a"]))
    assert world.queue.counts()["gated"] == 1
    world.update(make_pod(gates=["a"]), make_pod())
    entry = world.pop()
    assert not entry.gated
    assert entry.gating_plugin_events == ()


# Deletion and the end


def test_a_deleted_pod_is_nowhere() -> None:
    for expected in ("A", "B", "U", "E"):
        world = make_world(waiter("x", NODE_ADD))
        pod = make_pod(nominated="node1")
        world.add(pod)
        if expected != "A":
            world.fail(world.pop(), *(() if expected == "E" else ("x",)))
        if expected == "B":
            world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
        assert world.place(pod) == expected
        world.queue.delete(pod)
        assert world.place(pod) == ""
        assert world.queue.nominator.pods_on("node1") == []
    world.queue.delete(make_pod("unknown"))


GAUGE = {
    "1.36, backing off": (OLDEST, "B", 1),
    "1.36, unschedulable": (OLDEST, "U", 0),
    "1.37, backing off": (NEWEST, "B", 0),
    "1.37, unschedulable": (NEWEST, "U", 0),
}


@pytest.mark.parametrize(("behaviours", "place", "left"), GAUGE.values(), ids=GAUGE)
def test_the_rejections_of_a_deleted_pod_count_no_more(behaviours: Behaviours, place: str, left: int) -> None:
    world = make_world(waiter("x", NODE_ADD), behaviours=behaviours)
    world.reject(make_pod(), "x")
    assert world.ledger.rejected("x") == 1
    if place == "B":
        world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    world.queue.delete(make_pod())
    assert world.ledger.rejected("x") == left


def test_a_pod_that_is_added_again_takes_the_place_of_the_old_one() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.reject(make_pod(), "x")
    again = make_pod(uid="another")
    world.add(again)
    assert world.ledger.rejected("x") == 0
    assert world.queue.counts() == {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert world.pop().uid == "another"


def test_a_gated_newcomer_does_not_displace_an_active_pod_of_its_name() -> None:
    gate = GatePlugin("gate")
    world = make_world(pre_enqueue=[gate])
    world.add(make_pod())
    gate.held.add("p")
    world.add(make_pod(uid="another"))
    assert world.ledger.rejected("gate") == 0
    assert world.pop().uid == "uid-p"
    assert world.queue.counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


def test_closing_forgets_what_is_in_flight_and_wakes_the_popper() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(make_pod("p1"), make_pod("p2"))
    world.pop()
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    world.queue.close()
    assert world.queue.closed
    assert world.queue.in_flight_count() == 0
    assert world.queue._in_flight.listing() == []
    assert not any(world.ledger.in_flight.values())
    assert len(world.wakes) == 3
    assert world.popped() == ["p2"]


# Questions


def test_what_waits_can_be_asked_for() -> None:
    world = make_world(waiter("x", NODE_ADD), pre_enqueue=[GatePlugin("gate", ["held"])])
    world.reject(make_pod("error"))
    world.reject(make_pod("rejected"), "x")
    world.add(make_pod("held"), make_pod("active"))
    pods, summary = world.queue.pending_pods()
    assert [pod.metadata.name for pod in pods] == ["active", "error", "rejected", "held"]
    assert summary == "activeQ:1; backoffQ:1; unschedulablePods:2"
    assert world.queue.counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 1}
    for pod in pods:
        entry = world.queue.get_pod(pod.key)
        assert entry is not None
        assert entry.pod is pod
    assert world.queue.get_pod(make_pod("unknown").key) is None


def test_a_place_prints_as_metrics_name_it() -> None:
    assert [str(place) for place in Place] == ["active", "backoff", "unschedulable"]


def test_each_status_of_a_pod_is_a_new_nomination() -> None:
    world = make_world()
    world.add(make_pod())
    world.update(make_pod(), make_pod(status=PodStatus(nominated_node_name="node2")))
    assert world.queue.nominator.node_of(make_pod().uid) == "node2"
