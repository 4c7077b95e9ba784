"""`berth run`: from a command line to a running scheduler.

The order of the start: credentials, the API server's version, configuration, the serving port; then the process
itself.  Whatever is wrong with what the operator gave us ends it with one clear line (`StartError`); what goes wrong
later, while the API server is away or refuses, is waited out.

Source: k8s cmd/kube-scheduler/app/server.go, ``Setup`` and ``Run``.
"""

import asyncio
import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from berth.config.encode import encode_config, to_yaml
from berth.config.faults import ConfigError, Fault
from berth.config.gates import resolve_gates
from berth.config.metric_labels import read_metric_labels
from berth.config.options import RunOptions, connection_of, effective_config, validate_options
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import NEWEST, VersionRow, resolve_version
from berth.framework.features import Features
from berth.kube.credentials import CredentialKeeper, CredentialSource, choose_source
from berth.kube.discovery import ServerVersion, server_version
from berth.kube.errors import CredentialsError, KubeError
from berth.kube.session import ApiSession
from berth.runtime.assembly import Surroundings, build_engine
from berth.runtime.faults import ServingError, StartError
from berth.runtime.logs import LogControl
from berth.runtime.metrics.access import AccessMetrics
from berth.runtime.metrics.exposition import Exposer
from berth.runtime.metrics.instruments import Registry
from berth.runtime.metrics.process import Process as ProcessCollector
from berth.runtime.process import Process
from berth.runtime.serving.endpoints import Endpoints
from berth.runtime.serving.health import HealthMetrics, scheduler_endpoints
from berth.runtime.serving.pages import Shown, Status, scheduler_pages

_log = logging.getLogger(__name__)


async def run(options: RunOptions, log: LogControl) -> int:
    """Schedule until told to stop by SIGTERM or SIGINT; told twice, the process ends at once.

    Args:
        options: the command line.
        log: turns the verbosity.

    Returns:
        The exit code: 0, but 1 if it was told to stop while leader election is off; that is how the reference ends.

    Raises:
        StartError: the process cannot start as it was asked to.
        LeadershipLostError: another replica leads now.
    """
    stop = _stop_on_signals()
    try:
        source = choose_source(connection_of(options).kubeconfig)
        keeper = await CredentialKeeper.open(source)
    except (ConfigError, CredentialsError) as fault:
        raise StartError(str(fault)) from fault
    async with ApiSession(keeper, server=options.master) as session:
        rules = await _settle(options, session)
        if options.write_config_to:
            _write_config(options.write_config_to, rules)
            return 0
        async with ApiSession(keeper, server=options.master) as election_session:
            registry = _registry(options)
            process = Process(options, rules.config, rules.row, rules.features, registry, session, election_session)
            for each in (session, election_session):
                each.observe(process.client_metrics)
            endpoints = await _serve(options, rules, registry, process, stop, (source, keeper), log)
            background = [keeper.run(), *([endpoints.run()] if endpoints is not None else [])]
            try:
                await process.run(stop, background)
            finally:
                if endpoints is not None:
                    await endpoints.close()
        return 0 if rules.config.leader_election.leader_elect else 1


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()

    def asked() -> None:
        if stop.is_set():
            _log.warning("asked to stop again: ending at once")
            os._exit(1)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked)
    return stop


@dataclass(frozen=True, slots=True)
class _Rules:
    row: VersionRow
    features: Features
    config: KubeSchedulerConfiguration


def _write_config(path: str, rules: _Rules) -> None:
    """Write the configuration, if a scheduler can be built by it."""
    try:
        build_engine(rules.config, rules.row, rules.features, Surroundings(lister=lambda _: None, clock=time.time))
        Path(path).write_text(to_yaml(rules.config), encoding="utf-8")
    except ConfigError as fault:
        raise StartError(str(fault)) from fault
    except OSError as fault:
        raise StartError(f"--write-config-to {path}: {fault.strerror}") from fault


async def _settle(options: RunOptions, session: ApiSession) -> _Rules:
    """Which version's rules apply, and the configuration under them."""
    server = await _version_of(session, needed=not options.write_config_to)
    try:
        shown = None if server is None else f"{server.major}.{server.minor}"
        row, notice = resolve_version(options.emulated_version, shown)
        gates, notices = resolve_gates(row, options.feature_gates)
        features = Features(gates=gates, behaviours=row.behaviours)
        config = effective_config(options, row, features.gates)
        _refuse(validate_options(options, row, features.gates))
    except (ConfigError, ValueError) as fault:
        raise StartError(str(fault)) from fault
    for line in (*([notice] if notice else []), *notices):
        _log.warning("%s", line)
    seen = server.git_version if server is not None else "unknown"
    _log.info("API server %s is version %s; deciding as Kubernetes %s", session.server, seen, row.minor)
    return _Rules(row, features, config)


async def _version_of(session: ApiSession, *, needed: bool) -> ServerVersion | None:
    try:
        return await server_version(session)
    except KubeError as fault:
        if needed:
            raise StartError(f"API server {session.server}: {fault}") from fault
        return None


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise ConfigError(faults)


def _registry(options: RunOptions) -> Registry:
    allowed, manifest = options.allow_metric_labels, options.allow_metric_labels_manifest
    try:
        allowed = read_metric_labels(manifest) if manifest else allowed
    except ConfigError as fault:
        raise StartError(str(fault)) from fault
    return Registry(
        disabled=frozenset(options.disabled_metrics),
        allowed_labels=allowed,
        show_hidden=bool(options.show_hidden_metrics_for_version),
    )


async def _serve(
    options: RunOptions,
    rules: _Rules,
    registry: Registry,
    process: Process,
    stop: asyncio.Event,
    credentials: tuple[CredentialSource, CredentialKeeper],
    log: LogControl,
) -> Endpoints | None:
    """Health, metrics and configuration over HTTPS; None with ``--secure-port=0``."""
    try:
        endpoints = await Endpoints.open(options, dict((credentials,)), metrics=AccessMetrics(registry))
    except ServingError as fault:
        raise StartError(str(fault)) from fault
    if endpoints is None:
        return None
    slis = Registry()
    health = scheduler_endpoints(
        synced=lambda: process.synced,
        stopping=stop.is_set,
        election=process.election_check,
        metrics=HealthMetrics(slis),
    )
    gates, config = rules.features.gates, rules.config
    collector = ProcessCollector()
    shown = Shown(
        health=health,
        metrics=Exposer(registry, collector),
        slis=Exposer(slis),
        config=lambda: encode_config(config),
        status=Status(
            binary_version=NEWEST.minor,
            emulation_version=rules.row.minor,
            started_s=collector.start_time_s() or process.started_s,
        ),
        flags=options.shown,
        flagz=gates.enabled("ComponentFlagz"),
        statusz=gates.enabled("ComponentStatusz"),
        log=log if config.enable_profiling else None,
    )
    await endpoints.start(scheduler_pages(shown))
    return endpoints
