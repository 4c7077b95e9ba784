"""The binding cycle: what happens to a placement after the decision, beside other cycles.

One asyncio task per placement: wait for permission, prepare, bind, tell.  Any failure gives the room back through the
engine.  A task that is cancelled (we are no longer the leader, or the process ends) does not start the next step.

Source: k8s pkg/scheduler/schedule_one.go, ``bindingCycle``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from berth.api.durations import Duration
from berth.api.meta import PodUid
from berth.api.pod import Pod
from berth.framework.run import run_bind, run_post_bind, run_pre_bind, run_pre_bind_pre_flight
from berth.framework.status import SUCCESS, Code, Status, error
from berth.kube.binding import BindOutcome, BindResult
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ApiError, ConflictError
from berth.runtime.reports import Reporter
from berth.runtime.tasks import Crowd
from berth.scheduling.engine import Engine
from berth.scheduling.instructions import Bind
from berth.scheduling.observer import CycleObserver, Steps
from berth.scheduling.waiting import WaitingPod

_log = logging.getLogger(__name__)


class BindingObserver(CycleObserver, Protocol):
    """Hears how placements are carried through, for metrics."""

    def permit_waited(self, status: str, seconds: float) -> None:
        """A pod that was made to wait on permit got its answer; *status* is the label of its code."""

    def bound(self, bind: Bind) -> None:
        """A placement was carried through."""

    def failed(self, bind: Bind, *, rejected: bool) -> None:
        """A placement could not be carried through; *rejected* if a plugin said so, and nothing went wrong."""


class ApiBinder:
    """Performs bindings for the DefaultBinder plugin.

    Args:
        dispatcher: sends them, and settles those whose answer was lost.
        may_bind: whether we still lead for certain; while we do not, bindings are held: either the lease is renewed
            after all, or we have lost it and are about to be cancelled, and have no business with these pods any more.
    """

    def __init__(self, dispatcher: Dispatcher, may_bind: Callable[[], bool]) -> None:
        self._dispatcher = dispatcher
        self._may_bind = may_bind

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Bind and say how it went."""
        meta = pod.metadata
        outcome = await self._dispatcher.bind_pod(meta.namespace, meta.name, meta.uid, node_name, self._may_bind)
        return SUCCESS if outcome.result is BindResult.BOUND else error(_why_not(outcome))


def _why_not(outcome: BindOutcome) -> str:
    """The API server's own sentence, if it refused; what the pod itself says, if that is how we know."""
    if outcome.result is BindResult.CONFLICT and not isinstance(outcome.error, ConflictError):
        if outcome.node:
            return f'the pod is already assigned to node "{outcome.node}"'
        return "the name belongs to another pod by now"
    if isinstance(outcome.error, ApiError) and outcome.error.message:
        return outcome.error.message
    return str(outcome.error)


@dataclass(slots=True, eq=False)
class _Preparing:
    """PreBind of one placement; ``given_up`` says why it was stopped, if it was."""

    task: asyncio.Task[Status]
    given_up: str = ""


