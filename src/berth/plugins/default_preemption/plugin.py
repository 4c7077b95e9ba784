"""DefaultPreemption: less important pods go, where that makes room for a pod that fits nowhere.

Points: PostFilter, PreEnqueue (a pod that room is being made for waits until its last victim goes).  It finds on which
nodes the pod would fit without the less important pods there, which of these have to go, and where the least is lost;
the pod is nominated for that node, and somebody else carries the evictions out (`berth.framework.interface.Eviction`).
Woken by no event: those who rejected the pod know which events help.

Arguments: ``minCandidateNodesPercentage`` and ``minCandidateNodesAbsolute``; at their defaults all nodes are looked at.

Source: k8s pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go and
pkg/scheduler/framework/preemption/preemption.go; KEP-4832.
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from berth.api.meta import PodUid
from berth.api.pod import Pod
from berth.cluster.kinds import POD_DISRUPTION_BUDGET
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.cluster.ranking import Ranking
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, Hint, Registration
from berth.framework.handle import Handle
from berth.framework.interface import Eviction, NodeStatuses, PostFilterResult
from berth.framework.plugin_args import DefaultPreemptionArgs
from berth.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from berth.framework.what_if import Indices
from berth.plugins.default_preemption.choice import choose
from berth.plugins.default_preemption.dry_run import DryRun, dry_run
from berth.plugins.default_preemption.running import Running
from berth.plugins.default_preemption.sampling import CandidateSampling
from berth.plugins.hints import assigned_pod, required

DISRUPTION_TARGET: Final = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

_NEVER: Final = "Never"
_NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
_WAITING: Final = unresolvable("waiting for the preemption for this pod to be finished")


class DefaultPreemption:
    """Looks at the pods of all nodes, their priorities, and disruption budgets."""

    name = "DefaultPreemption"

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        self._table, self._objects = handle.cluster.table, handle.cluster.objects
        self._sampling = CandidateSampling(args)
        self._ranking = Ranking(self._table)
        self._running = Running(handle.lister)
        self._is_beside_cycles = handle.gates.enabled("SchedulerAsyncPreemption")
        self._refuses_group_members = handle.gates.enabled("WorkloadAwarePreemption")
        self._tells_success = handle.behaviours.preemption_success_message
        self._assigned_pod = assigned_pod(handle.behaviours)

    def kinds(self) -> Sequence[Kind[Any]]:
        """Disruption budgets."""
        return (POD_DISRUPTION_BUDGET,)

    def events_to_register(self) -> Sequence[Registration]:
        """Pods that go away, after which a pod that is held back is looked at again; it is never woken for that."""
        if not self._is_beside_cycles:
            return ()
        return (Registration(ClusterEvent(self._assigned_pod, Action.DELETE), _never),)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Unresolvable as long as victims of the pod have not been told to go."""
        return _WAITING if self._is_beside_cycles and self._running.is_running(pod.uid) else SUCCESS

    def held_back(self, about: Any) -> AbstractSet[PodUid]:
        """The pods whose victims have not all been told to go."""
        if not self._is_beside_cycles:
            return frozenset()
        return self._running.held_back(about.key if isinstance(about, Pod) else None)

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        """Success with a node and those who have to go there; unschedulable where that helps nowhere."""
        del state
        if self._refuses_group_members and pod.pod.spec.scheduling_group is not None:
            return _failed(unschedulable("not eligible due to workload aware preemption enabled"))
        if pod.pod.spec.preemption_policy == _NEVER:
            return _failed(unschedulable("not eligible due to preemptionPolicy=Never."))
        awaited = self._awaited(pod, statuses)
        if awaited is not None:
            text = "not eligible due to a terminating pod on the nominated node."
            return _failed(unschedulable(text))._replace(awaited=awaited)
        if not statuses.num_all_nodes:
            return _failed(error("no nodes available"))
        rows = statuses.unschedulable_rows()
        budgets = self._objects.list(POD_DISRUPTION_BUDGET)
        found = dry_run(self._ranking, statuses, pod, rows, budgets, self._running.stuck)
        if not len(found.candidates):
            return self._no_candidate(found, statuses.num_all_nodes)
        return self._evict(pod, found, choose(found, self._sampled(pod, found)))

    def _awaited(self, pod: PodInfo, statuses: NodeStatuses) -> Eviction | None:
        """Who goes for the pod already, so that it may not evict others; None if nobody does."""
        name = pod.pod.status.nominated_node_name
        if not name or statuses.get(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return None
        row = self._table.row_of(name)
        there = () if row is None else self._table.pods(row).values()
        going = tuple(other for other in there if self._will_go_for(pod, other))
        return self._eviction(pod, name, going) if going else None

    def _will_go_for(self, pod: PodInfo, other: PodInfo) -> bool:
        return (
            other.priority < pod.priority and is_going_for_another(other.pod) and other.uid not in self._running.stuck
        )

    def _sampled(self, pod: PodInfo, found: DryRun) -> Indices:
        if self._sampling.looks_at_all:
            return found.candidates
        rows = found.ranks.rows
        place_of = {row: place for place, row in enumerate(rows.tolist())}
        order = [place_of[row] for row in self._table.zones.rows() if row in place_of]
        offset = zlib.crc32(pod.uid.encode()) % len(order)
        left = self._sampling.cut(found.candidates, found.violations(), np.array(order, dtype=np.intp), offset)
        return np.array(left, dtype=np.intp)

    def _evict(self, pod: PodInfo, found: DryRun, place: int) -> PostFilterResult:
        node_name, victims = self._table.name(int(found.ranks.rows[place])), found.victims(place)
        text = f"preemption: found a potential placement for pod on node {node_name}, preempting {len(victims)} victims"
        eviction = self._eviction(pod, node_name, victims)
        status = Status(Code.SUCCESS, (text,)) if self._tells_success else SUCCESS
        return PostFilterResult(status, node_name, eviction)

    def _eviction(self, pod: PodInfo, node_name: str, victims: tuple[PodInfo, ...]) -> Eviction:
        return Eviction(
            preemptor=pod, node_name=node_name, victims=victims, plugin=self.name, progress=self._running.of(pod.uid)
        )

    def _no_candidate(self, found: DryRun, num_all_nodes: int) -> PostFilterResult:
        faults = [status.message for status, _ in found.answers if status.code is Code.ERROR]
        faults += [
            f'expected at least one victim pod on node "{self._table.name(row)}"'
            for row in found.ranks.rows[found.spared].tolist()
        ]
        if faults:
            return _failed(error(faults[0] if len(faults) == 1 else f"[{', '.join(faults)}]"))
        return _failed(unschedulable(_why_nowhere(found.answers, num_all_nodes)), "")


def is_going_for_another(pod: Pod) -> bool:
    """Whether *pod* terminates because a scheduler evicted it for a more important one."""
    if pod.metadata.deletion_timestamp is None:
        return False
    targets = (condition for condition in pod.status.conditions if condition.type == DISRUPTION_TARGET)
    first = next(targets, None)
    return first is not None and (first.status, first.reason) == ("True", PREEMPTION_BY_SCHEDULER)


def _why_nowhere(answers: Iterable[tuple[Status, int]], num_all_nodes: int) -> str:
    reasons: Counter[str] = Counter()
    asked = 0
    for status, many in answers:
        asked += many
        for reason in status.reasons:
            reasons[reason] += many
    if num_all_nodes > asked:
        reasons[_NOT_HELPFUL] += num_all_nodes - asked
    parts = sorted(f"{many} {reason}" for reason, many in reasons.items())
    return f"0/{num_all_nodes} nodes are available: {', '.join(parts)}."


def _failed(status: Status, nominated_node_name: str | None = None) -> PostFilterResult:
    return PostFilterResult(Status(status.code, (f"preemption: {status.message}",)), nominated_node_name)


def _never(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod, new
    required(Pod, old)
    return Hint.SKIP
