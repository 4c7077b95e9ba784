"""How much of a pool's shared counters is left.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/allocator_incubating.go,
``checkAvailableCounters``.
"""

from collections import Counter

from berth.api.dra import Device
from berth.api.quantity import QuantityError, nano_value
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.pools import Pool

_Counters = Counter[tuple[str, str]]


class CounterLedger:
    """The counters of a pool during one search, in billionths.

    Args:
        pool: the pool.
        allocated: the devices that claims have.

    Raises:
        AllocationError: a counter is no quantity.
    """

    def __init__(self, pool: Pool, allocated: AllocatedState) -> None:
        self._pool = pool
        self._available: dict[tuple[str, str], int] = {}
        try:
            for name, text in (pool.counters or {}).items():
                self._available[name] = nano_value(text)
        except QuantityError as error:
            raise AllocationError(f"resource pool {pool.id}: counter {'/'.join(name)}: {error}") from error
        for record in (*pool.devices, *pool.others):
            if allocated.is_allocated(record.id):
                for name, amount in self._draws(record.device).items():
                    if name in self._available:
                        self._available[name] -= amount
        self._drawn: _Counters = Counter()

    def draw(self, device: Device) -> bool:
        """Charge the counters for *device*; False, and nothing charged, if some counter of the pool falls short."""
        drawn = self._draws(device)
        self._drawn.update(drawn)
        if all(available >= self._drawn[name] for name, available in self._available.items()):
            return True
        self._drawn.subtract(drawn)
        return False

    def give_back(self, device: Device) -> None:
        """Undo the `draw` of *device*."""
        self._drawn.subtract(self._draws(device))

    def _draws(self, device: Device) -> _Counters:
        drawn: _Counters = Counter()
        for draw in device.consumes_counters:
            for name, counter in draw.counters.items():
                try:
                    drawn[draw.counter_set, name] += nano_value(counter.value)
                except QuantityError as error:
                    raise AllocationError(
                        f"device {device.name} in {self._pool.id}: counter {name}: {error}"
                    ) from error
        return drawn
