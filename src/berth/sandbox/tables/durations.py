"""Ages as kubectl users know them: `5s`, `3m12s`, `2d4h`.

Source: k8s apimachinery/pkg/util/duration/duration.go, `HumanDuration`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.sandbox.objects import parse_time

if TYPE_CHECKING:
    from datetime import datetime

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

# (below this many seconds, unit, letter, smaller unit to show besides or None, its letter)
_STEPS = (
    (2 * _MINUTE, 1, "s", None, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", None, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", None, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", None, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def human(seconds: float) -> str:
    """A span of time, short and rounded down."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    for limit, unit, letter, smaller, small_letter in _STEPS:
        if whole < limit:
            text = f"{whole // unit}{letter}"
            rest = whole % unit // smaller if smaller else 0
            return f"{text}{rest}{small_letter}" if rest else text
    return f"{whole // _YEAR}y"


def since(moment: str | None, now: datetime) -> str:
    """How long ago a time of an object was."""
    if not moment:
        return "<unknown>"
    return human((now - parse_time(moment)).total_seconds())
