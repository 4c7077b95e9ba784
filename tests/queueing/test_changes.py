"""Which events a change of a pod or a node amounts to."""

from __future__ import annotations

from typing import Any

import pytest
from tests.queueing.builders import BOTH, NEWEST, make_pod

from berth.api.meta import Condition, ObjectMeta
from berth.api.node import Node, NodeSpec, NodeStatus, Taint
from berth.api.pod import (
    ContainerStatus,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    PodStatus,
    ResourceRequirements,
)
from berth.framework.events import Action
from berth.framework.features import Behaviours, FeatureGates
from berth.queueing.changes import detect_node_changes, detect_pod_changes, events_of_change, pod_rules

GATES = FeatureGates(specs={}, values={"NodeDeclaredFeatures": True})
NO_GATES = FeatureGates(specs={}, values={"NodeDeclaredFeatures": False})


def claims(*names: str) -> PodStatus:
    return PodStatus(resource_claim_statuses=tuple(PodResourceClaimStatus(name=name) for name in names))


POD_CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "a label": ({}, {"labels": {"a": "b"}}, ["UpdatePodLabel"]),
    "requests go down": ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}, ["UpdatePodScaleDown"]),
    "a request disappears": ({"requests": {"cpu": "2"}}, {}, ["UpdatePodScaleDown"]),
    "requests go up": ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}, ["UpdatePodScaleUp"]),
    "one request goes down, another up": (
        {"requests": {"cpu": "2", "memory": "1Gi"}},
        {"requests": {"cpu": "1", "memory": "2Gi"}},
        ["UpdatePodScaleDown", "UpdatePodScaleUp"],
    ),
    "the same request in other words": ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}, ["Update"]),
    "less than a thousandth": ({"requests": {"cpu": "999500u"}}, {"requests": {"cpu": "999100u"}}, ["Update"]),
    "a label and requests": (
        {"requests": {"cpu": "2"}},
        {"requests": {"cpu": "1"}, "labels": {"a": "b"}},
        ["UpdatePodLabel", "UpdatePodScaleDown"],
    ),
    "an annotation": ({}, {"annotations": {"a": "b"}}, ["Update"]),
    "the last gate goes": ({"gates": ["a", "b"]}, {}, ["UpdatePodSchedulingGatesEliminated"]),
    "one of two gates goes": ({"gates": ["a", "b"]}, {"gates": ["b"]}, ["Update"]),
    "a toleration more": ({"tolerations": 1}, {"tolerations": 2}, ["UpdatePodToleration"]),
    "claims are generated": ({}, {"status": claims("a")}, ["UpdatePodGeneratedResourceClaim"]),
    "claims change places": (
        {"status": claims("a", "b")},
        {"status": claims("b", "a")},
        ["UpdatePodGeneratedResourceClaim"],
    ),
    "a claim for extended resources": (
        {},
        {"status": PodStatus(extended_resource_claim_status=PodExtendedResourceClaimStatus(resource_claim_name="c"))},
        ["UpdatePodGeneratedResourceClaim"],
    ),
    "nothing": ({}, {}, ["Update"]),
}
RESOURCES = {
    "1.36, the waiting pod": ("1.36", True, "", "UnschedulablePod"),
    "1.36, another waiting pod": ("1.36", False, "", "UnschedulablePod"),
    "1.37, the waiting pod": ("1.37", True, "", "TargetPod"),
    "1.37, another waiting pod": ("1.37", False, "", "UnscheduledPod"),
    "1.36, a placed pod": ("1.36", False, "node1", "AssignedPod"),
    "1.37, a placed pod": ("1.37", False, "node1", "AssignedPod"),
}


@pytest.mark.parametrize(("version", "own", "node_name", "resource"), RESOURCES.values(), ids=RESOURCES)
@pytest.mark.parametrize(("old", "new", "expected"), POD_CHANGES.values(), ids=POD_CHANGES)
def test_an_update_of_a_pod(
    version: str,
    own: bool,
    node_name: str,
    resource: str,
    old: dict[str, Any],
    new: dict[str, Any],
    expected: list[str],
) -> None:
    behaviours = BOTH[version]
    if not behaviours.pod_scale_up_event:
        expected = [action for action in expected if action != "UpdatePodScaleUp"] or ["Update"]
    events = detect_pod_changes(
        make_pod(**old), make_pod(**new, node_name=node_name), behaviours, pod_rules(behaviours), own=own
    )
    assert [event.label for event in events] == [resource + action for action in expected]


def test_a_resize_counts_what_the_node_has_granted() -> None:
    granted = ResourceRequirements(requests={"cpu": "4"})
    holding = PodStatus(container_statuses=(ContainerStatus(name="c", resources=granted),))
    before = make_pod(requests={"cpu": "2"}, node_name="n", status=holding)
    after = make_pod(requests={"cpu": "2"}, node_name="n")
    (event,) = detect_pod_changes(before, after, NEWEST, pod_rules(NEWEST))
    assert event.action is Action.UPDATE_POD_SCALE_DOWN


