"""The chaos suites with one seed: a part of what `make chaos` runs, on both API servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.__main__ import main, run_suite
from tests.chaos.stage import Figures
from tests.chaos.suites import SUITES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.clusters import Cluster, RealCluster

pytestmark = pytest.mark.timeout(300)

SEED = 7
ON_THE_REAL_ONE_ONLY = (
    *("server_restarted", "forgotten_past", "leader_cut_off", "leader_cannot_renew", "clock_steps", "nodes_come_back"),
    *("evictions_fail", "devices_under_errors"),
)
ON_BOTH = tuple(name for name in SUITES if name not in ON_THE_REAL_ONE_ONLY)


@pytest.mark.parametrize("suite", ON_BOTH)
def test_nothing_is_lost_and_nothing_done_twice(suite: str, cluster: Cluster, tmp_path: Path) -> None:
    found = run_suite(suite, cluster, tmp_path, SEED)
    assert found.violations == []
    assert found.bindings > 0
    assert found.faults > 0


@pytest.mark.parametrize("suite", ON_THE_REAL_ONE_ONLY)
def test_nothing_is_lost_on_the_real_server(suite: str, chaos_real: RealCluster, tmp_path: Path) -> None:
    found = run_suite(suite, chaos_real, tmp_path, SEED)
    assert found.violations == []
    assert found.bindings > 0


def test_a_violation_is_told_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Figures(pods=3, bindings=2, faults=1, recovered_s=1.5, violations=["pod web would fit on node"])
    monkeypatch.setattr("tests.chaos.__main__.run_suite", lambda *_: found)
    assert main(["--seed", "5", "--server", "embedded", "--suite", "rough_network"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "    pod web would fit on node"
    assert lines[2] == "    repeat: make chaos SEED=5 ARGS='--server embedded --suite rough_network'"
    assert lines[3].startswith("chaos seed=5: 1 suites in ")
    assert lines[3].endswith("3 pods, 2 bindings judged, 1 faults, slowest recovery 1.5 s, 1 violations")
