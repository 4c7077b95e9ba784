"""What requests take of the capacities of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.devices import a_slice

from berth.api.dra import CapacityRange, CapacityRequestPolicy, Device, DeviceCapacity
from berth.plugins.dynamic_resources.capacity import canonical, has_room, taking
from berth.plugins.dynamic_resources.cel import Shape
from berth.plugins.dynamic_resources.errors import AllocationError
from berth.plugins.dynamic_resources.ids import DeviceId
from berth.plugins.dynamic_resources.pools import DeviceRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

NANO = 10**9
GIBI_STEPS = CapacityRequestPolicy(default="4Gi", valid_range=CapacityRange(min="1Gi", max="16Gi", step="2Gi"))
LISTED = CapacityRequestPolicy(default="2", valid_values=("2", "4", "8"))


def record(policy: CapacityRequestPolicy | None, value: str) -> DeviceRecord:
    device = Device(name="gpu-0", capacity={"memory": DeviceCapacity(value=value, request_policy=policy)})
    return DeviceRecord(DeviceId("d", "p", "gpu-0"), device, a_slice("s", device), Shape("d", device), is_shared=True)


def taken(policy: CapacityRequestPolicy | None, asked: str | None, value: str = "80Gi", **how: bool) -> str | None:
    """What of the memory is taken; None where what is asked for cannot be had."""
    amounts = taking(
        record(policy, value), {} if asked is None else {"memory": asked}, fractional=how.get("milli", True)
    )
    return None if amounts is None else amounts["memory"].text


AMOUNTS: Mapping[str, tuple[CapacityRequestPolicy | None, str | None, str | None]] = {
    "nothing is asked for": (None, None, "80Gi"),
    "nothing is asked for, and there is a default": (GIBI_STEPS, None, "4Gi"),
    "there are no rules": (None, "3500m", "3500m"),
    "it is less than the least": (GIBI_STEPS, "512Mi", "1Gi"),
    "it is between two steps": (GIBI_STEPS, "4Gi", "5Gi"),
    "it is a step": (GIBI_STEPS, "3Gi", "3Gi"),
    "it is more than the most": (GIBI_STEPS, "20Gi", None),
    "it is a value of the list": (LISTED, "4", "4"),
    "it is between two values": (LISTED, "5", "8"),
    "it is more than all values": (LISTED, "9", None),
    "there are no steps": (CapacityRequestPolicy(valid_range=CapacityRange(min="1")), "1500m", "1500m"),
    "steps are decimal": (CapacityRequestPolicy(valid_range=CapacityRange(min="0", step="500")), "1200", "1500"),
    "steps lead to thousands": (CapacityRequestPolicy(valid_range=CapacityRange(min="0", step="500")), "1600", "2k"),
    "steps are fractions": (CapacityRequestPolicy(valid_range=CapacityRange(min="0", step="250m")), "600m", "750m"),
    "the default is between two steps": (
        CapacityRequestPolicy(default="2Gi", valid_range=CapacityRange(min="1Gi", step="2Gi")),
        None,
        "2Gi",
    ),
}


@pytest.mark.parametrize(
    ("policy", "asked", "wanted"), [pytest.param(*case, id=name) for name, case in AMOUNTS.items()]
)
def test_what_is_taken_when(policy: CapacityRequestPolicy | None, asked: str | None, wanted: str | None) -> None:
    assert taken(policy, asked) == wanted


def test_where_fractions_are_not_known_ranges_are_counted_in_whole_units() -> None:
    policy = CapacityRequestPolicy(valid_range=CapacityRange(min="0", step="1500m"))
    assert taken(policy, "1", milli=False) == "2"
    assert taken(policy, "1") == "1500m"


def test_a_device_without_the_capacity_cannot_give_it() -> None:
    assert taking(record(None, "1"), {"slots": "1"}, fractional=True) is None


@pytest.mark.parametrize(
    ("policy", "asked", "value", "text"),
    [
        (None, "much", "1", "device d/p/gpu-0: capacity memory: want a quantity"),
        (None, None, "much", "device d/p/gpu-0: capacity memory: want a quantity"),
        (None, "-1", "1", 'capacity "memory": capacity value is negative'),
        (GIBI_STEPS, "10E", "1", 'capacity "memory": .* request 10E exceeds MaxInt64'),
        (
            CapacityRequestPolicy(valid_range=CapacityRange(min="1", step="8E")),
            "8E",
            "1",
            'capacity "memory": .* rounding request 8E up to the next step passes MaxInt64',
        ),
    ],
)
def test_amounts_that_make_no_sense_are_told(
    policy: CapacityRequestPolicy | None, asked: str | None, value: str, text: str
) -> None:
    with pytest.raises(AllocationError, match=text):
        taken(policy, asked, value)


def test_there_is_room_up_to_the_last_unit() -> None:
    device = record(None, "10")
    wanted = taking(device, {"memory": "4"}, fractional=True)
    assert wanted is not None
    assert has_room(device, wanted, {"memory": 4 * NANO}, {"memory": 2 * NANO})
    assert not has_room(device, wanted, {"memory": 4 * NANO}, {"memory": 3 * NANO})
    assert not has_room(device, wanted, {"memory": 7 * NANO}, None)


@pytest.mark.parametrize(
    ("nano", "is_binary", "text"),
    [
        (0, True, "0"),
        (1536 * NANO, True, "1536"),
        (2048 * NANO, True, "2Ki"),
        (2048 * NANO, False, "2048"),
        (3 * 1024**3 * NANO, True, "3Gi"),
        (1500 * NANO, False, "1500"),
        (2000 * NANO, False, "2k"),
        (NANO // 2, True, "500m"),
        (1, False, "1n"),
    ],
)
def test_amounts_are_written_as_the_api_server_writes_them(nano: int, is_binary: bool, text: str) -> None:
    assert canonical(nano, is_binary=is_binary) == text
