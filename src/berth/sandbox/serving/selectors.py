"""Label and field selectors of list and watch requests.

Text in, predicate on JSON objects out. Called once per request by `handlers` and `watch`; the predicates run once per
object and event, so they are closures without parsing.

Source: k8s apimachinery/pkg/labels/selector.go, apimachinery/pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds import errors
from berth.sandbox.objects import items, section

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.sandbox.kinds.resources import Resource

JsonObject = dict[str, Any]

_SET_TERM: Final = re.compile(r"\s*([^\s!=<>,()]+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMPARED: Final = re.compile(r"\s*([^\s!=<>,()]+)\s*(==|=|!=|<|>)\s*([^\s!=<>,()]*)\s*")
_PRESENCE: Final = re.compile(r"\s*(!?)\s*([^\s!=<>,()]+)\s*")

# Fields that a selector may name besides metadata.name and metadata.namespace, by kind, with their paths.
_FIELDS: Final[dict[str, tuple[str, ...]]] = {
    "Pod": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    "Event": (
        *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "Namespace": ("status.phase",),
    "Node": ("spec.unschedulable",),
    "Secret": ("type",),
    "Job": ("status.successful",),
    "ReplicaSet": ("status.replicas",),
    "ReplicationController": ("status.replicas",),
    "Service": ("spec.clusterIP", "spec.type"),
    "ResourceSlice": ("spec.nodeName", "spec.driver"),
}
_BOOLEAN_FIELDS: Final = frozenset({"spec.unschedulable", "spec.hostNetwork"})
# The newer form of the event API has other names for the same fields.
_EVENT_ALIASES: Final = {"regarding": "involvedObject", "reportingController": "reportingComponent"}


def matcher(resource: Resource, label_text: str, field_text: str) -> Callable[[JsonObject], bool] | None:
    """The predicate of a request, on objects in their stored form.

    Args:
        resource: what is listed; it decides which fields can be named.
        label_text: `labelSelector` of the request; empty for all.
        field_text: `fieldSelector` of the request; empty for all.

    Returns:
        The predicate, or None where every object matches.

    Raises:
        ApiError: 400 for a selector that cannot be parsed or names an unknown field.
    """
    tests = [*_label_tests(label_text), *_field_tests(resource, field_text)]
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda obj: all(test(obj) for test in tests)


def label_selector(selector: JsonObject | None) -> Callable[[JsonObject], bool]:
    """The predicate of a `metav1.LabelSelector` object; none matches nothing, an empty one everything."""
    if selector is None:
        return lambda _: False
    tests = [_compared(key, "=", value) for key, value in section(selector, "matchLabels").items()]
    tests += [_expression_test(expression) for expression in items(selector, "matchExpressions")]
    return lambda obj: all(test(obj) for test in tests)


def _expression_test(expression: JsonObject) -> Callable[[JsonObject], bool]:
    key, operator, values = expression["key"], expression["operator"], frozenset(items(expression, "values"))
    if operator == "In":
        return lambda obj: _labels(obj).get(key) in values
    if operator == "NotIn":
        return lambda obj: _labels(obj).get(key) not in values
    if operator == "Exists":
        return lambda obj: key in _labels(obj)
    return lambda obj: key not in _labels(obj)


def _split(text: str) -> list[str]:
    """The terms of a selector: split at commas outside parentheses."""
    return [term for term in re.split(r",(?![^(]*\))", text) if term.strip()]


def _label_tests(text: str) -> list[Callable[[JsonObject], bool]]:
    return [_label_test(term) for term in _split(text)]


def _label_test(term: str) -> Callable[[JsonObject], bool]:
    if match := _SET_TERM.fullmatch(term):
        key, operator, listed = match.groups()
        values = frozenset(value.strip() for value in listed.split(","))
        if operator == "in":
            return lambda obj: _labels(obj).get(key) in values
        return lambda obj: _labels(obj).get(key) not in values
    if match := _COMPARED.fullmatch(term):
        return _compared(*match.groups())
    if match := _PRESENCE.fullmatch(term):
        absent, key = match.groups()
        if absent:
            return lambda obj: key not in _labels(obj)
        return lambda obj: key in _labels(obj)
    found = (*term.split(), "", "")[1]
    raise errors.bad_request(f"unable to parse requirement: found '{found}', expected: in, notin, =, ==, !=, gt, lt")


def _compared(key: str, operator: str, value: str) -> Callable[[JsonObject], bool]:
    if operator == "!=":
        return lambda obj: _labels(obj).get(key) != value
    if operator in ("<", ">"):
        bound = _integer(value)
        if bound is None:
            raise errors.bad_request(f"for 'Gt', 'Lt' operators, the value must be an integer, got {value!r}")
        sign = 1 if operator == ">" else -1
        return lambda obj: (number := _integer(_labels(obj).get(key, ""))) is not None and sign * (number - bound) > 0
    return lambda obj: _labels(obj).get(key) == value


def _labels(obj: JsonObject) -> JsonObject:
    return obj["metadata"].get("labels") or {}


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else None


def _field_tests(resource: Resource, text: str) -> list[Callable[[JsonObject], bool]]:
    return [_field_test(resource, term, text) for term in _split(text)]


def _field_test(resource: Resource, term: str, text: str) -> Callable[[JsonObject], bool]:
    match = re.fullmatch(r"([^!=]+)(==|=|!=)(.*)", term)
    if match is None:
        raise errors.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    name, operator, value = match.groups()
    reader = _field_reader(resource, name)
    if operator == "!=":
        return lambda obj: reader(obj) != value
    return lambda obj: reader(obj) == value


def _field_reader(resource: Resource, name: str) -> Callable[[JsonObject], str]:
    head, _, rest = name.partition(".")
    stored = (
        ".".join(filter(None, (_EVENT_ALIASES.get(head, head), rest))) if resource.built_in_kind == "Event" else name
    )
    if stored == "metadata.name" or (stored == "metadata.namespace" and resource.namespaced):
        leaf = rest
        return lambda obj: obj["metadata"].get(leaf, "")
    if stored not in _FIELDS.get(resource.built_in_kind, ()):
        raise errors.bad_request(f"field label not supported: {name}")
    if resource.built_in_kind == "Event" and stored == "source":
        return lambda obj: section(obj, "source").get("component") or obj.get("reportingComponent", "")
    path = stored.split(".")
    if stored in _BOOLEAN_FIELDS:
        return lambda obj: "true" if _at(obj, path) else "false"
    return lambda obj: _text(_at(obj, path))


def _at(obj: JsonObject, path: list[str]) -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _text(value: Any) -> str:
    return "" if value is None else str(value)
