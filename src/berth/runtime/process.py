"""`Process`: the running scheduler: informers, election, decisions, bindings, and a clean end.

Source: k8s cmd/kube-scheduler/app/server.go, ``Run``, and pkg/scheduler/scheduler.go.
"""

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from berth.cluster.objects import Kind
from berth.config.faults import ConfigError
from berth.config.options import RunOptions
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import VersionRow
from berth.framework.features import Features
from berth.kube.clock import SYSTEM_CLOCK, Backoff, Clock, steady
from berth.kube.discovery import Discovery, discover
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ForbiddenError, KubeError, UnauthorizedError
from berth.kube.events import EventRecorder, ObjectRef
from berth.kube.leases import ElectionConfig, LeaderElector, LeadershipLostError, new_identity
from berth.kube.reflector import Handler, KubeObject, Reflector, Resource
from berth.kube.session import Api
from berth.runtime.assembly import Surroundings, build_engine
from berth.runtime.audit import SelfAudit
from berth.runtime.binding import ApiBinder, BindingTasks
from berth.runtime.claims_writer import ApiClaimWriter
from berth.runtime.decisions import DecisionLoop
from berth.runtime.evictions import Evictions
from berth.runtime.faults import StartError
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
from berth.runtime.metrics.client import ClientMetrics
from berth.runtime.metrics.instruments import Registry
from berth.runtime.objects_writer import ApiObjectWriter
from berth.runtime.reports import Reporter
from berth.runtime.serving.health import Check, passing
from berth.runtime.tasks import end
from berth.scheduling.engine import Engine

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

