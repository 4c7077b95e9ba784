"""Random clusters with devices, and random changes of them: few names, so that things meet often.

Everything follows from one number, so that a case can be told by it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builders import a_node, a_term
from tests.devices import a_device_class, a_result, an_allocation, an_exact
from tests.plugins.dynamic_resources.allocator_twin import FaultError
from tests.storage import KIND_OF

from berth.api.affinity import NodeSelector
from berth.api.dra import (
    ALL,
    EXACT_COUNT,
    CapacityRange,
    CapacityRequestPolicy,
    CapacityRequirements,
    CelDeviceSelector,
    ClaimMeta,
    Counter,
    CounterSet,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from berth.api.meta import ObjectMeta
from berth.api.node import Taint
from berth.api.pod import Toleration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from berth.cluster.cache import Cluster

NODES = ("n0", "n1", "n2")
ZONES = ("a", "b")
DRIVERS = ("gpu.example.com", "nic.example.com")
CLASSES = ("gpu", "any")
TAINTS = (
    Taint(key="broken", value="yes", effect="NoSchedule"),
    Taint(key="hot", value="", effect="NoExecute"),
    Taint(key="old", value="", effect="None"),
)
POLICIES = (
    None,
    CapacityRequestPolicy(default="2", valid_range=CapacityRange(min="1", step="2")),
    CapacityRequestPolicy(default="1", valid_range=CapacityRange(min="1", max="4")),
    CapacityRequestPolicy(default="2", valid_values=("2", "4")),
)
seeds = st.integers(min_value=0, max_value=2**32)


def attribute(name: str, driver: str, device: Device) -> Any:
    """An attribute of a device as a selector sees it; a device without it is a fault."""
    found = device.attributes.get(name) if driver == DRIVERS[0] else None
    if found is None:
        raise FaultError
    return found.string_value if found.int_value is None else found.int_value


SELECTORS: dict[str, Callable[[str, Device], bool]] = {
    f'device.driver == "{DRIVERS[0]}"': lambda driver, _: driver == DRIVERS[0],
    f'device.driver in ["{DRIVERS[0]}", "{DRIVERS[1]}"]': lambda _, __: True,
    f'device.attributes["{DRIVERS[0]}"].model == "x"': lambda driver, d: attribute("model", driver, d) == "x",
    f'device.attributes["{DRIVERS[0]}"].index >= 1': lambda driver, d: attribute("index", driver, d) >= 1,
    f'"model" in device.attributes["{DRIVERS[0]}"]': lambda driver, d: driver == DRIVERS[0] and "model" in d.attributes,
    "device.allowMultipleAllocations": lambda _, d: bool(d.allow_multiple_allocations),
}
OWN_SELECTORS = tuple(SELECTORS)[2:]


class Maker:
    """Makes things at random from *seed*."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._slice_counts: dict[tuple[str, int], int] = {}

    def fill(self, cluster: Cluster) -> None:
        """A cluster with nodes, classes, slices, rules and claims that have devices."""
        for name in NODES:
            cluster.set_node(a_node(name, labels={"zone": self._random.choice(ZONES)}))
        for name, text in zip(CLASSES, SELECTORS, strict=False):
            cluster.objects.put(KIND_OF[type(a_device_class())], a_device_class(name, cel=[text]))
        for _ in range(self._random.randint(3, 9)):
            self._put_slice(cluster)
        for _ in range(self._random.choice((0, 0, 1, 2))):
            self._put_rule(cluster)

    def changes(self, cluster: Cluster) -> Iterator[None]:
        """The cluster after each of a few changes; claims are given and given back as the user of this does it."""
        for _ in range(self._random.randint(1, 5)):
            self._random.choice((self._put_slice, self._put_slice, self._drop_slice, self._put_rule, self._move))(
                cluster
            )
            yield

    def asking(self) -> list[ResourceClaim]:
        """Claims that have nothing yet."""
        return [self._claim(f"c{number}") for number in range(self._random.choice((1, 1, 2)))]

    # -- slices -----------------------------------------------------------------------------------------------------

    def _put_slice(self, cluster: Cluster) -> None:
        each = self._slice()
        cluster.objects.put(KIND_OF[ResourceSlice], each)

    def _drop_slice(self, cluster: Cluster) -> None:
        names = [each.metadata.name for each in cluster.objects.list(KIND_OF[ResourceSlice])]
        if names:
            cluster.objects.remove(KIND_OF[ResourceSlice], self._random.choice(names))

    def _slice(self) -> ResourceSlice:
        choose = self._random.choice
        driver = choose((*[DRIVERS[0]] * 8, DRIVERS[1]))
        where = choose(("node", "node", "node", "all", "zone", "each", "counters"))
        node_name = choose(NODES)
        pool = {"node": node_name, "counters": "parts"}.get(where) or choose(("shared", "parts", "parts"))
        if where != "counters" and self._random.random() < 0.1:
            pool = choose(("shared", node_name))
        number = NODES.index(node_name) if where == "node" else self._random.randint(0, 1)
        places: dict[str, dict[str, Any]] = {
            "node": {"node_name": node_name},
            "all": {"all_nodes": True},
            "zone": {"node_selector": self._selector()},
            "each": {"per_device_node_selection": True},
            "counters": {"all_nodes": True, "shared_counters": self._counters()},
        }
        devices = [] if where == "counters" else [self._device(where, pool) for _ in range(self._random.randint(1, 4))]
        if self._random.random() < 0.95:
            devices = list({device.name: device for device in devices}.values())
        return ResourceSlice(
            metadata=ObjectMeta(name=f"{where}-{number}"),
            spec=ResourceSliceSpec(
                driver=driver,
                pool=self._pool(pool),
                devices=tuple(devices),
                **places[where],
            ),
        )

    def _pool(self, name: str) -> ResourcePool:
        """All slices of a pool agree on how many there are."""
        generation = self._random.choice((1, 1, 1, 1, 1, 1, 2))
        likely = 1 if name in NODES else 2
        count = self._slice_counts.setdefault((name, generation), self._random.choice((likely, likely, likely, 1, 2)))
        return ResourcePool(name=name, generation=generation, resource_slice_count=count)

    def _selector(self) -> NodeSelector:
        return NodeSelector(node_selector_terms=(a_term(("zone", "In", self._random.choice(ZONES))),))

    def _counters(self) -> tuple[CounterSet, ...]:
        amounts = {name: Counter(value=str(self._random.randint(1, 4))) for name in ("memory", "slots")}
        return (CounterSet(name="set", counters=amounts),)

    def _device(self, where: str, pool: str) -> Device:
        choose = self._random.choice
        fields: dict[str, Any] = {}
        if where == "each":
            fields = choose(({"node_name": choose(NODES)}, {"all_nodes": True}, {"node_selector": self._selector()}))
        if self._random.random() < (0.6 if pool == "parts" else 0.02):
            amounts = {choose(("memory", "slots")): Counter(value=str(self._random.randint(1, 2)))}
            fields["consumes_counters"] = (DeviceCounterConsumption(counter_set="set", counters=amounts),)
        if self._random.random() < 0.3:
            fields["taints"] = (choose(TAINTS),)
        if self._random.random() < 0.2:
            fields["binding_conditions"] = ("ready",)
        attributes = {
            "model": DeviceAttribute(string_value=choose(("x", "y"))),
            "index": DeviceAttribute(int_value=self._random.randint(0, 2)),
        }
        if self._random.random() < 0.05:
            del attributes[choose(("model", "index"))]
        policy = choose(POLICIES)
        return Device(
            name=f"{where[0] if pool == 'parts' else 'd'}{self._random.randint(0, 4)}",
            attributes=attributes,
            capacity={"memory": DeviceCapacity(value=choose(("4", "8")), request_policy=policy)},
            allow_multiple_allocations=choose((None, None, True)),
            **fields,
        )

    def _put_rule(self, cluster: Cluster) -> None:
        choose = self._random.choice
        selector = DeviceTaintSelector(
            driver=choose((None, DRIVERS[0])), pool=choose((None, "n0")), device=choose((None, "d0", "a1"))
        )
        rule = DeviceTaintRule(
            metadata=ObjectMeta(name=choose(("r0", "r1"))),
            spec=DeviceTaintRuleSpec(device_selector=choose((selector, selector, None)), taint=choose(TAINTS)),
        )
        cluster.objects.put(KIND_OF[DeviceTaintRule], rule)

    def _move(self, cluster: Cluster) -> None:
        cluster.set_node(a_node(self._random.choice(NODES), labels={"zone": self._random.choice(ZONES)}))

    # -- claims -----------------------------------------------------------------------------------------------------

    def held(self, cluster: Cluster) -> ResourceClaim:
        """A claim that has some device, or a part of one."""
        slices = [each for each in cluster.objects.list(KIND_OF[ResourceSlice]) if each.spec.devices]
        results = []
        if slices:
            each = self._random.choice(slices)
            device = self._random.choice(each.spec.devices)
            share: dict[str, Any] = {
                "share_id": f"share-{self._random.randint(0, 9)}",
                "consumed_capacity": {"memory": "2"},
            }
            part = share if device.allow_multiple_allocations else {}
            result = a_result(device.name, pool=each.spec.pool.name, **part)
            results.append(type(result)(**{**_fields(result), "driver": each.spec.driver}))
        name = f"held-{self._random.randint(0, 5)}"
        return ResourceClaim(
            metadata=ClaimMeta(name=name, namespace="default", uid=f"uid-of-{name}"),
            status=ResourceClaimStatus(allocation=an_allocation(*results)),
        )

    def _claim(self, name: str) -> ResourceClaim:
        requests = tuple(self._request(f"r{number}") for number in range(self._random.choice((1, 1, 2))))
        constraints = self._constraints() if self._random.random() < 0.3 else ()
        return ResourceClaim(
            metadata=ClaimMeta(name=name, namespace="default", uid=f"uid-of-{name}"),
            spec=ResourceClaimSpec(devices=DeviceClaim(requests=requests, constraints=constraints)),
        )

    def _request(self, name: str) -> DeviceRequest:
        if self._random.random() < 0.3:
            ways = tuple(DeviceSubRequest(name=f"w{number}", **self._wish()) for number in range(2))
            return DeviceRequest(name=name, first_available=ways)
        wish = self._wish()
        admin = self._random.choice((None, None, None, True))
        return an_exact(wish.pop("device_class_name"), name=name, admin_access=admin, **_with_texts(wish))

    def _wish(self) -> dict[str, Any]:
        choose = self._random.choice
        mode = choose((*[EXACT_COUNT] * 6, ALL))
        texts = choose(((), (), (), (choose(OWN_SELECTORS),)))
        capacity = CapacityRequirements(requests={choose(("memory", "memory", "none")): choose(("1", "3", "4"))})
        tolerations = (Toleration(key="broken", operator="Exists"), Toleration(operator="Exists"))
        return {
            "device_class_name": choose((*CLASSES, *CLASSES[:1] * 30, "missing")),
            "allocation_mode": mode,
            "count": choose((*[1] * 12, *[2] * 6, 3, 3, 40)) if mode == EXACT_COUNT else 0,
            "selectors": tuple(DeviceSelector(cel=CelDeviceSelector(expression=text)) for text in texts),
            "tolerations": choose(((), (choose(tolerations),))),
            "capacity": choose((None, None, capacity)),
        }

    def _constraints(self) -> tuple[DeviceConstraint, ...]:
        name = f"{DRIVERS[0]}/{self._random.choice(('model', 'index'))}"
        kind = self._random.choice(("match_attribute", "distinct_attribute"))
        return (DeviceConstraint(requests=self._random.choice(((), ("r0",))), **{kind: name}),)


def _with_texts(wish: dict[str, Any]) -> dict[str, Any]:
    selectors = wish.pop("selectors")
    return {**wish, "cel": [selector.cel.expression for selector in selectors]}


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}
