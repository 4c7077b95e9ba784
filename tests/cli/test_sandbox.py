"""`berth sandbox`: it serves, writes a kubeconfig that works, and ends when it is asked to."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from berth.cli.sandbox import sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_S = 30


class Sandbox:
    """The command at work."""

    def __init__(self, process: subprocess.Popen[str], kubeconfig: Path) -> None:
        self.process, self.kubeconfig = process, kubeconfig
        assert process.stdout is not None
        self.lines = [process.stdout.readline() for _ in range(3)]

    def get(self, path: str) -> Any:
        server = yaml.safe_load(self.kubeconfig.read_text(encoding="utf-8"))["clusters"][0]["cluster"]["server"]
        with urllib.request.urlopen(server + path, timeout=DEADLINE_S) as answer:  # noqa: S310 - loopback
            return json.load(answer)


@contextmanager
def a_sandbox(folder: Path, *flags: str) -> Iterator[Sandbox]:
    kubeconfig = folder / "new" / "kubeconfig"
    command = [sys.executable, "-m", "berth", "sandbox", f"--kubeconfig={kubeconfig}", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder) as process:
        try:
            yield Sandbox(process, kubeconfig)
        finally:
            process.kill()


def test_it_serves_nodes_and_a_kubeconfig_until_it_is_asked_to_end(tmp_path: Path) -> None:
    with a_sandbox(tmp_path, "--nodes=3", "--kubernetes=1.36") as it:
        assert it.lines[0].startswith("API server at http://127.0.0.1:")
        assert it.lines[0].endswith(" with 3 hollow nodes; Ctrl-C ends it\n")
        assert it.lines[1] == f"  kubectl --kubeconfig {it.kubeconfig} get nodes\n"
        assert it.lines[2].startswith(f"  berth run --kubeconfig {it.kubeconfig} ")
        assert it.get("/version")["minor"] == "36"
        assert len(it.get("/api/v1/nodes")["items"]) == 3
        it.process.send_signal(signal.SIGINT)
        assert it.process.wait(DEADLINE_S) == 0


def test_a_port_that_is_taken_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert sandbox([f"--port={port}", "--nodes=0", f"--kubeconfig={tmp_path / 'kubeconfig'}"]) == 1
    assert capsys.readouterr().err.startswith("Error: ")


def test_a_kubeconfig_that_cannot_be_written_is_a_clear_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert sandbox([f"--kubeconfig={tmp_path / 'file' / 'kubeconfig'}", "--nodes=0"]) == 1
    assert capsys.readouterr().err.startswith("Error: ")


REFUSALS = {
    "fewer than no nodes": ("--nodes=-1", "argument --nodes: must not be negative, got -1"),
    "a number of nodes that is none": ("--nodes=many", "argument --nodes: invalid"),
    "a port beyond all ports": ("--port=65536", "argument --port: must be between 0 and 65535, got 65536"),
    "a version that is not spoken": ("--kubernetes=1.30", "argument --kubernetes: invalid choice: '1.30'"),
}


@pytest.mark.parametrize(("flag", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_flags_that_make_no_sense_are_refused(flag: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        sandbox([flag])
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err
