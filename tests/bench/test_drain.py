"""A measurement takes its figures from real servers, and says why when there are none."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from bench.drain import Measurement, MeasurementError, Target, measure
from bench.run import YARDSTICK_COMMAND, filled_in, report, scheduler_configuration
from bench.usage import usage_of
from tests.support.controlplane import free_ports

from bench import run, workload

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.client import ApiClient
    from tests.support.controlplane import ControlPlane


def a_target(plane: ControlPlane, timeout_s: float = 60.0) -> Target:
    return Target(
        server=plane.server,
        token=plane.token_of("admin"),
        ca_file=plane.ca_file,
        process_group=plane.process_group,
        timeout_s=timeout_s,
    )


@pytest.mark.usefixtures("real_api")
async def test_the_reference_is_measured_to_its_last_pod(control_plane: ControlPlane, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = filled_in(
        YARDSTICK_COMMAND, assets=control_plane.assets, config=scheduler_configuration(control_plane), port=port
    )
    basic = workload.load("basic", nodes=3, pods=20)
    figures = await measure(basic, command, a_target(control_plane), tmp_path / "log")
    assert figures.pods_per_s > figures.pods_per_s_since_start > 0
    assert figures.rss_mib > 10
    assert all("nodeName" in pod["spec"] for pod in control_plane.client().items("/api/v1/pods"))


async def test_a_scheduler_that_ends_early_is_reported_with_its_log(
    control_plane: ControlPlane, real_api: ApiClient, tmp_path: Path
) -> None:
    basic = workload.load("basic", nodes=1, pods=2)
    command = [sys.executable, "-c", "raise SystemExit('no such luck')"]
    with pytest.raises(MeasurementError, match="ended with 1, with 0 of 2 pods dealt with\nno such luck"):
        await measure(basic, command, a_target(control_plane), tmp_path / "log")
    assert len(real_api.items("/api/v1/pods")) == 2


@pytest.mark.usefixtures("real_api")
async def test_a_scheduler_that_does_nothing_is_given_up(control_plane: ControlPlane, tmp_path: Path) -> None:
    basic = workload.load("basic", nodes=1, pods=2)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with pytest.raises(MeasurementError, match=r"not done after 0.2 s, with 0 of 2"):
        await measure(basic, command, a_target(control_plane, timeout_s=0.2), tmp_path / "log")


def test_the_report_sets_medians_side_by_side() -> None:
    def figures(rate: float) -> Measurement:
        return Measurement(pods_per_s=rate, pods_per_s_since_start=rate / 2, cpu_ms_per_pod=2.0, rss_mib=80.0)

    rounds = {"berth": [figures(300.0), figures(900.0), figures(400.0)], run.YARDSTICK: [figures(200.0)]}
    lines = [line.split() for line in report(rounds).splitlines()]
    assert lines[1:] == [
        ["berth", "400.0", "200.0", "2.0", "80.0"],
        ["kube-scheduler", "200.0", "100.0", "2.0", "80.0"],
        ["ratio", "2.00", "2.00", "1.00", "1.00"],
    ]


def test_the_usage_of_this_process_is_not_nothing() -> None:
    assert usage_of(os.getpid()).rss_kib > 1000
