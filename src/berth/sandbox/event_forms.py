"""The two faces of an event: `v1` and `events.k8s.io/v1`.

Events are kept in the `v1` form; the newer API shows the same objects under other names. Pure functions on JSON
objects that share what they do not change.

Source: k8s pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]

# Name in `v1` against name in `events.k8s.io/v1`.
_RENAMED = (
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
)
_TO_NEW = dict(_RENAMED)
_TO_CORE = {new: core for core, new in _RENAMED}


def from_core(event: JsonObject) -> JsonObject:
    """An event as `events.k8s.io/v1` shows it."""
    return {_TO_NEW.get(name, name): value for name, value in event.items()}


def to_core(event: JsonObject) -> JsonObject:
    """An event of `events.k8s.io/v1` in the form in which it is kept."""
    return {_TO_CORE.get(name, name): value for name, value in event.items()}
