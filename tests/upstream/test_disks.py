"""A disk is made for who was sent to a node, is where the scheduler wanted it, and goes with its claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from e2e.upstream.disks import (
    CLASS,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    is_left_over,
    is_waiting,
    volume_for,
    volume_name,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

DELETED = "2026-01-01T00:00:00Z"


def a_claim(class_name: str = CLASS, *, node: str = "node-1", volume: str = "", deleted: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"namespace": "shop", "name": "data", "uid": "7", "resourceVersion": "3"}
    metadata |= {"annotations": {SELECTED_NODE: node}} if node else {}
    metadata |= {"deletionTimestamp": deleted} if deleted else {}
    spec: dict[str, Any] = {"storageClassName": class_name, "accessModes": ["ReadWriteOnce"]}
    spec |= {"resources": {"requests": {"storage": "5Gi"}}} | ({"volumeName": volume} if volume else {})
    return {"metadata": metadata, "spec": spec}


WAITING: Mapping[str, tuple[dict[str, Any], bool]] = {
    "sent to a node": (a_claim(), True),
    "not sent anywhere yet": (a_claim(node=""), False),
    "has its volume": (a_claim(volume="pvc-7"), False),
    "of another class": (a_claim("fast"), False),
    "being deleted": (a_claim(deleted=DELETED), False),
}


@pytest.mark.parametrize(("claim", "want"), WAITING.values(), ids=WAITING.keys())
def test_whether_a_claim_waits_for_a_disk(claim: dict[str, Any], want: bool) -> None:
    assert is_waiting(claim) is want


def a_volume(phase: str, *, by: str = PROVISIONER, deleted: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "pvc-7", "annotations": {PROVISIONED_BY: by}}
    return {"metadata": metadata | ({"deletionTimestamp": deleted} if deleted else {}), "status": {"phase": phase}}


LEFT: Mapping[str, tuple[dict[str, Any], bool]] = {
    "its claim is gone": (a_volume("Released"), True),
    "its claim is there": (a_volume("Bound"), False),
    "somebody else's": (a_volume("Released", by="other.example.com"), False),
    "on its way out already": (a_volume("Released", deleted=DELETED), False),
}


@pytest.mark.parametrize(("volume", "want"), LEFT.values(), ids=LEFT.keys())
def test_whether_a_volume_is_left_over(volume: dict[str, Any], want: bool) -> None:
    assert is_left_over(volume) is want


def test_a_disk_fits_its_claim_and_stands_on_the_selected_node() -> None:
    claim = a_claim(node="node-2")
    volume = volume_for(claim)
    assert volume["metadata"]["name"] == volume_name(claim) == "pvc-7"
    spec = volume["spec"]
    assert spec["capacity"] == {"storage": "5Gi"}
    assert spec["claimRef"]["uid"] == "7"
    [term] = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["node-2"]
