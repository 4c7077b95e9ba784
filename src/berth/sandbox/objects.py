"""Small tools for JSON objects that are shared and must not be changed in place.

Used all over the sandbox. `replaced` builds the new dicts along one path and shares everything else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

JsonObject = dict[str, Any]


def section(obj: Mapping[str, Any], name: str) -> JsonObject:
    """The object under *name*; empty if it is missing or null. Read only."""
    return obj.get(name) or {}


def items(obj: Mapping[str, Any], name: str) -> list[Any]:
    """The list under *name*; empty if it is missing or null. Read only."""
    return obj.get(name) or []


def replaced(obj: JsonObject, path: tuple[str, ...], value: Any) -> JsonObject:
    """*obj* with *value* at *path*; missing objects on the way are made."""
    name, *rest = path
    if not rest:
        return {**obj, name: value}
    return {**obj, name: replaced(section(obj, name), tuple(rest), value)}


def without(obj: JsonObject, *names: str) -> JsonObject:
    """*obj* without some of its fields."""
    return {name: value for name, value in obj.items() if name not in names}


def without_nulls(value: Any) -> Any:
    """The same value with null fields left out, as a typed decoder would see it."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def utc_now() -> datetime:
    """The time of this machine."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """A time as Kubernetes writes `Time`: UTC, whole seconds."""
    return _in_utc(moment).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def rfc3339_micro(moment: datetime) -> str:
    """A time as Kubernetes writes `MicroTime`: UTC, six decimals."""
    return _in_utc(moment).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is UTC else moment.astimezone(UTC)


def parse_time(text: str) -> datetime:
    """The inverse of both.

    Raises:
        ValueError: the text is no RFC 3339 time.
    """
    return datetime.fromisoformat(text)


def with_condition(conditions: list[JsonObject], condition: JsonObject, now: str) -> list[JsonObject]:
    """The list with one condition set, by type.

    `lastTransitionTime` is *now* for a new condition or a changed status, and kept otherwise.

    Source: k8s pkg/api/v1/pod/util.go, `UpdatePodCondition`.
    """
    fresh = {**condition, "lastTransitionTime": now}
    for index, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            if old.get("status") == condition["status"] and "lastTransitionTime" in old:
                fresh["lastTransitionTime"] = old["lastTransitionTime"]
            return [*conditions[:index], fresh, *conditions[index + 1 :]]
    return [*conditions, fresh]
