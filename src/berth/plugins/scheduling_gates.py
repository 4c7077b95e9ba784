"""SchedulingGates: a pod with scheduling gates waits outside the queue.

Points: PreEnqueue.  Rejects as unresolvable, with the names of the gates.  Woken when the last gate of the pod is
removed.  Takes no arguments.

Source: k8s pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go; KEP-3521.
"""

from collections.abc import Sequence
from typing import Any

from berth.api.pod import Pod
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, Registration
from berth.framework.handle import Handle
from berth.framework.status import SUCCESS, Status, unresolvable
from berth.plugins.hints import before_and_after, own_pod


class SchedulingGates:
    """Keeps gated pods out of the active queue."""

    name = "SchedulingGates"

    def __init__(self, handle: Handle) -> None:
        self._own_pod = own_pod(handle.behaviours)

    def events_to_register(self) -> Sequence[Registration]:
        """The removal of the pod's last gate."""
        event = ClusterEvent(self._own_pod, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (Registration(event, _hint_for_gates),)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Success without gates."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")


def _hint_for_gates(pod: PodInfo, old: Any, new: Any) -> Hint:
    _, changed = before_and_after(Pod, old, new)
    return Hint.QUEUE if changed.uid == pod.uid else Hint.SKIP
