"""Devices that have to be made ready before a pod can use them: whether they are, failed, or took too long.

A driver can name conditions that must become true of a device once it is given to a claim, and such that must not.  It
reports them in the claim's status.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``isClaimReadyForBinding`` and
``isClaimTimeout``; KEP-5007.
"""

import datetime as dt
import enum
from typing import NamedTuple

from berth.api.dra import AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim
from berth.api.meta import Condition

_TRUE = "True"


class State(enum.Enum):
    """How far the devices of a claim are."""

    READY = enum.auto()
    PENDING = enum.auto()
    FAILED = enum.auto()


class Readiness(NamedTuple):
    """How far the devices of a claim are, and what failed if something did."""

    state: State
    fault: str = ""


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether some device of *claim* has to be made ready."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def readiness(claim: ResourceClaim) -> Readiness:
    """How far the devices of *claim* are."""
    allocation = claim.status.allocation
    if allocation is None:
        return Readiness(State.PENDING)
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        reported = _reported(claim, result)
        if reported is None:
            return Readiness(State.PENDING)
        failed = next((each for name in result.binding_failure_conditions if (each := _true(reported, name))), None)
        if failed is not None:
            fault = f'claim={claim.metadata.name}, reason={failed.reason}, message="{failed.message}"'
            return Readiness(State.FAILED, f"device binding failed: {fault}")
        if any(_true(reported, name) is None for name in result.binding_conditions):
            return Readiness(State.PENDING)
    return Readiness(State.READY)


def is_too_late(claim: ResourceClaim, timeout_s: float, now_s: float) -> bool:
    """Whether the devices of *claim* have had more than *timeout_s* seconds to be made ready."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    return seconds_of(allocation.allocation_timestamp) + timeout_s < now_s


def seconds_of(timestamp: str) -> float:
    """Seconds since 1970."""
    return dt.datetime.fromisoformat(timestamp).timestamp()


def timestamp_of(seconds: float) -> str:
    """The same, as objects have it: whole seconds in UTC."""
    return dt.datetime.fromtimestamp(int(seconds), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reported(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> AllocatedDeviceStatus | None:
    wanted = result.driver, result.pool, result.device, result.share_id
    return next(
        (each for each in claim.status.devices if (each.driver, each.pool, each.device, each.share_id) == wanted), None
    )


def _true(reported: AllocatedDeviceStatus, name: str) -> Condition | None:
    return next((each for each in reported.conditions if each.type == name and each.status == _TRUE), None)
