"""Events of the cluster: which waiting pods they move, and where to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.queueing.builders import (
    CSI_NODE_UPDATE,
    NODE_ADD,
    POD_ADD,
    PV_ADD,
    ScriptedHint,
    make_pod,
    make_world,
    waiter,
)

from berth.cluster.pods import PodInfo
from berth.framework.events import ASSIGNED_POD_DELETE, FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, Hint, HintError
from berth.queueing.hints import Waiter
from berth.queueing.settings import QueueSettings

if TYPE_CHECKING:
    from berth.framework.events import ClusterEvent

FOO_POD_ADD = waiter("foo", POD_ADD)

WHERE_TO = {
    "a pending plugin is content": ((), ("foo",), Hint.QUEUE, 0, "A"),
    "a rejecting plugin is content at once": (("foo",), (), Hint.QUEUE, 0, "B"),
    "a rejecting plugin is content in the last second of the pause": (("foo",), (), Hint.QUEUE, 1.9, "B"),
    "a rejecting plugin is content when the pause is over": (("foo",), (), Hint.QUEUE, 2, "A"),
    "the plugin is not content": (("foo",), (), Hint.SKIP, 2, "U"),
    "the plugin cannot tell": (("foo",), (), HintError("?"), 2, "A"),
    "the plugin breaks off": (("foo",), (), ZeroDivisionError("oops"), 2, "A"),
    "another plugin rejected the pod": (("bar",), (), Hint.QUEUE, 2, "U"),
}


@pytest.mark.parametrize(("unschedulable", "pending", "answer", "wait_s", "place"), WHERE_TO.values(), ids=WHERE_TO)
def test_an_event_moves_a_pod(
    unschedulable: tuple[str, ...],
    pending: tuple[str, ...],
    answer: Hint | Exception,
    wait_s: float,
    place: str,
) -> None:
    world = make_world(waiter("foo", NODE_ADD, ScriptedHint(answer)))
    entry = world.reject(make_pod(), *unschedulable, pending=pending)
    world.clock.advance(wait_s)
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(entry.pod) == place
    assert len(world.wakes) == 1 + (place != "U")


def test_a_hint_that_fails_is_counted_as_such_and_told(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(waiter("foo", NODE_ADD, ScriptedHint(HintError("no such claim"))))
    world.reject(make_pod(), "foo")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.ledger.hints == [("foo", "NodeAdd", "Error")]
    assert "no such claim" in caplog.text


def test_pods_that_are_active_or_back_off_are_left_alone() -> None:
    world = make_world(waiter("foo", NODE_ADD))
    entry = world.reject(make_pod(), "foo")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(entry.pod) == "B"
    world.clock.advance(2)
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(entry.pod) == "B"
    assert world.ledger.queued["backoff", "NodeAdd"] == 1


@pytest.mark.parametrize("event", [NODE_ADD, UNSCHEDULABLE_TIMEOUT], ids=lambda event: event.label)
def test_a_pre_check_keeps_pods_where_they_are(event: ClusterEvent) -> None:
    world = make_world(waiter("foo", NODE_ADD))
    world.add(make_pod("low", priority=1), make_pod("high", priority=1000))
    for entry in (world.pop(), world.pop()):
        world.fail(entry, "foo")
    world.queue.move_all_to_active_or_backoff_queue(event, None, None, lambda info: info.priority <= 100)
    assert world.place(make_pod("low")) == "B"
    assert world.place(make_pod("high")) == "U"


def test_a_move_is_kept_for_pods_in_flight_even_if_it_moves_nobody() -> None:
    world = make_world(FOO_POD_ADD)
    world.add(make_pod("p"))
    entry = world.pop()
    world.queue.move_all_to_active_or_backoff_queue(POD_ADD, None, None)
    world.fail(entry, "foo")
    assert world.place(entry.pod) == "B"


def test_an_event_that_frees_what_one_pod_held_moves_another() -> None:
    world = make_world(waiter("NodePorts", ASSIGNED_POD_DELETE))
    waiting = world.reject(make_pod("y"), "NodePorts")
    world.clock.advance(2)
    world.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, make_pod("x", node_name="n"), None)
    assert world.place(waiting.pod) == "A"


# What happened during an attempt

DURING: dict[str, tuple[tuple[Waiter, ...], tuple[str, ...], tuple[str, ...], str]] = {
    "nobody waits for what happened": ((waiter("foo", CSI_NODE_UPDATE),), ("foo",), (), "U"),
    "the one who waits is not among the rejectors": ((FOO_POD_ADD,), ("bar",), (), "U"),
    "the one who waits is not content": ((waiter("foo", POD_ADD, ScriptedHint(Hint.SKIP)),), ("foo",), (), "U"),
    "a pending plugin is content among others": (
        (
            waiter("3", POD_ADD, ScriptedHint(Hint.SKIP)),
            waiter("2", POD_ADD),
            waiter("1", POD_ADD),
        ),
        ("2", "3"),
        ("1",),
        "A",
    ),
    "only rejecting plugins are content, and one is pending": (
        (waiter("2", POD_ADD), waiter("1", POD_ADD, ScriptedHint(Hint.SKIP))),
        ("2",),
        ("1",),
        "B",
    ),
    "one of two rejecting plugins is content": (
        (waiter("2", POD_ADD, ScriptedHint(Hint.SKIP)), waiter("1", POD_ADD)),
        ("1", "2"),
        (),
        "B",
    ),
    "the attempt ended in an error": ((FOO_POD_ADD,), (), (), "E"),
}


@pytest.mark.parametrize(("waiters", "unschedulable", "pending", "place"), DURING.values(), ids=DURING)
def test_what_happened_during_the_attempt_counts(
    waiters: tuple[Waiter, ...], unschedulable: tuple[str, ...], pending: tuple[str, ...], place: str
) -> None:
    world = make_world(*waiters)
    world.add(make_pod())
    entry = world.pop()
    world.queue.move_all_to_active_or_backoff_queue(POD_ADD, None, None)
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    world.fail(entry, *unschedulable, pending=pending)
    assert world.place(entry.pod) == place


def test_what_happened_before_the_attempt_does_not_count() -> None:
    world = make_world(waiter("foo", POD_ADD, ScriptedHint(Hint.SKIP)))
    world.add(make_pod())
    world.queue.move_all_to_active_or_backoff_queue(UNSCHEDULABLE_TIMEOUT, None, None)
    entry = world.pop()
    world.queue.move_all_to_active_or_backoff_queue(POD_ADD, None, None)
    world.fail(entry, "foo")
    assert world.place(entry.pod) == "U"


def test_each_pod_in_flight_is_judged_by_what_happened_since_its_own_pop() -> None:
    world = make_world(waiter("foo", POD_ADD), waiter("foo", PV_ADD))
    world.add(make_pod("p1"), make_pod("p2"))
    p1, p2 = world.pop(), world.pop()
    world.queue.move_all_to_active_or_backoff_queue(POD_ADD, None, None)
    world.fail(p1)
    world.fail(p2, pending=["foo"])
    assert (world.place(p1.pod), world.place(p2.pod)) == ("E", "A")


def test_an_activation_meant_for_another_pod_does_not_count() -> None:
    world = make_world(FOO_POD_ADD)
    world.add(make_pod("p1"), make_pod("p2"))
    p1, p2 = world.pop(), world.pop()
    world.queue.activate([p2.pod])
    world.fail(p1, "foo")
    world.fail(p2, "foo")
    assert (world.place(p1.pod), world.place(p2.pod)) == ("U", "B")
    assert FORCE_ACTIVATE.label not in world.ledger.in_flight or not world.ledger.in_flight[FORCE_ACTIVATE.label]


# Waiting long


def test_pods_that_waited_long_are_tried_by_priority_and_marked_until_they_fail_again() -> None:
    world = make_world(waiter("foo", NODE_ADD))
    world.add(make_pod("mid", priority=5), make_pod("high", priority=9))
    for entry in (world.pop(), world.pop()):
        world.fail(entry, "foo")
    world.clock.advance(301)
    world.queue.flush_unschedulable_leftover()
    assert world.ledger.queued["active", "UnschedulableTimeout"] == 2
    high, mid = world.pop(), world.pop()
    assert [entry.pod.metadata.name for entry in (high, mid)] == ["high", "mid"]
    assert high.was_flushed_from_unschedulable
    world.fail(high, "foo")
    assert not high.was_flushed_from_unschedulable


@pytest.mark.parametrize(("waited_s", "place"), [(60, "U"), (60.5, "A")], ids=["exactly", "longer"])
def test_the_longest_wait_can_be_set_and_must_be_exceeded(waited_s: float, place: str) -> None:
    world = make_world(waiter("foo", NODE_ADD), settings=QueueSettings(max_in_unschedulable_s=60))
    entry = world.reject(make_pod(), "foo")
    world.clock.advance(waited_s)
    world.queue.flush_unschedulable_leftover()
    assert world.place(entry.pod) == place


def test_a_flush_counts_for_pods_in_flight_if_somebody_waited_long() -> None:
    for somebody, place in ((True, "B"), (False, "U")):
        world = make_world(waiter("foo", NODE_ADD))
        if somebody:
            world.reject(make_pod("old"), "foo")
        world.clock.advance(301)
        world.add(make_pod())
        entry = world.pop()
        world.queue.flush_unschedulable_leftover()
        world.fail(entry, "foo")
        assert world.place(entry.pod) == place


# -- pods that are alike ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("by_likeness", "by_spec", "calls"), [(True, False, 2), (False, False, 4), (False, True, 1), (True, True, 1)]
)
def test_a_hint_that_goes_by_likeness_is_asked_once_for_all_pods_that_are_alike(
    by_likeness: bool, by_spec: bool, calls: int
) -> None:
    hint = ScriptedHint()
    world = make_world(Waiter("foo", NODE_ADD, hint, by_likeness, by_spec))
    alike = [world.reject(make_pod(f"p{i}"), "foo") for i in range(3)]
    other = world.reject(make_pod("other", labels={"app": "other"}), "foo")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert hint.calls == calls
    assert {world.place(entry.pod) for entry in (*alike, other)} == {"B"}


def test_pods_that_are_alike_and_were_rejected_by_different_plugins_are_judged_apart() -> None:
    world = make_world(
        Waiter("foo", NODE_ADD, ScriptedHint(Hint.SKIP), True), Waiter("bar", NODE_ADD, ScriptedHint(), True)
    )
    sleeper, woken = world.reject(make_pod("a"), "foo"), world.reject(make_pod("b"), "bar")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert (world.place(sleeper.pod), world.place(woken.pod)) == ("U", "B")


def test_where_one_of_those_who_are_asked_reads_labels_pods_of_other_labels_are_judged_apart() -> None:
    hints = ScriptedHint(Hint.SKIP), ScriptedHint(Hint.SKIP)
    world = make_world(Waiter("foo", NODE_ADD, hints[0], False, True), Waiter("bar", NODE_ADD, hints[1], True))
    for name in "ab":
        world.reject(make_pod(name, labels={"app": name}), "foo", "bar")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert [hint.calls for hint in hints] == [2, 2]


def test_the_pod_that_an_event_is_about_is_asked_for_itself() -> None:
    pods = [make_pod(name) for name in "abc"]
    about_b = ScriptedHint()

    def only_b(info: PodInfo, old: object, new: object) -> Hint:
        about_b(info, old, new)
        return Hint.QUEUE if info.uid == pods[1].uid else Hint.SKIP

    world = make_world(Waiter("foo", ASSIGNED_POD_DELETE, only_b, True))
    for pod in pods:
        world.reject(pod, "foo")
    world.queue.move_all_to_active_or_backoff_queue(ASSIGNED_POD_DELETE, pods[1], None)
    assert [world.place(pod) for pod in pods] == ["U", "B", "U"]
    assert about_b.calls == 2


def test_a_pod_that_has_changed_is_no_longer_like_the_others() -> None:
    hint = ScriptedHint(Hint.SKIP)
    world = make_world(Waiter("foo", NODE_ADD, hint, True))
    pods = [make_pod("a"), make_pod("b")]
    for pod in pods:
        world.reject(pod, "foo")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    world.update(pods[0], make_pod("a", labels={"app": "x"}))
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert hint.calls == 1 + 2


def test_a_pod_whose_labels_changed_during_an_attempt_is_no_longer_like_what_it_was() -> None:
    before, other = PodInfo(make_pod()), make_pod(labels={"app": "x"})
    assert before.template != before.next(other).template == PodInfo(other).template
    assert before.spec_template == before.next(other).spec_template


def test_the_template_leaves_out_names_and_statuses_and_nothing_else() -> None:
    one, two = make_pod("one", uid="1"), make_pod("two", uid="2", nominated="n1")
    assert PodInfo(one).template == PodInfo(two).template
    assert PodInfo(one).template != PodInfo(make_pod("one", tolerations=1)).template
    assert PodInfo(one).template != PodInfo(make_pod("one", namespace="other")).template
