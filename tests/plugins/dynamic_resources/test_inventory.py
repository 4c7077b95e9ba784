"""What nodes see of the devices that drivers publish, and what is kept of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from tests.builders import a_cluster, a_node, a_term
from tests.devices import DRIVER, a_device_claim, a_device_class, a_result, a_slice, an_allocation
from tests.storage import with_objects

from berth.api.affinity import NodeSelector
from berth.api.dra import (
    Device,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceSlice,
)
from berth.api.meta import ObjectMeta
from berth.api.node import Taint
from berth.cluster.kinds import DEVICE_TAINT_RULE, RESOURCE_SLICE
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.allocator import Allocator
from berth.plugins.dynamic_resources.inventory import Inventory
from berth.plugins.dynamic_resources.rules import AllocatorRules
from berth.plugins.dynamic_resources.standings import CANNOT_ALLOCATE, FITS, Standings
from berth.plugins.dynamic_resources.totals import DeviceTotals

if TYPE_CHECKING:
    from berth.api.node import Node
    from berth.cluster.cache import Cluster

RULES = AllocatorRules()
ZONE_A = NodeSelector(node_selector_terms=(a_term(("zone", "In", "a")),))


def inventory_of(*objects: Any, rules: AllocatorRules = RULES) -> Inventory:
    return Inventory(with_objects(a_cluster(), *objects).objects, rules)


def of_pool(each: ResourceSlice, *, generation: int = 1, count: int = 1) -> ResourceSlice:
    pool = msgspec.structs.replace(each.spec.pool, generation=generation, resource_slice_count=count)
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, pool=pool))


def seen(inventory: Inventory, node: Node) -> list[str]:
    """What the node sees: the devices, or the state, of each pool."""
    states = []
    for pool in inventory.view(node).pools:
        state = "incomplete" if pool.is_incomplete else "invalid" if pool.is_invalid else ""
        states.append(f"{pool.id.pool}: {state or ' '.join(record.id.device for record in pool.devices)}")
    return states


def test_pools_come_by_name_and_those_with_devices_to_be_prepared_come_last() -> None:
    waits = Device(name="d", binding_conditions=("ready",))
    slices = [
        a_slice(f"s-{pool}", device, on="n1", pool=pool) for pool, device in (("c", "d"), ("a", waits), ("b", "d"))
    ]
    assert seen(inventory_of(*slices), a_node("n1")) == ["b: d", "c: d", "a: d"]


def test_devices_come_by_the_names_of_their_slices() -> None:
    slices = [of_pool(a_slice(name, f"of-{name}", on="n1"), count=2) for name in ("s2", "s1")]
    assert seen(inventory_of(*slices), a_node("n1")) == ["pool: of-s1 of-s2"]


def test_only_the_newest_generation_counts_and_an_older_one_is_not_used_meanwhile() -> None:
    old, new = a_slice("old", "d1", on="n1"), of_pool(a_slice("new", "d2", on="n1"), generation=2)
    assert seen(inventory_of(old, new), a_node("n1")) == ["pool: d2"]
    replaced = of_pool(a_slice("old", "d1", on="n1"), count=2)
    elsewhere = of_pool(a_slice("new", "d2", on="n2"), generation=2)
    assert seen(inventory_of(replaced, elsewhere), a_node("n1")) == []


def test_a_pool_is_complete_with_its_slices_on_other_nodes() -> None:
    here, there = (of_pool(a_slice(f"of-{name}", f"d-{name}", on=name), count=2) for name in ("n1", "n2"))
    assert seen(inventory_of(here), a_node("n1")) == ["pool: incomplete"]
    assert seen(inventory_of(here, there), a_node("n1")) == ["pool: d-n1"]


def test_a_slice_that_goes_makes_the_pool_incomplete_for_all_its_nodes() -> None:
    cluster = a_cluster()
    slices = [of_pool(a_slice(f"of-{name}", f"d-{name}", on=name), count=2) for name in ("n1", "n2")]
    inventory = Inventory(with_objects(cluster, *slices).objects, RULES)
    node = a_node("n1")
    assert seen(inventory, node) == ["pool: d-n1"]
    version = inventory.version
    cluster.objects.remove(RESOURCE_SLICE, "of-n2")
    assert seen(inventory, node) == ["pool: incomplete"]
    assert inventory.version > version


def test_a_slice_can_move_to_another_node() -> None:
    cluster = a_cluster()
    inventory = Inventory(with_objects(cluster, a_slice("s", "d", on="n1")).objects, RULES)
    nodes = a_node("n1"), a_node("n2")
    assert [seen(inventory, node) for node in nodes] == [["pool: d"], []]
    cluster.objects.put(RESOURCE_SLICE, a_slice("s", "d", on="n2"))
    assert [seen(inventory, node) for node in nodes] == [[], ["pool: d"]]
    cluster.objects.put(RESOURCE_SLICE, a_slice("s", "d", all_nodes=True))
    assert [seen(inventory, node) for node in nodes] == [["pool: d"], ["pool: d"]]


def test_a_node_sees_what_selects_it_as_it_is_now() -> None:
    inventory = inventory_of(a_slice("s", "d", node_selector=ZONE_A))
    assert seen(inventory, a_node("n1", labels={"zone": "a"})) == ["pool: d"]
    assert seen(inventory, a_node("n1", labels={"zone": "b"})) == []


def test_devices_can_choose_their_nodes() -> None:
    devices = (
        Device(name="own", node_name="n1"),
        Device(name="zone", node_selector=ZONE_A),
        Device(name="nowhere"),
    )
    inventory = inventory_of(a_slice("s", *devices, per_device_node_selection=True))
    (pool,) = inventory.view(a_node("n1")).pools
    assert {device.device for device in pool.out_of_reach} == {"zone", "nowhere"}
    (pool,) = inventory.view(a_node("n2", labels={"zone": "a"})).pools
    assert {device.device for device in pool.out_of_reach} == {"own", "nowhere"}
    assert inventory.view(a_node("n3")).pools == ()


def test_a_slice_that_says_nothing_of_nodes_is_of_none() -> None:
    assert seen(inventory_of(a_slice("s", "d")), a_node("n1")) == []


def test_nodes_that_see_the_same_share_one_view() -> None:
    inventory = inventory_of(a_slice("all", "d", all_nodes=True), a_slice("own", "d", on="n3", pool="own"))
    views = [inventory.view(a_node(name)) for name in ("n1", "n2", "n3")]
    assert views[0] is views[1]
    assert views[2] is not views[0]


def test_devices_that_look_alike_share_what_selectors_made_of_them() -> None:
    inventory = inventory_of(a_slice("a", "d1", "d2", on="n1"), a_slice("b", "d", on="n2", driver="nic.example.com"))
    one, two = (record.shape for record in inventory.on_node("n1")[0].devices)
    other = inventory.on_node("n2")[0].devices[0].shape
    assert one is two
    assert other is not one


def rule(name: str, selector: DeviceTaintSelector | None, key: str = "broken") -> DeviceTaintRule:
    spec = DeviceTaintRuleSpec(device_selector=selector, taint=Taint(key=key, effect="NoSchedule"))
    return DeviceTaintRule(metadata=ObjectMeta(name=name), spec=spec)


TAINTED = {
    "all devices": (DeviceTaintSelector(), True),
    "no devices": (None, False),
    "the driver": (DeviceTaintSelector(driver=DRIVER), True),
    "another driver": (DeviceTaintSelector(driver="nic.example.com"), False),
    "the pool": (DeviceTaintSelector(pool="pool"), True),
    "another pool": (DeviceTaintSelector(driver=DRIVER, pool="other"), False),
    "the device": (DeviceTaintSelector(driver=DRIVER, pool="pool", device="d"), True),
    "another device": (DeviceTaintSelector(device="e"), False),
}


@pytest.mark.parametrize(("selector", "is_tainted"), TAINTED.values(), ids=TAINTED)
def test_a_rule_taints(selector: DeviceTaintSelector | None, is_tainted: bool) -> None:
    own = Taint(key="own", effect="NoExecute")
    inventory = inventory_of(a_slice("s", Device(name="d", taints=(own,)), on="n1"), rule("r", selector))
    (record,) = inventory.on_node("n1")[0].devices
    assert [taint.key for taint in inventory.taints(record)] == ["own"] + ["broken"] * is_tainted


def test_rules_come_and_go_and_count_only_where_they_are_known() -> None:
    cluster = with_objects(a_cluster(), a_slice("s", "d", on="n1"))
    inventory = Inventory(cluster.objects, RULES)
    heedless = Inventory(cluster.objects, AllocatorRules(taint_rules=False))
    (record,) = inventory.on_node("n1")[0].devices
    cluster.objects.put(DEVICE_TAINT_RULE, rule("r", DeviceTaintSelector()))
    assert len(inventory.taints(record)) == 1
    assert len(heedless.taints(record)) == 0
    cluster.objects.remove(DEVICE_TAINT_RULE, "r")
    assert len(inventory.taints(record)) == 0


# -- standings --------------------------------------------------------------------------------------------------------


class Kept:
    """Standings of a cluster, and the nodes that were judged anew for each answer."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.allocated = cluster, AllocatedState()
        inventory = Inventory(cluster.objects, RULES)
        self.allocator = Allocator(RULES, inventory, self.allocated, cluster.objects)
        self.standings = Standings(cluster.table, inventory, self.allocated, self.allocator)
        self.judged = 0

    def _clock(self) -> None:
        self.judged += 1

    def verdicts(self, name: str = "claim") -> tuple[list[int], int]:
        """The verdicts for all nodes, and how many of them had to be judged."""
        self.judged = 0
        demand = self.allocator.demand([a_device_claim(name)])
        verdicts = self.standings.judge(demand, self.cluster.table.live_rows(), self._clock)
        assert verdicts.dtype == np.int8
        return verdicts.tolist(), self.judged


