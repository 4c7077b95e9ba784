"""Pods that no node takes because of what it is or holds: room, wishes, taints, cordons, ports, gates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.integration.objects import REQUIRED, a_node, a_pod, a_taint, required_node_affinity
from tests.requeue.steps import (
    WEB,
    Scenario,
    allocatable,
    annotate,
    cordon,
    create,
    delete,
    finish,
    heartbeat,
    label,
    on,
    resize,
    run,
    taint,
    tolerate,
    ungate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.objects import JsonObject

NODE: Final = a_node("node", cpu="4")
SMALL: Final = a_node("node", cpu="1", memory="1Gi")
HOG: Final = a_pod("hog", cpu="3")
LARGE: Final = a_pod(WEB, cpu="2")
PLAIN: Final = a_pod(WEB)
GATED: Final = a_pod("gated", schedulingGates=[{"name": "example.com/wait"}])
NO_CPU, NO_WISH, NO_TAINT = "Insufficient cpu", "didn't match Pod's node affinity/selector", "untolerated taint"
GPU: Final = "example.com/gpu"


def with_allocatable(node: JsonObject, **amounts: str) -> JsonObject:
    named = {name.replace("__", "/").replace("_", "-"): amount for name, amount in amounts.items()}
    status = {kind: {**node["status"][kind], **named} for kind in ("capacity", "allocatable")}
    return {**node, "status": status}


def asking(name: str, **amounts: str) -> JsonObject:
    """A pod that asks for resources which are the same in requests and limits."""
    named = {key.replace("__", "/").replace("_", "-"): amount for key, amount in amounts.items()}
    pod = a_pod(name)
    pod["spec"]["containers"][0]["resources"] = {"requests": named, "limits": named}
    return pod


def starting_with(cpu: str, policy: str | None = None) -> JsonObject:
    """A pod whose first container asks for so much before the others run."""
    first: JsonObject = {"name": "first", "image": "image", "resources": {"requests": {"cpu": cpu}}}
    if policy:
        first["restartPolicy"] = policy
    return a_pod(WEB, cpu="500m", initContainers=[first])


def wishing(key: str, operator: str, *values: str) -> JsonObject:
    expression: JsonObject = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    terms = [{"matchExpressions": [expression]}]
    return a_pod(WEB, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def either(*pairs: tuple[str, str]) -> JsonObject:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]} for key, value in pairs]
    return a_pod(WEB, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def named(name: str) -> JsonObject:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]
    return a_pod(WEB, affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def port(name: str, number: int, protocol: str = "TCP", address: str = "") -> JsonObject:
    pod = a_pod(name, host_port=number)
    pod["spec"]["containers"][0]["ports"][0] |= {"protocol": protocol, **({"hostIP": address} if address else {})}
    return pod


ROOM: Mapping[str, Scenario] = {
    "too little CPU; a node large enough wakes it; one too small must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[SMALL],
        must_not=[create(a_node("second", cpu="1999m"))],
        wakes=[create(a_node("third", cpu="2"))],
    ),
    "too little CPU; a node that grows enough wakes it; one that grows too little must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[SMALL],
        must_not=[allocatable(SMALL, cpu="1500m"), allocatable(SMALL, memory="32Gi")],
        wakes=[allocatable(SMALL, cpu="2")],
    ),
    "too little CPU; a deleted pod wakes it; a deleted pod without a node must not": Scenario(
        pod=LARGE, because=NO_CPU, world=[NODE, on(HOG), GATED], must_not=[delete(GATED)], wakes=[delete(HOG)]
    ),
    "too little CPU; a pod that finishes wakes it; one that runs must not": Scenario(
        pod=LARGE, because=NO_CPU, world=[NODE, on(HOG)], must_not=[run(HOG)], wakes=[finish(HOG)]
    ),
    "too little CPU; a pod that asks for less wakes it; one with other labels must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[NODE, on(HOG)],
        must_not=[label(HOG, app="x"), annotate(HOG, note="x")],
        wakes=[resize(HOG, cpu="1")],
    ),
    "too little CPU; a deleted pod wakes it; one that asks for less memory must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[NODE, on(a_pod("hog", cpu="3", memory="2Gi"))],
        must_not=[resize(HOG, cpu="3", memory="1Gi")],
        wakes=[delete(HOG)],
    ),
    "too little CPU; a deleted pod of another scheduler wakes it; its label must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[NODE, on(a_pod("hog", cpu="3", schedulerName="other"))],
        must_not=[label(HOG, app="x")],
        wakes=[delete(HOG)],
    ),
    "too little CPU; a node that grows wakes it; labels, taints, cordons and heartbeats must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[SMALL],
        must_not=[
            label(SMALL, zone="a"),
            taint(SMALL, a_taint("x", effect="PreferNoSchedule")),
            heartbeat(SMALL),
            annotate(SMALL, note="x"),
        ],
        wakes=[allocatable(SMALL, cpu="3")],
    ),
    "too little memory; a node that grows wakes it; more CPU must not": Scenario(
        pod=a_pod(WEB, memory="2Gi"),
        because="Insufficient memory",
        world=[SMALL],
        must_not=[allocatable(SMALL, cpu="64")],
        wakes=[allocatable(SMALL, memory="2Gi")],
    ),
    "too little memory; a deleted pod wakes it; a new pod must not": Scenario(
        pod=a_pod(WEB, memory="6Gi"),
        because="Insufficient memory",
        world=[NODE, on(a_pod("hog", memory="4Gi"))],
        must_not=[create(on(a_pod("other")))],
        wakes=[delete(HOG)],
    ),
    "too little ephemeral storage; a node that has it wakes it; more memory must not": Scenario(
        pod=asking(WEB, ephemeral_storage="2Gi"),
        because="Insufficient ephemeral-storage",
        world=[SMALL],
        must_not=[allocatable(SMALL, memory="64Gi"), allocatable(SMALL, ephemeral_storage="1Gi")],
        wakes=[allocatable(SMALL, ephemeral_storage="2Gi")],
    ),
    "no such resource; a node that gets it wakes it; one that gets another must not": Scenario(
        pod=asking(WEB, **{GPU: "1"}),
        because=f"Insufficient {GPU}",
        world=[SMALL],
        must_not=[allocatable(SMALL, **{"example.com/fpga": "1"})],
        wakes=[allocatable(SMALL, **{GPU: "1"})],
    ),
    "too few of a resource; a deleted pod that has one wakes it; a resized node without them must not": Scenario(
        pod=asking(WEB, **{GPU: "1"}),
        because=f"Insufficient {GPU}",
        world=[with_allocatable(NODE, **{GPU: "1"}), on(asking("hog", **{GPU: "1"}))],
        must_not=[allocatable(NODE, memory="64Gi")],
        wakes=[delete(HOG)],
    ),
    "too many pods; a node that takes more wakes it; more CPU must not": Scenario(
        pod=PLAIN,
        because="Too many pods",
        world=[a_node("node", pods=1), on(HOG)],
        must_not=[allocatable(NODE, cpu="64")],
        wakes=[allocatable(NODE, pods="2")],
    ),
    "too many pods; a deleted pod wakes it; a label of a pod must not": Scenario(
        pod=PLAIN,
        because="Too many pods",
        world=[a_node("node", pods=1), on(HOG)],
        must_not=[label(HOG, app="x")],
        wakes=[delete(HOG)],
    ),
    "a start that is too greedy; a node large enough wakes it; one for its run must not": Scenario(
        pod=starting_with("2"),
        because=NO_CPU,
        world=[SMALL],
        must_not=[create(a_node("second", cpu="1"))],
        wakes=[create(a_node("third", cpu="2"))],
    ),
    "a sidecar too many; a node for both wakes it; a node for one must not": Scenario(
        pod=starting_with("2", "Always"),
        because=NO_CPU,
        world=[SMALL],
        must_not=[create(a_node("second", cpu="2"))],
        wakes=[create(a_node("third", cpu="2500m"))],
    ),
    "no nodes at all; the first node wakes it; nothing has to keep it asleep": Scenario(
        pod=PLAIN, because="no nodes available to schedule pods", retried=True, wakes=[create(NODE)]
    ),
    "a node was taken away; the same node brought back wakes it; another that is too small must not": Scenario(
        pod=LARGE,
        because=NO_CPU,
        world=[SMALL],
        must_not=[delete(SMALL), create(a_node("node", cpu="1500m"))],
        wakes=[delete(SMALL), create(NODE)],
    ),
}

WISHES: Mapping[str, Scenario] = {
    "a wish for a zone; a node that gets the label wakes it; another value must not": Scenario(
        pod=a_pod(WEB, affinity=required_node_affinity("zone", "a")),
        because=NO_WISH,
        world=[NODE],
        must_not=[label(NODE, zone="b"), label(NODE, area="a")],
        wakes=[label(NODE, zone="a")],
    ),
    "a wish for a zone; a node there wakes it; one elsewhere must not": Scenario(
        pod=a_pod(WEB, affinity=required_node_affinity("zone", "a")),
        because=NO_WISH,
        world=[NODE],
        must_not=[create(a_node("second", labels={"zone": "b"}))],
        wakes=[create(a_node("third", labels={"zone": "a"}))],
    ),
    "a node selector; a node that gets the label wakes it; room and taints must not": Scenario(
        pod=a_pod(WEB, nodeSelector={"disk": "ssd"}),
        because=NO_WISH,
        world=[NODE],
        must_not=[allocatable(NODE, cpu="64"), taint(NODE, a_taint("x", effect="PreferNoSchedule")), heartbeat(NODE)],
        wakes=[label(NODE, disk="ssd")],
    ),
    "a node selector; a node with the label wakes it; a deleted pod must not": Scenario(
        pod=a_pod(WEB, nodeSelector={"disk": "ssd"}),
        because=NO_WISH,
        world=[NODE, on(HOG)],
        must_not=[delete(HOG)],
        wakes=[create(a_node("second", labels={"disk": "ssd"}))],
    ),
    "a wish not to be in a zone; a node that leaves it wakes it; another label must not": Scenario(
        pod=wishing("zone", "NotIn", "a"),
        because=NO_WISH,
        world=[a_node("node", labels={"zone": "a"})],
        must_not=[label(NODE, disk="ssd")],
        wakes=[label(NODE, zone="b")],
    ),
    "a wish for a label; a node that gets it wakes it; another label must not": Scenario(
        pod=wishing("gpu", "Exists"),
        because=NO_WISH,
        world=[NODE],
        must_not=[label(NODE, disk="ssd")],
        wakes=[label(NODE, gpu="")],
    ),
    "a wish for the lack of a label; a node that loses it wakes it; another value must not": Scenario(
        pod=wishing("old", "DoesNotExist"),
        because=NO_WISH,
        world=[a_node("node", labels={"old": "yes"})],
        must_not=[label(NODE, old="no")],
        wakes=[label(NODE, old=None)],
    ),
    "a wish for more than a number; a larger one wakes it; the same must not": Scenario(
        pod=wishing("cores", "Gt", "8"),
        because=NO_WISH,
        world=[a_node("node", labels={"cores": "4"})],
        must_not=[label(NODE, cores="8"), label(NODE, cores="many")],
        wakes=[label(NODE, cores="9")],
    ),
    "a wish for less than a number; a smaller one wakes it; the same must not": Scenario(
        pod=wishing("load", "Lt", "3"),
        because=NO_WISH,
        world=[a_node("node", labels={"load": "5"})],
        must_not=[label(NODE, load="3")],
        wakes=[label(NODE, load="2")],
    ),
    "a wish for a node by name; that node wakes it; another must not": Scenario(
        pod=named("chosen"),
        because="0/1 nodes are available",
        world=[NODE],
        must_not=[create(a_node("second"))],
        wakes=[create(a_node("chosen"))],
    ),
    "a wish for either of two; the second one wakes it; a third must not": Scenario(
        pod=either(("zone", "a"), ("disk", "ssd")),
        because=NO_WISH,
        world=[NODE],
        must_not=[label(NODE, zone="c"), label(NODE, disk="hdd")],
        wakes=[label(NODE, disk="ssd")],
    ),
}

TAINTS: Mapping[str, Scenario] = {
    "a taint; its end wakes it; a label must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x")])],
        must_not=[label(NODE, zone="a"), allocatable(NODE, cpu="64")],
        wakes=[taint(NODE)],
    ),
    "a taint; a node without wakes it; one with another must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x")])],
        must_not=[create(a_node("second", taints=[a_taint("y")]))],
        wakes=[create(a_node("third"))],
    ),
    "a taint; a toleration wakes it; a label of the pod must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x")])],
        must_not=[label(PLAIN, app="y"), annotate(PLAIN, note="y")],
        wakes=[tolerate(PLAIN, key="x", operator="Exists")],
    ),
    "a taint; a toleration of everything wakes it; a deleted pod must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x")]), on(HOG)],
        must_not=[delete(HOG)],
        wakes=[tolerate(PLAIN, operator="Exists")],
    ),
    "a taint with a value; the tolerated value wakes it; another must not": Scenario(
        pod=a_pod(WEB, tolerations=[{"key": "x", "value": "mine", "effect": "NoSchedule"}]),
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x", "theirs")])],
        must_not=[taint(NODE, a_taint("x", "others"))],
        wakes=[taint(NODE, a_taint("x", "mine"))],
    ),
    "a taint that evicts; its end wakes it; another one instead must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x", effect="NoExecute")])],
        must_not=[taint(NODE, a_taint("y", effect="NoExecute"))],
        wakes=[taint(NODE)],
    ),
    "a taint; one that only asks instead wakes it; a cordon on top must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x")])],
        must_not=[heartbeat(NODE), annotate(NODE, note="y")],
        wakes=[taint(NODE, a_taint("x", effect="PreferNoSchedule"))],
    ),
    "two taints; the end of both wakes it; the end of one must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x"), a_taint("y")])],
        must_not=[taint(NODE, a_taint("y"))],
        wakes=[taint(NODE)],
    ),
    "a taint; a toleration of its effect wakes it; an annotation of the pod must not": Scenario(
        pod=PLAIN,
        because=NO_TAINT,
        world=[a_node("node", taints=[a_taint("x")])],
        must_not=[annotate(PLAIN, note="y")],
        wakes=[tolerate(PLAIN, operator="Exists", effect="NoSchedule")],
    ),
    "a cordon; its end wakes it; a label must not": Scenario(
        pod=PLAIN,
        because="unschedulable",
        world=[{**NODE, "spec": {"unschedulable": True}}],
        must_not=[label(NODE, zone="a"), heartbeat(NODE)],
        wakes=[cordon(NODE, cordoned=False)],
    ),
    "a cordon; another node wakes it; another cordoned one must not": Scenario(
        pod=PLAIN,
        because="unschedulable",
        world=[{**NODE, "spec": {"unschedulable": True}}],
        must_not=[create({**a_node("second"), "spec": {"unschedulable": True}})],
        wakes=[create(a_node("third"))],
    ),
    "a cordon; a toleration of cordons wakes it; another one must not": Scenario(
        pod=PLAIN,
        because="unschedulable",
        world=[{**NODE, "spec": {"unschedulable": True}}],
        must_not=[tolerate(PLAIN, key="x", operator="Exists"), label(PLAIN, app="y")],
        wakes=[tolerate(PLAIN, key="node.kubernetes.io/unschedulable", operator="Exists")],
    ),
}

PORTS: Mapping[str, Scenario] = {
    "a port that is taken; the end of its user wakes it; the end of another must not": Scenario(
        pod=port(WEB, 80),
        because="free ports",
        world=[NODE, on(port("hog", 80)), on(port("other", 81))],
        must_not=[delete(a_pod("other"))],
        wakes=[delete(HOG)],
    ),
    "a port that is taken; a node wakes it; room and labels must not": Scenario(
        pod=port(WEB, 80),
        because="free ports",
        world=[NODE, on(port("hog", 80))],
        must_not=[allocatable(NODE, cpu="64"), label(NODE, zone="a")],
        wakes=[create(a_node("second"))],
    ),
    "a port that is taken; its user finishes; one of the other protocol must not": Scenario(
        pod=port(WEB, 80),
        because="free ports",
        world=[NODE, on(port("hog", 80)), on(port("other", 80, "UDP"))],
        must_not=[delete(a_pod("other"))],
        wakes=[finish(HOG)],
    ),
    "a port on all addresses; the end of the one on a single address wakes it; a label must not": Scenario(
        pod=port(WEB, 80),
        because="free ports",
        world=[NODE, on(port("hog", 80, address="10.0.0.1"))],
        must_not=[label(HOG, app="x")],
        wakes=[delete(HOG)],
    ),
    "a port on an address; the end of its user wakes it; the end of one on another address must not": Scenario(
        pod=port(WEB, 80, address="10.0.0.1"),
        because="free ports",
        world=[NODE, on(port("hog", 80, address="10.0.0.1")), on(port("other", 80, address="10.0.0.2"))],
        must_not=[delete(a_pod("other"))],
        wakes=[delete(HOG)],
    ),
}

GATES: Mapping[str, Scenario] = {
    "a gate; its end wakes it; a label and a node must not": Scenario(
        pod={**GATED, "metadata": {**GATED["metadata"], "name": WEB}},
        because="Scheduling is blocked",
        world=[NODE],
        must_not=[label(PLAIN, app="x"), create(a_node("second")), annotate(PLAIN, note="x")],
        wakes=[ungate(PLAIN)],
    ),
    "two gates; the end of both wakes it; the end of one must not": Scenario(
        pod=a_pod(WEB, schedulingGates=[{"name": "one"}, {"name": "two"}]),
        because="Scheduling is blocked",
        world=[NODE],
        must_not=[ungate(PLAIN, "two")],
        wakes=[ungate(PLAIN)],
    ),
    "a gate, and no room; its end and then room wake it; room before must not": Scenario(
        pod=a_pod(WEB, cpu="2", schedulingGates=[{"name": "one"}]),
        because="Scheduling is blocked",
        world=[SMALL],
        must_not=[allocatable(SMALL, cpu="3")],
        wakes=[ungate(PLAIN)],
    ),
}

NODES_TABLE: Mapping[str, Scenario] = {**ROOM, **WISHES, **TAINTS, **PORTS, **GATES}
