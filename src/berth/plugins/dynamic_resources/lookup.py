"""Which resource claims a pod uses, and what may be wrong with them.

A pod names a claim, or has one made from a template by a controller, which then tells in the pod's status what it made.
Called by the extension points of DynamicResources and by its hints.

Source: k8s staging/src/k8s.io/dynamic-resource-allocation/resourceclaim/claim.go, ``Name`` and ``IsForPod``;
pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``foreachPodResourceClaim``.
"""

from typing import NamedTuple

from berth.api.dra import ResourceClaim
from berth.api.pod import Pod, PodResourceClaim
from berth.cluster.device_claims import DeviceClaims


class FoundClaims(NamedTuple):
    """The claims of a pod.

    Attributes:
        claims: in the order of ``spec.resourceClaims``; those that turned out not to be needed are left out.
        fault: why the pod cannot have them; empty if it can.
    """

    claims: tuple[ResourceClaim, ...] = ()
    fault: str = ""


class _Named(NamedTuple):
    name: str | None = None
    is_made: bool = False
    fault: str = ""


def find_claims(pod: Pod, known: DeviceClaims) -> FoundClaims:
    """The claims of *pod* as they are known, up to the first that it cannot have."""
    claims: list[ResourceClaim] = []
    namespace = pod.metadata.namespace
    for entry in pod.spec.resource_claims:
        named = _name_of(pod, entry)
        if named.fault:
            return FoundClaims(fault=named.fault)
        if named.name is None:
            continue
        claim = known.get(named.name, namespace)
        if claim is None:
            return FoundClaims(fault=f'could not find ResourceClaim "{namespace}/{named.name}"')
        if claim.metadata.deletion_timestamp is not None:
            return FoundClaims(fault=f'resourceclaim "{named.name}" is being deleted')
        if named.is_made and not is_controlled_by(claim, pod):
            return FoundClaims(fault=f"ResourceClaim {claim.key} was not created for Pod {pod.key} (Pod is not owner)")
        claims.append(claim)
    return FoundClaims(tuple(claims))


def is_controlled_by(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether *claim* was made for *pod*."""
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return controller is not None and controller.uid == pod.uid


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether *pod* is among those who may use *claim*."""
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


def _name_of(pod: Pod, entry: PodResourceClaim) -> _Named:
    if entry.resource_claim_name is not None:
        return _Named(entry.resource_claim_name)
    if entry.resource_claim_template_name is None:
        return _Named(fault=f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set')
    made = next((each for each in pod.status.resource_claim_statuses if each.name == entry.name), None)
    if made is None:
        return _Named(fault=f'pod "{pod.key}": ResourceClaim not created yet')
    return _Named(made.resource_claim_name, is_made=True)
