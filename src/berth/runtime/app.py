"""`berth run`: the scheduler as a process.

The order of the start: credentials, the API server's version, configuration, core, informers; then the election, then
decisions.  Whatever is wrong with what the operator gave us ends the process with one clear line (`StartError`); what
goes wrong later, while the API server is away or refuses, is waited out.

Source: k8s cmd/kube-scheduler/app/server.go, ``Run``.
"""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from berth.config.faults import ConfigError, Fault
from berth.config.gates import resolve_gates
from berth.config.options import RunOptions, connection_of, effective_config, validate_options
from berth.config.types import ClientConnection, KubeSchedulerConfiguration
from berth.config.versions import VersionRow, resolve_version
from berth.framework.features import Features
from berth.kube.credentials import CredentialKeeper, choose_source
from berth.kube.discovery import server_version
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import CredentialsError, ForbiddenError, KubeError, UnauthorizedError
from berth.kube.events import EventRecorder
from berth.kube.leases import ElectionConfig, LeaderElector, new_identity
from berth.kube.reflector import Reflector
from berth.kube.session import ApiSession
from berth.runtime.assembly import Surroundings, build_engine
from berth.runtime.binding import ApiBinder, BindingTasks
from berth.runtime.decisions import DecisionLoop
from berth.runtime.informers import NODES, PODS, NodeHandler, PodHandler, lister
from berth.runtime.measuring import Measured
from berth.runtime.metrics.instruments import Registry
from berth.runtime.reports import Reporter
from berth.scheduling.engine import Engine

_log = logging.getLogger(__name__)

_DRAIN_S: Final = 5.0  # how long placements that are under way may take when the process is asked to stop


class StartError(Exception):
    """Something that the operator has to mend; its text is the one line that says what."""


async def run(options: RunOptions) -> None:
    """Schedule until told to stop by SIGTERM or SIGINT.

    Raises:
        StartError: the process cannot start as it was asked to.
        LeadershipLostError: another replica leads now.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        connection = connection_of(options)
        keeper = await CredentialKeeper.open(choose_source(connection.kubeconfig))
    except (ConfigError, CredentialsError) as fault:
        raise StartError(str(fault)) from fault
    async with ApiSession(keeper, server=options.master) as session:
        row, features, config = await _settle(options, session)
        async with ApiSession(keeper, server=options.master) as election_session:
            process = Process(options, config, row, features, session, election_session)
            await process.run(stop, keeper.run)


async def _settle(options: RunOptions, session: ApiSession) -> tuple[VersionRow, Features, KubeSchedulerConfiguration]:
    """Which version's rules apply, and the configuration under them."""
    try:
        server = await server_version(session)
    except KubeError as fault:
        raise StartError(f"API server {session.server}: {fault}") from fault
    try:
        row, notice = resolve_version(options.emulated_version, f"{server.major}.{server.minor}")
        gates, notices = resolve_gates(row, options.feature_gates)
        features = Features(gates=gates, behaviours=row.behaviours)
        config = effective_config(options, row, features.gates)
        _refuse(validate_options(options, row, features.gates))
    except (ConfigError, ValueError) as fault:
        raise StartError(str(fault)) from fault
    for line in (*([notice] if notice else []), *notices):
        _log.warning("%s", line)
    _log.info("API server %s is version %s; deciding as Kubernetes %s", session.server, server.git_version, row.minor)
    return row, features, config


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise ConfigError(faults)


