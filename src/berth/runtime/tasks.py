"""Tasks that run side by side: starting, counting and ending them in an orderly way."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel *tasks* and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Crowd:
    """Tasks of one sort, any number at a time.

    Args:
        on_end: called after each, however it ended.
    """

    def __init__(self, on_end: Callable[[], None] = lambda: None) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        self._on_end = on_end

    def __len__(self) -> int:
        """How many are under way."""
        return len(self._tasks)

    @property
    def fault(self) -> BaseException | None:
        """The first exception that ended one of them: a bug; None as long as there is none."""
        return self._fault

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start another one."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def finish(self) -> None:
        """Wait until those that are under way now have come to their end; being cancelled leaves them at it."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def cancel(self) -> None:
        """Stop them all, and wait until they have stopped."""
        await end(*self._tasks)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = self._fault or task.exception()
        self._on_end()
