"""Brings an object that came in into the form in which kube-apiserver's types would keep it.

Fields that the type does not have are dropped and reported, values of a wrong type refused, quantities and times
brought into their one form, and fields that are always written filled in. Parts that are the same as in the old object
were checked when they came in and are not looked at again. Everything behind this can rely on the types. Called at the
edges: by `handlers` for requests and by `access` for direct writes.

Source: k8s apimachinery/pkg/runtime/serializer/json/json.go and sigs.k8s.io/json.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from berth.api.quantity import QuantityError
from berth.sandbox.kinds import errors
from berth.sandbox.kinds.fields import Field, Letter, Message, message, message_of
from berth.sandbox.kinds.quantities import shown
from berth.sandbox.objects import parse_time, rfc3339, rfc3339_micro, without

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from berth.sandbox.kinds.resources import Resource

JsonObject = dict[str, Any]

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_JSON_NAMES: Final = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_GO_NAMES: Final = {
    Letter.TEXT: "string",
    Letter.BOOL: "bool",
    Letter.INT: "int32",
    Letter.LONG: "int64",
    Letter.DOUBLE: "float64",
    Letter.BYTES: "[]uint8",
}
_ZERO: Final[dict[str, Any]] = {
    Letter.TEXT: "",
    Letter.BOOL: False,
    Letter.INT: 0,
    Letter.LONG: 0,
    Letter.QUANTITY: "0",
    Letter.INT_OR_TEXT: 0,
}


class _MismatchError(Exception):
    """A value that is not of its field's type; the text is what the typed decoder would say."""


def conformed(resource: Resource, obj: JsonObject, old: JsonObject | None = None) -> tuple[JsonObject, list[str]]:
    """*obj* as its type would keep it.

    Args:
        resource: of which kind.
        obj: the object, without `kind` and `apiVersion`, as *resource* shows it; not changed.
        old: the kept object as *resource* shows it, if there is one.

    Returns:
        The object, sharing what was right, and the paths of the fields that were dropped.

    Raises:
        ApiError: 400 if a value is not of its field's type.
    """
    known = message_of(resource) or _METADATA_ONLY
    unknown: list[str] = []
    try:
        result = _message(known, obj, old, "", unknown)
    except _MismatchError as error:
        text = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {error}'
        raise errors.bad_request(text) from error
    return result, unknown


def zero(kind: Message) -> JsonObject:
    """An object of which nothing is known: the fields that are always written."""
    return {field.name: _zero_of(field) for field in kind.always}


def _zero_of(field: Field) -> Any:
    if field.repeated or field.mapped or field.pointer:
        return None
    return zero(message(field.kind)) if field.is_message else _ZERO.get(field.kind)


def _message(known: Message, obj: JsonObject, old: object, place: str, unknown: list[str]) -> JsonObject:
    if obj is old:
        return obj
    before = old if isinstance(old, dict) else {}
    changed: JsonObject = {field.name: _zero_of(field) for field in known.always if field.name not in obj}
    dropped: list[str] = []
    for name, value in obj.items():
        field = known.fields.get(name)
        if field is None:
            if known is not _METADATA_ONLY:
                dropped.append(name)
                unknown.append(f"{place}{name}")
        elif value is None:
            if not field.always:
                dropped.append(name)
        elif (new := _value(known, field, value, before.get(name), f"{place}{name}", unknown)) is not value:
            changed[name] = new
    return {**without(obj, *dropped), **changed} if changed or dropped else obj


def _value(known: Message, field: Field, value: Any, old: Any, place: str, unknown: list[str]) -> Any:
    if value is old:
        return value
    if field.repeated:
        return _list(known, field, value, old, place, unknown)
    if field.mapped:
        return _map(known, field, value, old, place, unknown)
    return _single(known, field, value, old, place, unknown)


