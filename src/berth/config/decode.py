"""Plain values to configuration structs, strictly, with every fault collected and told by path.

The type hints of the structs are the schema. Unknown fields, wrong types and numbers out of range are faults; null
counts as absent, so that the field's default holds. Called by ``config.load``; ``config.defaults`` then turns the wire
form into the form in use.

Source: k8s apimachinery/pkg/runtime/serializer/json (strict decoding).
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from berth.api.durations import Duration
from berth.config.faults import Fault, FaultKind, invalid

T = TypeVar("T", bound=msgspec.Struct)


def decode_struct(value: Any, cls: type[T], path: str, faults: list[Fault]) -> T:
    """Read *value* as *cls*.

    Args:
        value: what the document holds at *path*; None counts as an empty object.
        cls: a struct whose fields all have defaults.
        path: where we are, as ``profiles[0]``; empty at the top.
        faults: receives what is wrong. If it grew, the result must not be used.
    """
    result = _decode(value, _type_of(cls), path, faults)
    return result if isinstance(result, cls) else cls()


@cache
def _type_of(cls: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(cls)


def _decode(value: Any, kind: inspect.Type, path: str, faults: list[Fault]) -> Any:
    if isinstance(kind, inspect.UnionType):
        return None if value is None else _decode(value, _not_none(kind), path, faults)
    if isinstance(kind, inspect.StructType):
        return _decode_struct(value, kind, path, faults)
    if isinstance(kind, inspect.VarTupleType):
        return _decode_list(value, kind.item_type, path, faults)
    if isinstance(kind, inspect.DictType):
        return _decode_map(value, kind.value_type, path, faults)
    if isinstance(kind, inspect.AnyType):
        return value
    return _decode_scalar(value, kind, path, faults)


def _not_none(kind: inspect.UnionType) -> inspect.Type:
    return next(member for member in kind.types if not isinstance(member, inspect.NoneType))


def _decode_struct(value: Any, kind: inspect.StructType, path: str, faults: list[Fault]) -> Any:
    if value is None:
        return kind.cls()
    if not isinstance(value, dict):
        faults.append(_wrong_type(path, value, "an object"))
        return None
    known = {field.encode_name: field for field in kind.fields}
    given = {}
    for key, item in value.items():
        here = _join(path, str(key))
        if key not in known:
            faults.append(unknown_field(here))
        elif item is not None:
            given[known[key].name] = _decode(item, known[key].type, here, faults)
    return kind.cls(**given)


def _decode_list(value: Any, item: inspect.Type, path: str, faults: list[Fault]) -> tuple[Any, ...]:
    if not isinstance(value, list):
        faults.append(_wrong_type(path, value, "a list"))
        return ()
    return tuple(_decode(member, item, f"{path}[{index}]", faults) for index, member in enumerate(value))


def _decode_map(value: Any, item: inspect.Type, path: str, faults: list[Fault]) -> dict[str, Any]:
    if not isinstance(value, dict):
        faults.append(_wrong_type(path, value, "an object"))
        return {}
    return {
        str(key): _decode(member, item, _join(path, str(key)), faults)
        for key, member in value.items()
        if member is not None
    }


def _decode_scalar(value: Any, kind: inspect.Type, path: str, faults: list[Fault]) -> Any:
    fault: Fault | None
    if isinstance(kind, inspect.IntType):
        fault = _int_fault(value, kind, path)
    elif isinstance(kind, inspect.FloatType):
        fault = _float_fault(value, kind, path)
    elif isinstance(kind, inspect.BoolType):
        fault = None if isinstance(value, bool) else _wrong_type(path, value, "true or false")
    elif isinstance(kind, inspect.DataclassType) and kind.cls is Duration:
        return _decode_duration(value, path, faults)
    else:
        fault = None if isinstance(value, str) else _wrong_type(path, value, "a string")
    if fault is not None:
        faults.append(fault)
    return value


def _int_fault(value: Any, kind: inspect.IntType, path: str) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return _wrong_type(path, value, "a whole number")
    if kind.ge is not None and kind.le is not None and not kind.ge <= value <= kind.le:
        return invalid(path, value, f"must fit in an {'int32' if kind.le < 2**31 else 'int64'}")
    return None


def _float_fault(value: Any, kind: inspect.FloatType, path: str) -> Fault | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _wrong_type(path, value, "a number")
    if kind.ge is not None and kind.le is not None and not kind.ge <= value <= kind.le:
        return invalid(path, value, "must fit in a float32")
    return None


def _decode_duration(value: Any, path: str, faults: list[Fault]) -> Duration:
    if not isinstance(value, str):
        faults.append(_wrong_type(path, value, 'a duration in quotes, such as "1m30s"'))
        return Duration()
    try:
        return Duration.parse(value)
    except ValueError as error:
        faults.append(invalid(path, value, str(error)))
        return Duration()


def unknown_field(path: str) -> Fault:
    """A field that the type at this place does not have."""
    return Fault(path, FaultKind.STRICT, detail=f'unknown field "{path}"')


def _wrong_type(path: str, value: Any, wanted: str) -> Fault:
    return invalid(path, value, f"must be {wanted}")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
