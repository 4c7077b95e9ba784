"""NodeVolumeLimits: a node takes no more volumes of a storage driver than the driver can attach there.

Points: PreFilter (sits out for pods none of whose volumes can count), Filter.  Rejects as unschedulable: evicting pods
with volumes helps; where a claim of the pod does not exist, as unresolvable.  Woken by drivers that come or can attach
more, by pods with volumes that go away, by claims of its own that come, and by volumes that are detached.  Takes no
arguments.

With the gate VolumeLimitScaling, a driver may ask that its pods keep away from nodes where it is not installed.

Source: k8s pkg/scheduler/framework/plugins/nodevolumelimits/csi.go; KEP-5030.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from berth.api.pod import Pod
from berth.api.storage import CsiNode, VolumeAttachment
from berth.cluster.columns import Mask, Rows
from berth.cluster.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
)
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import SKIP, PluginError, Status, unresolvable, unschedulable
from berth.framework.what_if import Guests
from berth.plugins.attached_volumes import (
    NOT_INSTALLED,
    AttachedVolumes,
    Countable,
    MissingClaimError,
    countable_volumes,
)
from berth.plugins.csi_migration import TranslationError, in_tree_driver, translate_volume
from berth.plugins.hints import assigned_pod, required
from berth.plugins.storage import hint_for_claim, signature
from berth.plugins.volume_limits_board import TOO_MANY, LimitsBoard

REASON: Final = "node(s) exceed max volume count"

_MOST_CODES: Final = int(np.iinfo(np.int16).max)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the pod brings, by driver; drivers in the order of their names.

    Attributes:
        migrated: the volumes that count on nodes that have told of their drivers.
        others: those that count on nodes that have not.
        missing: what is said about a claim that does not exist; empty otherwise.
        fault: why nothing can be said about the pod; empty otherwise.
    """

    migrated: dict[str, frozenset[Countable]]
    others: dict[str, frozenset[Countable]]
    missing: str = ""
    fault: str = ""


_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()
_STATE: Final = StateKey[_Wanted]("PreFilterNodeVolumeLimits")


