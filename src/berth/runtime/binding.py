"""The binding cycle: what happens to a placement after the decision, beside other cycles.

One asyncio task per placement: wait for permission, prepare, bind, tell.  Any failure gives the room back through the
engine.  A task that is cancelled (we are no longer the leader, or the process ends) does not start the next step.

Source: k8s pkg/scheduler/schedule_one.go, ``bindingCycle``.
"""

import asyncio
import logging
from collections.abc import Callable

from berth.api.durations import Duration
from berth.api.pod import Pod
from berth.framework.run import run_bind, run_post_bind, run_pre_bind, run_pre_bind_pre_flight
from berth.framework.status import SUCCESS, Code, Status, error
from berth.kube.binding import BindResult
from berth.kube.dispatcher import Dispatcher
from berth.runtime.reports import Reporter
from berth.scheduling.engine import Engine
from berth.scheduling.instructions import Bind
from berth.scheduling.waiting import WaitingPod

_log = logging.getLogger(__name__)


class ApiBinder:
    """Performs bindings for the DefaultBinder plugin.

    Args:
        dispatcher: sends them, and settles those whose answer was lost.
        may_bind: whether we are still allowed to; asked right before each binding.
    """

    def __init__(self, dispatcher: Dispatcher, may_bind: Callable[[], bool]) -> None:
        self._dispatcher = dispatcher
        self._may_bind = may_bind

    async def bind(self, pod: Pod, node_name: str) -> Status:
        """Bind and say how it went."""
        if not self._may_bind():
            return error("no longer the leader")
        meta = pod.metadata
        outcome = await self._dispatcher.bind_pod(meta.namespace, meta.name, meta.uid, node_name)
        if outcome.result is BindResult.BOUND:
            return SUCCESS
        if outcome.error is not None:
            return error(str(outcome.error))
        return error(f"binding rejected: pod {pod.key} has node {outcome.node or 'none'} and is not ours to bind")


class BindingTasks:
    """All placements that are being carried through.

    Args:
        engine: hears how it went.
        reporter: tells users.
        nominate: whether the node is written to the pod while PreBind or Permit take their time.
        on_bound: called with each instruction that was carried out.
        on_settled: called after each placement, however it ended.
    """

    def __init__(
        self,
        engine: Engine,
        reporter: Reporter,
        *,
        nominate: bool,
        on_bound: Callable[[Bind], None],
        on_failed: Callable[[Bind, Status], None],
        on_settled: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._reporter = reporter
        self._nominate = nominate
        self._on_bound, self._on_failed, self._on_settled = on_bound, on_failed, on_settled
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None

    def __len__(self) -> int:
        """How many placements are under way."""
        return len(self._tasks)

    @property
    def fault(self) -> BaseException | None:
        """The first exception that no step accounts for: a bug; None as long as there is none."""
        return self._fault

    def start(self, bind: Bind) -> None:
        """Carry a placement through."""
        task = asyncio.create_task(self._run(bind))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def finish(self) -> None:
        """Wait until those that are under way now have come to their end."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def cancel(self) -> None:
        """Stop them all, and wait until they have stopped."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()
        self._on_settled()

    async def _run(self, bind: Bind) -> None:
        status, while_waiting = await self._carry_through(bind)
        if status.ok:
            self._reporter.bound(bind.info.pod, bind.profile.scheduler_name, bind.node_name)
            self._engine.binding_succeeded(bind)
            self._on_bound(bind)
            run_post_bind(bind.profile, bind.state, bind.info, bind.node_name)
            return
        _log.debug("binding of pod %s to node %s failed: %s", bind.info.key, bind.node_name, status.message)
        report = self._engine.binding_failed(bind, status, while_waiting=while_waiting)
        self._on_failed(bind, status)
        if report is not None:
            self._reporter.report(report)

    async def _carry_through(self, bind: Bind) -> tuple[Status, bool]:
        """How it ended, and whether that was while waiting for permission."""
        profile, state, pod, node_name = bind.profile, bind.state, bind.info, bind.node_name
        ahead = run_pre_bind_pre_flight(profile, state, pod, node_name)
        if not (ahead.ok or ahead.skipped):
            return ahead, False
        if self._nominate and (ahead.ok or bind.waiting is not None):
            self._reporter.nominate(pod.pod, node_name)
        if bind.waiting is not None:
            status = await wait_on_permit(bind.waiting)
            if not status.ok:
                return status, True
        self._engine.binding_permitted(bind)
        if ahead.ok:
            status = await run_pre_bind(profile, state, pod, node_name)
            if not status.ok:
                return status, False
        return await run_bind(profile, state, pod, node_name), False


async def wait_on_permit(waiting: WaitingPod) -> Status:
    """Wait until the placement is allowed or rejected; each plugin's time limit rejects it.

    Source:
        k8s pkg/scheduler/framework/runtime/framework.go, ``WaitOnPermit``.
    """
    loop = asyncio.get_running_loop()
    settled: asyncio.Future[Status] = loop.create_future()
    waiting.when_settled(lambda outcome: None if settled.done() else settled.set_result(outcome))
    timers = [
        loop.call_later(timeout_s, waiting.reject, plugin, _timed_out(plugin, timeout_s))
        for plugin, timeout_s in waiting.pending.items()
    ]
    try:
        status = await settled
    finally:
        for timer in timers:
            timer.cancel()
    if status.ok or status.rejected:
        return status
    return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin)


def _timed_out(plugin: str, timeout_s: float) -> str:
    return f"rejected due to timeout after waiting {Duration(round(timeout_s * 1e9))} at plugin {plugin}"
