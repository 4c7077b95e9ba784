"""What holds where a configuration is silent: per version row, per gate, per profile.

Takes the wire form and the typed arguments, and makes the form in use. Called by ``config.load`` only. Values are not
judged here; ``config.validation`` does that on the result.

Source: k8s pkg/scheduler/apis/config/v1/defaults.go and default_plugins.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import fields, replace

from berth.api.durations import Duration
from berth.config.types import (
    DEFAULT_SCHEDULER_NAME,
    ClientConnection,
    ConfigStruct,
    KubeSchedulerConfiguration,
    LeaderElection,
    Plugin,
    PluginConfig,
    PluginSet,
    Profile,
)
from berth.config.wire import ProfileV1
from berth.framework.plugin_args import (
    ARGS_BY_PLUGIN,
    CPU_AND_MEMORY,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.config.versions import VersionRow
    from berth.config.wire import ConfigurationV1
    from berth.framework.features import FeatureGates

CAPACITY_SHAPE = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
"""Score of storage utilization unless told otherwise: emptier is better."""
FILTER_TIMEOUT = Duration.of_seconds(10)
BINDING_TIMEOUT = Duration.of_seconds(600)

_S = TypeVar("_S", bound=ConfigStruct)


def set_defaults(
    given: ConfigurationV1, args: Sequence[Sequence[Any]], row: VersionRow, gates: FeatureGates
) -> KubeSchedulerConfiguration:
    """The configuration in use.

    Args:
        given: the wire form.
        args: for each profile, for each of its pluginConfig entries, the decoded arguments.
        row: whose default plugins are merged in.
        gates: which of them are there, and which defaults of arguments.
    """
    profiles = given.profiles or (ProfileV1(),)
    only = len(profiles) == 1
    contention = given.enable_contention_profiling
    return KubeSchedulerConfiguration(
        parallelism=given.parallelism,
        leader_election=_zeros_defaulted(given.leader_election, LeaderElection()),
        client_connection=_zeros_defaulted(given.client_connection, ClientConnection()),
        enable_profiling=given.enable_profiling,
        enable_contention_profiling=given.enable_profiling if contention is None else contention,
        percentage_of_nodes_to_score=given.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds=given.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=given.pod_max_backoff_seconds,
        profiles=tuple(
            _default_profile(profile, args[index] if index < len(args) else (), row, gates, only=only)
            for index, profile in enumerate(profiles)
        ),
        extenders=given.extenders,
        delay_cache_until_active=given.delay_cache_until_active,
    )


def merge_plugin_sets(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """The plugins of one point: defaults not disabled, replaced in place where named again, then what is new.

    A default that is disabled and enabled at once comes last, as a new one. Of several entries for one default the
    last replaces it and the others are kept as new ones, so that building the profile finds the repetition. The
    disabled ones are kept for the expansion of multiPoint.
    """
    disabled = PluginSet(disabled=(*custom.disabled, *defaults.disabled))
    last = {plugin.name: index for index, plugin in enumerate(custom.enabled)}
    kept = [plugin for plugin in defaults.enabled if not disabled.disables(plugin.name)]
    used = {last[plugin.name] for plugin in kept if plugin.name in last}
    merged = [custom.enabled[last[plugin.name]] if plugin.name in last else plugin for plugin in kept]
    added = [plugin for index, plugin in enumerate(custom.enabled) if index not in used]
    return PluginSet(enabled=(*merged, *added), disabled=disabled.disabled)


def default_args(args: Any, gates: FeatureGates) -> Any:
    """*args* with what is missing filled in; arguments of plugins that are not in-tree are left as they are."""
    if isinstance(args, NodeResourcesFitArgs):
        strategy = args.scoring_strategy
        return replace(args, scoring_strategy=replace(strategy, resources=_default_resources(strategy.resources)))
    if isinstance(args, NodeResourcesBalancedAllocationArgs):
        return replace(args, resources=_default_resources(args.resources))
    if isinstance(args, VolumeBindingArgs) and args.shape in (None, ()) and gates.enabled("StorageCapacityScoring"):
        return replace(args, shape=CAPACITY_SHAPE)
    if isinstance(args, DynamicResourcesArgs):
        return _default_timeouts(args, gates)
    return args


def binding_conditions(gates: FeatureGates) -> bool:
    """Whether binding conditions of devices, and so their timeout, are in use."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")


def _default_profile(
    given: ProfileV1, args: Sequence[Any], row: VersionRow, gates: FeatureGates, *, only: bool
) -> Profile:
    name = given.scheduler_name
    profile = Profile(
        scheduler_name=DEFAULT_SCHEDULER_NAME if name is None and only else name or "",
        percentage_of_nodes_to_score=given.percentage_of_nodes_to_score,
        plugins=_merged_plugins(given.plugins, row, gates),
        plugin_config=tuple(
            PluginConfig(name=entry.name, args=default_args(typed, gates))
            for entry, typed in zip(given.plugin_config, args, strict=True)
        ),
    )
    named = {config.name for config in profile.plugin_config}
    missing = sorted(name for name in profile.enabled_names() if name in ARGS_BY_PLUGIN and name not in named)
    added = (PluginConfig(name=name, args=default_args(ARGS_BY_PLUGIN[name](), gates)) for name in missing)
    return replace(profile, plugin_config=(*profile.plugin_config, *added))


def _merged_plugins(custom: Mapping[str, PluginSet], row: VersionRow, gates: FeatureGates) -> dict[str, PluginSet]:
    listed = tuple(Plugin(name=name, weight=weight) for name, weight in row.default_multi_point(gates))
    defaults = {"multiPoint": PluginSet(enabled=listed)}
    return {
        point: merge_plugin_sets(defaults.get(point, PluginSet()), custom.get(point, PluginSet()))
        for point in row.extension_points
    }


def _default_resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(replace(spec, weight=spec.weight or 1) for spec in resources) or CPU_AND_MEMORY


def _default_timeouts(args: DynamicResourcesArgs, gates: FeatureGates) -> DynamicResourcesArgs:
    if args.filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
        args = replace(args, filter_timeout=FILTER_TIMEOUT)
    if args.binding_timeout is None and binding_conditions(gates):
        args = replace(args, binding_timeout=BINDING_TIMEOUT)
    return args


def _zeros_defaulted(given: _S, defaults: _S) -> _S:
    """Empty texts, zero numbers and zero durations give way to the default; booleans are choices and stay."""
    changes = {}
    for field in fields(given):
        value = getattr(given, field.name)
        if not isinstance(value, bool) and value in ("", 0, Duration()):
            changes[field.name] = getattr(defaults, field.name)
    return replace(given, **changes)
