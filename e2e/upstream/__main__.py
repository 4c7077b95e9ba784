"""``make e2e-upstream``: the reference's own end-to-end suite with Berth, and with kube-scheduler beside it.

    python -m e2e.upstream --k8s 1.37 --scheduler both --focus '\\[sig-scheduling\\]'

Builds what is missing, runs the selected specs with each scheduler in a cluster of its own, prints a table, and leaves
``results.json``, ``junit.xml`` and all logs in a folder. Exit codes: 0 Berth passes every spec that kube-scheduler
passes (with one scheduler: every spec passed) and is not much slower, 1 it does not or something broke, 2 bad input.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.controlplane import build as controlplane
from e2e.gobuild import AssetsError
from e2e.upstream import build, report
from e2e.upstream.cluster import SCHEDULERS
from e2e.upstream.selections import FOCUS, QUICK, SKIP, WIDE, Selection
from e2e.upstream.suite import SuiteError, run_suite
from tests.support.controlplane import ControlPlaneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from e2e.upstream.report import Run

BOTH = "both"


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="e2e.upstream", description="The reference's own end-to-end suite.")
    parser.add_argument(
        "--k8s", default=controlplane.DEFAULT_MINOR, choices=controlplane.minors(), help="of Kubernetes"
    )
    parser.add_argument("--scheduler", default=BOTH, choices=(*SCHEDULERS, BOTH), help="%(default)s if absent")
    parser.add_argument("--focus", default=FOCUS, help="specs whose names match; %(default)s if absent")
    parser.add_argument("--skip", default=SKIP, help="but not those; %(default)s if absent")
    several = parser.add_mutually_exclusive_group()
    several.add_argument("--quick", action="store_true", help="the conformance specs of less than a minute, no others")
    several.add_argument("--wide", action="store_true", help="specs of workloads, devices and volumes instead")
    parser.add_argument("--folder", type=Path, default=Path("build/e2e-upstream"), help="for results and logs")
    parser.add_argument("--together", action="store_true", help="both schedulers at the same time: sooner, less exact")
    parser.add_argument("--build-only", action="store_true", help="build what is missing and stop")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    options = parse(words)
    try:
        assets, program = controlplane.ensure(options.k8s), build.ensure(options.k8s)
        if options.build_only:
            print(program)
            return 0
        runs = _run_all(options, program, assets)
    except AssetsError as error:
        print(f"e2e-upstream: {error}", file=sys.stderr)
        return error.exit_code
    except (ControlPlaneError, SuiteError, TimeoutError, report.ReportError) as error:
        print(f"e2e-upstream: {error}", file=sys.stderr)
        return 1
    return _tell(options, runs)


def _run_all(options: argparse.Namespace, program: Path, assets: Path) -> list[Run]:
    """Berth comes first in the table, and last in time: the yardstick shows first whether the cluster is in order."""
    names = SCHEDULERS if options.scheduler == BOTH else (options.scheduler,)
    selection = selection_of(options)
    folder = options.folder.resolve() / options.k8s

    def run(name: str) -> Run:
        print(f"e2e-upstream: running with {name}; its log is {folder / name / 'e2e.log'}", file=sys.stderr, flush=True)
        return run_suite(program, assets, name, selection, folder / name)

    with ThreadPoolExecutor(max_workers=len(names) if options.together else 1) as pool:
        done = dict(zip(reversed(names), pool.map(run, reversed(names)), strict=True))
    return [done[name] for name in names]


def selection_of(options: argparse.Namespace) -> Selection:
    """Which specs the command line asks for."""
    if options.quick:
        return QUICK
    return WIDE if options.wide else Selection(focus=options.focus, skip=options.skip)


def _tell(options: argparse.Namespace, runs: Sequence[Run]) -> int:
    folder = options.folder.resolve() / options.k8s
    kubernetes = build.suite(options.k8s).kubernetes
    report.write_json(folder / "results.json", kubernetes, runs)
    report.write_junit(folder / "junit.xml", runs)
    print(f"Kubernetes {kubernetes}, specs {selection_of(options).focus}\n{report.table(runs)}")
    missing = report.shortfalls(runs)
    for line in missing:
        print(f"SHORT: {line}")
    print(f"e2e-upstream: {'falls short' if missing else 'all well'}; results.json and junit.xml are in {folder}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
