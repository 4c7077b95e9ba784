"""Extended resources that devices stand in for: what is asked for, where, and what becomes of the claim."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.builders import a_container, a_node, a_pod
from tests.devices import a_device_claim, a_device_class, a_pod_with, a_result, a_slice, an_allocation
from tests.plugins.dynamic_resources.scene import Scene, a_scene, shows

from berth.api.dra import EXTENDED_RESOURCE_CLAIM, FINALIZER, ResourceClaim
from berth.api.pod import ExtendedResourceRequest, PodExtendedResourceClaimStatus
from berth.cluster.kinds import RESOURCE_CLAIM
from berth.framework.status import SKIP, SUCCESS, error
from berth.plugins.dynamic_resources.extended import special_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Container, Pod

GPU, DONGLE = "example.com/gpu", "example.com/dongle"
LEFT_OVER = "cannot schedule extended resource claim"
NAME = "web-extended-resources-x1"


def asking(many: str = "1", resource: str = GPU, **more: str) -> Pod:
    return a_pod("web", requests={resource: many, **more})


def scene_of(pod: Pod | None = None, *objects: Any, own: str | None = None, **fields: Any) -> Scene:
    """A node with two devices, one with *own* amounts of the resource that they stand for, and one with nothing."""
    plenty = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    nodes = (
        a_node("n1", allocatable=plenty),
        a_node("n2", allocatable={**plenty, **({} if own is None else {GPU: own})}),
    )
    classes = a_device_class("gpu", resource=GPU)
    return a_scene(classes, *objects, nodes=nodes, pod=pod or asking(), **fields)


# -- where ------------------------------------------------------------------------------------------------------------


def test_devices_are_looked_for_where_the_node_has_nothing_itself() -> None:
    assert scene_of().judge() == {"n1": "", "n2": "cannot allocate all claims"}
    assert scene_of(own="0").judge() == {"n1": "", "n2": "cannot allocate all claims"}
    assert scene_of(own="4").judge() == {"n1": "", "n2": ""}


def test_as_many_devices_as_are_asked_for_have_to_be_there() -> None:
    assert scene_of(asking("2")).judge()["n1"] == ""
    assert scene_of(asking("3"), own="4").judge() == {"n1": "cannot allocate all claims", "n2": ""}


def test_the_name_of_the_class_will_do() -> None:
    assert scene_of(asking(resource="deviceclass.resource.kubernetes.io/gpu")).judge()["n1"] == ""


def test_a_resource_that_nothing_stands_behind_must_be_known_to_the_node() -> None:
    scene = scene_of(asking(**{DONGLE: "1"}))
    assert set(scene.judge().values()) == {"cannot fit resource"}


def test_a_pod_that_asks_for_nothing_that_a_class_stands_behind_is_passed_over() -> None:
    assert scene_of(asking(resource=DONGLE)).pre_filter() == SKIP
    assert scene_of(asking("0")).pre_filter() == SKIP
    assert scene_of(minor="1.36", gates={"DRAExtendedResource": False}).pre_filter() == SKIP


def test_of_two_resources_each_node_gives_what_it_has() -> None:
    pod = asking(**{DONGLE: "1"})
    plenty = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    nodes = (a_node("n1", allocatable={**plenty, DONGLE: "1"}), a_node("n2", allocatable={**plenty, GPU: "1"}))
    dongles = a_slice("dongles", "d-0", on="n2", pool="dongles", driver="dongle.example.com")
    classes = (
        a_device_class("gpu", resource=GPU, cel=['device.driver == "gpu.example.com"']),
        a_device_class("dongle", resource=DONGLE, cel=['device.driver == "dongle.example.com"']),
    )
    scene = a_scene(*classes, dongles, nodes=nodes, pod=pod)
    assert scene.judge() == {"n1": "", "n2": ""}


# -- what -------------------------------------------------------------------------------------------------------------


def needs(name: str, many: int, *, sidecar: bool = False) -> Container:
    return a_container(name, requests={"a/first": "1", GPU: str(many)}, sidecar=sidecar)


CONTAINERS: Mapping[str, tuple[list[Container], list[Container], dict[str, int], list[tuple[str, str]]]] = {
    "each container asks for itself": (
        [],
        [needs("one", 1), needs("two", 2)],
        {"container-0-request-1": 1, "container-1-request-1": 2},
        [("one", "container-0-request-1"), ("two", "container-1-request-1")],
    ),
    "an init container uses what starts later": (
        [needs("init", 2)],
        [needs("one", 1), needs("two", 2)],
        {"container-1-request-1": 1, "container-2-request-1": 2},
        [
            ("one", "container-1-request-1"),
            ("two", "container-2-request-1"),
            ("init", "container-1-request-1"),
            ("init", "container-2-request-1"),
        ],
    ),
    "an init container that needs more asks for the rest": (
        [needs("init", 5)],
        [needs("one", 1)],
        {"container-0-request-1": 4, "container-1-request-1": 1},
        [
            ("one", "container-1-request-1"),
            ("init", "container-1-request-1"),
            ("init", "container-0-request-1"),
        ],
    ),
    "the neediest init container asks for all of them": (
        [needs("small", 3), needs("large", 4)],
        [needs("one", 1)],
        {"container-1-request-1": 3, "container-2-request-1": 1},
        [
            ("one", "container-2-request-1"),
            ("small", "container-2-request-1"),
            ("small", "container-1-request-1"),
            ("large", "container-2-request-1"),
            ("large", "container-1-request-1"),
        ],
    ),
    "a sidecar keeps what it has, and lends only to those before it": (
        [needs("before", 1), needs("side", 1, sidecar=True), needs("after", 1)],
        [a_container("main")],
        {"container-1-request-1": 1, "container-2-request-1": 1},
        [
            ("side", "container-1-request-1"),
            ("before", "container-1-request-1"),
            ("after", "container-2-request-1"),
        ],
    ),
}


@pytest.mark.parametrize(("init", "main", "counts", "mappings"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_requests_follow_from_the_containers(
    init: list[Container], main: list[Container], counts: dict[str, int], mappings: list[tuple[str, str]]
) -> None:
    pod = a_pod("web", init_containers=init, containers=main)
    special = special_of(pod, [GPU], {GPU: "gpu"})
    exact = {request.name: request.exactly for request in special.requests}
    assert list(exact) == sorted(exact)
    assert {name: each.count for name, each in exact.items() if each is not None} == counts
    assert {each.device_class_name for each in exact.values() if each is not None} == {"gpu"}
    expected = [ExtendedResourceRequest(container_name=c, resource_name=GPU, request_name=r) for c, r in mappings]
    assert list(special.mappings) == expected


# -- the claim --------------------------------------------------------------------------------------------------------


def created(scene: Scene) -> ResourceClaim:
    claim = next(thing for doing, thing in scene.done if doing == "create")
    assert isinstance(claim, ResourceClaim)
    return claim


async def test_the_claim_is_created_once_the_pod_has_its_node() -> None:
    scene = scene_of()
    assert scene.reserve() == SUCCESS
    assert scene.ahead() == SUCCESS
    assert await scene.pre_bind(lambda it: shows(created(it))(it)) == SUCCESS
    assert scene.doings() == ["create", "finalizers", "status", "pod"]
    claim, told = scene.claim(NAME), scene.done[-1][1]
    assert claim.metadata.annotations == {EXTENDED_RESOURCE_CLAIM: "true"}
    assert claim.metadata.finalizers == (FINALIZER,)
    [owner] = claim.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Pod", scene.pod.uid, True)
    assert claim.status.allocation is not None
    assert [result.device for result in claim.status.allocation.devices.results] == ["gpu-0"]
    assert [consumer.uid for consumer in claim.status.reserved_for] == [scene.pod.uid]
    mapping = ExtendedResourceRequest(container_name="main", resource_name=GPU, request_name="container-0-request-0")
    assert told == PodExtendedResourceClaimStatus(request_mappings=(mapping,), resource_claim_name=NAME)


async def test_its_devices_are_nobody_elses_from_the_promise_on() -> None:
    scene = scene_of(asking("2"))
    other = Scene(scene.cluster, pod=a_pod("other", requests={GPU: "1"}))
    other.plugin = scene.plugin
    scene.reserve()
    assert other.judge()["n1"] == "cannot allocate all claims"
    await scene.pre_bind(lambda it: shows(created(it))(it))
    assert other.judge()["n1"] == "cannot allocate all claims"
    scene.cluster.objects.remove(RESOURCE_CLAIM, NAME, "default")
    assert other.judge()["n1"] == ""


async def test_a_claim_that_is_never_shown_stops_the_binding() -> None:
    scene = scene_of()
    scene.reserve()
    assert await scene.pre_bind() == error(f"claim default/{NAME} was created, but is not shown")


async def test_a_claim_that_cannot_be_created_stops_the_binding() -> None:
    scene = scene_of(refuses="create")
    scene.reserve()
    assert await scene.pre_bind() == error("create claim for extended resources: refused")
    scene.unreserve()
    assert await scene.catch_up() == []


async def test_a_claim_that_was_created_goes_with_the_placement() -> None:
    scene = scene_of(refuses="pod")
    scene.reserve()
    why = f"update pod with extended resource claim default/{NAME}: refused"
    assert await scene.pre_bind(lambda it: shows(created(it))(it)) == error(why)
    scene.unreserve()
    assert [doing for doing, _ in await scene.catch_up()] == ["finalizers", "delete"]


def test_nothing_is_claimed_on_a_node_that_has_the_resource_itself() -> None:
    scene = scene_of(own="4")
    assert scene.reserve("n2") == SUCCESS
    assert scene.ahead("n2") == SKIP


async def test_a_claim_that_an_earlier_attempt_left_has_to_go_first() -> None:
    left = a_device_claim("left", owner=asking(), special=True, metadata={"finalizers": (FINALIZER, "other")})
    scene = scene_of(None, left)
    assert set(scene.judge().values()) == {LEFT_OVER}
    assert scene.post_filter() == ("deletion of ResourceClaim completed",)
    [(first, without), (second, deleted)] = await scene.catch_up()
    assert (first, without.metadata.finalizers) == ("finalizers", ("other",))
    assert (second, deleted.key) == ("delete", "default/left")


async def test_a_pod_can_have_claims_of_both_kinds() -> None:
    both = msgspec.structs.replace(
        asking(), spec=msgspec.structs.replace(asking().spec, resource_claims=a_pod_with("named").spec.resource_claims)
    )
    scene = scene_of(both, a_device_claim("named"))
    assert scene.judge() == {"n1": "", "n2": "cannot allocate all claims"}
    taken = an_allocation(a_result("gpu-0"))
    full = scene_of(both, a_device_claim("named"), a_device_claim("other", allocation=taken))
    assert full.judge()["n1"] == "cannot allocate all claims"
    scene.reserve()
    assert await scene.pre_bind(lambda it: shows(created(it))(it)) == SUCCESS
    results = [scene.claim(name).status.allocation for name in ("named", NAME)]
    assert [each.devices.results[0].device for each in results if each is not None] == ["gpu-0", "gpu-1"]
