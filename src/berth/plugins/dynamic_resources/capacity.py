"""How much of a device's capacities a request takes, and whether there is as much left.

Amounts are billionths.  A request takes what it asks for, rounded up to what can be had; where it does not say, the
default of the capacity, or all of it.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/consumable_capacity.go.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from berth.api.dra import CapacityRange, CapacityRequestPolicy, DeviceCapacity
from berth.api.quantity import MAX_INT64, QuantityError, nano_value, whole
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.pools import DeviceRecord

_NANO: Final = 10**9
_MICRO: Final = 10**6
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "u"))


@dataclass(frozen=True, slots=True)
class Amount:
    """What a request takes of one capacity.

    Attributes:
        nano: in billionths.
        text: as a quantity.
    """

    nano: int
    text: str


Taking = Mapping[str, Amount]
"""Capacity -> what a request takes of it."""


def taking(record: DeviceRecord, requested: Mapping[str, str], *, fractional: bool) -> Taking | None:
    """What the request takes of each capacity of the device; None where the device does not have what it wants.

    Args:
        record: the device.
        requested: capacity -> quantity.
        fractional: whether ranges may be in thousandths.

    Raises:
        AllocationError: an amount is malformed, negative, or too large to be rounded.
    """
    capacities = record.device.capacity
    if any(name not in capacities for name in requested):
        return None
    taken: dict[str, Amount] = {}
    is_valid = True
    for name, capacity in capacities.items():
        try:
            amount = _taken(requested.get(name), capacity, fractional=fractional)
            is_valid = is_valid and _is_valid(amount.nano, capacity, fractional=fractional)
        except QuantityError as error:
            raise AllocationError(f"device {record.id}: capacity {name}: {error}") from error
        except OverflowError as error:
            raise AllocationError(f'capacity "{name}": {error}') from error
        if amount.nano < 0:
            raise AllocationError(f'capacity "{name}": capacity value is negative')
        taken[name] = amount
    return taken if is_valid else None


def has_room(
    record: DeviceRecord, taken: Taking, consumed: Mapping[str, int], allocating: Mapping[str, int] | None
) -> bool:
    """Whether what a request takes is left.

    Args:
        record: the device.
        taken: what the request takes.
        consumed: what claims have already, in billionths.
        allocating: what the claims at hand are about to get, in billionths.
    """
    for name, amount in taken.items():
        total = amount.nano + consumed.get(name, 0) + (allocating.get(name, 0) if allocating else 0)
        if total > nano_value(record.device.capacity[name].value):
            return False
    return True


def _taken(requested: str | None, capacity: DeviceCapacity, *, fractional: bool) -> Amount:
    policy = capacity.request_policy
    if requested is None:
        default = capacity.value if policy is None or policy.default is None else policy.default
        return _amount(default)
    if policy is None:
        return _amount(requested)
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _rounded_up(requested, policy.valid_range, fractional=fractional)
    return next((_amount(each) for each in policy.valid_values if nano_value(requested) <= nano_value(each)), None) or (
        _amount(requested)
    )


def _rounded_up(requested: str, range_: CapacityRange, *, fractional: bool) -> Amount:
    nano, least = nano_value(requested), nano_value(range_.min or "0")
    if nano < least:
        return _amount(range_.min or "0")
    if range_.step is None:
        return _amount(requested)
    if nano > MAX_INT64 * _NANO:
        raise OverflowError(
            "capacity request cannot be represented in the device's range arithmetic: "
            f"request {requested} exceeds MaxInt64"
        )
    unit, (amount, start, step) = _units(range_, (nano, least, nano_value(range_.step)), fractional=fractional)
    if step <= 0:
        return _amount(requested)
    rounded = start + step * -(-(amount - start) // step)
    if rounded > MAX_INT64:
        raise OverflowError(
            "capacity request cannot be represented in the device's range arithmetic: "
            f"rounding request {requested} up to the next step passes MaxInt64"
        )
    return Amount(rounded * unit, canonical(rounded * unit, is_binary=range_.step.endswith(_BINARY)))


def _units(range_: CapacityRange, amounts: tuple[int, int, int], *, fractional: bool) -> tuple[int, list[int]]:
    """The unit in which a range is counted, in billionths, and amounts in it, rounded up."""
    bounds = [nano_value(text) for text in (range_.min, range_.max, range_.step) if text is not None]
    if fractional and all(bound % _MICRO == 0 for bound in (*bounds, amounts[0])):
        return _MICRO, [amount // _MICRO for amount in amounts]
    return _NANO, [whole(amount) for amount in amounts]


def _is_valid(nano: int, capacity: DeviceCapacity, *, fractional: bool) -> bool:
    policy = capacity.request_policy
    if policy is None or (policy.default is not None and nano == nano_value(policy.default)):
        return True
    if policy.valid_range is not None:
        return _is_in_range(nano, policy.valid_range, fractional=fractional)
    return _is_listed(nano, policy)


def _is_in_range(nano: int, range_: CapacityRange, *, fractional: bool) -> bool:
    if range_.max is not None and nano > nano_value(range_.max):
        return False
    if range_.step is None:
        return True
    amounts = (nano, nano_value(range_.min or "0"), nano_value(range_.step))
    _, (amount, start, step) = _units(range_, amounts, fractional=fractional)
    return step <= 0 or (amount - start) % step == 0


def _is_listed(nano: int, policy: CapacityRequestPolicy) -> bool:
    return not policy.valid_values or any(nano == nano_value(each) for each in policy.valid_values)


@lru_cache(maxsize=4096)
def _amount(text: str) -> Amount:
    return Amount(nano_value(text), text)


def canonical(nano: int, *, is_binary: bool) -> str:
    """The shortest exact quantity of that many billionths."""
    return next(_forms(nano, is_binary=is_binary))


def _forms(nano: int, *, is_binary: bool) -> Iterator[str]:
    if nano == 0:
        yield "0"
    if is_binary and nano % _NANO == 0:
        units = nano // _NANO
        for power in range(len(_BINARY), 0, -1):
            if units % 1024**power == 0:
                yield f"{units // 1024**power}{_BINARY[power - 1]}"
        yield str(units)
    for exponent, suffix in _DECIMAL:
        unit = 10 ** (exponent + 9)
        if nano % unit == 0:
            yield f"{nano // unit}{suffix}"
    yield f"{nano}n"
