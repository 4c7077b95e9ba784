"""`SchedulingQueue`: all pods that wait to be scheduled, and the order in which they are tried.

The engine adds and updates pods as the API server shows them, pops them for attempts, hands back those that failed, and
tells of every change in the cluster; the queueing hints of the plugins then decide who returns.  A pod is either in one
of the `Places` or in flight.  Everything happens at once and nothing blocks: whoever pops is called back when there is
something to pop.  Metrics, timers and the API server are left to others.

Source: k8s pkg/scheduler/backend/queue/scheduling_queue.go.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from berth.api.meta import PodKey
from berth.api.pod import Pod
from berth.cluster.pods import PodInfo
from berth.framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, Action, ClusterEvent, Resource
from berth.queueing.changes import detect_pod_changes
from berth.queueing.entries import NO_BACKOFF, QueuedPodInfo
from berth.queueing.gate import Gate
from berth.queueing.hints import HintBook, Strategy
from berth.queueing.inflight import InFlight
from berth.queueing.nominator import Nominator
from berth.queueing.observer import NoObserver
from berth.queueing.places import Place, Places
from berth.queueing.settings import QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from berth.api.meta import PodUid
    from berth.framework.features import Behaviours
    from berth.queueing.observer import QueueObserver
    from berth.queueing.settings import QueueProfile

GATED: Final = "gated"

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"

_LOG: Final = logging.getLogger(__name__)


class QueueError(Exception):
    """A pod came back from an attempt although it waits already: a fault of ours, never the user's."""


