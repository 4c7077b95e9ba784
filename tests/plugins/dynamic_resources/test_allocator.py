"""What claims are given on a node, and what is said where no decision is possible.

That the first solution is found is for `test_against_allocator_twin`; here are the limits, the ways of older versions,
the errors, and what is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.builders import a_cluster, a_handle, a_node, a_term
from tests.devices import (
    DRIVER,
    a_device_claim,
    a_device_class,
    a_result,
    a_slice,
    alternatives,
    an_allocation,
    an_exact,
)
from tests.storage import with_objects

from berth.api.affinity import NodeSelector
from berth.api.dra import (
    ALL,
    CapacityRange,
    CapacityRequestPolicy,
    CapacityRequirements,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaimConfiguration,
    DeviceClassConfiguration,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    OpaqueDeviceConfiguration,
)
from berth.api.node import Taint
from berth.api.pod import Toleration
from berth.cluster.kinds import DEVICE_CLASS, RESOURCE_SLICE
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.allocator import Allocator
from berth.plugins.dynamic_resources.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.rules import AllocatorRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.api.dra import AllocationResult, ResourceClaim
    from berth.api.node import Node

NODE = a_node("n1", labels={"zone": "a"})


@dataclass
class Scene:
    """An allocator and all that it looks at."""

    objects: Sequence[Any]
    held: Sequence[ResourceClaim] = ()
    minor: str = "1.37"
    gates: dict[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        handle = a_handle(with_objects(a_cluster(), *self.objects), minor=self.minor, gates=self.gates)
        self.store = handle.cluster.objects
        rules = AllocatorRules.of(handle.gates, handle.behaviours)
        self.allocated = AllocatedState.of(self.held)
        self.allocator = Allocator(rules, Inventory(self.store, rules), self.allocated, self.store)

    def give(self, *claims: ResourceClaim, node: Node = NODE, expired: Any = None) -> tuple[AllocationResult, ...]:
        return self.allocator.allocate(node, self.allocator.demand(claims), expired)

    def devices(self, *claims: ResourceClaim, node: Node = NODE) -> list[list[str]]:
        """The names of the devices of each claim, after the requests that they are for."""
        given = self.give(*claims, node=node)
        return [[f"{each.request}:{each.device}" for each in one.devices.results] for one in given]


def gpus(*devices: Device | str, **spec: Any) -> Any:
    return a_slice("slice", *devices, on="n1", **spec)


def many(count: int, **spec: Any) -> Any:
    return gpus(*(f"gpu-{number:02}" for number in range(count)), **spec)


def a_claim(*requests: DeviceRequest, constraints: Sequence[DeviceConstraint] = (), **fields: Any) -> ResourceClaim:
    claim = a_device_claim(fields.pop("name", "claim"), *requests, **fields)
    devices = msgspec.structs.replace(claim.spec.devices, constraints=tuple(constraints))
    return msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))


def way(name: str, *, count: int = 1, device_class: str = "gpu", **fields: Any) -> DeviceSubRequest:
    mode = fields.pop("allocation_mode", "ExactCount")
    return DeviceSubRequest(name=name, device_class_name=device_class, allocation_mode=mode, count=count, **fields)


GPU = a_device_class("gpu")


# -- limits -----------------------------------------------------------------------------------------------------------


def test_a_claim_can_have_thirty_two_devices() -> None:
    assert len(Scene([GPU, many(40)]).devices(a_claim(an_exact(count=32)))[0]) == 32


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        ("1.36", "claim default/claim: number of requested devices 33 exceeds the claim limit of 32"),
        ("1.37", "claim default/claim, request b: adding 3 devices exceeds the claim limit of 32, with 30 already"),
    ],
)
def test_a_claim_that_asks_for_more_is_refused_anywhere(minor: str, text: str) -> None:
    claim = a_claim(an_exact(name="a", count=30), an_exact(name="b", count=3))
    with pytest.raises(AllocationError, match=text):
        Scene([GPU], minor=minor).give(claim)


def test_alternatives_that_would_be_too_many_are_passed_over() -> None:
    claim = a_claim(
        an_exact(name="a", count=30), DeviceRequest(name="b", first_available=(way("x", count=3), way("y")))
    )
    given = Scene([GPU, many(40)]).devices(claim)[0]
    assert given[-1] == "b/y:gpu-30"
    assert len(given) == 31


def test_an_earlier_alternative_gives_way_where_the_claim_would_get_too_many() -> None:
    first = DeviceRequest(name="a", first_available=(way("x", count=31), way("y", count=30)))
    given = Scene([GPU, many(40)]).devices(a_claim(first, an_exact(name="b", count=2)))[0]
    assert given[0].startswith("a/y:")
    assert len(given) == 32


def test_too_many_devices_for_one_claim_are_no_reason_to_give_up_on_the_one_before() -> None:
    crowded = DeviceRequest(name="b", first_available=(way("x", count=30, allocation_mode=ALL), way("y")))
    one = a_claim(an_exact(name="a"), name="one")
    other = a_claim(an_exact(name="a", count=31), crowded, name="other")
    given = Scene([GPU, many(40)]).devices(one, other)
    assert [len(each) for each in given] == [1, 32]


def test_claims_can_ask_for_more_devices_than_calls_can_nest() -> None:
    pools = [a_slice(f"s{n}", *(f"gpu-{d}" for d in range(100)), on="n1", pool=f"p{n}") for n in range(12)]
    claims = [a_claim(an_exact(count=32), name=f"c{number}") for number in range(36)]
    assert sum(len(each) for each in Scene([GPU, *pools]).devices(*claims)) == 36 * 32


def test_a_search_that_takes_too_long_is_given_up() -> None:
    claims = [a_claim(an_exact(count=10), an_exact(count=10, name="b", cel=["false"]))]
    asked: list[int] = []

    def expired() -> bool:
        asked.append(1)
        return len(asked) == 3

    with pytest.raises(AllocationTimeoutError, match=r"^node n1: timed out trying to allocate devices$"):
        Scene([GPU, many(20)]).give(*claims, expired=expired)


# -- ways of older versions -------------------------------------------------------------------------------------------


def model(name: str, value: str, **fields: Any) -> Device:
    return Device(name=name, attributes={"model": DeviceAttribute(string_value=value)}, **fields)


def distinct(*requests: str) -> DeviceConstraint:
    return DeviceConstraint(requests=requests, distinct_attribute=f"{DRIVER}/model")


@pytest.mark.parametrize(("minor", "given"), [("1.36", ["a", "b", "c"]), ("1.37", ["a", "b", "d"])])
def test_of_a_request_only_the_last_device_had_to_be_distinct(minor: str, given: list[str]) -> None:
    devices = (model("a", "x"), model("b", "y"), model("c", "x"), model("d", "z"))
    scene = Scene([GPU, gpus(*devices)], minor=minor)
    assert scene.devices(a_claim(an_exact(count=3), constraints=[distinct()])) == [[f"req:{name}" for name in given]]


def parts(*devices: Device) -> list[Any]:
    counters = CounterSet(name="set", counters={"memory": Counter(value="2")})
    slices = [
        a_slice("a-counters", on="n1", shared_counters=(counters,), pool="parts"),
        a_slice("b-devices", *devices, on="n1", pool="parts"),
    ]
    return [_in_pool_of_two(each) for each in slices]


def _in_pool_of_two(each: Any) -> Any:
    pool = msgspec.structs.replace(each.spec.pool, resource_slice_count=2)
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, pool=pool))


def draws(amount: int) -> dict[str, Any]:
    counters = {"memory": Counter(value=str(amount))}
    return {"consumes_counters": (DeviceCounterConsumption(counter_set="set", counters=counters),)}


@pytest.mark.parametrize(("minor", "given"), [("1.36", []), ("1.37", [["req:b"]])])
def test_counters_were_kept_by_devices_that_were_refused_for_their_taints(minor: str, given: list[list[str]]) -> None:
    tainted = Device(name="a", taints=(Taint(key="broken", effect="NoSchedule"),), **draws(2))
    assert Scene([GPU, *parts(tainted, Device(name="b", **draws(1)))], minor=minor).devices(a_claim()) == given


def test_counters_suffice_for_as_many_parts_as_they_say() -> None:
    devices = [Device(name=name, **draws(amount)) for name, amount in (("whole", 2), ("half-1", 1), ("half-2", 1))]
    scene = Scene([GPU, *parts(*devices)])
    assert scene.devices(a_claim(an_exact(count=2))) == [["req:half-1", "req:half-2"]]
    assert scene.devices(a_claim(an_exact(count=3))) == []
    scene.allocated.add(a_claim(allocation=an_allocation(a_result("half-1", pool="parts"))))
    assert scene.devices(a_claim()) == [["req:half-2"]]


# -- errors -----------------------------------------------------------------------------------------------------------

MANY_TERMS = NodeSelector(node_selector_terms=(a_term(("zone", "In", "a")), a_term(("zone", "In", "b"))))
BAD = NodeSelector(node_selector_terms=(a_term(("zone", "Near", "a")),))
ERRORS: dict[str, tuple[Sequence[Any], DeviceRequest, str]] = {
    "a class that is not there": (
        [],
        an_exact("none"),
        (
            "claim default/claim, request req: could not retrieve device class none: "
            'deviceclass.resource.k8s.io "none" not found'
        ),
    ),
    "no class": ([], an_exact(""), r"claim default/claim, request req: missing device class name \(unsupported"),
    "no request": ([], DeviceRequest(name="req"), "claim default/claim, request req: unknown request type"),
    "an unknown mode": ([], an_exact(allocation_mode="Some"), "request req: unsupported count mode Some"),
    "a selector of an unknown kind": (
        [],
        DeviceRequest(name="req", first_available=(way("x", selectors=(DeviceSelector(),)),)),
        "claim default/claim, request x, selector #0: CEL expression empty",
    ),
    "a selector that fails": (
        [gpus("gpu-0")],
        an_exact(cel=["true", f'device.attributes["{DRIVER}"].x == 1']),
        "claim default/claim: selector #1 on device gpu.example.com/pool/gpu-0: CEL runtime error: no such key: x",
    ),
    "a selector that is faulty": (
        [gpus("gpu-0")],
        an_exact(cel=["1 +"]),
        "^claim default/claim: selector #0: CEL compile error: compilation failed",
    ),
    "a class whose selector fails": (
        [gpus("gpu-0"), a_device_class("bad", cel=['device.attributes["x"].y'])],
        an_exact("bad"),
        "class bad: selector #0 on device gpu.example.com/pool/gpu-0: CEL runtime error: no such key: y",
    ),
    "all devices of a pool that is being updated": (
        [_in_pool_of_two(gpus("gpu-0"))],
        an_exact(allocation_mode=ALL),
        (
            "claim default/claim, request req: asks for all devices, "
            "but resource pool gpu.example.com/pool is currently being updated"
        ),
    ),
    "all devices of a pool that contradicts itself": (
        [gpus("gpu-0", "gpu-0")],
        an_exact(allocation_mode=ALL),
        "asks for all devices, but resource pool gpu.example.com/pool is currently invalid",
    ),
    "a slice with a node selector that cannot be parsed": (
        [a_slice("slice", "gpu-0", node_selector=BAD)],
        an_exact(),
        "gather pool information: failed to perform node selection for slice slice: failed to parse node selector: ",
    ),
    "a device with a node selector that cannot be parsed": (
        [a_slice("slice", Device(name="gpu-0", node_selector=BAD), per_device_node_selection=True)],
        an_exact(),
        "failed to perform node selection for device gpu-0 in slice slice: failed to parse node selector: ",
    ),
    "a slice with several terms": (
        [a_slice("slice", "gpu-0", node_selector=MANY_TERMS)],
        an_exact(),
        "create NodeSelector for claim claim: unsupported ResourceSlice.NodeSelector with 2 terms",
    ),
    "a capacity that is no quantity": (
        [gpus(Device(name="gpu-0", capacity={"memory": DeviceCapacity(value="much")}))],
        an_exact(),
        "device gpu.example.com/pool/gpu-0: capacity memory: want a quantity",
    ),
}


@pytest.mark.parametrize(("objects", "request_", "text"), ERRORS.values(), ids=ERRORS)
def test_no_decision_is_possible_over(objects: Sequence[Any], request_: DeviceRequest, text: str) -> None:
    scene = Scene([GPU, *objects])
    for _ in range(2):
        with pytest.raises(AllocationError, match=text) as caught:
            scene.give(a_claim(request_))
        assert not isinstance(caught.value, NodeAllocationError)


def test_all_devices_and_a_constraint_that_they_break() -> None:
    scene = Scene([GPU, gpus(model("a", "x"), model("b", "y"))])
    claim = a_claim(an_exact(allocation_mode=ALL), constraints=[DeviceConstraint(match_attribute=f"{DRIVER}/model")])
    with pytest.raises(
        AllocationError, match=r"cannot add device gpu.example.com/pool/b because a claim constraint would"
    ):
        scene.give(claim)
    with pytest.raises(AllocationError, match="claim default/claim, constraint #0: empty constraint"):
        scene.give(a_claim(constraints=[DeviceConstraint()]))


def test_the_error_of_older_versions_does_not_name_the_device() -> None:
    claim = a_claim(an_exact(cel=[f'device.attributes["{DRIVER}"].x == 1']))
    with pytest.raises(AllocationError, match=r"^claim default/claim: selector #0: CEL runtime error: no such key: x$"):
        Scene([GPU, gpus("gpu-0")], minor="1.36").give(claim)


def test_a_selector_that_would_fail_for_a_device_in_use_is_not_asked() -> None:
    claim = a_claim(an_exact(cel=[f'device.attributes["{DRIVER}"].x == 1']))
    held = a_claim(allocation=an_allocation(a_result("gpu-0")))
    assert Scene([GPU, gpus("gpu-0")], held=[held]).give(claim) == ()


def test_a_pool_that_contradicts_itself_is_the_fault_of_the_node_alone() -> None:
    scene = Scene([GPU, gpus("gpu-0", "gpu-0"), a_slice("fine", "gpu-0", on="n2", pool="other")])
    with pytest.raises(NodeAllocationError, match=r"^invalid resource pools were encountered$"):
        scene.give(a_claim())
    assert scene.devices(a_claim(), node=a_node("n2")) == [["req:gpu-0"]]


FEATURES: dict[str, tuple[str, DeviceRequest, str]] = {
    "alternatives": (
        "DRAPrioritizedList",
        alternatives("gpu"),
        "claim default/claim, request req: has subrequests, but the DRAPrioritizedList feature is disabled",
    ),
    "capacities": (
        "DRAConsumableCapacity",
        an_exact(capacity=CapacityRequirements(requests={"memory": "1"})),
        "claim default/claim, request req: has capacity requests, but the DRAConsumableCapacity feature is disabled",
    ),
    "capacities of alternatives": (
        "DRAConsumableCapacity",
        DeviceRequest(name="req", first_available=(way("x", capacity=CapacityRequirements()),)),
        "claim default/claim, subrequest x: has capacity requests, but the DRAConsumableCapacity feature is disabled",
    ),
    "devices of others": (
        "DRAAdminAccess",
        an_exact(admin_access=True),
        "claim default/claim, request req: admin access is requested, but the feature is disabled",
    ),
}


@pytest.mark.parametrize(("gate", "request_", "text"), FEATURES.values(), ids=FEATURES)
def test_what_is_switched_off_cannot_be_asked_for(gate: str, request_: DeviceRequest, text: str) -> None:
    with pytest.raises(AllocationError, match=text):
        Scene([GPU, gpus("gpu-0")], gates={gate: False}).give(a_claim(request_))


SWITCHED_OFF: dict[str, tuple[str, Sequence[Any], bool]] = {
    "taints": ("DRADeviceTaints", [gpus(Device(name="a", taints=(Taint(key="x", effect="NoExecute"),)))], True),
    "devices to be prepared": (
        "DRADeviceBindingConditions",
        [gpus(Device(name="a", binding_conditions=("ready",)))],
        False,
    ),
    "devices that draw on counters": ("DRAPartitionableDevices", parts(Device(name="a", **draws(1))), False),
    "devices that choose their nodes": (
        "DRAPartitionableDevices",
        [a_slice("slice", Device(name="a", all_nodes=True), per_device_node_selection=True)],
        False,
    ),
}


@pytest.mark.parametrize(("gate", "objects", "is_given"), SWITCHED_OFF.values(), ids=SWITCHED_OFF)
def test_a_gate_decides_about(gate: str, objects: Sequence[Any], is_given: bool) -> None:
    assert bool(Scene([GPU, *objects]).give(a_claim())) is not is_given
    assert bool(Scene([GPU, *objects], gates={gate: False}).give(a_claim())) is is_given


# -- what is written --------------------------------------------------------------------------------------------------


def test_a_device_of_a_node_ties_the_claim_to_it() -> None:
    (given,) = Scene([GPU, gpus("gpu-0")]).give(a_claim())
    assert msgspec.json.decode(msgspec.json.encode(given)) == {
        "devices": {"results": [{"request": "req", "driver": DRIVER, "pool": "pool", "device": "gpu-0"}]},
        "nodeSelector": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        },
    }


def test_a_device_of_all_nodes_ties_the_claim_to_none_unless_it_binds() -> None:
    (given,) = Scene([GPU, a_slice("slice", "gpu-0", all_nodes=True)]).give(a_claim())
    assert given.node_selector is None
    (given,) = Scene([GPU, a_slice("slice", Device(name="gpu-0", binds_to_node=True), all_nodes=True)]).give(a_claim())
    assert given.node_selector is not None
    assert given.node_selector.node_selector_terms[0].match_fields[0].values == ("n1",)


def test_the_nodes_of_devices_are_put_together() -> None:
    zone, arch = ("zone", "In", "a"), ("arch", "In", ("arm64",))
    selectors = [NodeSelector(node_selector_terms=(a_term(*each),)) for each in ((zone,), (zone, arch))]
    slices = [a_slice(f"s{n}", "gpu-0", pool=f"p{n}", node_selector=each) for n, each in enumerate(selectors)]
    node = a_node("n1", labels={"zone": "a", "arch": "arm64"})
    (given,) = Scene([GPU, *slices]).give(a_claim(an_exact(count=2)), node=node)
    assert given.node_selector == selectors[1]


def test_a_shared_device_is_given_by_the_amount_under_a_name_of_its_own() -> None:
    policy = CapacityRequestPolicy(default="1Gi", valid_range=CapacityRange(min="1Gi", step="1Gi"))
    capacity = {"memory": DeviceCapacity(value="4Gi", request_policy=policy)}
    scene = Scene([GPU, gpus(Device(name="gpu-0", allow_multiple_allocations=True, capacity=capacity))])
    wanted = CapacityRequirements(requests={"memory": "1500Mi"})
    claims = [a_claim(an_exact(capacity=wanted), name=name) for name in ("one", "other")]
    given = [each.devices.results[0] for each in scene.give(*claims)]
    assert [each.consumed_capacity for each in given] == [{"memory": "2Gi"}] * 2
    assert given[0].share_id != given[1].share_id
    assert scene.give(*claims)[0].devices.results[0].share_id == given[0].share_id
    scene.allocated.add(a_claim(allocation=an_allocation(given[0])))
    assert scene.devices(a_claim(an_exact(capacity=wanted))) == [["req:gpu-0"]]
    assert scene.devices(*claims) == []


def test_what_a_request_puts_up_with_and_what_a_device_needs_is_noted() -> None:
    device = Device(
        name="gpu-0",
        binding_conditions=("ready",),
        binding_failure_conditions=("failed",),
        taints=(Taint(key="x", effect="NoSchedule"),),
    )
    tolerated = (Toleration(key="x", operator="Exists"),)
    held = a_claim(allocation=an_allocation(a_result("gpu-0")))
    scene = Scene([GPU, gpus(device)], held=[held])
    (given,) = scene.give(a_claim(an_exact(tolerations=tolerated, admin_access=True)))
    result = given.devices.results[0]
    assert (result.tolerations, result.admin_access) == (tolerated, True)
    assert (result.binding_conditions, result.binding_failure_conditions) == (("ready",), ("failed",))
    assert scene.give(a_claim(an_exact(tolerations=tolerated))) == ()


def opaque(text: str) -> OpaqueDeviceConfiguration:
    return OpaqueDeviceConfiguration(driver=DRIVER, parameters={"kind": text})


def test_parameters_of_classes_come_before_those_of_the_claim_and_each_class_once() -> None:
    configured = msgspec.structs.replace(
        GPU, spec=msgspec.structs.replace(GPU.spec, config=(DeviceClassConfiguration(opaque=opaque("class")),))
    )
    claim = a_claim(an_exact(name="a"), alternatives("gpu", "plain", name="b"), an_exact("plain", name="c"))
    config = tuple(
        DeviceClaimConfiguration(requests=requests, opaque=opaque(text))
        for requests, text in (((), "all"), (("b/sub0",), "chosen"), (("b/sub1",), "other"), (("a", "b", "c"), "each"))
    )
    devices = msgspec.structs.replace(claim.spec.devices, config=config)
    claim = msgspec.structs.replace(claim, spec=msgspec.structs.replace(claim.spec, devices=devices))
    (given,) = Scene([configured, a_device_class("plain"), many(4)]).give(claim)
    plainly = [
        (each.source, each.requests, each.opaque.parameters["kind"]) for each in given.devices.config if each.opaque
    ]
    assert plainly == [
        ("FromClass", ("a", "b/sub0"), "class"),
        ("FromClaim", (), "all"),
        ("FromClaim", ("b/sub0",), "chosen"),
        ("FromClaim", (), "each"),
    ]


# -- memory -----------------------------------------------------------------------------------------------------------


def test_what_is_remembered_is_forgotten_with_what_it_rests_on() -> None:
    scene = Scene([GPU, gpus("gpu-0")])
    held = a_claim(name="held", allocation=an_allocation(a_result("gpu-0")))
    assert scene.devices(a_claim()) == [["req:gpu-0"]]
    scene.allocated.add(held)
    assert scene.devices(a_claim()) == []
    scene.store.put(RESOURCE_SLICE, gpus("gpu-0", "gpu-1"))
    assert scene.devices(a_claim()) == [["req:gpu-1"]]
    scene.store.put(DEVICE_CLASS, a_device_class("gpu", cel=["false"]))
    assert scene.devices(a_claim()) == []
    scene.store.remove(DEVICE_CLASS, "gpu")
    with pytest.raises(AllocationError, match="could not retrieve device class gpu"):
        scene.give(a_claim())


def test_nodes_that_see_the_same_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene([GPU, a_slice("slice", "gpu-0", all_nodes=True)])
    searches: list[str] = []
    search = scene.allocator._search

    def counted(*args: Any) -> Any:
        searches.append(args[-1])
        return search(*args)

    monkeypatch.setattr(scene.allocator, "_search", counted)
    for name in ("n1", "n2", "n3"):
        assert scene.devices(a_claim(name=f"for-{name}"), node=a_node(name)) == [["req:gpu-0"]]
    assert searches == ["n1"]


def test_the_alternatives_that_would_be_met_are_told() -> None:
    scene = Scene([GPU, a_device_class("none", cel=["false"]), many(2)])
    claim = a_claim(an_exact(name="a"), alternatives("none", "gpu", name="b"))
    assert scene.allocator.alternatives(NODE, scene.allocator.demand([claim])) == {(0, 1, 1)}
    hopeless = scene.allocator.demand([a_claim(alternatives("none"))])
    assert scene.allocator.alternatives(NODE, hopeless) == frozenset()
