"""Which events a registration waits for."""

from __future__ import annotations

import pytest

from berth.framework.events import (
    FORCE_ACTIVATE,
    NODE_ADD,
    POD_RESOURCES,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Resource,
)

LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
ANYTHING = ClusterEvent(Resource.WILDCARD, Action.ALL)
POD_DELETE = ClusterEvent(Resource.POD, Action.DELETE)

# what is waited for, what happens, whether it matches
MATCHES: dict[str, tuple[ClusterEvent, ClusterEvent, bool]] = {
    "the very event": (NODE_ADD, NODE_ADD, True),
    "another action on the same resource": (NODE_ADD, LABEL, False),
    "the same action on another resource": (NODE_ADD, ClusterEvent(Resource.CSI_NODE, Action.ADD), False),
    "one of several actions": (ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), LABEL, True),
    "any update": (ClusterEvent(Resource.NODE, Action.UPDATE), LABEL, True),
    "any update, but it is an addition": (ClusterEvent(Resource.NODE, Action.UPDATE), NODE_ADD, False),
    "a general update, and only a special one is waited for": (
        LABEL,
        ClusterEvent(Resource.NODE, Action.UPDATE),
        False,
    ),
    "an event of more than is waited for, with common bits": (
        LABEL,
        ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT),
        False,
    ),
    "everything": (ANYTHING, LABEL, True),
    "everything, and the event is of everything too": (ANYTHING, UNSCHEDULABLE_TIMEOUT, True),
    "an event of everything, and something special is waited for": (NODE_ADD, FORCE_ACTIVATE, False),
    "one action on any resource": (ClusterEvent(Resource.WILDCARD, Action.ADD), NODE_ADD, True),
    "one action on any resource, but it is another": (ClusterEvent(Resource.WILDCARD, Action.ADD), LABEL, False),
    "a pod that has a node, where any pod is waited for": (
        POD_DELETE,
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        True,
    ),
    "any pod, where one with a node is waited for": (
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        POD_DELETE,
        False,
    ),
    "a waiting pod, where one with a node is waited for": (
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD),
        ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD),
        False,
    ),
    "a node, where any pod is waited for": (POD_DELETE, ClusterEvent(Resource.NODE, Action.DELETE), False),
    "a resource that only a user's plugin knows": (
        ClusterEvent("foos.v1.example.com", Action.ADD),
        ClusterEvent("foos.v1.example.com", Action.ADD),
        True,
    ),
}


@pytest.mark.parametrize(("registered", "incoming", "expected"), MATCHES.values(), ids=MATCHES)
def test_a_registration_matches(registered: ClusterEvent, incoming: ClusterEvent, expected: bool) -> None:
    assert registered.matches(incoming) is expected


@pytest.mark.parametrize("resource", sorted(POD_RESOURCES))
def test_whoever_waits_for_any_pod_hears_of_every_sort_of_pod(resource: Resource) -> None:
    assert POD_DELETE.matches(ClusterEvent(resource, Action.DELETE))


def test_update_is_the_sum_of_all_updates_and_all_of_everything() -> None:
    singles = [action for action in Action if action.name and action.name.startswith("UPDATE_")]
    assert sum(singles) == Action.UPDATE
    assert Action.UPDATE | Action.ADD | Action.DELETE == Action.ALL


LABELS: dict[str, ClusterEvent] = {
    "NodeAdd": NODE_ADD,
    "NodeUpdateNodeLabel": LABEL,
    "AssignedPodDelete": ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
    "UnscheduledPodUpdatePodScaleUp": ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_UP),
    "storage.k8s.io/CSINodeUpdate": ClusterEvent(Resource.CSI_NODE, Action.UPDATE),
    "UnschedulableTimeout": UNSCHEDULABLE_TIMEOUT,
    "ForceActivate": FORCE_ACTIVATE,
}


@pytest.mark.parametrize("label", LABELS)
def test_an_event_is_called_what_the_reference_calls_it(label: str) -> None:
    assert LABELS[label].label == label
