"""Ending tasks in an orderly way; used by everything here that runs several side by side."""

import asyncio
from typing import Any


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel *tasks* and wait until they have ended, however they do."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