class NodeVolumeLimits:
    """Counts volumes per node and driver."""

    name = "NodeVolumeLimits"
    scope = Scope.ROW

    def __init__(self, handle: Handle) -> None:
        self._objects = handle.cluster.objects
        self._attached = AttachedVolumes(handle.cluster)
        self._assigned_pod = assigned_pod(handle.behaviours)
        self._heeds_missing_drivers = handle.gates.enabled("VolumeLimitScaling")
        self._statuses: list[Status] = [Status(), unschedulable(REASON)]
        self._codes: dict[Status, int] = {}

    def kinds(self) -> Sequence[Kind[Any]]:
        """Claims, volumes and classes; what drivers are like, and where they have attached what."""
        asked = (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS, CSI_NODE, VOLUME_ATTACHMENT)
        return (*asked, CSI_DRIVER) if self._heeds_missing_drivers else asked

    def events_to_register(self) -> Sequence[Registration]:
        """Drivers, pods that go away, claims, and volumes that are detached."""
        return (
            Registration(ClusterEvent(Resource.CSI_NODE, Action.ADD)),
            Registration(ClusterEvent(Resource.CSI_NODE, Action.UPDATE), _hint_for_csi_node),
            Registration(ClusterEvent(self._assigned_pod, Action.DELETE), _hint_for_deleted_pod),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD), hint_for_claim),
            Registration(ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE), _hint_for_detached_volume),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing of pods without volumes; those with volumes are like no other."""
        return signature(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Find the volumes that count; skip if none can.  What is wrong with them is told where nodes are judged."""
        if not pod.volumes or not _can_count(pod.volumes):
            return _SITS_OUT
        try:
            wanted = _Wanted(self._brought(pod, migrated=True), self._brought(pod, migrated=False))
        except MissingClaimError as error:
            wanted = _Wanted({}, {}, missing=str(error))
        except PluginError as error:
            wanted = _Wanted({}, {}, fault=str(error))
        state.write(_STATE, wanted)
        return _GOES_ON

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 where a driver would have too many volumes; another number where a driver or a claim is missing.

        Raises:
            PluginError: PreFilter was not run, or the pod, or one that is there, cannot be made sense of.
        """
        del pod
        wanted = _read(state)
        if wanted.fault:
            raise PluginError(wanted.fault)
        if wanted.missing:
            return np.full(len(rows), self._code_of(unresolvable(wanted.missing)), dtype=np.int16)
        rejected = np.zeros(len(rows), dtype=np.int16)
        if not wanted.migrated:
            return rejected
        self._attached.catch_up()
        for driver, volumes in wanted.migrated.items():
            rejected[self._exceeds(driver, volumes, rows)] = TOO_MANY
        if self._heeds_missing_drivers:
            self._reject_missing_drivers(wanted, rows, rejected)
        fault = self._attached.fault(rows[rejected <= TOO_MANY])
        if fault is not None:
            raise PluginError(fault)
        return rejected

    def board(self, state: CycleState, pod: PodInfo, guests: Guests) -> LimitsBoard:
        """Volumes of many nodes while pods come and go.

        Raises:
            PluginError: PreFilter was not run, or the pod, or one that is there, cannot be made sense of.
        """
        del pod
        wanted = _read(state)
        if wanted.fault or wanted.missing:
            raise PluginError(wanted.fault or wanted.missing)
        self._attached.catch_up()
        fault = self._attached.fault(guests.rows)
        if fault is not None:
            raise PluginError(fault)

        def volumes_of(guest: int, row: int) -> tuple[Countable, ...]:
            migrated = bool(self._attached.has_csi_node(np.array([row]))[0])
            found = countable_volumes(self._objects, guests.pod(guest), migrated=migrated, is_new=False)
            return tuple(dict.fromkeys(found))

        def overwrite(rows: Rows, rejected: Rejections) -> None:
            if self._heeds_missing_drivers and wanted.migrated:
                self._reject_missing_drivers(wanted, rows, rejected)

        return LimitsBoard(self._attached, guests, wanted.migrated, volumes_of, overwrite)

    def rejection(self, code: int) -> Status:
        """What the number stands for."""
        return self._statuses[code]

    def _brought(self, pod: PodInfo, *, migrated: bool) -> dict[str, frozenset[Countable]]:
        volumes = frozenset(countable_volumes(self._objects, pod, migrated=migrated, is_new=True))
        drivers = sorted({volume.driver for volume in volumes})
        return {driver: frozenset(volume for volume in volumes if volume.driver == driver) for driver in drivers}

    def _exceeds(self, driver: str, volumes: frozenset[Countable], rows: Rows) -> Mask:
        """bool, shape (len(rows),): where *volumes* are more than fit beside what is there."""
        limits = self._attached.limits(driver, rows)
        new = np.full(len(rows), len(volumes), dtype=np.int64)
        for volume in volumes:
            holders = self._attached.holders(volume)
            if holders:
                new -= np.isin(rows, list(holders))
        exceeds: Mask = (limits >= 0) & (new > 0) & (self._attached.used(driver, rows) + new > limits)
        return exceeds

    def _reject_missing_drivers(self, wanted: _Wanted, rows: Rows, rejected: Rejections) -> None:
        """Overwrite the number where a driver is missing whose pods must not go there; the first by name tells."""
        told = self._attached.has_csi_node(rows)
        for driver in reversed(wanted.migrated):
            found = self._objects.get(CSI_DRIVER, driver)
            if found is None or not found.spec.prevent_pod_scheduling_if_missing:
                continue
            missing = self._attached.limits(driver, rows) == NOT_INSTALLED
            if driver not in wanted.others:
                missing &= told
            if np.count_nonzero(missing):
                rejected[missing] = self._code_of(unschedulable(f"{driver} CSI driver is not installed on the node"))

    def _code_of(self, status: Status) -> int:
        code = self._codes.get(status)
        if code is None:
            code = len(self._statuses)
            if code > _MOST_CODES:
                raise PluginError(status.message)
            self._codes[status] = code
            self._statuses.append(status)
        return code


def _read(state: CycleState) -> _Wanted:
    try:
        return state.read(_STATE)
    except StateNotFoundError as error:
        raise PluginError(error.args[0]) from error


def _can_count(volumes: Sequence[Any]) -> bool:
    return any(
        volume.persistent_volume_claim or volume.ephemeral or in_tree_driver(volume) is not None for volume in volumes
    )


def _hint_for_csi_node(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    before, after = required(CsiNode, old), required(CsiNode, new)
    limits = {driver.name: driver.limit for driver in before.spec.drivers}
    grew = any((driver.limit or 0) > (limits.get(driver.name) or 0) for driver in after.spec.drivers)
    return Hint.QUEUE if grew else Hint.SKIP


def _hint_for_deleted_pod(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod, new
    gone = required(Pod, old)
    if not gone.spec.node_name and not gone.status.nominated_node_name:
        return Hint.SKIP
    return Hint.QUEUE if _can_count(gone.spec.volumes) else Hint.SKIP


def _hint_for_detached_volume(pod: PodInfo, old: Any, new: Any) -> Hint:
    del new
    attacher = required(VolumeAttachment, old).spec.attacher
    for volume in pod.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        try:
            source = translate_volume(volume)
        except TranslationError as error:
            raise HintError(str(error)) from error
        if source is not None and source.driver == attacher:
            return Hint.QUEUE
    return Hint.SKIP
