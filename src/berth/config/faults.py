"""Configuration faults as values, in the wording of the reference's field errors, and the one error that carries them.

Decoding, validation, gates and flags all report through `Fault`, so that every fault of an input is met in one run.
The command prints one line per fault and exits 1.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class FaultKind(enum.Enum):
    """Which rule was broken; the value is the phrase that messages carry."""

    INVALID = "Invalid value"
    REQUIRED = "Required value"
    DUPLICATE = "Duplicate value"
    NOT_SUPPORTED = "Unsupported value"
    FORBIDDEN = "Forbidden"
    STRICT = "strict decoding error"  # unknown field, or a key given twice
    OTHER = ""  # the detail says it all


_WITHOUT_VALUE = frozenset({FaultKind.REQUIRED, FaultKind.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with a configuration: where, which rule, and the value received.

    ``str(fault)`` is one line: ``<path>: <kind>: <value>: <detail>``. Required and Forbidden carry no value.
    """

    path: str
    kind: FaultKind
    value: object = field(default=None, compare=False)
    detail: str = ""

    def __str__(self) -> str:
        """The fault as one line."""
        if self.kind is FaultKind.STRICT:
            return _one_line(f"{self.kind.value}: {self.detail}")
        parts = [self.path, self.kind.value]
        if self.kind not in _WITHOUT_VALUE and self.kind is not FaultKind.OTHER:
            parts.append(show(self.value))
        parts.append(self.detail)
        return _one_line(": ".join(part for part in parts if part))


def _one_line(text: str) -> str:
    """*text* with each line break, of whatever kind, as a space."""
    return " ".join(text.splitlines())


def show(value: object) -> str:
    """*value* as messages print it: text in double quotes, numbers bare, structures as JSON."""
    if value is None:
        return "null"
    if isinstance(value, str | bool | int | float | list | tuple | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def invalid(path: str, value: object, detail: str) -> Fault:
    """The value is of the right type, and breaks a rule."""
    return Fault(path, FaultKind.INVALID, value, detail)


def required(path: str, detail: str = "") -> Fault:
    """Something must be there and is not."""
    return Fault(path, FaultKind.REQUIRED, detail=detail)


def duplicate(path: str, value: object) -> Fault:
    """The value was there before."""
    return Fault(path, FaultKind.DUPLICATE, value)


def not_supported(path: str, value: object, supported: Iterable[str]) -> Fault:
    """The value is none of those known."""
    listed = ", ".join(json.dumps(known) for known in supported)
    return Fault(path, FaultKind.NOT_SUPPORTED, value, f"supported values: {listed}")


def forbidden(path: str, detail: str) -> Fault:
    """Nothing may be there, and something is."""
    return Fault(path, FaultKind.FORBIDDEN, detail=detail)


def other(path: str, detail: str) -> Fault:
    """A fault that is not about one value, such as a file that cannot be read."""
    return Fault(path, FaultKind.OTHER, detail=detail)


class ConfigError(Exception):
    """The configuration cannot be used; ``faults`` holds every reason, in the order of the input.

    ``str(error)`` has one line per fault.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        """Keep *faults*, of which there is at least one."""
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))
