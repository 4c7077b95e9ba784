"""Defaults and rules of the kinds other than pods.

A table from kind to what is filled in when an object comes in, and to the faults that keep it out. Works in place on
objects that nobody else holds; read by `admission`. Kinds that need none are not in the tables.

Source: k8s pkg/apis/{core,apps,batch,storage,scheduling,resource}/v1/defaults.go and the strategies in pkg/registry.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds import errors
from berth.sandbox.kinds.errors import FieldError, invalid_value, required
from berth.sandbox.kinds.pod_defaults import complete_spec
from berth.sandbox.kinds.pod_rules import pod_faults
from berth.sandbox.kinds.rules import immutable, label_value_faults, qualified_name_faults, resource_list_faults
from berth.sandbox.objects import items, section

if TYPE_CHECKING:
    from collections.abc import Callable

JsonObject = dict[str, Any]

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAX_USER_PRIORITY: Final = 1_000_000_000
_JOB_PREFIXES: Final = ("batch.kubernetes.io/", "")
_MAX_SURGE: Final = {"maxUnavailable": "25%", "maxSurge": "25%"}


def _complete_namespace(obj: JsonObject) -> None:
    metadata = obj["metadata"]
    if "name" in metadata:
        metadata["labels"] = {**section(metadata, "labels"), "kubernetes.io/metadata.name": metadata["name"]}
    spec = obj.setdefault("spec", {})
    spec["finalizers"] = spec.get("finalizers") or ["kubernetes"]
    obj.setdefault("status", {}).setdefault("phase", "Active")


def _complete_node(obj: JsonObject) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if "capacity" in status and not status.get("allocatable"):
        status["allocatable"] = status["capacity"]


def _complete_volume(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if path := section(spec, "hostPath"):
        path.setdefault("type", "")
    status = obj.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("lastPhaseTransitionTime", obj["metadata"].get("creationTimestamp"))


def _complete_claim(obj: JsonObject) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _complete_service(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in items(spec, "ports"):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _complete_secret(obj: JsonObject) -> None:
    obj.setdefault("type", "Opaque")
    if (texts := obj.pop("stringData", None)) is not None:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        obj["data"] = {**section(obj, "data"), **encoded}


def _complete_priority_class(obj: JsonObject) -> None:
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _complete_storage_class(obj: JsonObject) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _complete_driver(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    for field, value in (
        ("attachRequired", True),
        ("podInfoOnMount", False),
        ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
        ("storageCapacity", False),
        ("requiresRepublish", False),
        ("seLinuxMount", False),
        ("preventPodSchedulingIfMissing", False),
        ("volumeLifecycleModes", ["Persistent"]),
    ):
        spec.setdefault(field, value)


def _complete_claim_spec(spec: JsonObject) -> None:
    for request in items(section(spec, "devices"), "requests"):
        for part in (request.get("exactly"), *items(request, "firstAvailable")):
            if part is not None:
                part.setdefault("allocationMode", "ExactCount")
                if part["allocationMode"] == "ExactCount":
                    part.setdefault("count", 1)


def _complete_resource_claim(obj: JsonObject) -> None:
    _complete_claim_spec(obj.setdefault("spec", {}))
    obj.setdefault("status", {})


def _complete_claim_template(obj: JsonObject) -> None:
    _complete_claim_spec(section(section(obj, "spec"), "spec"))


def _complete_template(obj: JsonObject) -> JsonObject:
    spec: JsonObject = obj.setdefault("spec", {})
    if template := section(spec, "template"):
        complete_spec(template.setdefault("spec", {}))
    return spec


def _complete_deployment(obj: JsonObject) -> None:
    spec = _complete_template(obj)
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_MAX_SURGE, **section(strategy, "rollingUpdate")}
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    obj.setdefault("status", {})


def _complete_replicas(obj: JsonObject) -> None:
    _complete_template(obj).setdefault("replicas", 1)
    obj.setdefault("status", {"replicas": 0})


def _complete_replication(obj: JsonObject) -> None:
    _complete_replicas(obj)
    labels = section(section(section(obj["spec"], "template"), "metadata"), "labels")
    if labels:
        obj["metadata"].setdefault("labels", labels)
        obj["spec"].setdefault("selector", labels)


def _complete_stateful_set(obj: JsonObject) -> None:
    spec = _complete_template(obj)
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    if not spec.get("updateStrategy"):
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    obj.setdefault("status", {"replicas": 0, "availableReplicas": 0})


def _complete_daemon_set(obj: JsonObject) -> None:
    spec = _complete_template(obj)
    spec.setdefault("revisionHistoryLimit", 10)
    if not spec.get("updateStrategy"):
        rolling = {"maxSurge": 0, "maxUnavailable": 1}
        spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    annotations = section(obj["metadata"], "annotations")
    obj["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "1", **annotations}
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
    obj.setdefault("status", dict.fromkeys(counts, 0))


def _complete_job(obj: JsonObject) -> None:
    spec = _complete_template(obj)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    uid, name = obj["metadata"].get("uid", ""), obj["metadata"]["name"]
    if not spec["manualSelector"] and not spec.get("selector"):
        labels = {prefix + "controller-uid": uid for prefix in _JOB_PREFIXES}
        labels |= {prefix + "job-name": name for prefix in _JOB_PREFIXES}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
        for metadata in (obj["metadata"], spec["template"].setdefault("metadata", {})):
            metadata["labels"] = {**section(metadata, "labels"), **labels}
    obj.setdefault("status", {})


def _complete_budget(obj: JsonObject) -> None:
    counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    obj.setdefault("status", dict.fromkeys(counts, 0))


def _complete_pod_group(obj: JsonObject) -> None:
    obj.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})
    obj.setdefault("status", {})


COMPLETE: Final[dict[str, Callable[[JsonObject], None]]] = {
    "Namespace": _complete_namespace,
    "Node": _complete_node,
    "PersistentVolume": _complete_volume,
    "PersistentVolumeClaim": _complete_claim,
    "Service": _complete_service,
    "Secret": _complete_secret,
    "PriorityClass": _complete_priority_class,
    "StorageClass": _complete_storage_class,
    "CSIDriver": _complete_driver,
    "ResourceClaim": _complete_resource_claim,
    "ResourceClaimTemplate": _complete_claim_template,
    "Deployment": _complete_deployment,
    "ReplicaSet": _complete_replicas,
    "ReplicationController": _complete_replication,
    "StatefulSet": _complete_stateful_set,
    "DaemonSet": _complete_daemon_set,
    "Job": _complete_job,
    "PodDisruptionBudget": _complete_budget,
    "PodGroup": _complete_pod_group,
    "CompositePodGroup": _complete_pod_group,
}


def _node_faults(obj: JsonObject) -> list[FieldError]:
    faults = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(items(section(obj, "spec"), "taints")):
        place = f"metadata.taints[{index}]"
        key, value, effect = (taint.get(name) or "" for name in ("key", "value", "effect"))
        faults += [invalid_value(f"{place}.key", key, text) for text in qualified_name_faults(key)]
        faults += [invalid_value(f"{place}.value", value, text) for text in label_value_faults(value)]
        if not effect:
            faults.append(required(f"{place}.effect"))
        elif effect not in _EFFECTS:
            faults.append(errors.unsupported(f"{place}.effect", effect, _EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            faults.append(errors.duplicate(place, shown, "taints must be unique by key and effect pair"))
        seen.add((key, effect))
    status = section(obj, "status")
    for field in ("capacity", "allocatable"):
        faults += resource_list_faults(section(status, field), f"status.{field}")
    return faults


def _priority_class_faults(obj: JsonObject) -> list[FieldError]:
    name, value = obj["metadata"]["name"], obj["value"]
    if name.startswith("system-") and (name, value) not in SYSTEM_PRIORITIES.items():
        text = "priority class names with 'system-' prefix are reserved for system use only. error: "
        why = f"{name} is not a known system priority class" if name not in SYSTEM_PRIORITIES else "value must be fixed"
        return [errors.forbidden_field("metadata.name", text + why)]
    if value > _MAX_USER_PRIORITY and name not in SYSTEM_PRIORITIES:
        text = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
        return [errors.forbidden_field("value", text)]
    return []


def _selector_faults(obj: JsonObject) -> list[FieldError]:
    spec = section(obj, "spec")
    selector = section(spec, "selector")
    template = section(spec, "template")
    faults = [] if selector else [required("spec.selector")]
    wanted = section(selector, "matchLabels")
    labels = section(section(template, "metadata"), "labels")
    if selector and any(labels.get(key) != value for key, value in wanted.items()):
        text = "`selector` does not match template `labels`"
        faults.append(invalid_value("spec.template.metadata.labels", labels, text))
    return faults + pod_faults(section(template, "spec"), "spec.template.spec")


def _claim_faults(obj: JsonObject) -> list[FieldError]:
    spec = section(obj, "spec")
    faults = [] if items(spec, "accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
    requests = section(section(spec, "resources"), "requests")
    if "storage" not in requests:
        faults.append(required("spec.resources[storage]"))
    return faults + resource_list_faults(requests, "spec.resources.requests")


def _volume_faults(obj: JsonObject) -> list[FieldError]:
    spec = section(obj, "spec")
    faults = [] if items(spec, "accessModes") else [required("spec.accessModes")]
    if not section(spec, "capacity"):
        faults.append(required("spec.capacity"))
    return faults + resource_list_faults(section(spec, "capacity"), "spec.capacity")


def _lease_faults(obj: JsonObject) -> list[FieldError]:
    spec = section(obj, "spec")
    faults = []
    if (seconds := spec.get("leaseDurationSeconds")) is not None and seconds <= 0:
        faults.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if (transitions := spec.get("leaseTransitions")) is not None and transitions < 0:
        faults.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return faults


FAULTS: Final[dict[str, Callable[[JsonObject], list[FieldError]]]] = {
    "Node": _node_faults,
    "PriorityClass": _priority_class_faults,
    "Deployment": _selector_faults,
    "ReplicaSet": _selector_faults,
    "StatefulSet": _selector_faults,
    "DaemonSet": _selector_faults,
    "PersistentVolumeClaim": _claim_faults,
    "PersistentVolume": _volume_faults,
    "Lease": _lease_faults,
}

SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

# (kind, path) of fields that never change once they are set.
IMMUTABLE: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "PriorityClass": (("value",), ("preemptionPolicy",)),
    "StorageClass": (("provisioner",), ("parameters",), ("volumeBindingMode",), ("reclaimPolicy",)),
    "Deployment": (("spec", "selector"),),
    "ReplicaSet": (("spec", "selector"),),
    "DaemonSet": (("spec", "selector"),),
    "Job": (("spec", "selector"), ("spec", "template", "spec", "containers")),
    "ResourceClaim": (("spec",),),
    "ResourceClaimTemplate": (("spec",),),
}


def change_faults(kind: str, old: JsonObject, new: JsonObject) -> list[FieldError]:
    """Which fields of an object were changed that may not be."""
    changed = [path for path in IMMUTABLE.get(kind, ()) if _at(old, path) not in (None, _at(new, path))]
    if kind == "PriorityClass":
        return [errors.forbidden_field(".".join(path), "may not be changed in an update.") for path in changed]
    return [immutable(".".join(path)) for path in changed]


def _at(obj: JsonObject, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