def kept() -> Kept:
    cluster = a_cluster([a_node(name) for name in ("n1", "n2", "n3")])
    return Kept(with_objects(cluster, a_device_class(), *(a_slice(n, "d", on=n, pool=n) for n in ("n1", "n2"))))


def test_what_is_known_of_nodes_serves_the_next_pod_with_equal_claims() -> None:
    scene = kept()
    assert scene.verdicts("one") == ([FITS, FITS, CANNOT_ALLOCATE], 3)
    assert scene.verdicts("other") == ([FITS, FITS, CANNOT_ALLOCATE], 0)


def test_only_nodes_whose_devices_are_given_or_given_back_are_judged_again() -> None:
    scene = kept()
    scene.verdicts()
    held = a_device_claim("held", allocation=an_allocation(a_result("d", pool="n2")))
    scene.allocated.add(held)
    assert scene.verdicts() == ([FITS, CANNOT_ALLOCATE, CANNOT_ALLOCATE], 1)
    scene.allocated.remove(held)
    assert scene.verdicts() == ([FITS, FITS, CANNOT_ALLOCATE], 1)


def test_a_new_slice_has_its_node_judged_again_and_one_for_all_has_all() -> None:
    scene = kept()
    scene.verdicts()
    scene.cluster.objects.put(RESOURCE_SLICE, a_slice("n3", "d", on="n3", pool="n3"))
    assert scene.verdicts() == ([FITS, FITS, FITS], 1)
    scene.cluster.objects.put(RESOURCE_SLICE, a_slice("all", "d", all_nodes=True, pool="all"))
    assert scene.verdicts() == ([FITS, FITS, FITS], 3)


