"""Time stamps and backoff."""

from __future__ import annotations

import pytest
from tests.kube.builders import SkippedTime

from berth.kube.clock import Backoff, Clock, micro_time, second_time, steady

STAMPS = {
    "the epoch": (0, "1970-01-01T00:00:00.000000Z", "1970-01-01T00:00:00Z"),
    "nanoseconds are cut off": (1_767_323_045_123_456_999, "2026-01-02T03:04:05.123456Z", "2026-01-02T03:04:05Z"),
}


@pytest.mark.parametrize(("wall_ns", "micro", "second"), STAMPS.values(), ids=STAMPS.keys())
def test_time_stamps(wall_ns: int, micro: str, second: str) -> None:
    assert (micro_time(wall_ns), second_time(wall_ns)) == (micro, second)


def test_delays_grow_to_a_cap_and_start_over() -> None:
    backoff = Backoff(initial_s=1, cap_s=5, clock=SkippedTime().clock)
    assert [backoff.next_delay_s() for _ in range(4)] == [1, 2, 4, 5]
    backoff.reset()
    assert backoff.next_delay_s() == 1


def test_jitter_stretches_a_delay() -> None:
    backoff = Backoff(initial_s=1, cap_s=5, jitter=0.5, clock=SkippedTime(chance=0.5).clock)
    assert backoff.next_delay_s() == 1.25


async def test_a_wait_is_at_least_as_long_as_asked() -> None:
    time = SkippedTime()
    backoff = Backoff(initial_s=1, cap_s=5, clock=time.clock)
    await backoff.wait(at_least_s=3)
    await backoff.wait(at_least_s=0.1)
    assert time.slept_s == [3, 2]


@pytest.mark.parametrize("step_s", [3600, -3600], ids=["forward", "back"])
def test_a_steady_clock_goes_on_when_the_wall_clock_is_set(step_s: int) -> None:
    passed_s, wrong_s = 100.0, 0.0
    clock = Clock(monotonic=lambda: passed_s, wall_ns=lambda: int((1_000 + passed_s + wrong_s) * 1e9))
    even = steady(clock)
    passed_s, wrong_s = 101.5, float(step_s)
    assert even.wall_ns() == 1_101_500_000_000
    assert even.monotonic() == 101.5
