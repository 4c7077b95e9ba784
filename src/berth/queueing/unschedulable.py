"""`UnschedulablePods`: rejected and gated pods that wait for an event, found by the plugins that rejected them.

An event concerns only pods some of whose rejectors wait for it.  They are found through an index, so that an event
which nobody here waits for costs nothing, however many pods there are; what is found comes in the order in which it
would without the index.  Pods that a plugin holds back until an event of their own are kept apart, by that plugin.

Source: k8s pkg/scheduler/backend/queue/scheduling_queue.go, ``unschedulablePods``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from collections.abc import Set as AbstractSet

    from berth.api.meta import PodKey, PodUid
    from berth.queueing.entries import QueuedPodInfo

Rejector = tuple[str, str]
"""(profile, plugin)."""

_ANYTHING: Final[tuple[Rejector, ...]] = (("", ""),)  # for pods that any event concerns


class _Slot:
    __slots__ = ("arrival", "entry", "gated", "holder", "rejectors")

    def __init__(
        self, entry: QueuedPodInfo, arrival: int, rejectors: tuple[Rejector, ...], holder: Rejector | None
    ) -> None:
        self.entry = entry
        self.arrival = arrival
        self.rejectors = rejectors
        self.holder = holder
        self.gated = entry.gated


class UnschedulablePods:
    """Pods by key, in the order of their arrival.

    Args:
        knows_profile: whether there is a profile of that name.
        is_holder: whether a plugin of a profile tells which pods it holds back.

    Attributes:
        gated_count: how many of them a PreEnqueue plugin holds back.
    """

    def __init__(self, knows_profile: Callable[[str], bool], is_holder: Callable[[str, str], bool]) -> None:
        self.gated_count = 0
        self._knows_profile, self._is_holder = knows_profile, is_holder
        self._slots: dict[PodKey, _Slot] = {}
        self._of_rejector: dict[Rejector, dict[PodKey, _Slot]] = {}
        self._of_holder: dict[Rejector, dict[PodUid, _Slot]] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        """How many pods wait."""
        return len(self._slots)

    def __contains__(self, key: object) -> bool:
        """Whether the pod of that key waits."""
        return key in self._slots

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """All pods, in the order of their arrival."""
        return (slot.entry for slot in self._slots.values())

    def get(self, key: PodKey) -> QueuedPodInfo | None:
        """The pod of that key, if it waits."""
        slot = self._slots.get(key)
        return slot.entry if slot is not None else None

    def put(self, entry: QueuedPodInfo) -> bool:
        """Let a pod wait, or note that its rejectors or its gate changed; True if it was not here before."""
        entry.forget_likeness()
        known = self._slots.get(entry.key)
        if known is None:
            self._arrivals += 1
            arrival = self._arrivals
        else:
            self._leave_index(known)
            arrival = known.arrival
        slot = self._slots[entry.key] = _Slot(entry, arrival, self._rejectors(entry), self._holder(entry))
        self.gated_count += slot.gated
        if slot.holder is not None:
            self._of_holder.setdefault(slot.holder, {})[entry.uid] = slot
            return known is None
        for rejector in slot.rejectors:
            self._of_rejector.setdefault(rejector, {})[entry.key] = slot
        return known is None

    def remove(self, key: PodKey) -> QueuedPodInfo | None:
        """Take out the pod of that key."""
        slot = self._slots.pop(key, None)
        if slot is None:
            return None
        self._leave_index(slot)
        return slot.entry

    def rejected_by(
        self, rejectors: Collection[Rejector], held_back: Mapping[Rejector, AbstractSet[PodUid]]
    ) -> list[QueuedPodInfo]:
        """The pods that some of *rejectors* rejected, and those without a known rejector, by arrival.

        Args:
            rejectors: whom to look for.
            held_back: the pods that each plugin holds back that tells; they are left out.
        """
        found: dict[PodKey, _Slot] = {}
        for rejector in (*_ANYTHING, *rejectors):
            found.update(self._of_rejector.get(rejector, {}))
        for holder, slots in self._of_holder.items():
            held = held_back[holder]
            if not slots.keys() <= held:
                let_go = (slot for uid, slot in slots.items() if uid not in held)
                found.update({slot.entry.key: slot for slot in let_go if _is_of(slot, rejectors)})
        return [slot.entry for slot in sorted(found.values(), key=attrgetter("arrival"))]

    def _rejectors(self, entry: QueuedPodInfo) -> tuple[Rejector, ...]:
        profile = entry.profile
        if not self._knows_profile(profile):
            return _ANYTHING
        return tuple((profile, plugin) for plugin in entry.rejectors) or _ANYTHING

    def _holder(self, entry: QueuedPodInfo) -> Rejector | None:
        plugin = entry.gating_plugin
        return (entry.profile, plugin) if plugin and self._is_holder(entry.profile, plugin) else None

    def _leave_index(self, slot: _Slot) -> None:
        self.gated_count -= slot.gated
        if slot.holder is not None:
            held = self._of_holder[slot.holder]
            del held[slot.entry.uid]
            if not held:
                del self._of_holder[slot.holder]
            return
        for rejector in slot.rejectors:
            pods = self._of_rejector[rejector]
            del pods[slot.entry.key]
            if not pods:
                del self._of_rejector[rejector]


def _is_of(slot: _Slot, rejectors: Collection[Rejector]) -> bool:
    return any(rejector in rejectors or rejector in _ANYTHING for rejector in slot.rejectors)
