"""Pods with claims, from the moment they are created until their volumes are there and they are bound."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.integration.objects import a_node, a_pod
from tests.integration.storage import (
    CLAIMS,
    CLASSES,
    SELECTED_NODE,
    VOLUMES,
    VolumeController,
    a_claim,
    a_class,
    a_pod_with,
    a_volume,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)

LATE_S = 2.0  # how long after its claim is bound a pod may be bound at the latest
NODES = ("node-a", "node-b", "node-c")


@pytest.fixture
def storage(served: Scene) -> Iterator[Scene]:
    """Three nodes, a class whose volumes are made, one whose volumes are there, and one that binds at once."""
    served.create(*map(a_node, NODES))
    served.create(
        a_class("made"),
        a_class("local", provisioner="kubernetes.io/no-provisioner"),
        a_class("now", mode="Immediate"),
    )
    yield served
    for name in ("made", "local", "now"):
        served.api.delete(f"{CLASSES}/{name}")


def bound_times(scene: Scene, *names: str) -> dict[str, float]:
    """When each pod was first seen with a node."""
    seen_s: dict[str, float] = {}

    def all_bound() -> bool:
        for name in scene.placements():
            seen_s.setdefault(name, time.monotonic())
        return seen_s.keys() >= set(names)

    scene.until(f"bound: {', '.join(names[:8])}", all_bound)
    return seen_s


def host_of(scene: Scene, volume: str) -> str:
    """The one node from which a volume can be reached."""
    [term] = scene.api.get(f"{VOLUMES}/{volume}")["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    host: str = term["matchExpressions"][0]["values"][0]
    return host


def test_volumes_are_made_where_the_pods_go_and_no_pod_waits_longer_than_for_its_volume(storage: Scene) -> None:
    since = storage.cluster.revision()
    numbers = range(12)
    with VolumeController(storage.api, takes_s=lambda claim: 0.05 * int(claim.rpartition("-")[2])) as controller:
        storage.create(*(a_claim(f"claim-{i}", "made") for i in numbers))
        storage.create(*(a_pod_with(f"web-{i}", f"claim-{i}") for i in numbers))
        seen_s = bound_times(storage, *(f"web-{i}" for i in numbers))
    placements = storage.placements()
    for i in numbers:
        claim = storage.api.get(f"{CLAIMS}/claim-{i}")
        assert claim["metadata"]["annotations"][SELECTED_NODE] == placements[f"web-{i}"]
        assert host_of(storage, claim["spec"]["volumeName"]) == placements[f"web-{i}"]
        assert seen_s[f"web-{i}"] - controller.ready_s[f"claim-{i}"] < LATE_S
    storage.assert_bound_once(since)


def test_no_volume_is_promised_twice_and_who_finds_none_is_told_so(storage: Scene) -> None:
    storage.create(*(a_volume(f"disk-{i}", "local", NODES[i % 3]) for i in range(6)))
    for i in range(6):
        storage.api.patch(f"{VOLUMES}/disk-{i}/status", {"status": {"phase": "Available"}})
    storage.create(*(a_claim(f"claim-{i}", "local") for i in range(8)))
    with VolumeController(storage.api) as controller:
        pods = [f"web-{i}" for i in range(8)]
        storage.create(*(a_pod_with(name, f"claim-{i}") for i, name in enumerate(pods)))
        storage.until("six pods are bound", lambda: len(storage.placements()) == 6)
        placements = storage.placements()
        why = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
        for name in set(pods) - placements.keys():
            storage.unschedulable(name, why)
        volumes = storage.api.items(VOLUMES)
        owners = {volume["spec"]["claimRef"]["name"]: volume["metadata"]["name"] for volume in volumes}
        assert len(owners) == 6
        for claim, volume in owners.items():
            assert host_of(storage, volume) == placements[f"web-{claim.rpartition('-')[2]}"]

        storage.create(*(a_volume(f"late-{i}", "local", "node-a") for i in range(2)))
        for i in range(2):
            storage.api.patch(f"{VOLUMES}/late-{i}/status", {"status": {"phase": "Available"}})
        seen_s = bound_times(storage, *pods)
    late = set(pods) - placements.keys()
    assert all(seen_s[name] - controller.ready_s[f"claim-{name.rpartition('-')[2]}"] < LATE_S for name in late)
    assert {storage.placements()[name] for name in late} == {"node-a"}


def test_a_pod_waits_for_a_claim_that_others_bind_first(storage: Scene) -> None:
    (claim,) = storage.create(a_claim("claim", "now"))
    storage.create(a_pod_with("web", "claim"), a_volume("disk", "now", "node-b"))
    storage.unschedulable("web", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")

    controller = VolumeController(storage.api)
    controller.bind(claim, "disk")
    assert bound_times(storage, "web")["web"] - controller.ready_s["claim"] < LATE_S + 1, "its backoff may still run"
    assert storage.placements() == {"web": "node-b"}


def test_where_no_volume_can_be_made_a_node_is_selected_anew(storage: Scene) -> None:
    storage.create(a_claim("claim", "made"))
    with VolumeController(storage.api) as controller:
        controller.refusals = 2
        storage.create(a_pod_with("web", "claim"))
        placements = storage.bound("web")
    assert len(controller.refused) == 2
    assert host_of(storage, "made-for-claim") == placements["web"]
    failed = storage.events("FailedScheduling", storage.pod("web"))
    assert len(failed) > 0
    assert all('provisioning failed for PVC "claim"' in event["note"] or "reset" in event["note"] for event in failed)


def test_pods_that_wait_for_their_volumes_do_not_keep_others_from_being_placed(storage: Scene) -> None:
    many = [f"web-{i}" for i in range(40)]
    with VolumeController(storage.api) as controller:
        controller.paused.set()
        storage.create(*(a_claim(name, "made") for name in many))
        storage.create(*(a_pod_with(name, name) for name in many))
        storage.until(
            "a node is selected for each claim",
            lambda: sum(SELECTED_NODE in c["metadata"].get("annotations", {}) for c in storage.api.items(CLAIMS)) == 40,
        )
        storage.create(a_pod("plain"))
        assert storage.bound("plain").keys() == {"plain"}
        controller.paused.clear()
        storage.bound(*many)
    assert storage.overcommitted() == []
