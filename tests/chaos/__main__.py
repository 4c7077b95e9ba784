"""`python -m tests.chaos --seed N`: all chaos suites, one line of figures, exit code 1 on any violation.

Whatever is left to chance comes from the seed; a run that fails prints the command that repeats it.
"""

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
from tests.chaos.stage import Figures, Stage
from tests.chaos.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.clusters import Cluster


def run_suite(name: str, cluster: Cluster, folder: Path, seed: int) -> Figures:
    """Run one suite on an empty cluster, which is empty again afterwards."""
    with Stage(cluster, folder, seed) as stage:
        try:
            SUITES[name](stage)
            return stage.finish()
        finally:
            stage.clear()


def command(seed: int, server: str, suite: str) -> str:
    """What repeats one suite."""
    return f"make chaos SEED={seed} ARGS='--server {server} --suite {suite}'"


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    arguments = _parser().parse_args(words)
    began_s = time.monotonic()
    totals: list[Figures] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-chaos-")))
        for server in arguments.server or ("embedded", "real"):
            cluster = stack.enter_context(cluster_named(server, folder, arguments.kubernetes))
            for name in arguments.suite or SUITES:
                logs = folder / f"{server}-{name}"
                logs.mkdir()
                figures = run_suite(name, cluster, logs, arguments.seed)
                totals.append(figures)
                _tell(name, server, arguments.seed, figures)
    violations = sum(len(figures.violations) for figures in totals)
    print(
        f"chaos seed={arguments.seed}: {len(totals)} suites in {time.monotonic() - began_s:.0f} s,"
        f" {sum(each.pods for each in totals)} pods, {sum(each.bindings for each in totals)} bindings judged,"
        f" {sum(each.faults for each in totals)} faults,"
        f" slowest recovery {max((each.recovered_s for each in totals), default=0):.1f} s, {violations} violations"
    )
    return 1 if violations else 0


def _tell(name: str, server: str, seed: int, figures: Figures) -> None:
    print(
        f"  {name} ({server}): {figures.pods} pods, {figures.bindings} bindings, {figures.faults} faults,"
        f" recovered within {figures.recovered_s:.1f} s, {len(figures.violations)} violations",
        flush=True,
    )
    for what, took_s in figures.took.items():
        print(f"    {what}: {took_s:.1f} s")
    for violation in figures.violations:
        print(f"    {violation}")
    if figures.violations:
        print(f"    repeat: {command(seed, server, name)}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Nothing is lost, whatever happens.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", action="append", choices=("embedded", "real"), help="both unless given")
    parser.add_argument("--suite", action="append", choices=sorted(SUITES), help="all unless given")
    parser.add_argument("--kubernetes", default=build.DEFAULT_MINOR, help="minor version of the real API server")
    return parser


if __name__ == "__main__":
    sys.exit(main())
