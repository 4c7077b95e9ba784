"""Time and chance for this package, as one value that is handed to every constructor.

Waiting loops take their clock, their sleep and their jitter from a `Clock`, so that tests run them in virtual time and
with chosen chance. Timeouts of a single request are the event loop's own.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The four things a waiting loop needs.

    Attributes:
        monotonic: seconds that never go backwards; only differences mean something.
        wall_ns: nanoseconds since 1970 in UTC, for time stamps that others read.
        sleep: waits that many seconds.
        chance: the next number in [0, 1), for jitter.
    """

    monotonic: Callable[[], float] = time.monotonic
    wall_ns: Callable[[], int] = time.time_ns
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random


SYSTEM_CLOCK = Clock()


def steady(clock: Clock) -> Clock:
    """*clock* with a wall clock that goes on from now at an even pace, whatever becomes of the machine's.

    For durations that are measured in wall time and must not grow or shrink when an operator, or a time service, sets
    the clock. What others read is stamped with the clock itself.
    """
    began_s, began_ns = clock.monotonic(), clock.wall_ns()
    return replace(clock, wall_ns=lambda: began_ns + round((clock.monotonic() - began_s) * 1e9))


def micro_time(wall_ns: int) -> str:
    """A MicroTime: RFC 3339 in UTC with six fractional digits.

    Source: k8s apimachinery pkg/apis/meta/v1/micro_time.go.
    """
    return (_EPOCH + timedelta(microseconds=wall_ns // 1000)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def second_time(wall_ns: int) -> str:
    """A Time: RFC 3339 in UTC, whole seconds.

    Source: k8s apimachinery pkg/apis/meta/v1/time.go.
    """
    return (_EPOCH + timedelta(seconds=wall_ns // 1_000_000_000)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Backoff:
    """Exponentially growing, jittered delays.

    The n-th delay is `initial_s * factor**n`, at most `cap_s`, stretched by up to `jitter` of itself.
    """

    def __init__(
        self, *, initial_s: float, cap_s: float, factor: float = 2.0, jitter: float = 1.0, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._initial_s = initial_s
        self._cap_s = cap_s
        self._factor = factor
        self._jitter = jitter
        self._clock = clock
        self._next_s = initial_s

    def reset(self) -> None:
        """Start over: things went well."""
        self._next_s = self._initial_s

    def next_delay_s(self) -> float:
        """The delay to wait now, in seconds; the next one will be longer."""
        delay_s = self._next_s
        self._next_s = min(delay_s * self._factor, self._cap_s)
        return delay_s * (1.0 + self._jitter * self._clock.chance())

    async def wait(self, at_least_s: float | None = None) -> None:
        """Sleep for the next delay, or for *at_least_s* (a Retry-After) where that is longer."""
        delay_s = self.next_delay_s()
        await self._clock.sleep(max(delay_s, at_least_s or 0.0))
