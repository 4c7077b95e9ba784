"""`BackoffQueue`: pods that pause after a failed attempt.

Pods that were rejected and pods that met an error pause apart, because only the former may be tried early when nothing
else waits: an error is often a sign of an overloaded API server.  Where early tries are allowed, pauses end on whole
seconds, so that pods whose pauses end in the same second leave by priority.

Source: k8s pkg/scheduler/backend/queue/backoff_queue.go; KEP-5142.
"""

from __future__ import annotations

import logging
import math
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from berth.queueing.entries import NO_BACKOFF
from berth.queueing.heap import KeyedHeap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from berth.api.meta import PodKey
    from berth.queueing.entries import QueuedPodInfo
    from berth.queueing.settings import QueueSettings, SortKey

ORDERING_WINDOW_S: Final = 1
"""Pauses that end within one such window end together."""

_LOG: Final = logging.getLogger(__name__)
_MAX_DOUBLINGS: Final = 62  # beyond these any initial pause exceeds any longest one


def backoff_duration_s(count: int, initial_s: float, max_s: float) -> float:
    """How long a pod pauses after its *count*-th failure; *count* is at least 1."""
    doublings = count - 1
    if doublings > _MAX_DOUBLINGS or initial_s > max_s / (1 << doublings):
        return max_s if initial_s > 0 else 0.0
    return initial_s * (1 << doublings)


class BackoffQueue:
    """Pods by the end of their pause."""

    def __init__(self, settings: QueueSettings, clock: Callable[[], float], sort_key: SortKey) -> None:
        self._settings = settings
        self._clock = clock
        self._sort_key = sort_key
        self._rejected: KeyedHeap[PodKey, QueuedPodInfo] = KeyedHeap()
        self._failed: KeyedHeap[PodKey, QueuedPodInfo] = KeyedHeap()

    def __len__(self) -> int:
        """How many pods pause."""
        return len(self._rejected) + len(self._failed)

    def __contains__(self, key: object) -> bool:
        """Whether the pod of that key pauses."""
        return key in self._rejected or key in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """All pods, those that were rejected first."""
        return chain(self._rejected, self._failed)

    @property
    def has_poppable(self) -> bool:
        """Whether `pop` would return something."""
        return len(self._rejected) > 0

    def expiration_s(self, entry: QueuedPodInfo) -> float:
        """When the pause of a pod ends, wall clock; `NO_BACKOFF` for pods that have nothing to pause for.

        Worked out once after each attempt, and kept in the entry.
        """
        count = entry.consecutive_errors_count or entry.unschedulable_count
        if self._settings.max_backoff_s == 0 or count == 0:
            return NO_BACKOFF
        if entry.backoff_expiration_s == NO_BACKOFF:
            duration_s = backoff_duration_s(count, self._settings.initial_backoff_s, self._settings.max_backoff_s)
            entry.backoff_expiration_s = self._align(entry.timestamp_s + duration_s)
        return entry.backoff_expiration_s

    def is_backing_off(self, entry: QueuedPodInfo) -> bool:
        """Whether the pause of a pod has not ended; at the very moment of its end it has not."""
        return self.expiration_s(entry) >= self._align(self._clock())

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that key, if it pauses."""
        return self._rejected.get(key) or self._failed.get(key)

    def put(self, entry: QueuedPodInfo) -> bool:
        """Let a pod pause, or put it in its new place after a change; False if it came from the other kind of pause."""
        failed = not (entry.unschedulable_plugins or entry.pending_plugins)
        mine, other = (self._failed, self._rejected) if failed else (self._rejected, self._failed)
        moved = other.remove(entry.key) is not None
        if moved:
            _LOG.error("Pod %s paused both after a rejection and after an error", entry.key)
        mine.put(entry.key, entry, self._order(entry, failed=failed))
        return not moved

    def update(self, entry: QueuedPodInfo) -> None:
        """Put a pod that pauses, and whose ``info`` was replaced, in its new place."""
        if entry.key in self._failed:
            self._failed.put(entry.key, entry, self._order(entry, failed=True))
        else:
            self._rejected.put(entry.key, entry, self._order(entry, failed=False))

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Take out the pod of that key."""
        return self._rejected.remove(key) or self._failed.remove(key)

    def pop(self) -> QueuedPodInfo | None:
        """Take out the next pod that was rejected, whether or not its pause has ended."""
        return self._rejected.pop()

    def pop_completed(self) -> list[QueuedPodInfo]:
        """Take out all pods whose pause has ended."""
        completed = []
        for heap in (self._rejected, self._failed):
            while (head := heap.peek()) is not None and not self.is_backing_off(head):
                heap.pop()
                completed.append(head)
        return completed

    def _order(self, entry: QueuedPodInfo, *, failed: bool) -> tuple[Any, ...]:
        expiration_s = self.expiration_s(entry)
        if failed or not self._settings.pop_from_backoff_q:
            return (expiration_s,)
        return (expiration_s, self._sort_key(entry.info, entry.timestamp_s))

    def _align(self, time_s: float) -> float:
        if not self._settings.pop_from_backoff_q:
            return time_s
        return math.floor(time_s / ORDERING_WINDOW_S) * ORDERING_WINDOW_S
