"""`Engine`: events in, instructions out.

The shell tells it what the API server shows (`pod_added`, `node_updated`, ...), asks it for the next decision, and
reports how the instructions went.  All state of the scheduler lives behind this face; nothing here waits or does I/O.

Source: k8s pkg/scheduler/eventhandlers.go and schedule_one.go.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace

from berth.api.meta import PodKey, PodUid
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.quantity import QuantityError
from berth.cluster.cache import CacheError, Cluster
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM
from berth.cluster.objects import K, Kind
from berth.cluster.pods import PodInfo
from berth.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
    Resource,
)
from berth.framework.features import Features
from berth.framework.profile import Profile
from berth.framework.run import run_unreserve
from berth.framework.status import SUCCESS, Status, error
from berth.queueing.changes import detect_node_changes, detect_pod_changes
from berth.queueing.entries import QueuedPodInfo
from berth.queueing.queue import SchedulingQueue
from berth.scheduling.algorithm import Algorithm
from berth.scheduling.cycle import Failure, Placement, failure_of_one_node, run_cycle
from berth.scheduling.failures import Failures
from berth.scheduling.instructions import Bind, Drop, Evict, Instruction, Report
from berth.scheduling.nominations import Nominations
from berth.scheduling.observer import EngineObserver, NoCycleObserver
from berth.scheduling.waiting import WaitingPod, WaitingPods

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How the engine decides.

    Attributes:
        percentage_of_nodes_to_score: for profiles that do not say; 0 scores all nodes.
        seed: settles ties between equally good nodes.
        victim_patience_s: how long pods that have to go may take beyond their grace period, before the pod that they
            have to go for is tried elsewhere.
    """

    percentage_of_nodes_to_score: int = 0
    seed: int = 0
    victim_patience_s: float = 60.0


