"""Carrying evictions out: in which order, what is written and told, and what follows when something fails."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod
from tests.kube.virtual_time import in_virtual_time
from tests.runtime.builders import Shell, Step, a_shell

from berth.framework.status import Code, Status
from berth.kube.errors import ForbiddenError, NotFoundError, ServerError
from berth.plugins.default_preemption.plugin import DefaultPreemption
from berth.plugins.noderesources.fit import NodeResourcesFit
from berth.scheduling.instructions import Bind, Report
from berth.scheduling.waiting import WaitingPod

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kube.scripted_api import Sent

    from berth.api.pod import Pod

MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}


def shell_of(*victims: Pod, plugins: tuple[Any, ...] = (), beside_cycles: bool = True) -> Shell:
    """A node that is full of *victims*."""
    cluster, gates = a_cluster([a_node("n1", cpu="4")]), {"SchedulerAsyncPreemption": beside_cycles}
    handle = a_handle(
        cluster,
        lister=lambda key: shell.shown.get(key),  # noqa: PLW0108 - the shell is made only after this
        gates=gates,
    )
    shell = a_shell(
        NodeResourcesFit(None, handle), DefaultPreemption(None, handle), *plugins, cluster=cluster, gates=gates
    )
    shell.add(*victims)
    return shell


def low(name: str, cpu: str = "2") -> Pod:
    return a_pod(name, on="n1", priority=1, cpu=cpu, status={"start_time": "2026-01-01T00:00:00Z"})


def decided(shell: Shell, pod: Pod) -> Report:
    shell.add(pod)
    report = shell.engine.next_instruction()
    assert isinstance(report, Report), report
    assert report.evict is not None
    return report


HIGH = a_pod("high", priority=9, cpu="4")


async def carried_out(shell: Shell, pod: Pod = HIGH) -> Report:
    report = decided(shell, pod)
    assert report.evict is not None
    shell.evictions.start(report.evict, shell.reporter.report(report))
    await shell.evictions.finish()
    return report


def calls(shell: Shell) -> list[tuple[str, str]]:
    return [(sent.method, sent.path.removeprefix("/api/v1/namespaces/default/pods/")) for sent in shell.api.sent]


@in_virtual_time
async def test_the_nomination_is_written_first_then_victims_are_marked_and_deleted_the_last_after_the_others() -> None:
    shell = shell_of(low("a", "1"), low("b", "1"), low("c"))
    await carried_out(shell)
    assert calls(shell)[0] == ("PATCH", "high/status")
    assert shell.api.sent[0].body["status"]["nominatedNodeName"] == "n1"
    assert {*calls(shell)[1:3]} == {("PATCH", "a/status"), ("PATCH", "b/status")}
    assert {*calls(shell)[3:5]} == {("DELETE", "a"), ("DELETE", "b")}
    assert calls(shell)[5:] == [("PATCH", "c/status"), ("DELETE", "c")]
    (mark,) = shell.api.sent[5].body["status"]["conditions"]
    assert {key: mark[key] for key in MARK} == MARK
    assert shell.api.sent[6].body["preconditions"] == {"uid": "uid-of-default-c"}
    told = ("Normal", "Preempted", "Preempting", "Preempted by pod uid-of-default-high on node n1")
    assert shell.recorder.heard[1:] == [told] * 3
    assert shell.notes.ends == ["evicted"]


@in_virtual_time
async def test_the_pod_is_placed_once_its_victims_are_gone_and_held_back_before() -> None:
    victims = low("a"), low("b")
    shell = shell_of(*victims)
    report = decided(shell, HIGH)
    shell.delete(victims[0])
    assert shell.engine.next_instruction() is None
    assert shell.engine.queue.counts()["gated"] == 1
    assert report.evict is not None
    shell.evictions.start(report.evict, None)
    await shell.evictions.finish()
    shell.delete(victims[1])
    await asyncio.sleep(1)
    assert isinstance(shell.engine.next_instruction(), Bind)


@in_virtual_time
async def test_who_was_held_back_when_something_helped_is_tried_after_the_eviction() -> None:
    victims = low("a"), low("b")
    shell = shell_of(*victims)
    report = decided(shell, HIGH)
    for victim in victims:  # they go by themselves before they are told
        shell.delete(victim)
    assert shell.engine.next_instruction() is None
    assert report.evict is not None
    shell.evictions.start(report.evict, None)
    await shell.evictions.finish()
    assert isinstance(shell.engine.next_instruction(), Bind)


def failing(fault: Exception, method: str, end: str) -> Callable[[Sent], object]:
    """Fails such requests, and no others."""
    return lambda sent: fault if sent.method == method and sent.path.endswith(end) else {}


FORBIDDEN, BROKEN = ForbiddenError(403, "Forbidden", "no"), ServerError(500, "InternalError", "no")
GONE = NotFoundError(404, "NotFound", "gone")

# what the API server says to a write; who is asked for, and whether somebody is told of an eviction
REFUSALS: dict[str, tuple[Callable[[Sent], object], list[tuple[str, str]], int, str]] = {
    "the first victim cannot be deleted": (
        failing(FORBIDDEN, "DELETE", "/a"),
        [("PATCH", "a/status"), ("DELETE", "a")],
        0,
        "not evicted",
    ),
    "the first victim cannot be marked": (
        failing(FORBIDDEN, "PATCH", "/a/status"),
        [("PATCH", "a/status")],
        0,
        "not evicted",
    ),
    "the last one cannot be deleted": (
        failing(BROKEN, "DELETE", "/b"),
        [("PATCH", "a/status"), ("DELETE", "a"), ("PATCH", "b/status"), *[("DELETE", "b")] * 4],
        1,
        "not evicted",
    ),
    "the first one is gone when it is marked": (
        failing(GONE, "PATCH", "/a/status"),
        [("PATCH", "a/status"), ("PATCH", "b/status"), ("DELETE", "b")],
        1,
        "evicted",
    ),
    "the first one is gone when it is deleted": (
        failing(GONE, "DELETE", "/a"),
        [("PATCH", "a/status"), ("DELETE", "a"), ("PATCH", "b/status"), ("DELETE", "b")],
        1,
        "evicted",
    ),
}


@pytest.mark.parametrize(("answer", "asked", "told", "end"), REFUSALS.values(), ids=REFUSALS)
@in_virtual_time
async def test_where(answer: Callable[[Sent], object], asked: list[tuple[str, str]], told: int, end: str) -> None:
    shell = shell_of(low("a"), low("b"))
    shell.api.answer = answer
    await carried_out(shell)
    assert calls(shell)[1:] == asked
    assert [event[1] for event in shell.recorder.heard].count("Preempted") == told
    assert shell.notes.ends == [end]
    tried_again = shell.engine.queue.counts()["active"]
    assert tried_again == (end == "not evicted")


@in_virtual_time
async def test_failures_are_repeated_ever_more_slowly_and_soon_enough() -> None:
    shell = shell_of(low("a", "4"))
    shell.api.answer = failing(FORBIDDEN, "DELETE", "")
    await carried_out(shell)
    times = [asyncio.get_running_loop().time()]
    for _ in range(8):
        report = shell.engine.next_instruction()
        assert isinstance(report, Report)
        assert report.evict is not None
        shell.evictions.start(report.evict, None)
        await shell.evictions.finish()
        times.append(asyncio.get_running_loop().time())
    pauses = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 0.2
    assert 1.0 <= pauses[-1] < 1.1


@in_virtual_time
async def test_nobody_goes_for_a_pod_that_is_gone_itself() -> None:
    shell = shell_of(low("a", "4"))
    report = decided(shell, HIGH)
    shell.delete(HIGH)
    assert report.evict is not None
    shell.evictions.start(report.evict, None)
    await shell.evictions.finish()
    assert calls(shell) == []
    assert shell.notes.ends == ["evicted"]


@in_virtual_time
async def test_less_important_pods_lose_their_promise_of_the_node() -> None:
    shell = shell_of(low("a", "4"))
    hopeful = a_pod("hopeful", priority=5, cpu="4", nominated="n1", gates=["later"])
    shell.shown[hopeful.key] = hopeful
    shell.engine.queue.nominator.add(shell.engine.cluster.info(hopeful))
    await carried_out(shell)
    assert ("PATCH", "hopeful/status") in calls(shell)
    assert {pod.key for pod in shell.engine.queue.nominator.pods_on("n1")} == {"default/high"}


class Slow(Step):
    """Prepares for as long as nobody stops it."""

    async def pre_bind(self, state: object, pod: object, node_name: str) -> Status:
        del state, pod, node_name
        await asyncio.sleep(1000)
        return Status()


@in_virtual_time
async def test_a_placement_in_preparation_is_given_up_in_memory() -> None:
    shell = shell_of(plugins=(Slow(),))
    placed = shell.placed(a_pod("placed", priority=1, cpu="4"))
    shell.bindings.start(placed)
    await asyncio.sleep(1)
    await carried_out(shell)
    await shell.bindings.finish()
    assert calls(shell)[-1] != ("DELETE", "placed")
    note = "Preempted by pod uid-of-default-high on node n1 (in kube-scheduler memory)."
    assert ("Normal", "Preempted", "Preempting", note) in shell.recorder.heard
    assert "preempted by DefaultPreemption" in shell.recorder.heard[-1][3]
    assert shell.notes.ends == ["evicted", "default/placed failed"]


@in_virtual_time
async def test_a_placement_that_waits_for_permission_is_given_up_in_memory() -> None:
    shell = shell_of(plugins=(Step(),))
    placed = shell.placed(a_pod("placed", priority=1, cpu="4"))
    waiting = WaitingPod(placed.info.pod, {"P": 60})
    shell.engine.waiting.add(waiting)
    shell.bindings.start(dataclasses.replace(placed, waiting=waiting))
    await asyncio.sleep(1)
    await carried_out(shell)
    await shell.bindings.finish()
    assert waiting.outcome == Status(Code.ERROR, ("preempted",), "DefaultPreemption")
    assert [call for call in calls(shell) if call[0] == "DELETE"] == []


@in_virtual_time
async def test_only_who_may_lead_evicts() -> None:
    shell = shell_of(low("a", "4"))
    shell.evictions._may_evict = lambda: False
    await carried_out(shell)
    assert [call for call in calls(shell) if "a" in call[1].split("/")] == []
    assert shell.notes.ends == ["not evicted"]


# -- as a part of the attempt -----------------------------------------------------------------------------------------


async def carried_out_before(shell: Shell) -> None:
    report = decided(shell, HIGH)
    assert report.evict is not None
    shell.evictions.start_before(report.evict, report)
    await shell.evictions.finish()
    await asyncio.sleep(1)


@in_virtual_time
async def test_as_a_part_of_the_attempt_victims_are_told_together_and_the_nomination_is_written_after_that() -> None:
    shell = shell_of(low("a"), low("b"), beside_cycles=False)
    await carried_out_before(shell)
    assert {*calls(shell)[:2]} == {("PATCH", "a/status"), ("PATCH", "b/status")}
    assert {*calls(shell)[2:4]} == {("DELETE", "a"), ("DELETE", "b")}
    assert calls(shell)[4:] == [("PATCH", "high/status")]
    assert shell.api.sent[4].body["status"]["nominatedNodeName"] == "n1"
    assert [event[1] for event in shell.recorder.heard] == ["Preempted", "Preempted", "FailedScheduling"]
    assert shell.notes.ends == ["evicted"]


@in_virtual_time
async def test_as_a_part_of_the_attempt_nobody_else_has_the_room_and_the_pod_is_not_tried_before_all_are_told() -> None:
    victims = low("a"), low("b")
    shell = shell_of(*victims, beside_cycles=False)
    report = decided(shell, HIGH)
    assert report.evict is not None
    assert [pod.key for pod in shell.engine.queue.nominator.pods_on("n1")] == ["default/high"]
    for victim in victims:
        shell.delete(victim)
    assert shell.engine.next_instruction() is None
    shell.engine.eviction_ended(report.evict, ok=True)
    assert isinstance(shell.engine.next_instruction(), Bind)


@in_virtual_time
async def test_as_a_part_of_the_attempt_a_failure_is_what_the_pod_is_told_and_it_has_no_promise() -> None:
    shell = shell_of(low("a"), low("b"), beside_cycles=False)
    hopeful = a_pod("hopeful", priority=5, cpu="4", nominated="n1", gates=["later"])
    shell.add(hopeful)
    shell.api.answer = failing(ForbiddenError(403, "Forbidden", 'pods "a" is forbidden'), "DELETE", "/a")
    await carried_out_before(shell)
    text = '0/1 nodes are available: 1 Insufficient cpu. preemption: pods "a" is forbidden'
    (told,) = [event for event in shell.recorder.heard if event[1] == "FailedScheduling"]
    assert told[3] == text
    (status,) = [sent.body["status"] for sent in shell.api.sent if sent.path.endswith("high/status")]
    assert status["conditions"][0]["message"] == text
    assert "nominatedNodeName" not in status
    assert [pod.key for pod in shell.engine.queue.nominator.pods_on("n1")] == [hopeful.key], "as before"
    assert shell.notes.ends == ["not evicted"]
    tried_again = shell.engine.queue.pop()
    assert tried_again is not None
    assert tried_again.key == HIGH.key


@pytest.mark.parametrize("ok", [True, False])
@in_virtual_time
async def test_as_a_part_of_the_attempt_a_pod_that_is_gone_meanwhile_is_left_alone(ok: bool) -> None:
    shell = shell_of(low("a", "4"), beside_cycles=False)
    report = decided(shell, HIGH)
    assert report.evict is not None
    shell.delete(HIGH)
    shell.engine.eviction_ended(report.evict, ok=ok)
    assert shell.engine.queue.in_flight_count() == 0
    assert not any(shell.engine.queue.counts().values())
    assert shell.engine.queue.nominator.pods_on("n1") == []
