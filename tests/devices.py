"""Claims, slices and classes of devices with keyword arguments, and pods that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builders import a_pod

from berth.api.dra import (
    EXACT_COUNT,
    EXTENDED_RESOURCE_CLAIM,
    AllocationResult,
    CelDeviceSelector,
    ClaimMeta,
    Device,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from berth.api.meta import ObjectMeta, OwnerReference
from berth.api.pod import PodResourceClaim, PodResourceClaimStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.api.affinity import NodeSelector
    from berth.api.pod import Pod

DRIVER = "gpu.example.com"


def an_exact(
    device_class: str = "gpu", *, name: str = "req", count: int = 1, cel: Iterable[str] = (), **fields: Any
) -> DeviceRequest:
    """A request for devices of one class."""
    exactly = ExactDeviceRequest(
        device_class_name=device_class,
        allocation_mode=fields.pop("allocation_mode", EXACT_COUNT),
        count=count,
        selectors=tuple(DeviceSelector(cel=CelDeviceSelector(expression=text)) for text in cel),
        **fields,
    )
    return DeviceRequest(name=name, exactly=exactly)


def alternatives(*classes: str, name: str = "req") -> DeviceRequest:
    """A request for a device of the first of these classes that can be had; they are called ``sub0``, ``sub1``, ..."""
    ways = (
        DeviceSubRequest(name=f"sub{i}", device_class_name=each, allocation_mode=EXACT_COUNT, count=1)
        for i, each in enumerate(classes)
    )
    return DeviceRequest(name=name, first_available=tuple(ways))


def a_result(device: str, *, request: str = "req", pool: str = "pool", **fields: Any) -> DeviceRequestAllocationResult:
    """One device that was given."""
    return DeviceRequestAllocationResult(request=request, driver=DRIVER, pool=pool, device=device, **fields)


def an_allocation(
    *results: DeviceRequestAllocationResult, node_selector: NodeSelector | None = None, timestamp: str | None = None
) -> AllocationResult:
    """What a claim was given."""
    devices = DeviceAllocationResult(results=results)
    return AllocationResult(devices=devices, node_selector=node_selector, allocation_timestamp=timestamp)


def a_device_claim(
    name: str = "claim",
    *requests: DeviceRequest,
    namespace: str = "default",
    uid: str | None = None,
    version: str = "1",
    owner: Pod | None = None,
    special: bool = False,
    allocation: AllocationResult | None = None,
    reserved_for: Iterable[Pod] = (),
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> ResourceClaim:
    """A claim for one device of the class ``gpu``, unless other *requests* are given."""
    consumers = tuple(_consumer(pod) for pod in reserved_for)
    return ResourceClaim(
        metadata=ClaimMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-of-{namespace}-{name}",
            resource_version=version,
            owner_references=() if owner is None else (_owner(owner),),
            annotations={EXTENDED_RESOURCE_CLAIM: "true"} if special else {},
            **(metadata or {}),
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests or (an_exact(),))),
        status=ResourceClaimStatus(allocation=allocation, reserved_for=consumers, **(status or {})),
    )


def a_device_class(
    name: str = "gpu", *, cel: Iterable[str] = (), resource: str | None = None, created: str = "2026-01-01T00:00:00Z"
) -> DeviceClass:
    """A class of devices."""
    selectors = tuple(DeviceSelector(cel=CelDeviceSelector(expression=text)) for text in cel)
    return DeviceClass(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}", creation_timestamp=created),
        spec=DeviceClassSpec(selectors=selectors, extended_resource_name=resource),
    )


def a_slice(
    name: str = "slice",
    *devices: Device | str,
    on: str | None = None,
    pool: str = "pool",
    all_nodes: bool | None = None,
    **spec: Any,
) -> ResourceSlice:
    """A pool of one slice with these devices, of one node or of whatever nodes *spec* says."""
    return ResourceSlice(
        metadata=ObjectMeta(name=name, uid=f"uid-of-{name}", resource_version="1"),
        spec=ResourceSliceSpec(
            driver=spec.pop("driver", DRIVER),
            pool=ResourcePool(name=pool, generation=1, resource_slice_count=1),
            node_name=on,
            all_nodes=all_nodes,
            devices=tuple(Device(name=each) if isinstance(each, str) else each for each in devices),
            **spec,
        ),
    )


def a_pod_with(*claims: str, name: str = "web", **fields: Any) -> Pod:
    """A pod that uses claims of these names."""
    used = tuple(PodResourceClaim(name=f"r-{each}", resource_claim_name=each) for each in claims)
    spec = {**fields.pop("spec", {}), "resource_claims": used}
    return a_pod(name, spec=spec, **fields)


def a_pod_with_template(made: str | None = "made", *, name: str = "web", is_made: bool = True, **fields: Any) -> Pod:
    """A pod with a claim from a template: *made*, or None if none was needed, unless nothing *is_made* yet."""
    used = (PodResourceClaim(name="r", resource_claim_template_name="template"),)
    statuses = (PodResourceClaimStatus(name="r", resource_claim_name=made),) if is_made else ()
    return a_pod(name, spec={"resource_claims": used}, status={"resource_claim_statuses": statuses}, **fields)


def _owner(pod: Pod) -> OwnerReference:
    return OwnerReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.uid, controller=True)


def _consumer(pod: Pod) -> ResourceClaimConsumerReference:
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.uid)
