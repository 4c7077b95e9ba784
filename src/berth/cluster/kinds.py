"""The kinds of objects that are kept besides pods and nodes.

A plugin names the kinds that it looks up (`berth.framework.interface.Lookups`); the shell watches those, and no others.
"""

from typing import Final

from berth.api.dra import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from berth.api.policy import PodDisruptionBudget
from berth.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from berth.api.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet
from berth.cluster.objects import Kind

NAMESPACE: Final = Kind("Namespace", Namespace)
SERVICE: Final = Kind("Service", Service)
REPLICATION_CONTROLLER: Final = Kind("ReplicationController", ReplicationController)
REPLICA_SET: Final = Kind("ReplicaSet", ReplicaSet)
STATEFUL_SET: Final = Kind("StatefulSet", StatefulSet)

POD_DISRUPTION_BUDGET: Final = Kind("PodDisruptionBudget", PodDisruptionBudget)

PERSISTENT_VOLUME: Final = Kind("PersistentVolume", PersistentVolume, "PersistentVolume")
PERSISTENT_VOLUME_CLAIM: Final = Kind("PersistentVolumeClaim", PersistentVolumeClaim, "PersistentVolumeClaim")
STORAGE_CLASS: Final = Kind("StorageClass", StorageClass, "storage.k8s.io/StorageClass")
CSI_NODE: Final = Kind("CSINode", CsiNode, "storage.k8s.io/CSINode")
CSI_DRIVER: Final = Kind("CSIDriver", CsiDriver, "storage.k8s.io/CSIDriver")
CSI_STORAGE_CAPACITY: Final = Kind("CSIStorageCapacity", CsiStorageCapacity, "storage.k8s.io/CSIStorageCapacity")
VOLUME_ATTACHMENT: Final = Kind("VolumeAttachment", VolumeAttachment, "storage.k8s.io/VolumeAttachment")

RESOURCE_CLAIM: Final = Kind("ResourceClaim", ResourceClaim, "resource.k8s.io/ResourceClaim")
RESOURCE_SLICE: Final = Kind("ResourceSlice", ResourceSlice, "resource.k8s.io/ResourceSlice")
DEVICE_CLASS: Final = Kind("DeviceClass", DeviceClass, "resource.k8s.io/DeviceClass")
DEVICE_TAINT_RULE: Final = Kind("DeviceTaintRule", DeviceTaintRule)

ALL: Final = (
    NAMESPACE,
    SERVICE,
    REPLICATION_CONTROLLER,
    REPLICA_SET,
    STATEFUL_SET,
    POD_DISRUPTION_BUDGET,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    DEVICE_CLASS,
    DEVICE_TAINT_RULE,
)
