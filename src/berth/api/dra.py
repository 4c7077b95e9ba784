"""Devices: what drivers publish, what claims ask for and what they were given, as far as the scheduler looks at it.

Quantities stay texts.  Parameters that only drivers understand pass through unread.

Source: k8s staging/src/k8s.io/api/resource/v1/types.go.
"""

from typing import Any, Final

import msgspec

from berth.api.affinity import NodeSelector
from berth.api.meta import ApiStruct, Condition, ObjectMeta
from berth.api.node import Taint
from berth.api.pod import ResourceList, Toleration

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"  # annotation, "true"
DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"  # resource name that asks for devices of a class

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
FROM_CLASS: Final = "FromClass"
FROM_CLAIM: Final = "FromClaim"

MAX_RESULTS: Final = 32  # devices that one claim can be given
MAX_SUBREQUESTS: Final = 8  # alternatives of one request


# -- ResourceSlice ----------------------------------------------------------------------------------------------------


class DeviceAttribute(ApiStruct, frozen=True):
    """One attribute of a device: exactly one of the fields is set."""

    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[int, ...] = msgspec.field(default=(), name="ints")
    bool_values: tuple[bool, ...] = msgspec.field(default=(), name="bools")
    string_values: tuple[str, ...] = msgspec.field(default=(), name="strings")
    version_values: tuple[str, ...] = msgspec.field(default=(), name="versions")


class CapacityRange(ApiStruct, frozen=True):
    """The amounts from ``min`` to ``max`` in steps."""

    min: str | None = None
    max: str | None = None
    step: str | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True):
    """Which amounts of a capacity can be had."""

    default: str | None = None
    valid_values: tuple[str, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(ApiStruct, frozen=True):
    """How much of something a device has."""

    value: str = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True):
    """An amount of something that devices of a pool share."""

    value: str = "0"


class CounterSet(ApiStruct, frozen=True):
    """Counters that devices of a pool draw on."""

    name: str = ""
    counters: dict[str, Counter] = {}


class DeviceCounterConsumption(ApiStruct, frozen=True):
    """What a device draws from one counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}


class Device(ApiStruct, frozen=True):
    """One device, or one way to cut a device up."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: tuple[Taint, ...] = ()
    binds_to_node: bool | None = None
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool | None = None


class ResourcePool(ApiStruct, frozen=True):
    """The pool that a slice describes a part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(ApiStruct, frozen=True):
    """Devices of one pool, and the nodes that can use them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiStruct, frozen=True):
    """What a driver publishes."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceSliceSpec = msgspec.field(default_factory=ResourceSliceSpec)


# -- DeviceClass, DeviceTaintRule -------------------------------------------------------------------------------------


class CelDeviceSelector(ApiStruct, frozen=True):
    """An expression that is true of the devices it selects."""

    expression: str = ""


class DeviceSelector(ApiStruct, frozen=True):
    """A condition on a device."""

    cel: CelDeviceSelector | None = None


class OpaqueDeviceConfiguration(ApiStruct, frozen=True):
    """Parameters for a driver."""

    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(ApiStruct, frozen=True):
    """Parameters for the devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(ApiStruct, frozen=True):
    """Which devices belong to a class."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True):
    """A sort of device that an administrator offers."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)


class DeviceTaintSelector(ApiStruct, frozen=True):
    """The devices that a rule taints; what is None does not matter."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True):
    """A taint, and the devices that get it; none without a selector."""

    device_selector: DeviceTaintSelector | None = None
    taint: Taint = Taint()


class DeviceTaintRule(ApiStruct, frozen=True):
    """A taint that an administrator puts on devices."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DeviceTaintRuleSpec = msgspec.field(default_factory=DeviceTaintRuleSpec)


# -- ResourceClaim ----------------------------------------------------------------------------------------------------


class CapacityRequirements(ApiStruct, frozen=True):
    """How much of the capacities of a device is asked for."""

    requests: ResourceList = {}


class ExactDeviceRequest(ApiStruct, frozen=True):
    """Devices of one class."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(ApiStruct, frozen=True):
    """One of several ways to meet a request."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(ApiStruct, frozen=True):
    """A demand for devices: an exact one, or alternatives of which the first that can be met counts."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True):
    """What the devices of some requests, or of all, must have in common or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(ApiStruct, frozen=True):
    """Parameters for the devices of some requests, or of all."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(ApiStruct, frozen=True):
    """What a claim asks for."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True):
    """What a claim asks for."""

    devices: DeviceClaim = DeviceClaim()


class DeviceRequestAllocationResult(ApiStruct, frozen=True):
    """One device that a claim was given; ``request`` is ``name``, or ``name/subrequest``."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[Toleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: ResourceList = {}


class DeviceAllocationConfiguration(ApiStruct, frozen=True):
    """Parameters that apply to what was given, and where they come from."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(ApiStruct, frozen=True):
    """The devices that a claim was given."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(ApiStruct, frozen=True):
    """What a claim was given, and the nodes that can use it (None: all)."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ResourceClaimConsumerReference(ApiStruct, frozen=True):
    """Somebody who may use a claim."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(ApiStruct, frozen=True):
    """What a driver reports of a device that was given."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(ApiStruct, frozen=True):
    """How far a claim has come."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ClaimMeta(ObjectMeta, frozen=True):
    """The metadata of a claim, with what the scheduler writes there."""

    generate_name: str = ""
    finalizers: tuple[str, ...] = ()


class ResourceClaim(ApiStruct, frozen=True):
    """A demand for devices."""

    metadata: ClaimMeta = msgspec.field(default_factory=ClaimMeta)
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
