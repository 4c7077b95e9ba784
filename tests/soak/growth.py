"""What a process holds as time goes by, and whether it grows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.usage import usage_of

if TYPE_CHECKING:
    from collections.abc import Sequence

KIB = 1024
ALLOWED = {"memory_kib": 6 * KIB, "open_files": 4, "tasks": 12}
"""By how much the last quarter of a run may exceed the second one: noise, however long the run is."""

ALLOWED_LOG_BYTES_PER_MINUTE = 64 * KIB
_QUARTERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look at the process."""

    at_s: float
    memory_kib: int
    open_files: int
    tasks: int
    log_bytes: int


def look(pid: int, *, at_s: float, tasks: int, log: Path) -> Sample:
    """Read what the system knows of a process; *tasks* it has said itself."""
    return Sample(
        at_s=at_s,
        memory_kib=usage_of(pid).rss_kib,
        open_files=len(list(Path("/proc", str(pid), "fd").iterdir())),
        tasks=tasks,
        log_bytes=log.stat().st_size,
    )


def growth(samples: Sequence[Sample], what: str) -> float:
    """The median of the last quarter less that of the second; the first one is for warming up.

    Raises:
        ValueError: there are too few samples to say anything.
    """
    quarter = len(samples) // _QUARTERS
    if not quarter:
        raise ValueError(f"growth takes at least {_QUARTERS} samples, got {len(samples)}")
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    return float(median(getattr(each, what) for each in late) - median(getattr(each, what) for each in early))


def log_bytes_per_minute(samples: Sequence[Sample]) -> float:
    """How fast the log grew after the first quarter."""
    first, last = samples[len(samples) // _QUARTERS], samples[-1]
    return (last.log_bytes - first.log_bytes) / max(last.at_s - first.at_s, 1.0) * 60


def faults(samples: Sequence[Sample]) -> list[str]:
    """What grew that must not."""
    found = [
        f"{what} grew by {growth(samples, what):g}, at most {allowed} is noise"
        for what, allowed in ALLOWED.items()
        if growth(samples, what) > allowed
    ]
    if (rate := log_bytes_per_minute(samples)) > ALLOWED_LOG_BYTES_PER_MINUTE:
        found.append(f"the log grows by {rate:.0f} bytes per minute, at most {ALLOWED_LOG_BYTES_PER_MINUTE}")
    return found