class Engine:
    """The scheduler without its shell.

    Args:
        profiles: scheduler name -> plugins.
        cluster: nodes and placed pods; the profiles' plugins hold the same one.
        queue: waiting pods.
        features: gates and behaviours of this version of Kubernetes.
        lister: a pod by its key as the API server last showed it; None if it does not.
        settings: how to decide.
        observer: hears of the steps of each cycle, and of events.

    Attributes:
        on_placement_lost: called when a pod that is on its way to a node is going away or gone: what was promised to it
            is of use to others, such as the next pod of its name.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        features: Features,
        lister: Callable[[PodKey], Pod | None],
        settings: EngineSettings | None = None,
        observer: EngineObserver | None = None,
    ) -> None:
        settings, observer = settings or EngineSettings(), observer or NoCycleObserver()
        self.cluster = cluster
        self.queue = queue
        self.waiting = WaitingPods()
        self.nominations = Nominations(queue, cluster, lister, profiles.keys(), settings.victim_patience_s)
        self._failures = Failures(
            queue, self.nominations, lister, evicts_beside=features.enabled("SchedulerAsyncPreemption")
        )
        self.profiles = profiles
        self._features = features
        self._lister = lister
        self._observer, self._now = observer, observer.stopwatch
        self._is_deciding = False
        self.on_placement_lost: Callable[[PodUid], object] = _nobody_asks
        cluster.assumed_volumes.taken_back = partial(self._taken_back, PERSISTENT_VOLUME)
        cluster.assumed_claims.taken_back = partial(self._taken_back, PERSISTENT_VOLUME_CLAIM)
        cluster.device_claims.taken_back = partial(self._taken_back, RESOURCE_CLAIM)
        unassigned = Resource(features.behaviours.unscheduled_pod_event_resource)
        self._unassigned_added = ClusterEvent(unassigned, Action.ADD).label
        self._unassigned_updated = ClusterEvent(unassigned, Action.UPDATE).label
        self._unassigned_deleted = ClusterEvent(unassigned, Action.DELETE).label
        self._algorithms = {
            name: Algorithm(
                profile,
                cluster,
                queue.nominator.pods_on,
                nominated_nodes=queue.nominator.nodes,
                nomination_log=queue.nominator,
                percentage_of_nodes_to_score=settings.percentage_of_nodes_to_score,
                seed=settings.seed,
                observer=observer,
            )
            for name, profile in profiles.items()
        }

    # -- what the API server shows --------------------------------------------------------------------------------

    def pod_added(self, pod: Pod) -> None:
        """A pod appeared."""
        start_s = self._now()
        if pod.spec.node_name:
            self._count_pod(pod)
            self._move(ASSIGNED_POD_ADD, None, pod, spent_s=self._now() - start_s)
        elif pod.spec.scheduler_name in self.profiles:
            self.queue.add(self.cluster.info(pod))
            self._observer.event_handled(self._unassigned_added, self._now() - start_s)
        else:
            self.nominations.foreign_shown(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """A pod changed; *old* is its version before."""
        start_s = self._now()
        if old.uid != new.uid:
            self.pod_deleted(old)
            self.pod_added(new)
        elif old.spec.node_name and self.cluster.placed(new.uid) is not None:
            self._recount_pod(new)
            spent_s = self._now() - start_s
            for event in detect_pod_changes(old, new, self._features.behaviours, self.cluster.rules):
                self._move(event, old, new, spent_s=spent_s)
        elif new.spec.node_name:  # it was bound, or its versions before were malformed
            self._count_pod(new)
            if old.spec.scheduler_name in self.profiles:
                self.queue.delete(old)
            else:
                self.nominations.foreign_gone(old)
            self._move(ASSIGNED_POD_ADD, None, new, spent_s=self._now() - start_s)
        elif old.spec.scheduler_name in self.profiles:
            self._waiting_pod_updated(old, new)
            self._observer.event_handled(self._unassigned_updated, self._now() - start_s)
        elif self.nominations.foreign_shown(new):
            self._nomination_lost(old)

    def pod_deleted(self, pod: Pod, *, final_state_unknown: bool = False) -> None:
        """A pod is gone; *pod* is the last version seen, which may be old if *final_state_unknown*."""
        start_s = self._now()
        placed = self.cluster.placed(pod.uid)
        if pod.spec.node_name or (final_state_unknown and placed is not None and not placed.assumed):
            self._uncount_pod(pod)
            self._move(ASSIGNED_POD_DELETE, pod, None, spent_s=self._now() - start_s)
        if pod.spec.scheduler_name in self.profiles and not pod.spec.node_name:
            self._waiting_pod_deleted(pod)
            self._observer.event_handled(self._unassigned_deleted, self._now() - start_s)
        elif not pod.spec.node_name and self.nominations.foreign_gone(pod):
            self._nomination_lost(pod)

    def node_added(self, node: Node) -> None:
        """A node appeared; pods that found no node at all do not sit out their pauses for the first one."""
        start_s = self._now()
        is_first = not len(self.cluster.table)
        if not self._set_node(node):
            return
        self._move(NODE_ADD, None, node, spent_s=self._now() - start_s)
        if is_first:
            self.queue.end_pauses(NODE_ADD)

    def node_updated(self, old: Node, new: Node) -> None:
        """A node changed; *old* is its version before."""
        if self.cluster.table.row_of(new.metadata.name) is None:  # the versions before were malformed
            self.node_added(new)
            return
        start_s = self._now()
        if not self._set_node(new):
            return
        spent_s = self._now() - start_s
        try:
            events = detect_node_changes(old, new, self._features.gates)
        except QuantityError:  # *old* was malformed, so what changed since the last good version is not known
            self._move(NODE_ADD, None, new, spent_s=spent_s)
            return
        for event in events:
            self._move(event, old, new, spent_s=spent_s)

    def node_deleted(self, node: Node) -> None:
        """A node is gone."""
        self._move(NODE_DELETE, node, None)
        try:
            self.cluster.remove_node(node.metadata.name)
        except CacheError as fault:
            _log.warning("node deleted: %s", fault)
        self.nominations.node_gone(node.metadata.name)

    def object_added(self, kind: Kind[K], obj: K) -> None:
        """An object of another kind appeared."""
        self._object_changed(kind, Action.ADD, None, obj)

    def object_updated(self, kind: Kind[K], old: K, new: K) -> None:
        """An object of another kind changed."""
        self._object_changed(kind, Action.UPDATE, old, new)

    def object_deleted(self, kind: Kind[K], obj: K) -> None:
        """An object of another kind is gone."""
        self._object_changed(kind, Action.DELETE, obj, None)

    def _object_changed(self, kind: Kind[K], action: Action, old: K | None, new: K | None) -> None:
        start_s = self._now()
        if new is not None:
            self.cluster.objects.put(kind, new)
        elif old is not None:
            self.cluster.objects.remove(kind, old.metadata.name, old.metadata.namespace)
        if kind.event_resource:
            self._move(ClusterEvent(kind.event_resource, action), old, new, spent_s=self._now() - start_s)

    def _taken_back(self, kind: Kind[K], promised: K, known: K | None) -> None:
        """What was promised to a placement is free again, or written; what lasts one cycle only is in nobody's way."""
        if not self._is_deciding:
            action = Action.DELETE if known is None else Action.UPDATE
            self._move(ClusterEvent(kind.event_resource, action), promised, known)

    # -- deciding -------------------------------------------------------------------------------------------------

    def next_instruction(self) -> Instruction | None:
        """Take the next pod from the queue and decide about it; None if no pod is ready."""
        if self.nominations.given_up:
            return self.nominations.given_up.popleft()
        queued = self.queue.pop()
        if queued is None:
            return None
        pod = queued.info.pod
        algorithm = self._algorithms.get(pod.spec.scheduler_name)
        if algorithm is None:
            _log.error("profile not found for scheduler name %r", pod.spec.scheduler_name)
            self.queue.done(pod.uid)
            return Drop(pod)
        if pod.metadata.deletion_timestamp is not None:
            self.queue.done(pod.uid)
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            return Report(pod=pod, controller=pod.spec.scheduler_name, reason="", message=note, update_status=False)
        if self.cluster.is_assumed(pod.uid):
            self.queue.done(pod.uid)
            return Drop(pod)
        return self._decide(algorithm, queued)

    def _decide(self, algorithm: Algorithm, queued: QueuedPodInfo) -> Instruction:
        self._is_deciding = True
        try:
            outcome = run_cycle(algorithm, self.cluster, queued.info, queued.attempts)
        except QuantityError as fault:
            outcome = Failure(error(f"pod {queued.info.key}: {fault}"))
        finally:
            self._is_deciding = False
        if isinstance(outcome, Failure):
            return self._failures.returned(queued, outcome)
        return self._bind(algorithm.profile, queued, outcome)

    def _bind(self, profile: Profile, queued: QueuedPodInfo, placement: Placement) -> Bind:
        pod = placement.info.pod
        self.queue.nominator.delete(pod.uid)
        if placement.state.pods_to_activate:
            self.queue.activate(placement.state.pods_to_activate.values())
            placement.state.pods_to_activate.clear()
        waiting = None
        if placement.permit.waits:
            waiting = WaitingPod(pod, placement.permit.waits)
            self.waiting.add(waiting)
        return Bind(
            queued=queued,
            info=placement.info,
            node_name=placement.node_name,
            state=placement.state,
            profile=profile,
            waiting=waiting,
        )

    # -- how instructions went ------------------------------------------------------------------------------------

    def binding_permitted(self, bind: Bind) -> None:
        """The wait for permission is over; from now on no event is kept for the pod."""
        self.waiting.remove(bind.info.uid)
        self.queue.done(bind.info.uid)

    def binding_succeeded(self, bind: Bind) -> None:
        """The API server has the binding."""
        if bind.state.pods_to_activate:
            self.queue.activate(bind.state.pods_to_activate.values())

    def binding_failed(self, bind: Bind, status: Status, *, while_waiting: bool = False) -> Report | None:
        """The placement could not be carried through: give the room back and have the pod tried again.

        Args:
            bind: the instruction.
            status: why.
            while_waiting: whether it was stopped while waiting for permission.

        Returns:
            What to tell the user; None if the pod is gone or another pod has its name.
        """
        pod = bind.info.pod
        self.waiting.remove(bind.info.uid)
        steps = self._algorithms[bind.profile.scheduler_name].steps
        start_s = steps.now()
        run_unreserve(bind.profile, bind.state, bind.info, bind.node_name)
        steps.ran("Unreserve", SUCCESS.code.label, start_s)
        failure = failure_of_one_node(status) if while_waiting else Failure(status)
        forgotten = self._forget(bind)
        if forgotten and not status.rejected:
            self._move(ASSIGNED_POD_DELETE, pod, None)
        report = self._failures.returned(bind.queued, failure)
        if forgotten and status.rejected:
            self._move(ASSIGNED_POD_DELETE, pod, None, lambda other: other.uid != pod.uid)
        return report if isinstance(report, Report) else None

    def _forget(self, bind: Bind) -> bool:
        try:
            self.cluster.forget(bind.info, bind.node_name)
        except CacheError as fault:
            _log.warning("binding failed, and the pod cannot be forgotten: %s", fault)
            return False
        return True

    def still_wanted(self, evict: Evict) -> bool:
        """Whether the pod that victims have to go for is there, and waits for a node."""
        return self._failures.still_wanted(evict)

    def eviction_ended(self, evict: Evict, *, ok: bool) -> None:
        """The victims have been told to go; *ok* unless that failed for some."""
        self._failures.eviction_ended(evict, ok=ok)

    # -- keeping count --------------------------------------------------------------------------------------------

    def _set_node(self, node: Node) -> bool:
        try:
            self.cluster.set_node(node)
        except QuantityError as fault:
            _log.error("node %s: status.allocatable: %s; its last good state stands", node.metadata.name, fault)
            return False
        return True

    def _count_pod(self, pod: Pod) -> None:
        try:
            self.cluster.add_pod(pod)
        except (CacheError, QuantityError) as fault:
            _log.error("pod %s appeared on node %s: %s", pod.key, pod.spec.node_name, fault)

    def _recount_pod(self, pod: Pod) -> None:
        try:
            self.cluster.update_pod(pod)
        except (CacheError, QuantityError) as fault:
            _log.error("pod %s changed on node %s: %s", pod.key, pod.spec.node_name, fault)

    def _uncount_pod(self, pod: Pod) -> None:
        try:
            self.cluster.remove_pod(pod)
        except CacheError as fault:
            _log.error("pod %s deleted: %s", pod.key, fault)

    # -- waiting pods ---------------------------------------------------------------------------------------------

    def _waiting_pod_updated(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if self.cluster.is_assumed(new.uid):
            if old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp is not None:
                self._assumed_pod_deleted(new.uid)
            return
        self.queue.update(old, self.cluster.info(new))
        before = old.status.nominated_node_name
        if before and before != new.status.nominated_node_name:
            self._nomination_lost(old)

    def _waiting_pod_deleted(self, pod: Pod) -> None:
        hoped_for = self.queue.nominator.node_of(pod.uid)
        self.queue.delete(pod)
        if self.cluster.is_assumed(pod.uid):
            self._assumed_pod_deleted(pod.uid)
        elif hoped_for is not None or pod.status.nominated_node_name:
            name = pod.status.nominated_node_name or hoped_for or ""
            self._nomination_lost(replace(pod, status=replace(pod.status, nominated_node_name=name)))

    def _nomination_lost(self, pod: Pod) -> None:
        priority = pod.priority
        self._move(ASSIGNED_POD_DELETE, pod, None, lambda other: other.priority <= priority)

    def _assumed_pod_deleted(self, uid: PodUid) -> None:
        """The room of a pod that is going away is free at once, unless its placement still waits for permission."""
        placed = self.cluster.placed(uid)
        if placed is None:
            return
        if not self.waiting.reject(uid):
            self.cluster.forget(placed.info, placed.node_name)
            self.on_placement_lost(uid)
        self._move(ASSIGNED_POD_DELETE, placed.info.pod, None)

    def _move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        pre_check: Callable[[PodInfo], bool] | None = None,
        *,
        spent_s: float = 0.0,
    ) -> None:
        """Let those pods return that the event may help; *spent_s* is what taking it in cost before."""
        start_s = self._now()
        self.queue.move_all_to_active_or_backoff_queue(event, old, new, pre_check)
        self._observer.event_handled(event.label, spent_s + self._now() - start_s)


def _nobody_asks(uid: PodUid) -> None:
    del uid
