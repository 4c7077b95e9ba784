"""What wakes pods that wait for devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod
from tests.devices import a_device_claim, a_pod_with, a_pod_with_template, a_result, an_allocation
from tests.plugins.judging import hinted
from tests.storage import with_objects

from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource
from berth.plugins.dynamic_resources.plugin import DynamicResources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.dra import ResourceClaim
    from berth.api.pod import Pod

CLAIM_ADD = ClusterEvent(Resource.RESOURCE_CLAIM, Action.ADD)
CLAIM_UPDATE = ClusterEvent(Resource.RESOURCE_CLAIM, Action.UPDATE)
CLAIM_DELETE = ClusterEvent(Resource.RESOURCE_CLAIM, Action.DELETE)
GENERATED = Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM

FREE, TAKEN = a_device_claim("claim"), a_device_claim("claim", allocation=an_allocation(a_result("gpu-0")))
OTHER, OTHER_TAKEN = a_device_claim("other"), a_device_claim("other", allocation=an_allocation(a_result("gpu-0")))
RESERVED = a_device_claim("claim", reserved_for=[a_pod("web")])
FINAL = a_device_claim("claim", metadata={"finalizers": ("mine",)})
POD, LOST = a_pod_with("claim"), a_pod_with("claim", "lost")

CLAIMS: Mapping[str, tuple[Pod, ResourceClaim | None, ResourceClaim, Hint]] = {
    "the claim of the pod comes": (POD, None, FREE, Hint.QUEUE),
    "the claim of another pod comes": (POD, None, OTHER, Hint.SKIP),
    "the claim of the pod gets devices": (POD, FREE, TAKEN, Hint.QUEUE),
    "the claim of the pod gives devices back": (POD, TAKEN, FREE, Hint.QUEUE),
    "a claim of others gives devices back": (POD, OTHER_TAKEN, OTHER, Hint.QUEUE),
    "a claim of others gets devices": (POD, OTHER, OTHER_TAKEN, Hint.SKIP),
    "nothing but finalizers": (POD, FREE, FINAL, Hint.SKIP),
    "somebody may use the claim": (POD, FREE, RESERVED, Hint.QUEUE),
    "the pod lacks another claim still": (LOST, None, FREE, Hint.SKIP),
    "devices come back that the pod could not use yet": (LOST, OTHER_TAKEN, OTHER, Hint.SKIP),
    "a pod without claims waits for devices": (a_pod("plain"), OTHER_TAKEN, OTHER, Hint.QUEUE),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), CLAIMS.values(), ids=CLAIMS.keys())
def test_claims_wake(pod: Pod, old: ResourceClaim | None, new: ResourceClaim, want: Hint) -> None:
    cluster = with_objects(a_cluster(), FREE, OTHER)
    event = CLAIM_ADD if old is None else CLAIM_UPDATE
    assert hinted(DynamicResources(None, a_handle(cluster)), event, cluster, pod, old, new) is want


@pytest.mark.parametrize(("claim", "want"), [(OTHER_TAKEN, Hint.QUEUE), (OTHER, Hint.SKIP)], ids=["taken", "free"])
def test_a_claim_that_goes_wakes_if_it_had_devices(claim: ResourceClaim, want: Hint) -> None:
    cluster = with_objects(a_cluster(), FREE)
    assert hinted(DynamicResources(None, a_handle(cluster)), CLAIM_DELETE, cluster, POD, claim, None) is want


def test_1_36_does_not_wait_for_claims_that_go() -> None:
    cluster = a_cluster(minor="1.36")
    plugin = DynamicResources(None, a_handle(cluster, minor="1.36"))
    assert hinted(plugin, CLAIM_DELETE, cluster, POD, OTHER_TAKEN, None) is None


def test_nodes_classes_and_slices_always_wake() -> None:
    cluster = a_cluster()
    plugin = DynamicResources(None, a_handle(cluster))
    resources = Resource.DEVICE_CLASS, Resource.RESOURCE_SLICE
    events = [ClusterEvent(resource, action) for resource in resources for action in (Action.ADD, Action.UPDATE)]
    assert {hinted(plugin, event, cluster, POD, None, a_node()) for event in (*events, NODE_ADD)} == {Hint.QUEUE}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_the_pod_is_woken_once_all_its_claims_are_made(minor: str) -> None:
    event = ClusterEvent(Resource.TARGET_POD if minor == "1.37" else Resource.UNSCHEDULABLE_POD, GENERATED)
    before, after = a_pod_with_template(is_made=False), a_pod_with_template("made")
    cluster = a_cluster(minor=minor)
    plugin = DynamicResources(None, a_handle(cluster, minor=minor))
    assert hinted(plugin, event, cluster, before, before, after) is Hint.SKIP
    with_objects(cluster, a_device_claim("made", owner=after))
    assert hinted(plugin, event, cluster, before, before, after) is Hint.QUEUE
    other = a_pod_with_template("made", name="other")
    assert hinted(plugin, event, cluster, before, other, other) is Hint.SKIP
