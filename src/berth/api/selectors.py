"""Label selectors and node selectors: the wire form, and the compiled form that answers ``matches``.

Compiling checks the selector once; matching is then a few set look-ups.  A faulty selector raises `SelectorError`
with the path of the fault, and the caller decides what that means: for a pod's required node affinity the term never
matches, for a preferred one the attempt fails.

Source: k8s apimachinery/pkg/labels/selector.go and component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from berth.api.meta import ApiStruct, Labels
from berth.api.quantity import MAX_INT64, MIN_INT64

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER_THAN: Final = "Gt"
LESS_THAN: Final = "Lt"

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_LABEL_NAME: Final = re.compile(_NAME, re.ASCII)
_LABEL_VALUE: Final = re.compile(f"(?:{_NAME})?", re.ASCII)
_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_MAX_NAME: Final = 63
_NAME_RULE: Final = (
    "must consist of at most 63 alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_MAX_SUBDOMAIN: Final = 253


class SelectorError(ValueError):
    """A selector that the reference would refuse to parse.

    Attributes:
        path: where in the selector, for example ``matchExpressions[0].key``; may be empty.
        rule: what is wrong there.
    """

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path}: {rule}" if path else rule)
        self.path, self.rule = path, rule

    def under(self, prefix: str) -> "SelectorError":
        """The same fault, seen from the object that holds the selector at *prefix*."""
        return SelectorError(f"{prefix}.{self.path}" if self.path else prefix, self.rule)


class SelectorRequirement(ApiStruct, frozen=True):
    """One condition on one key, as written in a manifest."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiStruct, frozen=True):
    """A selector of objects by their labels, as written in a manifest."""

    match_labels: Labels = {}
    match_expressions: tuple[SelectorRequirement, ...] = ()

    def __hash__(self) -> int:
        return hash((frozenset(self.match_labels.items()), self.match_expressions))


@dataclass(frozen=True, slots=True)
class Requirement:
    """One checked condition on one key; conditions of a selector are joined by *and*."""

    key: str
    operator: str
    values: frozenset[str]
    bound: int = 0  # the number that Gt and Lt compare with

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether *labels* satisfy this condition."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number = parse_int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator == GREATER_THAN else number < self.bound


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled label selector.

    ``requirements`` is None for the selector that matches nothing (an absent one); an empty tuple matches everything.
    """

    requirements: tuple[Requirement, ...] | None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.requirements is None:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """Whether the selector has no condition and so matches everything."""
        return self.requirements == ()


NOTHING: Final = Selector(None)
EVERYTHING: Final = Selector(())


def compile_label_selector(selector: LabelSelector | None) -> Selector:
    """The compiled form of *selector*; None selects nothing, an empty one everything.

    Raises:
        SelectorError: a key, value or operator is not allowed.

    Source:
        k8s apimachinery/pkg/apis/meta/v1/helpers.go, ``LabelSelectorAsSelector``.
    """
    if selector is None:
        return NOTHING
    requirements = [
        make_requirement(key, IN, (value,), f"matchLabels[{key}]")
        for key, value in sorted(selector.match_labels.items())
    ]
    for i, expression in enumerate(selector.match_expressions):
        path = f"matchExpressions[{i}]"
        if expression.operator not in (IN, NOT_IN, EXISTS, DOES_NOT_EXIST):
            raise SelectorError(path, f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(make_requirement(expression.key, expression.operator, expression.values, path))
    return Selector(tuple(requirements))


def make_requirement(key: str, operator: str, values: tuple[str, ...], path: str) -> Requirement:
    """One checked condition.

    Args:
        key: the label key.
        operator: one of the six operators.
        values: what the operator compares with; their number depends on the operator.
        path: where the condition stands, for the error.

    Raises:
        SelectorError: the key, the number of values, a value or the operator is not allowed.

    Source:
        k8s apimachinery/pkg/labels/selector.go, ``NewRequirement``.
    """
    fault = label_key_fault(key)
    if fault:
        raise SelectorError(f"{path}.key", f'Invalid value: "{key}": {fault}')
    bound = 0
    match operator:
        case "In" | "NotIn":
            if not values:
                raise SelectorError(
                    f"{path}.values", "Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                )
        case "Exists" | "DoesNotExist":
            if values:
                raise SelectorError(
                    f"{path}.values",
                    f"Invalid value: {_go_list(values)}: values set must be empty for exists and does not exist",
                )
        case "Gt" | "Lt":
            bound = _bound(values, path)
        case _:
            raise SelectorError(f"{path}.operator", f'Unsupported value: "{operator}"')
    for i, value in enumerate(values):
        if fault := label_value_fault(value):
            raise SelectorError(f"{path}.values[{i}][{key}]", f'Invalid value: "{value}": {fault}')
    return Requirement(key, operator, frozenset(values), bound)


def _bound(values: tuple[str, ...], path: str) -> int:
    if len(values) != 1:
        raise SelectorError(
            f"{path}.values",
            f"Invalid value: {_go_list(values)}: for 'Gt', 'Lt' operators, exactly one value is required",
        )
    number = parse_int64(values[0])
    if number is None:
        raise SelectorError(
            f"{path}.values[0]",
            f"Invalid value: \"{values[0]}\": for 'Gt', 'Lt' operators, the value must be an integer",
        )
    return number


def _go_list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{v}"' for v in values) + "]"


def parse_int64(text: str | None) -> int | None:
    """The base-10 number in *text* (sign and leading zeros allowed); None if it is none or needs over 64 bits."""
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if MIN_INT64 <= number <= MAX_INT64 else None


def label_key_fault(key: str) -> str:
    """What is wrong with a label key; empty if it is a qualified name."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or len(prefix) > _MAX_SUBDOMAIN or _SUBDOMAIN.fullmatch(prefix) is None):
        return "prefix part must be a lower-case DNS subdomain of at most 253 characters"
    if "/" in prefix or not name or len(name) > _MAX_NAME or _LABEL_NAME.fullmatch(name) is None:
        return f"name part {_NAME_RULE}"
    return ""


def label_value_fault(value: str) -> str:
    """What is wrong with a label value; empty if it is one."""
    if len(value) > _MAX_NAME or _LABEL_VALUE.fullmatch(value) is None:
        return _NAME_RULE
    return ""
