"""What wakes pods that DynamicResources rejected, or holds back from the queue.

Devices that come or change; nodes that come or get other labels or amounts; claims of the pod, and claims of others
that give devices back.  Built and owned by `berth.plugins.dynamic_resources.plugin.DynamicResources`.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``EventsToRegister``.
"""

from collections.abc import Sequence
from typing import Any

from berth.api.dra import ResourceClaim
from berth.api.pod import Pod
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from berth.framework.handle import Handle
from berth.plugins.dynamic_resources.lookup import find_claims
from berth.plugins.hints import optional, own_pod, required


class ClaimHints:
    """The registrations, and the answers."""

    def __init__(self, handle: Handle) -> None:
        self._claims = handle.cluster.device_claims
        self._own_pod = own_pod(handle.behaviours)
        self._with_deletes = handle.behaviours.claim_delete_event

    def registrations(self) -> Sequence[Registration]:
        """The events that are worth a look."""
        changed = Action.ADD | Action.UPDATE
        of_claims = changed | Action.DELETE if self._with_deletes else changed
        of_nodes = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        own = ClusterEvent(self._own_pod, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        return (
            Registration(ClusterEvent(Resource.NODE, of_nodes)),
            Registration(ClusterEvent(Resource.RESOURCE_CLAIM, of_claims), self.after_claim),
            Registration(own, self.after_pod),
            Registration(ClusterEvent(Resource.DEVICE_CLASS, changed)),
            Registration(ClusterEvent(Resource.RESOURCE_SLICE, changed)),
        )

    def after_claim(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Whether a claim of *pod* came or got on, or any claim gave its devices back.

        Raises:
            HintError: the objects are no claims.
        """
        before, after = optional(ResourceClaim, old), optional(ResourceClaim, new)
        if after is None:
            return _queue_if(required(ResourceClaim, before).status.allocation is not None)
        found = find_claims(pod.pod, self._claims)
        if found.fault:
            return Hint.SKIP
        if before is not None and before.status.allocation is not None and after.status.allocation is None:
            return Hint.QUEUE
        if all(claim.metadata.uid != after.metadata.uid for claim in found.claims):
            return Hint.SKIP
        return _queue_if(before is None or before.status != after.status)

    def after_pod(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        """Whether the claims of *pod* are all made by now.

        Raises:
            HintError: the object is no pod.
        """
        del old
        after = required(Pod, new)
        if after.uid != pod.uid:
            return Hint.SKIP
        return _queue_if(not find_claims(after, self._claims).fault)


def _queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP
