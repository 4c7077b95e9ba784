"""What the engine wants done: the only way in which the core acts on the world.

The shell performs instructions and reports back with new events.
"""

from dataclasses import dataclass

from berth.api.meta import NodeName
from berth.api.pod import Pod
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.profile import Profile
from berth.queueing.entries import QueuedPodInfo
from berth.scheduling.waiting import WaitingPod


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Bind:
    """Carry a placement through: wait for permission, prepare, bind.

    Attributes:
        queued: the pod as it was popped, with its history.
        info: the pod with the node it was placed on; it counts there already.
        node_name: that node.
        state: what the plugins worked out.
        profile: the plugins.
        waiting: set if some plugin holds the placement back.
    """

    queued: QueuedPodInfo
    info: PodInfo
    node_name: NodeName
    state: CycleState
    profile: Profile
    waiting: WaitingPod | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Tell the user that an attempt failed: an event and the ``PodScheduled`` condition.

    Attributes:
        pod: the pod.
        controller: the scheduler name under which the event is reported.
        reason: ``Unschedulable`` or ``SchedulerError``.
        message: the whole text.
        nominated_node_name: what to set ``status.nominatedNodeName`` to; empty clears it, None leaves it.
        update_status: whether the condition is to be written too.
    """

    pod: Pod
    controller: str
    reason: str
    message: str
    nominated_node_name: str | None = None
    update_status: bool = True


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is to be done about the pod that was popped; there may be more to decide."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Denominate:
    """Clear ``status.nominatedNodeName``: the node is gone."""

    pod: Pod


Instruction = Bind | Report | Denominate | Drop
