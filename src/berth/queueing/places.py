"""`Places`: where the waiting pods are, and every move between these places.

A waiting pod is *active* (to be tried), in *backoff* (pauses after a failure) or *unschedulable* (waits for an event
that helps, or is held back by a PreEnqueue plugin), and never in two places.  The moves here see to that, run the gate
where pods enter, and tell the observer; which pods move, and why, is decided by `SchedulingQueue`.

Source: k8s pkg/scheduler/backend/queue/scheduling_queue.go, ``moveToActiveQ``, ``moveToBackoffQ``.
"""

from __future__ import annotations

import enum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from berth.queueing.backoff import BackoffQueue
from berth.queueing.entries import QueuedPodInfo
from berth.queueing.heap import KeyedHeap
from berth.queueing.hints import Strategy
from berth.queueing.unschedulable import UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from berth.api.meta import PodKey
    from berth.queueing.gate import Gate
    from berth.queueing.observer import QueueObserver
    from berth.queueing.settings import QueueSettings, SortKey

POP_FROM_BACKOFF_Q: Final = "PopFromBackoffQ"


class Place(enum.StrEnum):
    """Where a waiting pod is; the values are the reference's metric labels."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"


class Places:
    """The three places.

    Attributes:
        active: pods to be tried, in the profile's order.
        backoff: pods that pause.
        unschedulable: pods that wait for an event.
    """

    def __init__(
        self,
        settings: QueueSettings,
        sort_key: SortKey,
        gate: Gate,
        clock: Callable[[], float],
        observer: QueueObserver,
        knows_profile: Callable[[str], bool],
    ) -> None:
        self.active: KeyedHeap[PodKey, QueuedPodInfo] = KeyedHeap()
        self.backoff = BackoffQueue(settings, clock, sort_key)
        self.unschedulable = UnschedulablePods(knows_profile, gate.is_holder)
        self._pop_from_backoff_q = settings.pop_from_backoff_q
        self._sort_key = sort_key
        self._gate = gate
        self._clock = clock
        self._observer = observer

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """All waiting pods, place by place."""
        return chain(self.active, self.backoff, self.unschedulable)

    def __contains__(self, key: object) -> bool:
        """Whether the pod of that key waits."""
        return key in self.active or key in self.backoff or key in self.unschedulable

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that key, if it waits."""
        return self.backoff.get(key) or self.unschedulable.get(key) or self.active.get(key)

    def place_of(self, key: PodKey) -> Place | None:
        """Where the pod of that key waits."""
        if key in self.active:
            return Place.ACTIVE
        if key in self.backoff:
            return Place.BACKOFF
        return Place.UNSCHEDULABLE if key in self.unschedulable else None

    @property
    def has_poppable(self) -> bool:
        """Whether `pop` would return something."""
        return len(self.active) > 0 or (self._pop_from_backoff_q and self.backoff.has_poppable)

    def is_poppable(self, place: Place) -> bool:
        """Whether pods of that place may be popped."""
        return place is Place.ACTIVE or (place is Place.BACKOFF and self._pop_from_backoff_q)

    def pop(self) -> QueuedPodInfo | None:
        """Take out the next pod to be tried; if none is active and it is allowed, one that still pauses."""
        entry = self.active.pop()
        if entry is None and self._pop_from_backoff_q:
            entry = self.backoff.pop()
            if entry is not None:
                self._observer.pod_queued(Place.ACTIVE, POP_FROM_BACKOFF_Q)
        return entry

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Take out the pod of that key."""
        return self.active.remove(key) or self.backoff.remove(key) or self.unschedulable.remove(key)

    def resort(self, entry: QueuedPodInfo) -> None:
        """Put an active or pausing pod, whose ``info`` was replaced, in its new place in the row."""
        if entry.key in self.active:
            self.active.put(entry.key, entry, self._order(entry))
        else:
            self.backoff.update(entry)

    def requeue(self, entry: QueuedPodInfo, strategy: Strategy, label: str) -> Place:
        """Put a pod where *strategy* wants it, or where its gate keeps it, because of the event *label*."""
        if strategy is Strategy.SKIP:
            self._move_to_unschedulable(entry, label)
            return Place.UNSCHEDULABLE
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(entry):
            return Place.BACKOFF if self.move_to_backoff(entry, label) else Place.UNSCHEDULABLE
        return Place.ACTIVE if self.move_to_active(entry, label) else Place.UNSCHEDULABLE

    def move_to_active(self, entry: QueuedPodInfo, label: str, *, from_backoff: bool = False) -> bool:
        """Let a pod be tried because of the event *label*; False if its gate keeps it.

        A gated pod becomes unschedulable, unless one of its name is active or pauses: then it is left out.
        """
        if not (from_backoff and self._pop_from_backoff_q):
            self._gate.judge(entry)
        if entry.gated:
            if entry.key not in self.active and entry.key not in self.backoff:
                self._move_to_unschedulable(entry, label)
            return False
        if entry.initial_attempt_timestamp_s is None:
            entry.initial_attempt_timestamp_s = self._clock()
        self.unschedulable.remove(entry.key)
        self.backoff.remove(entry.key)
        self.active.put(entry.key, entry, self._order(entry))
        self._observer.pod_queued(Place.ACTIVE, label)
        return True

    def move_to_backoff(self, entry: QueuedPodInfo, label: str) -> bool:
        """Let a pod pause because of the event *label*; False if it is gated and became unschedulable instead."""
        if self._pop_from_backoff_q:
            self._gate.judge(entry)
            if entry.gated:
                self._move_to_unschedulable(entry, label)
                return False
        self.unschedulable.remove(entry.key)
        if self.backoff.put(entry):
            self._observer.pod_queued(Place.BACKOFF, label)
        return True

    def count_rejectors(self, entry: QueuedPodInfo, delta: int) -> None:
        """Tell that a rejected pod waits (1), or waits no longer (-1)."""
        for plugin in entry.rejectors:
            self._observer.unschedulable_changed(plugin, entry.profile, delta)

    def _move_to_unschedulable(self, entry: QueuedPodInfo, label: str) -> None:
        if self.unschedulable.put(entry):
            self._observer.pod_queued(Place.UNSCHEDULABLE, label)

    def _order(self, entry: QueuedPodInfo) -> Any:
        return self._sort_key(entry.info, entry.timestamp_s)
