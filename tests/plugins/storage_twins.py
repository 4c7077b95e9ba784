"""The plain twins of the plugins about storage: each filter and score for one node, in obvious Python.

They look at everything there is whenever they are asked, and keep nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from berth.api.quantity import nano_value
from berth.cluster import kinds
from berth.framework.status import SUCCESS, PluginError, Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from berth.api.node import Node
    from berth.api.pod import Pod, Volume
    from berth.api.storage import (
        CsiNode,
        CsiStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
        PersistentVolumeSpec,
    )
    from berth.cluster.cache import Cluster

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION, OLD_REGION = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
ZONES = {OLD_ZONE: ZONE, OLD_REGION: REGION, ZONE: ZONE, REGION: REGION}
SUCCESSORS = {"kubernetes.io/aws-ebs": "ebs.csi.aws.com", "kubernetes.io/gce-pd": "pd.csi.storage.gke.io"}


class View:
    """A cluster, seen from one of its nodes."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.cluster, self.objects, self.node = cluster, cluster.objects, node
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


# -- VolumeBinding -----------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What becomes of the claims of a pod on one node: volumes by claim, capacities (or None) of new ones by claim."""

    reasons: list[str] = field(default_factory=list)
    bound: dict[str, PersistentVolume] = field(default_factory=dict)
    made: dict[str, CsiStorageCapacity | None] = field(default_factory=dict)


OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


def volume_binding(pod: Pod, view: View) -> Outcome:
    """What becomes of the claims, all of which exist and are bound, or wait for their first pod."""
    claims = [view.cluster.assumed_claims.get(name, pod.metadata.namespace) for name in dict.fromkeys(all_claims(pod))]
    known = [claim for claim in claims if claim is not None]
    assert len(known) == len(claims)
    outcome = Outcome()
    faults = [_fault_of_bound(claim, view) for claim in known if claim.is_bound]
    outcome.reasons += [fault for fault in faults if fault is not None][:1]
    _find([claim for claim in known if not claim.is_bound], view, outcome)
    outcome.reasons = [each for each in (OUT_OF_REACH, NO_VOLUME, NO_ROOM, VOLUME_GONE) if each in outcome.reasons]
    return outcome


def all_claims(pod: Pod) -> list[str]:
    names = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{pod.metadata.name}-{volume.name}")
    return names


def _fault_of_bound(claim: PersistentVolumeClaim, view: View) -> str | None:
    volume = view.cluster.assumed_volumes.get(claim.spec.volume_name)
    if volume is None:
        return VOLUME_GONE
    return None if _reaches(volume, view) else OUT_OF_REACH


def _find(claims: list[PersistentVolumeClaim], view: View, outcome: Outcome) -> None:
    selected = {claim.key: claim.metadata.annotations.get("volume.kubernetes.io/selected-node") for claim in claims}
    if any(node not in {None, view.node.metadata.name} for node in selected.values()):
        outcome.reasons.append(NO_VOLUME)
        return
    to_make = [claim for claim in claims if selected[claim.key] is not None]
    for claim in sorted(claims, key=_size):
        if selected[claim.key] is None:
            found = _find_volume(claim, view, [volume.metadata.name for volume in outcome.bound.values()])
            if found is None:
                to_make.append(claim)
            else:
                outcome.bound[claim.key] = found
    for claim in to_make:
        fault = _make(claim, view, outcome)
        if fault is not None:
            outcome.reasons.append(fault)
            return


def _find_volume(claim: PersistentVolumeClaim, view: View, taken: list[str]) -> PersistentVolume | None:
    best = None
    for volume in view.cluster.assumed_volumes.list():
        if volume.metadata.name in taken or not _suits(volume, claim):
            continue
        if volume.spec.claim_ref is not None:
            return volume if _reaches(volume, view) else None
        if not _is_free_for(volume, claim) or not _reaches(volume, view):
            continue
        if best is None or _capacity(volume) < _capacity(best):
            best = volume
    return best


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether it is of the right sort, and no other claim's."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    is_another_s = reference is not None and (
        (reference.name, reference.namespace) != (meta.name, meta.namespace) or reference.uid not in {"", meta.uid}
    )
    modes = [mode or "Filesystem" for mode in (volume.spec.volume_mode, claim.spec.volume_mode)]
    attributes = [spec.volume_attributes_class_name or "" for spec in (volume.spec, claim.spec)]
    is_of_the_sort = volume.class_name == claim.class_name and modes[0] == modes[1] and attributes[0] == attributes[1]
    is_there = volume.metadata.deletion_timestamp is None and _capacity(volume) >= _size(claim)
    return is_of_the_sort and is_there and not is_another_s


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    labels = claim.spec.selector.match_labels if claim.spec.selector is not None else {}
    if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return False
    return all(volume.metadata.labels.get(key) == value for key, value in labels.items())


