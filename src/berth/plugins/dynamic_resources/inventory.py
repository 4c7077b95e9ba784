"""`Inventory`: all devices that drivers publish, by the nodes that can use them.

Kept up to date as slices and rules about taints come, change and go.  Most slices belong to one node; those that
do not are held against each node once, until the node or one of them changes.  Nodes that see the very same slices
share one `View`, so whatever is found out for one of them holds for all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from berth.api.affinity import NodeSelector
from berth.api.dra import Device, DeviceTaintRule, ResourceSlice
from berth.api.node import Node, Taint
from berth.api.node_affinity import compile_node_selector
from berth.cluster.kinds import DEVICE_TAINT_RULE, RESOURCE_SLICE
from berth.cluster.objects import Objects
from berth.plugins.dynamic_resources.cel import Shape
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.ids import DeviceId, PoolId
from berth.plugins.dynamic_resources.pools import Candidate, DeviceRecord, Pool, Relevant, SliceRecord, gather
from berth.plugins.dynamic_resources.rules import AllocatorRules

_ENCODE: Final = msgspec.json.Encoder(order="deterministic").encode
_MOST_SEEN: Final = 20_000  # nodes; those that went are among them
_NO_SLICES: Final[Mapping[str, SliceRecord]] = {}


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """The pools that a node sees, or several nodes that see the same.

    Attributes:
        pools: the pools, in the order in which they are tried.
        ids: the same by name.
        candidates: the devices that can be taken, in the order in which they are tried.
        is_in_order: whether no pool contradicts itself.
        fates: how demands fared here, by whoever made them; theirs to keep.
    """

    pools: tuple[Pool, ...]
    ids: tuple[PoolId, ...]
    candidates: tuple[Candidate, ...]
    is_in_order: bool
    fates: dict[object, Any]

    @classmethod
    def of(cls, pools: tuple[Pool, ...]) -> "View":
        """A view of these pools, of which nothing is known yet."""
        ids = tuple(pool.id for pool in pools)
        candidates = tuple(Candidate(pool, record) for pool in pools for record in pool.devices)
        return cls(pools, ids, candidates, not any(pool.is_invalid for pool in pools), {})


_Key = tuple[tuple[str, frozenset[int]], ...]


class Inventory:
    """All devices.

    Args:
        objects: slices and rules as the API server shows them.
        rules: which features are in force.

    Attributes:
        version: grows with every change of a slice or a rule.
    """

    def __init__(self, objects: Objects, rules: AllocatorRules) -> None:
        self._rules = rules
        self.version = 0
        self._own: dict[str, dict[str, SliceRecord]] = {}
        self._shared: dict[str, SliceRecord] = {}
        self._pools: dict[PoolId, dict[str, SliceRecord]] = {}
        self._taint_rules: dict[str, DeviceTaintRule] = {}
        self._shapes: WeakValueDictionary[bytes, Shape] = WeakValueDictionary()
        self._views: dict[str, dict[_Key, View]] = {}
        self._seen: dict[str, tuple[Node, View]] = {}
        self._listeners: list[Callable[[str | None], None]] = []
        for each in objects.list(RESOURCE_SLICE):
            self._slice_changed(None, each)
        objects.listen(RESOURCE_SLICE, self._slice_changed)
        if rules.taint_rules:
            for rule in objects.list(DEVICE_TAINT_RULE):
                self._rule_changed(None, rule)
            objects.listen(DEVICE_TAINT_RULE, self._rule_changed)

    def on_node(self, node_name: str) -> Sequence[SliceRecord]:
        """The slices of that node alone."""
        return tuple(self._own.get(node_name, _NO_SLICES).values())

    def shared(self) -> Sequence[SliceRecord]:
        """The slices that do not belong to one node."""
        return tuple(self._shared.values())

    def nodes_of(self, pool_id: PoolId) -> Iterator[str | None]:
        """The nodes that see a pool; None stands for all."""
        for record in self._pools.get(pool_id, _NO_SLICES).values():
            yield record.slice.spec.node_name or None

    def listen(self, changed: Callable[[str | None], None]) -> None:
        """Call *changed* with the name of a node that may see other pools than before; None stands for all."""
        self._listeners.append(changed)

    def view(self, node: Node) -> View:
        """The pools that *node* sees.

        Raises:
            AllocationError: a slice has a node selector that cannot be parsed.
        """
        name = node.metadata.name
        seen = self._seen.get(name)
        if seen is not None and (seen[0] is node or not self._shared):
            return seen[1]
        own = name if name in self._own else ""
        relevant = [*self._relevant(node)]
        key = tuple((each.record.slice.metadata.name, each.out_of_reach) for each in relevant)
        views = self._views.setdefault(own, {})
        view = views.get(key)
        if view is None:
            mine = [Relevant(record) for record in self._own.get(name, _NO_SLICES).values() if self._counts(record)]
            view = views[key] = View.of(self._gather([*mine, *relevant]))
        if len(self._seen) >= _MOST_SEEN:
            self._seen.clear()
        self._seen[name] = node, view
        return view

    def taints(self, record: DeviceRecord) -> Sequence[Taint]:
        """The taints of a device, its own and those of rules."""
        if not self._taint_rules:
            return record.device.taints
        added = [rule.spec.taint for rule in self._taint_rules.values() if _applies(rule, record.id)]
        return (*record.device.taints, *added) if added else record.device.taints

    def _gather(self, relevant: list[Relevant]) -> tuple[Pool, ...]:
        ids = {each.record.pool_id for each in relevant}
        whole = {pool_id: [*self._pools.get(pool_id, _NO_SLICES).values()] for pool_id in ids}
        return gather(relevant, whole, partitionable=self._rules.partitionable_devices)

    def _relevant(self, node: Node) -> Iterator[Relevant]:
        """Those of the slices without a node that concern *node*."""
        for record in self._shared.values():
            if not self._counts(record):
                continue
            spec = record.slice.spec
            if spec.shared_counters:
                yield Relevant(record)
            elif spec.all_nodes or spec.node_selector is not None:
                if self._reaches(node, None, spec.all_nodes, spec.node_selector, f"slice {_name(record)}"):
                    yield Relevant(record)
            elif spec.per_device_node_selection:
                out_of_reach = frozenset(self._out_of_reach(node, record))
                if len(out_of_reach) < len(spec.devices):
                    yield Relevant(record, out_of_reach)

    def _out_of_reach(self, node: Node, record: SliceRecord) -> Iterator[int]:
        for place, device in enumerate(record.slice.spec.devices):
            what = f"device {device.name} in slice {_name(record)}"
            if not self._reaches(node, device.node_name, device.all_nodes, device.node_selector, what):
                yield place

    def _counts(self, record: SliceRecord) -> bool:
        spec = record.slice.spec
        is_partitioned = spec.per_device_node_selection is not None or bool(spec.shared_counters)
        return self._rules.partitionable_devices or not is_partitioned

    @staticmethod
    def _reaches(
        node: Node, node_name: str | None, all_nodes: bool | None, selector: NodeSelector | None, what: str
    ) -> bool:
        if node_name:
            return node_name == node.metadata.name
        if all_nodes or selector is None:
            return bool(all_nodes)
        compiled = compile_node_selector(selector)
        for fault in compiled.faults:
            raise AllocationError(
                f"gather pool information: failed to perform node selection for {what}: "
                f"failed to parse node selector: {fault}"
            )
        return compiled.matches(node)

    # -- changes -----------------------------------------------------------------------------------------------------

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        self.version += 1
        if old is not None:
            self._take_out(old)
        if new is not None:
            self._put_in(new)

    def _rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        self.version += 1
        if old is not None:
            self._taint_rules.pop(old.metadata.name, None)
        if new is not None:
            self._taint_rules[new.metadata.name] = new
        self._forget_all()

    def _put_in(self, each: ResourceSlice) -> None:
        record = SliceRecord(each, tuple(self._record(each, device) for device in each.spec.devices))
        name, node_name = each.metadata.name, each.spec.node_name
        self._pools.setdefault(record.pool_id, {})[name] = record
        (self._own.setdefault(node_name, {}) if node_name else self._shared)[name] = record
        self._forget(record.pool_id, node_name)

    def _take_out(self, each: ResourceSlice) -> None:
        name, node_name = each.metadata.name, each.spec.node_name
        pool_id = PoolId(each.spec.driver, each.spec.pool.name)
        self._forget(pool_id, node_name)
        self._pools.get(pool_id, {}).pop(name, None)
        if not self._pools.get(pool_id):
            self._pools.pop(pool_id, None)
        if not node_name:
            self._shared.pop(name, None)
            return
        self._own.get(node_name, {}).pop(name, None)
        if not self._own.get(node_name):
            self._own.pop(node_name, None)

    def _record(self, each: ResourceSlice, device: Device) -> DeviceRecord:
        device_id = DeviceId(each.spec.driver, each.spec.pool.name, device.name)
        is_shared = self._rules.consumable_capacity and bool(device.allow_multiple_allocations)
        look = _ENCODE((device_id.driver, device.attributes, device.capacity, device.allow_multiple_allocations))
        shape = self._shapes.get(look)
        if shape is None:
            shape = self._shapes[look] = Shape(device_id.driver, device)
        return DeviceRecord(device_id, device, each, shape, is_shared)

    def _forget(self, pool_id: PoolId, node_name: str | None) -> None:
        """Views that show the pool are out of date."""
        concerned = {*self.nodes_of(pool_id), node_name or None}
        if None in concerned:
            self._forget_all()
            return
        for name in concerned:
            self._views.pop(name or "", None)
            self._seen.pop(name or "", None)
            self._tell(name)

    def _forget_all(self) -> None:
        self._views.clear()
        self._seen.clear()
        self._tell(None)

    def _tell(self, name: str | None) -> None:
        for listener in self._listeners:
            listener(name)


def _applies(rule: DeviceTaintRule, device: DeviceId) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return False
    wanted = (selector.driver, selector.pool, selector.device)
    return all(each is None or each == actual for each, actual in zip(wanted, device, strict=True))


def _name(record: SliceRecord) -> str:
    return record.slice.metadata.name
