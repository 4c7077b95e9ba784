"""DynamicResources: a pod goes where the devices that it claims are, and gets them for itself, or its share of them.

Points: PreEnqueue (holds pods back whose claims cannot be used), PreFilter (sits out for pods without claims), Filter,
PostFilter (has claims give up devices that stand in the way), Score (normalized), Reserve, PreBind.  Rejects as
unresolvable.  Woken by claims, slices, classes, nodes, and by claims that are made for the pod.

Arguments: ``filter_timeout``, how long devices may be looked for on one node, and ``binding_timeout``, how long devices
may take to be made ready.

A claim that has its devices asks only that the node can reach them.  For all others the allocator looks on each node
for devices that meet all of the pod's claims together.  Reserve promises these to the claims, at once and for all pods
to see; PreBind writes them to the API server, together with the pod's right to use them, and waits until the devices
are ready.  Extended resources that a device class stands behind are turned into a claim of their own.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go; KEP-4381 and those that build on it.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from berth.api.dra import FINALIZER, AllocationResult
from berth.cluster.columns import Rows
from berth.cluster.kinds import DEVICE_CLASS, DEVICE_TAINT_RULE, RESOURCE_CLAIM, RESOURCE_SLICE
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey
from berth.framework.events import Registration
from berth.framework.handle import Handle, WriteError
from berth.framework.interface import NodeStatuses, PostFilterResult, PreFilterResult, Rejections, Scope, Scores
from berth.framework.plugin_args import DynamicResourcesArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, error, unresolvable, unschedulable
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.allocator import Allocator
from berth.plugins.dynamic_resources.attempt import Attempt, PodClaim
from berth.plugins.dynamic_resources.extended import with_requests
from berth.plugins.dynamic_resources.filtering import Judge, Limits
from berth.plugins.dynamic_resources.giving_up import GivingUp
from berth.plugins.dynamic_resources.hints import ClaimHints
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.lookup import find_claims
from berth.plugins.dynamic_resources.preparing import Preparation, Ways
from berth.plugins.dynamic_resources.readiness import State, has_conditions, readiness
from berth.plugins.dynamic_resources.rules import AllocatorRules
from berth.plugins.dynamic_resources.scoring import has_alternatives, score_of_allocated
from berth.plugins.dynamic_resources.standings import Standings
from berth.plugins.dynamic_resources.waiting import ClaimWaiters
from berth.plugins.dynamic_resources.writing import Booking, ClaimTakenError
from berth.plugins.normalize import scale

_LOOK_AGAIN_S: Final = 5.0
_NO_CLAIMS: Final = "no claims"
_SITS_OUT: Final = PreFilterResult(SKIP)
_NOTHING: Final = Attempt()  # of pods without claims; never written to

_ATTEMPT: Final = StateKey[Attempt]("DynamicResources")


class DynamicResources:
    """Finds, promises and awaits the devices of pods."""

    name = "DynamicResources"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, args: DynamicResourcesArgs | None, handle: Handle) -> None:
        args = args or DynamicResourcesArgs()
        cluster, gates = handle.cluster, handle.gates
        self._claims, self._writer = cluster.device_claims, handle.claim_writer
        self._rules = AllocatorRules.of(gates, handle.behaviours)
        inventory, allocated = Inventory(cluster.objects, self._rules), AllocatedState()
        self._claims.follow(allocated.change)
        self._allocator = Allocator(self._rules, inventory, allocated, cluster.objects)
        self._standings = Standings(cluster.table, inventory, allocated, self._allocator)
        self._clock = handle.clock or _no_time
        self._ready_s = (
            args.binding_timeout.seconds if self._rules.binding_conditions and args.binding_timeout else None
        )
        search_s = args.filter_timeout.seconds if args.filter_timeout and handle.stopwatch else None
        limits = Limits(search_s or None, self._ready_s, handle.stopwatch or _no_time, self._clock)
        self._table = cluster.table
        self._judge = Judge(cluster.table, self._allocator, self._standings, limits)
        ways = Ways(gates.enabled("DRAPrioritizedList"), gates.enabled("DRAExtendedResource"))
        self._preparation, self._scores = Preparation(cluster, ways), ways.alternatives
        self._hints, self._waiters = ClaimHints(handle), ClaimWaiters(self._claims)
        self._giving_up = GivingUp(self._writer, explains=handle.behaviours.dra_post_filter_always_explains)

    def kinds(self) -> Sequence[Kind[Any]]:
        """Claims, slices and classes, and rules about taints."""
        kinds = (RESOURCE_CLAIM, RESOURCE_SLICE, DEVICE_CLASS)
        return (*kinds, DEVICE_TAINT_RULE) if self._rules.taint_rules else kinds

    def events_to_register(self) -> Sequence[Registration]:
        """Claims, slices, classes, nodes, and claims that are made for the pod."""
        return self._hints.registrations()

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing of pods without claims; those with claims are like no other.

        Raises:
            QuantityError: an amount is no quantity.
        """
        return None if self._preparation.concerns(pod) else _NO_CLAIMS

    # -- finding ------------------------------------------------------------------------------------------------------

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold pods back whose claims do not exist yet, or are not theirs."""
        if not pod.pod.spec.resource_claims:
            return SUCCESS
        fault = find_claims(pod.pod, self._claims).fault
        return unresolvable(fault) if fault else SUCCESS

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Look the claims up; skip if there are none.

        Raises:
            PluginError: a claim cannot be made sense of.
            QuantityError: an amount is no quantity.
        """
        if not self._preparation.concerns(pod):
            state.write(_ATTEMPT, _NOTHING)
            return _SITS_OUT
        attempt = Attempt()
        state.write(_ATTEMPT, attempt)
        status = self._preparation.begin(attempt, pod)
        return PreFilterResult(SKIP if status.ok and attempt.is_empty else status)

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """The number of a reason where claims cannot be used, or devices not be found; 0 elsewhere.

        Raises:
            PluginError: PreFilter was not run, a claim or class cannot be made sense of, or the search took too long.
        """
        return self._judge.judge(state.read(_ATTEMPT), pod, rows)

    def rejection(self, code: int) -> Status:
        """The reason behind a number."""
        return self._judge.reasons.status(code)

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        """Have a claim give up devices that no node can use which has all else.

        Raises:
            PluginError: PreFilter was not run.
        """
        del statuses
        attempt = state.get(_ATTEMPT)
        if attempt is None:
            raise PluginError("not found")
        return PostFilterResult(unschedulable(*self._giving_up.after(attempt, pod.pod)))

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """8 for each request of which the first alternative is met, 7 for the second, and so on."""
        del pod
        attempt = state.get(_ATTEMPT)
        if not self._scores or attempt is None or not has_alternatives(attempt):
            return np.zeros(len(rows), dtype=np.int64)
        allocated = score_of_allocated(attempt)
        scores: Scores = np.zeros(len(rows), dtype=np.int64)
        for places, finding in attempt.found.among(rows):
            scores[places] = allocated + self._standings.rank(finding.demand, rows[places])
        return scores

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """0..100, in proportion to the best."""
        del state, pod
        return scale(scores)

    # -- promising ----------------------------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Promise the devices that were found.

        Raises:
            PluginError: they cannot be had any more.
        """
        del pod
        attempt = state.get(_ATTEMPT)
        if attempt is None or attempt.is_empty:
            return SUCCESS
        wanting = attempt.wanting()
        row = self._table.row_of(node_name)
        finding = None if row is None else attempt.found.on(row)
        if row is None or finding is None:
            return error("claim allocation not found for node") if wanting else SUCCESS
        if finding.special is not None and attempt.special is not None:
            attempt.asked = finding.special
            wanting.append(attempt.special)
        allocations = self._allocator.allocate(self._table.node(row), finding.demand)
        if len(allocations) != len(wanting):
            return error("claim allocation not found for node")
        for each, allocation in zip(wanting, allocations, strict=True):
            self._promise(attempt, each, allocation)
        return SUCCESS

    def _promise(self, attempt: Attempt, each: PodClaim, allocation: AllocationResult) -> None:
        each.chosen, each.promised_uid = allocation, each.claim.metadata.uid
        claim = each.claim
        if each is attempt.special and attempt.asked is not None:
            claim = with_requests(claim, attempt.asked)
        finalizers = tuple(dict.fromkeys((*claim.metadata.finalizers, FINALIZER)))
        metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
        status = msgspec.structs.replace(claim.status, allocation=allocation)
        self._claims.promise(msgspec.structs.replace(claim, metadata=metadata, status=status))

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        """Take the promises back, and what was written of them."""
        del node_name
        attempt = state.get(_ATTEMPT)
        if attempt is None:
            return
        for each in (*attempt.claims, *(() if attempt.special is None else (attempt.special,))):
            if each.promised_uid:
                self._claims.withdraw(each.promised_uid)
                each.chosen, each.promised_uid = None, ""
        self._giving_up.release(attempt, pod.pod)

    # -- awaiting -----------------------------------------------------------------------------------------------------

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Skip if the pod uses no claims on its node."""
        del pod, node_name
        attempt = state.get(_ATTEMPT)
        return SKIP if attempt is None or not (attempt.claims or attempt.asked) else SUCCESS

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Write the promises, and wait until the devices are ready."""
        attempt, writer = state.read(_ATTEMPT), self._writer
        if writer is None:
            return error("nobody writes claims here")
        stamps = self._rules.binding_conditions
        booking = Booking(self._claims, self._waiters, writer, self._clock, stamps=stamps)
        try:
            await booking.write(attempt, pod.pod)
        except (WriteError, ClaimTakenError) as fault:
            return error(str(fault))
        waiting = [each for each in attempt.claims if has_conditions(each.claim)]
        if attempt.asked is not None and attempt.special is not None and has_conditions(attempt.special.claim):
            waiting.append(attempt.special)
        if not waiting or self._ready_s is None:
            return SUCCESS
        note = f"waiting for binding conditions for device on node {node_name}"
        writer.tell(pod.pod, "BindingConditionsPending", "Scheduling", note)
        return await self._wait_until_ready(waiting, self._ready_s)

    async def _wait_until_ready(self, waiting: Sequence[PodClaim], timeout_s: float) -> Status:
        if self._writer is None:
            return error("nobody writes claims here")
        wait = self._writer.wait(timeout_s)
        keys = [each.claim.key for each in waiting]
        with self._waiters.told(wait, keys):
            while True:
                pending = None
                for each in waiting:
                    meta = each.claim.metadata
                    claim = self._claims.get(meta.name, meta.namespace)
                    if claim is None or claim.metadata.uid != meta.uid:
                        return error(f"claim {each.claim.key} got deleted in the meantime")
                    ready = readiness(claim)
                    if ready.state is State.FAILED:
                        return error(ready.fault)
                    if ready.state is State.PENDING:
                        pending = claim
                if pending is None:
                    return SUCCESS
                if not await wait.turn(_LOOK_AGAIN_S):
                    return error(f"device binding timeout: claim={pending.key}")


def _no_time() -> float:
    return 0.0
