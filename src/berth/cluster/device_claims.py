"""`DeviceClaims`: resource claims as they count: as shown, as assumed, or with an allocation that is being written.

A pod that was placed takes its devices at once; writing that to the API server takes its time.  Until it is written the
claim is *promised*: it counts as allocated, though nobody else sees it yet.  Pods that share a claim share the promise.
Owned by `berth.cluster.cache.Cluster`, so that all profiles see the same promises.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dra_manager.go, ``claimTracker``.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from berth.api.dra import EXTENDED_RESOURCE_CLAIM, ResourceClaim
from berth.cluster.assumed import AssumeCache, AssumeError
from berth.cluster.kinds import RESOURCE_CLAIM
from berth.cluster.objects import Objects

ClaimChange = Callable[[ResourceClaim | None, ResourceClaim | None], None]
"""(the claim as it counted before, as it counts now); None where it did not or does not count."""


@dataclass(slots=True)
class _Promise:
    claim: ResourceClaim
    sharers: int = 1


class DeviceClaims:
    """All resource claims.

    Args:
        objects: what the API server showed.

    Attributes:
        assumed: the claims without the promises: as written last by us, or else as shown.
        taken_back: called after a promise has ended, with the claim as it was promised and as it is without that, or
            None if it is gone: nothing that the API server shows may come after it.
    """

    def __init__(self, objects: Objects) -> None:
        self.assumed = AssumeCache(objects, RESOURCE_CLAIM)
        self._special: dict[str, ResourceClaim] = {}
        self._promises: dict[str, _Promise] = {}
        self._listeners: list[ClaimChange] = []
        self.taken_back: ClaimChange = _nobody_asks
        self.assumed.listen(self._changed)

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        """The claim of that name without promises; None if there is none."""
        return self.assumed.get(name, namespace)

    def special_of(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that was made for a pod instead of its extended resources, without promises; None if none was."""
        return self._special.get(pod_uid)

    def promised(self, uid: str) -> ResourceClaim | None:
        """The claim with the allocation that is being written; None if none is."""
        promise = self._promises.get(uid)
        return None if promise is None else promise.claim

    def promises(self) -> list[ResourceClaim]:
        """The claims whose allocations are being written, each with its allocation."""
        return [promise.claim for promise in self._promises.values()]

    def wrote(self, claim: ResourceClaim) -> bool:
        """Count *claim* as it was written by us, unless it is shown as it was even later; False if it is not shown."""
        if self.assumed.get(claim.metadata.name, claim.metadata.namespace) is None:
            return False
        with contextlib.suppress(AssumeError):  # a later version is shown
            self.assumed.assume(claim)
        return True

    def promise(self, claim: ResourceClaim) -> None:
        """Count *claim* with the allocation that it has here; a further pod shares a promise that stands."""
        uid = claim.metadata.uid
        promise = self._promises.get(uid)
        if promise is not None:
            promise.sharers += 1
            return
        self._promises[uid] = _Promise(claim)
        self._tell(self._known(claim), claim)

    def withdraw(self, uid: str, *, for_all: bool = False) -> bool:
        """End one pod's share of a promise, or the promise *for_all*; returns whether it is gone by that."""
        promise = self._promises.get(uid)
        if promise is None:
            return False
        if promise.sharers > 1 and not for_all:
            promise.sharers -= 1
            return False
        del self._promises[uid]
        known = self._known(promise.claim)
        self._tell(promise.claim, known)
        self.taken_back(promise.claim, known)
        return True

    def follow(self, change: ClaimChange) -> None:
        """Call *change* for every claim that counts now, and whenever one comes to count as something else."""
        for promise in self._promises.values():
            change(None, promise.claim)
        for claim in self.assumed.list():
            if claim.metadata.uid not in self._promises:
                change(None, claim)
        self._listeners.append(change)

    def _known(self, promised: ResourceClaim) -> ResourceClaim | None:
        """The same claim without the promise."""
        meta = promised.metadata
        known = self.assumed.get(meta.name, meta.namespace)
        return known if known is not None and known.metadata.uid == meta.uid else None

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._index(old, new)
        before, after = self._unless_promised(old), self._unless_promised(new)
        if before is not None or after is not None:
            self._tell(before, after)

    def _index(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        owner = _specially_for(old)
        if owner and old is not None:
            known = self._special.get(owner)
            if known is not None and known.metadata.uid == old.metadata.uid:
                del self._special[owner]
        owner = _specially_for(new)
        if owner and new is not None:
            self._special[owner] = new

    def _unless_promised(self, claim: ResourceClaim | None) -> ResourceClaim | None:
        return None if claim is None or claim.metadata.uid in self._promises else claim

    def _tell(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for listener in self._listeners:
            listener(old, new)


def _nobody_asks(promised: ResourceClaim | None, known: ResourceClaim | None) -> None:
    del promised, known


def _specially_for(claim: ResourceClaim | None) -> str:
    """The uid of the pod for whose extended resources a claim was made; empty if it was made for something else."""
    if claim is None or claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    return next((owner.uid for owner in claim.metadata.owner_references if owner.controller), "")
