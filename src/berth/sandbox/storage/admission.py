"""What an object goes through before it is kept: defaults, checks against other objects, rules.

Dispatches to the modules that know the kinds: `pod_defaults`, `pod_rules`, `kind_defaults`, `rules`. What needs other
objects is decided here: namespaces, priority classes, default storage classes, runtime classes. Objects come in as
`conform` left them, so their types are right. Called by `registry`.

Source: k8s plugin/pkg/admission/{namespace/lifecycle,priority,storage/storageclass/setdefault,runtimeclass}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds import errors
from berth.sandbox.kinds.conform import zero
from berth.sandbox.kinds.event_forms import event_faults
from berth.sandbox.kinds.fields import message_of
from berth.sandbox.kinds.kind_defaults import COMPLETE, FAULTS, change_faults
from berth.sandbox.kinds.pod_defaults import (
    complete_pod_spec,
    complete_spec,
    first_status,
    merge_label_keys,
)
from berth.sandbox.kinds.pod_rules import pod_change_faults, pod_faults
from berth.sandbox.kinds.rules import metadata_faults
from berth.sandbox.kinds.versions import as_of
from berth.sandbox.objects import items, section
from berth.sandbox.storage.topology import topology_labels

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.sandbox.kinds.resources import Resource, ResourceTable
    from berth.sandbox.storage.store import Entry, Key, Store

JsonObject = dict[str, Any]

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_PRIORITIZED: Final = frozenset({"Pod", "PodGroup", "CompositePodGroup"})


class DefaultAdmission:
    """The defaults and rules of a cluster fresh from its installer.

    Args:
        store: where namespaces and classes are looked up.
        table: the kinds that are served.
        now: the time as objects carry it.
        minor: which Kubernetes version to be.
    """

    def __init__(self, store: Store, table: ResourceTable, now: Callable[[], str], minor: str) -> None:
        self._store = store
        self._table = table
        self._now = now
        self._minor = minor
        self._services = 0  # services that got an address so far

    def create(self, resource: Resource, key: Key, obj: JsonObject) -> JsonObject:
        """The object to create, with defaults.

        Raises:
            ApiError: 403, 404 or 422.
        """
        if key[0]:
            self._check_namespace(resource, key)
        if resource.built_in_kind in _PRIORITIZED:
            self._set_priority(resource, key[1], obj.setdefault("spec", {}))
        if resource.built_in_kind == "Pod":
            self._complete_new_pod(key[1], obj)
        elif resource.built_in_kind == "PersistentVolumeClaim":
            self._set_storage_class(obj)
        elif resource.built_in_kind == "Service":
            self._set_addresses(obj["spec"])
        elif resource.built_in_kind == "DeviceTaintRule":
            obj["spec"]["taint"].setdefault("timeAdded", self._now())
        complete = COMPLETE.get(resource.built_in_kind)
        if complete is not None:
            complete(obj)
        if resource.to_stored is None and (known := message_of(resource)) is not None:
            obj = {**zero(known), **obj}
        faults = metadata_faults(resource.built_in_kind, obj["metadata"]) + _faults(resource, obj)
        if faults:
            raise errors.invalid(resource, key[1], faults)
        return as_of(self._minor, resource.built_in_kind, obj)

    def update(self, resource: Resource, old: JsonObject, new: JsonObject, subresource: str) -> JsonObject:
        """The object to write over *old*.

        Raises:
            ApiError: 422.
        """
        if subresource:
            return new
        name = old["metadata"]["name"]
        new = self._completed(resource, old, new)
        faults = metadata_faults(resource.built_in_kind, new["metadata"]) + change_faults(
            resource.built_in_kind, old, new
        )
        if resource.built_in_kind == "Pod":
            if new["spec"] is not old["spec"]:
                faults += pod_faults(new["spec"]) + pod_change_faults(old["spec"], new["spec"])
        elif _body(new) != _body(old):
            faults += _faults(resource, new)
        if faults:
            raise errors.invalid(resource, name, faults)
        return as_of(self._minor, resource.built_in_kind, new)

    def _completed(self, resource: Resource, old: JsonObject, new: JsonObject) -> JsonObject:
        """*new* with defaults where the writer left them out; parts shared with *old* stay shared."""
        if all(new.get(field) is old.get(field) for field in {*new, *old} - {"metadata", "status"}):
            return new
        own: JsonObject = {field: _own(value) for field, value in new.items()}
        if resource.built_in_kind == "Pod":
            spec, kept = own.setdefault("spec", {}), old["spec"]
            for field in ("priority", "preemptionPolicy", "serviceAccountName", "serviceAccount", "enableServiceLinks"):
                if field not in spec and field in kept:
                    spec[field] = kept[field]
            complete_spec(spec)
            complete_pod_spec(spec)
        elif (complete := COMPLETE.get(resource.built_in_kind)) is not None:
            complete(own)
        return own

    def _check_namespace(self, resource: Resource, key: Key) -> None:
        namespaces = self._table.served("", "v1", "namespaces")
        entry = self._find(namespaces, ("", key[0]))
        if entry is None:
            raise errors.not_found(namespaces, key[0])
        if "deletionTimestamp" in entry.obj["metadata"]:
            why = f"unable to create new content in namespace {key[0]} because it is being terminated"
            error = errors.forbidden(resource, key[1], why)
            cause = {"reason": "NamespaceTerminating", "message": f"namespace {key[0]} is being terminated"}
            error.details = {**(error.details or {}), "causes": [{**cause, "field": "metadata.namespace"}]}
            raise error

    def _complete_new_pod(self, name: str, pod: JsonObject) -> None:
        spec = pod.setdefault("spec", {})
        self._set_overhead(name, spec)
        complete_spec(spec)
        complete_pod_spec(spec)
        if node_name := spec.get("nodeName"):
            nodes = self._store.collection(self._table.served("", "v1", "nodes"))
            if labels := topology_labels(nodes, node_name):
                pod["metadata"]["labels"] = {**section(pod["metadata"], "labels"), **labels}
        merge_label_keys(pod)
        if items(spec, "containers"):
            pod["status"] = first_status(pod, self._now())

    def _set_priority(self, resource: Resource, name: str, spec: JsonObject) -> None:
        class_name, value, policy = self._priority(resource, name, spec.get("priorityClassName", ""))
        asked = spec.get("priority")
        if asked is not None and asked != value:
            why = (
                f"the integer value of priority ({asked}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name"
                if resource.built_in_kind == "Pod"
                else f"priority set in the pod group ({asked}) must match the priority computed ({value}) based on "
                "the priority class set in the spec"
            )
            raise errors.forbidden(resource, name, why)
        spec["priority"] = value
        if class_name:
            spec["priorityClassName"] = class_name
        if resource.kind != "Pod":
            return
        asked = spec.get("preemptionPolicy")
        if asked is not None and asked != policy:
            why = (
                f"the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name"
            )
            raise errors.forbidden(resource, name, why)
        spec["preemptionPolicy"] = policy

    def _priority(self, resource: Resource, name: str, class_name: str) -> tuple[str, int, str]:
        classes = self._table.served("scheduling.k8s.io", "v1", "priorityclasses")
        if class_name:
            entry = self._find(classes, ("", class_name))
            if entry is None:
                raise errors.forbidden(resource, name, f"no PriorityClass with name {class_name} was found")
        else:
            defaults = [each for each in self._store.collection(classes).entries() if each.obj.get("globalDefault")]
            if not defaults:
                return "", 0, "PreemptLowerPriority"
            entry = min(defaults, key=lambda each: each.obj["value"])
        chosen = entry.obj
        return chosen["metadata"]["name"], chosen["value"], chosen.get("preemptionPolicy", "PreemptLowerPriority")

    def _set_overhead(self, name: str, spec: JsonObject) -> None:
        class_name = spec.get("runtimeClassName")
        if not class_name:
            return
        entry = self._find(self._table.served("node.k8s.io", "v1", "runtimeclasses"), ("", class_name))
        if entry is None:
            pods = self._table.served("", "v1", "pods")
            raise errors.forbidden(pods, name, f'pod rejected: RuntimeClass "{class_name}" not found')
        if overhead := section(section(entry.obj, "overhead"), "podFixed"):
            spec["overhead"] = overhead

    def _set_addresses(self, spec: JsonObject) -> None:
        if spec.get("type", "ClusterIP") == "ExternalName" or spec.get("clusterIP"):
            return
        self._services += 1
        spec["clusterIP"] = f"10.96.{self._services >> 8 & 255}.{self._services & 255}"
        spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _set_storage_class(self, claim: JsonObject) -> None:
        spec = claim.setdefault("spec", {})
        if "storageClassName" in spec or "volume.beta.kubernetes.io/storage-class" in section(
            claim["metadata"], "annotations"
        ):
            return
        classes = self._store.collection(self._table.served("storage.k8s.io", "v1", "storageclasses")).entries()
        defaults = [entry.obj["metadata"] for entry in classes if _is_default(entry.obj["metadata"])]
        if defaults:
            newest = max(defaults, key=lambda metadata: metadata["creationTimestamp"])
            spec["storageClassName"] = newest["name"]

    def _find(self, resource: Resource, key: Key) -> Entry | None:
        return self._store.collection(resource).get(key)


def _faults(resource: Resource, obj: JsonObject) -> list[errors.FieldError]:
    if resource.built_in_kind == "Pod":
        return pod_faults(obj["spec"])
    if resource.built_in_kind == "Event":
        return event_faults(obj, strict=bool(resource.group))
    faults = FAULTS.get(resource.built_in_kind)
    return faults(obj) if faults is not None else []


def _body(obj: JsonObject) -> JsonObject:
    return {field: value for field, value in obj.items() if field not in ("metadata", "status")}


def _own(value: Any) -> Any:
    """The same JSON value in containers of our own, for filling in defaults."""
    if isinstance(value, dict):
        return {name: _own(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_own(member) for member in value]
    return value


def _is_default(metadata: JsonObject) -> bool:
    return bool(section(metadata, "annotations").get(_DEFAULT_CLASS) == "true")
