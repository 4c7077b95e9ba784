"""Placements that a Permit plugin holds back.

One map serves all profiles.  The shell watches the deadlines and waits for the outcome; plugins allow and reject.

Source: k8s pkg/scheduler/framework/runtime/waiting_pods_map.go.
"""

from collections.abc import Callable, Mapping

from berth.api.meta import PodUid
from berth.api.pod import Pod
from berth.framework.status import SUCCESS, Code, Status, unschedulable


class WaitingPod:
    """A placed pod that waits for permission.

    Attributes:
        pod: the pod, with the node it was placed on.
        pending: plugin -> how long it may take, in seconds from the start of the wait; those that have not allowed yet.
        outcome: how the wait ended; None while it goes on.
    """

    def __init__(self, pod: Pod, waits: Mapping[str, float]) -> None:
        self.pod = pod
        self.pending = dict(waits)
        self.outcome: Status | None = None
        self._on_outcome: Callable[[Status], None] | None = None

    def when_settled(self, callback: Callable[[Status], None]) -> None:
        """Call *callback* with the outcome: at once if there is one already."""
        self._on_outcome = callback
        if self.outcome is not None:
            callback(self.outcome)

    def allow(self, plugin: str) -> None:
        """*plugin* no longer holds the pod back; the last one to say so ends the wait."""
        self.pending.pop(plugin, None)
        if not self.pending:
            self._settle(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """*plugin* stops the placement; returns whether the wait was still on."""
        return self._settle(unschedulable(message).by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """The placement is given up for a more important pod; returns whether the wait was still on."""
        return self._settle(Status(Code.ERROR, (message,), plugin))

    def _settle(self, outcome: Status) -> bool:
        if self.outcome is not None:
            return False
        self.outcome = outcome
        self.pending.clear()
        if self._on_outcome is not None:
            self._on_outcome(outcome)
        return True


class WaitingPods:
    """All placements that are held back, by pod."""

    def __init__(self) -> None:
        self._pods: dict[PodUid, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        """Record that a placement is held back."""
        self._pods[waiting.pod.uid] = waiting

    def get(self, uid: PodUid) -> WaitingPod | None:
        """The wait of one pod, if it is on."""
        return self._pods.get(uid)

    def remove(self, uid: PodUid) -> None:
        """Forget a wait that has ended."""
        self._pods.pop(uid, None)

    def reject(self, uid: PodUid) -> bool:
        """Stop the placement of a pod that is going away; returns whether it was held back."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")
