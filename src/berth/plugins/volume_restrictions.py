"""VolumeRestrictions: disks that can be used once per node, and claims that one pod alone may use.

Points: PreFilter (sits out for pods that neither name a disk in their spec nor want a claim that another pod holds;
kept true while pods are added and taken away), Filter.  Rejects as unschedulable: evicting whoever holds the disk or
claim helps.  Woken by pods that go away and share a disk or claim with it, by any new node, and by claims of its own
that come.  Takes no arguments.

A disk of one of four kinds that is named in the spec of a pod, without a claim, conflicts with itself on the same node;
most kinds can be shared by those who only read.  A claim with the access mode ReadWriteOncePod is taken as long as a
pod on any node uses it.

Source: k8s pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from berth.api.pod import Pod, Volume
from berth.api.storage import READ_WRITE_ONCE_POD
from berth.cluster.columns import Rows
from berth.cluster.kinds import PERSISTENT_VOLUME_CLAIM
from berth.cluster.nodes import NodeTable
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.cluster.volumes import claims_of
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable, unschedulable
from berth.framework.what_if import Guests, Indices, Shifts
from berth.plugins.hints import assigned_pod, required
from berth.plugins.storage import claim_not_found, hint_for_named_claim, signature

REASON_DISK: Final = "node(s) had no available disk"
REASON_CLAIM: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_DISK: Final = 1
_CLAIM: Final = 2


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the pod needs for itself.

    Attributes:
        disks: the disks that it names.
        claims: names of its claims that one pod alone may use.
        held: how many times these are held by others.
    """

    disks: tuple[Volume, ...]
    claims: frozenset[str]
    held: int

    def after(self, other: PodInfo, sign: int) -> "_Wanted":
        """The same once *other* has come (1) or gone (-1)."""
        return replace(self, held=self.held + sign * self.shared_with(other))

    def shared_with(self, other: PodInfo) -> int:
        """How many of the claims *other* names too."""
        return sum(name in self.claims for name in _named_claims(other))


_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()
_STATE: Final = StateKey[_Wanted]("PreFilterVolumeRestrictions")


def conflict(one: Volume, other: Volume) -> bool:
    """Whether two volumes that pods name in their specs are one disk that cannot be used twice on a node.

    Source:
        k8s pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go, ``isVolumeConflict``.
    """
    if one.gce_persistent_disk and other.gce_persistent_disk:
        disk, same = one.gce_persistent_disk, other.gce_persistent_disk
        return disk.pd_name == same.pd_name and not (disk.read_only and same.read_only)
    if one.aws_elastic_block_store and other.aws_elastic_block_store:
        return one.aws_elastic_block_store.volume_id == other.aws_elastic_block_store.volume_id
    if one.iscsi and other.iscsi:
        return one.iscsi.iqn == other.iscsi.iqn and not (one.iscsi.read_only and other.iscsi.read_only)
    if one.rbd and other.rbd:
        shared = not set(one.rbd.monitors).isdisjoint(other.rbd.monitors)
        same_image = (one.rbd.pool, one.rbd.image) == (other.rbd.pool, other.rbd.image)
        return shared and same_image and not (one.rbd.read_only and other.rbd.read_only)
    return False