_DISCOVERY_FIRST_S: Final = 0.4
_DISCOVERY_CAP_S: Final = 10.0
_BUSY: Final = 8  # pods that are being written at a time, from which on events may wait a moment
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
        clock: for everything that waits or measures.

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
        session: Api,
        election_session: Api,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.synced = False
        self._config, self._clock = config, clock
        self._steady = steady(clock)  # a clock that is set back must not prolong the pauses of pods
        self.started_s = self._wall_s()
        qps, burst = config.client_connection.qps, config.client_connection.burst
        self._dispatcher = Dispatcher(session, qps=qps, burst=burst, clock=clock)
        dispatcher = self._dispatcher
        self._recorder = EventRecorder(
            session,
            hostname=socket.gethostname(),
            qps=qps,
            burst=burst,
            clock=clock,
            busy=lambda: dispatcher.backlog >= _BUSY,
        )
        self._reporter = Reporter(self._recorder, self._dispatcher)
        self._claim_writer = ApiClaimWriter(self._dispatcher, self._recorder, clock, self._may_bind, self._resting)
        self._warnings = RepeatedWarnings(_log, monotonic=clock.monotonic)
        self._pods = self._informer(session, PODS, PodHandler(self.engine))
        self._nodes = self._informer(session, NODES, NodeHandler(self.engine))
        self._session = session
        self._others: list[tuple[Kind[Any], Reflector[Any]]] = []
        self._metrics = Measured(row, features, registry, stopwatch=clock.monotonic, wall=self._wall_s)
        self._start_fault: StartError | None = None
        self._faulty = asyncio.Event()
        self._informing, self._discovered = asyncio.Event(), asyncio.Event()
        self._led = False
        self._elector = self._make_elector(election_session)
        try:
            self._engine = build_engine(config, row, features, self._surroundings(options))
        except ConfigError as fault:
            raise StartError(str(fault)) from fault
        self._bindings = BindingTasks(
            self._engine,
            self._reporter,
            self._metrics,
            nominate=features.enabled("NominatedNodeNameForExpectation"),
            on_settled=self._wake,
        )
        self._evictions = Evictions(
            self._engine, self._bindings, self._reporter, self._dispatcher, self._metrics, self._may_bind, clock
        )
        self._decisions = DecisionLoop(
            self._engine, self._bindings, self._evictions, self._reporter, self._metrics, self._steady
        )
        self._engine.queue.on_activity = self._decisions.wake
        self._metrics.watch(self._engine)
        self._audit_period_s = options.self_audit_period.seconds
        self._audit = SelfAudit(
            self._engine,
            self._pods.store,
            self._nodes.store,
            lambda: ((kind, informer.store) for kind, informer in self._others),
            found=self._metrics.audit_found,
            finished=self._metrics.audited,
            clock=clock,
        )
        self._name_absent_plugins()

    def engine(self) -> Engine:
        """The core."""
        return self._engine

    @property
    def client_metrics(self) -> ClientMetrics:
        """Where requests to the API server are counted."""
        return self._metrics.client

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
        informers = (self._inform(self._pods), self._inform(self._nodes), self._inform_lookups())
        parts = (*others, self._recorder.run(), *informers, *([self._audit_self()] if self._audit_period_s else []))
        background = [asyncio.create_task(part) for part in parts]
        leading = asyncio.create_task(self._lead())
        ends = [asyncio.create_task(stop.wait()), asyncio.create_task(self._faulty.wait())]
        try:
            await asyncio.wait([leading, *background, *ends], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                _log.info("stopping")
                await self._drain()
        finally:
            await end(leading)
            await end(*ends, *background)
            await self._claim_writer.close()
            await self._dispatcher.close()
        if self._start_fault is not None:
            raise self._start_fault
        _raise_fault((leading, *background), stopping=stop.is_set())

    async def _drain(self) -> None:
        """Let placements that are under way come to their end, and their events be told."""
        self._decisions.pause()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                await self._bindings.finish()
                await self._evictions.finish()
                await self._recorder.drain()

    async def _lead(self) -> None:
        if self._elector is None:
            await self._decide()
            return
        if not self._config.delay_cache_until_active:
            await self._sync()
        await self._elector.run()

    def _informer(self, session: Api, resource: Resource[T], handler: Handler[T]) -> Reflector[T]:
        return Reflector(
            session,
            resource,
            [handler],
            clock=self._clock,
            on_problem=self._on_problem,
            on_recovery=self._warnings.recovered,
        )

    async def _inform_lookups(self) -> None:
        """Follow the kinds that plugins look up, as far as this API server serves them."""
        await self._informing.wait()
        kinds = looked_up(self._engine)
        discovery = await self._discover(group_versions(kinds))
        for kind in kinds:
            if is_served(kind, discovery):
                informer = self._informer(self._session, resource_of(kind), ObjectHandler(self.engine, kind))
                self._others.append((kind, informer))
            else:
                _log.warning("the API server does not serve %s: rules that rest on it do not apply", kind.name)
        self._discovered.set()
        async with asyncio.TaskGroup() as group:
            for _, informer in self._others:
                group.create_task(informer.run())
            await asyncio.Event().wait()  # this goes on as long as the process, informers or not

    async def _discover(self, wanted: Sequence[str]) -> Discovery:
        backoff = Backoff(initial_s=_DISCOVERY_FIRST_S, cap_s=_DISCOVERY_CAP_S, clock=self._clock)
        while True:
            try:
                return await discover(self._session, wanted)
            except KubeError as fault:
                self._on_problem("discovery", fault)
                await backoff.wait()

    async def _inform(self, reflector: Reflector[T]) -> None:
        await self._informing.wait()
        await reflector.run()

    async def _sync(self) -> None:
        if self.synced:
            return
        self._informing.set()
        await self._all_read()
        # What was just read stays for long: a collection that walks over all of it would hold decisions up.
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        self.synced = True
        _log.info("synced: %d nodes, %d pods", len(self._nodes.store), len(self._pods.store))

    async def _all_read(self) -> None:
        """Wait until every informer has read what there is.

        Objects that rules rest on come first, so that no pod is judged before they are known.
        """
        await self._discovered.wait()
        for informer in (*(informer for _, informer in self._others), self._nodes, self._pods):
            await informer.wait_synced()

    async def _audit_self(self) -> None:
        """See now and then that no event was lost between informers and core, also while another replica leads."""
        await self._all_read()
        await self._audit.run(self._audit_period_s)

    async def _decide(self) -> None:
        if self._elector is not None:
            self._started_leading(self._elector)
        await self._sync()
        try:
            await self._decisions.run()
        finally:
            await self._evictions.cancel()
            await self._bindings.cancel()

    def _started_leading(self, elector: LeaderElector) -> None:
        self._led = True
        self._metrics.client.leading(True)
        self._tell_of_lease(f"{elector.identity} became leader")

    def _stopped_leading(self) -> None:
        if self._led and self._elector is not None:
            self._metrics.client.leading(False)
            self._tell_of_lease(f"{self._elector.identity} stopped leading")
            _log.info("not leading any more")

    def _tell_of_lease(self, message: str) -> None:
        election = self._config.leader_election
        lease = ObjectRef(
            kind="Lease",
            namespace=election.resource_namespace,
            name=election.resource_name,
            api_version="coordination.k8s.io/v1",
        )
        component = self._config.profiles[0].scheduler_name
        self._recorder.core_event(lease, "Normal", "LeaderElection", message, component=component)

    def _make_elector(self, session: Api) -> LeaderElector | None:
        election = self._config.leader_election
        if not election.leader_elect:
            return None
        elector = LeaderElector(
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
            clock=self._clock,
        )
        self._metrics.watch_election(lambda: elector.slow_renewals)
        return elector

    def _surroundings(self, options: RunOptions) -> Surroundings:
        return Surroundings(
            lister=lister(self._pods),
            clock=self._wall_s,
            seed=self._clock.wall_ns(),
            binder=ApiBinder(self._dispatcher, self._may_bind),
            writer=ApiObjectWriter(self._dispatcher, self._clock, self._may_bind, self._resting),
            claim_writer=self._claim_writer,
            stopwatch=self._clock.monotonic,
            observer=self._metrics,
            max_in_unschedulable_s=options.pod_max_in_unschedulable_pods_duration.seconds,
            victim_patience_s=options.victim_patience.seconds,
        )

    def _wall_s(self) -> float:
        return self._steady.wall_ns() / 1e9

    def _may_bind(self) -> bool:
        return self._elector is None or self._elector.may_still_lead

    def _resting(self) -> contextlib.AbstractContextManager[None]:
        return self._bindings.resting()

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


def _raise_fault(ended: Sequence[asyncio.Task[None]], *, stopping: bool) -> None:
    """Raise what ended the process, unless it was asked to end."""
    for task in ended:
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not (stopping and isinstance(fault, LeadershipLostError)):
            raise fault
    if not stopping:
        raise RuntimeError("a part of the scheduler that should run as long as the process ended by itself")
