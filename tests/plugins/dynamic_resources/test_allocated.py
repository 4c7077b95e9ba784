"""Which devices count as taken while claims come, change and go."""

from __future__ import annotations

import pytest
from tests.devices import DRIVER, a_device_claim, a_result, an_allocation

from berth.api.dra import ResourceClaim
from berth.plugins.dynamic_resources.allocated import AllocatedState
from berth.plugins.dynamic_resources.ids import DeviceId, PoolId

NANO = 10**9
GPU = DeviceId(DRIVER, "pool", "gpu-0")


def having(name: str, **result: object) -> ResourceClaim:
    return a_device_claim(name, allocation=an_allocation(a_result("gpu-0", **result)))  # type: ignore[arg-type]  # fields


def test_a_device_is_taken_until_no_claim_has_it() -> None:
    promised, written = having("promised"), having("written")
    state = AllocatedState.of([promised])
    state.change(None, written)
    state.change(promised, None)
    assert state.is_taken(GPU)
    state.change(written, a_device_claim("written"))
    assert not state.is_taken(GPU)
    assert not state.is_allocated(GPU)


def test_a_device_that_a_claim_only_looks_at_does_not_count() -> None:
    assert not AllocatedState.of([having("admin", admin_access=True)]).is_allocated(GPU)


def test_parts_of_a_device_add_up_each_once() -> None:
    one = having("one", share_id="a", consumed_capacity={"memory": "1500m"})
    again = having("again", share_id="a", consumed_capacity={"memory": "1500m"})
    other = having("other", share_id="b", consumed_capacity={"memory": "2"})
    state = AllocatedState.of([one, again, other])
    assert state.consumed(GPU) == {"memory": 7 * NANO // 2}
    assert not state.is_taken(GPU)
    assert state.is_allocated(GPU)
    state.remove(one)
    assert state.consumed(GPU) == {"memory": 7 * NANO // 2}
    state.remove(again)
    assert state.consumed(GPU) == {"memory": 2 * NANO}
    state.remove(other)
    assert not state.is_consumed(GPU)
    assert not state.is_allocated(GPU)


def test_a_part_of_nothing_is_a_part_all_the_same() -> None:
    state = AllocatedState.of([having("one", share_id="a")])
    assert state.is_allocated(GPU)
    assert not state.is_consumed(GPU)


def test_an_amount_that_is_no_quantity_is_told_and_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    claim = having("one", share_id="a", consumed_capacity={"memory": "much", "slots": "1"})
    state = AllocatedState.of([claim])
    assert state.consumed(GPU) == {"slots": NANO}
    assert "a claim consumes capacity memory of device gpu.example.com/pool/gpu-0: want a quantity" in caplog.text
    state.remove(claim)
    assert not state.is_allocated(GPU)


def test_the_version_of_a_pool_grows_with_its_devices_alone() -> None:
    state = AllocatedState()
    told: list[PoolId] = []
    state.listen(told.append)
    pools = [GPU.pool_id, PoolId(DRIVER, "other")]
    before = state.versions(pools)
    claim = having("one")
    state.change(None, claim)
    state.change(claim, claim)
    assert told == [GPU.pool_id]
    assert [after > earlier for earlier, after in zip(before, state.versions(pools), strict=True)] == [True, False]
