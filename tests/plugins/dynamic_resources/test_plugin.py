"""DynamicResources: before any node is looked at, node by node, and when none fits."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.builders import a_node, a_pod, a_term
from tests.devices import (
    a_device_claim,
    a_device_class,
    a_pod_with,
    a_pod_with_template,
    a_result,
    a_slice,
    alternatives,
    an_allocation,
    an_exact,
)
from tests.plugins.dynamic_resources.scene import NOW, Scene, a_scene, shows

from berth.api.affinity import NodeSelector
from berth.api.dra import AllocatedDeviceStatus, DeviceRequest, ResourceClaimStatus
from berth.api.durations import Duration
from berth.api.meta import Condition
from berth.cluster.kinds import RESOURCE_SLICE
from berth.framework.plugin_args import DynamicResourcesArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.dra import ResourceClaim

NO_DEVICES = "cannot allocate all claims"
UNAVAILABLE = "resourceclaim not available on the node"
DEALLOCATED = "deallocation of ResourceClaim completed"
ARGS = DynamicResourcesArgs(filter_timeout=Duration.of_seconds(10), binding_timeout=Duration.of_seconds(600))


def on(*nodes: str) -> NodeSelector:
    return NodeSelector(node_selector_terms=tuple(a_term(fields=[("metadata.name", "In", [n])]) for n in nodes))


def given(device: str = "gpu-0", *nodes: str, name: str = "claim", **fields: Any) -> ResourceClaim:
    """A claim that has a device of the pool, to be used on these nodes."""
    allocation = an_allocation(a_result(device), node_selector=on(*nodes) if nodes else None)
    return a_device_claim(name, allocation=allocation, **fields)


# -- before any node is looked at -------------------------------------------------------------------------------------

EMPTY_CLASS = a_device_claim("claim", an_exact("", name="r"))
WAITING: Mapping[str, tuple[tuple[DeviceRequest, ...], Status]] = {
    "a class that does not exist": (
        (an_exact("npu", name="r"),),
        unresolvable("request r: device class npu does not exist"),
    ),
    "the second alternative has no class": (
        (alternatives("gpu", "npu", name="r"),),
        unresolvable("request r/sub1: device class npu does not exist"),
    ),
    "a request of an unheard-of kind": (
        (DeviceRequest(name="r"),),
        unresolvable("resource claim default/claim, request r: unknown request type"),
    ),
    "all is well": ((an_exact(), alternatives("gpu", name="other")), SUCCESS),
}


@pytest.mark.parametrize(("requests", "want"), WAITING.values(), ids=WAITING.keys())
def test_what_a_claim_asks_for_is_checked(requests: tuple[DeviceRequest, ...], want: Status) -> None:
    assert a_scene(a_device_claim("claim", *requests)).pre_filter() == want


def test_a_request_without_a_class_is_an_error() -> None:
    with pytest.raises(PluginError, match="request r: unsupported request type"):
        a_scene(EMPTY_CLASS).pre_filter()


def test_alternatives_are_refused_without_their_gate() -> None:
    claim = a_device_claim("claim", alternatives("gpu", name="r"))
    scene = a_scene(claim, minor="1.36", gates={"DRAPrioritizedList": False})
    reason = "resource claim default/claim, request r: has subrequests, but the DRAPrioritizedList feature is disabled"
    assert scene.pre_filter() == unresolvable(reason)


def test_a_pod_without_claims_is_passed_over() -> None:
    scene = a_scene(pod=a_pod("plain"))
    assert scene.pre_filter() == SKIP
    assert scene.plugin.pre_enqueue(scene.info) == SUCCESS
    assert scene.plugin.sign(scene.info) is not None
    assert scene.scores() == {"n1": 0, "n2": 0}
    assert scene.plugin.reserve(scene.state, scene.info, "n1") == SUCCESS
    assert scene.ahead() == SKIP
    assert scene.post_filter() == ()
    scene.unreserve()
    assert not scene.pending


def test_a_pod_whose_claims_turned_out_not_to_be_needed_is_passed_over() -> None:
    scene = a_scene(pod=a_pod_with_template(None))
    assert scene.pre_filter() == SKIP
    assert scene.ahead() == SKIP


def test_a_pod_with_claims_is_like_no_other() -> None:
    scene = a_scene(a_device_claim())
    assert scene.plugin.sign(scene.info) is None


def test_a_pod_is_held_back_until_its_claims_are_there() -> None:
    scene = a_scene()
    missing = unresolvable('could not find ResourceClaim "default/claim"')
    assert scene.plugin.pre_enqueue(scene.info) == missing
    assert scene.pre_filter() == missing
    shows(a_device_claim())(scene)
    assert scene.plugin.pre_enqueue(scene.info) == SUCCESS


def test_a_claim_that_gets_its_devices_right_now_has_to_be_waited_for() -> None:
    scene = a_scene(a_device_claim())
    assert scene.reserve() == SUCCESS
    other = a_scene()
    other.cluster, other.plugin = scene.cluster, scene.plugin
    assert other.pre_filter() == unresolvable("resource claim default/claim is in the process of being allocated")


def test_nodes_that_are_selected_without_sense_are_an_error() -> None:
    selector = NodeSelector(node_selector_terms=(a_term(("zone", "Near", ["a"])),))
    claim = a_device_claim(allocation=an_allocation(a_result("gpu-0"), node_selector=selector))
    with pytest.raises(PluginError, match="Near"):
        a_scene(claim).pre_filter()


# -- node by node -----------------------------------------------------------------------------------------------------


def test_a_pod_goes_where_the_devices_are() -> None:
    assert a_scene(a_device_claim()).judge() == {"n1": "", "n2": NO_DEVICES}


def test_devices_that_others_have_cannot_be_had() -> None:
    both = an_allocation(a_result("gpu-0"), a_result("gpu-1"))
    scene = a_scene(a_device_claim(), a_device_claim("other", allocation=both))
    assert scene.judge() == {"n1": NO_DEVICES, "n2": NO_DEVICES}


def test_devices_are_found_for_all_claims_together() -> None:
    claims = a_device_claim("one"), a_device_claim("two"), a_device_claim("three")
    assert a_scene(*claims, pod=a_pod_with("one", "two")).judge()["n1"] == ""
    assert a_scene(*claims, pod=a_pod_with("one", "two", "three")).judge()["n1"] == NO_DEVICES


def test_a_claim_that_has_its_device_goes_where_it_can_be_used() -> None:
    assert a_scene(given("gpu-0", "n2")).judge() == {"n1": UNAVAILABLE, "n2": ""}
    assert a_scene(given()).judge() == {"n1": "", "n2": ""}


def test_that_devices_are_missing_is_told_before_that_others_are_out_of_reach() -> None:
    scene = a_scene(given("gpu-0", "n3", name="has"), a_device_claim("wants"), pod=a_pod_with("has", "wants"))
    assert scene.judge() == {"n1": UNAVAILABLE, "n2": NO_DEVICES}


def test_rules_beside_devices_are_judged_for_many_nodes_as_for_one() -> None:
    nodes = tuple(a_node(f"n{i}") for i in range(1, 21))
    scene = a_scene(given("gpu-0", "n2", "n7"), nodes=nodes)
    assert [name for name, reason in scene.judge().items() if not reason] == ["n2", "n7"]


def test_an_expression_that_fails_is_an_error() -> None:
    claim = a_device_claim("claim", an_exact(cel=['device.attributes["x"].y == 1']))
    with pytest.raises(PluginError, match="claim default/claim: selector #0"):
        a_scene(claim).judge()


def test_a_search_that_takes_too_long_is_an_error_that_names_the_node() -> None:
    devices = a_slice("many", *(f"d{i}" for i in range(24)), on="n2", pool="many")
    claim = a_device_claim("claim", an_exact(count=6), an_exact(name="more", count=19))
    scene = a_scene(devices, claim, args=ARGS, stopwatch=itertools.count().__next__)
    with pytest.raises(PluginError, match="node n2: timed out trying to allocate devices"):
        scene.judge()


def test_a_search_may_take_as_long_as_it_likes_if_it_is_not_limited() -> None:
    devices = a_slice("many", *(f"d{i}" for i in range(9)), on="n2", pool="many")
    claim = a_device_claim("claim", an_exact(count=4), an_exact(name="more", count=6))
    forever = msgspec.structs.replace(ARGS, filter_timeout=Duration.of_seconds(0))
    scene = a_scene(devices, claim, args=forever, stopwatch=itertools.count(step=100).__next__)
    assert set(scene.judge().values()) == {NO_DEVICES}


# -- devices that have to be made ready -------------------------------------------------------------------------------

LONG_AGO = "2026-06-30T23:00:00Z"


def prepared(*conditions: tuple[str, str], since: str = NOW, name: str = "claim", **fields: Any) -> ResourceClaim:
    """A claim with a device that has to be made ready, and these conditions of it."""
    result = a_result("gpu-0", binding_conditions=("ready",), binding_failure_conditions=("broken",))
    told = tuple(Condition(type=each, status=status, reason="Why", message="so") for each, status in conditions)
    status = AllocatedDeviceStatus(driver=result.driver, pool=result.pool, device="gpu-0", conditions=told)
    allocation = an_allocation(result, timestamp=since)
    return a_device_claim(name, allocation=allocation, status={"devices": (status,) if told else ()}, **fields)


READINESS: Mapping[str, tuple[ResourceClaim, str]] = {
    "ready": (prepared(("ready", "True"), since=LONG_AGO), ""),
    "nothing was told yet": (prepared(), ""),
    "not ready yet": (prepared(("ready", "False")), ""),
    "too late": (prepared(("ready", "False"), since=LONG_AGO), UNAVAILABLE),
    "nothing was told in time": (prepared(since=LONG_AGO), UNAVAILABLE),
    "failed": (prepared(("ready", "True"), ("broken", "True")), UNAVAILABLE),
    "not broken": (prepared(("ready", "True"), ("broken", "False")), ""),
}


@pytest.mark.parametrize(("claim", "want"), READINESS.values(), ids=READINESS.keys())
def test_devices_have_to_become_ready_in_time(claim: ResourceClaim, want: str) -> None:
    assert set(a_scene(claim, args=ARGS).judge().values()) == {want}


def test_readiness_does_not_matter_without_its_gate() -> None:
    scene = a_scene(prepared(("broken", "True")), minor="1.36", gates={"DRADeviceBindingConditions": False})
    assert scene.judge() == {"n1": "", "n2": ""}


# -- scores -----------------------------------------------------------------------------------------------------------


def ranked(*claims: ResourceClaim, pod: Any = None, **fields: Any) -> Scene:
    """Nodes with a fast device, a slow one, and both kinds."""
    slices = (
        a_slice("s2", "slow-2", on="n2", pool="p2", driver="slow.example.com"),
        a_slice("s3", "fast-3", on="n3", pool="p3", driver="fast.example.com"),
    )
    classes = [a_device_class(kind, cel=[f'device.driver == "{kind}.example.com"']) for kind in ("fast", "slow", "any")]
    nodes = tuple(a_node(name) for name in ("n1", "n2", "n3"))
    return a_scene(*slices, *classes, *claims, nodes=nodes, pod=pod or a_pod_with("claim"), **fields)


def test_earlier_alternatives_score_higher() -> None:
    scene = ranked(a_device_claim("claim", alternatives("fast", "slow", "gpu")))
    assert scene.judge() == {"n1": "", "n2": "", "n3": ""}
    assert scene.scores() == {"n1": 75, "n2": 87, "n3": 100}


def test_scores_follow_the_devices_that_are_left() -> None:
    scene = ranked(a_device_claim("claim", alternatives("fast", "slow", "gpu")))
    spare = a_slice("s4", "slow-3", on="n3", pool="p4", driver="slow.example.com")
    scene.cluster.objects.put(RESOURCE_SLICE, spare)
    scene.judge()
    assert scene.scores() == {"n1": 75, "n2": 87, "n3": 100}
    taken = msgspec.structs.replace(a_result("fast-3", pool="p3"), driver="fast.example.com")
    shows(a_device_claim("other", allocation=an_allocation(taken)))(scene)
    scene.judge()
    assert scene.scores() == {"n1": 6 * 100 // 7, "n2": 100, "n3": 100}
    shows(a_device_claim("other"))(scene)
    scene.judge()
    assert scene.scores() == {"n1": 75, "n2": 87, "n3": 100}


def test_what_a_claim_has_already_counts_like_what_another_gets() -> None:
    has = a_device_claim(
        "has", alternatives("fast", "gpu"), allocation=an_allocation(a_result("gpu-0", request="req/sub1"))
    )
    wants = a_device_claim("wants", alternatives("fast", "slow"))
    scene = ranked(has, wants, pod=a_pod_with("has", "wants"))
    assert scene.judge() == {"n1": NO_DEVICES, "n2": "", "n3": ""}
    assert scene.scores()["n2"] == 14 * 100 // 15


def test_claims_that_have_all_they_need_score_nothing() -> None:
    claim = given("gpu-0")
    scene = ranked(msgspec.structs.replace(claim, spec=a_device_claim("c", alternatives("fast")).spec))
    scene.judge()
    assert scene.scores() == {"n1": 0, "n2": 0, "n3": 0}


# -- when no node fits ------------------------------------------------------------------------------------------------


async def test_devices_that_no_node_can_use_are_given_up() -> None:
    scene = a_scene(given("gpu-0", "n9", reserved_for=[a_pod("web")]))
    assert set(scene.judge().values()) == {UNAVAILABLE}
    assert scene.post_filter() == (DEALLOCATED,)
    [(doing, claim)] = await scene.catch_up()
    assert (doing, claim.status) == ("status", ResourceClaimStatus())


def test_devices_that_another_pod_may_use_are_kept() -> None:
    scene = a_scene(given("gpu-0", "n9", reserved_for=[a_pod("web"), a_pod("other")]))
    scene.judge()
    assert scene.post_filter() == ()
    assert not scene.pending


def test_devices_are_kept_where_something_else_is_missing_everywhere() -> None:
    scene = a_scene(given("gpu-0", "n9", name="has"), a_device_claim("wants", an_exact(count=3)))
    scene.pod = a_pod_with("has", "wants")
    assert set(scene.judge().values()) == {NO_DEVICES}
    assert scene.post_filter() == ()


@pytest.mark.parametrize(
    ("pod", "want"),
    [(a_pod("plain"), "no new claims to deallocate"), (a_pod_with("claim"), "still not schedulable")],
    ids=["no claims", "claims"],
)
def test_1_36_says_that_nothing_was_given_up(pod: Any, want: str) -> None:
    scene = a_scene(a_device_claim(), minor="1.36", pod=pod)
    scene.pre_filter()
    assert scene.post_filter() == (want,)


def test_nothing_is_given_up_for_a_pod_whose_claims_make_no_sense() -> None:
    left = a_device_claim("left", owner=a_pod("web"), special=True)
    scene = a_scene(a_device_claim("claim", an_exact("npu", name="r")), left, minor="1.36")
    assert scene.pre_filter() == unresolvable("request r: device class npu does not exist")
    assert scene.post_filter() == ("no new claims to deallocate",)


def test_giving_up_takes_what_was_worked_out_before() -> None:
    with pytest.raises(PluginError, match=r"^not found$"):
        a_scene(a_device_claim()).post_filter()
