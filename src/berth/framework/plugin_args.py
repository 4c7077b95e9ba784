"""The arguments of the in-tree plugins, as decoded and defaulted: one struct per ``<Plugin>Args`` kind.

Field defaults are those that hold on every served version. What depends on a gate (VolumeBinding's shape,
DynamicResources' timeouts) or on the rest of the object is filled in by ``config.defaults``; ``config.validation``
checks the values. Plugins receive their struct when they are built and trust it.

Source: k8s staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go.
"""

from typing import Annotated

import msgspec

from berth.api.affinity import NodeAffinity
from berth.api.durations import Duration
from berth.api.pod import TopologySpreadConstraint

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class ArgsStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all argument structs: immutable, camel-case on the wire."""


class UtilizationShapePoint(ArgsStruct, frozen=True):
    """One corner of a broken line from utilization (0..100) to score (0..10)."""

    utilization: Int32 = 0
    score: Int32 = 0


class ResourceSpec(ArgsStruct, frozen=True):
    """A resource and its share in a score; weight 0 is defaulted to 1."""

    name: str = ""
    weight: Int64 = 0


CPU_AND_MEMORY = (ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1))
"""The resources that scoring looks at unless told otherwise."""


class RequestedToCapacityRatioParam(ArgsStruct, frozen=True):
    """How the strategy RequestedToCapacityRatio turns utilization into a score."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ArgsStruct, frozen=True):
    """How NodeResourcesFit scores: ``LeastAllocated``, ``MostAllocated`` or ``RequestedToCapacityRatio``."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(ArgsStruct, frozen=True):
    """How many candidate nodes preemption examines: the larger of a percentage and a number."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


class DynamicResourcesArgs(ArgsStruct, frozen=True):
    """Time limits of DynamicResources; None where the feature behind a limit is off."""

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None


class InterPodAffinityArgs(ArgsStruct, frozen=True):
    """Weight of existing pods' required terms in the score, and whether their preferred ones count."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(ArgsStruct, frozen=True):
    """Node affinity joined by *and* to that of every pod of the profile."""

    added_affinity: NodeAffinity | None = None


class NodeResourcesBalancedAllocationArgs(ArgsStruct, frozen=True):
    """The resources whose balance is scored."""

    resources: tuple[ResourceSpec, ...] = ()


class NodeResourcesFitArgs(ArgsStruct, frozen=True):
    """Extended resources that the filter overlooks, by name or by the group before the slash, and the scoring."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated", resources=CPU_AND_MEMORY)


class PodTopologySpreadArgs(ArgsStruct, frozen=True):
    """Constraints for pods that have none of their own: ``System`` built-in ones, or the ``List`` given here."""

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class VolumeBindingArgs(ArgsStruct, frozen=True):
    """Seconds to wait for volumes, and the score by storage utilization; shape None where scoring is off."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


PluginArgs = (
    DefaultPreemptionArgs
    | DynamicResourcesArgs
    | InterPodAffinityArgs
    | NodeAffinityArgs
    | NodeResourcesBalancedAllocationArgs
    | NodeResourcesFitArgs
    | PodTopologySpreadArgs
    | VolumeBindingArgs
)
"""Any of the structs."""

ARGS_BY_PLUGIN: dict[str, type[PluginArgs]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""The struct of each plugin that takes arguments; the kind is its class name."""
