"""The scheduler with a wall clock that can be set: `python -m tests.chaos.stepped FILE` and the scheduler's flags.

FILE holds by how many seconds the clock is wrong; it is read anew now and then, so that whoever writes to it sets the
clock of the running process. The clock that never goes back is left alone, as it is when an operator sets a clock.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_LOOK_EVERY_S = 0.02


class WrongClock:
    """Time as the file wants it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._true_ns = time.time_ns
        self._looked_s = float("-inf")
        self._wrong_ns = 0

    def time_ns(self) -> int:
        now_s = time.monotonic()
        if now_s - self._looked_s > _LOOK_EVERY_S:
            self._looked_s = now_s
            self._wrong_ns = int(float(self._path.read_text(encoding="utf-8")) * 1e9)
        return self._true_ns() + self._wrong_ns

    def time(self) -> float:
        return self.time_ns() / 1e9


def main() -> None:
    clock = WrongClock(Path(sys.argv.pop(1)))
    time.time_ns, time.time = clock.time_ns, clock.time
    # Imported late, because modules bind the functions of the time module when they are loaded.
    from berth.cli.main import main as berth  # noqa: PLC0415

    sys.exit(berth())


if __name__ == "__main__":
    main()
