"""Each rule of the oracle objects where it should, and only there."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest
from tests.chaos.rules import RULES, devices_given_twice, objections, requests
from tests.chaos.selectors import quantity, satisfies
from tests.chaos.world import JsonObject, World
from tests.integration.objects import a_node, a_pod, a_taint, affinity_term, keep_apart_from, required_node_affinity

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"zone": "a"}


def with_uid(obj: JsonObject) -> JsonObject:
    obj["metadata"].setdefault("uid", f"uid of {obj['metadata']['name']}")
    return obj


def on(pod: JsonObject, node: str = "node") -> JsonObject:
    pod["spec"]["nodeName"] = node
    return pod


def near(app: str) -> JsonObject:
    return {"podAffinity": {REQUIRED: [affinity_term(app, "zone")]}}


def spread_over_zones(**more: Any) -> list[JsonObject]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return [{**constraint, "labelSelector": {"matchLabels": {"app": "web"}}, **more}]


def a_claim(name: str, volume: str = "", mode: str = "ReadWriteOnce") -> JsonObject:
    spec = {"accessModes": [mode], "volumeName": volume}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def a_volume(name: str, zone: str = "") -> JsonObject:
    spec: JsonObject = {"csi": {"driver": "disks", "volumeHandle": name}}
    if zone:
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return {"metadata": {"name": name}, "spec": spec}


def a_csi_node(limit: int) -> JsonObject:
    return {"metadata": {"name": "node"}, "spec": {"drivers": [{"name": "disks", "allocatable": {"count": limit}}]}}


def a_user(name: str, claim: str) -> JsonObject:
    return a_pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])


WEB = {"app": "web"}
OTHER_ZONE = a_node("other", labels={"zone": "b"})
TAINTED = a_node("other", labels={"zone": "b"}, taints=[a_taint("dedicated")])


@dataclass(frozen=True)
class Case:
    """A pod, what else there is, and which rule objects; empty if none does."""

    objects_to: str
    pod: JsonObject
    node: JsonObject = field(default_factory=lambda: a_node("node", labels=ZONE))
    others: dict[str, list[JsonObject]] = field(default_factory=dict)


CASES = {
    "a pod that fits": Case("", a_pod("new", cpu="4", host_port=80)),
    "more CPU than is left": Case("room", a_pod("new", cpu="1001m"), others={"pods": [on(a_pod("old", cpu="3"))]}),
    "as much CPU as is left": Case("", a_pod("new", cpu="1"), others={"pods": [on(a_pod("old", cpu="3"))]}),
    "a finished pod takes no room": Case(
        "", a_pod("new", cpu="4"), others={"pods": [on(a_pod("old", cpu="3")) | {"status": {"phase": "Succeeded"}}]}
    ),
    "too many pods": Case("room", a_pod("new"), a_node("node", pods=1), {"pods": [on(a_pod("old"))]}),
    "a resource that the node lacks": Case("room", a_pod("new", memory="9Gi")),
    "a host port twice": Case("ports", a_pod("new", host_port=80), others={"pods": [on(a_pod("old", host_port=80))]}),
    "two host ports": Case("", a_pod("new", host_port=80), others={"pods": [on(a_pod("old", host_port=81))]}),
    "a node selector that does not match": Case("wishes", a_pod("new", nodeSelector={"zone": "b"})),
    "a node affinity that does not match": Case("wishes", a_pod("new", affinity=required_node_affinity("zone", "b"))),
    "a node affinity that matches": Case("", a_pod("new", affinity=required_node_affinity("zone", "b", "a"))),
    "a taint": Case("taints", a_pod("new"), a_node("node", taints=[a_taint("dedicated")])),
    "a taint that is tolerated": Case(
        "", a_pod("new", tolerations=[{"operator": "Exists"}]), a_node("node", taints=[a_taint("dedicated")])
    ),
    "a cordon": Case("taints", a_pod("new"), a_node("node") | {"spec": {"unschedulable": True}}),
    "a volume too many": Case(
        "attachments",
        a_user("new", "second"),
        others={
            "csinodes": [a_csi_node(1)],
            "persistentvolumes": [a_volume("v1"), a_volume("v2")],
            "persistentvolumeclaims": [a_claim("first", "v1"), a_claim("second", "v2")],
            "pods": [on(a_user("old", "first"))],
        },
    ),
    "a volume that is attached already": Case(
        "",
        a_user("new", "first"),
        others={
            "csinodes": [a_csi_node(1)],
            "persistentvolumes": [a_volume("v1")],
            "persistentvolumeclaims": [a_claim("first", "v1")],
            "pods": [on(a_user("old", "first"))],
        },
    ),
    "a claim for a single pod, used twice": Case(
        "single users",
        a_user("new", "mine"),
        others={
            "persistentvolumeclaims": [a_claim("mine", mode="ReadWriteOncePod")],
            "pods": [on(a_user("old", "mine"), "other")],
        },
    ),
    "a volume out of reach": Case(
        "reach",
        a_user("new", "far"),
        others={"persistentvolumes": [a_volume("v1", "b")], "persistentvolumeclaims": [a_claim("far", "v1")]},
    ),
    "nobody to be near to": Case("together", a_pod("new", affinity=near("db"))),
    "the one to be near to in another domain": Case(
        "together",
        a_pod("new", affinity=near("db")),
        others={"nodes": [OTHER_ZONE], "pods": [on(a_pod("old", labels={"app": "db"}), "other")]},
    ),
    "the one to be near to": Case(
        "", a_pod("new", affinity=near("db")), others={"pods": [on(a_pod("old", labels={"app": "db"}))]}
    ),
    "the first of those that want to be near each other": Case("", a_pod("new", labels=WEB, affinity=near("web"))),
    "one that it keeps away from": Case(
        "apart",
        a_pod("new", affinity=keep_apart_from("db", "zone")),
        others={"pods": [on(a_pod("old", labels={"app": "db"}))]},
    ),
    "one that keeps away from it": Case(
        "apart",
        a_pod("new", labels=WEB),
        others={"pods": [on(a_pod("old", affinity=keep_apart_from("web", "zone")))]},
    ),
    "one in another domain that keeps away from it": Case(
        "",
        a_pod("new", labels=WEB),
        others={"nodes": [OTHER_ZONE], "pods": [on(a_pod("old", affinity=keep_apart_from("web", "zone")), "other")]},
    ),
    "one in another namespace": Case(
        "",
        a_pod("new", affinity=keep_apart_from("db", "zone")),
        others={"pods": [on({**a_pod("old"), "metadata": {"name": "old", "namespace": "b", "labels": {"app": "db"}}})]},
    ),
    "a skew too large": Case(
        "spread",
        a_pod("new", labels=WEB, topologySpreadConstraints=spread_over_zones()),
        others={"nodes": [OTHER_ZONE], "pods": [on(a_pod("old", labels=WEB))]},
    ),
    "a skew within bounds": Case(
        "",
        a_pod("new", labels=WEB, topologySpreadConstraints=spread_over_zones(maxSkew=2)),
        others={"nodes": [OTHER_ZONE], "pods": [on(a_pod("old", labels=WEB))]},
    ),
    "too few domains": Case(
        "spread",
        a_pod("new", labels=WEB, topologySpreadConstraints=spread_over_zones(minDomains=2)),
        others={"pods": [on(a_pod("old", labels=WEB))]},
    ),
    "a node without the label of a spread constraint": Case(
        "spread", a_pod("new", labels=WEB, topologySpreadConstraints=spread_over_zones()), a_node("node")
    ),
    "a domain that is tainted counts": Case(
        "spread",
        a_pod("new", labels=WEB, topologySpreadConstraints=spread_over_zones()),
        others={"pods": [on(a_pod("old", labels=WEB))], "nodes": [TAINTED]},
    ),
    "a domain that is tainted does not count if taints are honoured": Case(
        "",
        a_pod("new", labels=WEB, topologySpreadConstraints=spread_over_zones(nodeTaintsPolicy="Honor")),
        others={"pods": [on(a_pod("old", labels=WEB))], "nodes": [TAINTED]},
    ),
    "a domain whose taint is tolerated counts also if taints are honoured": Case(
        "spread",
        a_pod(
            "new",
            labels=WEB,
            topologySpreadConstraints=spread_over_zones(nodeTaintsPolicy="Honor"),
            tolerations=[{"key": "dedicated", "operator": "Exists"}],
        ),
        others={"pods": [on(a_pod("old", labels=WEB))], "nodes": [TAINTED]},
    ),
    "a domain out of the pod's reach does not count": Case(
        "",
        a_pod("new", labels=WEB, nodeSelector=ZONE, topologySpreadConstraints=spread_over_zones()),
        others={"nodes": [OTHER_ZONE], "pods": [on(a_pod("old", labels=WEB))]},
    ),
}


def world_of(case: Case) -> World:
    world = World()
    for kind, objects in {**case.others, "nodes": [*case.others.get("nodes", []), case.node]}.items():
        for obj in objects:
            world.apply(kind, with_uid(obj))
    return world


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_objects_to(case: Case) -> None:
    found = objections(world_of(case), with_uid(case.pod), case.node)
    assert list(found) == ([case.objects_to] if case.objects_to else [])


def test_every_rule_has_a_case_in_which_it_objects() -> None:
    assert {case.objects_to for case in CASES.values()} - {""} == set(RULES)


def test_a_device_given_to_two_claims_is_found() -> None:
    device = {"driver": "gpus", "pool": "node", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [device]}}}
    world = World()
    for name in ("a", "b"):
        world.apply("resourceclaims", with_uid({"metadata": {"name": name, "namespace": "d"}, "status": status}))
    assert devices_given_twice(world) == ["device gpus/node/gpu-0: ['a', 'b']"]


def test_a_pod_takes_the_larger_of_its_start_and_its_run_and_the_overhead() -> None:
    pod = a_pod("web", cpu="1", overhead={"cpu": "100m"})
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    pod["spec"]["initContainers"] = [sidecar, {"resources": {"requests": {"cpu": "2"}}}]
    assert requests(pod) == {"cpu": Decimal("2.6")}


@pytest.mark.parametrize(
    ("text", "amount"), [("100m", "0.1"), ("1Ki", "1024"), ("2k", "2000"), ("3", "3"), ("1.5Gi", "1610612736")]
)
def test_amounts_are_read_as_the_api_writes_them(text: str, amount: str) -> None:
    assert quantity(text) == Decimal(amount)


@pytest.mark.parametrize(
    ("operator", "values", "holds"),
    [
        ("In", ["1", "3"], True),
        ("NotIn", ["1"], True),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["2"], True),
        ("Lt", ["2"], False),
    ],
)
def test_requirements_hold_as_their_operators_say(operator: str, values: list[str], holds: bool) -> None:
    assert satisfies({"key": "size", "operator": operator, "values": values}, {"size": "3"}) is holds
