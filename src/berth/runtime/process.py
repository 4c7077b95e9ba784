"""`Process`: the running scheduler: informers, election, decisions, bindings, and a clean end.

Source: k8s cmd/kube-scheduler/app/server.go, ``Run``, and pkg/scheduler/scheduler.go.
"""

import asyncio
import contextlib
import gc
import logging
import socket
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from berth.config.faults import ConfigError
from berth.config.options import RunOptions
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import VersionRow
from berth.framework.features import Features
from berth.kube.discovery import discover
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ForbiddenError, KubeError, UnauthorizedError
from berth.kube.events import EventRecorder
from berth.kube.leases import ElectionConfig, LeaderElector, new_identity
from berth.kube.reflector import Reflector
from berth.kube.session import ApiSession
from berth.runtime.assembly import Surroundings, build_engine
from berth.runtime.binding import ApiBinder, BindingTasks
from berth.runtime.decisions import DecisionLoop
from berth.runtime.faults import StartError
from berth.runtime.health import Check, passing
from berth.runtime.informers import (
    NODES,
    PODS,
    NodeHandler,
    ObjectHandler,
    PodHandler,
    group_versions,
    is_served,
    lister,
    looked_up,
    resource_of,
)
from berth.runtime.logs import RepeatedWarnings
from berth.runtime.measuring import Measured
from berth.runtime.metrics.instruments import Registry
from berth.runtime.reports import Reporter
from berth.scheduling.engine import Engine

_log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0  # how long placements that are under way may take when the process is asked to stop


