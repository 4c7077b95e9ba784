"""What there is to do about the claims of a pod, before any node is looked at.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``PreFilter``.
"""

from typing import NamedTuple

from berth.api.dra import DeviceRequest, ResourceClaim
from berth.api.node_affinity import CompiledNodeSelector, compile_node_selector
from berth.cluster.cache import Cluster
from berth.cluster.kinds import DEVICE_CLASS
from berth.cluster.pods import PodInfo
from berth.framework.status import SUCCESS, PluginError, Status, unresolvable
from berth.plugins.dynamic_resources.attempt import Attempt, PodClaim
from berth.plugins.dynamic_resources.extended import may_be_devices, special_claim
from berth.plugins.dynamic_resources.lookup import find_claims


class Ways(NamedTuple):
    """Which features are on.

    Attributes:
        alternatives: requests may name alternatives.
        extended_resources: device classes can stand behind resources.
    """

    alternatives: bool
    extended_resources: bool


class Preparation:
    """Prepares attempts.

    Args:
        cluster: where claims and classes are known.
        ways: which features are on.
    """

    def __init__(self, cluster: Cluster, ways: Ways) -> None:
        self._cluster, self._ways = cluster, ways

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the pod has claims, or asks for what a device class stands behind.

        Raises:
            QuantityError: an amount is no quantity.
        """
        return bool(pod.pod.spec.resource_claims) or bool(
            self._ways.extended_resources and self._cluster.device_classes.backed(pod.asked)
        )

    def begin(self, attempt: Attempt, pod: PodInfo) -> Status:
        """Fill *attempt* with the claims of the pod; anything but success leaves it empty: the pod cannot be placed.

        Raises:
            PluginError: a claim cannot be made sense of.
            QuantityError: an amount is no quantity.
        """
        found = find_claims(pod.pod, self._cluster.device_claims)
        if found.fault:
            return unresolvable(found.fault)
        claims = [PodClaim(claim) for claim in found.claims]
        for each in claims:
            each.reach = _reach_of(each.claim)
            if not each.is_allocated:
                status = self._check(each.claim)
                if not status.ok:
                    return status
        attempt.claims = claims
        self._add_special(attempt, pod)
        return SUCCESS

    def _add_special(self, attempt: Attempt, pod: PodInfo) -> None:
        if not self._ways.extended_resources:
            return
        scalars = tuple(name for name, many in pod.asked.items() if many > 0 and may_be_devices(name))
        classes = self._cluster.device_classes
        attempt.behind = {name: found for name in scalars if (found := classes.behind(name)) is not None}
        if attempt.behind:
            attempt.scalars = scalars
            attempt.special = PodClaim(special_claim(pod.pod, self._cluster.device_claims))

    def _check(self, claim: ResourceClaim) -> Status:
        """Whether devices can be looked for."""
        if self._cluster.device_claims.promised(claim.metadata.uid) is not None:
            return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        for request in claim.spec.devices.requests:
            status = self._check_request(claim, request)
            if not status.ok:
                return status
        return SUCCESS

    def _check_request(self, claim: ResourceClaim, request: DeviceRequest) -> Status:
        if request.exactly is not None:
            return self._check_class(request.exactly.device_class_name, request.name)
        where = f"resource claim {claim.key}, request {request.name}"
        if not request.first_available:
            return unresolvable(f"{where}: unknown request type")
        if not self._ways.alternatives:
            return unresolvable(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
        for way in request.first_available:
            status = self._check_class(way.device_class_name, f"{request.name}/{way.name}")
            if not status.ok:
                return status
        return SUCCESS

    def _check_class(self, class_name: str, request_name: str) -> Status:
        if not class_name:
            raise PluginError(f"request {request_name}: unsupported request type")
        if self._cluster.objects.get(DEVICE_CLASS, class_name) is None:
            return unresolvable(f"request {request_name}: device class {class_name} does not exist")
        return SUCCESS


def _reach_of(claim: ResourceClaim) -> CompiledNodeSelector | None:
    """The nodes that can use what the claim was given; None if all can.

    Raises:
        PluginError: they are not selected in a way that makes sense.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return None
    compiled = compile_node_selector(allocation.node_selector)
    if compiled.faults:
        raise PluginError("; ".join(str(fault) for fault in compiled.faults))
    return compiled
