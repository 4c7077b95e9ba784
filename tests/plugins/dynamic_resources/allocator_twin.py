"""The allocator in its plainest form: everything is looked at anew at each step, and nothing is ever taken back.

What has been chosen so far is a tuple; whether one more device will do follows from it alone.  Selectors are not
parsed: each text stands for a function.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from berth.api.dra import ALL, Device, DeviceAttribute, ResourceClaim, ResourceSlice
from berth.api.node_affinity import compile_node_selector
from berth.api.quantity import parse_quantity
from berth.api.tolerations import tolerates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from berth.api.affinity import NodeSelector
    from berth.api.dra import (
        DeviceClass,
        DeviceConstraint,
        DeviceSelector,
        DeviceSubRequest,
        DeviceTaintRule,
        ExactDeviceRequest,
    )
    from berth.api.node import Node, Taint

MOST = 32


class FaultError(Exception):
    """No decision is possible."""


class NodeFaultError(Exception):
    """The node's devices are at fault."""


class Place(NamedTuple):
    """A device in a slice."""

    slice: ResourceSlice
    device: Device

    @property
    def id(self) -> str:
        return f"{self.slice.spec.driver}/{self.slice.spec.pool.name}/{self.device.name}"


class Pick(NamedTuple):
    """A device for a request of a claim."""

    claim: int
    request: str
    way: str
    wish: ExactDeviceRequest | DeviceSubRequest
    place: Place

    @property
    def full_name(self) -> str:
        return f"{self.request}/{self.way}" if self.way else self.request


Picks = tuple[Pick, ...]


