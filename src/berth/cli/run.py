"""`berth run`: the scheduler."""

import asyncio
import sys
from collections.abc import Sequence

from berth.cli.flags import EarlyExit, parse_flags
from berth.kube.errors import KubeError
from berth.runtime.app import run as run_scheduler
from berth.runtime.faults import StartError
from berth.runtime.logs import configure


def run(arguments: Sequence[str]) -> int:
    """Schedule pods until told to stop; returns the exit code."""
    try:
        options = parse_flags(arguments, "berth")
    except EarlyExit as early:
        sys.stdout.write(early.stdout)
        sys.stderr.write(early.stderr)
        return early.code
    try:
        return asyncio.run(run_scheduler(options, configure(options)))
    except (StartError, KubeError) as fault:
        print(f"Error: {fault}", file=sys.stderr)
        return 1
