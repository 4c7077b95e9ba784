"""Extended resources of a pod that devices stand in for: the special claim that asks for them.

On a node that has nothing of such a resource itself, a claim asks for devices of the class behind it.  The claim is not
written by anybody: it is made up for the pod, with requests that follow from what its containers ask for, and created
once the pod has its node.  Which resources are met by devices differs from node to node, and so does the claim.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/extendeddynamicresources.go; KEP-5004.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from berth.api.dra import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    ClaimMeta,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from berth.api.meta import OwnerReference
from berth.api.pod import Container, ExtendedResourceRequest, Pod
from berth.api.quantity import nano_value
from berth.api.requests import DEVICE_CLASS_PREFIX, amount, is_extended
from berth.cluster.device_claims import DeviceClaims

UNNAMED: Final = "<extended-resources>"  # the name of a special claim that does not exist yet; no object can have it
_UID_SUFFIX: Final = "/extended-resources"  # likewise for its uid, which no object can have either

Backing = Mapping[str, str]
"""Resource name -> the class behind it."""


class Special(NamedTuple):
    """What a pod asks devices for on some nodes.

    Attributes:
        requests: of the special claim.
        mappings: which of them stands for which container's resource.
    """

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ExtendedResourceRequest, ...]


def may_be_devices(resource: str) -> bool:
    """Whether a resource has a name of the kind that device classes can stand behind."""
    return is_extended(resource) or resource.startswith(DEVICE_CLASS_PREFIX)


def is_unnamed(claim: ResourceClaim) -> bool:
    """Whether *claim* is a special one that does not exist yet."""
    return claim.metadata.name == UNNAMED


def special_claim(pod: Pod, known: DeviceClaims) -> ResourceClaim:
    """The special claim of *pod*: one that was left by an earlier attempt, or else a new one without requests."""
    left = known.special_of(pod.uid)
    if left is not None:
        return left
    owner = OwnerReference(
        api_version="v1",
        kind="Pod",
        name=pod.metadata.name,
        uid=pod.uid,
        controller=True,
    )
    return ResourceClaim(
        metadata=ClaimMeta(
            name=UNNAMED,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            namespace=pod.metadata.namespace,
            uid=f"{pod.uid}{_UID_SUFFIX}",
            annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            owner_references=(owner,),
        )
    )


def with_requests(claim: ResourceClaim, special: Special) -> ResourceClaim:
    """The claim, asking for what *special* says."""
    return msgspec.structs.replace(claim, spec=ResourceClaimSpec(devices=DeviceClaim(requests=special.requests)))


def special_of(pod: Pod, resources: Iterable[str], behind: Backing) -> Special:
    """What the pod asks devices for where they meet these *resources*.

    Raises:
        QuantityError: an amount is no quantity.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    requests: list[DeviceRequest] = []
    mappings: list[ExtendedResourceRequest] = []
    for resource in sorted(resources):
        one = _of_resource(containers, len(pod.spec.init_containers), resource, behind[resource])
        requests += one.requests
        mappings += one.mappings
    return Special(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


class _Reuse(NamedTuple):
    """How a plain init container gets by: with requests of containers that start later, and so many devices more."""

    place: int
    names: tuple[str, ...]
    more: int


def _of_resource(containers: Sequence[Container], num_init: int, resource: str, class_name: str) -> Special:
    """The requests for one resource, those of long-lived containers first."""
    wanted = [_wanted(container, resource) for container in containers]
    long_lived = [i >= num_init or each.is_sidecar for i, each in enumerate(containers)]
    lasting = [i for i, many in enumerate(wanted) if many and long_lived[i]]
    names = {i: _request_name(i, containers[i], resource) for i, many in enumerate(wanted) if many}
    requests = [_request(names[i], class_name, wanted[i]) for i in lasting]
    mappings = [_mapping(containers[i], resource, names[i]) for i in lasting]
    starting = [
        _reuse(i, many, [(names[j], wanted[j]) for j in lasting if j > i])
        for i, many in enumerate(wanted)
        if many and not long_lived[i]
    ]
    neediest = max(starting, key=lambda reuse: reuse.more, default=None)
    if neediest is not None and neediest.more:
        requests.append(_request(names[neediest.place], class_name, neediest.more))
    for reuse in starting:
        mappings += [_mapping(containers[reuse.place], resource, name) for name in reuse.names]
        if reuse.more and neediest is not None:
            mappings.append(_mapping(containers[reuse.place], resource, names[neediest.place]))
    return Special(tuple(requests), tuple(mappings))


def _reuse(place: int, wanted: int, later: Iterable[tuple[str, int]]) -> _Reuse:
    names: list[str] = []
    for name, many in later:
        if wanted <= 0:
            break
        names.append(name)
        wanted -= many
    return _Reuse(place, tuple(names), max(wanted, 0))


def _wanted(container: Container, resource: str) -> int:
    text = container.resources.requests.get(resource)
    return 0 if text is None else amount(resource, nano_value(text))


def _request_name(index: int, container: Container, resource: str) -> str:
    return f"container-{index}-request-{sorted(container.resources.requests).index(resource)}"


def _request(name: str, class_name: str, count: int) -> DeviceRequest:
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(name=name, exactly=exactly)


def _mapping(container: Container, resource: str, request_name: str) -> ExtendedResourceRequest:
    return ExtendedResourceRequest(container_name=container.name, resource_name=resource, request_name=request_name)
