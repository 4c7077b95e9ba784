"""What a pod leaves behind in the world of a vector."""

from typing import Any

import msgspec
import pytest
from tests.conformance.builders import node, pod
from tests.conformance.records import Outcome, StatusRecord
from tests.conformance.scenario import World
from tests.conformance.settings import features

from berth.api.dra import ResourceClaimStatus
from berth.api.pod import Pod
from berth.cluster.kinds import RESOURCE_CLAIM


def world(*manifests: dict[str, Any]) -> World:
    return World([msgspec.Raw(msgspec.json.encode(manifest)) for manifest in manifests], features("1.37"))


def waiting(name: str, *, priority: int = 0, nominated: str = "", claims: tuple[str, ...] = ()) -> dict[str, Any]:
    manifest = pod(name)
    manifest["spec"]["priority"] = priority
    manifest["spec"]["resourceClaims"] = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    manifest["status"]["nominatedNodeName"] = nominated
    return manifest


def claim(name: str, *, allocated: bool = False, special_of: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if special_of:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [{"uid": f"uid-of-{special_of}"}]
    consumer = {"resource": "pods", "name": "p", "uid": "uid-of-p"}
    status = {"allocation": {}, "reservedFor": [consumer], "devices": [{"device": "d"}]} if allocated else {}
    return {"kind": "ResourceClaim", "metadata": metadata, "status": status}


def follow(place: World, manifest: dict[str, Any], **fields: Any) -> None:
    info = place.arrive(msgspec.convert(manifest, Pod))
    place.follow(info, Outcome(pod=info.key, num_nodes=1, **fields))


def gave_up(reason: str) -> dict[str, Any]:
    return {"post_filter": StatusRecord(code="Unschedulable", plugin="DynamicResources", reasons=(reason, "and so on"))}


def test_a_placed_pod_runs_on_its_node_and_needs_no_promise_any_more() -> None:
    place = world(node("n"))
    follow(place, waiting("p", nominated="n"), chosen="n")
    (placed,) = place.cluster.table.pods(0).values()
    assert (placed.pod.spec.node_name, placed.pod.status.phase) == ("n", "Running")
    assert list(place.nominator.nodes()) == []


def test_a_pod_that_is_not_placed_keeps_its_promise_and_counts_nowhere() -> None:
    place = world(node("n"))
    follow(place, waiting("p", nominated="n"), message="0/1 nodes are available")
    assert [info.key for info in place.nominator.pods_on("n")] == ["default/p"]
    assert not place.cluster.table.pods(0)


def test_a_pod_that_preempts_takes_the_promises_of_less_important_pods_on_that_node_only() -> None:
    place = world(
        node("m"),
        node("n"),
        waiting("less", priority=1, nominated="n"),
        waiting("same", priority=5, nominated="n"),
        waiting("elsewhere", priority=1, nominated="m"),
    )
    follow(place, waiting("p", priority=5), nominated_node="n")
    assert [info.key for info in place.nominator.pods_on("n")] == ["default/same"]
    assert [info.key for info in place.nominator.pods_on("m")] == ["default/elsewhere"]


def test_a_claim_that_was_given_up_is_no_longer_allocated() -> None:
    place = world(node("n"), claim("mine", allocated=True), claim("other", allocated=True))
    follow(place, waiting("p", claims=("mine",)), **gave_up("deallocation of ResourceClaim completed"))
    mine, other = place.cluster.objects.list(RESOURCE_CLAIM)
    assert mine.status == ResourceClaimStatus()
    assert other.status.allocation
    assert other.status.reserved_for
    assert other.status.devices


def test_a_special_claim_that_was_left_over_is_gone() -> None:
    place = world(node("n"), claim("stale", special_of="p"), claim("other", special_of="q"))
    follow(place, waiting("p"), **gave_up("deletion of ResourceClaim completed"))
    assert [held.key for held in place.cluster.objects.list(RESOURCE_CLAIM)] == ["default/other"]


@pytest.mark.parametrize("reason", ["deallocation of ResourceClaim completed", "deletion of ResourceClaim completed"])
def test_it_is_an_error_if_nobody_can_say_which_claim_was_given_up(reason: str) -> None:
    both = [claim(name, allocated=True, special_of="p") for name in ("one", "two")]
    with pytest.raises(ValueError, match="gave up one of 2"):
        follow(world(node("n"), *both), waiting("p", claims=("one", "two")), **gave_up(reason))
