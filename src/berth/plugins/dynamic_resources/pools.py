"""Pools of devices as one node sees them: what can be had from there, and whether the pool is in order.

Only slices of the newest generation count.  A pool of which slices are missing is being updated, and nothing is taken
from it; one that contradicts itself is invalid, and nothing is taken from it either.

Source: k8s dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go, ``GatherPools``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from berth.api.dra import Device, ResourceSlice
from berth.plugins.dynamic_resources.cel import Shape
from berth.plugins.dynamic_resources.ids import DeviceId, PoolId


@dataclass(frozen=True, slots=True, eq=False)
class DeviceRecord:
    """A device, and what is looked at again and again.

    Attributes:
        id: the device.
        device: what its driver says of it.
        slice: the slice that it is in.
        shape: what selectors see of it.
        is_shared: whether several claims can have parts of it.
    """

    id: DeviceId
    device: Device
    slice: ResourceSlice
    shape: Shape
    is_shared: bool


@dataclass(frozen=True, slots=True, eq=False)
class SliceRecord:
    """A slice and its devices."""

    slice: ResourceSlice
    devices: tuple[DeviceRecord, ...]

    @property
    def draws(self) -> bool:
        """Whether one of the devices draws on counters."""
        return any(record.device.consumes_counters for record in self.devices)

    @property
    def pool_id(self) -> PoolId:
        """The pool that it belongs to."""
        return PoolId(self.slice.spec.driver, self.slice.spec.pool.name)

    @property
    def generation(self) -> int:
        """Which version of the pool it describes."""
        return self.slice.spec.pool.generation


@dataclass(frozen=True, slots=True, eq=False)
class Relevant:
    """A slice that concerns a node.

    Attributes:
        record: the slice.
        out_of_reach: the places of those of its devices that the node cannot use.
    """

    record: SliceRecord
    out_of_reach: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A pool as a node sees it.

    Attributes:
        id: the pool.
        is_incomplete: slices are missing; it has no devices then.
        is_invalid: it contradicts itself; it has no devices then.
        devices: those that concern the node, in the order in which they are tried.
        out_of_reach: those among them that the node cannot use.
        others: devices that only other nodes can use, which draw on counters all the same.
        counters: (counter set, counter) -> the amount as written.
    """

    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    devices: tuple[DeviceRecord, ...] = ()
    out_of_reach: frozenset[DeviceId] = frozenset()
    others: tuple[DeviceRecord, ...] = ()
    counters: Mapping[tuple[str, str], str] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether devices can be taken from it."""
        return not (self.is_incomplete or self.is_invalid)


class Candidate(NamedTuple):
    """A device, and the pool that it is in as the node sees it."""

    pool: Pool
    record: DeviceRecord


def gather(
    relevant: Iterable[Relevant], whole: Mapping[PoolId, Sequence[SliceRecord]], *, partitionable: bool
) -> tuple[Pool, ...]:
    """The pools, in the order in which they are tried; those with devices to be prepared come last.

    Args:
        relevant: the slices that concern the node.
        whole: all slices of each pool, wherever they are.
        partitionable: whether counters are looked at.
    """
    newest: dict[PoolId, list[Relevant]] = {}
    for each in relevant:
        pool_id = each.record.pool_id
        slices = newest.setdefault(pool_id, [])
        if slices and each.record.generation > slices[0].record.generation:
            slices.clear()
        if not slices or each.record.generation == slices[0].record.generation:
            slices.append(each)
    pools = [_pool(pool_id, slices, whole.get(pool_id, ()), partitionable) for pool_id, slices in newest.items()]
    return tuple(sorted((pool for pool in pools if pool is not None), key=_order))


def _order(pool: Pool) -> tuple[bool, PoolId]:
    return any(record.device.binding_conditions for record in pool.devices), pool.id


def _pool(pool_id: PoolId, relevant: list[Relevant], whole: Sequence[SliceRecord], partitionable: bool) -> Pool | None:
    """The pool; None if its slices are of a generation that is being replaced."""
    first = relevant[0].record
    count = first.slice.spec.pool.resource_slice_count
    if len(relevant) == count:
        return _checked(pool_id, relevant, (), partitionable)
    if any(record.generation > first.generation for record in whole):
        return None
    current = [record for record in whole if record.generation == first.generation]
    if len(current) != count:
        return Pool(pool_id, is_incomplete=True)
    names = {each.record.slice.metadata.name for each in relevant}
    others = [record for record in current if record.slice.metadata.name not in names]
    return _checked(pool_id, relevant, others, partitionable)


def _checked(pool_id: PoolId, relevant: list[Relevant], others: Sequence[SliceRecord], partitionable: bool) -> Pool:
    invalid = Pool(pool_id, is_invalid=True)
    relevant = sorted(relevant, key=lambda each: each.record.slice.metadata.name)
    holding = [each for each in relevant if not (partitionable and each.record.slice.spec.shared_counters)]
    devices = tuple(record for each in holding for record in each.record.devices)
    if len({record.id for record in devices}) < len(devices):
        return invalid
    out_of_reach = frozenset(each.record.devices[place].id for each in holding for place in each.out_of_reach)
    if not partitionable or not any(each.record.slice.spec.shared_counters or each.record.draws for each in relevant):
        others = [record for record in others if record.draws] if partitionable else []
        return invalid if others else Pool(pool_id, devices=devices, out_of_reach=out_of_reach)
    sets = [each for one in relevant for each in one.record.slice.spec.shared_counters]
    if len({each.name for each in sets}) < len(sets):
        return invalid
    counters = {(each.name, name): counter.value for each in sets for name, counter in each.counters.items()}
    names = {each.name for each in sets}
    elsewhere = tuple(record for other in others for record in other.devices)
    known = (record for one in relevant for record in one.record.devices)
    if not all(_draws_on_known(record.device, counters, names) for group in (known, elsewhere) for record in group):
        return invalid
    return Pool(pool_id, devices=devices, out_of_reach=out_of_reach, others=elsewhere, counters=counters)


def _draws_on_known(device: Device, counters: Mapping[tuple[str, str], str], names: set[str]) -> bool:
    return all(
        draw.counter_set in names and all((draw.counter_set, name) in counters for name in draw.counters)
        for draw in device.consumes_counters
    )
