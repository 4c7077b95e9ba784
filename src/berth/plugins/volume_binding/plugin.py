"""VolumeBinding: a pod goes where its claims have, or can get, their volumes, and waits until they have them.

Points: PreFilter (sits out for pods without claims), Filter, PreScore and Score (not normalized; only with the gate
StorageCapacityScoring), Reserve, PreBind.  Rejects as unresolvable.  Woken by claims of its own, by volumes, classes,
nodes and their labels, and by what storage drivers report.

Arguments: ``bind_timeout_seconds``, how long PreBind waits, 0 or more; ``shape``, the line from utilization to score,
only with the gate: at least one point, with utilization rising within 0..100 and scores 0..10.

A claim that is bound asks only that its volume can be reached.  One whose class has the mode ``WaitForFirstConsumer``
gets the smallest volume that fits and can be reached from the node, or a new one where its class has a provisioner, the
topology allows it, and there is room for it.  Reserve promises this to the pod, PreBind writes it to the API server and
waits until the claims are bound.  Any other claim has to be bound before its pod is looked at.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/volume_binding.go; KEP-490, KEP-1472 and KEP-4049.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final

import numpy as np

from berth.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim, StorageClass
from berth.cluster.columns import Rows
from berth.cluster.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.cluster.volumes import ClaimUse, claims_of
from berth.framework.cycle_state import CycleState, StateKey
from berth.framework.events import Registration
from berth.framework.handle import Handle, WriteError
from berth.framework.interface import PreFilterResult, Rejections, Scope, Scores
from berth.framework.plugin_args import VolumeBindingArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, error, unresolvable
from berth.plugins.storage import claim_not_found, not_owner, owns, signature
from berth.plugins.volume_binding.booking import Booking
from berth.plugins.volume_binding.hints import registrations
from berth.plugins.volume_binding.scoring import DEFAULT_SHAPE, UtilizationScorer
from berth.plugins.volume_binding.search import NO_ROOM, NO_VOLUME, OUT_OF_REACH, VOLUME_GONE, Claims, Demand, Search
from berth.plugins.volume_binding.waiting import Waiters

REASONS: Final = {
    OUT_OF_REACH: "node(s) didn't match PersistentVolume's node affinity",
    NO_VOLUME: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    VOLUME_GONE: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
REASON_UNBOUND: Final = "pod has unbound immediate PersistentVolumeClaims"

_LOST: Final = "Lost"
_LOOK_AGAIN_S: Final = 1.0  # also for what nobody wakes us for: the node and the pod
_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()

_CLAIMS: Final = StateKey[Claims]("VolumeBinding")
_BOOKING: Final = StateKey[Booking | None]("VolumeBinding/booking")


class VolumeBinding:
    """Finds, promises and awaits the volumes of pods."""

    name = "VolumeBinding"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, args: VolumeBindingArgs | None, handle: Handle) -> None:
        args = args or VolumeBindingArgs()
        self._cluster, self._writer = handle.cluster, handle.writer
        self._search = Search(handle.cluster)
        self._waiters = Waiters(handle.cluster.objects)
        self._timeout_s = float(args.bind_timeout_seconds)
        self._scorer = None
        if handle.gates.enabled("StorageCapacityScoring"):
            self._scorer = UtilizationScorer(args.shape or DEFAULT_SHAPE)

    def kinds(self) -> Sequence[Kind[Any]]:
        """Claims, volumes and classes, and what storage drivers report."""
        claims = (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS)
        return (*claims, CSI_NODE, CSI_DRIVER, CSI_STORAGE_CAPACITY)

    def events_to_register(self) -> Sequence[Registration]:
        """Claims, volumes, classes, nodes and drivers."""
        return registrations()

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing of pods without volumes; those with volumes are like no other."""
        return signature(pod)

    # -- finding ------------------------------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Sort the claims into bound and waiting ones; skip if there are none.

        Raises:
            PluginError: a class does not say when to bind, or a claim cannot be made sense of.
        """
        if not pod.volumes:
            return _SITS_OUT
        uses = tuple(claims_of(pod.pod, pod.volumes))
        if not uses:
            return _SITS_OUT
        for use in uses:
            fault = self._fault_of(use, pod)
            if fault:
                return PreFilterResult(unresolvable(fault))
        claims = self._sorted(dict.fromkeys(use.name for use in uses), pod.pod.metadata.namespace)
        if claims is None:
            return PreFilterResult(unresolvable(REASON_UNBOUND))
        state.write(_CLAIMS, claims)
        return _GOES_ON

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """What is wrong with the claims on each node, as a sum of numbers; 0 where all is well.

        Raises:
            PluginError: PreFilter was not run, or a volume cannot be made sense of.
        """
        del pod
        return self._search.find(state.read(_CLAIMS), rows).codes

    def rejection(self, code: int) -> Status:
        """One reason for each number in the sum."""
        return unresolvable(*(reason for number, reason in REASONS.items() if code & number))

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip unless storage is scored."""
        del state, pod, rows
        return SKIP if self._scorer is None else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """0..100 by the utilization of storage; 0 for pods without waiting claims."""
        claims = state.read(_CLAIMS) if pod.volumes and self.name not in state.skip_filter else None
        if self._scorer is None or claims is None or not claims.waiting:
            return np.zeros(len(rows), dtype=np.int64)
        return self._scorer.scores(self._search.find(claims, rows), rows)

    # -- promising ----------------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Promise the volumes that were found.

        Raises:
            PluginError: one of them, or the node, has changed meanwhile.
        """
        if not pod.volumes or self.name in state.skip_filter:
            return SUCCESS
        claims = state.read(_CLAIMS)
        if not claims.waiting:
            state.write(_BOOKING, None)
            return SUCCESS
        row = self._cluster.table.row_of(node_name)
        if row is None:
            raise PluginError(f'node "{node_name}" not found')
        booking = Booking(self._cluster, self._search, node_name)
        booking.assume(self._search.find(claims, np.array([row], dtype=np.intp)))
        state.write(_BOOKING, booking)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take the promises back that were not written yet."""
        del node_name
        booking = self._booking(state, pod)
        if booking is not None:
            booking.restore()

    # -- awaiting -----------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Skip if all claims are bound."""
        del node_name
        return SKIP if self._booking(state, pod) is None else SUCCESS

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write the promises, and wait until the claims are bound."""
        booking = self._booking(state, pod)
        if booking is None:
            return error(f'no pod volume found for node "{node_name}"')
        writer = self._writer
        if writer is None:
            return error("nobody writes volumes and claims here")
        wait = writer.wait(self._timeout_s)
        with self._waiters.told(wait, booking):
            try:
                await booking.write(writer)
            except WriteError as fault:
                booking.restore()
                return error(str(fault))
            while await wait.turn(_LOOK_AGAIN_S):
                try:
                    if not self._is_pending(booking, pod):
                        return SUCCESS
                except PluginError as fault:
                    return error(f"binding volumes: {fault}")
        return error("binding volumes: context deadline exceeded")

    def _is_pending(self, booking: Booking, pod: PodInfo) -> bool:
        pending = booking.pending()
        if pending and self._cluster.placed(pod.uid) is None:
            raise PluginError(f'pod does not exist any more: pod "{pod.pod.metadata.name}" not found')
        return pending

    def _booking(self, state: CycleState, pod: PodInfo) -> Booking | None:
        if not pod.volumes or self.name in state.skip_filter:
            return None
        return state.get(_BOOKING)

    # -- claims -------------------------------------------------------------------------------------------------------

    def _fault_of(self, use: ClaimUse, pod: PodInfo) -> str:
        """Why the pod cannot be placed with this claim as it is; empty if it can."""
        namespace = pod.pod.metadata.namespace
        claim = self._cluster.objects.get(PERSISTENT_VOLUME_CLAIM, use.name, namespace)
        if claim is None:
            if use.is_ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
            return claim_not_found(use.name)
        if claim.status.phase == _LOST:
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        return not_owner(pod.pod, claim) if use.is_ephemeral and not owns(pod.pod, claim) else ""

    def _sorted(self, names: Iterable[str], namespace: str) -> Claims | None:
        """The claims by what becomes of them; None if one has to be bound first."""
        bound: list[PersistentVolumeClaim] = []
        waiting: list[Demand] = []
        for name in names:
            claim = self._cluster.assumed_claims.get(name, namespace)
            if claim is None:
                raise PluginError(f'error getting PVC "{namespace}/{name}": {claim_not_found(name)}')
            if claim.is_bound:
                bound.append(claim)
                continue
            storage_class = self._class_that_waits(claim)
            if storage_class is None or claim.spec.volume_name:
                return None
            waiting.append(self._search.demand(claim, storage_class))
        return Claims(tuple(bound), tuple(waiting))

    def _class_that_waits(self, claim: PersistentVolumeClaim) -> StorageClass | None:
        """The class of a claim, if its claims wait for their first pod."""
        name = claim.class_name
        found = self._cluster.objects.get(STORAGE_CLASS, name) if name else None
        if found is None:
            return None
        if found.volume_binding_mode is None:
            raise PluginError(f'VolumeBindingMode not set for StorageClass "{name}"')
        return found if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else None
