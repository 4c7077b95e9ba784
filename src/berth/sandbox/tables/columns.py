"""The columns that kubectl shows for each kind, and how their cells are filled.

A table from kind to columns. Cells are functions of the object (in its stored form) and the time. Read by `tables`;
the columns of pods, which take some thought, are in `pod_columns`.

Source: k8s pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.objects import items, parse_time, section
from berth.sandbox.tables.durations import human, since

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

JsonObject = dict[str, Any]

_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: heading.
        cell: what stands in it, for an object at a time.
        type: `string`, `integer`, `boolean` or `date`.
        wide: whether only `-o wide` shows it.
    """

    name: str
    cell: Callable[[JsonObject, datetime], Any]
    type: str = "string"
    wide: bool = False

    def definition(self) -> JsonObject:
        """The column as a `TableColumnDefinition`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": "",
            "priority": 1 if self.wide else 0,
        }


def at(path: str, missing: Any = "") -> Callable[[JsonObject, datetime], Any]:
    """A cell with the value at a path such as `spec.nodeName`."""
    names = path.split(".")

    def cell(obj: JsonObject, _: datetime) -> Any:
        value: Any = obj
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return missing if value in (None, "") else value

    return cell


def age(obj: JsonObject, now: datetime) -> str:
    """How old an object is."""
    return since(obj["metadata"].get("creationTimestamp"), now)


NAME: Final = Column("Name", at("metadata.name"))
AGE: Final = Column("Age", age)


def _counted(name: str, path: str) -> Column:
    return Column(name, at(path, 0), type="integer")


def _size(path: str) -> Callable[[JsonObject, datetime], int]:
    read = at(path, ())
    return lambda obj, now: len(read(obj, now))


def _containers(obj: JsonObject) -> list[JsonObject]:
    return items(section(section(section(obj, "spec"), "template"), "spec"), "containers")


def _template_columns(selector: Callable[[JsonObject, datetime], Any] | None) -> tuple[Column, ...]:
    shown = (
        Column("Containers", lambda obj, _: ",".join(each["name"] for each in _containers(obj)), wide=True),
        Column("Images", lambda obj, _: ",".join(each["image"] for each in _containers(obj)), wide=True),
    )
    return shown if selector is None else (*shown, Column("Selector", selector, wide=True))


def _label_text(labels: JsonObject) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"


def _selector_text(obj: JsonObject, _: datetime) -> str:
    selector = section(section(obj, "spec"), "selector")
    terms = [f"{key}={value}" for key, value in sorted(section(selector, "matchLabels").items())]
    for expression in items(selector, "matchExpressions"):
        values = ",".join(sorted(items(expression, "values")))
        key, operator = expression["key"], expression["operator"]
        if operator in ("In", "NotIn"):
            terms.append(f"{key} {operator.lower()} ({values})")
        else:
            terms.append(key if operator == "Exists" else f"!{key}")
    return ",".join(terms) or "<none>"


def _plain_selector(obj: JsonObject, _: datetime) -> str:
    return _label_text(section(section(obj, "spec"), "selector"))


def _ready(wanted: str) -> Callable[[JsonObject, datetime], str]:
    ready, total = at("status.readyReplicas", 0), at(wanted, 0)
    return lambda obj, now: f"{ready(obj, now)}/{total(obj, now)}"


def _phase(obj: JsonObject, now: datetime) -> str:
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else str(at("status.phase")(obj, now))


def _modes(path: str) -> Callable[[JsonObject, datetime], str]:
    read = at(path, ())
    return lambda obj, now: ",".join(_ACCESS_MODES.get(mode, mode) for mode in read(obj, now))


def _claim_of(obj: JsonObject, _: datetime) -> str:
    claim = section(section(obj, "spec"), "claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _node_status(obj: JsonObject, _: datetime) -> str:
    ready = [each for each in items(section(obj, "status"), "conditions") if each["type"] == "Ready"]
    words = ["Ready" if each["status"] == "True" else "NotReady" for each in ready[-1:]] or ["Unknown"]
    if section(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(obj: JsonObject, _: datetime) -> str:
    labels = section(obj["metadata"], "labels")
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or "<none>"


def _address(kind: str) -> Callable[[JsonObject, datetime], str]:
    def cell(obj: JsonObject, _: datetime) -> str:
        addresses = items(section(obj, "status"), "addresses")
        return next((each["address"] for each in addresses if each["type"] == kind), "<none>")

    return cell


def _kernel(obj: JsonObject, _: datetime) -> str:
    info = section(section(obj, "status"), "nodeInfo")
    version, architecture = info.get("kernelVersion") or "<unknown>", info.get("architecture")
    return f"{version} ({architecture})" if architecture else str(version)


def _event_first_seen(obj: JsonObject, now: datetime) -> str:
    return since(obj.get("firstTimestamp") or obj.get("eventTime"), now)


def _event_last_seen(obj: JsonObject, now: datetime) -> str:
    if series := obj.get("series"):
        return since(series.get("lastObservedTime"), now)
    return since(obj["lastTimestamp"], now) if obj.get("lastTimestamp") else _event_first_seen(obj, now)


def _event_object(obj: JsonObject, _: datetime) -> str:
    target = section(obj, "involvedObject")
    kind, name = target.get("kind", "").lower(), target.get("name")
    return f"{kind}/{name}" if name else kind


def _event_source(obj: JsonObject, _: datetime) -> str:
    source = section(obj, "source")
    component = source.get("component") or obj.get("reportingComponent", "")
    instance = source.get("host") or obj.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def _event_count(obj: JsonObject, _: datetime) -> int:
    return section(obj, "series").get("count") or obj.get("count") or 1


def _job_status(obj: JsonObject, _: datetime) -> str:
    true = {each["type"] for each in items(section(obj, "status"), "conditions") if each["status"] == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in true), "Running")


def _job_completions(obj: JsonObject, _: datetime) -> str:
    spec, done = section(obj, "spec"), section(obj, "status").get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(obj: JsonObject, now: datetime) -> str:
    status = section(obj, "status")
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human((end - parse_time(status["startTime"])).total_seconds())


def _ports(obj: JsonObject, _: datetime) -> str:
    ports = items(section(obj, "spec"), "ports")
    shown = [f"{each['port']}:{each['nodePort']}" if each.get("nodePort") else f"{each['port']}" for each in ports]
    return ",".join(f"{text}/{each['protocol']}" for text, each in zip(shown, ports, strict=True)) or "<none>"


def _claim_state(obj: JsonObject, _: datetime) -> str:
    status = section(obj, "status")
    states = []
    if "deletionTimestamp" in obj["metadata"]:
        states.append("deleted")
    if not status.get("allocation"):
        states.append("pending" if not states else "")
    else:
        states.append("allocated")
        states.append("reserved" if items(status, "reservedFor") else "")
    return ",".join(filter(None, states))


def _group_policy(obj: JsonObject, _: datetime) -> str:
    return "Gang" if "gang" in section(section(obj, "spec"), "schedulingPolicy") else "Basic"


def _group_status(obj: JsonObject, _: datetime) -> str:
    conditions = {each["type"]: each for each in items(section(obj, "status"), "conditions")}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"].get("reason", ""))
    for kind in ("PodGroupInitiallyScheduled", "PodGroupScheduled"):
        if kind in conditions:
            return "Scheduled" if conditions[kind]["status"] == "True" else "Unschedulable"
    return "Pending"


def _drivers_modes(obj: JsonObject, _: datetime) -> str:
    return ",".join(items(section(obj, "spec"), "volumeLifecycleModes")) or "<none>"


_REPLICAS = (
    NAME,
    _counted("Desired", "spec.replicas"),
    _counted("Current", "status.replicas"),
    _counted("Ready", "status.readyReplicas"),
    AGE,
)

COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "Node": (
        NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        AGE,
        Column("Version", at("status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", at("status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", _kernel, wide=True),
        Column("Container-Runtime", at("status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "Event": (
        Column("Last Seen", _event_last_seen),
        Column("Type", at("type")),
        Column("Reason", at("reason")),
        Column("Object", _event_object),
        Column("Subobject", at("involvedObject.fieldPath"), wide=True),
        Column("Source", _event_source, wide=True),
        Column("Message", lambda obj, _: obj.get("message", "").strip()),
        Column("First Seen", _event_first_seen, wide=True),
        Column("Count", _event_count, wide=True),
        Column("Name", at("metadata.name"), wide=True),
    ),
    "Namespace": (NAME, Column("Status", at("status.phase")), AGE),
    "Lease": (NAME, Column("Holder", at("spec.holderIdentity")), AGE),
    "ConfigMap": (NAME, Column("Data", lambda o, n: _size("data")(o, n) + _size("binaryData")(o, n)), AGE),
    "Secret": (NAME, Column("Type", at("type")), Column("Data", _size("data")), AGE),
    "ServiceAccount": (NAME, AGE),
    "Service": (
        NAME,
        Column("Type", at("spec.type")),
        Column("Cluster-IP", at("spec.clusterIP", "<none>")),
        Column("External-IP", lambda obj, _: ",".join(items(section(obj, "spec"), "externalIPs")) or "<none>"),
        Column("Port(s)", _ports),
        AGE,
        Column("Selector", _plain_selector, wide=True),
    ),
    "PersistentVolume": (
        NAME,
        Column("Capacity", at("spec.capacity.storage", "0")),
        Column("Access Modes", _modes("spec.accessModes")),
        Column("Reclaim Policy", at("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _phase),
        Column("Claim", _claim_of),
        Column("StorageClass", at("spec.storageClassName")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
        Column("Reason", at("status.reason")),
        AGE,
        Column("VolumeMode", at("spec.volumeMode", "<unset>"), wide=True),
    ),
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", _phase),
        Column("Volume", at("spec.volumeName")),
        Column("Capacity", at("status.capacity.storage")),
        Column("Access Modes", _modes("status.accessModes")),
        Column("StorageClass", at("spec.storageClassName")),
        Column("VolumeAttributesClass", at("spec.volumeAttributesClassName", "<unset>")),
        AGE,
        Column("VolumeMode", at("spec.volumeMode", "<unset>"), wide=True),
    ),
    "Deployment": (
        NAME,
        Column("Ready", _ready("spec.replicas")),
        Column("Up-to-date", at("status.updatedReplicas", 0)),
        Column("Available", at("status.availableReplicas", 0)),
        AGE,
        *_template_columns(_selector_text),
    ),
    "ReplicaSet": (*_REPLICAS, *_template_columns(_selector_text)),
    "ReplicationController": (*_REPLICAS, *_template_columns(_plain_selector)),
    "StatefulSet": (NAME, Column("Ready", _ready("spec.replicas")), AGE, *_template_columns(None)),
    "DaemonSet": (
        NAME,
        _counted("Desired", "status.desiredNumberScheduled"),
        _counted("Current", "status.currentNumberScheduled"),
        _counted("Ready", "status.numberReady"),
        _counted("Up-to-date", "status.updatedNumberScheduled"),
        _counted("Available", "status.numberAvailable"),
        Column("Node Selector", lambda obj, now: _label_text(at("spec.template.spec.nodeSelector", {})(obj, now))),
        AGE,
        *_template_columns(_selector_text),
    ),
    "Job": (
        NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        AGE,
        *_template_columns(_selector_text),
    ),
    "PodDisruptionBudget": (
        NAME,
        Column("Min Available", lambda obj, now: str(at("spec.minAvailable", "N/A")(obj, now))),
        Column("Max Unavailable", lambda obj, now: str(at("spec.maxUnavailable", "N/A")(obj, now))),
        _counted("Allowed Disruptions", "status.disruptionsAllowed"),
        AGE,
    ),
    "PriorityClass": (
        NAME,
        _counted("Value", "value"),
        Column("Global-Default", at("globalDefault", missing=False), type="boolean"),
        AGE,
        Column("PreemptionPolicy", at("preemptionPolicy")),
    ),
    "StorageClass": (
        NAME,
        Column("Provisioner", at("provisioner")),
        Column("ReclaimPolicy", at("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", at("volumeBindingMode", "<unset>")),
        Column("AllowVolumeExpansion", at("allowVolumeExpansion", missing=False)),
        AGE,
    ),
    "CSINode": (NAME, Column("Drivers", _size("spec.drivers"), type="integer"), AGE),
    "CSIDriver": (
        NAME,
        Column("AttachRequired", at("spec.attachRequired", missing=True), type="boolean"),
        Column("PodInfoOnMount", at("spec.podInfoOnMount", missing=False), type="boolean"),
        Column("StorageCapacity", at("spec.storageCapacity", missing=False), type="boolean"),
        Column("TokenRequests", lambda _, __: "<unset>"),
        Column("RequiresRepublish", at("spec.requiresRepublish", missing=False), type="boolean"),
        Column("Modes", _drivers_modes),
        AGE,
    ),
    "CSIStorageCapacity": (
        NAME,
        Column("StorageClassName", at("storageClassName")),
        Column("Capacity", at("capacity", "<unset>")),
    ),
    "VolumeAttachment": (
        NAME,
        Column("Attacher", at("spec.attacher")),
        Column("PV", at("spec.source.persistentVolumeName")),
        Column("Node", at("spec.nodeName")),
        Column("Attached", at("status.attached", missing=False), type="boolean"),
        AGE,
    ),
    "VolumeAttributesClass": (NAME, Column("DriverName", at("driverName")), AGE),
    "RuntimeClass": (NAME, Column("Handler", at("handler")), AGE),
    "DeviceClass": (NAME, AGE),
    "ResourceClaim": (NAME, Column("State", _claim_state), AGE),
    "ResourceClaimTemplate": (NAME, AGE),
    "ResourceSlice": (
        NAME,
        Column("Node", at("spec.nodeName")),
        Column("Driver", at("spec.driver")),
        Column("Pool", at("spec.pool.name")),
        AGE,
    ),
    "DeviceTaintRule": (
        NAME,
        Column("Key", at("spec.taint.key")),
        Column("Value", at("spec.taint.value")),
        Column("Effect", at("spec.taint.effect")),
        Column("TimeAdded", lambda obj, now: since(at("spec.taint.timeAdded")(obj, now), now)),
        AGE,
    ),
    "PodGroup": (
        NAME,
        Column("Policy", _group_policy),
        Column("Workload", at("spec.workloadRef.workloadName", "<none>")),
        Column("Status", _group_status),
        AGE,
    ),
    "Workload": (NAME, AGE),
    "CustomResourceDefinition": (NAME, Column("Created At", at("metadata.creationTimestamp"), type="date")),
}
# What a kind without columns of its own shows.
PLAIN: Final = (NAME, Column("Created At", at("metadata.creationTimestamp"), type="date"))
