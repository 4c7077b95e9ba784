"""What can happen in a cluster, as the queue and the plugins speak of it, and how an event matches a registration.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/types.go, ``ClusterEvent``; KEP-4247.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from berth.cluster.pods import PodInfo


class Action(enum.IntFlag):
    """What happened to an object.

    The order of the bits is part of the rules: an incoming event with more bits set than a registration does not match
    it.  `Action.UPDATE_POD_SCALE_UP` exists since 1.37; it stands above the others so that the numbers of those stay.
    """

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE_POD_SCALE_UP = 8192
    UPDATE = 16380
    ALL = 16383


_ACTION_LABELS: Final = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    Action.UPDATE: "Update",
    Action.ALL: "All",
}


class Resource(enum.StrEnum):
    """What it happened to; the values are the reference's."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"  # 1.36: a pod without a node
    UNSCHEDULED_POD = "UnscheduledPod"  # 1.37: the same
    TARGET_POD = "TargetPod"  # 1.37: the waiting pod itself
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


POD_RESOURCES: Final = frozenset(
    (Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD, Resource.UNSCHEDULED_POD, Resource.TARGET_POD)
)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened, or, in a registration, something that a plugin waits for.

    Attributes:
        resource: what it happened to; a plain text for resources that only a user's plugin knows.
        action: what happened; a registration may join several.
        custom_label: the label for events that stand for no single change.
    """

    resource: Resource | str
    action: Action
    custom_label: str = ""

    @property
    def label(self) -> str:
        """The text that metrics and logs use."""
        return self.custom_label or f"{self.resource}{_ACTION_LABELS.get(self.action, '')}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for everything."""
        return self.resource == Resource.WILDCARD and self.action == Action.ALL

    def matches(self, incoming: "ClusterEvent") -> bool:
        """Whether *incoming* is something that this registration waits for.

        Source:
            k8s pkg/scheduler/framework/types.go, ``MatchClusterEvents``.
        """
        if self.is_wildcard:
            return True
        same = self.resource in (Resource.WILDCARD, incoming.resource) or (
            self.resource == Resource.POD and incoming.resource in POD_RESOURCES
        )
        return same and bool(self.action & incoming.action) and incoming.action <= self.action


UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")
NODE_ADD: Final = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(Resource.NODE, Action.DELETE)
ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


class Hint(enum.Enum):
    """Whether an event is worth another attempt at a pod; the values are the labels of the metric."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


class HintError(Exception):
    """A hint cannot tell; the pod is then tried again."""


HintFn = Callable[[PodInfo, Any, Any], Hint]
"""Hint of a plugin: (the waiting pod, the object before, the object after) to an answer; raises `HintError`.

The objects are of `berth.api` (a `Pod`, a `Node`, ...); None stands before an add and after a delete.
"""


@dataclass(frozen=True, slots=True)
class Registration:
    """An event that a plugin waits for after it rejected a pod; without a hint, every such event counts.

    Attributes:
        event: what is waited for.
        hint: whether it helps a given pod.
        by_likeness: whether the hint reads of the pod only its namespace, labels, owners and spec without volumes,
            unless the event is about that very pod. One answer then holds for all pods that are alike, however many
            of them wait.
        by_spec: whether it reads even less, the spec without volumes only: pods that have labels of their own, as those
            of a StatefulSet do, may then be alike.
    """

    event: ClusterEvent
    hint: HintFn | None = None
    by_likeness: bool = False
    by_spec: bool = False
