"""VolumeZone: a pod goes only to zones and regions from which its volumes can be reached.

Points: PreFilter (sits out for pods none of whose volumes names a zone), Filter.  Rejects as unresolvable.  Woken by
claims of its own, by volumes that come or move, by new nodes and nodes whose labels change, and by new classes whose
volumes wait for their first pod.  Takes no arguments.

Looks at the labels of volumes that are bound to claims of the pod; a claim that waits for its first pod is left to
VolumeBinding.  A label names one zone, or several with two underscores in between.  A node that has none of the labels
lies in every zone.

Source: k8s pkg/scheduler/framework/plugins/volumezone/volume_zone.go.
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from berth.api.storage import (
    OLD_REGION,
    OLD_ZONE,
    REGION,
    WAIT_FOR_FIRST_CONSUMER,
    ZONE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from berth.cluster.columns import Mask, Rows
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.cluster.volumes import claims_of
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import SKIP, PluginError, Status, unresolvable
from berth.plugins.hints import before_and_after
from berth.plugins.storage import claim_not_found, class_not_found, hint_for_named_claim, signature, volume_not_found

REASON: Final = "node(s) had no available volume zone"
_NEW_NAME: Final = {OLD_ZONE: ZONE, OLD_REGION: REGION}
_KEYS: Final = (OLD_ZONE, OLD_REGION, ZONE, REGION)
_DELIMITER: Final = "__"


class Topology(NamedTuple):
    """A label that a node needs one of the values of."""

    key: str
    values: frozenset[str]


_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()
_STATE: Final = StateKey[tuple[Topology, ...]]("PreFilterVolumeZone")


def topologies(volume: PersistentVolume) -> Iterator[Topology]:
    """Where a volume lies, as far as its labels say; a label with an empty part says nothing."""
    for key in _KEYS:
        text = volume.metadata.labels.get(key)
        if text is not None:
            values = [value.strip() for value in text.split(_DELIMITER)]
            if all(values):
                yield Topology(key, frozenset(values))


class VolumeZone:
    """Compares the zones and regions of volumes with those of nodes."""

    name = "VolumeZone"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, handle: Handle) -> None:
        self._table, self._objects = handle.cluster.table, handle.cluster.objects
        self._rejected = unresolvable(REASON)

    def kinds(self) -> Sequence[Kind[Any]]:
        """Claims, their volumes, and their classes."""
        return (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS)

    def events_to_register(self) -> Sequence[Registration]:
        """Classes, nodes, claims and volumes."""
        changed = Action.ADD | Action.UPDATE
        return (
            Registration(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), _hint_for_class),
            Registration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, changed), hint_for_named_claim),
            Registration(ClusterEvent(Resource.PERSISTENT_VOLUME, changed), _hint_for_volume),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing of pods without volumes; those with volumes are like no other."""
        return signature(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Collect where the bound volumes lie; skip if they lie everywhere."""
        if not pod.volumes:
            return _SITS_OUT
        found: list[Topology] = []
        for use in claims_of(pod.pod, pod.volumes):
            if use.is_ephemeral:
                continue
            volume = self._volume_of(use.name, pod.pod.metadata.namespace)
            if isinstance(volume, str):
                return PreFilterResult(unresolvable(volume))
            if volume is not None:
                found.extend(topologies(volume))
        if not found:
            return _SITS_OUT
        state.write(_STATE, tuple(found))
        return _GOES_ON

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 where the node lies in another zone or region than a volume.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        try:
            found = state.read(_STATE)
        except StateNotFoundError as error:
            raise PluginError(error.args[0]) from error
        bare: Mask = np.ones(len(rows), dtype=np.bool_)
        for key in _KEYS:
            bare &= self._table.label(key).codes_of(rows) == 0
        reached: Mask = np.ones(len(rows), dtype=np.bool_)
        for topology in found:
            reached &= self._lies_in(topology, rows)
        return (~(bare | reached)).astype(np.int16)

    def rejection(self, code: int) -> Status:
        """The one rejection there is."""
        del code
        return self._rejected

    def _volume_of(self, name: str, namespace: str) -> PersistentVolume | str | None:
        """The volume of a claim; why there is none, or None if the claim waits for its first pod."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._objects.get(PERSISTENT_VOLUME_CLAIM, name, namespace)
        if claim is None:
            return claim_not_found(name)
        if not claim.spec.volume_name:
            return self._why_unbound(claim)
        volume = self._objects.get(PERSISTENT_VOLUME, claim.spec.volume_name)
        return volume_not_found(claim.spec.volume_name) if volume is None else volume

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str | None:
        name = claim.class_name
        if not name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        found = self._objects.get(STORAGE_CLASS, name)
        if found is None:
            return class_not_found(name)
        if found.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{name}"'
        return None if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else "PersistentVolume had no name"

    def _lies_in(self, topology: Topology, rows: Rows) -> Mask:
        column = self._table.label(topology.key)
        mask = column.mask(topology.values.__contains__, rows)
        new_name = _NEW_NAME.get(topology.key)
        if new_name is not None:
            lacks_old = column.codes_of(rows) == 0
            mask |= lacks_old & self._table.label(new_name).mask(topology.values.__contains__, rows)
        return mask


def _hint_for_class(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    _, found = before_and_after(StorageClass, old, new)
    return Hint.QUEUE if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP


def _hint_for_volume(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    before, after = before_and_after(PersistentVolume, old, new)
    moved = before is None or list(topologies(before)) != list(topologies(after))
    return Hint.QUEUE if moved else Hint.SKIP