class BindingTasks:
    """All placements that are being carried through.

    Args:
        engine: hears how it went.
        reporter: tells users.
        observer: keeps the metrics.
        nominate: whether PreBind plugins are asked ahead if they have work to do, and the node is written to the pod
            while they or Permit take their time (gate NominatedNodeNameForExpectation).
        on_settled: called after each placement, however it ended, and whenever one begins to wait for others.
    """

    def __init__(
        self,
        engine: Engine,
        reporter: Reporter,
        observer: BindingObserver,
        *,
        nominate: bool,
        on_settled: Callable[[], None],
    ) -> None:
        self._engine, self._reporter, self._observer = engine, reporter, observer
        self._nominate = nominate
        self._on_settled = on_settled
        self._crowd = Crowd(on_settled)
        self._preparing: dict[PodUid, _Preparing] = {}
        self._resting = 0
        engine.on_placement_lost = partial(self.give_up, why="the pod is gone, or about to go")

    def __len__(self) -> int:
        """How many placements are under way."""
        return len(self._crowd)

    @property
    def busy(self) -> int:
        """How many placements are under way and not just waiting for others to do something."""
        return len(self._crowd) - self._resting

    @contextmanager
    def resting(self) -> Iterator[None]:
        """A block during which a placement waits for others to do something, which may take minutes."""
        self._resting += 1
        self._on_settled()
        try:
            yield
        finally:
            self._resting -= 1

    @property
    def fault(self) -> BaseException | None:
        """The first exception that no step accounts for: a bug; None as long as there is none."""
        return self._crowd.fault

    def start(self, bind: Bind) -> None:
        """Carry a placement through."""
        self._crowd.start(self._run(bind))

    def give_up(self, uid: PodUid, why: str) -> bool:
        """Give up a placement that PreBind plugins are at work for; returns whether there is one."""
        preparing = self._preparing.get(uid)
        if preparing is None or preparing.task.done():
            return False
        preparing.given_up = why
        return preparing.task.cancel()

    async def finish(self) -> None:
        """Wait until those that are under way now have come to their end; being cancelled leaves them at it."""
        await self._crowd.finish()

    async def cancel(self) -> None:
        """Stop them all, and wait until they have stopped."""
        await self._crowd.cancel()

    async def _run(self, bind: Bind) -> None:
        steps = Steps(bind.profile.scheduler_name, self._observer)
        status, while_waiting = await self._carry_through(bind, steps)
        if status.ok:
            self._reporter.bound(bind.info.pod, bind.profile.scheduler_name, bind.node_name)
            self._observer.bound(bind)
            start_s = steps.now()
            run_post_bind(bind.profile, bind.state, bind.info, bind.node_name)
            steps.ran("PostBind", SUCCESS.code.label, start_s)
            self._engine.binding_succeeded(bind)
            return
        _log.debug("binding of pod %s to node %s failed: %s", bind.info.key, bind.node_name, status.message)
        report = self._engine.binding_failed(bind, status, while_waiting=while_waiting)
        self._observer.failed(bind, rejected=status.rejected)
        if report is not None:
            self._reporter.report(report)

    async def _carry_through(self, bind: Bind, steps: Steps) -> tuple[Status, bool]:
        """How it ended, and whether that was while waiting for permission."""
        profile, state, pod, node_name = bind.profile, bind.state, bind.info, bind.node_name
        ahead = self._look_ahead(bind, steps) if self._nominate else SUCCESS
        if not (ahead.ok or ahead.skipped):
            return ahead, False
        if bind.waiting is not None:
            with self.resting():
                status = await wait_on_permit(bind.waiting, self._observer)
            if not status.ok:
                return status, True
        self._engine.binding_permitted(bind)
        if ahead.ok:
            start_s = steps.now()
            status = await self._prepare(bind)
            steps.ran("PreBind", status.code.label, start_s)
            if not status.ok:
                return status, False
        start_s = steps.now()
        status = await run_bind(profile, state, pod, node_name)
        steps.ran("Bind", status.code.label, start_s)
        return status, False

    async def _prepare(self, bind: Bind) -> Status:
        """What PreBind says; an error if the placement is given up meanwhile."""
        task = asyncio.create_task(run_pre_bind(bind.profile, bind.state, bind.info, bind.node_name))
        preparing = self._preparing[bind.info.uid] = _Preparing(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not preparing.given_up:
                raise
            return error(preparing.given_up)
        finally:
            del self._preparing[bind.info.uid]

    def _look_ahead(self, bind: Bind, steps: Steps) -> Status:
        """Whether PreBind has work to do; the pod is told of its node if that, or Permit, may take a while."""
        start_s = steps.now()
        ahead = run_pre_bind_pre_flight(bind.profile, bind.state, bind.info, bind.node_name)
        steps.ran("PreBindPreFlight", ahead.code.label, start_s)
        if ahead.ok or (ahead.skipped and bind.waiting is not None):
            self._reporter.nominate(bind.info.pod, bind.node_name)
        return ahead


async def wait_on_permit(waiting: WaitingPod, observer: BindingObserver) -> Status:
    """Wait until the placement is allowed or rejected; a plugin that holds it back beyond its time limit rejects it.

    Source:
        k8s pkg/scheduler/framework/runtime/framework.go, ``WaitOnPermit``.
    """
    loop = asyncio.get_running_loop()
    start_s = observer.stopwatch()
    settled: asyncio.Future[Status] = loop.create_future()
    waiting.when_settled(lambda outcome: None if settled.done() else settled.set_result(outcome))
    timers = [
        loop.call_later(timeout_s, _time_out, waiting, plugin, timeout_s)
        for plugin, timeout_s in waiting.pending.items()
    ]
    try:
        status = await settled
    finally:
        for timer in timers:
            timer.cancel()
    observer.permit_waited(status.code.label, observer.stopwatch() - start_s)
    if status.ok or status.rejected:
        return status
    return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin)


def _time_out(waiting: WaitingPod, plugin: str, timeout_s: float) -> None:
    if plugin in waiting.pending:  # it may have allowed the pod, which then waits for others
        waited = Duration(round(timeout_s * 1e9))
        waiting.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")
