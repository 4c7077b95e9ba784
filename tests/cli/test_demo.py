"""`berth demo`: once from end to end, as a newcomer runs it; and its parts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from berth.cli.demo import NODES, demo, demo_nodes

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 90
WORKLOADS: list[dict[str, Any]] = yaml.safe_load(
    files("berth.cli").joinpath("demo_workloads.yaml").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Shown:
    """What one run of the demo printed, and how it ended after it was asked to."""

    text: str
    exit_code: int
    group: int
    kubeconfig: Path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The demo, kept running until it has shown everything; it runs once for all tests."""
    folder = tmp_path_factory.mktemp("demo")
    with subprocess.Popen(
        [sys.executable, "-m", "berth", "demo", "--keep"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "120"},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C ends them" in line:
                break
        process.send_signal(signal.SIGTERM)
        code = process.wait(DEADLINE_S)
    return Shown("".join(lines), code, process.pid, folder / ".berth" / "kubeconfig")


def test_it_ends_well_with_all_that_it_started(shown: Shown) -> None:
    assert shown.exit_code == 0, shown.text
    until = time.monotonic() + DEADLINE_S
    while _group_lives(shown.group) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _group_lives(shown.group)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_shows_where_the_pods_of_each_workload_went(shown: Shown) -> None:
    for workload in WORKLOADS:
        (row,) = [line for line in shown.text.splitlines() if line.startswith("│") and workload["title"][:30] in line]
        cells = [cell.strip() for cell in row.split("│")[1:]]
        placed = 0 if workload["title"] == "larger than any node" else workload["replicas"]
        assert cells[1:3] == [str(workload["replicas"]), str(placed)]


def test_it_tells_why_the_one_pod_that_fits_nowhere_waits(shown: Shown) -> None:
    (line,) = [line for line in shown.text.splitlines() if "giant waits:" in line]
    assert re.search(r"0/50 nodes are available: .*Insufficient cpu.*Insufficient memory", line)


def test_it_tells_how_to_look_for_oneself(shown: Shown) -> None:
    assert re.search(
        r"API server at http://127\.0\.0\.1:\d+; kubectl --kubeconfig \.berth/kubeconfig get nodes", shown.text
    )
    assert shown.kubeconfig.exists()


def test_a_kubeconfig_that_cannot_be_written_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert demo([f"--kubeconfig={tmp_path / 'file' / 'kubeconfig'}"]) == 1
    signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr().err.startswith("Error: ")


def test_a_few_of_the_nodes_are_a_tainted_pool() -> None:
    nodes = demo_nodes()
    pool = [node for node in nodes if node.taints]
    assert (len(nodes), len(pool)) == (NODES, 5)
    assert {node.labels["pool"] for node in pool} == {"gpu"}
    assert len({node.name for node in nodes}) == NODES
    assert len({node.zone for node in nodes}) == 3


def test_only_one_workload_fits_nowhere() -> None:
    biggest = max(int(node.resources["cpu"]) for node in demo_nodes())
    asked = [workload["pod"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] for workload in WORKLOADS]
    assert [cpu for cpu in asked if not cpu.endswith("m") and int(cpu) > biggest] == ["64"]
