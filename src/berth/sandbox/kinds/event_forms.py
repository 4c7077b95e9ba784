"""The two faces of an event, `v1` and `events.k8s.io/v1`, and what makes one valid.

Events are kept in the `v1` form; the newer API shows the same objects under other names. Pure functions on JSON
objects that share what they do not change. Called by `handlers` through the resource table and by `admission`.

Source: k8s pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from typing import Any, Final

from berth.sandbox.kinds.conform import zero
from berth.sandbox.kinds.errors import FieldError, invalid_value, required
from berth.sandbox.kinds.fields import message
from berth.sandbox.kinds.rules import qualified_name_faults
from berth.sandbox.objects import section

JsonObject = dict[str, Any]

_MAX_WORD: Final = 128
_MAX_NOTE: Final = 1024
_MIN_SERIES: Final = 2
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
    return {
        _TO_NEW.get(name, name): value
        for name, value in event.items()
        if value or name not in ("reportingComponent", "reportingInstance")
    }


def to_core(event: JsonObject) -> JsonObject:
    """An event of `events.k8s.io/v1` in the form in which it is kept."""
    return {**zero(message("core.Event")), **{_TO_CORE.get(name, name): value for name, value in event.items()}}


def event_faults(event: JsonObject, *, strict: bool) -> list[FieldError]:
    """What is wrong with an event.

    Args:
        event: in its kept form.
        strict: whether it came through `events.k8s.io/v1`, which asks for more.

    Source: k8s pkg/apis/core/validation/events.go, `ValidateEventCreate`.
    """
    namespace = event["metadata"].get("namespace", "")
    regarding = section(event, "involvedObject").get("namespace", "")
    allowed = {"default", "kube-system"} if event["eventTime"] else {"default"}
    mismatch = regarding != namespace and not event["eventTime"] if regarding else namespace not in allowed
    detail = "does not match event.namespace"
    faults = [invalid_value("involvedObject.namespace", regarding, detail)] if mismatch else []
    if event["eventTime"]:
        faults += _new_style_faults(event, strict=strict)
    elif strict:
        faults.append(required("eventTime"))
    if strict and event.get("type") not in ("Normal", "Warning"):
        faults.append(invalid_value("type", "", f"has invalid value: {event.get('type', '')}"))
    return faults


def _new_style_faults(event: JsonObject, *, strict: bool) -> list[FieldError]:
    controller_name = "reportingController" if strict else "reportingComponent"
    controller = event["reportingComponent"]
    faults = [] if controller else [required(controller_name)]
    faults += [invalid_value(controller_name, controller, text) for text in qualified_name_faults(controller)]
    for name in ("reportingInstance", "action", "reason"):
        if not event.get(name):
            faults.append(required(name))
        elif len(event[name]) > _MAX_WORD:
            faults.append(invalid_value(name, "", f"can have at most {_MAX_WORD} characters"))
    if len(event.get("message", "").encode()) > _MAX_NOTE:
        faults.append(invalid_value("message", "", f"can have at most {_MAX_NOTE} characters"))
    if (series := event.get("series")) is not None and series.get("count", 0) < _MIN_SERIES:
        faults.append(invalid_value("series.count", "", "should be at least 2"))
    return faults