def _capacity(volume: PersistentVolume) -> int:
    return nano_value(volume.spec.capacity["storage"])


def _make(claim: PersistentVolumeClaim, view: View, outcome: Outcome) -> str | None:
    """Have a volume made, or say why that cannot be."""
    storage_class = view.objects.get(kinds.STORAGE_CLASS, claim.class_name)
    assert storage_class is not None
    if storage_class.provisioner == "kubernetes.io/no-provisioner":
        return NO_VOLUME
    terms = [{e.key: e.values for e in term.match_label_expressions} for term in storage_class.allowed_topologies]
    labels = view.node.metadata.labels
    if terms and not any(term and all(labels.get(key) in values for key, values in term.items()) for term in terms):
        return NO_VOLUME
    driver = view.objects.get(kinds.CSI_DRIVER, storage_class.provisioner)
    outcome.made[claim.key] = None
    if "storage" not in claim.spec.resources.requests or driver is None or not driver.spec.storage_capacity:
        return None
    for capacity in view.objects.list(kinds.CSI_STORAGE_CAPACITY):
        limit = capacity.maximum_volume_size or capacity.capacity
        serves = capacity.node_topology is not None and all(
            labels.get(key) == value for key, value in capacity.node_topology.match_labels.items()
        )
        if capacity.storage_class_name == claim.class_name and serves and limit and nano_value(limit) >= _size(claim):
            outcome.made[claim.key] = capacity
            return None
    return NO_ROOM


def _reaches(volume: PersistentVolume, view: View) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        affinity_ok = True
    else:
        affinity_ok = any(
            all(_holds(e.operator, e.values, view.node.metadata.labels.get(e.key)) for e in term.match_expressions)
            for term in affinity.required.node_selector_terms
        )
    told = view.csi_node is not None and "kubernetes.io/aws-ebs" in view.csi_node.metadata.annotations.get(
        "storage.alpha.kubernetes.io/migrated-plugins", ""
    )
    zone = volume.metadata.labels.get(ZONE, volume.metadata.labels.get(OLD_ZONE, ""))
    if volume.spec.aws_elastic_block_store is None or not told or not zone.replace("__", ""):
        return affinity_ok
    return False  # no node here carries the zone label of the successor


def _holds(operator: str, values: Sequence[str], value: str | None) -> bool:
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    return False  # Exists with values cannot be parsed, and matches nothing


def _size(claim: PersistentVolumeClaim) -> int:
    return nano_value(claim.spec.resources.requests.get("storage", "0"))


def storage_score(outcome: Outcome, claims: Sequence[PersistentVolumeClaim], line: Callable[[int], int]) -> int:
    """The score for what became of *claims*; *line* goes from utilization to score."""
    by_class: dict[str, list[int]] = {}
    for claim in claims:
        requested = _size(claim) // 10**9
        volume, capacity = outcome.bound.get(claim.key), outcome.made.get(claim.key)
        use = by_class.setdefault(claim.class_name, [0, 0])
        if volume is not None:
            use[0], use[1] = use[0] + requested, use[1] + nano_value(volume.spec.capacity["storage"]) // 10**9
        elif not outcome.bound and capacity is not None and capacity.capacity is not None:
            use[0], use[1] = use[0] + requested, nano_value(capacity.capacity) // 10**9
    counted = [(requested, capacity) for requested, capacity in by_class.values() if capacity]
    scores = [line(100 if requested > capacity else 100 * requested // capacity) for requested, capacity in counted]
    return math.floor(sum(scores) / len(scores) + 0.5) if scores else 0
