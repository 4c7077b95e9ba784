"""The decision loop: asks the engine for instructions in short bursts, and yields to I/O in between.

It stops while too many bindings are under way, so that a slow API server does not fill memory, and sleeps while no pod
is ready.  Timers of the queue run beside it.

Source: k8s pkg/scheduler/scheduler.go, ``Run``.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.runtime.binding import BindingTasks
from berth.runtime.evictions import Evictions
from berth.runtime.reports import Reporter
from berth.runtime.tasks import end
from berth.scheduling.engine import Engine
from berth.scheduling.instructions import Bind, GiveUp, Instruction, Report

BURST_S: Final = 0.004  # how long decisions may keep I/O waiting
MAX_BINDINGS: Final = (
    32  # placements at work at once; each may take a connection, and opening one costs more than a binding
)
BACKOFF_FLUSH_S: Final = 1.0
LEFTOVER_FLUSH_S: Final = 30.0
NOMINATION_FLUSH_S: Final = 1.0


class DecisionObserver(Protocol):
    """Hears of decisions, for metrics."""

    def decided(self, instruction: Instruction, duration_s: float) -> None:
        """A cycle ended."""


class DecisionLoop:
    """Turns ready pods into bindings and reports.

    Args:
        engine: decides.
        bindings: carries placements through.
        evictions: tells victims to go.
        reporter: tells users of failures.
        observer: keeps the metrics.
        clock: measures bursts and wakes the timers.
    """

    def __init__(
        self,
        engine: Engine,
        bindings: BindingTasks,
        evictions: Evictions,
        reporter: Reporter,
        observer: DecisionObserver,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._engine, self._bindings, self._reporter, self._observer = engine, bindings, reporter, observer
        self._evictions = evictions
        self._clock, self._now = clock, clock.monotonic
        self._wake = asyncio.Event()
        self._paused = False

    def wake(self) -> None:
        """There may be something to decide."""
        self._wake.set()

    def pause(self) -> None:
        """Decide nothing more."""
        self._paused = True

    async def run(self) -> None:
        """Decide until cancelled.

        Raises:
            Exception: whatever a binding task failed with that no step accounts for.
        """
        queue = self._engine.queue
        tasks = [
            asyncio.create_task(self._decide()),
            asyncio.create_task(self._every(BACKOFF_FLUSH_S, queue.flush_backoff_completed)),
            asyncio.create_task(self._every(LEFTOVER_FLUSH_S, queue.flush_unschedulable_leftover)),
            asyncio.create_task(self._every(NOMINATION_FLUSH_S, self._flush_nominations)),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end(*tasks)
        for task in ended:
            task.result()

    def _flush_nominations(self) -> None:
        nominations = self._engine.nominations
        nominations.flush(self._now())
        if nominations.given_up:
            self.wake()

    async def _decide(self) -> None:
        while True:
            self._wake.clear()
            if self._burst():
                await asyncio.sleep(0)
            else:
                await self._wake.wait()
            fault = self._bindings.fault or self._evictions.fault
            if fault is not None:
                raise fault

    def _burst(self) -> bool:
        """Decide for a few milliseconds; returns whether there may be more to decide right now."""
        start_s = self._now()
        end_s = start_s + BURST_S
        while True:
            if self._paused or self._bindings.busy >= MAX_BINDINGS:
                return False  # the end of a binding wakes us
            instruction = self._engine.next_instruction()
            if instruction is None:
                return False
            self._perform(instruction)
            now_s = self._now()
            self._observer.decided(instruction, now_s - start_s)
            if now_s >= end_s:
                return True
            start_s = now_s

    def _perform(self, instruction: Instruction) -> None:
        if isinstance(instruction, Bind):
            self._bindings.start(instruction)
        elif isinstance(instruction, Report):
            evict = instruction.evict
            if evict is not None and evict.in_flight is not None:
                self._evictions.start_before(evict, instruction)
                return
            written = self._reporter.report(instruction)
            if evict is not None:
                self._evictions.start(evict, written)
        elif isinstance(instruction, GiveUp):
            self._reporter.gave_up(instruction)

    async def _every(self, period_s: float, call: Callable[[], object]) -> None:
        """Call now, and at whole multiples of a period of the wall clock, with which backoffs are aligned."""
        while True:
            call()
            await self._clock.sleep(period_s - self._clock.wall_ns() / 1e9 % period_s)
