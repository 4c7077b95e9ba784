"""What an operator reads who got something wrong: what it is and where, in a line, and the exit code that says so."""

from __future__ import annotations

import re
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.controlplane import free_ports
from tests.support.scheduler import COMMAND, CONFIG_TYPE

from berth.sandbox.certificates import make_identity
from berth.sandbox.objects import utc_now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.integration.clusters import EmbeddedCluster, RealCluster

pytestmark = pytest.mark.timeout(120)

LOG_LINE = re.compile(r"[IWEF]\d{4} ")
FORGED = {"token": "forged"}
USAGE = ["Usage: berth [flags]", "Use 'berth --help' for the flags."]


def complaint(*arguments: str, environment: Mapping[str, str] | None = None) -> list[str]:
    """What the command says on stderr, apart from its log, when it fails at once."""
    command = [str(COMMAND), *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    return [line for line in ended.stderr.splitlines() if not LOG_LINE.match(line)]


FLAGS: dict[str, tuple[list[str], list[str]]] = {
    "an unknown flag": (["--no-such-flag"], ["Error: unknown flag: --no-such-flag", *USAGE]),
    "a flag without its value": (["--config"], ["Error: flag needs an argument: --config", *USAGE]),
    "a word that no flag takes": (
        ["--v=2", "kube-system"],
        ['Error: "berth" does not take any arguments, got ["kube-system"]', *USAGE],
    ),
    "an unknown command": (
        ["schedule"],
        ["Error: unknown command 'schedule'; there are: run, sandbox, demo"],
    ),
    "a kubeconfig that does not exist": (
        ["--kubeconfig=/no/such/file"],
        ["Error: kubeconfig /no/such/file: no such file"],
    ),
    "a configuration that does not exist": (
        ["--config=/no/such/file"],
        ["Error: cannot read configuration file /no/such/file: No such file or directory"],
    ),
    "neither a kubeconfig nor a cluster around us": (
        ["--leader-elect=false"],
        [
            (
                "Error: in-cluster service account (/var/run/secrets/kubernetes.io/serviceaccount/token): "
                "not running in a pod, and no kubeconfig was given"
            )
        ],
    ),
}


@pytest.mark.parametrize(("arguments", "said"), FLAGS.values(), ids=FLAGS)
def test_a_wrong_command_line_is_named(arguments: list[str], said: list[str]) -> None:
    assert complaint(*arguments) == said


def test_a_server_that_does_not_answer_is_named_with_its_address(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (line,) = complaint(f"--kubeconfig={a_kubeconfig(tmp_path, f'http://127.0.0.1:{port}', {})}", "--secure-port=0")
    assert line.startswith(f"Error: API server http://127.0.0.1:{port}: GET /version: ")
    assert "connect to" in line


def test_a_kubeconfig_that_is_none_is_named_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters: [\n", encoding="utf-8")
    (line,) = complaint(f"--kubeconfig={path}")
    assert line.startswith(f"Error: kubeconfig {path}: ")
    assert "line 2, column 1" in line


def test_wrong_credentials_are_refused_in_the_words_of_the_server(real_cluster: RealCluster, tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path, real_cluster.plane.server, FORGED, ca_file=real_cluster.plane.ca_file)
    assert complaint(f"--kubeconfig={path}", "--secure-port=0") == [
        f"Error: API server {real_cluster.plane.server}: 401 Unauthorized: Unauthorized"
    ]


def test_a_missing_permission_is_named(real_cluster: RealCluster) -> None:
    path = real_cluster.plane.kubeconfig_for("berth")
    (line,) = complaint(f"--kubeconfig={path}", "--secure-port=0", "--leader-elect=false")
    forbidden = 'User "berth" cannot list resource "{0}" in API group "" at the cluster scope'
    assert line in [
        f"Error: list /api/v1/{what}: 403 Forbidden: {what} is forbidden: {forbidden.format(what)}"
        for what in ("nodes", "pods")
    ]


def test_a_server_whose_certificate_is_not_the_one_expected_is_not_believed(
    real_cluster: RealCluster, another_ca: Path, tmp_path: Path
) -> None:
    path = a_kubeconfig(tmp_path, real_cluster.plane.server, FORGED, ca_file=another_ca)
    (line,) = complaint(f"--kubeconfig={path}", "--secure-port=0")
    assert line.startswith(f"Error: API server {real_cluster.plane.server}: GET /version: ")
    assert "self-signed certificate" in line


PROFILE = {"schedulerName": "default-scheduler"}
CONFIGURATIONS: dict[str, tuple[Any, list[str]]] = {
    "no YAML": ("profiles: [", ["yaml: "]),
    "another kind of object": ({"kind": "Pod", "apiVersion": "v1"}, ['no kind "Pod" is registered for version "v1"']),
    "a field that does not exist": ({"profilez": []}, ['unknown field "profilez"']),
    "a plugin that does not exist": (
        {"profiles": [{**PROFILE, "plugins": {"filter": {"enabled": [{"name": "NoSuchPlugin"}]}}}]},
        ["NoSuchPlugin"],
    ),
    "two profiles of one name": ({"profiles": [PROFILE, PROFILE]}, ["profiles[1].schedulerName: Duplicate value"]),
    "several faults, each with a line": (
        {"parallelism": 0, "podMaxBackoffSeconds": 0, "percentageOfNodesToScore": 101},
        ["parallelism: Invalid value: 0", "percentageOfNodesToScore: Invalid value: 101", "podMaxBackoffSeconds"],
    ),
}


@pytest.mark.parametrize(("content", "said"), CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_wrong_configuration_is_named_with_the_place_and_the_value(
    content: str | dict[str, Any], said: list[str], embedded_cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    if isinstance(content, dict):
        connection = {"kubeconfig": str(embedded_cluster.kubeconfig)}
        content = yaml.safe_dump({**CONFIG_TYPE, "clientConnection": connection, **content})
    path.write_text(content, encoding="utf-8")
    lines = complaint(f"--config={path}", "--secure-port=0", "--leader-elect=false")
    assert len(lines) == len(said)
    assert lines[0].startswith("Error: ")
    assert [text for text in said if not any(text in line for line in lines)] == []


def test_a_port_that_is_taken_is_named(embedded_cluster: EmbeddedCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = [f"--kubeconfig={embedded_cluster.kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
        (line,) = complaint(*flags)
    assert line.startswith(f"Error: listen on 127.0.0.1:{port}: Address already in use")


def test_a_certificate_that_does_not_exist_is_named(embedded_cluster: EmbeddedCluster) -> None:
    (port,) = free_ports(1)
    files = ["--tls-cert-file=/no/such/file.crt", "--tls-private-key-file=/no/such/file.key"]
    kubeconfig = f"--kubeconfig={embedded_cluster.kubeconfig}"
    (line,) = complaint(kubeconfig, *files, "--bind-address=127.0.0.1", f"--secure-port={port}")
    assert line.startswith("Error: ")
    assert line.endswith(": /no/such/file.crt: No such file or directory")


def test_an_unknown_gate_is_named(embedded_cluster: EmbeddedCluster) -> None:
    kubeconfig = f"--kubeconfig={embedded_cluster.kubeconfig}"
    (line,) = complaint(kubeconfig, "--secure-port=0", "--feature-gates=NoSuchGate=true")
    assert line == "Error: --feature-gates: unrecognized feature gate: NoSuchGate"


def a_kubeconfig(folder: Path, server: str, user: Mapping[str, str], *, ca_file: Path | None = None) -> Path:
    cluster = {"server": server, **({"certificate-authority": str(ca_file)} if ca_file else {})}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": dict(user)}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    }
    path = folder / "written.kubeconfig"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


@pytest.fixture
def another_ca(tmp_path: Path) -> Path:
    """An authority that signed nothing that is served here."""
    path = tmp_path / "other-ca.crt"
    path.write_bytes(make_identity(utc_now()).ca_pem)
    return path
