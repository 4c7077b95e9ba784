"""`InFlight`: pods that are being tried, and what happened meanwhile.

A pod that is rejected may have missed the very event that would have helped it.  So events are recorded while any pod
is in flight, once for all of them, and each pod remembers how many had been recorded when it was popped.  An event is
dropped when no pod that was in flight at its time is left.

Source: k8s pkg/scheduler/backend/queue/active_queue.go, ``inFlightPods`` and ``inFlightEvents``.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from berth.framework.events import ClusterEvent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth.api.meta import PodUid
    from berth.queueing.observer import QueueObserver

POD_POPPED: Final = "PodPopped"
"""Label under which the pods themselves are counted."""

_MIN_DROPPED: Final = 64  # dropped events below this are not worth moving the rest


class RecordedEvent(NamedTuple):
    """Something that happened, with the object before and after."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Pods in flight in the order of their pops, and the events since the first of these."""

    def __init__(self, observer: QueueObserver) -> None:
        self._observer = observer
        # How many events had been recorded at a pod's pop, so never less than for the pod before it.  Unlike that of a
        # plain dict, the head of this one is found at once after many others have left.
        self._first_event: OrderedDict[PodUid, int] = OrderedDict()
        self._events: list[RecordedEvent] = []
        self._offset = 0  # how many events were recorded before self._events[0]
        self._head = 0  # how many events were recorded before the first that somebody still needs

    def __len__(self) -> int:
        """How many pods are in flight."""
        return len(self._first_event)

    def __contains__(self, uid: object) -> bool:
        """Whether that pod is in flight."""
        return uid in self._first_event

    def start(self, uid: PodUid) -> None:
        """A pod that is not in flight was popped."""
        self._first_event[uid] = self._offset + len(self._events)
        self._observer.in_flight_changed(POD_POPPED, 1)

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep an event for all pods in flight; nothing is kept if there are none."""
        if self._first_event:
            self._events.append(RecordedEvent(event, old, new))
            self._observer.in_flight_changed(event.label, 1)

    def events_since_pop(self, uid: PodUid) -> Iterator[RecordedEvent]:
        """What happened since a pod in flight was popped, in order."""
        return islice(self._events, self._first_event[uid] - self._offset, None)

    def done(self, uid: PodUid) -> None:
        """A pod is no longer in flight; nothing happens if it was not."""
        if self._first_event.pop(uid, None) is None:
            return
        self._observer.in_flight_changed(POD_POPPED, -1)
        end = self._offset + len(self._events)
        head = next(iter(self._first_event.values()), end)
        if head > self._head:
            self._drop_until(head)

    def uids(self) -> list[PodUid]:
        """The pods in flight, in the order of their pops."""
        return list(self._first_event)

    def listing(self) -> list[PodUid | RecordedEvent]:
        """Pods and events in the order in which they were popped and recorded, for people and tests."""
        starts = list(self._first_event.items())
        result: list[PodUid | RecordedEvent] = []
        for index in range(self._head, self._offset + len(self._events) + 1):
            result.extend(uid for uid, first in starts if first == index)
            if index < self._offset + len(self._events):
                result.append(self._events[index - self._offset])
        return result

    def _drop_until(self, head: int) -> None:
        dropped = Counter(
            recorded.event.label for recorded in islice(self._events, self._head - self._offset, head - self._offset)
        )
        for label, count in dropped.items():
            self._observer.in_flight_changed(label, -count)
        self._head = head
        dead = head - self._offset
        if dead == len(self._events) or dead > max(_MIN_DROPPED, len(self._events) // 2):
            del self._events[:dead]
            self._offset = head
