"""The plain twins of the plugins about storage: each filter and score for one node, in obvious Python.

They look at everything there is whenever they are asked, and keep nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.cluster import kinds
from berth.framework.status import SUCCESS, PluginError, Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from berth.api.node import Node
    from berth.api.pod import Pod, Volume
    from berth.api.storage import CsiNode, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
    from berth.cluster.cache import Cluster

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
ZONES = {OLD_ZONE: ZONE, OLD_REGION: REGION, ZONE: ZONE, REGION: REGION}
SUCCESSORS = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/gce-pd": "pd.csi.storage.gke.io"}


class View:
    """A cluster, seen from one of its nodes."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.objects, self.node = cluster.objects, node
        row = cluster.table.row_of(node.metadata.name)
        assert row is not None
        self.pods = [info.pod for info in cluster.table.pods(row).values()]
        self.all_pods = [info.pod for row in cluster.table.live_rows() for info in cluster.table.pods(row).values()]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self.objects.get(kinds.PERSISTENT_VOLUME_CLAIM, name, namespace)

    def volume(self, name: str) -> PersistentVolume | None:
        return self.objects.get(kinds.PERSISTENT_VOLUME, name)

    @property
    def csi_node(self) -> CsiNode | None:
        return self.objects.get(kinds.CSI_NODE, self.node.metadata.name)


def named_claims(pod: Pod) -> list[str]:
    volumes = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return [source.claim_name for source in volumes if source is not None]


# -- VolumeRestrictions ------------------------------------------------------------------------------------------------


def volume_restrictions(pod: Pod, view: View) -> Status:
    """The answer for one node; all claims of *pod* exist."""
    for mine in pod.spec.volumes:
        if any(_clash(mine, theirs) for other in view.pods for theirs in other.spec.volumes):
            return unschedulable("node(s) had no available disk")
    namespace = pod.metadata.namespace
    for name in named_claims(pod):
        claim = view.claim(namespace, name)
        assert claim is not None
        others = [other for other in view.all_pods if other.metadata.namespace == namespace]
        if "ReadWriteOncePod" in claim.spec.access_modes and any(name in named_claims(other) for other in others):
            return unschedulable(
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
                "already in-use by another pod"
            )
    return SUCCESS


def _clash(mine: Volume, theirs: Volume) -> bool:
    if mine.gce_persistent_disk and theirs.gce_persistent_disk:
        a, b = mine.gce_persistent_disk, theirs.gce_persistent_disk
        return a.pd_name == b.pd_name and not (a.read_only and b.read_only)
    if mine.aws_elastic_block_store and theirs.aws_elastic_block_store:
        return mine.aws_elastic_block_store == theirs.aws_elastic_block_store
    return False


# -- VolumeZone --------------------------------------------------------------------------------------------------------


def volume_zone(pod: Pod, view: View) -> Status:
    """The answer for one node; all claims of *pod* have a volume, or wait for their first pod."""
    labels = view.node.metadata.labels
    if not any(key in labels for key in ZONES):
        return SUCCESS
    for name in named_claims(pod):
        claim = view.claim(pod.metadata.namespace, name)
        assert claim is not None
        volume = view.volume(claim.spec.volume_name)
        if volume is None:
            continue
        for key, new_key in ZONES.items():
            text = volume.metadata.labels.get(key)
            values = [] if text is None else [value.strip() for value in text.split("__")]
            if not values or "" in values:
                continue
            if labels.get(key, labels.get(new_key)) not in values:
                return unresolvable("node(s) had no available volume zone")
    return SUCCESS


# -- NodeVolumeLimits --------------------------------------------------------------------------------------------------


def node_volume_limits(pod: Pod, view: View, *, heeds_missing_drivers: bool) -> Status:
    """The answer for one node.

    Raises:
        PluginError: a pod on the node cannot be made sense of.
    """
    wanted = _countable(pod, view, is_new=True)
    if isinstance(wanted, Status):
        return wanted
    if not wanted:
        return SUCCESS
    drivers = {} if view.csi_node is None else {each.name: each.limit for each in view.csi_node.spec.drivers}
    for driver, _ in sorted(wanted):
        found = view.objects.get(kinds.CSI_DRIVER, driver)
        asks = found is not None and found.spec.prevent_pod_scheduling_if_missing
        if heeds_missing_drivers and asks and driver not in drivers:
            return unschedulable(f"{driver} CSI driver is not installed on the node")
    if all(limit is None for limit in drivers.values()):
        return SUCCESS
    there: set[tuple[str, str]] = set()
    for other in view.pods:
        volumes = _countable(other, view, is_new=False)
        assert not isinstance(volumes, Status)
        there |= volumes
    attached = {
        (each.spec.attacher, volume.spec.csi.volume_handle)
        for each in view.objects.list(kinds.VOLUME_ATTACHMENT)
        if each.spec.node_name == view.node.metadata.name
        and (volume := view.volume(each.spec.source.persistent_volume_name or "")) is not None
        and volume.spec.csi is not None
    }
    for driver, limit in drivers.items():
        new = len([each for each in wanted - there if each[0] == driver])
        old = len([each for each in there | attached if each[0] == driver])
        if limit is not None and new and new + old > limit:
            return unschedulable("node(s) exceed max volume count")
    return SUCCESS


def _countable(pod: Pod, view: View, *, is_new: bool) -> set[tuple[str, str]] | Status:
    found = set()
    for volume in pod.spec.volumes:
        name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
        if volume.ephemeral:
            name = f"{pod.metadata.name}-{volume.name}"
        if not name:
            found |= _told_to_successor(volume, view)
            continue
        claim = view.claim(pod.metadata.namespace, name)
        if claim is None:
            if is_new:
                key = f"{pod.metadata.namespace}/{name}"
                return unresolvable(f'looking up PVC {key}: persistentvolumeclaim "{name}" not found')
            continue
        owners = [owner.uid for owner in claim.metadata.owner_references]
        if volume.ephemeral and pod.metadata.uid not in owners:
            raise PluginError(f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)")
        found |= _of_claim(claim, view)
    return found


def _of_claim(claim: PersistentVolumeClaim, view: View) -> set[tuple[str, str]]:
    volume = view.volume(claim.spec.volume_name)
    if volume is not None:
        if volume.spec.csi is not None:
            return {(volume.spec.csi.driver, volume.spec.csi.volume_handle)}
        labels = volume.metadata.labels
        return _told_to_successor(volume.spec, view, labels.get(OLD_ZONE) or labels.get(ZONE, ""))
    storage_class = view.objects.get(kinds.STORAGE_CLASS, claim.class_name)
    if storage_class is None:
        return set()
    successor = SUCCESSORS.get(storage_class.provisioner)
    if successor is not None and view.csi_node is None:
        return set()
    return {(successor or storage_class.provisioner, f"of claim {claim.key}")}


def _told_to_successor(source: Volume | PersistentVolumeSpec, view: View, zone: str = "") -> set[tuple[str, str]]:
    if view.csi_node is None:
        return set()
    if source.aws_elastic_block_store is not None:
        return {("ebs.csi.aws.com", source.aws_elastic_block_store.volume_id)}
    if source.gce_persistent_disk is not None and "__" not in zone:  # the zones here are of no region that there is
        return {("pd.csi.storage.gke.io", f"{source.gce_persistent_disk.pd_name} in {zone}")}
    return set()
