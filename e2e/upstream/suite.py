"""Runs ``e2e.test`` against a cluster and gives back how each spec ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from e2e.upstream.cluster import UpstreamCluster
from e2e.upstream.report import Run, read_outcomes
from tests.support.controlplane import ServerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.upstream.selections import Selection

POLL_S = 1.0
SEED = 1  # of the order of the specs: the same with every scheduler


class SuiteError(Exception):
    """The suite ended without a report; the text holds the end of its log."""


def run_suite(program: Path, assets: Path, scheduler: str, selection: Selection, folder: Path) -> Run:
    """The specs, one after the other, in a new cluster with *scheduler*.

    Args:
        program: ``e2e.test``.
        assets: the folder with the servers' binaries.
        scheduler: one of ``cluster.SCHEDULERS``.
        selection: which specs.
        folder: where logs and reports go; made if need be.

    Raises:
        SuiteError: there is no report.
        ControlPlaneError: a server or the scheduler ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "ginkgo.json"
    report.unlink(missing_ok=True)
    with UpstreamCluster(assets, scheduler, folder) as cluster:
        command = [
            str(program),
            "--provider=skeleton",
            f"--kubeconfig={cluster.plane.admin_kubeconfig}",
            f"--kubectl-path={assets / 'kubectl'}",
            f"--ginkgo.focus={selection.focus}",
            f"--ginkgo.skip={selection.skip}",
            f"--ginkgo.seed={SEED}",
            f"--ginkgo.json-report={report}",
            "--ginkgo.no-color",
            "--ginkgo.v",  # every step with its time: what a spec that failed is understood by
            "--dump-logs-on-failure=false",  # there are no containers to get logs from
        ]
        started = time.monotonic()
        suite = ServerProcess("e2e.test", command, folder / "e2e.log", cluster.plane.process_group)
        try:
            while suite.is_running:
                cluster.check()
                time.sleep(POLL_S)
        finally:
            suite.kill()
        took_s = time.monotonic() - started
    if not report.exists():
        raise SuiteError(f"the suite left no report\n{suite.log_tail()}")
    outcomes, trouble = read_outcomes(report.read_text(encoding="utf-8"))
    return Run(scheduler=scheduler, outcomes=tuple(outcomes), seconds=took_s, trouble=trouble)
