"""`KeyedHeap`: a priority queue whose items can be looked up, replaced and removed by key.

Removal only marks an item as dead; dead items are dropped when they surface, or all at once when they outnumber the
living.  So every operation costs O(log n) on average and the size stays within twice the living items.  Items of equal
order leave in the order in which they came.  Used for the active queue and for both backoff queues.

Source: k8s pkg/scheduler/backend/heap/heap.go.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

K = TypeVar("K", bound="Hashable")
V = TypeVar("V")

_MIN_DEAD: Final = 32  # fewer dead items than this are never worth a clean-up


class _Slot(Generic[K, V]):
    __slots__ = ("alive", "item", "key", "order")

    def __init__(self, key: K, item: V, order: Any) -> None:
        self.key = key
        self.item = item
        self.order = order
        self.alive = True


class KeyedHeap(Generic[K, V]):
    """Items by key; the one of the least order leaves first."""

    __slots__ = ("_arrivals", "_heap", "_slots")

    def __init__(self) -> None:
        self._slots: dict[K, _Slot[K, V]] = {}
        self._heap: list[tuple[Any, int, _Slot[K, V]]] = []
        self._arrivals = 0

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._slots)

    def __contains__(self, key: object) -> bool:
        """Whether there is an item under *key*."""
        return key in self._slots

    def __iter__(self) -> Iterator[V]:
        """The items, in no particular order."""
        return (slot.item for slot in self._slots.values())

    def get(self, key: K) -> V | None:
        """The item under *key*."""
        slot = self._slots.get(key)
        return slot.item if slot is not None else None

    def put(self, key: K, item: V, order: Any) -> None:
        """Add an item, or replace the one under *key*; a replacement of the same order keeps its place."""
        slot = self._slots.get(key)
        if slot is not None:
            if slot.order == order:
                slot.item = item
                return
            slot.alive = False
        slot = self._slots[key] = _Slot(key, item, order)
        self._arrivals += 1
        heappush(self._heap, (order, self._arrivals, slot))
        self._clean_up()

    def remove(self, key: K) -> V | None:
        """Take out and return the item under *key*; None where there is none."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return None
        slot.alive = False
        self._clean_up()
        return slot.item

    def peek(self) -> V | None:
        """The item of the least order; None when empty."""
        self._drop_dead_head()
        return self._heap[0][2].item if self._heap else None

    def pop(self) -> V | None:
        """Take out and return the item of the least order; None when empty."""
        self._drop_dead_head()
        if not self._heap:
            return None
        slot = heappop(self._heap)[2]
        del self._slots[slot.key]
        return slot.item

    def _drop_dead_head(self) -> None:
        while self._heap and not self._heap[0][2].alive:
            heappop(self._heap)

    def _clean_up(self) -> None:
        dead = len(self._heap) - len(self._slots)
        if dead > max(_MIN_DEAD, len(self._slots)):
            self._heap = [entry for entry in self._heap if entry[2].alive]
            heapify(self._heap)