@dataclass
class Twin:
    """All there is, and one node."""

    slices: Sequence[ResourceSlice]
    classes: Mapping[str, DeviceClass]
    rules: Sequence[DeviceTaintRule]
    allocated: Sequence[ResourceClaim]
    selectors: Mapping[str, Callable[[str, Device], bool]]
    node: Node
    claims: Sequence[ResourceClaim] = ()
    everything: dict[tuple[int, str, str], list[Place]] = field(default_factory=dict)

    def give(self, claims: Sequence[ResourceClaim]) -> Picks | None:
        """The first full solution; None if there is none."""
        self.claims = claims
        self.everything = {}
        for number, claim in enumerate(claims):
            self._look_over(number, claim)
        found = next(self._solutions((), 0, 0), None)
        if found is None and any(pool is None for pool in self._pools().values()):
            raise NodeFaultError
        return found

    # -- pools ------------------------------------------------------------------------------------------------------

    def _concerns(self, each: ResourceSlice) -> bool:
        spec = each.spec
        if spec.node_name:
            return spec.node_name == self.node.metadata.name
        if spec.shared_counters:
            return True
        if spec.per_device_node_selection:
            return any(self._is_at_hand(Place(each, device)) for device in spec.devices)
        return bool(spec.all_nodes) or self._selected(spec.node_selector)

    def _is_at_hand(self, place: Place) -> bool:
        if not place.slice.spec.per_device_node_selection:
            return True
        device = place.device
        if device.node_name:
            return device.node_name == self.node.metadata.name
        return bool(device.all_nodes) or self._selected(device.node_selector)

    def _selected(self, selector: NodeSelector | None) -> bool:
        return selector is not None and compile_node_selector(selector).matches(self.node)

    def _pools(self) -> dict[tuple[str, str], list[Place] | str | None]:
        """Each pool with the devices that concern the node; None where it is invalid, a text where it is incomplete."""
        pools: dict[tuple[str, str], list[Place] | str | None] = {}
        names = sorted({(each.spec.driver, each.spec.pool.name) for each in self.slices})
        for name in names:
            whole = [each for each in self.slices if (each.spec.driver, each.spec.pool.name) == name]
            near = [each for each in whole if self._concerns(each)]
            if not near:
                continue
            newest = max(each.spec.pool.generation for each in near)
            near = sorted(
                (each for each in near if each.spec.pool.generation == newest), key=lambda each: each.metadata.name
            )
            whole_newest = [each for each in whole if each.spec.pool.generation == newest]
            count = near[0].spec.pool.resource_slice_count
            if len(near) != count:
                if max(each.spec.pool.generation for each in whole) > newest:
                    continue
                if len(whole_newest) != count:
                    pools[name] = "incomplete"
                    continue
            looked_at = near if len(near) == count else whole_newest
            pools[name] = self._checked(near, looked_at)
        return pools

    @staticmethod
    def _checked(near: list[ResourceSlice], whole: list[ResourceSlice]) -> list[Place] | None:
        places = [Place(each, d) for each in near if not each.spec.shared_counters for d in each.spec.devices]
        sets = [one for each in near for one in each.spec.shared_counters]
        known = {(one.name, counter) for one in sets for counter in one.counters}
        draws = [draw for each in whole for d in each.spec.devices for draw in d.consumes_counters]
        is_valid = (
            len({place.device.name for place in places}) == len(places)
            and len({one.name for one in sets}) == len(sets)
            and all((draw.counter_set, counter) in known for draw in draws for counter in draw.counters)
        )
        return places if is_valid else None

    def _places(self) -> list[Place]:
        pools = [places for places in self._pools().values() if isinstance(places, list)]
        late = [places for places in pools if any(place.device.binding_conditions for place in places)]
        early = [places for places in pools if places not in late]
        return [place for places in (*early, *late) for place in places]

    # -- requests ---------------------------------------------------------------------------------------------------

    def _look_over(self, number: int, claim: ResourceClaim) -> None:
        total = 0
        for request in claim.spec.devices.requests:
            counts = []
            for way, wish in ways(request):
                if wish.device_class_name not in self.classes:
                    raise FaultError
                if wish.allocation_mode == ALL:
                    if any(not isinstance(places, list) for places in self._pools().values()):
                        raise FaultError
                    selected = [place for place in self._places() if self._is_selected(wish, place)]
                    fitting = [place for place in selected if self._has_room((), wish, place)]
                    self.everything[number, request.name, way] = fitting
                    counts.append(len(fitting))
                else:
                    counts.append(wish.count)
            total += min(counts)
            if total > MOST:
                raise FaultError

    def _is_selected(self, wish: ExactDeviceRequest | DeviceSubRequest, place: Place) -> bool:
        of_class = self.classes[wish.device_class_name].spec.selectors
        return self._passes(of_class, place) and self._passes(wish.selectors, place) and self._is_at_hand(place)

    def _passes(self, selectors: Sequence[DeviceSelector], place: Place) -> bool:
        texts = (selector.cel.expression for selector in selectors if selector.cel)
        return all(self.selectors[text](place.slice.spec.driver, place.device) for text in texts)

    # -- solutions --------------------------------------------------------------------------------------------------

    def _solutions(self, picks: Picks, claim: int, request: int) -> Iterator[Picks]:
        if claim == len(self.claims):
            yield picks
            return
        requests = self.claims[claim].spec.devices.requests
        if request == len(requests):
            yield from self._solutions(picks, claim + 1, 0)
            return
        for way, wish in ways(requests[request]):
            for more in self._met(picks, claim, requests[request].name, way, wish, 0):
                yield from self._solutions(more, claim, request + 1)

    def _met(
        self, picks: Picks, claim: int, request: str, way: str, wish: ExactDeviceRequest | DeviceSubRequest, start: int
    ) -> Iterator[Picks]:
        mine = [pick for pick in picks if (pick.claim, pick.request) == (claim, request)]
        wants_all = wish.allocation_mode == ALL
        candidates = self.everything[claim, request, way] if wants_all else self._places()
        wanted = len(candidates) if wants_all else wish.count
        if wants_all and not wanted:
            return
        if len(mine) == wanted:
            yield picks
            return
        if sum(pick.claim == claim for pick in picks) + wanted - len(mine) > MOST:
            return
        window = range(len(mine), len(mine) + 1) if wants_all else range(start, len(candidates))
        for index in window:
            pick = Pick(claim, request, way, wish, candidates[index])
            if self._will_do(picks, pick):
                yield from self._met((*picks, pick), claim, request, way, wish, index + 1)

    def _will_do(self, picks: Picks, pick: Pick) -> bool:
        wish, place = pick.wish, pick.place
        wants_all = wish.allocation_mode == ALL
        if self._is_in_use(picks, pick):
            return False
        if not wants_all and not (self._is_selected(wish, place) and self._has_room(picks, wish, place)):
            return False
        if not self._counters_suffice(picks, place) or not self._is_tolerated(wish, place):
            return False
        for constraint in self.claims[pick.claim].spec.devices.constraints:
            if not is_kept(constraint, [each for each in (*picks, pick) if each.claim == pick.claim]):
                if wants_all:
                    raise FaultError
                return False
        return self._has_room(picks, wish, place)

    def _is_in_use(self, picks: Picks, pick: Pick) -> bool:
        if pick.place.device.allow_multiple_allocations:
            return not getattr(pick.wish, "admin_access", None) and pick.place.id in self._taken()
        same = [each for each in picks if each.place.id == pick.place.id]
        if getattr(pick.wish, "admin_access", None):
            return any(each.claim == pick.claim for each in same)
        return bool(same) or pick.place.id in self._taken()

    def _given(self) -> Iterator[tuple[str, str | None, Mapping[str, str]]]:
        for claim in self.allocated:
            for result in claim.status.allocation.devices.results if claim.status.allocation else ():
                if not result.admin_access:
                    device = f"{result.driver}/{result.pool}/{result.device}"
                    yield device, result.share_id, result.consumed_capacity

    def _taken(self) -> set[str]:
        return {device for device, share, _ in self._given() if share is None}

    def _counters_suffice(self, picks: Picks, place: Place) -> bool:
        if not place.device.consumes_counters:
            return True
        given = {device for device, _, _ in self._given()}
        before = [pick.place for pick in picks if in_same_pool(pick.place, place)]
        charged: dict[str, Device] = {}
        exclusive = [each.device for each in (*before, place) if not each.device.allow_multiple_allocations]
        for each in (*before, place):
            if each.device.allow_multiple_allocations and each.id not in given:
                charged[each.id] = each.device
        if place.device.allow_multiple_allocations and place.id in {*given, *(each.id for each in before)}:
            return True
        held = [each.device for each in self._of_pool(place) if each.id in given]
        left = self._counters_of_pool(place)
        for device in (*exclusive, *charged.values(), *held):
            left.subtract(draws_of(device))
        return all(amount >= 0 for amount in left.values())

    def _slices_of_pool(self, place: Place) -> list[ResourceSlice]:
        spec = place.slice.spec
        pool = [each for each in self.slices if (each.spec.driver, each.spec.pool) == (spec.driver, spec.pool)]
        near = [each for each in pool if self._concerns(each)]
        return near if len(near) == spec.pool.resource_slice_count else pool

    def _of_pool(self, place: Place) -> Iterator[Place]:
        for each in self._slices_of_pool(place):
            yield from (Place(each, device) for device in each.spec.devices)

    def _counters_of_pool(self, place: Place) -> Counter[tuple[str, str]]:
        total: Counter[tuple[str, str]] = Counter()
        for each in self._slices_of_pool(place):
            for one in each.spec.shared_counters:
                total.update({(one.name, name): int(counter.value) for name, counter in one.counters.items()})
        return total

    def _is_tolerated(self, wish: ExactDeviceRequest | DeviceSubRequest, place: Place) -> bool:
        taints: list[Taint] = [*place.device.taints]
        for rule in self.rules:
            selector = rule.spec.device_selector
            if selector is not None and all(
                wanted in {None, actual}
                for wanted, actual in zip(
                    (selector.driver, selector.pool, selector.device), place.id.split("/"), strict=True
                )
            ):
                taints.append(rule.spec.taint)
        return all(
            any(tolerates(toleration, taint) for toleration in wish.tolerations)
            for taint in taints
            if taint.effect in {"NoSchedule", "NoExecute"}
        )

    def _has_room(self, picks: Picks, wish: ExactDeviceRequest | DeviceSubRequest, place: Place) -> bool:
        taken = consumption(wish, place.device)
        if taken is None:
            return False
        left = {name: parse_quantity(each.value) for name, each in place.device.capacity.items()}
        shares = {share: consumed for device, share, consumed in self._given() if device == place.id and share}
        for consumed in shares.values():
            for name, text in consumed.items():
                if name in left:
                    left[name] -= parse_quantity(text)
        for each in picks:
            if each.place.id == place.id and place.device.allow_multiple_allocations:
                for name, amount in (consumption(each.wish, place.device) or {}).items():
                    left[name] -= amount
        return all(taken[name] <= left[name] for name in taken)


