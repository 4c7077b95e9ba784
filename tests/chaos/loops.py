"""An event loop on a thread of its own, for what runs beside a test that blocks."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

from berth.runtime.tasks import end

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_CALL_S = 60.0


class LoopThread:
    """The loop, from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name)

    def start(self) -> None:
        self._thread.start()

    def call(self, work: Coroutine[None, None, T]) -> T:
        """Do *work* on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_CALL_S)

    def stop(self) -> None:
        """Cancel what still runs, and end."""
        self.call(_end_all())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


async def _end_all() -> None:
    await end(*(asyncio.all_tasks() - {asyncio.current_task()}))
