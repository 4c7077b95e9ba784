"""Selectors of devices: expressions, checked once, run once for each sort of device, and remembered.

An expression is checked against the proper types first, then translated for an evaluator without types of ours
(`cel_values`).  What a device looks like to selectors is its `Shape`; devices that look alike share one, and with it
the verdicts.  A domain that a device has no attributes of reads as empty, though it is not there if asked for.

Source: k8s dynamic-resource-allocation/cel/compile.go.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_math, ext_optional, ext_strings

from berth.api.dra import Device, DeviceAttribute, DeviceCapacity
from berth.plugins.dynamic_resources.cel_values import FUNCTIONS, Function, quantity, version

_REMEMBERED: Final = 64  # verdicts of a shape
_PROGRAMS: Final = 1024
_MISSING: Final = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_HAS_FIELD: Final = re.compile(  # a device has its fields; the evaluator takes them for variables
    r"\bhas\(\s*device\s*\.\s*(?:driver|attributes|capacity|allowMultipleAllocations)\s*\)"
)
_FIELDS_ONLY: Final = re.compile(
    r"(?:(?!\bdevice\b).|\bdevice\.(?:driver|attributes|capacity|allowMultipleAllocations)\b)*", re.DOTALL
)
_CODE: Final = re.compile(r"[A-Z_]+: ")
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has()"
    " for optional fields"
)
_VERDICTS: Final = frozenset(("BOOL", "DYN"))
_DEVICE: Final = "device"
_DRIVER: Final = "device.driver"
_ATTRIBUTES: Final = "device.attributes"
_CAPACITY: Final = "device.capacity"
_SHARED: Final = "device.allowMultipleAllocations"
_FIELDS: Final = (_DRIVER, _ATTRIBUTES, _CAPACITY, _SHARED)
_BY_DOMAIN: Final = (_ATTRIBUTES, _CAPACITY)
_EMPTY: Final[Mapping[str, Any]] = {}


class ExpressionError(Exception):
    """An expression is faulty, or fails for a device.

    Attributes:
        is_runtime: whether it fails for a device.
        is_missing_key: whether it fails because the device lacks something that the expression takes for granted.
    """

    def __init__(self, detail: str, *, is_runtime: bool, is_missing_key: bool = False) -> None:
        super().__init__(detail)
        self.detail, self.is_runtime, self.is_missing_key = detail, is_runtime, is_missing_key

    def text(self, *, with_hint: bool) -> str:
        """What the failure says."""
        when = "runtime" if self.is_runtime else "compile"
        return f"CEL {when} error: {self.detail}{_HINT if with_hint and self.is_missing_key else ''}"


class Shape:
    """What a device looks like to selectors, and what they made of it.

    Args:
        driver: the driver; attributes and capacities without a domain are in its.
        device: a device of that look.
    """

    __slots__ = ("__weakref__", "_device", "_fields", "driver", "verdicts")

    def __init__(self, driver: str, device: Device) -> None:
        self.driver, self._device = driver, device
        self._fields: dict[str, Any] = {}
        self.verdicts: dict[str, bool | ExpressionError] = {}

    def field(self, name: str) -> Any:
        """A field of the device, by the name of the variable that stands for it.

        Raises:
            ExpressionError: an attribute or a capacity of the device is malformed.
        """
        if name not in self._fields:
            self._fields[name] = self._made(name)
        return self._fields[name]

    def _made(self, name: str) -> Any:
        match name:
            case "device.driver":
                return self.driver
            case "device.attributes":
                return _by_domain(self.driver, self._device.attributes, _attribute)
            case "device.capacity":
                return _by_domain(self.driver, self._device.capacity, _amount)
        return bool(self._device.allow_multiple_allocations)


class _Program(NamedTuple):
    """An expression, ready to run.

    Attributes:
        expression: for the evaluator.
        variables: the fields that it may use.
        is_about_the_whole: whether it may use the device otherwise than by a field.
        by_driver: the verdicts, where the driver is all that matters.
    """

    expression: Any
    variables: tuple[str, ...]
    is_about_the_whole: bool
    by_driver: dict[str, bool]

    def run(self, shape: Shape, domains: Sequence[str]) -> Any:
        """The outcome for a device of that look, with *domains* as well that may be empty."""
        data: dict[str, Any] = {}
        for name in self.variables:
            field = shape.field(name)
            data[name] = {**dict.fromkeys(domains, _EMPTY), **field} if domains and name in _BY_DOMAIN else field
        if self.is_about_the_whole:
            data[_DEVICE] = {name.removeprefix("device."): value for name, value in data.items()}
        return self.expression.eval(data=data)


def _by_domain(driver: str, named: Mapping[str, Any], convert: Any) -> dict[str, dict[str, Any]]:
    domains: dict[str, dict[str, Any]] = {}
    for full, value in named.items():
        domain, _, name = full.rpartition("/")
        try:
            domains.setdefault(domain or driver, {})[name] = convert(value)
        except ValueError as error:
            raise ExpressionError(f"attribute {full}: {error}", is_runtime=True) from error
    return domains


def _attribute(attribute: DeviceAttribute) -> Any:
    for plain in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if plain is not None:
            return plain
    if attribute.version_value is not None:
        return version(attribute.version_value)
    for several in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if several:
            return list(several)
    if attribute.version_values:
        return [version(each) for each in attribute.version_values]
    raise ValueError("unsupported attribute value")


def _amount(capacity: DeviceCapacity) -> bytes:
    return quantity(capacity.value)


def matches(expression: str, shape: Shape) -> bool:
    """Whether a device of that look is selected.

    Raises:
        ExpressionError: the expression is faulty, or fails for the device.
    """
    verdict = shape.verdicts.get(expression)
    if verdict is None:
        if len(shape.verdicts) >= _REMEMBERED:
            shape.verdicts.clear()
        try:
            verdict = _judged(expression, shape)
        except ExpressionError as failure:
            verdict = failure
        shape.verdicts[expression] = verdict
    if isinstance(verdict, ExpressionError):
        raise verdict
    return verdict


def _judged(expression: str, shape: Shape) -> bool:
    """As `matches`, but nothing is remembered of the shape."""
    program = _program(expression)
    if program.variables != (_DRIVER,) or program.is_about_the_whole:
        return _evaluate(program, shape)
    verdict = program.by_driver.get(shape.driver)
    if verdict is None:
        verdict = program.by_driver[shape.driver] = _evaluate(program, shape)
    return verdict


def _evaluate(program: _Program, shape: Shape) -> bool:
    domains: list[str] = []
    while True:
        outcome = program.run(shape, domains)
        kind = outcome.type()
        if kind == cel.Type.BOOL:
            return bool(outcome.value())
        if kind != cel.Type.ERROR:
            raise ExpressionError(
                f"CEL result of type {kind.name().lower()} could not be converted to bool", is_runtime=True
            )
        text = str(outcome.value())
        missing = _MISSING.search(text)
        if missing is None:
            raise ExpressionError(_worded(text), is_runtime=True)
        key = missing[1]
        if key in domains or all(key in shape.field(name) for name in _BY_DOMAIN):
            raise ExpressionError(f"no such key: {key}", is_runtime=True, is_missing_key=True)
        domains.append(key)  # what is not there was asked for, perhaps as a domain


def _worded(text: str) -> str:
    if "No matching overloads" in text:
        return "no such overload"
    if "divide by zero" in text:
        return "division by zero"
    return _CODE.sub("", text, count=1)


@lru_cache(maxsize=_PROGRAMS)
def _program(expression: str) -> _Program:
    """The expression, ready to run.

    Raises:
        ExpressionError: it is faulty.
    """
    checking, running = _environments()
    expression = _HAS_FIELD.sub("true", expression)
    try:
        result = checking.compile(expression).return_type()
        if result.name() not in _VERDICTS:
            raise ExpressionError(
                f"must evaluate to bool or the unknown type, not {result.name().lower()}", is_runtime=False
            )
        return _program_of(expression, running.compile(expression))
    except RuntimeError as error:
        detail = _CODE.sub("", str(error), count=1).removesuffix(" [INVALID_ARGUMENT]")
        raise ExpressionError(f"compilation failed: {detail}", is_runtime=False) from error


def _program_of(expression: str, compiled: Any) -> _Program:
    """What there is to know of an expression; giving it more than it uses costs time, and nothing else."""
    is_about_the_whole = not _FIELDS_ONLY.fullmatch(expression)
    mentioned = (name for name in _FIELDS if is_about_the_whole or name.removeprefix("device.") in expression)
    return _Program(compiled, tuple(mentioned), is_about_the_whole, {})


@cache
def _environments() -> tuple[Any, Any]:
    """One to check expressions in, with types for quantities and versions, and one to run them in, without."""
    types = {
        "string": cel.Type.STRING,
        "int": cel.Type.INT,
        "bool": cel.Type.BOOL,
        "double": cel.Type.DOUBLE,
        "list": cel.Type.LIST,
        "strings": cel.Type.List(cel.Type.STRING),
        "dyn": cel.Type.DYN,
    }
    quantities, versions = cel.Type.AbstractType("kubernetes.Quantity"), cel.Type.AbstractType("kubernetes.Semver")
    plain = {"quantity": cel.Type.BYTES, "version": cel.Type.BYTES}
    return (
        _environment({**types, "quantity": quantities, "version": versions}),
        _environment({**types, **plain}),
    )


def _environment(types: Mapping[str, Any]) -> Any:
    text, by_name = cel.Type.STRING, cel.Type.Map
    variables = {
        _DEVICE: by_name(text, cel.Type.DYN),
        _DRIVER: text,
        _ATTRIBUTES: by_name(text, by_name(text, cel.Type.DYN)),
        _CAPACITY: by_name(text, by_name(text, types["quantity"])),
        _SHARED: cel.Type.BOOL,
    }
    extensions = [
        ext_strings.ExtStrings(),
        ext_optional.ExtOptional(),
        ext_bindings.ExtBindings(),
        ext_math.ExtMath(),
    ]
    return cel.NewEnv(variables=variables, extensions=extensions, functions=_declarations(types))


def _declarations(types: Mapping[str, Any]) -> list[Any]:
    by_name: dict[str, dict[str, Function]] = {}
    for function in FUNCTIONS:
        signature = ",".join(types[kind].name() for kind in function.takes)
        by_name.setdefault(function.name, {}).setdefault(signature, function)
    return [
        cel.FunctionDecl(name, [_overload(function, types) for function in overloads.values()])
        for name, overloads in by_name.items()
    ]


def _overload(function: Function, types: Mapping[str, Any]) -> Any:
    parameters = [types[kind] for kind in function.takes]
    name = "_".join((function.name.replace(".", "_"), *function.takes))
    return cel.Overload(name, types[function.gives], parameters, function.is_method, function.call)