def ways(request: object) -> list[tuple[str, ExactDeviceRequest | DeviceSubRequest]]:
    """The ways to meet a request, by name; a request without alternatives has one without a name."""
    alternatives = [(sub.name, sub) for sub in request.first_available]  # type: ignore[attr-defined]  # DeviceRequest
    return alternatives or [("", request.exactly)]  # type: ignore[attr-defined]  # the same


def in_same_pool(one: Place, other: Place) -> bool:
    return one.id.rpartition("/")[0] == other.id.rpartition("/")[0]


def draws_of(device: Device) -> Counter[tuple[str, str]]:
    drawn: Counter[tuple[str, str]] = Counter()
    for draw in device.consumes_counters:
        for name, counter in draw.counters.items():
            drawn[draw.counter_set, name] += int(counter.value)
    return drawn


def consumption(wish: ExactDeviceRequest | DeviceSubRequest, device: Device) -> dict[str, Fraction] | None:
    """What a wish takes of a device's capacities; None where it cannot have what it asks for."""
    asked = dict(wish.capacity.requests) if wish.capacity else {}
    if any(name not in device.capacity for name in asked):
        return None
    taken: dict[str, Fraction] = {}
    for name, capacity in device.capacity.items():
        policy = capacity.request_policy
        if name not in asked:
            taken[name] = parse_quantity(policy.default if policy and policy.default else capacity.value)
            continue
        amount = parse_quantity(asked[name])
        if policy and policy.valid_range and policy.valid_range.min:
            least = parse_quantity(policy.valid_range.min)
            step = parse_quantity(policy.valid_range.step or "0")
            while step and least < amount:
                least += step
            amount = max(least, amount)
            if policy.valid_range.max and amount > parse_quantity(policy.valid_range.max):
                return None
        elif policy and policy.valid_values:
            fitting = [each for each in map(parse_quantity, policy.valid_values) if each >= amount]
            if not fitting:
                return None
            amount = fitting[0]
        taken[name] = amount
    return taken


def is_kept(constraint: DeviceConstraint, picks: list[Pick]) -> bool:
    """Whether devices satisfy a constraint."""
    concerned = [
        pick
        for pick in picks
        if not constraint.requests or pick.request in constraint.requests or pick.full_name in constraint.requests
    ]
    name = constraint.match_attribute or constraint.distinct_attribute or ""
    values = [_attribute(pick.place, name) for pick in concerned]
    if any(value is None for value in values):
        return False
    return len(set(values)) <= 1 if constraint.match_attribute else len(set(values)) == len(values)


def _attribute(place: Place, name: str) -> tuple[str, object] | None:
    own = name.removeprefix(place.slice.spec.driver + "/")
    found: DeviceAttribute | None = place.device.attributes.get(name) or place.device.attributes.get(own)
    if found is None:
        return None
    pairs = (("int", found.int_value), ("bool", found.bool_value), ("string", found.string_value))
    return next((kind, value) for kind, value in (*pairs, ("version", found.version_value)) if value is not None)
