"""What cycles and events tell whoever keeps the metrics, and the stopwatch that they are given for that.

The core reads no clock of its own; without an observer nothing is measured.
"""

from collections.abc import Callable, Iterable
from typing import Protocol


class CycleObserver(Protocol):
    """Hears of the steps of a cycle; must not raise and must not call back.

    Attributes:
        stopwatch: seconds from an arbitrary start.
    """

    stopwatch: Callable[[], float]

    def extension_point_ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of *point* (such as ``PreFilter``) ran for one pod."""

    def plugins_evaluated(self, profile: str, point: str, names: Iterable[str]) -> None:
        """These plugins judged one pod at *point* and did not sit it out."""


class EngineObserver(CycleObserver, Protocol):
    """Hears of events too."""

    def event_handled(self, event: str, seconds: float) -> None:
        """An event (by its label) has been taken in, and the pods that it may help have been moved."""


class NoCycleObserver:
    """Measures nothing."""

    def __init__(self) -> None:
        self.stopwatch: Callable[[], float] = float  # always the same moment

    def extension_point_ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Take no note."""

    def plugins_evaluated(self, profile: str, point: str, names: Iterable[str]) -> None:
        """Take no note."""

    def event_handled(self, event: str, seconds: float) -> None:
        """Take no note."""


class Steps:
    """The steps of the cycles of one profile, as they are told to an observer.

    Args:
        profile: the scheduler name.
        observer: who hears of them.
    """

    def __init__(self, profile: str, observer: CycleObserver) -> None:
        self._profile, self._observer = profile, observer
        self.now = observer.stopwatch

    def ran(self, point: str, status: str, since: float) -> float:
        """*point* ran from *since* until now; returns now."""
        now = self.now()
        self._observer.extension_point_ran(point, status, self._profile, now - since)
        return now

    def evaluated(self, point: str, names: tuple[str, ...], skipped: set[str]) -> None:
        """The plugins of *names* judged a pod at *point*, without those in *skipped*."""
        judged = tuple(name for name in names if name not in skipped) if skipped else names
        self._observer.plugins_evaluated(self._profile, point, judged)
