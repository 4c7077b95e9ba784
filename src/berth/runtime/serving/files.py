"""Noticing that a file has changed: one cheap look at a time."""

import os
from typing import Final

FILE_CHECK_INTERVAL_S: Final = 10.0
"""How often files are looked at."""


def stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when the file does, also behind a symbolic link; None while it is missing."""
    try:
        stat = os.stat(path)  # noqa: PTH116 -- on a timer, for plain strings
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
