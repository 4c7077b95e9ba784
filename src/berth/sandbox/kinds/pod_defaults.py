"""What kube-apiserver fills into a pod, or into the template of one, before it keeps it.

Works in place on an object that nobody else holds. Called by `admission`; the priority and whatever else needs to look
at other objects is filled in there.

Source: k8s pkg/apis/core/v1/defaults.go; pkg/registry/core/pod/strategy.go;
plugin/pkg/admission/defaulttolerationseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds.quantities import amount
from berth.sandbox.objects import items, section

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_TOLERATION_S: Final = 300
_NODE_PROBLEMS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_FILE_MODE: Final = 0o644
_FILE_VOLUMES: Final = ("secret", "configMap", "downwardAPI", "projected")
_TOKEN_LIFE_S: Final = 3600
_QOS_RESOURCES: Final = ("cpu", "memory")


def complete_spec(spec: JsonObject) -> None:
    """Fill in what pods and pod templates have in common."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if account := spec.get("serviceAccountName") or spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _complete_container(container)
    for volume in items(spec, "volumes"):
        _complete_volume(volume)


def containers(spec: JsonObject) -> Iterator[JsonObject]:
    """All containers of a pod, of the three sorts."""
    for name in CONTAINER_LISTS:
        yield from items(spec, name)


def _complete_container(container: JsonObject) -> None:
    image = container.get("image", "")
    _, _, tag = image.rpartition("/")[2].partition(":")
    if "@" not in image and tag in ("", "latest"):
        container.setdefault("imagePullPolicy", "Always")
    container.setdefault("imagePullPolicy", "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in items(container, "ports"):
        port.setdefault("protocol", "TCP")
    for name in _PROBES:
        if probe := section(container, name):
            _complete_probe(probe)
    for variable in items(container, "env"):
        if reference := section(section(variable, "valueFrom"), "fieldRef"):
            reference.setdefault("apiVersion", "v1")


def _complete_probe(probe: JsonObject) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe[name] = probe.get(name) or value
    if action := probe.get("httpGet"):
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _complete_volume(volume: JsonObject) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    for name in _FILE_VOLUMES:
        if name in volume:
            volume[name].setdefault("defaultMode", _FILE_MODE)
    for source in items(section(volume, "projected"), "sources"):
        if token := source.get("serviceAccountToken"):
            token.setdefault("expirationSeconds", _TOKEN_LIFE_S)
    if (path := volume.get("hostPath")) is not None:
        path.setdefault("type", "")
    if claim := section(section(section(volume, "ephemeral"), "volumeClaimTemplate"), "spec"):
        claim.setdefault("volumeMode", "Filesystem")


def complete_pod_spec(spec: JsonObject) -> None:
    """Fill in what belongs to a pod and not to a template: requests, host ports, tolerations."""
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    for container in (*items(spec, "initContainers"), *items(spec, "containers")):
        _complete_requests(container)
        if spec.get("hostNetwork"):
            for port in items(container, "ports"):
                port.setdefault("hostPort", port.get("containerPort"))
    _add_tolerations(spec)


def merge_label_keys(pod: JsonObject) -> None:
    """Turn `matchLabelKeys` and `mismatchLabelKeys` of a new pod into selector terms."""
    spec, labels = pod["spec"], section(pod["metadata"], "labels")
    for constraint in items(spec, "topologySpreadConstraints"):
        _merge_label_keys(constraint, "matchLabelKeys", "In", labels)
    for term in _affinity_terms(spec):
        _merge_label_keys(term, "matchLabelKeys", "In", labels)
        _merge_label_keys(term, "mismatchLabelKeys", "NotIn", labels)


def _complete_requests(container: JsonObject) -> None:
    resources = container["resources"]
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **section(resources, "requests")}


def _add_tolerations(spec: JsonObject) -> None:
    tolerations = items(spec, "tolerations")
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_S}
        for key in _NODE_PROBLEMS
        if not any(_covers(toleration, key) for toleration in tolerations)
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _covers(toleration: JsonObject, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def _affinity_terms(spec: JsonObject) -> Iterator[JsonObject]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = section(section(spec, "affinity"), kind)
        yield from items(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
        for weighted in items(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
            yield section(weighted, "podAffinityTerm")


def _merge_label_keys(term: JsonObject, field: str, operator: str, labels: JsonObject) -> None:
    selector = term.get("labelSelector")
    keys = [key for key in items(term, field) if key in labels]
    if selector is None or not keys:
        return
    added = [{"key": key, "operator": operator, "values": [labels[key]]} for key in keys]
    selector["matchExpressions"] = [*items(selector, "matchExpressions"), *added]


def first_status(pod: JsonObject, now: str) -> JsonObject:
    """The status of a pod that was just created."""
    status: JsonObject = {"phase": "Pending"}
    if items(pod["spec"], "schedulingGates"):
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [condition]
    status["qosClass"] = qos_class(pod["spec"])
    return status


def qos_class(spec: JsonObject) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`.

    Source: k8s pkg/apis/core/v1/helper/qos/qos.go, `ComputePodQOS`.
    """
    resources = [container.get("resources", {}) for container in (*items(spec, "initContainers"), *spec["containers"])]
    if section(spec, "resources"):
        resources = [spec["resources"]]
    requests = [_positive(section(each, "requests")) for each in resources]
    limits = [_positive(section(each, "limits")) for each in resources]
    if not any(requests) and not any(limits):
        return "BestEffort"
    for request, limit in zip(requests, limits, strict=True):
        if set(limit) != set(_QOS_RESOURCES) or any(request.get(name, limit[name]) != limit[name] for name in limit):
            return "Burstable"
    return "Guaranteed"


def _positive(resources: JsonObject) -> JsonObject:
    amounts = {name: amount(resources[name]) for name in _QOS_RESOURCES if name in resources}
    return {name: value for name, value in amounts.items() if value > 0}
