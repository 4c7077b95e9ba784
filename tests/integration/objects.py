"""Nodes and pods as JSON, with no more in them than a scenario is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JsonObject = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IMAGE = "registry.k8s.io/pause:3.10"


def a_node(
    name: str,
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> JsonObject:
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints)} if taints else {},
        "status": {"capacity": resources, "allocatable": resources},
    }


def a_pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    host_port: int = 0,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> JsonObject:
    requests = {resource: amount for resource, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container: JsonObject = {"name": "main", "image": IMAGE, "resources": {"requests": requests}}
    if host_port:
        container["ports"] = [{"containerPort": host_port, "hostPort": host_port}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels or {})},
        "spec": {"containers": [container], **spec},
    }


def a_taint(key: str, value: str = "", effect: str = "NoSchedule") -> JsonObject:
    return {"key": key, "value": value, "effect": effect}


def required_node_affinity(key: str, *values: str) -> JsonObject:
    """An `affinity` that only nodes satisfy whose label *key* has one of *values*."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}


def affinity_term(app: str, topology_key: str) -> JsonObject:
    """Pods with the label `app`, wherever nodes have the same value of *topology_key*."""
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": topology_key}


def keep_apart_from(app: str, topology_key: str) -> JsonObject:
    """An `affinity` that keeps a pod away from those with the label `app`."""
    return {"podAntiAffinity": {REQUIRED: [affinity_term(app, topology_key)]}}
