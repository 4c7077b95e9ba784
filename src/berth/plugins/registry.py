"""`IN_TREE`: the plugins that Berth brings, by name, with how each is built.

One visible mapping; importing a plugin's module registers nothing.  Read by whoever builds profiles.

Source: k8s pkg/scheduler/framework/plugins/registry.go.
"""

from collections.abc import Callable
from typing import Any, Final

from berth.framework.handle import Handle
from berth.framework.interface import Plugin
from berth.framework.registry import Factory, Registry
from berth.plugins.default_binder import DefaultBinder
from berth.plugins.default_preemption.plugin import DefaultPreemption
from berth.plugins.dynamic_resources.plugin import DynamicResources
from berth.plugins.image_locality import ImageLocality
from berth.plugins.inter_pod_affinity.plugin import InterPodAffinity
from berth.plugins.node_affinity import NodeAffinity
from berth.plugins.node_declared_features import NodeDeclaredFeatures
from berth.plugins.node_name import NodeName, make_node_name
from berth.plugins.node_ports import NodePorts
from berth.plugins.node_unschedulable import NodeUnschedulable, make_node_unschedulable
from berth.plugins.node_volume_limits import NodeVolumeLimits
from berth.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from berth.plugins.noderesources.fit import NodeResourcesFit
from berth.plugins.pod_topology_spread.plugin import PodTopologySpread
from berth.plugins.priority_sort import PrioritySort
from berth.plugins.scheduling_gates import SchedulingGates
from berth.plugins.taint_toleration import TaintToleration, make_taint_toleration
from berth.plugins.volume_binding.plugin import VolumeBinding
from berth.plugins.volume_restrictions import VolumeRestrictions
from berth.plugins.volume_zone import VolumeZone


def _without_arguments(make: Callable[[Handle], Plugin]) -> Factory:
    """The factory of a plugin that has no arguments; those it is given are not looked at."""

    def factory(args: Any, handle: Handle) -> Plugin:
        del args
        return make(handle)

    return factory


IN_TREE: Final = Registry(
    {
        DefaultBinder.name: _without_arguments(DefaultBinder),
        DefaultPreemption.name: DefaultPreemption,
        DynamicResources.name: DynamicResources,
        ImageLocality.name: _without_arguments(ImageLocality),
        InterPodAffinity.name: InterPodAffinity,
        NodeAffinity.name: NodeAffinity,
        NodeDeclaredFeatures.name: _without_arguments(NodeDeclaredFeatures),
        NodeName.name: _without_arguments(make_node_name),
        NodePorts.name: _without_arguments(NodePorts),
        NodeResourcesBalancedAllocation.name: NodeResourcesBalancedAllocation,
        NodeResourcesFit.name: NodeResourcesFit,
        NodeUnschedulable.name: _without_arguments(make_node_unschedulable),
        NodeVolumeLimits.name: _without_arguments(NodeVolumeLimits),
        PodTopologySpread.name: PodTopologySpread,
        PrioritySort.name: _without_arguments(lambda _: PrioritySort()),
        SchedulingGates.name: _without_arguments(SchedulingGates),
        TaintToleration.name: _without_arguments(make_taint_toleration),
        VolumeBinding.name: VolumeBinding,
        VolumeRestrictions.name: _without_arguments(VolumeRestrictions),
        VolumeZone.name: _without_arguments(VolumeZone),
    }
)
