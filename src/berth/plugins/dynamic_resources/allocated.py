"""`AllocatedState`: the devices that claims have, kept up to date as claims come, change and go.

A decision looks a few devices up here and never goes through the claims.  Everything is counted, since for a moment
two claims can have the same device: one as promised, and one as written.

Source: k8s dynamic-resource-allocation/structured/internal/allocatedstate.go.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from berth.api.dra import DeviceRequestAllocationResult, ResourceClaim
from berth.api.quantity import QuantityError, nano_value
from berth.plugins.dynamic_resources.ids import DeviceId, PoolId

_log = logging.getLogger(__name__)

Amounts = dict[str, int]
"""Capacity -> billionths."""

_K = TypeVar("_K")

_NOTHING: Mapping[str, int] = {}


class AllocatedState:
    """Which devices are taken, and how much of those that are shared."""

    def __init__(self) -> None:
        self._taken: Counter[DeviceId] = Counter()
        self._shares: Counter[tuple[DeviceId, str]] = Counter()
        self._shared: Counter[DeviceId] = Counter()
        self._consumed: dict[DeviceId, Amounts] = {}
        self._versions: defaultdict[PoolId, int] = defaultdict(int)
        self._listeners: list[Callable[[PoolId], None]] = []

    @classmethod
    def of(cls, claims: Iterable[ResourceClaim]) -> "AllocatedState":
        """What these claims have."""
        state = cls()
        for claim in claims:
            state.add(claim)
        return state

    def add(self, claim: ResourceClaim) -> None:
        """Count what the claim was given; devices that it may only look at do not count."""
        for result in _counting(claim):
            device = _device_of(result)
            self._pool_changed(device.pool_id)
            if result.share_id is None:
                self._taken[device] += 1
                continue
            self._shares[device, result.share_id] += 1
            if self._shares[device, result.share_id] == 1:
                self._shared[device] += 1
                self._consume(device, result, 1)

    def remove(self, claim: ResourceClaim) -> None:
        """Undo the `add` of the same claim."""
        for result in _counting(claim):
            device = _device_of(result)
            self._pool_changed(device.pool_id)
            if result.share_id is None:
                _less(self._taken, device)
                continue
            _less(self._shares, (device, result.share_id))
            if (device, result.share_id) not in self._shares:
                _less(self._shared, device)
                self._consume(device, result, -1)

    def change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim came, changed or went."""
        if old is not None and new is not None and old.status.allocation is new.status.allocation:
            return
        if old is not None:
            self.remove(old)
        if new is not None:
            self.add(new)

    def listen(self, changed: Callable[[PoolId], None]) -> None:
        """Call *changed* whenever a device of a pool is given or given back."""
        self._listeners.append(changed)

    def is_taken(self, device: DeviceId) -> bool:
        """Whether a claim has the device for itself."""
        return device in self._taken

    def is_allocated(self, device: DeviceId) -> bool:
        """Whether a claim has the device, or a part of it."""
        return device in self._taken or device in self._shared

    def is_consumed(self, device: DeviceId) -> bool:
        """Whether some of the device's capacity is taken."""
        return device in self._consumed

    def consumed(self, device: DeviceId) -> Mapping[str, int]:
        """How much of its capacities is taken, in billionths."""
        return self._consumed.get(device, _NOTHING)

    def versions(self, pools: Iterable[PoolId]) -> tuple[int, ...]:
        """For each pool a number that grows whenever one of its devices is given or given back."""
        return tuple(map(self._versions.__getitem__, pools))

    def _pool_changed(self, pool: PoolId) -> None:
        self._versions[pool] += 1
        for listener in self._listeners:
            listener(pool)

    def _consume(self, device: DeviceId, result: DeviceRequestAllocationResult, sign: int) -> None:
        amounts = self._consumed.setdefault(device, {})
        for name, text in result.consumed_capacity.items():
            try:
                amounts[name] = amounts.get(name, 0) + sign * nano_value(text)
            except QuantityError as error:
                _log.error("a claim consumes capacity %s of device %s: %s; not counted", name, device, error)
        if not any(amounts.values()):
            del self._consumed[device]


def _counting(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    if allocation is None:
        return ()
    return [result for result in allocation.devices.results if not result.admin_access]


def _device_of(result: DeviceRequestAllocationResult) -> DeviceId:
    return DeviceId(result.driver, result.pool, result.device)


def _less(counter: Counter[_K], key: _K) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]
