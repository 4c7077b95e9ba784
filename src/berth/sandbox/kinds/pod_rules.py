"""What makes a pod valid, and which changes of a pod are allowed.

The part of kube-apiserver's validation that people and schedulers run into: names, images, resources, ports,
tolerations, affinity and spread terms, scheduling gates. All faults of an object are collected. Called by `admission`
on objects that were completed by `pod_defaults`.

Source: k8s pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.api.quantity import QuantityError
from berth.sandbox.kinds import errors
from berth.sandbox.kinds.errors import FieldError, invalid_value, required
from berth.sandbox.kinds.quantities import amount
from berth.sandbox.kinds.rules import (
    label_faults,
    label_name_faults,
    qualified_name_faults,
    resource_list_faults,
    subdomain_faults,
)
from berth.sandbox.objects import items, section, without

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"})
_MAX_PORT: Final = 65535
_MAX_WEIGHT: Final = 100
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def pod_faults(spec: JsonObject, path: str = "spec") -> list[FieldError]:
    """What is wrong with the specification of a pod, or of a template of one.

    Args:
        spec: the specification, with defaults.
        path: where it stands in its object.
    """
    faults = [
        *_container_faults(items(spec, "initContainers"), f"{path}.initContainers"),
        *_containers_faults(spec, path),
    ]
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        faults.append(errors.unsupported(f"{path}.restartPolicy", spec.get("restartPolicy"), _RESTART_POLICIES))
    faults += [
        *label_faults(section(spec, "nodeSelector"), f"{path}.nodeSelector"),
        *resource_list_faults(section(spec, "overhead"), f"{path}.overhead"),
        *_affinity_faults(section(spec, "affinity"), f"{path}.affinity"),
        *_gate_faults(spec, path),
        *_spread_faults(items(spec, "topologySpreadConstraints"), f"{path}.topologySpreadConstraints"),
        *_toleration_faults(items(spec, "tolerations"), f"{path}.tolerations"),
    ]
    if name := spec.get("nodeName"):
        faults += [invalid_value(f"{path}.nodeName", name, text) for text in subdomain_faults(name)]
    return faults


def _containers_faults(spec: JsonObject, path: str) -> list[FieldError]:
    containers = items(spec, "containers")
    if not containers:
        return [required(f"{path}.containers")]
    faults = _container_faults(containers, f"{path}.containers")
    seen: set[str] = {container.get("name", "") for container in items(spec, "initContainers")}
    for index, container in enumerate(containers):
        name = container.get("name", "")
        if name and name in seen:
            faults.append(errors.duplicate(f"{path}.containers[{index}].name", name))
        seen.add(name)
    return faults


def _container_faults(containers: list[JsonObject], path: str) -> list[FieldError]:
    faults = []
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        name = container.get("name", "")
        if not name:
            faults.append(required(f"{place}.name"))
        else:
            faults += [invalid_value(f"{place}.name", name, text) for text in label_name_faults(name)]
        if not container.get("image"):
            faults.append(required(f"{place}.image"))
        faults += _resource_faults(section(container, "resources"), f"{place}.resources")
        for number, port in enumerate(items(container, "ports")):
            faults += _port_faults(port, f"{place}.ports[{number}]")
    return faults


def _resource_faults(resources: JsonObject, path: str) -> list[FieldError]:
    limits, requests = section(resources, "limits"), section(resources, "requests")
    faults = resource_list_faults(limits, f"{path}.limits") + resource_list_faults(requests, f"{path}.requests")
    for name, request in requests.items():
        exact = "/" in name or name.startswith("hugepages-")
        if name in limits:
            faults += _limit_faults(name, request, limits[name], path, exact=exact)
        elif exact:
            faults.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
    return faults


def _limit_faults(name: str, request: Any, limit: Any, path: str, *, exact: bool) -> list[FieldError]:
    try:
        asked, allowed = amount(request), amount(limit)
    except QuantityError:
        return []  # reported with the list it stands in
    if exact and asked != allowed:
        return [invalid_value(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")]
    if asked > allowed:
        return [invalid_value(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")]
    return []


def _port_faults(port: JsonObject, path: str) -> list[FieldError]:
    faults = []
    number = port.get("containerPort", 0)
    if not number:
        faults.append(required(f"{path}.containerPort"))
    for field in ("containerPort", "hostPort"):
        value = port.get(field)
        if value and not 1 <= value <= _MAX_PORT:
            faults.append(invalid_value(f"{path}.{field}", value, f"must be between 1 and {_MAX_PORT}, inclusive"))
    if port.get("protocol") not in _PROTOCOLS:
        faults.append(errors.unsupported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    return faults


def _toleration_faults(tolerations: list[JsonObject], path: str) -> list[FieldError]:
    faults = []
    for index, toleration in enumerate(tolerations):
        place = f"{path}[{index}]"
        key, operator, effect = (toleration.get(name) or "" for name in ("key", "operator", "effect"))
        if key:
            faults += [invalid_value(f"{place}.key", key, text) for text in qualified_name_faults(key)]
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            faults.append(invalid_value(f"{place}.operator", operator, text))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            faults.append(invalid_value(f"{place}.effect", effect, text))
        if operator == "Exists" and toleration.get("value"):
            text = "value must be empty when `operator` is 'Exists'"
            faults.append(invalid_value(f"{place}.operator", toleration["value"], text))
        elif operator not in ("", "Equal", "Exists"):
            faults.append(errors.unsupported(f"{place}.operator", operator, ("Equal", "Exists")))
        if effect and effect not in _EFFECTS:
            faults.append(errors.unsupported(f"{place}.effect", effect, _EFFECTS))
    return faults


def _affinity_faults(affinity: JsonObject, path: str) -> list[FieldError]:
    faults = _node_affinity_faults(section(affinity, "nodeAffinity"), f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        group = section(affinity, kind)
        for index, term in enumerate(items(group, _REQUIRED)):
            faults += _pod_term_faults(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, weighted in enumerate(items(group, _PREFERRED)):
            place = f"{path}.{kind}.{_PREFERRED}[{index}]"
            faults += _weight_faults(weighted, place)
            faults += _pod_term_faults(section(weighted, "podAffinityTerm"), f"{place}.podAffinityTerm")
    return faults


def _pod_term_faults(term: JsonObject, path: str) -> list[FieldError]:
    key = term.get("topologyKey", "")
    missing = [] if key else [required(f"{path}.topologyKey", "can not be empty")]
    return missing + [invalid_value(f"{path}.topologyKey", key, text) for text in qualified_name_faults(key)]


def _weight_faults(weighted: JsonObject, path: str) -> list[FieldError]:
    weight = weighted.get("weight", 0)
    if 1 <= weight <= _MAX_WEIGHT:
        return []
    return [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_affinity_faults(affinity: JsonObject, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    required_terms = affinity.get(_REQUIRED)
    if required_terms is not None:
        place = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        terms = items(required_terms, "nodeSelectorTerms")
        if not terms:
            faults.append(required(place, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            faults += _node_term_faults(term, f"{place}[{index}]")
    for index, preferred in enumerate(items(affinity, _PREFERRED)):
        place = f"{path}.{_PREFERRED}[{index}]"
        faults += _weight_faults(preferred, place)
        faults += _node_term_faults(section(preferred, "preference"), f"{place}.preference")
    return faults


def _node_term_faults(term: JsonObject, path: str) -> list[FieldError]:
    faults = []
    for index, expression in enumerate(items(term, "matchExpressions")):
        place = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator"), items(expression, "values")
        if operator not in _NODE_OPERATORS:
            faults.append(invalid_value(f"{place}.operator", operator, "not a valid selector operator"))
        elif operator in ("In", "NotIn") and not values:
            faults.append(required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            faults.append(errors.forbidden_field(f"{place}.values", text))
        elif operator in ("Gt", "Lt") and len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            faults.append(required(f"{place}.values", text))
        key = expression.get("key", "")
        faults += [invalid_value(f"{place}.key", key, text) for text in qualified_name_faults(key)]
    return faults


def _spread_faults(constraints: list[JsonObject], path: str) -> list[FieldError]:
    faults = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        skew, when = constraint.get("maxSkew", 0), constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            faults.append(invalid_value(f"{place}.maxSkew", skew, "must be greater than zero"))
        key = constraint.get("topologyKey", "")
        if not key:
            faults.append(required(f"{place}.topologyKey", "can not be empty"))
        else:
            faults += [invalid_value(f"{place}.topologyKey", key, text) for text in qualified_name_faults(key)]
        if when not in _UNSATISFIABLE:
            faults.append(errors.unsupported(f"{place}.whenUnsatisfiable", when, _UNSATISFIABLE))
        if (key, when) in seen:
            faults.append(errors.duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}"))
        seen.add((key, when))
        if (domains := constraint.get("minDomains")) is not None and domains <= 0:
            faults.append(invalid_value(f"{place}.minDomains", domains, "must be greater than zero"))
    return faults


def _gate_faults(spec: JsonObject, path: str) -> list[FieldError]:
    gates = items(spec, "schedulingGates")
    faults = []
    if gates and spec.get("nodeName"):
        text = "cannot be set until all schedulingGates have been cleared"
        faults.append(errors.forbidden_field(f"{path}.nodeName", text))
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name, place = gate.get("name", ""), f"{path}.schedulingGates[{index}]"
        faults += [invalid_value(place, name, text) for text in qualified_name_faults(name)]
        if name in seen:
            faults.append(errors.duplicate(place, name))
        seen.add(name)
    return faults


_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_change_faults(old: JsonObject, new: JsonObject) -> list[FieldError]:
    """What is wrong with changing the specification of a pod from *old* to *new*."""
    for field in ("containers", "initContainers"):
        if len(items(old, field)) != len(items(new, field)):
            return [errors.forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")]
    faults = []
    if missing := [each for each in items(old, "tolerations") if each not in items(new, "tolerations")]:
        text = "existing toleration can not be modified except its tolerationSeconds"
        changed_time = [without(each, "tolerationSeconds") for each in items(new, "tolerations")]
        if any(without(each, "tolerationSeconds") not in changed_time for each in missing):
            faults.append(errors.forbidden_field("spec.tolerations", text))
    old_gates = [gate["name"] for gate in items(old, "schedulingGates")]
    for index, gate in enumerate(items(new, "schedulingGates")):
        if gate.get("name") not in old_gates:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            faults.append(errors.forbidden_field(f"spec.schedulingGates[{index}].name", text))
    if _fixed(old, old, old_gates) != _fixed(new, old, old_gates):
        changed = sorted(_changed_fields(_fixed(old, old, old_gates), _fixed(new, old, old_gates)))
        faults.append(errors.forbidden_field("spec", f"{_CHANGEABLE}\n changed: {', '.join(changed)}"))
    return faults


def _fixed(spec: JsonObject, old: JsonObject, gates: list[str]) -> JsonObject:
    """The part of a specification that may not change; of a gated pod, where it may run can still be narrowed."""
    fixed = without(spec, "activeDeadlineSeconds", "tolerations", "schedulingGates")
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [without(container, "image") for container in fixed[field]]
    if gates and section(old, "nodeSelector").items() <= section(spec, "nodeSelector").items():
        fixed.pop("nodeSelector", None)
    if gates:
        affinity = without(section(spec, "affinity"), "nodeAffinity")
        fixed.pop("affinity", None)
        if affinity:
            fixed["affinity"] = affinity
    return fixed


def _changed_fields(old: JsonObject, new: JsonObject) -> Iterator[str]:
    return (name for name in {*old, *new} if old.get(name) != new.get(name))
