"""`python -m tests.requeue`: all scenarios, one line of figures, exit code 1 if a pod slept on or was woken in vain."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.controlplane import build
from tests.chaos.clusters import cluster_named
from tests.requeue.runner import Stand
from tests.requeue.table import TABLE
from tests.support.client import ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.requeue.steps import Scenario


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.requeue", description="What wakes a pod, and what must not.")
    parser.add_argument("--server", action="append", choices=("embedded", "real"), help="both unless given")
    parser.add_argument("--only", default="", help="scenarios with this in their names")
    parser.add_argument("--kubernetes", default=build.DEFAULT_MINOR, help="minor version of the real API server")
    arguments = parser.parse_args(words)
    began_s, failed, done = time.monotonic(), 0, 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-requeue-")))
        for server in arguments.server or ("embedded", "real"):
            logs = folder / server
            logs.mkdir()
            stand = Stand(stack.enter_context(cluster_named(server, logs, arguments.kubernetes)), logs)
            stack.callback(stand.close)
            for name, scenario in TABLE.items():
                if arguments.only not in name:
                    continue
                done += 1
                failed += _failed(stand, server, name, scenario)
    took_s = time.monotonic() - began_s
    print(f"requeue: {done} scenarios in {took_s:.0f} s, {done - failed} as they should be, {failed} violations")
    return 1 if failed else 0


def _failed(stand: Stand, server: str, name: str, scenario: Scenario) -> bool:
    try:
        stand.run(scenario)
    except (AssertionError, ApiError) as violation:
        print(f"  {name} ({server}): {violation}")
        print(f"    repeat: make requeue ARGS='--server {server} --only \"{name}\"'", flush=True)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