class Process:
    """The running scheduler: informers, election, decisions, serving.

    Args:
        options: the command line.
        config: the configuration.
        row: which version's rules apply.
        features: gates and behaviours.
        session: for everything but the election.
        election_session: for the election, so that no burst of writes stands before a renewal.
    """

    def __init__(
        self,
        options: RunOptions,
        config: KubeSchedulerConfiguration,
        row: VersionRow,
        features: Features,
        session: ApiSession,
        election_session: ApiSession,
    ) -> None:
        self._config, self._election_session = config, election_session
        connection = config.client_connection
        self._dispatcher = Dispatcher(session, qps=connection.qps, burst=connection.burst)
        self._recorder = _event_recorder(session, connection)
        self._reporter = Reporter(self._recorder, self._dispatcher)
        self._pods = Reflector(session, PODS, [PodHandler(self.engine)], on_problem=self._on_problem)
        self._nodes = Reflector(session, NODES, [NodeHandler(self.engine)], on_problem=self._on_problem)
        self._metrics = Measured(row, features, _registry(options))
        self._frozen = False
        self._start_fault: StartError | None = None
        self._faulty = asyncio.Event()
        self._elector = self._make_elector()
        try:
            self._engine = build_engine(
                config,
                row,
                features,
                Surroundings(
                    lister=lister(self._pods),
                    clock=time.time,
                    seed=time.time_ns(),
                    binder=ApiBinder(self._dispatcher, self._may_bind),
                    observer=self._metrics,
                    on_activity=self._wake,
                    max_in_unschedulable_s=options.pod_max_in_unschedulable_pods_duration.seconds,
                ),
            )
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
        self._metrics.watch(self._engine)
        for profile in self._engine.profiles.values():
            if profile.absent:
                _log.warning(
                    "profile %s: these plugins do not exist yet, pods are placed without them: %s",
                    profile.scheduler_name,
                    ", ".join(profile.absent),
                )

    def engine(self) -> Engine:
        """The core."""
        return self._engine

    async def run(self, stop: asyncio.Event, keep_credentials: Callable[[], Awaitable[None]]) -> None:
        """Run until *stop*, or until something ends that should not.

        Raises:
            StartError: we may not read what we have to.
            LeadershipLostError: another replica leads now.
        """
        background = [
            asyncio.ensure_future(each)
            for each in (keep_credentials(), self._recorder.run(), self._pods.run(), self._nodes.run())
        ]
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
        if not (self._config.delay_cache_until_active and self._elector is not None):
            await self._synced()
        if self._elector is None:
            await self._decide()
        else:
            await self._elector.run()

    async def _synced(self) -> None:
        if self._frozen:
            return
        await self._pods.wait_synced()
        await self._nodes.wait_synced()
        self._frozen = True
        # What was just read stays for long: a collection that walks over all of it would hold decisions up.
        gc.collect()
        gc.freeze()
        gc.set_threshold(100_000, 50, 100)
        _log.info("synced: %d nodes, %d pods", len(self._nodes.store), len(self._pods.store))

    async def _decide(self) -> None:
        await self._synced()
        try:
            await self._decisions.run()
        finally:
            await self._bindings.cancel()

    def _make_elector(self) -> LeaderElector | None:
        election = self._config.leader_election
        if not election.leader_elect:
            return None
        return LeaderElector(
            self._election_session,
            ElectionConfig(
                namespace=election.resource_namespace,
                name=election.resource_name,
                lease_duration_s=election.lease_duration.seconds,
                renew_deadline_s=election.renew_deadline.seconds,
                retry_period_s=election.retry_period.seconds,
            ),
            new_identity(),
            on_started_leading=self._decide,
            on_stopped_leading=lambda: _log.info("not leading any more"),
            on_new_leader=lambda identity: _log.info("leader: %s", identity),
        )

    def _may_bind(self) -> bool:
        return self._elector is None or self._elector.may_still_lead

    def _wake(self) -> None:
        decisions: DecisionLoop | None = getattr(self, "_decisions", None)
        if decisions is not None:
            decisions.wake()

    def _on_problem(self, what: str, error: KubeError) -> None:
        """Before the first list is complete a refusal is the operator's to mend; later it is waited out."""
        if isinstance(error, ForbiddenError | UnauthorizedError) and not self._pods.has_synced:
            self._start_fault = self._start_fault or StartError(f"{what}: {error}")
            self._faulty.set()
        else:
            _log.warning("%s: %s", what, error)


def _event_recorder(session: ApiSession, connection: ClientConnection) -> EventRecorder:
    return EventRecorder(session, hostname=socket.gethostname(), qps=connection.qps, burst=connection.burst)


async def _end(first: list[asyncio.Task[None]], then: list[asyncio.Future[Any]]) -> None:
    for tasks in (first, then):
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _registry(options: RunOptions) -> Registry:
    allowed = {key: frozenset(values) for key, values in options.allow_metric_labels.items()}
    return Registry(
        disabled=frozenset(options.disabled_metrics),
        allowed_labels=allowed,
        show_hidden=bool(options.show_hidden_metrics_for_version),
    )
