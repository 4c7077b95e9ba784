"""Strategic merge patches: merging that knows which lists are really maps.

Which lists merge, and by which key, is a property of the built-in types; nearly always the field's name decides it, so
a table by name with a few exceptions by kind stands in for the types. Results share everything that a patch leaves
alone. Pure functions, called by `patches`.

Source: k8s apimachinery/pkg/util/strategicpatch/patch.go; the `patchStrategy` tags of the types in k8s.io/api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, Any]

_ORDER: Final = "$setElementOrder/"
_REMOVE: Final = "$deleteFromPrimitiveList/"

# Field name -> merge key. An empty key marks a list of plain values that merges as a set.
_MERGE_KEYS: Final[dict[str, str]] = {
    "conditions": "type",
    "addresses": "type",
    "ownerReferences": "uid",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "resourceClaimStatuses": "name",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "allocatedResourcesStatus": "name",
    "podIPs": "ip",
    "hostIPs": "ip",
    "podCIDRs": "",
    "reservedFor": "uid",
    "drivers": "name",
}
# (kind, field name) where a kind differs; None is a list that is replaced as a whole.
_EXCEPTIONS: Final[dict[tuple[str, str], str | None]] = {
    ("Service", "ports"): "port",
    ("Endpoints", "ports"): None,
    ("Endpoints", "addresses"): None,
    ("ServiceAccount", "secrets"): "name",
    ("ServiceAccount", "imagePullSecrets"): None,
}


class StrategicPatchError(ValueError):
    """A patch whose directives cannot be carried out."""


def merge_key(kind: str, parent: str, field: str) -> str | None:
    """How a list merges.

    Args:
        kind: of the whole object.
        parent: name of the field that holds *field*; empty at the top.
        field: name of the list.

    Returns:
        The key of its items; empty for a set of plain values; None if it is replaced as a whole.
    """
    if field == "finalizers":
        return "" if parent == "metadata" else None
    if (kind, field) in _EXCEPTIONS:
        return _EXCEPTIONS[(kind, field)]
    return _MERGE_KEYS.get(field)


def merge(original: JsonObject, patch: JsonObject, kind: str, parent: str = "") -> JsonObject:
    """*original* changed by a strategic merge patch.

    Args:
        original: the object, or a part of it; read only.
        patch: the patch, or its part; read only.
        kind: of the whole object.
        parent: name of the field that holds *original*; empty at the top.

    Raises:
        StrategicPatchError: a directive does not fit.
    """
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch" and value is not None}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise StrategicPatchError(f"Unknown patch type found: {directive}")
    result = dict(original)
    if "$retainKeys" in patch:
        result = {name: value for name, value in result.items() if name in patch["$retainKeys"]}
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(result, name, patch, _List(kind, name, merge_key(kind, parent, name)), value)
    for name in patch:
        if name.startswith((_ORDER, _REMOVE)):
            field = name.partition("/")[2]
            if field not in patch and field in result:
                place = _List(kind, field, merge_key(kind, parent, field))
                result[field] = _merge_list(result[field], [], patch, place)
    return result


class _List(NamedTuple):
    """Where a list stands: kind of the whole object, name of the field, merge key (see `merge_key`)."""

    kind: str
    field: str
    key: str | None


def _merge_field(result: JsonObject, name: str, patch: JsonObject, place: _List, value: Any) -> None:
    old = result.get(name)
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        result[name] = merge(old if isinstance(old, dict) else {}, value, place.kind, name)
    elif isinstance(value, list) and place.key is not None:
        result[name] = _merge_list(old if isinstance(old, list) else [], value, patch, place)
    else:
        result[name] = value


def _merge_list(original: list[Any], changes: list[Any], patch: JsonObject, place: _List) -> list[Any]:
    key = place.key
    if key is None:
        return original
    order = patch.get(_ORDER + place.field)
    if key == "":
        removed = patch.get(_REMOVE + place.field, ())
        kept = [item for item in original if item not in removed]
        merged = kept + [item for item in changes if item not in kept]
        return merged if order is None else _ordered(merged, order, original, lambda item: item)
    merged = _merge_items(original, changes, key, place)
    if order is None:
        return merged
    wanted = [_key_of(item, key, place.field) for item in order]
    return _ordered(merged, wanted, [item.get(key) for item in original], lambda item: item.get(key))


def _merge_items(original: list[Any], changes: list[Any], key: str, place: _List) -> list[Any]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in changes):
        return [item for item in changes if "$patch" not in item]
    merged = list(original)
    for change in changes:
        identity = _key_of(change, key, place.field)
        index = next((i for i, item in enumerate(merged) if item.get(key) == identity), None)
        if change.get("$patch") == "delete":
            merged = [item for item in merged if item.get(key) != identity]
        elif index is None:
            merged.append(merge({}, change, place.kind, place.field))
        else:
            merged[index] = merge(merged[index], change, place.kind, place.field)
    return merged


def _key_of(item: Any, key: str, field: str) -> Any:
    if not isinstance(item, dict) or key not in item:
        raise StrategicPatchError(f"map: {item} does not contain declared merge key: {key} (in {field})")
    return item[key]


def _ordered(merged: list[Any], wanted: list[Any], live: list[Any], identity: Callable[[Any], Any]) -> list[Any]:
    """Sort *merged* as the patch wants it; items that it does not know keep their place among the live ones."""
    listed = sorted(
        (item for item in merged if identity(item) in wanted), key=lambda item: wanted.index(identity(item))
    )
    others = [item for item in merged if identity(item) not in wanted]
    result: list[Any] = []
    for item in listed:
        while others and _before(identity(others[0]), identity(item), live):
            result.append(others.pop(0))
        result.append(item)
    return result + others


def _before(left: Any, right: Any, live: list[Any]) -> bool:
    return left in live and right in live and live.index(left) < live.index(right)
