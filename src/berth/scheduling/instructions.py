"""What the engine wants done: the only way in which the core acts on the world.

The shell performs instructions and reports back with new events.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from berth.api.meta import NodeName
from berth.api.pod import Pod
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Eviction
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
class Evict:
    """Tell pods to go, so that another one may fit.

    Attributes:
        eviction: who, and for whom.
        live: those of the victims that are not going already, most important first; never empty.
        displaced: less important pods whose nomination for the node is to be cleared.
        in_flight: the pod, if the attempt at it is over, and told of, only once the victims have been told.
    """

    eviction: Eviction
    live: tuple[PodInfo, ...]
    displaced: tuple[Pod, ...]
    in_flight: QueuedPodInfo | None = None


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
        evict: who is to be told to go, once the nomination is written, or before; None if nobody.
        victims: how many pods have to go, also those that are going already; None if no node was chosen for that.
        after_failure: what the message is if victims that come first cannot be told to go, by the reason for that.
    """

    pod: Pod
    controller: str
    reason: str
    message: str
    nominated_node_name: str | None = None
    update_status: bool = True
    evict: Evict | None = None
    victims: int | None = None
    after_failure: Callable[[str], str] | None = None

    def failed(self, why: str) -> "Report":
        """What to tell instead if a victim could not be told to go: the pod keeps the nomination that it had."""
        message = self.message if self.after_failure is None else self.after_failure(why)
        return replace(self, message=message, nominated_node_name=None, evict=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Clear the nomination of a pod, because it cannot come true, and say so.

    Attributes:
        pod: the pod.
        controller: the scheduler name under which the event is reported.
        note: what the event says.
    """

    pod: Pod
    controller: str
    note: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing is to be done about the pod that was popped; there may be more to decide."""

    pod: Pod


Instruction = Bind | Report | GiveUp | Drop