def node(
    *,
    unschedulable: bool = False,
    taints: tuple[Taint, ...] = (),
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **status: Any,
) -> Node:
    return Node(
        metadata=ObjectMeta(name="n", labels=labels or {}, annotations=annotations or {}),
        spec=NodeSpec(unschedulable=unschedulable, taints=taints),
        status=NodeStatus(**status),
    )


def ready(status: str, heartbeat: str = "") -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, last_probe_time=heartbeat),)


NODE_CHANGES = {
    "nothing": (node(), node(), []),
    "uncordoned": (node(unschedulable=True), node(), ["UpdateNodeTaint"]),
    "cordoned": (node(), node(unschedulable=True), []),
    "fewer devices": (
        node(allocatable={"example.com/d": "2"}),
        node(allocatable={"example.com/d": "1"}),
        ["UpdateNodeAllocatable"],
    ),
    "the same amount in other words": (
        node(allocatable={"memory": "1Gi"}),
        node(allocatable={"memory": "1024Mi"}),
        [],
    ),
    "another resource": (node(allocatable={"a": "1"}), node(allocatable={"b": "1"}), ["UpdateNodeAllocatable"]),
    "a label": (node(), node(labels={"a": "b"}), ["UpdateNodeLabel"]),
    "the value of a taint": (
        node(taints=(Taint(key="k", value="a"),)),
        node(taints=(Taint(key="k", value="b"),)),
        ["UpdateNodeTaint"],
    ),
    "an annotation": (node(), node(annotations={"a": "b"}), ["UpdateNodeAnnotation"]),
    "a condition goes": (node(conditions=ready("True")), node(), ["UpdateNodeCondition"]),
    "a condition changes": (
        node(conditions=ready("True")),
        node(conditions=ready("False")),
        ["UpdateNodeCondition"],
    ),
    "a heartbeat": (node(conditions=ready("True", "1")), node(conditions=ready("True", "2")), []),
    "a label and a taint": (
        node(),
        node(labels={"a": "b"}, taints=(Taint(key="k"),)),
        ["UpdateNodeLabel", "UpdateNodeTaint"],
    ),
    "uncordoned and other taints": (
        node(unschedulable=True, taints=(Taint(key="k"),)),
        node(),
        ["UpdateNodeTaint", "UpdateNodeTaint"],
    ),
    "a feature more": (node(), node(declared_features=("a",)), ["UpdateNodeDeclaredFeature"]),
    "a feature less": (node(declared_features=("a",)), node(), ["UpdateNodeDeclaredFeature"]),
    "other features": (
        node(declared_features=("a",)),
        node(declared_features=("b",)),
        ["UpdateNodeDeclaredFeature"],
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_an_update_of_a_node(old: Node, new: Node, expected: list[str]) -> None:
    assert [event.label for event in detect_node_changes(old, new, GATES)] == ["Node" + action for action in expected]


def test_features_of_nodes_are_not_looked_at_with_the_gate_off() -> None:
    assert detect_node_changes(node(), node(declared_features=("a",)), NO_GATES) == []


ME, OTHER = make_pod("me"), make_pod("me", uid="another of the same name")
SINGLE: dict[str, tuple[str, Any, Any, Any, str]] = {
    "a pod appears": ("Pod", "add", None, OTHER, "AssignedPodAdd"),
    "a pod goes": ("Pod", "delete", OTHER, None, "AssignedPodDelete"),
    "the pod itself is updated": ("Pod", "update", ME, ME, "TargetPodUpdate"),
    "a pod of the same name is updated": ("Pod", "update", OTHER, OTHER, "UnscheduledPodUpdate"),
    "a node appears": ("Node", "add", None, node(), "NodeAdd"),
    "a node goes": ("Node", "delete", node(), None, "NodeDelete"),
    "a class is updated": ("storage.k8s.io/StorageClass", "update", {}, {}, "storage.k8s.io/StorageClassUpdate"),
    "an object of a user's kind appears": ("foos.v1.example.com", "add", None, {}, "foos.v1.example.comAdd"),
}


@pytest.mark.parametrize(("resource", "op", "old", "new", "label"), SINGLE.values(), ids=SINGLE)
def test_a_change_of_an_object(resource: str, op: Any, old: Any, new: Any, label: str) -> None:
    events = events_of_change(resource, op, old, new, ME, NEWEST, GATES)
    assert [event.label for event in events] == [label]


@pytest.mark.parametrize("resource", ["Pod", "Node"])
def test_an_undecoded_object_is_refused(resource: str) -> None:
    with pytest.raises(TypeError, match=f"an update of a {resource} takes two {resource}s, got dict and dict"):
        events_of_change(resource, "update", {}, {}, ME, NEWEST, GATES)


def test_the_rules_for_requests_are_those_of_the_version() -> None:
    assert pod_rules(Behaviours(resize_footprint_is_max_of_totals=False)).resize_by_totals is False
    assert pod_rules(NEWEST).resize_by_totals is True