class VolumeRestrictions:
    """Compares the disks and claims of the pod with those that other pods use."""

    name = "VolumeRestrictions"
    scope = Scope.CLUSTER

    def __init__(self, handle: Handle) -> None:
        self._table, self._objects = handle.cluster.table, handle.cluster.objects
        self._assigned_pod = assigned_pod(handle.behaviours)
        self._rejections = {_DISK: unschedulable(REASON_DISK), _CLAIM: unschedulable(REASON_CLAIM)}

    def kinds(self) -> Sequence[Kind[Any]]:
        """Claims, for their access modes."""
        return (PERSISTENT_VOLUME_CLAIM,)

    def events_to_register(self) -> Sequence[Registration]:
        """Pods that go away, new nodes, and new claims."""
        return (
            Registration(ClusterEvent(self._assigned_pod, Action.DELETE), _hint_for_deleted_pod),
            Registration(NODE_ADD),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), hint_for_named_claim),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing of pods without volumes; those with volumes are like no other."""
        return signature(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip if the pod names no disk, and nobody holds a claim that it needs for itself."""
        if not pod.volumes:
            return _SITS_OUT
        alone: set[str] = set()
        namespace = pod.pod.metadata.namespace
        for name in _named_claims(pod):
            claim = self._objects.get(PERSISTENT_VOLUME_CLAIM, name, namespace)
            if claim is None:
                return PreFilterResult(unresolvable(claim_not_found(name)))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                alone.add(name)
        live = self._table.live
        held = sum(self._table.volumes.is_mounted(f"{namespace}/{name}", live) for name in alone)
        disks = tuple(filter(_is_restricted, pod.volumes))
        if not disks and not held:
            return _SITS_OUT
        state.write(_STATE, _Wanted(disks, frozenset(alone), held))
        return _GOES_ON

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Count the claims of *other*."""
        del pod, row
        state.write(_STATE, self._wanted(state).after(other, 1))
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """No longer count the claims of *other*."""
        del pod, row
        state.write(_STATE, self._wanted(state).after(other, -1))
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 where a disk is in use; else 2 everywhere if somebody holds a claim.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        wanted = self._wanted(state)
        rejected = np.full(len(rows), _CLAIM if wanted.held > 0 else 0, dtype=np.int16)
        if wanted.disks:
            rejected[np.isin(rows, self._rows_in_conflict(wanted.disks))] = _DISK
        return rejected

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> "VolumesBoard":
        """Disks and claims on many nodes while pods come and go.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        return VolumesBoard(self._table, guests, self._wanted(state))

    def rejection(self, code: int) -> Status:
        """One answer for disks, one for claims."""
        return self._rejections[code]

    def _rows_in_conflict(self, disks: Iterable[Volume]) -> list[int]:
        return [
            row
            for row, pods in self._table.volumes.rows().items()
            if any(_conflict_with(disks, other.volumes) for other in pods.values())
        ]

    @staticmethod
    def _wanted(state: CycleState) -> _Wanted:
        try:
            return state.read(_STATE)
        except StateNotFoundError as error:
            raise PluginError(f'cannot read "{_STATE.name}" from cycleState') from error


class VolumesBoard:
    """By place, how many pods hold a disk of the pod, and how often its claims are held anywhere.

    Args:
        table: the nodes.
        guests: who comes and goes.
        wanted: what the pod needs for itself.
    """

    def __init__(self, table: NodeTable, guests: Guests, wanted: _Wanted) -> None:
        rows, places = guests.rows, guests.places
        holders = (
            sum(_conflict_with(wanted.disks, other.volumes) for other in table.volumes.pods(row).values())
            for row in rows.tolist()
        )
        by_disk = guests.weights(lambda guest: _conflict_with(wanted.disks, guest.volumes))
        self._disks = Shifts(places, by_disk, np.fromiter(holders, np.int64, len(rows)))
        self._claims = Shifts(places, guests.weights(wanted.shared_with), np.full(len(rows), wanted.held, np.int64))

    def copy(self) -> Self:
        """A board that goes its own way from here."""
        twin = object.__new__(type(self))
        twin._disks, twin._claims = self._disks.copy(), self._claims.copy()
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come or go."""
        self._disks.move(guests, by)
        self._claims.move(guests, by)

    def judge(self, places: Indices) -> Rejections:
        """1 where a disk is in use; else 2 where a claim is held."""
        claimed = np.where(self._claims.sums[places] > 0, _CLAIM, 0)
        return np.where(self._disks.sums[places] > 0, _DISK, claimed).astype(np.int16)


def _is_restricted(volume: Volume) -> bool:
    return bool(volume.gce_persistent_disk or volume.aws_elastic_block_store or volume.iscsi or volume.rbd)


def _named_claims(pod: PodInfo) -> list[str]:
    return [use.name for use in claims_of(pod.pod, pod.volumes) if not use.is_ephemeral]


def _conflict_with(disks: Iterable[Volume], others: Iterable[Volume]) -> bool:
    return any(conflict(disk, other) for disk in disks for other in others)


def _hint_for_deleted_pod(pod: PodInfo, old: Any, new: Any) -> Hint:
    del new
    gone = required(Pod, old)
    if gone.metadata.namespace != pod.pod.metadata.namespace:
        return Hint.SKIP
    if _conflict_with(pod.volumes, gone.spec.volumes):
        return Hint.QUEUE
    mine = _named_claims(pod)
    shares = any(use.name in mine for use in claims_of(gone, gone.spec.volumes) if not use.is_ephemeral)
    return Hint.QUEUE if shares else Hint.SKIP