def test_a_new_node_has_all_nodes_judged_again() -> None:
    scene = kept()
    scene.verdicts()
    scene.cluster.set_node(a_node("n4"))
    assert scene.verdicts() == ([FITS, FITS, CANNOT_ALLOCATE, CANNOT_ALLOCATE], 4)


def test_another_class_has_all_nodes_judged_again() -> None:
    scene = kept()
    scene.verdicts()
    with_objects(scene.cluster, a_device_class(cel=["false"]))
    assert scene.verdicts() == ([CANNOT_ALLOCATE] * 3, 3)


# -- totals -----------------------------------------------------------------------------------------------------------


def test_devices_of_a_class_are_counted_wherever_they_can_be_used() -> None:
    cluster = with_objects(
        a_cluster(),
        a_slice("own", "d1", "d2", on="n1", pool="own"),
        a_slice("all", "d", all_nodes=True, pool="all"),
        a_slice("zone", "d", node_selector=ZONE_A, pool="zone"),
        a_slice(
            "each", Device(name="d", node_name="n1"), Device(name="e"), per_device_node_selection=True, pool="each"
        ),
        a_slice("nic", "d", on="n1", pool="nic", driver="nic.example.com"),
    )
    allocated = AllocatedState.of([a_device_claim(allocation=an_allocation(a_result("d1", pool="own")))])
    totals = DeviceTotals(Inventory(cluster.objects, RULES), allocated)
    gpu = a_device_class(cel=[f'device.driver == "{DRIVER}"'])
    assert totals.of_class(gpu, a_node("n1")) == (4, 1)
    assert totals.of_class(gpu, a_node("n2", labels={"zone": "a"})) == (2, 0)


def test_nothing_is_counted_where_a_selector_fails(caplog: pytest.LogCaptureFixture) -> None:
    totals = DeviceTotals(inventory_of(a_slice("own", "d", on="n1")), AllocatedState())
    assert totals.of_class(a_device_class(cel=['device.attributes["x"].y']), a_node("n1")) == (0, 0)
    assert "devices of node n1 are not counted: class gpu: selector #0" in caplog.text
