"""Go duration strings (``15s``, ``1m30s``, ``1.5h``): reading, writing, and the value between.

Configuration file and flags share this form. Nanoseconds are kept exactly, so that what is written back reads as what
was given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_MAX_NS = 2**63 - 1
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([^0-9.]+)")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in whole nanoseconds; negative spans are legal values and left to validation."""

    ns: int = 0

    @property
    def seconds(self) -> float:
        """The span in seconds."""
        return self.ns / 1e9

    @classmethod
    def of_seconds(cls, seconds: int) -> Duration:
        """A span of whole *seconds*."""
        return cls(seconds * _UNIT_NS["s"])

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read a Go duration string.

        Raises:
            ValueError: *text* has no number, no unit, an unknown unit, or more nanoseconds than 64 bits hold.

        Source: Go package time, ParseDuration.
        """
        sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
        if rest == "0":
            return cls(0)
        total = 0
        position = 0
        while position < len(rest) or not rest:
            part = _PART.match(rest, position)
            if part is None:
                raise ValueError(_complaint(text, rest[position:]))
            number, unit = part.groups()
            if unit not in _UNIT_NS:
                raise ValueError(f"time: unknown unit {_quote(unit)} in duration {_quote(text)}")
            total += int(Fraction(number) * _UNIT_NS[unit])
            position = part.end()
        if total > _MAX_NS + (sign < 0):
            raise ValueError(f"time: invalid duration {_quote(text)}")
        return cls(sign * total)

    def __str__(self) -> str:
        """The canonical Go form: ``1m30s``, ``5m0s``, ``1.5s``, ``250ms``, ``0s``."""
        magnitude = abs(self.ns)
        sign = "-" if self.ns < 0 else ""
        if magnitude < _UNIT_NS["s"]:
            return sign + _below_a_second(magnitude)
        minutes, ns = divmod(magnitude, _UNIT_NS["m"])
        hours, minutes = divmod(minutes, 60)
        text = _decimal(ns, "s")
        if hours or minutes:
            text = f"{minutes}m{text}"
        return f"{sign}{hours}h{text}" if hours else sign + text


def _below_a_second(ns: int) -> str:
    if ns == 0:
        return "0s"
    return next(_decimal(ns, unit) for unit in ("ms", "µs", "ns") if ns >= _UNIT_NS[unit])


def _decimal(ns: int, unit: str) -> str:
    whole, rest = divmod(ns, _UNIT_NS[unit])
    digits = len(str(_UNIT_NS[unit])) - 1
    fraction = f"{rest:0{digits}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}{unit}" if fraction else f"{whole}{unit}"


def _complaint(text: str, rest: str) -> str:
    if re.fullmatch(r"[0-9]+\.?[0-9]*|\.[0-9]+", rest):
        return f"time: missing unit in duration {_quote(text)}"
    return f"time: invalid duration {_quote(text)}"


def _quote(text: str) -> str:
    return f'"{text}"'
