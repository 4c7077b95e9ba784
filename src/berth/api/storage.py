"""Volumes, claims, classes and what is known of storage drivers, as far as the scheduler looks at them.

Source: k8s staging/src/k8s.io/api/core/v1/types.go and storage/v1/types.go.
"""

from typing import Final

import msgspec

from berth.api.affinity import NodeSelector
from berth.api.meta import ApiStruct, ObjectMeta
from berth.api.pod import (
    AzureDiskVolumeSource,
    AzureFileVolumeSource,
    CinderVolumeSource,
    ElasticBlockStoreVolumeSource,
    GcePersistentDiskVolumeSource,
    PortworxVolumeSource,
    ResourceList,
    ResourceRequirements,
    VsphereVolumeSource,
)
from berth.api.selectors import LabelSelector

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
LEGACY_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"

WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
STORAGE: Final = "storage"  # the resource that claims ask for and volumes have


class ObjectReference(ApiStruct, frozen=True):
    """A reference to another object."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""


class CsiPersistentVolumeSource(ApiStruct, frozen=True):
    """A volume that a storage driver provides."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(ApiStruct, frozen=True):
    """The nodes from which a volume can be reached."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(ApiStruct, frozen=True):
    """What a volume is."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiPersistentVolumeSource | None = None
    gce_persistent_disk: GcePersistentDiskVolumeSource | None = None
    aws_elastic_block_store: ElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVolumeSource | None = None


class PersistentVolumeStatus(ApiStruct, frozen=True):
    """How far a volume has come."""

    phase: str = ""


class PersistentVolume(ApiStruct, frozen=True):
    """A piece of storage."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeSpec = msgspec.field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = msgspec.field(default_factory=PersistentVolumeStatus)

    @property
    def class_name(self) -> str:
        """The storage class; an old annotation overrides the field."""
        legacy = self.metadata.annotations.get(LEGACY_CLASS)
        return self.spec.storage_class_name if legacy is None else legacy


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """What a claim asks for."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(ApiStruct, frozen=True):
    """How far a claim has come."""

    phase: str = ""


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """A demand for storage."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = msgspec.field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = msgspec.field(default_factory=PersistentVolumeClaimStatus)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def class_name(self) -> str:
        """The storage class, empty if it names none; an old annotation overrides the field."""
        legacy = self.metadata.annotations.get(LEGACY_CLASS)
        return self.spec.storage_class_name or "" if legacy is None else legacy

    @property
    def is_bound(self) -> bool:
        """Whether it has its volume for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class TopologySelectorLabelRequirement(ApiStruct, frozen=True):
    """A label and the values that it may have."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(ApiStruct, frozen=True):
    """Conditions on the labels of a node, joined by *and*."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(ApiStruct, frozen=True):
    """How volumes of one class come to be."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(ApiStruct, frozen=True):
    """How many volumes of a driver a node can hold; None for as many as there are."""

    count: int | None = None


class CsiNodeDriver(ApiStruct, frozen=True):
    """A storage driver that is installed on a node."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None

    @property
    def limit(self) -> int | None:
        """How many volumes the node can hold; None for any number."""
        return None if self.allocatable is None else self.allocatable.count


class CsiNodeSpec(ApiStruct, frozen=True):
    """The storage drivers of a node."""

    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(ApiStruct, frozen=True):
    """What is installed on the node of the same name."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class CsiDriverSpec(ApiStruct, frozen=True):
    """What a storage driver is like."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriver(ApiStruct, frozen=True):
    """A storage driver."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: CsiDriverSpec = msgspec.field(default_factory=CsiDriverSpec)


class CsiStorageCapacity(ApiStruct, frozen=True):
    """How much room there is for volumes of a class in some part of the cluster."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: str | None = None
    maximum_volume_size: str | None = None

    @property
    def limit(self) -> str | None:
        """How large a volume may be; None where nothing is known."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachmentSource(ApiStruct, frozen=True):
    """Which volume is attached; None where it is no object of its own."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(ApiStruct, frozen=True):
    """Which volume is attached where, and by whom."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(ApiStruct, frozen=True):
    """A volume that is, or is to be, attached to a node."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: VolumeAttachmentSpec = msgspec.field(default_factory=VolumeAttachmentSpec)
