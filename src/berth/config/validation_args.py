"""Whether the arguments of in-tree plugins make sense: every fault, with path, rule and value.

Called by ``config.validation`` for each pluginConfig entry. A table maps each struct to its check; ranges of numbers
come from ``config.bounds``.

Source: k8s pkg/scheduler/apis/config/validation/validation_pluginargs.go.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from berth.api.durations import Duration
from berth.api.node_affinity import compile_node_selector, compile_term, is_empty_term
from berth.api.selectors import label_key_fault
from berth.config.bounds import out_of_bounds
from berth.config.defaults import binding_conditions
from berth.config.faults import Fault, duplicate, forbidden, invalid, not_supported, other, required
from berth.framework.plugin_args import (
    ARGS_BY_PLUGIN,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from berth.api.pod import TopologySpreadConstraint
    from berth.framework.features import FeatureGates

STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
DEFAULTING_TYPES = ("System", "List")
ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
MAX_RESOURCE_WEIGHT = 100


def validate_args(plugin: str, args: Any, path: str, gates: FeatureGates) -> list[Fault]:
    """All that is wrong with *args* of *plugin*; *path* is where they stand. Unknown plugins' arguments pass."""
    wanted = ARGS_BY_PLUGIN.get(plugin)
    if wanted is not None and not isinstance(args, wanted):
        return [invalid(path, type(args).__name__, f"has to match plugin name: want {wanted.__name__}")]
    if (check := _CHECKS.get(type(args))) is not None:
        return check(args, path)
    if (gated := _GATED_CHECKS.get(type(args))) is not None:
        return gated(args, path, gates)
    return []


def _default_preemption(args: DefaultPreemptionArgs, path: str) -> list[Fault]:
    faults = out_of_bounds(args, path)
    if args.min_candidate_nodes_percentage == 0 and args.min_candidate_nodes_absolute == 0:
        percentage, absolute = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        same_time = "cannot be zero at the same time as"
        faults.append(invalid(f"{path}.{percentage}", 0, f"{same_time} {absolute}"))
        faults.append(invalid(f"{path}.{absolute}", 0, f"{same_time} {percentage}"))
    return faults


