"""Writing what was promised to a pod: its claims get their devices, and the pod gets the right to use them.

To a claim that somebody else changed meanwhile the change is made anew, once we are shown what it is now, unless it
makes no sense any more.
The special claim of extended resources is created first, and the pod told of it at the end.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``bindClaim``.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from berth.api.dra import FINALIZER, AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from berth.api.pod import Pod, PodExtendedResourceClaimStatus
from berth.cluster.assumed import is_older
from berth.cluster.device_claims import DeviceClaims
from berth.framework.handle import ClaimWriter, WriteConflictError, WriteError
from berth.plugins.dynamic_resources.attempt import Attempt, PodClaim
from berth.plugins.dynamic_resources.extended import is_unnamed, with_requests
from berth.plugins.dynamic_resources.lookup import is_reserved_for
from berth.plugins.dynamic_resources.readiness import timestamp_of
from berth.plugins.dynamic_resources.waiting import ClaimWaiters

_TRIES: Final = 10  # pods that share a claim all write to it
_SHOWN_WITHIN_S: Final = 120.0
_LATER_WITHIN_S: Final = 1.0  # a server may also refuse a version that is the latest, if only for a moment
_LOOK_AGAIN_S: Final = 1.0


class ClaimTakenError(Exception):
    """The claim is not what was promised any more; the text says why."""


class Booking:
    """Carries promises through.

    Args:
        claims: where they are kept as promises until they are written.
        waiters: wakes whoever waits for a claim.
        writer: writes.
        clock: seconds since 1970.
        stamps: whether to note when devices were given, which limits the time to make them ready.
    """

    def __init__(
        self,
        claims: DeviceClaims,
        waiters: ClaimWaiters,
        writer: ClaimWriter,
        clock: Callable[[], float],
        *,
        stamps: bool,
    ) -> None:
        self._claims, self._waiters, self._writer = claims, waiters, writer
        self._clock, self._stamps = clock, stamps

    async def write(self, attempt: Attempt, pod: Pod) -> None:
        """Write all that is promised to *pod*, claim by claim.

        Raises:
            WriteError: something was not taken; what was written before stays.
            ClaimTakenError: a claim has become another.
        """
        for each in attempt.claims:
            if not is_reserved_for(each.claim, pod):
                await self._write_named(each, pod)
        if attempt.special is not None and attempt.asked is not None:
            await self._write_special(attempt, attempt.special, pod)

    async def _write_named(self, each: PodClaim, pod: Pod) -> None:
        each.claim = await self._bind(each, pod)
        self._claims.wrote(each.claim)
        self._claims.withdraw(each.claim.metadata.uid, for_all=True)

    async def _write_special(self, attempt: Attempt, each: PodClaim, pod: Pod) -> None:
        asked = attempt.asked
        if asked is None:
            return
        if is_unnamed(each.claim):
            wanted = with_requests(each.claim, asked)
            meta = msgspec.structs.replace(wanted.metadata, name="", uid="")
            try:
                each.claim = await self._writer.create(msgspec.structs.replace(wanted, metadata=meta))
            except WriteError as error:
                raise WriteError(f"create claim for extended resources: {error}") from error
        each.claim = await self._bind(each, pod)
        await self._wait_until_shown(each.claim)
        self._claims.withdraw(each.promised_uid, for_all=True)
        status = PodExtendedResourceClaimStatus(
            request_mappings=asked.mappings, resource_claim_name=each.claim.metadata.name
        )
        try:
            await self._writer.write_special_claim(pod, status)
        except WriteError as error:
            raise WriteError(f"update pod with extended resource claim {each.claim.key}: {error}") from error

    async def _bind(self, each: PodClaim, pod: Pod) -> ResourceClaim:
        claim = each.claim
        for _ in range(_TRIES - 1):
            try:
                return await self._bind_version(claim, each, pod)
            except WriteConflictError:
                claim = await self._later_version(claim)
        return await self._bind_version(claim, each, pod)

    async def _bind_version(self, claim: ResourceClaim, each: PodClaim, pod: Pod) -> ResourceClaim:
        """Write to this version of the claim."""
        key = claim.key
        if claim.metadata.uid != each.claim.metadata.uid or claim.metadata.deletion_timestamp is not None:
            raise ClaimTakenError(f"claim {key} got deleted in the meantime")
        allocation = claim.status.allocation
        doing = "add reservation"
        if each.chosen is not None:
            if allocation is not None:
                raise ClaimTakenError(f"claim {key} got allocated elsewhere in the meantime")
            claim = await self._with_finalizer(claim)
            allocation, doing = self._stamped(each.chosen), "add allocation and reservation"
        elif allocation is None:
            raise ClaimTakenError(f"claim {key} got deallocated elsewhere in the meantime")
        consumer = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.uid)
        consumers = claim.status.reserved_for
        if not is_reserved_for(claim, pod):
            consumers = (*consumers, consumer)
        status = msgspec.structs.replace(claim.status, allocation=allocation, reserved_for=consumers)
        try:
            return await self._writer.update_status(claim, msgspec.structs.replace(claim, status=status))
        except WriteError as error:
            raise type(error)(f"{doing} to claim {key}: {error}") from error

    def _stamped(self, allocation: AllocationResult) -> AllocationResult:
        """With the time of now; an allocation that stands already may not be changed any more."""
        if not self._stamps or allocation.allocation_timestamp is not None:
            return allocation
        return msgspec.structs.replace(allocation, allocation_timestamp=timestamp_of(self._clock()))

    async def _with_finalizer(self, claim: ResourceClaim) -> ResourceClaim:
        finalizers = claim.metadata.finalizers
        if FINALIZER in finalizers:
            return claim
        meta = msgspec.structs.replace(claim.metadata, finalizers=(*finalizers, FINALIZER))
        try:
            return await self._writer.update_finalizers(claim, msgspec.structs.replace(claim, metadata=meta))
        except WriteError as error:
            raise type(error)(f"add finalizer to claim {claim.key}: {error}") from error

    async def _later_version(self, claim: ResourceClaim) -> ResourceClaim:
        """What somebody else made of a claim; the claim itself, to be written again, if that is not shown soon."""
        meta = claim.metadata
        wait = self._writer.wait(_LATER_WITHIN_S)
        with self._waiters.told(wait, (claim.key,)):
            while True:
                known = self._claims.get(meta.name, meta.namespace)
                if known is None:
                    raise ClaimTakenError(f"claim {claim.key} got deleted in the meantime")
                if known.metadata.uid != meta.uid or is_older(meta.resource_version, known.metadata.resource_version):
                    return known
                if not await wait.turn(_LATER_WITHIN_S):
                    return claim

    async def _wait_until_shown(self, claim: ResourceClaim) -> None:
        """Wait until a claim that was just created is shown; only then it can count as what was written."""
        wait = self._writer.wait(_SHOWN_WITHIN_S)
        with self._waiters.told(wait, (claim.key,)):
            while not self._claims.wrote(claim):
                if not await wait.turn(_LOOK_AGAIN_S):
                    raise WriteError(f"claim {claim.key} was created, but is not shown")