class Process:
    """The running scheduler.

    Args:
        options: the command line.
        config: the configuration.
        row: which version's rules apply.
        features: gates and behaviours.
        registry: where metrics are shown.
        session: for everything but the election.
        election_session: for the election, so that no burst of writes stands before a renewal.

    Raises:
        StartError: the configuration asks for what cannot be had.

    Attributes:
        synced: whether what the informers read at first has been taken in.
        started_s: when this was made, in seconds since 1970.
    """

    def __init__(
        self,
        options: RunOptions,
        config: KubeSchedulerConfiguration,
        row: VersionRow,
        features: Features,
        registry: Registry,
        session: ApiSession,
        election_session: ApiSession,
    ) -> None:
        self.synced = False
        self.started_s = time.time()
        self._config = config
        connection = config.client_connection
        self._session = session
        self._dispatcher = Dispatcher(session, qps=connection.qps, burst=connection.burst)
        self._recorder = EventRecorder(
            session, hostname=socket.gethostname(), qps=connection.qps, burst=connection.burst
        )
        self._reporter = Reporter(self._recorder, self._dispatcher)
        self._warnings = RepeatedWarnings(_log)
        self._pods = Reflector(session, PODS, [PodHandler(self.engine)], on_problem=self._on_problem)
        self._nodes = Reflector(session, NODES, [NodeHandler(self.engine)], on_problem=self._on_problem)
        self._others: list[Reflector[Any]] = []
        self._metrics = Measured(row, features, registry)
        self._start_fault: StartError | None = None
        self._faulty = asyncio.Event()
        self._elector = self._make_elector(election_session)
        try:
            self._engine = build_engine(config, row, features, self._surroundings(options))
        except ConfigError as fault:
            raise StartError(str(fault)) from fault
        self._bindings = BindingTasks(
            self._engine,
            self._reporter,
            nominate=features.enabled("NominatedNodeNameForExpectation"),
            on_bound=self._metrics.bound,
            on_failed=lambda bind, status: self._metrics.failed(bind, rejected=status.rejected),
            on_settled=self._wake,
        )
        self._decisions = DecisionLoop(self._engine, self._bindings, self._reporter, self._metrics)
        self._engine.queue.on_activity = self._decisions.wake
        self._metrics.watch(self._engine)
        self._name_absent_plugins()

    def engine(self) -> Engine:
        """The core."""
        return self._engine

    @property
    def election_check(self) -> Check | None:
        """What is wrong with the election; None where there is none."""
        elector = self._elector
        if elector is None:
            return None
        return passing(
            lambda: not elector.is_leader or elector.may_still_lead, "failed election to renew leadership on lease"
        )

    async def run(self, stop: asyncio.Event, others: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run until *stop*, or until something ends that should not.

        Args:
            stop: set when the process is asked to end.
            others: what else has to run as long as this does.

        Raises:
            StartError: we may not read what we have to.
            LeadershipLostError: another replica leads now.
        """
        self._others = await self._watch_lookups()
        running = (self._recorder.run(), self._pods.run(), self._nodes.run(), *(each.run() for each in self._others))
        background = [asyncio.create_task(each) for each in (*others, *running)]
        leading = asyncio.create_task(self._lead())
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self._faulty.wait())]
        try:
            await asyncio.wait([leading, *background, *ends], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                _log.info("stopping")
                await self._drain()
        finally:
            await _end([leading], [*ends, *background])
            await self._dispatcher.close()
        if self._start_fault is not None:
            raise self._start_fault
        for task in (leading, *background):
            if not task.cancelled() and (fault := task.exception()) is not None:
                raise fault

    async def _drain(self) -> None:
        """Let placements that are under way come to their end, and their events be told."""
        self._decisions.pause()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await self._bindings.finish()
                await self._recorder.drain()

    async def _lead(self) -> None:
        if self._elector is None:
            await self._decide()
            return
        if not self._config.delay_cache_until_active:
            await self._sync()
        await self._elector.run()

    async def _sync(self) -> None:
        if self.synced:
            return
        # Objects that rules rest on come first, so that no pod is judged before they are known.
        for informer in (*self._others, self._nodes, self._pods):
            await informer.wait_synced()
        # What was just read stays for long: a collection that walks over all of it would hold decisions up.
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        self.synced = True
        _log.info("synced: %d nodes, %d pods", len(self._nodes.store), len(self._pods.store))

    async def _decide(self) -> None:
        await self._sync()
        self._metrics.client.leading(self._elector is not None)
        try:
            await self._decisions.run()
        finally:
            await self._bindings.cancel()

    async def _watch_lookups(self) -> list[Reflector[Any]]:
        """The informers of the kinds that plugins look up, without those that this API server does not serve."""
        kinds = looked_up(self._engine)
        try:
            discovery = await discover(self._session, group_versions(kinds))
        except KubeError as fault:
            raise StartError(f"API server {self._session.server}: {fault}") from fault
        served = [kind for kind in kinds if is_served(kind, discovery)]
        for kind in kinds:
            if kind not in served:
                _log.warning("the API server does not serve %s: rules that rest on it do not apply", kind.name)
        return [
            Reflector(self._session, resource_of(kind), [ObjectHandler(self.engine, kind)], on_problem=self._on_problem)
            for kind in served
        ]

    def _stopped_leading(self) -> None:
        self._metrics.client.leading(False)
        _log.info("not leading any more")

    def _make_elector(self, session: ApiSession) -> LeaderElector | None:
        election = self._config.leader_election
        if not election.leader_elect:
            return None
        return LeaderElector(
            session,
            ElectionConfig(
                namespace=election.resource_namespace,
                name=election.resource_name,
                lease_duration_s=election.lease_duration.seconds,
                renew_deadline_s=election.renew_deadline.seconds,
                retry_period_s=election.retry_period.seconds,
            ),
            new_identity(),
            on_started_leading=self._decide,
            on_stopped_leading=self._stopped_leading,
            on_new_leader=lambda identity: _log.info("leader: %s", identity),
        )

    def _surroundings(self, options: RunOptions) -> Surroundings:
        return Surroundings(
            lister=lister(self._pods),
            clock=time.time,
            seed=time.time_ns(),
            binder=ApiBinder(self._dispatcher, self._may_bind),
            observer=self._metrics,
            max_in_unschedulable_s=options.pod_max_in_unschedulable_pods_duration.seconds,
        )

    def _may_bind(self) -> bool:
        return self._elector is None or self._elector.may_still_lead

    def _wake(self) -> None:
        self._decisions.wake()

    def _on_problem(self, what: str, error: KubeError) -> None:
        """Before the first list is complete a refusal is the operator's to mend; later it is waited out."""
        if isinstance(error, ForbiddenError | UnauthorizedError) and not self.synced:
            self._start_fault = self._start_fault or StartError(f"{what}: {error}")
            self._faulty.set()
        else:
            self._warnings.failed(what, error)

    def _name_absent_plugins(self) -> None:
        for profile in self._engine.profiles.values():
            if profile.absent:
                _log.warning(
                    "profile %s: these plugins do not exist yet, pods are placed without them: %s",
                    profile.scheduler_name,
                    ", ".join(profile.absent),
                )


async def _end(first: list[asyncio.Task[None]], then: list[asyncio.Task[Any]]) -> None:
    for tasks in (first, then):
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
