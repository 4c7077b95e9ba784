"""Claims that give up what they have: because no node can use it, or because their pod is not placed after all.

Answers come at once; what they promise is written beside everything else, and the event that follows from the write
brings the pod back.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``PostFilter`` and ``Unreserve``.
"""

from functools import partial
from typing import Final

import msgspec

from berth.api.dra import FINALIZER, ResourceClaim, ResourceClaimStatus
from berth.api.pod import Pod
from berth.framework.handle import ClaimWriter
from berth.plugins.dynamic_resources.attempt import Attempt
from berth.plugins.dynamic_resources.lookup import is_reserved_for

NOTHING_TO_GIVE_UP: Final = "no new claims to deallocate"
NO_USE: Final = "still not schedulable"
DEALLOCATED: Final = "deallocation of ResourceClaim completed"
DELETED: Final = "deletion of ResourceClaim completed"


class GivingUp:
    """Has claims give up what they have.

    Args:
        writer: writes; None where nothing is written.
        explains: whether to say so where nothing is given up.
    """

    def __init__(self, writer: ClaimWriter | None, *, explains: bool) -> None:
        self._writer, self._explains = writer, explains

    def after(self, attempt: Attempt, pod: Pod) -> tuple[str, ...]:
        """What was given up because the pod fits nowhere, as texts for people."""
        if attempt.is_empty:
            return (NOTHING_TO_GIVE_UP,) if self._explains else ()
        for place in sorted(attempt.unavailable):
            claim = attempt.claims[place].claim
            if all(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
                self._deallocate(claim)
                return (DEALLOCATED,)
        left = attempt.existing_special()
        if left is not None:
            self._delete(left)
            return (DELETED,)
        return (NO_USE,) if self._explains else ()

    def release(self, attempt: Attempt, pod: Pod) -> None:
        """Take back what was written for a pod that is not placed after all."""
        for each in attempt.claims:
            if self._writer is not None and each.is_allocated and is_reserved_for(each.claim, pod):
                self._writer.later(partial(self._writer.release, each.claim, pod))
        left = attempt.existing_special()
        if left is not None:
            self._delete(left)

    def _deallocate(self, claim: ResourceClaim) -> None:
        if self._writer is not None:
            free = msgspec.structs.replace(claim, status=ResourceClaimStatus())
            self._writer.later(partial(_update_status, self._writer, claim, free))

    def _delete(self, claim: ResourceClaim) -> None:
        if self._writer is not None:
            self._writer.later(partial(_delete, self._writer, claim))


async def _update_status(writer: ClaimWriter, before: ResourceClaim, after: ResourceClaim) -> None:
    await writer.update_status(before, after)


async def _delete(writer: ClaimWriter, claim: ResourceClaim) -> None:
    finalizers = tuple(each for each in claim.metadata.finalizers if each != FINALIZER)
    if finalizers != claim.metadata.finalizers:
        metadata = msgspec.structs.replace(claim.metadata, finalizers=finalizers)
        await writer.update_finalizers(claim, msgspec.structs.replace(claim, metadata=metadata))
    await writer.delete(claim)
