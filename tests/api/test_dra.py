"""Objects about devices as the API server writes them."""

from __future__ import annotations

import msgspec

from berth.api.dra import AllocationResult, DeviceAttribute, ResourceClaim, ResourceSlice

CLAIM = b"""{"kind": "ResourceClaim", "apiVersion": "resource.k8s.io/v1",
"metadata": {"name": "gpu", "namespace": "ml", "finalizers": ["resource.kubernetes.io/delete-protection"]},
"spec": {"devices": {"config": [{"opaque": {"driver": "d", "parameters": {"a": {"b": [1, 2.5, null]}}}}]}},
"status": {"allocation": {"allocationTimestamp": "2026-07-01T00:00:00Z", "devices": {"results": [
{"request": "r/s", "driver": "d", "pool": "p", "device": "x", "shareID": "s", "consumedCapacity": {"memory": "1Gi"}}]}},
"devices": [{"driver": "d", "pool": "p", "device": "x", "data": {"any": "thing"},
"conditions": [{"type": "Ready"}]}]}}"""


def test_a_claim_keeps_what_the_scheduler_reads_and_writes() -> None:
    claim = msgspec.json.decode(CLAIM, type=ResourceClaim)
    assert claim.key == "ml/gpu"
    assert claim.metadata.finalizers == ("resource.kubernetes.io/delete-protection",)
    assert claim.status.devices[0].conditions[0].type == "Ready"
    written = msgspec.json.decode(msgspec.json.encode(claim))
    original = msgspec.json.decode(CLAIM)
    assert written["status"]["allocation"] == original["status"]["allocation"]
    assert written["spec"] == original["spec"]


def test_an_allocation_says_nothing_that_is_not_so() -> None:
    assert msgspec.json.encode(AllocationResult()) == b"{}"


def test_attributes_are_of_one_type_each() -> None:
    text = b"""{"spec": {"devices": [{"name": "x", "attributes": {"a": {"int": 0}, "b": {"bool": false},
    "c": {"string": ""}, "d": {"version": "1.0.0"}, "e": {"strings": ["x"]}}}]}}"""
    attributes = msgspec.json.decode(text, type=ResourceSlice).spec.devices[0].attributes
    assert attributes == {
        "a": DeviceAttribute(int_value=0),
        "b": DeviceAttribute(bool_value=False),
        "c": DeviceAttribute(string_value=""),
        "d": DeviceAttribute(version_value="1.0.0"),
        "e": DeviceAttribute(string_values=("x",)),
    }