def _list(known: Message, field: Field, value: Any, old: Any, place: str, unknown: list[str]) -> Any:
    if not isinstance(value, list):
        raise _mismatch(known, field, value, place)
    before = old if isinstance(old, list) else []
    result = []
    for index, member in enumerate(value):
        kept = before[index] if index < len(before) else None
        result.append(_single(known, field, member, kept, f"{place}[{index}]", unknown))
    return result if any(new is not member for new, member in zip(result, value, strict=True)) else value


def _map(known: Message, field: Field, value: Any, old: Any, place: str, unknown: list[str]) -> Any:
    if not isinstance(value, dict):
        raise _mismatch(known, field, value, place)
    before = old if isinstance(old, dict) else {}
    changed = {}
    for name, member in value.items():
        new = _single(known, field, member, before.get(name), f"{place}.{name}", unknown)
        if new is not member:
            changed[name] = new
    return {**value, **changed} if changed else value


def _single(known: Message, field: Field, value: Any, old: Any, place: str, unknown: list[str]) -> Any:
    kind = field.kind
    if len(kind) > 1:
        if not isinstance(value, dict):
            raise _mismatch(known, field, value, place)
        return _message(message(kind), value, old, f"{place}.", unknown)
    check = _CHECKS.get(kind)
    if check is not None:
        return check(value)
    if type(value) not in _ALLOWED[kind]:
        raise _mismatch(known, field, value, place)
    return value


def _quantity(value: Any) -> Any:
    try:
        return shown(value)
    except QuantityError as error:
        raise _MismatchError(_QUANTITY_RULE) from error


def _time(value: Any) -> str:
    if isinstance(value, str) and _TIME.fullmatch(value):
        return value
    return rfc3339(_moment(value, "2006-01-02T15:04:05Z07:00"))


def _micro_time(value: Any) -> str:
    if isinstance(value, str) and _MICRO_TIME.fullmatch(value):
        return value if value.endswith("Z") else rfc3339_micro(parse_time(value))
    # Six decimals are required, unlike in other times.
    raise _bad_time(value, "2006-01-02T15:04:05.000000Z07:00")


def _moment(value: Any, layout: str) -> datetime:
    try:
        moment = parse_time(value)
    except (TypeError, ValueError) as error:
        raise _bad_time(value, layout) from error
    if moment.tzinfo is None:
        raise _bad_time(value, layout)
    return moment


def _bad_time(value: Any, layout: str) -> _MismatchError:
    return _MismatchError(f'parsing time "{value}" as "{layout}": cannot parse it')


_CHECKS: Final[dict[str, Callable[[Any], Any]]] = {
    Letter.QUANTITY: _quantity,
    Letter.TIME: _time,
    Letter.MICRO_TIME: _micro_time,
    Letter.RAW: lambda value: value,
}
_ALLOWED: Final[dict[str, tuple[type, ...]]] = {
    Letter.TEXT: (str,),
    Letter.BOOL: (bool,),
    Letter.INT: (int,),
    Letter.LONG: (int,),
    Letter.DOUBLE: (int, float),
    Letter.BYTES: (str,),
    Letter.DURATION: (str,),
    Letter.INT_OR_TEXT: (int, str),
}


def _mismatch(known: Message, field: Field, value: Any, place: str) -> _MismatchError:
    path = re.sub(r"\[\d+\]", "", place)
    struct = known.name.rpartition(".")[2]
    got, wanted = _JSON_NAMES.get(type(value), "value"), _go_type(field)
    return _MismatchError(f"json: cannot unmarshal {got} into Go struct field {struct}.{path} of type {wanted}")


def _go_type(field: Field) -> str:
    if field.is_message:
        package, _, name = field.kind.rpartition(".")
        version = package.partition(".")[2] or "v1"
        base = f"{version}.{name}"
    else:
        base = _GO_NAMES.get(field.kind, "string")
    return f"[]{base}" if field.repeated else f"map[string]{base}" if field.mapped else base


_METADATA_ONLY: Final = Message(
    "custom", {"metadata": Field("metadata", 1, "meta.ObjectMeta", False, False, False, False, None)}, {}, {}
)