def _dynamic_resources(args: DynamicResourcesArgs, path: str, gates: FeatureGates) -> list[Fault]:
    faults = []
    if (timeout := args.filter_timeout) is not None:
        here = f"{path}.filterTimeout"
        if not gates.enabled("DRASchedulerFilterTimeout"):
            faults.append(forbidden(here, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif timeout < Duration():
            faults.append(invalid(here, timeout, "must be zero or positive"))
    if (timeout := args.binding_timeout) is not None:
        here = f"{path}.bindingTimeout"
        if not binding_conditions(gates):
            disabled = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            faults.append(forbidden(here, disabled))
        elif timeout < Duration.of_seconds(1):
            faults.append(invalid(here, timeout, "must be at least 1 second"))
    return faults


def _node_affinity(args: NodeAffinityArgs, path: str) -> list[Fault]:
    affinity = args.added_affinity
    if affinity is None:
        return []
    faults = []
    if (selector := affinity.required_during_scheduling_ignored_during_execution) is not None:
        here = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        faults += [other(f"{here}.{fault.path}", fault.rule) for fault in compile_node_selector(selector).faults]
    here = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        if preferred.weight and not is_empty_term(preferred.preference):
            fault = compile_term(preferred.preference, f"[{index}]").fault
            faults += [other(f"{here}{fault.path}", fault.rule)] if fault is not None else []
    return faults


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, path: str) -> list[Fault]:
    faults = []
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        here = f"{path}.resources[{index}]"
        if resource.weight != 1:
            faults.append(invalid(f"{here}.weight", resource.weight, "must be 1"))
        if resource.name in seen:
            faults.append(duplicate(f"{here}.name", resource.name))
        seen.add(resource.name)
    return faults


def _fit(args: NodeResourcesFitArgs, path: str) -> list[Fault]:
    faults = []
    for index, name in enumerate(args.ignored_resources):
        if fault := label_key_fault(name):
            faults.append(invalid(f"{path}.ignoredResources[{index}]", name, fault))
    for index, name in enumerate(args.ignored_resource_groups):
        here = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in name:
            faults.append(invalid(here, name, "resource group name can't contain '/'"))
        elif fault := label_key_fault(name):
            faults.append(invalid(here, name, fault))
    return faults + _scoring_strategy(args.scoring_strategy, f"{path}.scoringStrategy")


def _scoring_strategy(strategy: ScoringStrategy, path: str) -> list[Fault]:
    faults = []
    if strategy.type not in STRATEGIES:
        faults.append(not_supported(f"{path}.type", strategy.type, STRATEGIES))
    for index, resource in enumerate(strategy.resources):
        if not 1 <= resource.weight <= MAX_RESOURCE_WEIGHT:
            detail = f"resource weight of {resource.name} not in valid range (0, {MAX_RESOURCE_WEIGHT}]"
            faults.append(invalid(f"{path}.resources[{index}].weight", resource.weight, detail))
    ratio, here = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            faults.append(required(here, "must be specified when type is RequestedToCapacityRatio"))
        else:
            faults += _shape(ratio.shape, f"{here}.shape")
    elif ratio is not None:
        faults.append(forbidden(here, "must be nil when type is not RequestedToCapacityRatio"))
    return faults


def _shape(shape: Sequence[UtilizationShapePoint], path: str) -> list[Fault]:
    if not shape:
        return [required(path, "at least one point must be specified")]
    faults = []
    for index, point in enumerate(shape):
        faults += out_of_bounds(point, f"{path}[{index}]")
    for index, (before, point) in enumerate(pairwise(shape), start=1):
        if point.utilization <= before.utilization:
            detail = "values must be sorted in increasing order"
            faults.append(invalid(f"{path}[{index}].utilization", point.utilization, detail))
            break  # the points behind are compared with a wrong one
    return faults


def _topology_spread(args: PodTopologySpreadArgs, path: str) -> list[Fault]:
    faults = []
    if args.defaulting_type not in DEFAULTING_TYPES:
        faults.append(not_supported(f"{path}.defaultingType", args.defaulting_type, DEFAULTING_TYPES))
    elif args.defaulting_type == "System" and args.default_constraints:
        detail = "when .defaultConstraints are not empty"
        faults.append(invalid(f"{path}.defaultingType", args.defaulting_type, detail))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        here = f"{path}.defaultConstraints[{index}]"
        faults += _spread_constraint(constraint, here)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            faults.append(duplicate(here, f"{{{pair[0]}, {pair[1]}}}"))
        seen.add(pair)
    return faults


def _spread_constraint(constraint: TopologySpreadConstraint, path: str) -> list[Fault]:
    faults = out_of_bounds(constraint, path)
    key, action = constraint.topology_key, constraint.when_unsatisfiable
    if not key:
        faults.append(required(f"{path}.topologyKey", "can not be empty"))
    elif fault := label_key_fault(key):
        faults.append(invalid(f"{path}.topologyKey", key, fault))
    if not action:
        faults.append(required(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in ACTIONS:
        faults.append(not_supported(f"{path}.whenUnsatisfiable", action, ACTIONS))
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        faults.append(forbidden(f"{path}.labelSelector", detail))
    return faults


def _volume_binding(args: VolumeBindingArgs, path: str, gates: FeatureGates) -> list[Fault]:
    faults = out_of_bounds(args, path)
    if gates.enabled("StorageCapacityScoring"):
        faults += _shape(args.shape or (), f"{path}.shape")
    elif args.shape is not None:
        detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        faults.append(invalid(f"{path}.shape", [to_builtins(point) for point in args.shape], detail))
    return faults


_CHECKS: dict[type, Callable[[Any, str], list[Fault]]] = {
    DefaultPreemptionArgs: _default_preemption,
    InterPodAffinityArgs: out_of_bounds,
    NodeAffinityArgs: _node_affinity,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _fit,
    PodTopologySpreadArgs: _topology_spread,
}
_GATED_CHECKS: dict[type, Callable[[Any, str, FeatureGates], list[Fault]]] = {
    DynamicResourcesArgs: _dynamic_resources,
    VolumeBindingArgs: _volume_binding,
}
