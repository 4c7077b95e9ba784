"""The body of a pod status patch: which conditions and which nomination change, and nothing else.

Pure functions. The dispatcher applies a `StatusChange` to the status that is known, and sends the difference as a
strategic merge patch, so that conditions written by others stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from berth.api.meta import Condition

_encode = msgspec.json.Encoder().encode
_FIELDS = {  # JSON name of each field of a condition that a patch may carry, beside its type
    "status": "status",
    "reason": "reason",
    "message": "message",
    "lastTransitionTime": "last_transition_time",
    "observedGeneration": "observed_generation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownStatus:
    """What is known of a pod's status before it is changed."""

    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """What shall be different.

    Attributes:
        conditions: to set, at most one of each type; their times are worked out here.
        nominated_node_name: None leaves it as it is, an empty text clears it.
    """

    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str | None = None

    def over(self, earlier: StatusChange) -> StatusChange:
        """One change that does what *earlier* and then this one would: the newest condition of each type wins."""
        mine = {condition.type for condition in self.conditions}
        kept = tuple(condition for condition in earlier.conditions if condition.type not in mine)
        nominated = earlier.nominated_node_name if self.nominated_node_name is None else self.nominated_node_name
        return StatusChange(conditions=kept + self.conditions, nominated_node_name=nominated)


def apply_change(known: KnownStatus, change: StatusChange, now: str) -> KnownStatus | None:
    """The status after *change*; None when there is nothing worth sending.

    A condition that differs from the known one in its observed generation alone is not worth a patch of its own.

    Args:
        known: the status before.
        change: what shall be different.
        now: the transition time of conditions whose status changes.

    Source: k8s pkg/api/v1/pod/util.go, UpdatePodCondition; pkg/scheduler/schedule_one.go, updatePod.
    """
    conditions = list(known.conditions)
    places = {condition.type: place for place, condition in enumerate(conditions)}
    worthwhile = False
    for condition in change.conditions:
        place = places.get(condition.type)
        if place is None:
            places[condition.type] = len(conditions)
            conditions.append(msgspec.structs.replace(condition, last_transition_time=now))
            worthwhile = True
            continue
        old = conditions[place]
        since = old.last_transition_time if old.status == condition.status else now
        new = msgspec.structs.replace(condition, last_transition_time=since, last_probe_time=old.last_probe_time)
        conditions[place] = new
        worthwhile = worthwhile or _visible(old) != _visible(new)
    nominated = known.nominated_node_name
    if change.nominated_node_name is not None and change.nominated_node_name != nominated:
        nominated = change.nominated_node_name
        worthwhile = True
    return KnownStatus(conditions=tuple(conditions), nominated_node_name=nominated) if worthwhile else None


def patch_body(before: KnownStatus, after: KnownStatus) -> bytes:
    """The strategic merge patch that turns *before* into *after*.

    Source: k8s apimachinery pkg/util/strategicpatch/patch.go, CreateTwoWayMergePatch.
    """
    status: dict[str, Any] = {}
    if not before.conditions and after.conditions:
        status["conditions"] = [_difference(None, condition) for condition in after.conditions]
    else:
        old_by_type = {condition.type: condition for condition in before.conditions}
        changed = [
            _difference(old_by_type.get(condition.type), condition)
            for condition in after.conditions
            if condition != old_by_type.get(condition.type)
        ]
        if changed:
            status["$setElementOrder/conditions"] = [{"type": condition.type} for condition in after.conditions]
            status["conditions"] = changed
    if before.nominated_node_name != after.nominated_node_name:
        status["nominatedNodeName"] = after.nominated_node_name or None
    return _encode({"status": status})


def _visible(condition: Condition) -> tuple[str, str, str, str | None, str | None]:
    return (
        condition.status,
        condition.reason,
        condition.message,
        condition.last_probe_time,
        condition.last_transition_time,
    )


def _difference(old: Condition | None, new: Condition) -> dict[str, Any]:
    """The fields of *new* that differ from *old*, a removed one as null, always with the type that is the key."""
    entry: dict[str, Any] = {"type": new.type}
    for name, field in _FIELDS.items():
        value = getattr(new, field)
        if value != (getattr(old, field) if old is not None else _UNSET.get(field, "")):
            entry[name] = value or None
    return entry


_UNSET = {"observed_generation": 0, "last_transition_time": None}
