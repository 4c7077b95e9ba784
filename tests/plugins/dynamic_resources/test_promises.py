"""What DynamicResources promises, writes and waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.builders import a_pod
from tests.devices import a_device_claim, a_pod_with, a_result, an_allocation
from tests.plugins.dynamic_resources.scene import NOW, Scene, a_scene, goes, shows
from tests.plugins.dynamic_resources.test_plugin import ARGS, prepared

from berth.api.dra import FINALIZER
from berth.framework.status import SKIP, SUCCESS, error

if TYPE_CHECKING:
    from berth.api.dra import ResourceClaim


def devices_of(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return [] if allocation is None else [result.device for result in allocation.devices.results]


def users_of(claim: ResourceClaim) -> list[str]:
    return [consumer.name for consumer in claim.status.reserved_for]


def second_pod(scene: Scene, pod: Any) -> Scene:
    """Another pod in the same cluster."""
    other = Scene(scene.cluster, pod=pod)
    other.plugin = scene.plugin
    return other


async def test_a_promise_is_written_with_its_finalizer_and_the_right_of_the_pod() -> None:
    scene = a_scene(a_device_claim())
    assert scene.reserve() == SUCCESS
    assert scene.ahead() == SUCCESS
    assert await scene.pre_bind() == SUCCESS
    [(first, marked), (second, written)] = scene.done
    assert (first, marked.metadata.finalizers, marked.status.allocation) == ("finalizers", (FINALIZER,), None)
    assert (second, devices_of(written), users_of(written)) == ("status", ["gpu-0"], ["web"])
    assert written.status.allocation is not None
    assert written.status.allocation.allocation_timestamp == NOW
    assert scene.claim() is written
    assert scene.cluster.device_claims.promised(written.metadata.uid) is None


async def test_no_time_is_noted_without_the_gate() -> None:
    scene = a_scene(a_device_claim(), minor="1.36", gates={"DRADeviceBindingConditions": False})
    scene.reserve()
    assert await scene.pre_bind() == SUCCESS
    allocation = scene.claim().status.allocation
    assert allocation is not None
    assert allocation.allocation_timestamp is None


async def test_what_is_promised_or_written_nobody_else_gets() -> None:
    scene = a_scene(a_device_claim("one"), a_device_claim("two"), a_device_claim("three"), pod=a_pod_with("one"))
    two, three = (second_pod(scene, a_pod_with(name, name=name)) for name in ("two", "three"))
    assert (scene.reserve(), two.reserve()) == (SUCCESS, SUCCESS)
    assert three.judge()["n1"] == "cannot allocate all claims"
    await scene.pre_bind()
    assert devices_of(scene.claim("one")) == ["gpu-0"]
    assert three.judge()["n1"] == "cannot allocate all claims"
    two.unreserve()
    assert three.judge()["n1"] == ""


async def test_a_claim_that_has_its_devices_only_gets_another_user() -> None:
    claim = a_device_claim(allocation=an_allocation(a_result("gpu-0"), timestamp=NOW), reserved_for=[a_pod("other")])
    scene = a_scene(claim)
    assert scene.reserve() == SUCCESS
    assert await scene.pre_bind() == SUCCESS
    assert scene.doings() == ["status"]
    assert users_of(scene.claim()) == ["other", "web"]


async def test_nothing_is_written_for_a_pod_that_may_use_its_claims_already() -> None:
    scene = a_scene(a_device_claim(allocation=an_allocation(a_result("gpu-0")), reserved_for=[a_pod("web")]))
    scene.reserve()
    assert await scene.pre_bind() == SUCCESS
    assert scene.done == []


async def test_a_claim_that_changed_meanwhile_is_written_to_as_it_is_now() -> None:
    scene = a_scene(a_device_claim(), conflicts=1)
    scene.reserve()
    scene.elsewhere = a_device_claim(metadata={"finalizers": (FINALIZER,), "labels": {"theirs": "1"}})
    assert await scene.pre_bind() == SUCCESS
    assert scene.doings() == ["finalizers", "status"]
    assert scene.done[-1][1].metadata.labels == {"theirs": "1"}


@pytest.mark.parametrize(
    ("elsewhere", "why"),
    [
        (
            a_device_claim(allocation=an_allocation(a_result("gpu-1"))),
            "claim default/claim got allocated elsewhere in the meantime",
        ),
        (
            a_device_claim(metadata={"deletion_timestamp": NOW}),
            "claim default/claim got deleted in the meantime",
        ),
        (a_device_claim(uid="another"), "claim default/claim got deleted in the meantime"),
    ],
    ids=["it has other devices", "it is going away", "it is another claim"],
)
async def test_a_promise_that_makes_no_sense_any_more_is_not_kept(elsewhere: ResourceClaim, why: str) -> None:
    scene = a_scene(a_device_claim(), conflicts=1, elsewhere=elsewhere)
    scene.reserve()
    assert await scene.pre_bind() == error(why)


async def test_a_claim_that_lost_its_devices_meanwhile_is_of_no_use() -> None:
    scene = a_scene(a_device_claim(allocation=an_allocation(a_result("gpu-0"))), conflicts=1)
    scene.reserve()
    scene.elsewhere = a_device_claim()
    assert await scene.pre_bind() == error("claim default/claim got deallocated elsewhere in the meantime")


async def test_a_claim_that_others_write_to_all_the_time_is_given_up_after_a_while() -> None:
    scene = a_scene(a_device_claim(), conflicts=100, elsewhere=a_device_claim(metadata={"finalizers": (FINALIZER,)}))
    scene.reserve()
    why = "add allocation and reservation to claim default/claim: the object has been modified"
    assert await scene.pre_bind() == error(why)
    assert scene.conflicts > 50


async def test_a_change_by_others_has_to_be_shown_before_anything_is_written_over_it() -> None:
    final = {"finalizers": (FINALIZER,)}
    scene = a_scene(a_device_claim(version="4", metadata=final), conflicts=1)
    scene.reserve()
    story = [shows(a_device_claim(version=version, metadata=final)) for version in ("4", "9")]
    assert await scene.pre_bind(*story) == SUCCESS
    assert scene.claim().metadata.resource_version == "10"
    gone = a_scene(a_device_claim(), conflicts=1)
    gone.reserve()
    assert await gone.pre_bind(goes("claim")) == error("claim default/claim got deleted in the meantime")


async def test_a_version_that_was_refused_and_is_the_latest_after_all_is_written_again() -> None:
    scene = a_scene(a_device_claim(), conflicts=1)
    scene.reserve()
    assert await scene.pre_bind() == SUCCESS
    assert scene.claim().status.allocation is not None


async def test_what_others_allocated_is_left_as_it_is() -> None:
    claim = a_device_claim(allocation=an_allocation(a_result("gpu-0")), reserved_for=[a_pod("other")])
    scene = a_scene(claim)
    scene.reserve()
    assert await scene.pre_bind() == SUCCESS
    assert scene.claim().status.allocation == claim.status.allocation


@pytest.mark.parametrize(
    ("refuses", "why"),
    [
        ("finalizers", "add finalizer to claim default/claim: refused"),
        ("status", "add allocation and reservation to claim default/claim: refused"),
    ],
)
async def test_what_is_refused_is_told(refuses: str, why: str) -> None:
    scene = a_scene(a_device_claim(), refuses=refuses)
    scene.reserve()
    assert await scene.pre_bind() == error(why)


async def test_a_right_that_is_refused_is_told() -> None:
    scene = a_scene(a_device_claim(allocation=an_allocation(a_result("gpu-0"))), refuses="status")
    scene.reserve()
    assert await scene.pre_bind() == error("add reservation to claim default/claim: refused")


async def test_nothing_is_written_where_nobody_writes() -> None:
    scene = a_scene(a_device_claim())
    scene.plugin._writer = None
    scene.reserve()
    assert await scene.pre_bind() == error("nobody writes claims here")


# -- taking back ------------------------------------------------------------------------------------------------------


async def test_a_promise_that_was_not_written_is_just_forgotten() -> None:
    scene = a_scene(a_device_claim())
    scene.reserve()
    scene.unreserve()
    scene.unreserve()
    assert await scene.catch_up() == []
    assert scene.judge()["n1"] == ""


async def test_a_right_that_was_written_is_taken_back() -> None:
    scene = a_scene(a_device_claim())
    scene.reserve()
    await scene.pre_bind()
    scene.unreserve()
    [(doing, claim)] = await scene.catch_up()
    assert (doing, claim.key) == ("release", "default/claim")
    assert devices_of(scene.claim()) == ["gpu-0"], "the claim keeps its devices until somebody wants them elsewhere"


async def test_of_two_claims_only_the_one_that_was_written_is_taken_back() -> None:
    scene = a_scene(a_device_claim("one"), a_device_claim("two"), pod=a_pod_with("one", "two"), refuses="status of two")
    scene.reserve()
    assert await scene.pre_bind() == error("add allocation and reservation to claim default/two: refused")
    scene.unreserve()
    [(doing, claim)] = await scene.catch_up()
    assert (doing, claim.key) == ("release", "default/one")
    assert scene.cluster.device_claims.promised(scene.claim("two").metadata.uid) is None


async def test_a_pod_that_was_not_promised_anything_has_nothing_to_give_back() -> None:
    scene = a_scene(a_device_claim())
    scene.unreserve()
    scene.pre_filter()
    scene.unreserve()
    assert await scene.catch_up() == []


def test_nothing_can_be_promised_on_a_node_that_was_not_judged() -> None:
    scene = a_scene(a_device_claim())
    scene.judge("n2")
    assert scene.plugin.reserve(scene.state, scene.info, "n2") == error("claim allocation not found for node")


# -- waiting until devices are ready ----------------------------------------------------------------------------------


def with_conditions(claim: ResourceClaim, *conditions: tuple[str, str]) -> ResourceClaim:
    """What the API server shows of a claim once the driver has told of its device."""
    told = prepared(*conditions)
    status = msgspec.structs.replace(claim.status, devices=told.status.devices)
    metadata = msgspec.structs.replace(claim.metadata, resource_version="20")
    return msgspec.structs.replace(claim, metadata=metadata, status=status)


def waiting_scene() -> Scene:
    """A claim whose device has to be made ready, and has been given to it before."""
    return a_scene(prepared(), args=ARGS)


async def test_the_pod_waits_until_its_devices_are_ready() -> None:
    scene = waiting_scene()
    scene.reserve()
    told = with_conditions(prepared(reserved_for=[scene.pod]), ("ready", "False"))
    ready = with_conditions(prepared(reserved_for=[scene.pod]), ("ready", "True"))
    ready = msgspec.structs.replace(ready, metadata=msgspec.structs.replace(ready.metadata, resource_version="21"))
    assert await scene.pre_bind(shows(told), shows(ready)) == SUCCESS
    assert scene.story == []
    note = "waiting for binding conditions for device on node n1"
    assert scene.done[-1] == ("event", ("BindingConditionsPending", "Scheduling", note))
    [wait] = scene.waits
    assert (wait.timeout_s, wait.woken) == (600, 2)


async def test_devices_that_cannot_be_made_ready_stop_the_binding() -> None:
    scene = waiting_scene()
    scene.reserve()
    broken = with_conditions(prepared(reserved_for=[scene.pod]), ("broken", "True"))
    assert await scene.pre_bind(shows(broken)) == error('device binding failed: claim=claim, reason=Why, message="so"')


async def test_devices_that_are_not_ready_in_time_stop_the_binding() -> None:
    scene = waiting_scene()
    scene.reserve()
    assert await scene.pre_bind() == error("device binding timeout: claim=default/claim")


async def test_a_claim_that_goes_while_it_is_waited_for_stops_the_binding() -> None:
    scene = waiting_scene()
    scene.reserve()
    assert await scene.pre_bind(goes("claim")) == error("claim default/claim got deleted in the meantime")


def test_a_pod_without_claims_has_nothing_to_wait_for() -> None:
    scene = a_scene(pod=a_pod("plain"))
    scene.pre_filter()
    assert scene.ahead() == SKIP
