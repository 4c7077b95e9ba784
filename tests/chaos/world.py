"""What an API server has shown, object by object, as the oracle sees it: plain JSON, nothing of the scheduler's own."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

JsonObject = dict[str, Any]
Key = tuple[str, str]  # namespace (empty where there is none), name

FINISHED = frozenset({"Succeeded", "Failed"})
KINDS = {
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "persistentvolumeclaims": "/api/v1/persistentvolumeclaims",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "resourceclaims": "/apis/resource.k8s.io/v1/resourceclaims",
    "pods": "/api/v1/pods",
}


@dataclass(frozen=True, slots=True)
class Change:
    """An object was added, changed or deleted; *version* orders changes of all kinds."""

    kind: str
    obj: JsonObject
    deleted: bool
    version: int
    seen_s: float


class World:
    """All objects by kind and key, and the pods that take room by node."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[Key, JsonObject]] = {kind: {} for kind in KINDS}
        self._on_node: dict[str, dict[str, JsonObject]] = defaultdict(dict)  # node -> uid -> pod

    def apply(self, kind: str, obj: JsonObject, *, deleted: bool = False) -> JsonObject | None:
        """Take a change in; returns the object before, None if there was none, or another one of that name."""
        key = key_of(obj)
        before = self._objects[kind].get(key)
        if before is not None and kind == "pods":
            self._on_node[node_of(before)].pop(before["metadata"]["uid"], None)
        if deleted:
            self._objects[kind].pop(key, None)
        else:
            self._objects[kind][key] = obj
            if kind == "pods" and takes_room(obj):
                self._on_node[node_of(obj)][obj["metadata"]["uid"]] = obj
        same = before is not None and before["metadata"]["uid"] == obj["metadata"]["uid"]
        return before if same else None

    def get(self, kind: str, name: str, namespace: str = "") -> JsonObject | None:
        return self._objects[kind].get((namespace, name))

    def all(self, kind: str) -> Iterable[JsonObject]:
        return self._objects[kind].values()

    def pods_on(self, node: str) -> Iterable[JsonObject]:
        """The pods that take room on a node."""
        return self._on_node.get(node, {}).values()

    def placed(self) -> Iterator[JsonObject]:
        """All pods that take room somewhere."""
        return (pod for on_node in self._on_node.values() for pod in on_node.values())

    def with_changes(self, nodes: Iterable[JsonObject], pods: Iterable[JsonObject]) -> World:
        """This world as it would be with other versions of nodes, or more of them, and with more pods."""
        other = World()
        other._objects = {**self._objects, "nodes": {**self._objects["nodes"]}}
        for node in nodes:
            other.apply("nodes", node)
        other._on_node = self._on_node
        if pods := list(pods):
            other._objects["pods"] = {**self._objects["pods"]}
            other._on_node = defaultdict(dict, {name: dict(found) for name, found in self._on_node.items()})
            for pod in pods:
                other.apply("pods", pod)
        return other


def key_of(obj: JsonObject) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def node_of(pod: JsonObject) -> str:
    """The node that a pod was bound to; empty if to none."""
    name: str = pod["spec"].get("nodeName", "")
    return name


def takes_room(pod: JsonObject) -> bool:
    return bool(node_of(pod)) and pod.get("status", {}).get("phase") not in FINISHED
