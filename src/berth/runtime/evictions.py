"""Carrying evictions out, beside the scheduling cycles: pods are told to go, so that a more important one may fit.

One asyncio task per preemption.  The nomination of the pod that room is made for is written first, so that other
schedulers know whose the room is before it is free.  A victim that is not bound yet is given up in memory; others get a
condition that says why they go, and are deleted.  If that fails for a victim, the last one is left alone and the pod is
tried again, after a pause that grows from failure to failure.

With the gate SchedulerAsyncPreemption off the victims come first, all together, and what is told of the attempt tells
how that went; decisions about other pods go on meanwhile.

Source: k8s pkg/scheduler/framework/preemption/executor.go.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from berth.api.meta import PodUid
from berth.api.pod import Pod
from berth.cluster.pods import PodInfo
from berth.framework.interface import Eviction
from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.kube.dispatcher import Dispatcher, PatchOutcome, PatchResult
from berth.kube.errors import ApiError, KubeError
from berth.runtime.binding import BindingTasks
from berth.runtime.reports import Reporter
from berth.runtime.tasks import Crowd, end
from berth.scheduling.engine import Engine
from berth.scheduling.instructions import Evict, Report

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 1.0
_REMEMBERED: Final = 1024  # pods whose evictions failed lately

Written = asyncio.Future[PatchOutcome]


class EvictionObserver(Protocol):
    """Hears how evictions are carried out, for metrics."""

    def preemption_executed(self, ok: bool, seconds: float) -> None:
        """The victims of one preemption were told to go, or could not be."""


class Evictions:
    """All evictions that are being carried out.

    Args:
        engine: hears how it went, and knows whose placement still waits for permission.
        bindings: placements that may be given up.
        reporter: tells users, and writes conditions.
        dispatcher: deletes pods.
        observer: keeps the metrics.
        may_evict: whether we still lead for certain; asked right before each pod.
        clock: measures, and waits between failures.
    """

    def __init__(
        self,
        engine: Engine,
        bindings: BindingTasks,
        reporter: Reporter,
        dispatcher: Dispatcher,
        observer: EvictionObserver,
        may_evict: Callable[[], bool] = lambda: True,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._engine, self._bindings, self._reporter = engine, bindings, reporter
        self._dispatcher, self._observer, self._clock = dispatcher, observer, clock
        self._may_evict = may_evict
        self._crowd = Crowd()
        self._failures: dict[PodUid, int] = {}

    @property
    def fault(self) -> BaseException | None:
        """The first exception that no step accounts for: a bug; None as long as there is none."""
        return self._crowd.fault

    def start(self, evict: Evict, nominated: Written | None) -> None:
        """Tell the victims to go, once the nomination is *nominated* in the API server, or has failed to be."""
        self._crowd.start(self._run(evict, nominated))

    def start_before(self, evict: Evict, report: Report) -> None:
        """Tell the victims to go, all at once; then tell of the attempt, or of the first failure."""
        self._crowd.start(self._run_before(evict, report))

    async def finish(self) -> None:
        """Wait until those that are under way now have come to their end."""
        await self._crowd.finish()

    async def cancel(self) -> None:
        """Stop them all, and wait until they have stopped."""
        await self._crowd.cancel()

    async def _run(self, evict: Evict, nominated: Written | None) -> None:
        start_s = self._clock.monotonic()
        if nominated is not None:
            await asyncio.wait([nominated])
        ok = await self._cleared(evict.displaced)
        ok &= await self._carry_out(evict)
        self._observer.preemption_executed(ok, self._clock.monotonic() - start_s)
        await self._pause(evict.eviction.preemptor.uid, ok=ok)
        self._engine.eviction_ended(evict, ok=ok)

    async def _run_before(self, evict: Evict, report: Report) -> None:
        start_s = self._clock.monotonic()
        why = await self._carry_out_together(evict)
        self._reporter.report(report if why is None else report.failed(why))
        if why is None:
            await self._cleared(evict.displaced)  # a failure is logged, and is of no consequence here
        self._observer.preemption_executed(why is None, self._clock.monotonic() - start_s)
        await self._pause(evict.eviction.preemptor.uid, ok=why is None)
        self._engine.eviction_ended(evict, ok=why is None)

    async def _carry_out_together(self, evict: Evict) -> str | None:
        """Why a victim could not be told to go; None if all were.  The first failure ends it for those after it."""
        tasks = [asyncio.create_task(self._tell(evict, victim)) for victim in evict.live]
        try:
            for told in asyncio.as_completed(tasks):
                if (why := await told) is not None:
                    return why
            return None
        finally:
            await end(*tasks)

    async def _cleared(self, displaced: Sequence[Pod]) -> bool:
        outcomes = await asyncio.gather(*(self._reporter.clear_nomination(pod) for pod in displaced))
        return all(outcome.result is not PatchResult.FAILED for outcome in outcomes)

    async def _carry_out(self, evict: Evict) -> bool:
        """Whether all victims have been told to go; the last one only once all others have."""
        *others, last = evict.live
        if others:
            told = await asyncio.gather(*(self._tell(evict, victim) for victim in others))
            if any(why is not None for why in told):
                return False
        evict.eviction.progress.reached_last(last.pod)
        return await self._tell(evict, last) is None

    async def _tell(self, evict: Evict, victim: PodInfo) -> str | None:
        """Why the victim could not be told to go; None if it has been, or is gone."""
        eviction = evict.eviction
        if self._given_up(victim, eviction.plugin):
            self._reporter.preempted(victim.pod, eviction, in_memory=True)
            return None
        if not self._engine.still_wanted(evict):
            return None
        return await self._delete(victim, eviction) if self._may_evict() else "leadership is in doubt"

    async def _delete(self, victim: PodInfo, eviction: Eviction) -> str | None:
        marked = await self._reporter.mark_victim(victim.pod, eviction)
        if marked.result is PatchResult.GONE:
            return None
        if marked.result is PatchResult.FAILED:
            return _words(marked.error)  # the reporter has told of the failure
        meta = victim.pod.metadata
        try:
            if await self._dispatcher.delete_pod(meta.namespace, meta.name, meta.uid):
                self._reporter.preempted(victim.pod, eviction, in_memory=False)
        except KubeError as fault:
            _log.warning("evicting pod %s for pod %s: %s", victim.key, eviction.preemptor.key, fault)
            return _words(fault)
        return None

    def _given_up(self, victim: PodInfo, plugin: str) -> bool:
        """Whether the placement of a pod that is not bound yet is given up."""
        waiting = self._engine.waiting.get(victim.uid)
        if waiting is not None and waiting.preempt(plugin, "preempted"):
            return True
        return self._bindings.give_up(victim.uid, f"preempted by {plugin}")

    async def _pause(self, preemptor: PodUid, *, ok: bool) -> None:
        """After the first failure a moment, then twice as long each time."""
        if ok:
            self._failures.pop(preemptor, None)
            return
        failures = self._failures.pop(preemptor, 0)
        self._failures[preemptor] = failures + 1
        if len(self._failures) > _REMEMBERED:
            del self._failures[next(iter(self._failures))]
        await self._clock.sleep(min(_FIRST_PAUSE_S * 2 ** min(failures, 10), _LONGEST_PAUSE_S))


def _words(fault: KubeError | None) -> str:
    """What the API server said, as the reference repeats it."""
    return fault.message if isinstance(fault, ApiError) and fault.message else str(fault)
