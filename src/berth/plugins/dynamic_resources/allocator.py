"""`Allocator`: gives claims devices, node by node.

Long-lived: it remembers how demands fared on what nodes see, until devices of the pools in question are given or
given back, so that equal claims of the next pod cost one look per node where nothing has changed.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from berth.api.dra import ALL, EXACT_COUNT, MAX_RESULTS, AllocationResult, DeviceClass, DeviceSelector, ResourceClaim
from berth.api.node import Node
from berth.cluster.kinds import DEVICE_CLASS
from berth.cluster.objects import Objects
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.capacity import has_room, taking
from berth.plugins.dynamic_resources.cel import ExpressionError, matches
from berth.plugins.dynamic_resources.constraints import Constraint, constraints_of
from berth.plugins.dynamic_resources.errors import AllocationError, AllocationTimeoutError, NodeAllocationError
from berth.plugins.dynamic_resources.inventory import Inventory, View
from berth.plugins.dynamic_resources.pools import Candidate, DeviceRecord
from berth.plugins.dynamic_resources.requests import Demand, Wish, demand_of
from berth.plugins.dynamic_resources.results import check_nodes, results_of
from berth.plugins.dynamic_resources.rules import AllocatorRules
from berth.plugins.dynamic_resources.search import Choice, Search

_REMEMBERED: Final = 16  # demands, by each view
_TOKENS: Final = 1024
INVALID_POOLS: Final = "invalid resource pools were encountered"


@dataclass(frozen=True, slots=True, eq=False)
class _Fate:
    """How a demand fared with what some nodes see.

    Attributes:
        versions: the versions of the pools at that time.
        choices: the devices; None where there is no solution.
    """

    versions: tuple[int, ...]
    choices: Sequence[Choice] | None


class Allocator:
    """Gives claims devices.

    Args:
        rules: what is in force.
        inventory: all devices.
        allocated: the devices that claims have.
        objects: where the classes are.
    """

    def __init__(
        self, rules: AllocatorRules, inventory: Inventory, allocated: AllocatedState, objects: Objects
    ) -> None:
        self._rules, self._inventory, self._allocated, self._objects = rules, inventory, allocated, objects
        self._tokens: dict[bytes, object] = {}
        self._classes_version = -1

    def demand(self, claims: Sequence[ResourceClaim]) -> Demand:
        """Work out what claims ask for, once for all nodes; what is wrong with them comes out on the nodes."""
        demand = demand_of(claims)
        self._forget_old()
        return replace(demand, token=self._tokens.setdefault(demand.key, object()))

    def allocate(
        self, node: Node, demand: Demand, expired: Callable[[], bool] | None = None
    ) -> tuple[AllocationResult, ...]:
        """What each claim can have on *node*; empty where not all of them can be met there.

        Args:
            node: the node.
            demand: the claims.
            expired: whether it is time to give up; asked now and then.

        Raises:
            AllocationError: no decision is possible: a claim, a class or a slice is at fault.
            NodeAllocationError: the node's devices are at fault; other nodes may do.
            AllocationTimeoutError: it took too long.
        """
        choices = self._choices(node, demand, expired)
        if choices is None:
            return ()
        return results_of(demand, choices, self._classes_of(demand), node.metadata.name, self._rules)

    def fits(self, node: Node, demand: Demand, expired: Callable[[], bool] | None = None) -> bool:
        """Whether `allocate` would find something; it raises what that raises, and costs less."""
        return self._choices(node, demand, expired) is not None

    def alternatives(self, node: Node, demand: Demand) -> frozenset[tuple[int, int, int]]:
        """The alternatives that `allocate` would meet: numbers of claim, request and alternative."""
        choices = self._choices(node, demand, None) or ()
        return frozenset(choice.wish.place for choice in choices if choice.wish.parent)

    def _choices(self, node: Node, demand: Demand, expired: Callable[[], bool] | None) -> Sequence[Choice] | None:
        view = self._inventory.view(node)
        fate: _Fate | None = view.fates.get(demand.token)
        versions = self._allocated.versions(view.ids)
        if fate is None or fate.versions != versions:
            choices = self._search(view, demand, expired, node.metadata.name)
            check_nodes(demand, choices or ())
            if len(view.fates) >= _REMEMBERED:
                view.fates.clear()
            fate = view.fates[demand.token] = _Fate(versions, choices)
        if fate.choices is None and not view.is_in_order:
            raise NodeAllocationError(INVALID_POOLS)
        return fate.choices

    def _forget_old(self) -> None:
        """Demands fare differently once classes change; and they are too many to remember them all."""
        version = self._objects.version(DEVICE_CLASS)
        if version != self._classes_version or len(self._tokens) >= _TOKENS:
            self._classes_version = version
            self._tokens.clear()

    def _classes_of(self, demand: Demand) -> dict[str, DeviceClass]:
        return {wish.device_class: self._class_of(wish, demand) for wish in demand.wishes()}

    # -- one search --------------------------------------------------------------------------------------------------

    def _search(
        self, view: View, demand: Demand, expired: Callable[[], bool] | None, node_name: str
    ) -> list[Choice] | None:
        everything: dict[Wish, list[Candidate]] = {}
        constraints: list[list[Constraint]] = []
        for number, claim in enumerate(demand.claims):
            self._check(demand, number, view, everything)
            constraints.append(
                constraints_of(claim.spec.devices, claim.key, per_device=self._rules.distinct_per_device)
            )
        search = Search(
            self._rules,
            demand,
            view.candidates,
            constraints,
            everything,
            self._allocated,
            lambda wish, candidate: self._is_selectable(wish, candidate, demand),
            self._inventory.taints,
            expired,
        )
        try:
            return search.run()
        except AllocationTimeoutError as error:
            raise AllocationTimeoutError(f"node {node_name}: {error}") from error

    def _check(self, demand: Demand, number: int, view: View, everything: dict[Wish, list[Candidate]]) -> None:
        """Look the requests of a claim over, and find out what *all* is.

        Raises:
            AllocationError: a request is at fault, or too many devices are asked for.
        """
        key = demand.claims[number].key
        total = 0
        for request in demand.requests[number]:
            if request.has_alternatives and not self._rules.prioritized_list:
                raise AllocationError(
                    f"claim {key}, request {request.name}: has subrequests, "
                    "but the DRAPrioritizedList feature is disabled"
                )
            if not request.wishes:
                raise AllocationError(f"claim {key}, request {request.name}: unknown request type")
            counts = [self._count(wish, demand, view, everything) for wish in request.wishes]
            least = min(counts)
            if self._rules.detailed_errors and total + least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {key}, request {request.name}: adding {least} devices exceeds the claim limit of "
                    f"{MAX_RESULTS}, with {total} already accounted for"
                )
            total += least
        if total > MAX_RESULTS:
            raise AllocationError(
                f"claim {key}: number of requested devices {total} exceeds the claim limit of {MAX_RESULTS}"
            )

    def _count(self, wish: Wish, demand: Demand, view: View, everything: dict[Wish, list[Candidate]]) -> int:
        """How many devices a wish is for."""
        key = demand.claims[wish.place[0]].key
        self._check_wish(wish, key)
        self._class_of(wish, demand)
        if wish.mode == EXACT_COUNT:
            return wish.count
        if wish.mode != ALL:
            raise AllocationError(f"claim {key}, request {wish.name}: unsupported count mode {wish.mode}")
        found: list[Candidate] = []
        for pool in view.pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"claim {key}, request {wish.name}: asks for all devices, but resource pool {pool.id} is "
                    f"currently {state}"
                )
            mine = (each for each in view.candidates if each.pool is pool)
            found.extend(each for each in mine if self._is_selectable(wish, each, demand))
        everything[wish] = self._with_room(wish, found)
        return len(everything[wish])

    def _check_wish(self, wish: Wish, key: str) -> None:
        if wish.asks_for_capacity and not self._rules.consumable_capacity:
            what = "subrequest" if wish.parent else "request"
            raise AllocationError(
                f"claim {key}, {what} {wish.name}: has capacity requests, "
                "but the DRAConsumableCapacity feature is disabled"
            )
        for number, selector in enumerate(wish.selectors):
            if selector.cel is None:
                raise AllocationError(
                    f"claim {key}, request {wish.name}, selector #{number}: CEL expression empty "
                    "(unsupported selector type?)"
                )
        if wish.admin_access is not None and not self._rules.admin_access:
            raise AllocationError(
                f"claim {key}, request {wish.name}: admin access is requested, but the feature is disabled"
            )
        if not wish.device_class:
            raise AllocationError(
                f"claim {key}, request {wish.name}: missing device class name (unsupported request type?)"
            )

    def _with_room(self, wish: Wish, found: list[Candidate]) -> list[Candidate]:
        """Those of the selected devices that have room for what is taken; the others are not among *all*."""
        if not self._rules.consumable_capacity:
            return found
        return [each for each in found if self._has_room(wish, each.record)]

    def _has_room(self, wish: Wish, record: DeviceRecord) -> bool:
        taken = taking(record, wish.capacity, fractional=self._rules.fractional_capacity)
        return taken is not None and has_room(record, taken, self._allocated.consumed(record.id), None)

    def _class_of(self, wish: Wish, demand: Demand) -> DeviceClass:
        found = self._objects.get(DEVICE_CLASS, wish.device_class)
        if found is None:
            key = demand.claims[wish.place[0]].key
            name = wish.device_class
            raise AllocationError(
                f"claim {key}, request {wish.name}: could not retrieve device class {name}: "
                f'deviceclass.resource.k8s.io "{name}" not found'
            )
        return found

    # -- selectors ---------------------------------------------------------------------------------------------------

    def _is_selectable(self, wish: Wish, candidate: Candidate, demand: Demand) -> bool:
        record = candidate.record
        if record.device.binding_conditions and not self._rules.binding_conditions:
            return False
        device_class = self._class_of(wish, demand)
        of_class = f"class {device_class.metadata.name}"
        if not self._selects(device_class.spec.selectors, record, of_class):
            return False
        if not self._selects(wish.selectors, record, f"claim {demand.claims[wish.place[0]].key}"):
            return False
        return record.id not in candidate.pool.out_of_reach

    def _selects(self, selectors: Sequence[DeviceSelector], record: DeviceRecord, whose: str) -> bool:
        return selects(selectors, record, whose, detailed=self._rules.detailed_errors)


def selects(selectors: Sequence[DeviceSelector], record: DeviceRecord, whose: str, *, detailed: bool) -> bool:
    """Whether all of *selectors* select the device.

    Args:
        selectors: the selectors; those of kinds unknown to us do not count.
        record: the device.
        whose: what they belong to, for the error.
        detailed: whether the error names the device and gives a hint.

    Raises:
        AllocationError: a selector is faulty, or fails for the device.
    """
    for number, selector in enumerate(selectors):
        if selector.cel is None:
            continue
        try:
            if not matches(selector.cel.expression, record.shape):
                return False
        except ExpressionError as failure:
            on_device = f" on device {record.id}" if detailed and failure.is_runtime else ""
            text = failure.text(with_hint=detailed)
            raise AllocationError(f"{whose}: selector #{number}{on_device}: {text}") from failure
    return True
