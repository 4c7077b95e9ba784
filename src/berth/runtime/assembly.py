"""Putting the core together from a configuration: profiles, queue, engine.

Pure wiring, without I/O; the command and the tests build the same scheduler by it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from berth.api.meta import PodKey
from berth.api.pod import Pod
from berth.api.requests import RequestRules
from berth.cluster.cache import Cluster
from berth.config.faults import ConfigError, other
from berth.config.types import KubeSchedulerConfiguration
from berth.config.versions import VersionRow
from berth.framework.features import Features
from berth.framework.handle import ClaimWriter, Handle, ObjectWriter, PodBinder
from berth.framework.profile import Profile, ProfileError, build_profile
from berth.framework.registry import Registry
from berth.plugins.registry import IN_TREE
from berth.queueing.hints import build_hint_map
from berth.queueing.observer import QueueObserver
from berth.queueing.queue import SchedulingQueue
from berth.queueing.settings import QueueProfile, QueueSettings
from berth.scheduling.engine import Engine, EngineSettings
from berth.scheduling.observer import EngineObserver


class SchedulerObserver(QueueObserver, EngineObserver, Protocol):
    """Hears of the queue, of cycles and of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the core is given from outside.

    Attributes:
        lister: a pod by its key as the API server last showed it.
        clock: wall clock, in seconds.
        seed: settles ties between equally good nodes.
        binder: performs bindings; None where nothing is bound.
        writer: writes volumes and their claims; None where nothing is written.
        claim_writer: writes claims of devices; None where nothing is written.
        stopwatch: measures searches, in seconds; None where they may take as long as they like.
        observer: hears what happens in the queue, in cycles and to objects; None if nobody does.
        max_in_unschedulable_s: how long a pod waits for an event before it is tried without one.
        victim_patience_s: how long evicted pods may take beyond their grace period, before the pod that they go for is
            tried elsewhere.
        registry: the plugins there are.
    """

    lister: Callable[[PodKey], Pod | None]
    clock: Callable[[], float]
    seed: int = 0
    binder: PodBinder | None = None
    writer: ObjectWriter | None = None
    claim_writer: ClaimWriter | None = None
    stopwatch: Callable[[], float] | None = None
    observer: SchedulerObserver | None = None
    max_in_unschedulable_s: float = 300.0
    victim_patience_s: float = 60.0
    registry: Registry = field(default_factory=lambda: IN_TREE)


def build_engine(
    config: KubeSchedulerConfiguration, row: VersionRow, features: Features, around: Surroundings
) -> Engine:
    """The scheduler that *config* describes.

    Raises:
        ConfigError: a profile cannot be built, or asks for something that Berth does not have.
    """
    cluster = Cluster(request_rules(features))
    handle = Handle(
        cluster=cluster,
        gates=features.gates,
        behaviours=features.behaviours,
        lister=around.lister,
        binder=around.binder,
        writer=around.writer,
        claim_writer=around.claim_writer,
        clock=around.clock,
        stopwatch=around.stopwatch,
    )
    profiles = build_profiles(config, row, handle, around.registry)
    queue = SchedulingQueue(
        {name: _queue_profile(profile, features) for name, profile in profiles.items()},
        clock=around.clock,
        settings=QueueSettings(
            initial_backoff_s=float(config.pod_initial_backoff_seconds),
            max_backoff_s=float(config.pod_max_backoff_seconds),
            max_in_unschedulable_s=around.max_in_unschedulable_s,
            pop_from_backoff_q=features.enabled("SchedulerPopFromBackoffQ"),
            pod_groups=features.enabled("GenericWorkload"),
        ),
        behaviours=features.behaviours,
        lister=around.lister,
        observer=around.observer,
        stopwatch=around.observer.stopwatch if around.observer else None,
    )
    settings = EngineSettings(
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
        seed=around.seed,
        victim_patience_s=around.victim_patience_s,
    )
    return Engine(profiles, cluster, queue, features, around.lister, settings, around.observer)


def request_rules(features: Features) -> RequestRules:
    """How requests of placed pods are added up in this version of Kubernetes."""
    return RequestRules(
        use_status=True,
        resize_by_totals=features.behaviours.resize_footprint_is_max_of_totals,
        node_allocatable_claims=features.enabled("DRANodeAllocatableResources"),
    )


def build_profiles(
    config: KubeSchedulerConfiguration, row: VersionRow, handle: Handle, registry: Registry
) -> Mapping[str, Profile]:
    """The profiles of *config*, by scheduler name.

    Raises:
        ConfigError: one cannot be built.
    """
    if config.extenders:
        raise ConfigError([other("extenders", "extenders are not supported")])
    known = frozenset(plugin.name for plugin in row.multi_point)  # also those whose gate is off: they may be named
    profiles: dict[str, Profile] = {}
    for index, spec in enumerate(config.profiles):
        try:
            profiles[spec.scheduler_name] = build_profile(
                spec.scheduler_name,
                spec.plugins,
                spec.args_by_plugin(),
                registry,
                handle,
                percentage_of_nodes_to_score=spec.percentage_of_nodes_to_score,
                known_elsewhere=known,
            )
        except ProfileError as fault:
            text = f"creating profile for scheduler name {spec.scheduler_name}: {fault}"
            raise ConfigError([other(f"profiles[{index}]", text)]) from fault
    return profiles


def _queue_profile(profile: Profile, features: Features) -> QueueProfile:
    pod_groups = features.enabled("GenericWorkload")
    return QueueProfile(
        hints=build_hint_map(profile.plugins.values(), features.behaviours, pod_groups=pod_groups),
        sort_key=profile.queue_sort.sort_key,
        pre_enqueue=profile.pre_enqueue,
    )
