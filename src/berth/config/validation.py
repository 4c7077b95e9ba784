"""Whether a decoded and defaulted configuration makes sense: every fault, with path, rule and value.

Ranges of numbers come from ``config.bounds``, plugin arguments from ``config.validation_args``; the rest is here. What
needs the plugins themselves (unknown names, points a plugin does not implement) is found when profiles are built.

Source: k8s pkg/scheduler/apis/config/validation/validation.go.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from berth.api.durations import Duration
from berth.api.selectors import label_key_fault
from berth.config.bounds import out_of_bounds
from berth.config.faults import ConfigError, Fault, duplicate, invalid, required
from berth.config.validation_args import validate_args

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.config.types import Extender, KubeSchedulerConfiguration, LeaderElection, Profile
    from berth.framework.features import FeatureGates

REMOVED_PLUGINS = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
_NOT_CHECKED_FOR_REMOVED = frozenset({"multiPoint", "placementGenerate", "placementScore", "podGroupPostFilter"})
_JITTER = Fraction(12, 10)  # waits before acquiring the lease grow by up to this factor


def validated(config: KubeSchedulerConfiguration, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """*config* itself, if there is nothing wrong with it.

    Raises:
        ConfigError: with every fault.
    """
    if faults := validate(config, gates):
        raise ConfigError(faults)
    return config


def validate(config: KubeSchedulerConfiguration, gates: FeatureGates) -> list[Fault]:
    """All that is wrong with *config*, in the order of its fields."""
    faults = out_of_bounds(config, "")
    faults += validate_leader_election(config.leader_election)
    faults += out_of_bounds(config.client_connection, "clientConnection")
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        faults.append(invalid("podMaxBackoffSeconds", config.pod_max_backoff_seconds, detail))
    faults += _validate_profiles(config.profiles, gates)
    faults += _validate_extenders(config.extenders)
    return faults


def validate_leader_election(election: LeaderElection) -> list[Fault]:
    """What the configuration's rules, and the elector itself, refuse; nothing while leader election is off."""
    if not election.leader_elect:
        return []
    path = "leaderElection"
    lease, renew, retry = election.lease_duration, election.renew_deadline, election.retry_period
    faults = [
        invalid(f"{path}.{key}", value, "must be greater than zero")
        for key, value in (("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry))
        if value <= Duration()
    ]
    if lease <= renew:
        faults.append(invalid(f"{path}.leaseDuration", renew, "LeaseDuration must be greater than RenewDeadline"))
    if renew.ns <= retry.ns * _JITTER:
        faults.append(invalid(f"{path}.renewDeadline", renew, f"must be greater than 1.2 times RetryPeriod ({retry})"))
    if not election.resource_lock:
        faults.append(required(f"{path}.resourceLock", "resourceLock is required"))
    elif election.resource_lock != "leases":
        faults.append(invalid(f"{path}.resourceLock", election.resource_lock, 'resourceLock must be "leases"'))
    if not election.resource_name:
        faults.append(required(f"{path}.resourceName", "resourceName is required"))
    if not election.resource_namespace:
        faults.append(required(f"{path}.resourceNamespace", "resourceNamespace is required"))
    return faults


def _validate_profiles(profiles: Sequence[Profile], gates: FeatureGates) -> list[Fault]:
    if not profiles:
        return [required("profiles")]
    faults: list[Fault] = []
    names: set[str] = set()
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        if not profile.scheduler_name:
            faults.append(required(f"{path}.schedulerName"))
        elif profile.scheduler_name in names:
            faults.append(duplicate(f"{path}.schedulerName", profile.scheduler_name))
        names.add(profile.scheduler_name)
        faults += out_of_bounds(profile, path)
        faults += _removed_plugins(profile, path)
        faults += _validate_plugin_config(profile, path, gates)
    return faults + _common_queue_sort(profiles)


def _removed_plugins(profile: Profile, path: str) -> list[Fault]:
    detail = "this plugin was removed; NodeVolumeLimits does its work"
    faults = [
        invalid(f"{path}.plugins.{point}.enabled[{index}]", name, detail)
        for point, plugins in profile.plugins.items()
        if point not in _NOT_CHECKED_FOR_REMOVED
        for index, name in enumerate(plugins.enabled_names())
        if name in REMOVED_PLUGINS
    ]
    faults += [
        invalid(f"{path}.pluginConfig[{index}]", config.name, detail)
        for index, config in enumerate(profile.plugin_config)
        if config.name in REMOVED_PLUGINS
    ]
    return faults


def _validate_plugin_config(profile: Profile, path: str, gates: FeatureGates) -> list[Fault]:
    faults: list[Fault] = []
    names: set[str] = set()
    enabled = profile.enabled_names()
    for index, config in enumerate(profile.plugin_config):
        here = f"{path}.pluginConfig[{index}]"
        if config.name in names:
            faults.append(duplicate(here, config.name))
        names.add(config.name)
        # The reference looks at these arguments only while it builds the plugin.
        if config.name != "NodeResourcesFit" or config.name in enabled:
            faults += validate_args(config.name, config.args, f"{here}.args", gates)
    return faults


def _common_queue_sort(profiles: Sequence[Profile]) -> list[Fault]:
    """All profiles share one queue, so they must agree on how it is sorted."""
    first = profiles[0].plugins["queueSort"]
    faults = []
    if len(first.enabled) > 1:
        names = list(first.enabled_names())
        faults.append(
            invalid("profiles[0].plugins.queueSort.Enabled", names, "only one queue sort plugin can be enabled")
        )
    sorter = first.enabled[0].name if first.enabled else None
    first_args = profiles[0].args_by_plugin().get(sorter) if sorter else None
    for index, profile in enumerate(profiles[1:], start=1):
        path = f"profiles[{index}]"
        if profile.plugins["queueSort"] != first:
            names = list(profile.plugins["queueSort"].enabled_names())
            faults.append(invalid(f"{path}.plugins.queueSort", names, "has to match for all profiles"))
        args = profile.args_by_plugin().get(sorter) if sorter else None
        if args != first_args:
            faults.append(invalid(f"{path}.pluginConfig.args", args, "has to match for all profiles"))
    return faults


def _validate_extenders(extenders: Sequence[Extender]) -> list[Fault]:
    faults: list[Fault] = []
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            faults.append(invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it"))
        for position, resource in enumerate(extender.managed_resources):
            here = f"{path}.managedResources[{position}].name"
            if not _is_extended_resource(resource.name):
                faults.append(invalid(here, resource.name, "is an invalid extended resource name"))
            if resource.name in managed:
                faults.append(invalid(here, resource.name, "duplicate extender managed resource name"))
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        detail = "only one extender can implement bind"
        faults.append(invalid("extenders", f"found {binders} extenders implementing bind", detail))
    return faults


def _is_extended_resource(name: str) -> bool:
    """A name with a domain of its own that quota could name too.  Source: k8s pkg/apis/core/v1/helper."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not label_key_fault(f"requests.{name}")
