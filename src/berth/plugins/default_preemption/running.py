"""`Running`: for whom pods are being evicted, and who has to go last.

A pod that room is being made for is held back until the last of its victims goes, so that it does not come too early
and evict others.

Source: k8s pkg/scheduler/framework/preemption/executor.go, ``IsPodRunningPreemption``.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from berth.api.meta import PodKey, PodUid
from berth.api.pod import Pod

Lister = Callable[[PodKey], Pod | None]

_REMEMBERED: Final = 1024


class Running:
    """The evictions that are being carried out.

    Args:
        lister: a pod by its key as the API server last showed it.

    Attributes:
        stuck: pods that do not go although they were told to, the latest last.
    """

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._preempting: dict[PodUid, PodKey | None] = {}  # and the last victim, once the others have been told
        self._held: dict[PodUid, None] = {}  # those of them who have to wait
        self._held_by: dict[PodKey, PodUid] = {}  # last victim -> who waits for it to go
        self.stuck: dict[PodUid, None] = {}

    def of(self, preemptor: PodUid) -> "Progress":
        """Who hears how the eviction for a pod goes."""
        return Progress(self, preemptor)

    def started(self, preemptor: PodUid) -> None:
        """Victims are about to be told to go."""
        self._preempting[preemptor] = None
        self._held[preemptor] = None

    def reached_last(self, preemptor: PodUid, victim: PodKey) -> None:
        """Only this victim is left to be told."""
        if preemptor in self._preempting:
            self._preempting[preemptor] = victim
            self._held_by[victim] = preemptor
            self._look_at(victim)

    def ended(self, preemptor: PodUid) -> None:
        """Nothing more is done."""
        victim = self._preempting.pop(preemptor, None)
        if victim is not None and self._held_by.get(victim) == preemptor:
            del self._held_by[victim]
        self._held.pop(preemptor, None)

    def held_back(self, about: PodKey | None) -> AbstractSet[PodUid]:
        """All who have to wait, after something happened to a pod."""
        if about is not None:
            self._look_at(about)
        return self._held.keys()

    def _look_at(self, victim: PodKey) -> None:
        preemptor = self._held_by.get(victim)
        if preemptor is not None and not self.is_running(preemptor):
            self._held.pop(preemptor, None)

    def is_running(self, preemptor: PodUid) -> bool:
        """Whether the pod has to wait, because its last victim has not begun to go."""
        if preemptor not in self._preempting:
            return False
        last = self._preempting[preemptor]
        if last is None:
            return True
        victim = self._lister(last)
        return victim is not None and victim.metadata.deletion_timestamp is None


class Progress:
    """How one eviction goes; see `berth.framework.interface.EvictionProgress`."""

    def __init__(self, running: Running, preemptor: PodUid) -> None:
        self._running, self._preemptor = running, preemptor

    def started(self) -> None:
        """Victims are about to be told to go."""
        self._running.started(self._preemptor)

    def reached_last(self, victim: Pod) -> None:
        """All victims but this one have been told to go."""
        self._running.reached_last(self._preemptor, victim.key)

    def ended(self) -> None:
        """Nothing more is done about it."""
        self._running.ended(self._preemptor)

    def stuck(self, victims: Iterable[PodUid]) -> None:
        """These do not go; they are not counted on again."""
        self._running.stuck.update(dict.fromkeys(victims))
        while len(self._running.stuck) > _REMEMBERED:
            del self._running.stuck[next(iter(self._running.stuck))]
