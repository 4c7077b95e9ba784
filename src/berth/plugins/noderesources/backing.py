"""Which of the resources that a pod asks for may be met by devices instead of by what nodes offer.

A device class can stand behind a resource name.  On a node that has nothing of such a resource itself, finding devices
is the business of DynamicResources, and scores count devices instead.  Called by NodeResourcesFit and
NodeResourcesBalancedAllocation.

Source: k8s pkg/scheduler/framework/plugins/noderesources: fit.go, ``shouldDelegateResourceToDRA``, and
resource_allocation.go, ``calculateDRAExtendedResourceAllocatableRequest``; KEP-5004.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from berth.cluster.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, RESOURCE_CLAIM, RESOURCE_SLICE
from berth.cluster.objects import Kind
from berth.framework.handle import Handle
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.extended import may_be_devices
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.rules import AllocatorRules
from berth.plugins.dynamic_resources.totals import DeviceTotals

Backed = Callable[[Iterable[str]], frozenset[str]]
"""Resource names -> those of them that a device class stands behind."""

_NONE: Final[frozenset[str]] = frozenset()


def nothing_backed(resources: Iterable[str]) -> frozenset[str]:
    """None of them."""
    del resources
    return _NONE


def backed_resources(handle: Handle) -> Backed:
    """How to tell; nothing is backed while the gate DRAExtendedResource is off."""
    return handle.cluster.device_classes.backed if handle.gates.enabled("DRAExtendedResource") else nothing_backed


class DeviceFigures:
    """What devices amount to where scores look at resources that they can stand behind.

    Args:
        handle: where devices, claims and classes are known.
    """

    def __init__(self, handle: Handle) -> None:
        cluster = handle.cluster
        self._classes, self._objects, self._table = cluster.device_classes, cluster.objects, cluster.table
        rules = AllocatorRules.of(handle.gates, handle.behaviours)
        allocated = AllocatedState()
        cluster.device_claims.follow(allocated.change)
        self._totals = DeviceTotals(Inventory(cluster.objects, rules), allocated)
        kinds: tuple[Kind[Any], ...] = (RESOURCE_CLAIM, RESOURCE_SLICE, DEVICE_CLASS)
        self.kinds = (*kinds, DEVICE_TAINT_RULE) if rules.taint_rules else kinds

    def on_node(self, resource: str, row: int) -> tuple[int, int]:
        """(devices, devices that are given) on the node of *row*; none where no class is behind the resource."""
        name = self._classes.behind(resource)
        device_class = None if name is None else self._objects.get(DEVICE_CLASS, name)
        return (0, 0) if device_class is None else self._totals.of_class(device_class, self._table.node(row))


def device_figures(handle: Handle, resources: Iterable[str]) -> DeviceFigures | None:
    """What to score devices by; None if no class can stand behind any of the *resources* that are scored."""
    if handle.gates.enabled("DRAExtendedResource") and any(may_be_devices(name) for name in resources):
        return DeviceFigures(handle)
    return None


def watched(handle: Handle, figures: DeviceFigures | None) -> Sequence[Kind[Any]]:
    """The kinds of objects that all this looks up."""
    if figures is not None:
        return figures.kinds
    return (DEVICE_CLASS,) if handle.gates.enabled("DRAExtendedResource") else ()
