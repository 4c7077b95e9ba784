"""What happens in a scenario, one change of the cluster each; and the scenario itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.client import collection_path, object_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.integration.objects import JsonObject
    from tests.support.client import ApiClient

WEB = "web"
"""The name of the pod that waits."""


@dataclass(frozen=True)
class Step:
    """One change, in words and in deed."""

    what: str
    do: Callable[[ApiClient], object]
    creates: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A pod that is blocked, what wakes it, and what must not.

    Attributes:
        pod: the pod, by the name of `WEB`.
        because: a part of what it is told.
        world: what is there before it.
        before: done with the world before the pod comes.
        must_not: done one after the other first; none may have it tried.
        wakes: done then; the pod is bound by it.
        binds: whether that is so, or there is only another attempt, because somebody else would have to act first.
        retried: whether it is tried again and again anyhow, so that nothing can be said to wake it in vain.
    """

    pod: JsonObject
    because: str
    world: Sequence[JsonObject] = field(default_factory=tuple)
    before: Sequence[Step] = field(default_factory=tuple)
    must_not: Sequence[Step] = field(default_factory=tuple)
    wakes: Sequence[Step] = field(default_factory=tuple)
    binds: bool = True
    retried: bool = False


def create(*objects: JsonObject) -> Step:
    names = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in objects)
    return Step(f"create {names}", lambda api: [api.post(collection_path(obj), obj) for obj in objects], objects)


def on(pod: JsonObject, node: str = "node", namespace: str = "default") -> JsonObject:
    """A pod that is on a node from the start."""
    meta = {**pod["metadata"], "namespace": namespace}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeName": node}}


def delete(*objects: JsonObject) -> Step:
    names = ", ".join(f"{obj['kind']} {obj['metadata']['name']}" for obj in objects)
    return Step(f"delete {names}", lambda api: [api.delete(object_path(obj)) for obj in objects])


def change(obj: JsonObject, body: JsonObject, subresource: str = "") -> Step:
    path = object_path(obj) + (f"/{subresource}" if subresource else "")
    return Step(f"{obj['kind']} {obj['metadata']['name']}: {body}", lambda api: api.patch(path, body))


def label(obj: JsonObject, **labels: str | None) -> Step:
    return change(obj, {"metadata": {"labels": labels}})


def annotate(obj: JsonObject, **annotations: str) -> Step:
    return change(obj, {"metadata": {"annotations": annotations}})


def allocatable(node: JsonObject, **amounts: str) -> Step:
    named = {name.replace("__", "/").replace("_", "-"): amount for name, amount in amounts.items()}
    return change(node, {"status": {"allocatable": named, "capacity": named}}, "status")


def heartbeat(node: JsonObject) -> Step:
    """What a kubelet does every few minutes."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }
    return change(node, {"status": {"conditions": [ready]}}, "status")


def taint(node: JsonObject, *taints: JsonObject) -> Step:
    return change(node, {"spec": {"taints": list(taints) or None}})


def cordon(node: JsonObject, cordoned: bool) -> Step:
    return change(node, {"spec": {"unschedulable": cordoned}})


def finish(pod: JsonObject) -> Step:
    return change(pod, {"status": {"phase": "Succeeded"}}, "status")


def run(pod: JsonObject) -> Step:
    return change(pod, {"status": {"phase": "Running"}}, "status")


def tolerate(pod: JsonObject, **toleration: str) -> Step:
    """Add a toleration to those that a pod has; others may not be changed."""

    def do(api: ApiClient) -> object:
        before: list[Any] = api.get(object_path(pod))["spec"].get("tolerations", [])
        return api.patch(object_path(pod), {"spec": {"tolerations": [*before, toleration]}})

    return Step(f"tolerate {toleration}", do)


def resize(pod: JsonObject, **requests: str) -> Step:
    container = {"name": "main", "resources": {"requests": requests}}
    path = f"{object_path(pod)}/resize"
    return Step(
        f"resize to {requests}", lambda api: api.patch(path, {"spec": {"containers": [container]}}, "strategic")
    )


def ungate(pod: JsonObject, *left: str) -> Step:
    return change(pod, {"spec": {"schedulingGates": [{"name": name} for name in left] or None}})
