from __future__ import annotations

import pytest
from tests.queueing.builders import NODE_ADD, ManualClock, by_priority, make_entry, make_pod, make_world, waiter

from berth.queueing.backoff import BackoffQueue, backoff_duration_s
from berth.queueing.entries import NO_BACKOFF, QueuedPodInfo
from berth.queueing.settings import QueueSettings

DURATIONS = {
    "doubles with each failure": (5, 3, 1000, 48),
    "reaches the longest pause": (16, 1, 32, 32),
    "many failures do not overflow": (64, 1, 2**63 - 1, 2**63 - 1),
    "an absurd number of failures does not overflow": (10_000, 1, 2**31 - 1, 2**31 - 1),
    "a thousandth of a second may be the first pause": (3, 0.001, 10, 0.004),
    "a first pause above the longest is cut": (1, 20, 10, 10),
    "no first pause is no pause": (70, 0, 10, 0),
}


@pytest.mark.parametrize(("count", "initial_s", "max_s", "expected"), DURATIONS.values(), ids=DURATIONS)
def test_the_pause(count: int, initial_s: float, max_s: float, expected: float) -> None:
    assert backoff_duration_s(count, initial_s, max_s) == expected


def make_backoff(*, max_s: float = 32.0, aligned: bool = True, now_s: float = 0.0) -> BackoffQueue:
    settings = QueueSettings(max_backoff_s=max_s, pop_from_backoff_q=aligned)
    return BackoffQueue(settings, ManualClock(now_s), by_priority)


EXPIRATIONS = {
    "a pod that never failed does not pause": (make_entry(), 32.0, NO_BACKOFF),
    "the kept moment is the answer": (make_entry(unschedulable_count=1, backoff_expiration_s=77.5), 32.0, 77.5),
    "sixteen rejections": (make_entry(unschedulable_count=16), 32.0, 32.0),
    "errors count apart from rejections": (
        make_entry(unschedulable_count=5, consecutive_errors_count=16),
        32.0,
        32.0,
    ),
    "a first error after many rejections": (make_entry(unschedulable_count=5, consecutive_errors_count=1), 32.0, 1.0),
    "without a longest pause there is none": (make_entry(unschedulable_count=5), 0.0, NO_BACKOFF),
}


@pytest.mark.parametrize(("entry", "max_s", "expected"), EXPIRATIONS.values(), ids=EXPIRATIONS)
def test_the_end_of_the_pause(entry: QueuedPodInfo, max_s: float, expected: float) -> None:
    assert make_backoff(max_s=max_s).expiration_s(entry) == expected


@pytest.mark.parametrize(
    ("aligned", "released_s"), [(True, 12.0), (False, 11.91)], ids=["on whole seconds", "to the moment"]
)
def test_a_pod_that_failed_at_10_9_returns(aligned: bool, released_s: float) -> None:
    clock = ManualClock(10.9)
    queue = BackoffQueue(QueueSettings(pop_from_backoff_q=aligned), clock, by_priority)
    entry = make_entry(timestamp_s=10.9, unschedulable_count=1)
    queue.put(entry)
    clock.now_s = 11.89 if not aligned else 11.99
    assert queue.is_backing_off(entry)
    assert queue.pop_completed() == []
    clock.now_s = released_s
    assert queue.pop_completed() == [entry]


def test_completed_pauses_are_taken_from_both_kinds_and_rejections_come_first() -> None:
    queue = make_backoff(now_s=100.0)
    entries = [
        make_entry(make_pod("pod3"), timestamp_s=101, consecutive_errors_count=1),
        make_entry(make_pod("pod2"), timestamp_s=98, consecutive_errors_count=1),
        make_entry(make_pod("pod1"), timestamp_s=101, unschedulable_count=1, unschedulable_plugins={"x"}),
        make_entry(make_pod("pod0"), timestamp_s=98, unschedulable_count=1, unschedulable_plugins={"x"}),
    ]
    for entry in entries:
        queue.put(entry)
    assert [entry.pod.metadata.name for entry in queue.pop_completed()] == ["pod0", "pod2"]
    assert len(queue) == 2


@pytest.mark.parametrize(
    ("aligned", "expected"),
    [(True, ["pod5", "pod4", "pod2", "pod3"]), (False, ["pod5", "pod3", "pod4", "pod2"])],
    ids=["by priority within a second", "by time alone"],
)
def test_pauses_that_end_together_end(aligned: bool, expected: list[str]) -> None:
    now_s = 100.0
    queue = make_backoff(aligned=aligned, now_s=now_s)
    for name, priority, age_s in (
        ("pod0", 1, 0),
        ("pod1", 1, 1),
        ("pod2", 2, 2 - 0.001),
        ("pod3", 1, 2),
        ("pod4", 2, 2),
        ("pod5", 1, 3),
    ):
        queue.put(
            make_entry(
                make_pod(name, priority=priority),
                timestamp_s=now_s - age_s,
                unschedulable_count=1,
                unschedulable_plugins={"x"},
            )
        )
    # at the exact moment of its end a pause still lasts; a millisecond later the exact ones are over, too
    if not aligned:
        queue._clock = ManualClock(now_s - 0.0005)
    assert [entry.pod.metadata.name for entry in queue.pop_completed()] == expected
    assert {entry.pod.metadata.name for entry in queue} == {"pod0", "pod1"}


def test_a_pod_pauses_in_one_place_only(caplog: pytest.LogCaptureFixture) -> None:
    queue = make_backoff()
    entry = make_entry(unschedulable_count=1, unschedulable_plugins={"x"})
    assert queue.put(entry)
    entry.unschedulable_plugins = set()
    assert not queue.put(entry)
    assert len(queue) == 1
    assert not queue.has_poppable
    assert "paused both" in caplog.text


def test_rejections_in_a_row_pause_1_2_4_8_10_10_10_seconds() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(make_pod())
    pauses = []
    for _ in range(7):
        entry = world.pop()
        world.fail(entry, "x")
        pauses.append(world.queue._places.backoff.expiration_s(entry) - entry.timestamp_s)
        world.clock.advance(301)
        world.queue.flush_unschedulable_leftover()
    assert pauses == [1, 2, 4, 8, 10, 10, 10]


def test_a_rejection_ends_the_row_of_errors() -> None:
    world = make_world(waiter("x", NODE_ADD))
    world.add(make_pod())
    counts = []
    for plugins in ((), (), ("x",), ()):
        entry = world.pop()
        world.fail(entry, *plugins)
        counts.append((entry.unschedulable_count, entry.consecutive_errors_count))
        world.clock.advance(301)
        world.queue.flush_unschedulable_leftover()
        world.queue.flush_backoff_completed()
    assert counts == [(0, 1), (0, 2), (1, 0), (1, 1)]
