"""Which of the resources that a pod asks for may be met by devices instead of by what nodes offer.

A device class can stand behind a resource name.  On a node that has nothing of such a resource itself, finding devices
is the business of DynamicResources.  Called by NodeResourcesFit and NodeResourcesBalancedAllocation.

Source: k8s pkg/scheduler/framework/plugins/noderesources/fit.go, ``shouldDelegateResourceToDRA``; KEP-5004.
"""

from collections.abc import Callable, Iterable
from typing import Final

from berth.framework.handle import Handle

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
