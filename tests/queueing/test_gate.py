"""PreEnqueue plugins: who is held back, who asks again, and what is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.queueing.builders import (
    ANY,
    NEWEST,
    NODE_ADD,
    OLDEST,
    POD_ADD,
    GatePlugin,
    ScriptedHint,
    by_priority,
    make_pod,
    make_world,
    waiter,
)

from berth.framework.events import Action, ClusterEvent, Hint, Resource
from berth.framework.status import PluginError, Status, error
from berth.queueing.hints import HintMap
from berth.queueing.settings import QueueProfile, QueueSettings

if TYPE_CHECKING:
    from berth.cluster.pods import PodInfo
    from berth.framework.features import Behaviours


def test_one_refusal_is_enough_and_ends_the_round() -> None:
    gates = [GatePlugin("a"), GatePlugin("b", ["p"]), GatePlugin("c")]
    world = make_world(pre_enqueue=gates)
    world.add(make_pod())
    assert world.place(make_pod()) == "U"
    assert [gate.calls for gate in gates] == [1, 1, 0]
    assert world.ledger.pre_enqueue == [
        ("default-scheduler", "a", "Success"),
        ("default-scheduler", "b", "UnschedulableAndUnresolvable"),
    ]
    assert world.ledger.queued == {("unschedulable", "UnscheduledPodAdd"): 1}


def test_the_plugin_that_held_a_pod_back_is_asked_first() -> None:
    gates = [GatePlugin("a"), GatePlugin("b", ["p"])]
    world = make_world(waiter("b", NODE_ADD), pre_enqueue=gates)
    world.add(make_pod())
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert [gate.calls for gate in gates] == [1, 2]
    gates[1].held.clear()
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert [gate.calls for gate in gates] == [2, 3]
    assert world.place(make_pod()) == "A"


ENTRANCES = {
    "from backoff, early tries allowed": (True, "B", "A"),
    "from backoff, no early tries": (False, "B", "U"),
    "from unschedulable, early tries allowed": (True, "U", "U"),
    "from unschedulable, no early tries": (False, "U", "U"),
}


@pytest.mark.parametrize(("early", "start", "end"), ENTRANCES.values(), ids=ENTRANCES)
def test_the_gate_stands_before_backoff_only_where_pods_may_be_tried_from_there(
    early: bool, start: str, end: str
) -> None:
    gate = GatePlugin("gate")
    world = make_world(waiter("x", NODE_ADD), pre_enqueue=[gate], settings=QueueSettings(pop_from_backoff_q=early))
    world.reject(make_pod(), "x")
    if start == "B":
        world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
        assert world.place(make_pod()) == "B"
    gate.held.add("p")
    world.clock.advance(2)
    if start == "B":
        world.queue.flush_backoff_completed()
    else:
        world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(make_pod()) == end


@pytest.mark.parametrize(("early", "place"), [(True, "U"), (False, "B")], ids=["early tries", "no early tries"])
def test_a_held_pod_may_back_off_only_where_it_cannot_be_tried_from_there(early: bool, place: str) -> None:
    gate = GatePlugin("gate")
    world = make_world(waiter("x", NODE_ADD), pre_enqueue=[gate], settings=QueueSettings(pop_from_backoff_q=early))
    world.reject(make_pod(), "x")
    gate.held.add("p")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert world.place(make_pod()) == place


def test_an_event_that_the_gating_plugin_does_not_wait_for_moves_no_gated_pod() -> None:
    hint, gate = ScriptedHint(), GatePlugin("gate", ["p"])
    world = make_world(waiter("x", NODE_ADD, hint), waiter("gate", POD_ADD), pre_enqueue=[gate])
    gate.held.clear()
    world.reject(make_pod(), "x")
    gate.held.add("p")
    world.queue.activate([make_pod()])
    gate.held.clear()
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert (world.place(make_pod()), hint.calls) == ("U", 0)
    world.queue.move_all_to_active_or_backoff_queue(POD_ADD, None, None)
    assert (world.place(make_pod()), hint.calls) == ("B", 0)


def test_the_hint_of_the_gating_plugin_may_keep_the_pod_where_it_is() -> None:
    gate = GatePlugin("gate", ["p"])
    world = make_world(waiter("gate", NODE_ADD, ScriptedHint(Hint.SKIP)), pre_enqueue=[gate])
    world.add(make_pod())
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert gate.calls == 1


@pytest.mark.parametrize("fault", [PluginError("no"), RuntimeError("broken"), error("no")], ids=repr)
def test_a_plugin_that_cannot_answer_holds_the_pod_back(
    fault: Exception | Status, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty:
        name = "faulty"

        def pre_enqueue(self, _pod: PodInfo) -> Status:
            if isinstance(fault, Exception):
                raise fault
            return fault

    world = make_world(pre_enqueue=[Faulty()])
    world.add(make_pod())
    assert world.place(make_pod()) == "U"
    assert world.ledger.pre_enqueue == [("default-scheduler", "faulty", "Error")]
    assert "faulty could not judge whether pod default/p may enter" in caplog.text


def test_rejections_by_gates_are_counted_once_and_until_the_pod_is_popped() -> None:
    one, two = GatePlugin("one", ["p"]), GatePlugin("two", ["p"])
    world = make_world(waiter("one", NODE_ADD), waiter("two", NODE_ADD), pre_enqueue=[one, two])
    world.add(make_pod())
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert (world.ledger.rejected("one"), world.ledger.rejected("two")) == (1, 0)
    one.held.clear()
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert (world.ledger.rejected("one"), world.ledger.rejected("two")) == (1, 1)
    two.held.clear()
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert (world.ledger.rejected("one"), world.ledger.rejected("two")) == (1, 1)
    world.pop()
    assert (world.ledger.rejected("one"), world.ledger.rejected("two")) == (0, 0)


def test_the_rejection_of_a_deleted_gated_pod_counts_no_more() -> None:
    world = make_world(pre_enqueue=[GatePlugin("one", ["p"])])
    world.add(make_pod())
    assert world.ledger.rejected("one") == 1
    world.queue.delete(make_pod())
    assert world.ledger.rejected("one") == 0
    assert world.queue.counts()["gated"] == 0


FLUSHES = {
    "1.36, a plugin that waits for something else": (OLDEST, NODE_ADD, 1),
    "1.36, a plugin that waits for everything": (OLDEST, ANY, 2),
    "1.37, a plugin that waits for something else": (NEWEST, NODE_ADD, 2),
    "1.37, a plugin that waits for everything": (NEWEST, ANY, 2),
}


@pytest.mark.parametrize(("behaviours", "awaited", "calls"), FLUSHES.values(), ids=FLUSHES)
def test_the_flush_of_those_who_waited_long(behaviours: Behaviours, awaited: ClusterEvent, calls: int) -> None:
    gate = GatePlugin("gate", ["p"])
    world = make_world(waiter("gate", awaited), pre_enqueue=[gate], behaviours=behaviours)
    world.add(make_pod())
    world.clock.advance(300)
    world.queue.flush_unschedulable_leftover()
    assert gate.calls == 1
    world.clock.advance(1)
    world.queue.flush_unschedulable_leftover()
    assert gate.calls == calls
    assert world.ledger.rejected("gate") == 1
    assert world.place(make_pod()) == "U"


def test_gated_pods_are_flushed_at_the_pace_of_the_others_and_lose_the_mark() -> None:
    gate = GatePlugin("gate", ["p"])
    world = make_world(waiter("gate", NODE_ADD), pre_enqueue=[gate])
    world.add(make_pod())
    (entry,) = world.queue.entries()
    calls = []
    for _ in range(22):
        world.clock.advance(30)
        world.queue.flush_unschedulable_leftover()
        calls.append(gate.calls)
        assert not entry.was_flushed_from_unschedulable
    assert calls[9:11] == [1, 2]  # after 300 and 330 seconds
    assert calls[20:22] == [2, 3]  # after 630 and 660
    gate.held.clear()
    world.clock.advance(330)
    world.queue.flush_unschedulable_leftover()
    assert world.place(make_pod()) == "A"
    assert entry.was_flushed_from_unschedulable


def test_each_pod_is_judged_by_its_own_profile() -> None:
    def profile(plugin: str, event: ClusterEvent) -> QueueProfile:
        return QueueProfile(
            hints=HintMap([waiter(plugin, event)]),
            sort_key=by_priority,
            pre_enqueue=(GatePlugin(plugin, ["held"]),),
        )

    world = make_world(profiles={"one": profile("a", NODE_ADD), "two": profile("b", POD_ADD)})
    held = [make_pod("held", namespace=name, uid=name, scheduler_name=name) for name in ("one", "two")]
    world.add(*held)
    assert [entry.gating_plugin for entry in world.queue.entries()] == ["a", "b"]
    assert [entry.gating_plugin_events for entry in world.queue.entries()] == [(NODE_ADD,), (POD_ADD,)]
    free = [make_pod("free", namespace=name, uid=f"free {name}", scheduler_name=name) for name in ("one", "two")]
    world.add(*free)
    for entry in (world.pop(), world.pop()):
        world.fail(entry, "a", "b")
    world.queue.move_all_to_active_or_backoff_queue(NODE_ADD, None, None)
    assert [world.place(pod) for pod in free] == ["B", "U"]


def test_what_a_gate_plugin_waits_for_is_what_any_profile_lets_it_wait_for() -> None:
    other = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
    one = QueueProfile(
        hints=HintMap([waiter("a", NODE_ADD)]), sort_key=by_priority, pre_enqueue=(GatePlugin("a", ["p"]),)
    )
    two = QueueProfile(hints=HintMap([waiter("a", other)]), sort_key=by_priority)
    world = make_world(profiles={"default-scheduler": one, "two": two})
    world.add(make_pod())
    (entry,) = world.queue.entries()
    assert entry.gating_plugin_events == (NODE_ADD, other)
