"""Binding and eviction: the two ways to act on a pod that are no plain writes of it.

Called by `server` for POST below a pod. Binding is the hot path of a scheduler: it builds the new pod from the old one
in a handful of small dicts.

Source: k8s pkg/registry/core/pod/storage/storage.go (`BindingREST`), pkg/registry/core/pod/storage/eviction.go,
plugin/pkg/admission/podtopologylabels/admission.go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds import errors
from berth.sandbox.objects import items, section, with_condition, without
from berth.sandbox.serving.calls import Answer, Call, decode_body, options_from, success
from berth.sandbox.serving.selectors import label_selector
from berth.sandbox.storage.registry import DeleteOptions, Preconditions, check_storage_preconditions
from berth.sandbox.storage.store import encode
from berth.sandbox.storage.topology import topology_labels

if TYPE_CHECKING:
    from berth.sandbox.storage.registry import Registry
    from berth.sandbox.storage.store import Key

JsonObject = dict[str, Any]

_BOUND: Final = encode(success(code=201))
_BUSY_S: Final = 10  # when to ask again for a budget that was not looked at yet


class PodActions:
    """Binding and eviction over one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        table = registry.table
        self._pods = table.served("", "v1", "pods")
        self._nodes = table.served("", "v1", "nodes")
        self._budgets = table.served("policy", "v1", "poddisruptionbudgets")

    def bind(self, call: Call, name: str) -> Answer:
        """Assign a pod to a node.

        Args:
            call: a request whose body is a Binding.
            name: of the pod; empty to take it from the body (the form without a pod in the path).

        Raises:
            ApiError: 400, 404, or 409 if the pod is bound, gated, being deleted or another one than was meant.
        """
        binding = decode_body(call)
        metadata, target = section(binding, "metadata"), section(binding, "target")
        name = name or metadata.get("name", "")
        if metadata.get("name", name) != name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        if faults := _target_faults(target):
            text = str(faults[0]) if len(faults) == 1 else f"[{', '.join(map(str, faults))}]"
            raise errors.ApiError(500, "", text)
        key = (call.route.namespace, name)
        pod = self._registry.get(self._pods, key).obj
        self._check_binding(pod, key, metadata)
        if not call.dry_run:
            self._registry.replace(self._pods, key, self._bound(pod, metadata, target["name"]))
        return Answer(201, _BOUND)

    def _check_binding(self, pod: JsonObject, key: Key, wanted: JsonObject) -> None:
        kept, spec, name = pod["metadata"], section(pod, "spec"), key[1]
        check_storage_preconditions(self._pods, pod, wanted)
        if "deletionTimestamp" in kept:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        elif spec.get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        else:
            return
        raise errors.conflict(self._pods, name, why, subresource="binding")

    def _bound(self, pod: JsonObject, metadata: JsonObject, node_name: str) -> JsonObject:
        kept = pod["metadata"]
        topology = topology_labels(self._registry.store.collection(self._nodes), node_name)
        labels = {**section(metadata, "labels"), **topology}
        if labels:
            kept = {**kept, "labels": {**section(kept, "labels"), **labels}}
        if annotations := section(metadata, "annotations"):
            kept = {**kept, "annotations": {**section(kept, "annotations"), **annotations}}
        status = without(section(pod, "status"), "nominatedNodeName")
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        status["conditions"] = with_condition(items(status, "conditions"), scheduled, self._registry.now())
        return {**pod, "metadata": kept, "spec": {**pod["spec"], "nodeName": node_name}, "status": status}

    def evict(self, call: Call) -> Answer:
        """Delete a pod unless a disruption budget forbids it.

        Raises:
            ApiError: 404, 409 for a failed precondition, 429 if a budget is used up.
        """
        eviction = decode_body(call)
        name = section(eviction, "metadata").get("name", call.route.name)
        if name != call.route.name:
            raise errors.bad_request("name in URL does not match name in Eviction object")
        options = options_from(section(eviction, "deleteOptions"), call)
        pod = self._registry.get(self._pods, call.key).obj
        if not _may_go_at_once(pod):
            self._take_from_budget(pod, dry_run=options.dry_run)
        self._mark_and_delete(call.key, options)
        return Answer(201, _BOUND)

    def _take_from_budget(self, pod: JsonObject, *, dry_run: bool) -> None:
        budgets = [entry.obj for entry in self._budgets_of(pod)]
        if not budgets:
            return
        if len(budgets) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise errors.ApiError(500, "", message)
        budget = budgets[0]
        metadata, status = budget["metadata"], section(budget, "status")
        if not _is_ready(pod) and _unhealthy_may_go(budget):
            return
        if status.get("observedGeneration", 0) < metadata.get("generation", 0):
            cause = f"The disruption budget {metadata['name']} is still being processed by the server."
            raise _too_many_requests(cause, _BUSY_S)
        allowed = status.get("disruptionsAllowed", 0)
        if allowed <= 0:
            raise _too_many_requests(_why_not(metadata["name"], status), 0)
        if not dry_run:
            disrupted = {**section(status, "disruptedPods"), pod["metadata"]["name"]: self._registry.now()}
            status = {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}
            key = (metadata["namespace"], metadata["name"])
            self._registry.replace(self._budgets, key, {**budget, "status": status})

    def _budgets_of(self, pod: JsonObject) -> list[Any]:
        entries = self._registry.store.collection(self._budgets).entries(pod["metadata"]["namespace"])
        return [entry for entry in entries if label_selector(section(entry.obj, "spec").get("selector"))(pod)]

    def _mark_and_delete(self, key: Key, options: DeleteOptions) -> None:
        registry, pod = self._registry, self._registry.get(self._pods, key).obj
        if options.dry_run:
            registry.delete(self._pods, key, options)
            return
        check = options.preconditions
        registry.check_preconditions(self._pods, pod, check)
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        }
        status = section(pod, "status")
        conditions = with_condition(items(status, "conditions"), condition, registry.now())
        registry.replace(self._pods, key, {**pod, "status": {**status, "conditions": conditions}})
        registry.delete(self._pods, key, replace(options, preconditions=Preconditions(check.uid, None)))


def _target_faults(target: JsonObject) -> list[errors.FieldError]:
    faults = []
    if target.get("kind") not in (None, "", "Node"):
        faults.append(errors.unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        faults.append(errors.required("target.name"))
    return faults


def _may_go_at_once(pod: JsonObject) -> bool:
    phase = section(pod, "status").get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: JsonObject) -> bool:
    conditions = items(section(pod, "status"), "conditions")
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _unhealthy_may_go(budget: JsonObject) -> bool:
    if section(budget, "spec").get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = section(budget, "status")
    desired = status.get("desiredHealthy", 0)
    return bool(desired > 0 and status.get("currentHealthy", 0) >= desired)


def _why_not(name: str, status: JsonObject) -> str:
    needed, current = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
    if current <= needed:
        return f"The disruption budget {name} needs {needed} healthy pods and has {current} currently"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _too_many_requests(cause: str, retry_after_s: int) -> errors.ApiError:
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    details: JsonObject = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    headers = {}
    if retry_after_s:
        details["retryAfterSeconds"] = retry_after_s
        headers["Retry-After"] = str(retry_after_s)
    return errors.ApiError(429, "TooManyRequests", message, details, headers)
