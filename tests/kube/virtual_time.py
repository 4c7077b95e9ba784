"""An event loop whose time is virtual: it jumps to the next timer whenever nothing else is left to do.

Sleeps and timeouts of any length cost nothing and end in exactly the right order. There must be no real I/O.
"""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from berth.kube.clock import Clock

P = ParamSpec("P")

EPOCH_NS = 1_700_000_000_000_000_000


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: what it is asked to wait is added to `now_s` instead."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits for something that will never happen")
        if not ready and timeout:
            self.now_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self.jumping = _JumpingSelector()
        super().__init__(self.jumping)

    def time(self) -> float:
        return self.jumping.now_s


def run_in_virtual_time(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Make an async test a plain one that runs on a loop of its own, in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        run_in_virtual_time(test(*args, **kwargs))

    return run


def loop_clock(chance: Callable[[], float] = lambda: 0.5) -> Clock:
    """A clock that follows the running loop."""
    loop = asyncio.get_running_loop()
    return Clock(
        monotonic=loop.time, wall_ns=lambda: EPOCH_NS + int(loop.time() * 1e9), sleep=asyncio.sleep, chance=chance
    )
