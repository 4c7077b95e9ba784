"""`python -m tests.soak --minutes N`: churn on a rough network, one line of figures, exit code 1 if anything grows.

The oracle judges all the while, and in the end no pod may wait in vain.
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
from tests.chaos.faults import Rates
from tests.chaos.stage import Stage
from tests.requeue.runner import Metrics
from tests.soak.churn import Churn
from tests.soak.growth import Sample, faults, growth, log_bytes_per_minute, look
from tests.support.controlplane import free_ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.scheduler import SchedulerProcess

SAMPLES = 60
STEP_S = 0.2
BUMPY = Rates(delay=0.02, refuse=0.01, after_commit=0.005, cut_after=0.005, duplicate=0.01, end=0.002)


def soak(stage: Stage, minutes: float) -> list[Sample]:
    """Churn for so long, and look at the scheduler now and then."""
    (port,) = free_ports(1)
    flags = (f"--secure-port={port}", "--bind-address=127.0.0.1", "--authorization-always-allow-paths=/metrics")
    churn = Churn(stage)
    churn.begin()
    scheduler = stage.start(flags=(*flags, "--self-audit-period=20s")).wait_synced()
    stage.plan.rates = BUMPY
    metrics = Metrics(port)
    began_s, samples = time.monotonic(), list[Sample]()
    while (passed_s := time.monotonic() - began_s) < minutes * 60:
        churn.step()
        stage.oracle.pump()
        if passed_s >= len(samples) * minutes * 60 / SAMPLES:
            samples.append(_sample(scheduler, metrics, passed_s))
        time.sleep(STEP_S)
    if different := metrics.total("berth_self_audit_differences_total"):
        stage.broken.append(f"the self-audit found {different:g} differences")
    metrics.close()
    return samples


def _sample(scheduler: SchedulerProcess, metrics: Metrics, at_s: float) -> Sample:
    return look(scheduler.pid, at_s=at_s, tasks=int(metrics.total("go_goroutines")), log=scheduler.log)


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Churn, and nothing grows.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", choices=("embedded", "real"), default="real")
    parser.add_argument("--kubernetes", default=build.DEFAULT_MINOR, help="minor version of the real API server")
    arguments = parser.parse_args(words)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-soak-")))
        cluster = stack.enter_context(cluster_named(arguments.server, folder, arguments.kubernetes))
        stage = stack.enter_context(Stage(cluster, folder, arguments.seed))
        samples = soak(stage, arguments.minutes)
        figures = stage.finish()
    violations = [*figures.violations, *faults(samples)]
    for violation in violations:
        print(f"  {violation}")
    print(
        f"soak seed={arguments.seed}: {arguments.minutes:g} min on the {arguments.server} server,"
        f" {figures.bindings} bindings judged, {figures.faults} faults, {samples[-1].memory_kib / 1024:.0f} MiB"
        f" ({growth(samples, 'memory_kib') / 1024:+.1f}), {samples[-1].open_files} files"
        f" ({growth(samples, 'open_files'):+g}), {samples[-1].tasks} tasks ({growth(samples, 'tasks'):+g}),"
        f" log {log_bytes_per_minute(samples) / 1024:.1f} KiB/min, {len(violations)} violations"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
