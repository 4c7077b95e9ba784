"""The token bucket, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from tests.kube.builders import SkippedTime

from berth.kube.clock import Clock
from berth.kube.pacing import TokenBucket


async def waits(bucket: TokenBucket, time: SkippedTime, calls: int) -> list[float]:
    for _ in range(calls):
        await bucket.acquire()
    return [round(slept, 6) for slept in time.slept_s]


async def test_a_burst_passes_at_once_and_the_rest_at_the_rate() -> None:
    time = SkippedTime()
    bucket = TokenBucket(50, 100, clock=time.clock)
    assert await waits(bucket, time, 100) == []
    assert await waits(bucket, time, 2) == [0.02, 0.02]


async def test_callers_at_the_same_moment_queue_behind_each_other() -> None:
    asked: list[float] = []

    async def sleep(delay_s: float) -> None:
        asked.append(round(delay_s, 6))

    bucket = TokenBucket(10, 1, clock=Clock(monotonic=lambda: 5.0, sleep=sleep))
    await asyncio.gather(*[bucket.acquire() for _ in range(4)])
    assert asked == [0.1, 0.2, 0.3]


async def test_a_rest_refills_the_bucket_up_to_the_burst() -> None:
    time = SkippedTime()
    bucket = TokenBucket(10, 3, clock=time.clock)
    await waits(bucket, time, 3)
    time.now_s += 1000
    assert await waits(bucket, time, 4) == [0.1]


async def test_a_negative_rate_sets_no_limit() -> None:
    time = SkippedTime()
    assert await waits(TokenBucket(-1, 0, clock=time.clock), time, 1000) == []


async def test_zeros_mean_five_per_second_and_ten_at_once() -> None:
    time = SkippedTime()
    assert await waits(TokenBucket(0, 0, clock=time.clock), time, 11) == [0.2]


async def test_a_cancelled_caller_gives_its_token_back() -> None:
    bucket = TokenBucket(10, 1, clock=Clock(monotonic=lambda: 5.0))
    await bucket.acquire()
    task = asyncio.create_task(bucket.acquire())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bucket._tokens == 0
