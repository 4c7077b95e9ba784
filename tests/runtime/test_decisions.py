"""The decision loop: short bursts, room for bindings, waking, timers, and how it ends."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_node, a_pod
from tests.framework.fakes import Filter
from tests.kube.virtual_time import in_virtual_time, loop_clock
from tests.runtime.builders import Shell, Step, a_shell
from tests.scheduling.builders import with_metadata

from berth.kube.clock import Clock
from berth.runtime.decisions import BURST_S, MAX_BINDINGS, DecisionLoop
from berth.scheduling.instructions import Bind, Drop, Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TICK_S = BURST_S / 4


def ticking(clock: Clock) -> Clock:
    """A clock by which each decision takes a quarter of a burst."""
    ticks = count()
    return replace(clock, monotonic=lambda: next(ticks) * TICK_S)


def a_loop(shell: Shell, clock: Clock | None = None) -> DecisionLoop:
    loop = DecisionLoop(
        shell.engine, shell.bindings, shell.evictions, shell.reporter, shell.notes, clock or loop_clock()
    )
    shell.engine.queue.on_activity = loop.wake
    shell.notes.on_settled = loop.wake
    return loop


@asynccontextmanager
async def running(loop: DecisionLoop) -> AsyncIterator[asyncio.Task[None]]:
    """The loop at work, which is cancelled in the end."""
    task = asyncio.create_task(loop.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def pods(number: int) -> list[str]:
    return [f"web-{i:03}" for i in range(number)]


@in_virtual_time
async def test_pods_that_are_ready_are_decided_and_bound() -> None:
    shell = a_shell(Step())
    shell.add(*(a_pod(name) for name in pods(5)))
    async with running(a_loop(shell)):
        await asyncio.sleep(1)
    assert shell.notes.ends == [f"default/{name} bound" for name in pods(5)]


@in_virtual_time
async def test_others_get_their_turn_after_each_burst() -> None:
    shell = a_shell(Step())
    shell.add(*(a_pod(name) for name in pods(20)))
    seen: list[int] = []

    async def neighbour() -> None:
        for _ in range(50):
            seen.append(len(shell.notes.decisions))
            await asyncio.sleep(0)

    async with running(a_loop(shell, ticking(loop_clock()))):
        await neighbour()
    assert seen[-1] == 20
    steps = {after - before for before, after in pairwise(seen)}
    assert steps <= {0, 4}
    assert 4 in steps


@in_virtual_time
async def test_an_observer_hears_of_each_decision_and_how_long_it_took() -> None:
    cluster = a_cluster([a_node()])
    shell = a_shell(Step(), Filter("F", cluster, lambda _, pod: pod.pod.metadata.name == "big"), cluster=cluster)
    gone = with_metadata(a_pod("gone"), deletion_timestamp="2030-01-01T00:00:00Z")
    shell.add(a_pod("small"), a_pod("big"), gone)
    async with running(a_loop(shell, ticking(loop_clock()))):
        await asyncio.sleep(0.001)
    assert [type(instruction) for instruction, _ in shell.notes.decisions] == [Bind, Report, Report]
    assert [duration_s for _, duration_s in shell.notes.decisions] == pytest.approx([TICK_S] * 3)
    assert shell.recorder.heard[0][3] == "0/1 nodes are available: 1 F says no."
    assert shell.recorder.heard[1][3] == "skip schedule deleting pod: default/gone"


@in_virtual_time
async def test_a_decision_to_do_nothing_is_followed_by_the_next() -> None:
    shell = a_shell(Step())
    shell.engine.cluster.assume(shell.engine.cluster.info(a_pod("placed")).on("n1"), "n1")
    shell.add(a_pod("placed"), a_pod("web"))
    async with running(a_loop(shell)):
        await asyncio.sleep(1)
    assert [type(instruction) for instruction, _ in shell.notes.decisions] == [Drop, Bind]
    assert shell.notes.ends == ["default/web bound"]


@in_virtual_time
async def test_while_too_many_placements_are_under_way_nothing_is_decided() -> None:
    room = asyncio.Semaphore(0)
    shell = a_shell(Step(room=room))
    shell.add(*(a_pod(name) for name in pods(MAX_BINDINGS + 3)))
    async with running(a_loop(shell)):
        await asyncio.sleep(1)
        assert (len(shell.notes.decisions), len(shell.bindings)) == (MAX_BINDINGS, MAX_BINDINGS)
        room.release()
        await asyncio.sleep(1)
        assert (len(shell.notes.decisions), len(shell.bindings)) == (MAX_BINDINGS + 1, MAX_BINDINGS)
        for _ in range(MAX_BINDINGS + 2):
            room.release()
        await asyncio.sleep(1)
        assert (len(shell.notes.decisions), len(shell.bindings)) == (MAX_BINDINGS + 3, 0)


@in_virtual_time
async def test_a_pod_that_arrives_later_wakes_the_loop() -> None:
    shell = a_shell(Step())
    async with running(a_loop(shell)):
        await asyncio.sleep(0.5)
        shell.add(a_pod())
        await asyncio.sleep(0.001)
        assert shell.notes.ends == ["default/web bound"]


@in_virtual_time
async def test_a_paused_loop_decides_nothing_more_and_lets_placements_end() -> None:
    room = asyncio.Semaphore(0)
    shell = a_shell(Step(room=room))
    loop = a_loop(shell)
    async with running(loop):
        shell.add(a_pod("first"))
        await asyncio.sleep(1)
        loop.pause()
        shell.add(a_pod("second"))
        room.release()
        await asyncio.sleep(100)
    assert shell.notes.ends == ["default/first bound"]
    assert shell.engine.queue.counts()["active"] == 1


@in_virtual_time
async def test_a_bug_in_a_placement_ends_the_loop_as_itself() -> None:
    bug = RuntimeError("a bug")
    shell = a_shell(Step())
    shell.break_with(bug)
    shell.add(a_pod())
    with pytest.raises(RuntimeError) as raised:
        await a_loop(shell).run()
    assert raised.value is bug


@in_virtual_time
async def test_a_bug_in_a_timer_ends_the_loop_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = a_shell(Step())

    def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(shell.engine.queue, "flush_unschedulable_leftover", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        await a_loop(shell).run()
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1  # this one


@in_virtual_time
async def test_a_cancelled_loop_leaves_nothing_behind() -> None:
    shell = a_shell(Step())
    async with running(a_loop(shell)):
        await asyncio.sleep(1)
    assert len(asyncio.all_tasks()) == 1  # this one


@in_virtual_time
async def test_timers_fire_at_once_and_then_on_whole_multiples_of_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = loop_clock()
    start_ns = 1_700_000_000_250_000_000  # a quarter of a second after 20 s past a half minute
    now_s = asyncio.get_running_loop().time
    shell = a_shell(Step())
    completed: list[float] = []
    leftover: list[float] = []
    monkeypatch.setattr(shell.engine.queue, "flush_backoff_completed", lambda: completed.append(now_s()))
    monkeypatch.setattr(shell.engine.queue, "flush_unschedulable_leftover", lambda: leftover.append(now_s()))
    loop = a_loop(shell, replace(clock, wall_ns=lambda: start_ns + int(now_s() * 1e9)))
    async with running(loop):
        await asyncio.sleep(70.5)
    assert completed[:4] == pytest.approx([0, 0.75, 1.75, 2.75], abs=1e-6)
    assert leftover == pytest.approx([0, 9.75, 39.75, 69.75], abs=1e-6)


@in_virtual_time
async def test_a_pod_whose_pause_is_over_is_tried_again() -> None:
    shell = a_shell(Step())
    shell.add(a_pod())
    queued = shell.engine.queue.pop()
    assert queued is not None
    shell.engine.queue.add_unschedulable_if_not_present(queued)  # without a rejector: an error
    async with running(a_loop(shell)):
        await asyncio.sleep(0.5)
        assert shell.notes.ends == []
        await asyncio.sleep(3)
        assert shell.notes.ends == ["default/web bound"]
