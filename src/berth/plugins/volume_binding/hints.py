"""What wakes a pod that VolumeBinding has rejected.

Claims, volumes and nodes are of interest to any pod; of what drivers and classes say, only what makes more possible.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/volume_binding.go, ``EventsToRegister``.
"""

from collections.abc import Sequence
from typing import Any

from berth.api.quantity import QuantityError, nano_value
from berth.api.storage import MIGRATED_PLUGINS, CsiDriver, CsiNode, CsiStorageCapacity, StorageClass
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Registration, Resource
from berth.plugins.hints import before_and_after, required
from berth.plugins.storage import hint_for_claim


def registrations() -> Sequence[Registration]:
    """The events."""
    changed = Action.ADD | Action.UPDATE
    return (
        Registration(ClusterEvent(Resource.STORAGE_CLASS, changed), _hint_for_class),
        Registration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), hint_for_claim),
        Registration(ClusterEvent(Resource.PERSISTENT_VOLUME, changed)),
        Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        Registration(ClusterEvent(Resource.CSI_NODE, changed), _hint_for_csi_node),
        Registration(ClusterEvent(Resource.CSI_DRIVER, Action.UPDATE), _hint_for_csi_driver),
        Registration(ClusterEvent(Resource.CSI_STORAGE_CAPACITY, changed), _hint_for_capacity),
    )


def _hint_for_class(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    before, after = before_and_after(StorageClass, old, new)
    return _queue_if(before is None or before.allowed_topologies != after.allowed_topologies)


def _hint_for_csi_node(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    before, after = before_and_after(CsiNode, old, new)
    if before is None:
        return Hint.QUEUE
    migrated = (node.metadata.annotations.get(MIGRATED_PLUGINS, "") for node in (before, after))
    return _queue_if(len(set(migrated)) > 1)


def _hint_for_csi_driver(pod: PodInfo, old: Any, new: Any) -> Hint:
    before, after = required(CsiDriver, old), required(CsiDriver, new)
    named = any(volume.csi is not None and volume.csi.driver == after.metadata.name for volume in pod.volumes)
    return _queue_if(named and bool(before.spec.storage_capacity) and not after.spec.storage_capacity)


def _hint_for_capacity(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    before, after = before_and_after(CsiStorageCapacity, old, new)
    if before is None:
        return Hint.QUEUE
    try:
        limits = [None if each.limit is None else nano_value(each.limit) for each in (before, after)]
    except QuantityError as error:
        raise HintError(f"csistoragecapacity {after.metadata.name}: {error}") from error
    return _queue_if(limits[1] is not None and (limits[0] is None or limits[1] > limits[0]))


def _queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP
