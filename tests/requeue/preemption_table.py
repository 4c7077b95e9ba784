"""Pods that others go for, and pods that wait behind a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.integration.objects import a_node, a_pod
from tests.requeue.steps import WEB, Scenario, annotate, change, create, delete, heartbeat, label, on

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.objects import JsonObject

NO_CPU: Final = "Insufficient cpu"
NODE: Final = a_node("node", cpu="1")


def rank(name: str, value: int) -> JsonObject:
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value}


def ranked(name: str, priority_class: str, **spec: Any) -> JsonObject:
    return a_pod(name, cpu="1", priorityClassName=priority_class, terminationGracePeriodSeconds=0, **spec)


def held(pod: JsonObject) -> JsonObject:
    """The pod stays, when it is deleted, until it is let go."""
    return {**pod, "metadata": {**pod["metadata"], "finalizers": ["test.example/hold"]}}


HIGH: Final = ranked(WEB, "high")
VICTIM: Final = held(on(ranked("victim", "low")))
GATED: Final = a_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
FOREIGN: Final = a_pod("foreign", cpu="1", schedulerName="another")
LET_GO: Final = change(VICTIM, {"metadata": {"finalizers": None}})
RANKS: Final = [rank("low", 10), rank("high", 1000)]

PREEMPTION_TABLE: Mapping[str, Scenario] = {
    "others go for it; the end of the last wakes it; the end of a gated pod and heartbeats must not": Scenario(
        pod=HIGH,
        because=NO_CPU,
        world=[*RANKS, NODE, VICTIM, GATED],
        must_not=[delete(GATED), heartbeat(NODE), label(NODE, zone="a")],
        wakes=[LET_GO],
    ),
    "others go for it; a node that is large enough wakes it; one that is not must not": Scenario(
        pod=HIGH,
        because=NO_CPU,
        world=[*RANKS, NODE, VICTIM],
        must_not=[create(a_node("second", cpu="500m")), annotate(NODE, note="x")],
        wakes=[create(a_node("third", cpu="1"))],
    ),
    "others go for it; the end of its node wakes it; an annotation of the node must not": Scenario(
        pod=HIGH,
        because=NO_CPU,
        world=[*RANKS, NODE, VICTIM],
        must_not=[annotate(NODE, note="x")],
        wakes=[delete(NODE)],
        binds=False,
    ),
    "room promised to a pod of another scheduler; its end wakes it; its label must not": Scenario(
        pod=a_pod(WEB, cpu="1"),
        because=NO_CPU,
        world=[NODE, FOREIGN],
        before=[change(FOREIGN, {"status": {"nominatedNodeName": "node"}}, "status")],
        must_not=[label(FOREIGN, app="x")],
        wakes=[delete(FOREIGN)],
    ),
    "room promised to a pod of another scheduler; the end of the promise wakes it; an annotation must not": Scenario(
        pod=a_pod(WEB, cpu="1"),
        because=NO_CPU,
        world=[NODE, FOREIGN],
        before=[change(FOREIGN, {"status": {"nominatedNodeName": "node"}}, "status")],
        must_not=[annotate(FOREIGN, note="x")],
        wakes=[change(FOREIGN, {"status": {"nominatedNodeName": None}}, "status")],
    ),
}
