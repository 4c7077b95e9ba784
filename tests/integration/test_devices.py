"""Pods that use devices, from their creation until the devices are theirs and they are bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.devices import (
    CLAIMS,
    DRIVER,
    FINALIZER,
    GPU,
    a_device_claim,
    a_device_class,
    a_pod_asking,
    a_pod_with,
    a_slice,
    claims,
    devices,
    given,
    given_twice,
    users,
)
from tests.integration.objects import a_node, a_pod
from tests.support.client import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)

NODES = ("node-a", "node-b", "node-c")
NO_DEVICES = "0/3 nodes are available: 3 cannot allocate all claims."


@pytest.fixture
def place(served: Scene) -> Iterator[Scene]:
    """Three nodes with two devices each, and a class of all of them, which a resource stands for as well."""
    served.create(*map(a_node, NODES))
    slices = (a_slice(node, "gpu-0", "gpu-1") for node in NODES)
    with devices(served, a_device_class("gpu", resource=GPU), *slices):
        yield served


def test_every_device_is_given_once_and_who_finds_none_is_told_so(place: Scene) -> None:
    names = [f"web-{i}" for i in range(8)]
    place.create(*map(a_device_claim, names))
    place.create(*(a_pod_with(name, name) for name in names))
    place.until("six pods are bound", lambda: len(place.placements()) == 6)
    placements, found = place.placements(), claims(place)
    for name, node in placements.items():
        [device] = given(found[name])
        assert device.startswith(f"{node}/")
        assert users(found[name]) == [name]
        assert found[name]["metadata"]["finalizers"] == [FINALIZER]
    assert given_twice(place) == []
    late = sorted(set(names) - placements.keys())
    for name in late:
        place.unschedulable(name, NO_DEVICES)

    gone = next(name for name in placements if placements[name] == "node-b")
    place.delete_pod(gone)
    place.api.patch(f"{CLAIMS}/{gone}/status", {"status": {"allocation": None, "reservedFor": None}})
    place.until("a seventh pod is bound", lambda: set(late) & place.placements().keys())
    [name] = set(late) & place.placements().keys()
    assert place.placements()[name] == "node-b"
    assert given_twice(place) == []


def test_pods_that_share_a_claim_share_its_node(place: Scene) -> None:
    place.create(a_device_claim("shared", count=2))
    names = [f"web-{i}" for i in range(6)]
    place.create(*(a_pod_with(name, "shared") for name in names))
    assert len(set(place.bound(*names).values())) == 1
    assert users(claims(place)["shared"]) == names


def test_a_pod_waits_for_its_claim(place: Scene) -> None:
    place.create(a_pod_with("web", "claim"))
    place.until("the pod is held back", lambda: "web" in place.pending())
    place.create(a_device_claim("claim"))
    place.bound("web")


def test_devices_that_nobody_can_use_are_given_up_for_others(place: Scene) -> None:
    place.create(a_node("node-d", cpu="1"), a_pod("big", cpu="1", nodeName="node-d"))
    (claim,) = place.create(a_device_claim("claim"))
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-gone"]}]}
    result = {"request": "req", "driver": DRIVER, "pool": "node-gone", "device": "gpu-0"}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    place.api.patch(f"{CLAIMS}/claim", {"metadata": {"finalizers": [FINALIZER]}})
    place.api.patch(f"{CLAIMS}/claim/status", {"status": {"allocation": allocation}})
    place.create(a_pod_with("web", "claim"))
    node = place.bound("web")["web"]
    [device] = given(claims(place)["claim"])
    assert device.startswith(f"{node}/")
    notes = [event["note"] for event in place.events("FailedScheduling", place.pod("web"))]
    assert any("deallocation of ResourceClaim completed" in note for note in notes)
    assert claim["metadata"]["uid"] == claims(place)["claim"]["metadata"]["uid"]


def test_extended_resources_are_met_by_devices(place: Scene) -> None:
    (with_plugin,) = place.create(a_node("node-p"))
    amounts = {**with_plugin["status"]["allocatable"], GPU: "1"}
    place.api.patch("/api/v1/nodes/node-p/status", {"status": {"capacity": amounts, "allocatable": amounts}})
    names = [f"web-{i}" for i in range(4)]
    place.create(*(a_pod_asking(name, 2) for name in names))
    place.until("three pods are bound", lambda: len(place.placements()) == 3)
    assert set(place.placements().values()) == set(NODES)
    [late] = place.pending()
    place.unschedulable(late, "0/4 nodes are available:")
    for name in place.placements():
        pod = place.pod(name)
        told = pod["status"]["extendedResourceClaimStatus"]
        [mapping] = told["requestMappings"]
        assert mapping == {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
        claim = claims(place)[told["resourceClaimName"]]
        assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        [owner] = claim["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", pod["metadata"]["uid"])
        assert len(given(claim)) == 2
        assert users(claim) == [name]
    place.create(a_pod_asking("small", 1))
    assert place.bound("small")["small"] == "node-p"
    assert "extendedResourceClaimStatus" not in place.pod("small")["status"]
    assert given_twice(place) == []


def _report(scene: Scene, name: str, kind: str) -> None:
    """What a driver says of the one device of a claim."""
    [result] = claims(scene)[name]["status"]["allocation"]["devices"]["results"]
    now = "2026-07-01T00:00:00Z"
    condition = {"type": kind, "status": "True", "reason": "Test", "message": "so", "lastTransitionTime": now}
    device = {key: result[key] for key in ("driver", "pool", "device")}
    scene.api.patch(f"{CLAIMS}/{name}/status", {"status": {"devices": [{**device, "conditions": [condition]}]}})


def _prepared(served: Scene) -> tuple[JsonObject, ...]:
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"], "bindsToNode": True}
    served.create(a_node("node-a"))
    return a_device_class("gpu"), a_slice("node-a", "gpu-0", "gpu-1", **conditions)


def test_a_pod_is_bound_once_its_device_is_ready(served: Scene) -> None:
    with devices(served, *_prepared(served)):
        served.create(a_device_claim("claim"))
        (pod,) = served.create(a_pod_with("web", "claim"))
        event = served.event("BindingConditionsPending", pod)
        assert event["note"] == "waiting for binding conditions for device on node node-a"
        assert claims(served)["claim"]["status"]["allocation"]["allocationTimestamp"]
        served.create(a_pod("plain"))
        served.bound("plain")
        assert served.pending() == {"web"}
        _report(served, "claim", "ready")
        served.bound("web")


def test_a_device_that_cannot_be_made_ready_is_given_up(served: Scene) -> None:
    with devices(served, *_prepared(served)):
        served.create(a_device_claim("claim"))
        (pod,) = served.create(a_pod_with("web", "claim"))
        served.event("BindingConditionsPending", pod)
        _report(served, "claim", "broken")

        def told() -> bool:
            return any("device binding failed" in event["note"] for event in served.events("FailedScheduling", pod))

        served.until("the failure is told", told)
        served.until("the claim gave its device up", lambda: "devices" not in claims(served)["claim"].get("status", {}))


def test_a_selector_that_fails_is_told_and_harms_nobody_else(place: Scene) -> None:
    fails = {"cel": {"expression": f'device.attributes["{DRIVER}"].nothing == 1'}}
    place.create(a_device_claim("broken", selectors=[fails]), a_device_claim("fine"))
    place.create(a_pod_with("lost", "broken"), a_pod_with("web", "fine"))
    place.bound("web")

    def told() -> bool:
        conditions = place.api.get(f"{PODS}/lost").get("status", {}).get("conditions", [])
        return any("claim default/broken: selector #0" in each.get("message", "") for each in conditions)

    place.until("the fault is told", told)
