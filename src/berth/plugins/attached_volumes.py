"""`AttachedVolumes`: how many volumes of which driver each node holds, and how many it can hold.

Kept as pods, claims, volumes, drivers and attachments come and go: what changed is noted, and looked up again when
somebody asks.  So a decision costs the same however many pods run.  A volume counts once per node, however many pods
use it; one that is attached although no pod on the node uses it counts too.  Owned by the NodeVolumeLimits plugin.

Source: k8s pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from berth.api.meta import PodUid
from berth.api.pod import Volume
from berth.api.storage import CsiNode, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from berth.cluster.cache import Cluster
from berth.cluster.columns import Amounts, Mask, Rows, grown
from berth.cluster.kinds import CSI_NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, VOLUME_ATTACHMENT
from berth.cluster.objects import Objects
from berth.cluster.pods import PodInfo
from berth.cluster.volumes import ClaimUse, PodOnRow, claims_of
from berth.framework.status import PluginError
from berth.plugins.csi_migration import (
    BY_NAME,
    CsiSource,
    TranslationError,
    in_tree_driver,
    translate_persistent_volume,
    translate_volume,
)
from berth.plugins.storage import claim_not_found, not_owner, owns

NOT_INSTALLED: Final = -2
NO_LIMIT: Final = -1


class Countable(NamedTuple):
    """A volume that counts toward the limit of a driver.

    Attributes:
        driver: the storage driver.
        handle: by which the driver knows it; empty as long as there is only a claim.
        claim: ``namespace/name`` of that claim.
    """

    driver: str
    handle: str
    claim: str = ""


class MissingClaimError(Exception):
    """A claim of the pod that is to be placed does not exist."""


def countable_volumes(objects: Objects, pod: PodInfo, *, migrated: bool, is_new: bool) -> Iterator[Countable]:
    """The volumes of a pod that count.

    Args:
        objects: claims, volumes and classes.
        pod: the pod.
        migrated: whether the node has a CSINode, without which drivers that have a successor do not count.
        is_new: whether it is the pod that is to be placed; missing claims of others are overlooked.

    Raises:
        MissingClaimError: a claim of the new pod does not exist.
        PluginError: a volume names no claim, or one that was made for another pod, or no disk that there can be.
    """
    for volume in pod.volumes:
        use = next(claims_of(pod.pod, (volume,)), None)
        found = _of_disk(volume, migrated=migrated) if use is None else None
        if use is not None:
            claim = _claim_of(objects, pod, use, is_new=is_new)
            found = None if claim is None else _of_claim(objects, claim, migrated=migrated)
        if found is not None and found.driver and (found.handle or found.claim):
            yield found


def _claim_of(objects: Objects, pod: PodInfo, use: ClaimUse, *, is_new: bool) -> PersistentVolumeClaim | None:
    if not use.name:
        raise PluginError("PersistentVolumeClaim had no name")
    namespace = pod.pod.metadata.namespace
    claim = objects.get(PERSISTENT_VOLUME_CLAIM, use.name, namespace)
    if claim is None:
        if is_new:
            raise MissingClaimError(f"looking up PVC {namespace}/{use.name}: {claim_not_found(use.name)}")
        return None
    if use.is_ephemeral and not owns(pod.pod, claim):
        raise PluginError(not_owner(pod.pod, claim))
    return claim


def _of_claim(objects: Objects, claim: PersistentVolumeClaim, *, migrated: bool) -> Countable | None:
    name = claim.spec.volume_name
    volume = objects.get(PERSISTENT_VOLUME, name) if name else None
    if volume is not None:
        return _of_volume(volume, migrated=migrated)
    found = objects.get(STORAGE_CLASS, claim.class_name) if claim.class_name else None
    if found is None:
        return None
    in_tree = BY_NAME.get(found.provisioner)
    if in_tree is None:
        return Countable(found.provisioner, "", claim.key)
    return Countable(in_tree.successor, "", claim.key) if migrated and in_tree.switched else None


def _of_volume(volume: PersistentVolume, *, migrated: bool) -> Countable | None:
    if volume.spec.csi is not None:
        return Countable(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    in_tree = in_tree_driver(volume.spec)
    if in_tree is None or not (migrated and in_tree.switched):
        return None
    try:
        return _counted(translate_persistent_volume(volume))
    except TranslationError:
        return None


def _of_disk(volume: Volume, *, migrated: bool) -> Countable | None:
    in_tree = in_tree_driver(volume)
    if in_tree is None or not (migrated and in_tree.switched):
        return None
    try:
        return _counted(translate_volume(volume))
    except TranslationError as error:
        raise PluginError(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _counted(source: CsiSource | None) -> Countable | None:
    return None if source is None else Countable(source.driver, source.handle)


class AttachedVolumes:
    """Counts and limits by driver and row.

    Args:
        cluster: the nodes, and the pods and objects that it listens to.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._table, self._objects = cluster.table, cluster.objects
        self._capacity = 0
        self._limits: dict[str, Amounts] = {}
        self._used: dict[str, Amounts] = {}
        self._has_csi_node: Mask = np.zeros(0, dtype=np.bool_)
        self._is_limited: Mask = np.zeros(0, dtype=np.bool_)
        self._names: dict[int, str] = {}  # the nodes in the rows, when they were last looked at
        self._membership = -1
        self._of_pod: dict[PodOnRow, tuple[Countable, ...]] = {}
        self._holders: defaultdict[Countable, Counter[int]] = defaultdict(Counter)  # row -> how many pods use it there
        self._faults: defaultdict[int, dict[PodUid, str]] = defaultdict(dict)
        self._attached: dict[int, frozenset[Countable]] = {}
        self._changed_pods: dict[PodOnRow, None] = {}
        self._changed_nodes: dict[str, None] = {}
        self._naming: defaultdict[str, set[str]] = defaultdict(set)  # volume -> claims that name it
        self._attachments: defaultdict[str, dict[str, VolumeAttachment]] = defaultdict(dict)  # by node and name
        self._attached_to: defaultdict[str, set[str]] = defaultdict(set)  # volume -> nodes
        self._start(cluster)

    # -- asking ------------------------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Look up again what changed since last time; whatever is asked afterwards is true now."""
        capacity = len(self._table.live)
        if capacity > self._capacity:
            self._grow(capacity)
        if self._table.membership != self._membership:
            self._note_new_nodes()
        for name in self._changed_nodes:
            row = self._table.row_of(name)
            if row is not None:
                self._look_at_node(row, name)
        self._changed_nodes.clear()
        for user in self._changed_pods:
            self._look_at_pod(user)
        self._changed_pods.clear()

    def limits(self, driver: str, rows: Rows) -> Amounts:
        """int64, shape (len(rows),): how many volumes of *driver* nodes hold at most; or NO_LIMIT or NOT_INSTALLED."""
        column = self._limits.get(driver)
        return np.full(len(rows), NOT_INSTALLED, dtype=np.int64) if column is None else column[rows]

    def used(self, driver: str, rows: Rows) -> Amounts:
        """int64, shape (len(rows),): how many volumes of *driver* nodes hold."""
        column = self._used.get(driver)
        return np.zeros(len(rows), dtype=np.int64) if column is None else column[rows]

    def holders(self, volume: Countable) -> Iterable[int]:
        """The rows on which a pod uses *volume*."""
        return self._holders.get(volume, ())

    def holders_on(self, volume: Countable, row: int) -> int:
        """How many pods use *volume* on one node."""
        return self._holders.get(volume, _NOWHERE).get(row, 0)

    def is_attached(self, volume: Countable, row: int) -> bool:
        """Whether *volume* is attached to a node, whoever uses it."""
        return volume in self._attached.get(row, ())

    def has_csi_node(self, rows: Rows) -> Mask:
        """bool, shape (len(rows),): which nodes have told of their drivers."""
        return self._has_csi_node[rows]

    def fault(self, rows: Rows) -> str | None:
        """What is wrong with a pod on one of those *rows* that have a limit; None if nothing is."""
        if not self._faults:
            return None
        broken = [row for row in rows.tolist() if row in self._faults and self._is_limited[row]]
        return next(iter(self._faults[broken[0]].values())) if broken else None

    # -- listening ---------------------------------------------------------------------------------------------------

    def _start(self, cluster: Cluster) -> None:
        objects, volumes = cluster.objects, cluster.table.volumes
        for claim in objects.list(PERSISTENT_VOLUME_CLAIM):
            self._claim_changed(None, claim)
        for attachment in objects.list(VOLUME_ATTACHMENT):
            self._attachment_changed(None, attachment)
        for row, pods in volumes.rows().items():
            self._changed_pods.update((PodOnRow(row, uid), None) for uid in pods)
        volumes.listen(self._pod_changed)
        objects.listen(PERSISTENT_VOLUME_CLAIM, self._claim_changed)
        objects.listen(PERSISTENT_VOLUME, self._volume_changed)
        objects.listen(STORAGE_CLASS, self._class_changed)
        objects.listen(CSI_NODE, self._csi_node_changed)
        objects.listen(VOLUME_ATTACHMENT, self._attachment_changed)

    def _pod_changed(self, user: PodOnRow) -> None:
        self._changed_pods[user] = None

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if old is not None and new is not None and _facts(old) == _facts(new):
            return
        if old is not None and old.spec.volume_name:
            self._naming[old.spec.volume_name].discard(old.key)
        if new is not None and new.spec.volume_name:
            self._naming[new.spec.volume_name].add(new.key)
        for claim in (old, new):
            if claim is not None:
                self._users_changed(claim.key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None and new is not None and _disk(old) == _disk(new):
            return
        volume = new or old
        if volume is None:
            return
        name = volume.metadata.name
        for claim in self._naming.get(name, ()):
            self._users_changed(claim)
        self._changed_nodes.update(dict.fromkeys(self._attached_to.get(name, ())))

    def _users_changed(self, claim: str) -> None:
        self._changed_pods.update(dict.fromkeys(self._table.volumes.users(claim)))

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        found = new or old
        if found is None or (old is not None and new is not None and old.provisioner == new.provisioner):
            return
        for claim in self._objects.list(PERSISTENT_VOLUME_CLAIM):
            if claim.class_name == found.metadata.name and self._volume_of(claim) is None:
                self._users_changed(claim.key)

    def _volume_of(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        return self._objects.get(PERSISTENT_VOLUME, claim.spec.volume_name)

    def _csi_node_changed(self, old: CsiNode | None, new: CsiNode | None) -> None:
        self._changed_nodes.update((node.metadata.name, None) for node in (old, new) if node is not None)

    def _attachment_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        if old is not None:
            self._attachments[old.spec.node_name].pop(old.metadata.name, None)
        if new is not None:
            self._attachments[new.spec.node_name][new.metadata.name] = new
            volume = new.spec.source.persistent_volume_name
            if volume is not None:
                self._attached_to[volume].add(new.spec.node_name)
        self._changed_nodes.update((each.spec.node_name, None) for each in (old, new) if each is not None)

    # -- catching up -------------------------------------------------------------------------------------------------

    def _grow(self, capacity: int) -> None:
        for driver, column in self._limits.items():
            wider = np.full(capacity, NOT_INSTALLED, dtype=np.int64)
            wider[: len(column)] = column
            self._limits[driver] = wider
        self._used = {driver: grown(column, capacity) for driver, column in self._used.items()}
        self._has_csi_node = grown(self._has_csi_node, capacity)
        self._is_limited = grown(self._is_limited, capacity)
        self._capacity = capacity

    def _note_new_nodes(self) -> None:
        """Nodes that came, and those in rows where there was another one before, are to be looked at."""
        names = {row: self._table.name(row) for row in self._table.live_rows().tolist()}
        self._changed_nodes.update((name, None) for row, name in names.items() if self._names.get(row) != name)
        self._names, self._membership = dict(names), self._table.membership

    def _look_at_node(self, row: int, name: str) -> None:
        csi_node = self._objects.get(CSI_NODE, name)
        drivers = {} if csi_node is None else {driver.name: driver.limit for driver in csi_node.spec.drivers}
        for driver in drivers:
            if driver not in self._limits:
                self._limits[driver] = np.full(self._capacity, NOT_INSTALLED, dtype=np.int64)
        for driver, column in self._limits.items():
            limit = drivers.get(driver, NOT_INSTALLED)
            column[row] = NO_LIMIT if limit is None else limit
        self._is_limited[row] = any(limit is not None for limit in drivers.values())
        if bool(self._has_csi_node[row]) is (csi_node is None):
            self._has_csi_node[row] = csi_node is not None
            self._changed_pods.update((PodOnRow(row, uid), None) for uid in self._table.volumes.pods(row))
        attached = frozenset(self._attached_volumes(name))
        before = self._attached.get(row, frozenset())
        for volume in before ^ attached:
            if not self._holders.get(volume, _NOWHERE).get(row):
                self._count(volume, row, 1 if volume in attached else -1)
        self._attached[row] = attached

    def _attached_volumes(self, node: str) -> Iterator[Countable]:
        for attachment in self._attachments.get(node, {}).values():
            name = attachment.spec.source.persistent_volume_name
            volume = self._objects.get(PERSISTENT_VOLUME, name) if name else None
            if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
                yield Countable(attachment.spec.attacher, volume.spec.csi.volume_handle)

    def _look_at_pod(self, user: PodOnRow) -> None:
        row = user.row
        faults = self._faults.get(row)
        if faults is not None:
            faults.pop(user.uid, None)
            if not faults:
                del self._faults[row]
        info = self._table.volumes.pods(row).get(user.uid)
        volumes: tuple[Countable, ...] = ()
        if info is not None:
            migrated = bool(self._has_csi_node[row])
            try:
                found = countable_volumes(self._objects, info, migrated=migrated, is_new=False)
                volumes = tuple(dict.fromkeys(found))
            except PluginError as error:
                self._faults[row][user.uid] = str(error)
        for volume in self._of_pod.pop(user, ()):
            self._release(volume, row)
        for volume in volumes:
            self._hold(volume, row)
        if info is not None:
            self._of_pod[user] = volumes

    def _hold(self, volume: Countable, row: int) -> None:
        holders = self._holders[volume]
        holders[row] += 1
        if holders[row] == 1 and volume not in self._attached.get(row, ()):
            self._count(volume, row, 1)

    def _release(self, volume: Countable, row: int) -> None:
        holders = self._holders[volume]
        holders[row] -= 1
        if not holders[row]:
            del holders[row]
            if not holders:
                del self._holders[volume]
            if volume not in self._attached.get(row, ()):
                self._count(volume, row, -1)

    def _count(self, volume: Countable, row: int, sign: int) -> None:
        column = self._used.get(volume.driver)
        if column is None:
            column = self._used[volume.driver] = np.zeros(self._capacity, dtype=np.int64)
        column[row] += sign


_NOWHERE: Final[Mapping[int, int]] = {}


def _facts(claim: PersistentVolumeClaim) -> tuple[Any, ...]:
    """What the count of a claim follows from."""
    return claim.metadata.uid, claim.metadata.owner_references, claim.spec.volume_name, claim.class_name


def _disk(volume: PersistentVolume) -> tuple[Any, ...]:
    """What the count of a volume follows from."""
    in_tree = in_tree_driver(volume.spec)
    return volume.spec.csi, None if in_tree is None else (getattr(volume.spec, in_tree.field), volume.metadata.labels)
