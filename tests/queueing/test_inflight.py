from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.queueing.builders import (
    CSI_NODE_UPDATE,
    NODE_ADD,
    POD_ADD,
    PV_ADD,
    PV_UPDATE,
    PVC_ADD,
    Ledger,
    World,
    make_pod,
    make_world,
    waiter,
)

from berth.api.meta import PodUid
from berth.queueing.inflight import InFlight, RecordedEvent

if TYPE_CHECKING:
    from berth.framework.events import ClusterEvent


def make_flying() -> World:
    events = (NODE_ADD, POD_ADD, PV_ADD, PVC_ADD, CSI_NODE_UPDATE)
    world = make_world(*(waiter("foo", event) for event in events))
    world.add(make_pod("p1"))
    return world


def listing(world: World) -> list[str]:
    return [
        item.event.label if isinstance(item, RecordedEvent) else item.removeprefix("uid-")
        for item in world.queue._in_flight.listing()
    ]


def happens(world: World, *events: ClusterEvent) -> None:
    for event in events:
        world.queue.move_all_to_active_or_backoff_queue(event, None, None)


def pop_next(world: World, name: str) -> None:
    world.add(make_pod(name))
    world.pop()


def test_only_events_that_somebody_waits_for_are_kept_and_only_while_a_pod_is_in_flight() -> None:
    world = make_flying()
    happens(world, PVC_ADD)
    world.pop()
    happens(world, PV_ADD, PV_UPDATE)
    assert listing(world) == ["p1", "PersistentVolumeAdd"]


def test_events_before_the_first_pod_left_are_dropped() -> None:
    world = make_flying()
    p1 = world.pop()
    happens(world, PV_ADD)
    pop_next(world, "p2")
    happens(world, NODE_ADD)
    world.fail(p1)
    assert world.place(p1.pod) == "E"
    assert listing(world) == ["p2", "NodeAdd"]


def test_nothing_is_kept_once_nobody_is_in_flight() -> None:
    world = make_flying()
    p1 = world.pop()
    happens(world, PV_ADD)
    world.add(make_pod("p2"))
    p2 = world.pop()
    happens(world, NODE_ADD)
    world.fail(p1)
    happens(world, CSI_NODE_UPDATE)
    world.fail(p2)
    assert (world.place(p1.pod), world.place(p2.pod)) == ("E", "E")
    assert listing(world) == []
    assert not any(world.ledger.in_flight.values())


def test_events_are_kept_for_those_who_were_in_flight_before_them() -> None:
    world = make_flying()
    world.pop()
    happens(world, PV_ADD)
    world.add(make_pod("p2"))
    p2 = world.pop()
    happens(world, NODE_ADD)
    pop_next(world, "p3")
    happens(world, POD_ADD)
    world.fail(p2)
    assert listing(world) == ["p1", "PersistentVolumeAdd", "NodeAdd", "p3", "AssignedPodAdd"]
    assert +world.ledger.in_flight == {
        "PodPopped": 2,
        "PersistentVolumeAdd": 1,
        "NodeAdd": 1,
        "AssignedPodAdd": 1,
    }


def test_an_attempt_may_end_twice() -> None:
    flying = InFlight(Ledger())
    flying.start(PodUid("a"))
    flying.done(PodUid("a"))
    flying.done(PodUid("a"))
    assert len(flying) == 0


STEPS = st.lists(st.one_of(st.just("event"), st.integers(0, 5)), max_size=60)


@settings(deadline=None)
@given(STEPS)
def test_each_pod_sees_what_happened_since_its_pop_and_no_event_is_kept_for_nobody(steps: list[str | int]) -> None:
    ledger = Ledger()
    flying = InFlight(ledger)
    seen: dict[PodUid, list[int]] = {}
    kept: list[tuple[int, set[PodUid]]] = []
    for number, step in enumerate(steps):
        if step == "event":
            flying.record(NODE_ADD, None, number)
            for events in seen.values():
                events.append(number)
            kept.append((number, set(seen)))
        else:
            uid = PodUid(str(step))
            if uid in flying:
                flying.done(uid)
                del seen[uid]
                for _, witnesses in kept:
                    witnesses.discard(uid)
            else:
                flying.start(uid)
                seen[uid] = []
        assert {uid: [e.new for e in flying.events_since_pop(uid)] for uid in flying.uids()} == seen
        in_order = [item.new for item in flying.listing() if isinstance(item, RecordedEvent)]
        assert in_order == [event for event, witnesses in kept if witnesses]
        assert ledger.in_flight[NODE_ADD.label] == len(in_order)
        assert ledger.in_flight["PodPopped"] == len(seen)
