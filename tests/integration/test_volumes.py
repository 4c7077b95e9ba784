"""Pods with claims, from the moment they are created until their volumes are there and they are bound.

VOLUME_ROUNDS in the environment says how many rounds are played, for those who doubt that a few tell enough.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.integration import volume_rounds
from tests.integration.objects import a_node, a_pod
from tests.integration.storage import (
    CLAIMS,
    SELECTED_NODE,
    VOLUMES,
    VolumeController,
    a_claim,
    a_pod_with,
    a_volume,
    create_volumes,
    host_of,
)
from tests.integration.volume_rounds import MADE, NODES, NOW, THERE, a_round, faults

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.scene import Scene

ROUNDS = int(os.environ.get("VOLUME_ROUNDS", "2"))

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def storage(served: Scene) -> Iterator[Scene]:
    """Three nodes, a class whose volumes are made, one whose volumes are there, and one that binds at once."""
    served.create(*map(a_node, NODES), *volume_rounds.a_landscape())
    yield served
    volume_rounds.remove_classes(served.api)


@pytest.mark.timeout(120 + 20 * ROUNDS)
def test_whenever_claims_are_bound_their_pods_follow_and_no_volume_is_promised_twice(storage: Scene) -> None:
    with volume_rounds.a_controller(storage.api, latest_s=0.3):
        wrong = {number: volume_rounds.play(storage, a_round(number)) for number in range(ROUNDS)}
    assert {number: found for number, found in wrong.items() if found} == {}


def test_volumes_are_made_where_the_pods_go(storage: Scene) -> None:
    since = storage.cluster.revision()
    names = [f"web-{i}" for i in range(12)]
    with VolumeController(storage.api, takes_s=lambda claim: 0.05 * int(claim.rpartition("-")[2])):
        storage.create(*(a_claim(name, MADE) for name in names))
        storage.create(*(a_pod_with(name, name) for name in names))
        storage.bound(*names)
    assert faults(storage, since) == []


def test_who_finds_no_volume_is_told_so_and_gets_one_that_comes_later(storage: Scene) -> None:
    since = storage.cluster.revision()
    create_volumes(storage.api, *(a_volume(f"disk-{i}", THERE, NODES[i % 3]) for i in range(6)))
    names = [f"web-{i}" for i in range(8)]
    storage.create(*(a_claim(name, THERE) for name in names))
    with VolumeController(storage.api):
        storage.create(*(a_pod_with(name, name) for name in names))
        storage.until("six pods are bound", lambda: len(storage.placements()) == 6)
        late = storage.pending()
        why = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
        for name in late:
            storage.unschedulable(name, why)
        create_volumes(storage.api, *(a_volume(f"late-{i}", THERE, "node-a") for i in range(2)))
        placements = storage.bound(*names)
    assert {placements[name] for name in late} == {"node-a"}
    assert faults(storage, since) == []


def test_a_pod_waits_for_a_claim_that_others_bind_first(storage: Scene) -> None:
    (claim,) = storage.create(a_claim("claim", NOW))
    storage.create(a_pod_with("web", "claim"), a_volume("disk", NOW, "node-b"))
    storage.unschedulable("web", "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
    VolumeController(storage.api).bind(claim, "disk")
    assert storage.bound("web") == {"web": "node-b"}


def test_where_no_volume_can_be_made_a_node_is_selected_anew(storage: Scene) -> None:
    storage.create(a_claim("claim", MADE))
    with VolumeController(storage.api) as controller:
        controller.refusals = 2
        storage.create(a_pod_with("web", "claim"))
        placements = storage.bound("web")
    assert len(controller.refused) == 2
    assert host_of(storage.api.get(f"{VOLUMES}/made-for-claim")) == placements["web"]
    failed = storage.events("FailedScheduling", storage.pod("web"))
    assert len(failed) > 0
    assert all('provisioning failed for PVC "claim"' in event["note"] or "reset" in event["note"] for event in failed)


def test_pods_that_wait_for_their_volumes_do_not_keep_others_from_being_placed(storage: Scene) -> None:
    many = [f"web-{i}" for i in range(40)]
    with VolumeController(storage.api) as controller:
        controller.paused.set()
        storage.create(*(a_claim(name, MADE) for name in many))
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
