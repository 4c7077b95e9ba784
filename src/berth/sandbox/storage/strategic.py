"""Strategic merge patches: merging that knows which lists are really maps.

Which lists merge, and by which key, is a property of the types, told by `fields`. Results share everything that a patch
leaves alone. Pure functions, called by `patches` and `access`.

Source: k8s apimachinery/pkg/util/strategicpatch/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds.fields import Field, Message, message

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, Any]

_ORDER: Final = "$setElementOrder/"
_REMOVE: Final = "$deleteFromPrimitiveList/"
_REPLACED: Final = "!"


class StrategicPatchError(ValueError):
    """A patch whose directives cannot be carried out."""


def merge(original: JsonObject, patch: JsonObject, known: Message | None) -> JsonObject:
    """*original* changed by a strategic merge patch.

    Args:
        original: the object, or a part of it; read only.
        patch: the patch, or its part; read only.
        known: what *original* is; None where its fields are not known, so that lists are replaced as a whole.

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
            _merge_field(result, name, value, patch, _field(known, name))
    for name in patch:
        if name.startswith((_ORDER, _REMOVE)):
            listed = name.partition("/")[2]
            field = _field(known, listed)
            if listed not in patch and listed in result and field is not None:
                result[listed] = _merge_list(result[listed], [], patch, field)
    return result


def _field(known: Message | None, name: str) -> Field | None:
    return known.fields.get(name) if known is not None else None


def _inside(field: Field | None) -> Message | None:
    return message(field.kind) if field is not None and field.is_message else None


def _merge_field(result: JsonObject, name: str, value: Any, patch: JsonObject, field: Field | None) -> None:
    old = result.get(name)
    merge_key = field.merge if field is not None else None
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        kept = old if isinstance(old, dict) and merge_key != _REPLACED else {}
        result[name] = merge(kept, value, _inside(field))
    elif isinstance(value, list) and field is not None and merge_key is not None:
        result[name] = _merge_list(old if isinstance(old, list) else [], value, patch, field)
    else:
        result[name] = value


def _merge_list(original: list[Any], changes: list[Any], patch: JsonObject, field: Field) -> list[Any]:
    key = field.merge
    if key is None:
        return original
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in changes):
        return [item for item in changes if "$patch" not in item]
    # Where the patch says nothing of the order, its own items come in its own order.
    order = patch.get(_ORDER + field.name, changes)
    if key == "":
        removed = patch.get(_REMOVE + field.name, ())
        kept = [item for item in original if item not in removed]
        merged = kept + [item for item in changes if item not in kept]
        return _ordered(merged, order, original, lambda item: item)
    merged = _merge_items(original, changes, key, field)
    wanted = [_key_of(item, key, field.name) for item in order]
    return _ordered(merged, wanted, [item.get(key) for item in original], lambda item: item.get(key))


def _merge_items(original: list[Any], changes: list[Any], key: str, field: Field) -> list[Any]:
    merged = list(original)
    for change in changes:
        identity = _key_of(change, key, field.name)
        index = next((i for i, item in enumerate(merged) if item.get(key) == identity), None)
        if change.get("$patch") == "delete":
            merged = [item for item in merged if item.get(key) != identity]
        elif index is None:
            merged.append(merge({}, change, _inside(field)))
        else:
            merged[index] = merge(merged[index], change, _inside(field))
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
