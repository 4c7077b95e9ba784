"""Placements that are held back: who lets them go, and who stops them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_pod

from berth.framework.status import SUCCESS, Code, Status, unschedulable
from berth.scheduling.waiting import WaitingPod, WaitingPods

if TYPE_CHECKING:
    from collections.abc import Callable

PREEMPTED = Status(Code.ERROR, ("preempted",), "Preempter")
REJECTED = unschedulable("no").by("P")


def waiting_pod() -> WaitingPod:
    return WaitingPod(a_pod(), {"P": 10, "Q": 20})


def allow(*plugins: str) -> Callable[[WaitingPod], object]:
    def act(pod: WaitingPod) -> None:
        for plugin in plugins:
            pod.allow(plugin)

    return act


def reject(pod: WaitingPod) -> bool:
    return pod.reject("P", "no")


def preempt(pod: WaitingPod) -> bool:
    return pod.preempt("Preempter", "preempted")


# what is done, in order; the outcome
OUTCOMES: dict[str, tuple[list[Callable[[WaitingPod], object]], Status | None]] = {
    "nothing": ([], None),
    "one of two allows": ([allow("P")], None),
    "both allow": ([allow("P", "Q")], SUCCESS),
    "one allows twice": ([allow("P", "P")], None),
    "a stranger allows": ([allow("R")], None),
    "one rejects": ([reject], REJECTED),
    "one allows, the other rejects": ([allow("Q"), reject], REJECTED),
    "a plugin that has allowed rejects": ([allow("P"), reject], REJECTED),
    "it is preempted": ([preempt], PREEMPTED),
    "all allow, then one rejects": ([allow("P", "Q"), reject], SUCCESS),
    "all allow, then it is preempted": ([allow("P", "Q"), preempt], SUCCESS),
    "one rejects, then all allow": ([reject, allow("P", "Q")], REJECTED),
    "one rejects, then it is preempted": ([reject, preempt], REJECTED),
    "it is preempted, then all allow": ([preempt, allow("P", "Q")], PREEMPTED),
}


@pytest.mark.parametrize(("acts", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_the_wait_ends_so_that(acts: list[Callable[[WaitingPod], object]], expected: Status | None) -> None:
    early, late = waiting_pod(), waiting_pod()
    heard: list[Status] = []
    early.when_settled(heard.append)
    for pod in (early, late):
        for act in acts:
            act(pod)
        assert pod.outcome == expected
    late.when_settled(heard.append)
    assert heard == ([] if expected is None else [expected, expected])


def test_whoever_stops_a_placement_learns_whether_it_was_still_to_be_stopped() -> None:
    pod = waiting_pod()
    assert [reject(pod), reject(pod), preempt(pod)] == [True, False, False]
    pod = waiting_pod()
    assert [preempt(pod), preempt(pod), reject(pod)] == [True, False, False]
    pod = waiting_pod()
    pod.allow("P")
    pod.allow("Q")
    assert [reject(pod), preempt(pod)] == [False, False]


def test_who_has_allowed_is_no_longer_pending() -> None:
    pod = waiting_pod()
    assert pod.pending == {"P": 10, "Q": 20}
    pod.allow("P")
    assert pod.pending == {"Q": 20}
    pod.reject("Q", "no")
    assert pod.pending == {}


def test_a_pod_that_is_going_away_is_stopped_for_no_plugins_sake() -> None:
    pods, pod = WaitingPods(), waiting_pod()
    pods.add(pod)
    assert pods.get(pod.pod.uid) is pod
    assert pods.reject(pod.pod.uid)
    assert pod.outcome == unschedulable("removed")
    assert not pods.reject(pod.pod.uid)


def test_a_pod_that_does_not_wait_cannot_be_stopped() -> None:
    pods, pod = WaitingPods(), waiting_pod()
    assert not pods.reject(pod.pod.uid)
    pods.add(pod)
    pods.remove(pod.pod.uid)
    pods.remove(pod.pod.uid)
    assert pods.get(pod.pod.uid) is None
    assert not pods.reject(pod.pod.uid)
    assert pod.outcome is None
