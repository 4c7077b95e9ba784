"""What the queue tells whoever keeps the metrics.

Sizes are not told: they can be asked for at any time (`SchedulingQueue.counts`).  Whoever listens may sample; the core
has no randomness of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from berth.framework.status import Code


class QueueObserver(Protocol):
    """Hears what happens in the queue; must not raise and must not call the queue."""

    def pod_queued(self, queue: str, event: str) -> None:
        """A pod entered ``active``, ``backoff`` or ``unschedulable`` because of *event* (a label)."""

    def unschedulable_changed(self, plugin: str, profile: str, delta: int) -> None:
        """So many more, or fewer, waiting pods of *profile* are rejected by *plugin*."""

    def in_flight_changed(self, event: str, delta: int) -> None:
        """So many more, or fewer, records of *event* are kept; popped pods count under ``PodPopped``."""

    def hint_ran(self, plugin: str, event: str, hint: str, duration_s: float) -> None:
        """A hint was asked; *hint* is ``Queue``, ``QueueSkip`` or ``Error``."""

    def pre_enqueue_plugin_ran(self, profile: str, plugin: str, code: Code, duration_s: float) -> None:
        """One plugin judged whether a pod may enter."""

    def pre_enqueue_ran(self, profile: str, duration_s: float) -> None:
        """All plugins, or all up to the first refusal, judged whether a pod may enter."""


class NoObserver:
    """Listens to nothing."""

    def pod_queued(self, queue: str, event: str) -> None:
        """Take no note."""

    def unschedulable_changed(self, plugin: str, profile: str, delta: int) -> None:
        """Take no note."""

    def in_flight_changed(self, event: str, delta: int) -> None:
        """Take no note."""

    def hint_ran(self, plugin: str, event: str, hint: str, duration_s: float) -> None:
        """Take no note."""

    def pre_enqueue_plugin_ran(self, profile: str, plugin: str, code: Code, duration_s: float) -> None:
        """Take no note."""

    def pre_enqueue_ran(self, profile: str, duration_s: float) -> None:
        """Take no note."""