class SchedulingQueue:
    """The waiting pods.

    Args:
        profiles: what the queue needs of each profile, by scheduler name; the first one's order holds for all.
        clock: wall clock in seconds.
        behaviours: how this version of Kubernetes goes about things.
        lister: the pod of a key as the API server last showed it; None if it is gone.
        settings: timings and switches.
        observer: hears what the metrics need.
        stopwatch: seconds for measuring durations; the wall clock unless given.
        on_activity: called after something arrived that `pop` may return, and when the queue is closed.

    Raises:
        ValueError: there is no profile.

    Attributes:
        nominator: which pods hope for which node.
        closed: whether the scheduler stops; what waits may still be popped.
    """

    def __init__(
        self,
        profiles: Mapping[str, QueueProfile],
        *,
        clock: Callable[[], float],
        behaviours: Behaviours,
        lister: Callable[[PodKey], Pod | None],
        settings: QueueSettings | None = None,
        observer: QueueObserver | None = None,
        stopwatch: Callable[[], float] | None = None,
        on_activity: Callable[[], None] | None = None,
    ) -> None:
        if not profiles:
            raise ValueError("a scheduling queue needs at least one profile, got none")
        self.nominator = Nominator(lister)
        self.closed = False
        self.on_activity = on_activity
        self._clock = clock
        self._behaviours = behaviours
        self._settings = settings or QueueSettings()
        observer, stopwatch = observer or NoObserver(), stopwatch or clock
        hint_maps = {name: profile.hints for name, profile in profiles.items()}
        self._hints = HintBook(hint_maps, behaviours, observer, stopwatch)
        gate = Gate({name: profile.pre_enqueue for name, profile in profiles.items()}, self._hints, observer, stopwatch)
        sort_key = next(iter(profiles.values())).sort_key
        self._gate = gate
        self._places = Places(self._settings, sort_key, gate, clock, observer, self._hints.knows)
        self._in_flight = InFlight(observer)
        unscheduled = Resource(behaviours.unscheduled_pod_event_resource)
        self._pod_add = ClusterEvent(unscheduled, Action.ADD).label
        self._pod_update = ClusterEvent(unscheduled, Action.UPDATE).label

    # What the API server shows

    def add(self, info: PodInfo) -> None:
        """A pod without a node appeared."""
        self._enter(info, self._pod_add)

    def update(self, old: Pod, new: PodInfo) -> None:
        """A pod without a node changed.

        Where the pod is in flight, the change is kept for the case that it comes back.  Where it waits for an event,
        the change itself may be the event.
        """
        events = detect_pod_changes(old, new.pod, self._behaviours, new.rules, own=True)
        if new.uid in self._in_flight:
            for event in events:
                self._in_flight.record(event, old, new.pod)
            return
        entry = self.get_pod(new.key)
        if entry is None:
            self._enter(new, self._pod_update)
            return
        entry.info = new
        entry.forget_likeness()
        self.nominator.update(old, new)
        if self._places.place_of(new.key) is Place.UNSCHEDULABLE:
            self._requeue_after_update(entry, events, old, new.pod)
        else:
            self._places.resort(entry)

    def delete(self, pod: Pod) -> None:
        """A pod is gone, or no longer ours to schedule; nothing happens if it does not wait."""
        self.nominator.delete(pod.uid)
        place = self._places.place_of(pod.key)
        entry = self._places.remove(pod.key)
        if entry is not None and (
            place is Place.UNSCHEDULABLE or self._behaviours.unschedulable_gauge_drops_on_any_delete
        ):
            self._places.count_rejectors(entry, -1)

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Something happened in the cluster; let those pods return that it may help.

        Args:
            event: what happened.
            old: the object before; None for an add.
            new: the object after; None for a delete.
            pre_check: whether a pod may return at all because of this event.
        """
        if not self._hints.is_of_interest(event):
            return
        candidates = self._candidates(event, old if new is None else new)
        if pre_check is not None:
            candidates = [entry for entry in candidates if pre_check(entry.info)]
        self._move(candidates, event, old, new)

    # Attempts

    def pop(self) -> QueuedPodInfo | None:
        """Take the next pod to be tried; None if there is none now.

        Call `done` or `add_unschedulable_if_not_present` for each pod that was popped.
        """
        while (entry := self._places.pop()) is not None:
            if self._take(entry):
                return entry
        return None

    def pop_specific_pod(self, pod: Pod) -> QueuedPodInfo | None:
        """Take one particular pod to be tried, pause or not; None if it does not wait, or is gated."""
        self._activate(pod)
        entry = self._places.active.remove(pod.key)
        return entry if entry is not None and self._take(entry) else None

    def done(self, uid: PodUid) -> None:
        """An attempt is over; events are no longer kept for the pod.  May come twice."""
        self._in_flight.done(uid)

    def add_unschedulable_if_not_present(self, entry: QueuedPodInfo) -> None:
        """Take back a pod whose attempt failed; its rejectors are set, and both sets empty after an error.

        Raises:
            QueueError: it waits already, and stays where it is.
        """
        try:
            self._refuse_twins(entry)
            self._note_failure(entry)
            place = self._requeue(entry, self._strategy_after_attempt(entry), SCHEDULE_ATTEMPT_FAILURE)
        finally:
            self.done(entry.uid)
        if self._places.is_poppable(place):
            self.wake()

    def activate(self, pods: Iterable[Pod]) -> None:
        """Let pods be tried at once, pause or not; those in flight will return at once, unknown ones are left out."""
        activated = False
        for pod in pods:
            if self._activate(pod):
                activated = True
            elif pod.uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, pod)
        if activated:
            self.wake()

    def end_pauses(self, event: ClusterEvent) -> None:
        """Let all pods that pause be tried at once: what they failed for is no longer so, by *event*."""
        activated = False
        for entry in list(self._places.backoff):
            self._places.backoff.remove(entry.key)
            activated |= self._places.move_to_active(entry, event.label, from_backoff=True)
        if activated:
            self.wake()

    # Time

    def flush_backoff_completed(self) -> None:
        """Let those pods be tried whose pause is over; to be called every second, on the second."""
        activated = False
        for entry in self._places.backoff.pop_completed():
            activated |= self._places.move_to_active(entry, BACKOFF_COMPLETE, from_backoff=True)
        if activated:
            self.wake()

    def flush_unschedulable_leftover(self) -> None:
        """Let those pods be tried that waited too long for an event; to be called every 30 seconds."""
        now_s = self._clock()
        due = [entry for entry in self._places.unschedulable if self._waited_too_long(entry, now_s)]
        if not due:
            return
        for entry in due:
            entry.was_flushed_from_unschedulable = True
        self._move(due, UNSCHEDULABLE_TIMEOUT, None, None)
        if self._behaviours.leftover_flush_retries_gated_pods:
            for entry in due:
                if entry.gated:
                    entry.was_flushed_from_unschedulable = False
                    entry.flushed_at_s = now_s

    def close(self) -> None:
        """The scheduler stops: nothing is in flight any more, and whoever waits for `on_activity` is woken."""
        for uid in self._in_flight.uids():
            self._in_flight.done(uid)
        self.closed = True
        self.wake()

    def wake(self) -> None:
        """Tell whoever asks for work that there is some."""
        if self.on_activity is not None:
            self.on_activity()

    # Questions

    def has_work(self) -> bool:
        """Whether there is something for `pop`."""
        return self._places.has_poppable

    def counts(self) -> dict[str, int]:
        """How many pods are where: ``active``, ``backoff``, ``unschedulable`` (and not gated), ``gated``."""
        gated = self._places.unschedulable.gated_count
        return {
            Place.ACTIVE.value: len(self._places.active),
            Place.BACKOFF.value: len(self._places.backoff),
            Place.UNSCHEDULABLE.value: len(self._places.unschedulable) - gated,
            GATED: gated,
        }

    def in_flight_count(self) -> int:
        """How many pods are being tried."""
        return len(self._in_flight)

    def is_in_flight(self, uid: PodUid) -> bool:
        """Whether a pod is being tried."""
        return uid in self._in_flight

    def get_pod(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that key, if it waits; pods in flight do not."""
        return self._places.get(key)

    def entries(self) -> Iterator[QueuedPodInfo]:
        """All waiting pods: active, backoff, unschedulable; within each in no particular order."""
        return iter(self._places)

    def pending_pods(self) -> tuple[list[Pod], str]:
        """All waiting pods, and how many are where, in words."""
        places = self._places
        summary = (
            f"activeQ:{len(places.active)}; backoffQ:{len(places.backoff)}; "
            f"unschedulablePods:{len(places.unschedulable)}"
        )
        return [entry.pod for entry in self.entries()], summary

    # Moves

    def _enter(self, info: PodInfo, label: str) -> None:
        """A pod that should not wait yet; where one of its name does, the newcomer takes its place."""
        entry = QueuedPodInfo(info, self._clock())
        stale = self.get_pod(info.key)
        activated = self._places.move_to_active(entry, label)
        if stale is not None:
            self._places.count_rejectors(entry if self.get_pod(info.key) is stale else stale, -1)
        if activated:
            self.nominator.add(info)
            self.wake()

    def _take(self, entry: QueuedPodInfo) -> bool:
        entry.attempts += 1
        self._places.count_rejectors(entry, -1)
        if entry.uid in self._in_flight:
            _LOG.error("the same pod is tracked in multiple places in the scheduler: %s", entry.key)
            return False
        self._in_flight.start(entry.uid)
        return True

    def _activate(self, pod: Pod) -> bool:
        entry = self._places.unschedulable.get(pod.key)
        if entry is not None:
            return self._places.move_to_active(entry, FORCE_ACTIVATE.label)
        entry = self._places.backoff.remove(pod.key)
        return entry is not None and self._places.move_to_active(entry, FORCE_ACTIVATE.label, from_backoff=True)

    def _requeue(self, entry: QueuedPodInfo, strategy: Strategy, label: str) -> Place:
        place = self._places.requeue(entry, strategy, label)
        if place is Place.ACTIVE and label in (self._pod_add, self._pod_update):
            self.nominator.add(entry.info)
        return place

    def _candidates(self, event: ClusterEvent, about: Any) -> list[QueuedPodInfo]:
        if event.is_wildcard:
            return list(self._places.unschedulable)
        rejectors = self._hints.rejectors_to_ask(event)
        return self._places.unschedulable.rejected_by(rejectors, self._gate.held_back(about))

    def _move(self, candidates: Iterable[QueuedPodInfo], event: ClusterEvent, old: Any, new: Any) -> None:
        poppable = False
        inquiry = self._hints.about(event, old, new)
        about_a_waiting_pod = any(isinstance(each, Pod) and each.key in self._places for each in (old, new))
        answers = {} if about_a_waiting_pod else inquiry.answers  # looked up here, since thousands may wait
        for entry in candidates:
            if entry.gating_plugin and not self._may_open_gate(entry, event):
                continue
            strategy = (
                answers.get(entry.kept_likeness_of_spec)
                or answers.get(entry.kept_likeness)
                or inquiry.judge_alike(entry)
            )
            if strategy is Strategy.SKIP:
                continue
            self._places.unschedulable.remove(entry.key)
            poppable |= self._places.is_poppable(self._requeue(entry, strategy, event.label))
        self._in_flight.record(event, old, new)
        if poppable:
            self.wake()

    def _requeue_after_update(self, entry: QueuedPodInfo, events: Iterable[ClusterEvent], old: Pod, new: Pod) -> None:
        place = Place.UNSCHEDULABLE
        for event in events:
            strategy = self._hints.about(event, old, new).judge(entry)
            if place is Place.BACKOFF and strategy is not Strategy.IMMEDIATELY:
                continue
            place = self._requeue(entry, strategy, event.label)
            if self._places.is_poppable(place):
                self.wake()
                return

    # Rules

    def _refuse_twins(self, entry: QueuedPodInfo) -> None:
        place = self._places.place_of(entry.key)
        if place is not None:
            name = place if place is Place.UNSCHEDULABLE else f"the {place}"
            raise QueueError(f"Pod {entry.key} is already present in {name} queue")

    def _note_failure(self, entry: QueuedPodInfo) -> None:
        if entry.rejectors:
            entry.unschedulable_count += 1
            entry.consecutive_errors_count = 0
        else:
            entry.consecutive_errors_count += 1
        entry.timestamp_s = self._clock()
        entry.backoff_expiration_s = NO_BACKOFF
        entry.was_flushed_from_unschedulable = False
        self._places.count_rejectors(entry, 1)

    def _strategy_after_attempt(self, entry: QueuedPodInfo) -> Strategy:
        """What the events during an attempt mean for the pod that failed in it."""
        if not entry.rejectors:
            return Strategy.AFTER_BACKOFF
        if self._settings.pod_groups and entry.pod.spec.scheduling_group is not None:
            return Strategy.AFTER_BACKOFF
        if entry.uid not in self._in_flight:
            _LOG.error(
                "in flight Pod isn't found in the scheduling queue. "
                "If you see this error log, it's likely a bug in the scheduler: %s",
                entry.key,
            )
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for event, old, new in self._in_flight.events_since_pop(entry.uid):
            strategy = self._hints.about_recorded(entry, event, old, new).judge(entry)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                if not entry.pending_plugins:
                    return strategy
                best = strategy
        return best

    def _waited_too_long(self, entry: QueuedPodInfo, now_s: float) -> bool:
        since_s = entry.timestamp_s
        if entry.flushed_at_s is not None:
            since_s = max(since_s, entry.flushed_at_s)
        return now_s - since_s > self._settings.max_in_unschedulable_s

    def _may_open_gate(self, entry: QueuedPodInfo, event: ClusterEvent) -> bool:
        if event != UNSCHEDULABLE_TIMEOUT and self._gate.stays_shut(entry):
            return False
        if event == UNSCHEDULABLE_TIMEOUT and self._behaviours.leftover_flush_retries_gated_pods:
            return True
        return self._hints.may_open_gate(entry, event)
