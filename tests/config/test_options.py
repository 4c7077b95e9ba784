"""What the options do to the configuration; they are given as a command line, which says it shortest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from berth.api.durations import Duration
from berth.cli.flags import parse_flags
from berth.config.faults import ConfigError
from berth.config.gates import default_gates
from berth.config.load import default_config
from berth.config.options import apply_flags, connection_of, effective_config, validate_options
from berth.config.tls import CIPHER_SUITES
from berth.config.types import API_VERSION, KIND
from berth.config.versions import NEWEST, OLDEST

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GATES = default_gates(NEWEST)


def a_file(tmp_path: Path, text: str) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(f"apiVersion: {API_VERSION}\nkind: {KIND}\n{text}", encoding="utf-8")
    return str(file)


FILE = """
enableProfiling: true
leaderElection: {resourceName: from-file, leaseDuration: 1m}
clientConnection: {kubeconfig: /from/file, qps: 7, burst: 8}
"""
FLAGS_ON_TOP = [
    "--leader-elect-resource-name=from-flag",
    "--kubeconfig=/from/flag",
    "--kube-api-qps=1",
    "--kube-api-burst=2",
    "--kube-api-content-type=application/json",
    "--profiling=false",
    "--contention-profiling=false",
]


def test_with_a_file_only_leader_election_flags_override_it(tmp_path: Path) -> None:
    options = parse_flags([f"--config={a_file(tmp_path, FILE)}", *FLAGS_ON_TOP])
    config = effective_config(options, NEWEST, GATES)
    assert config.leader_election.resource_name == "from-flag"
    assert config.leader_election.lease_duration == Duration.parse("1m"), "not given as a flag, so the file holds"
    connection = config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("/from/file", 7, 8)
    assert connection.content_type == "application/vnd.kubernetes.protobuf"
    assert config.enable_profiling
    assert config.enable_contention_profiling


def test_without_a_file_all_given_flags_override_the_defaults() -> None:
    config = effective_config(parse_flags(FLAGS_ON_TOP), NEWEST, GATES)
    assert config.leader_election.resource_name == "from-flag"
    connection = config.client_connection
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("/from/flag", 1, 2)
    assert connection.content_type == "application/json"
    assert not config.enable_profiling
    assert not config.enable_contention_profiling


def test_flags_that_are_not_given_change_nothing() -> None:
    config = default_config(OLDEST, default_gates(OLDEST))
    assert apply_flags(config, parse_flags(["-v=3"])) == config


def test_a_file_is_validated_with_the_flags_on_top(tmp_path: Path) -> None:
    path = a_file(tmp_path, "parallelism: 0\n")
    options = parse_flags([f"--config={path}", "--leader-elect-lease-duration=5s"])
    with pytest.raises(ConfigError) as caught:
        effective_config(options, NEWEST, GATES)
    assert str(caught.value).splitlines() == [
        "parallelism: Invalid value: 0: must be greater than 0",
        "leaderElection.leaseDuration: Invalid value: 10s: LeaseDuration must be greater than RenewDeadline",
    ]


def test_without_a_file_only_the_elector_judges() -> None:
    assert effective_config(parse_flags(["--kube-api-burst=-1"]), NEWEST, GATES).client_connection.burst == -1
    with pytest.raises(ConfigError, match=r"leaderElection\.retryPeriod: Invalid value: 0s: must be greater than zero"):
        effective_config(parse_flags(["--leader-elect-retry-period=0s"]), NEWEST, GATES)


CONNECTIONS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "by the file": (lambda tmp: [f"--config={a_file(tmp, FILE)}", "--kubeconfig=/from/flag"], "/from/file"),
    "by the flag": (lambda _: ["--kubeconfig=/from/flag"], "/from/flag"),
    "in the cluster": (lambda _: [], ""),
}


@pytest.mark.parametrize(("arguments", "kubeconfig"), CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_the_way_to_the_server_is_known_before_its_version(
    tmp_path: Path, arguments: Callable[[Path], list[str]], kubeconfig: str
) -> None:
    assert connection_of(parse_flags(arguments(tmp_path))).kubeconfig == kubeconfig


INVALID: dict[str, tuple[list[str], list[str]]] = {
    "a port that does not exist": (
        ["--secure-port=65536"],
        ["--secure-port: Invalid value: 65536: must be between 0 and 65535, inclusive; 0 serves nothing"],
    ),
    "a negative number of streams": (
        ["--http2-max-streams-per-connection=-1"],
        ["--http2-max-streams-per-connection: Invalid value: -1: must not be negative"],
    ),
    "an unknown TLS version": (
        ["--tls-min-version=1.2"],
        [
            (
                '--tls-min-version: Unsupported value: "1.2": supported values: '
                '"VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"'
            )
        ],
    ),
    "an unknown cipher suite": (
        ["--tls-cipher-suites=TLS_AES_128_GCM_SHA256,ROT13"],
        ['--tls-cipher-suites: Invalid value: "ROT13": is not the IANA name of a known suite'],
    ),
    "a certificate without its key": (
        ["--tls-cert-file=a.crt"],
        ["--tls-cert-file: must be given together with --tls-private-key-file"],
    ),
    "an unknown log format": (
        ["--logging-format=xml"],
        ['--logging-format: Unsupported value: "xml": supported values: "text", "json"'],
    ),
    "verbosity by file in JSON": (
        ["--logging-format=json", "--vmodule=a=1"],
        ["--vmodule: Forbidden: only supported for text log format"],
    ),
    "alpha logging without its gate": (
        ["--log-json-split-stream", "--log-text-split-stream=false", "--log-text-info-buffer-size=1Ki"],
        [
            "--log-json-split-stream: Forbidden: feature LoggingAlphaOptions is disabled",
            "--log-text-info-buffer-size: Forbidden: feature LoggingAlphaOptions is disabled",
        ],
    ),
    "hidden metrics of a minor long gone": (
        ["--show-hidden-metrics-for-version=1.30"],
        ['--show-hidden-metrics-for-version: Unsupported value: "1.30": supported values: "1.36"'],
    ),
    "metric labels said twice": (
        ["--allow-metric-labels=m,l=a", "--allow-metric-labels-manifest=/a"],
        ["--allow-metric-labels-manifest: Forbidden: cannot be given together with --allow-metric-labels"],
    ),
    "compatible with the future": (
        ["--min-compatibility-version=1.38"],
        ['--min-compatibility-version: Invalid value: "1.38": is above the emulated version 1.37'],
    ),
    "audits before their time": (
        ["--self-audit-period=-1s"],
        ['--self-audit-period: Invalid value: "-1s": must not be negative'],
    ),
    "patience that is over before it begins": (
        ["--victim-patience=-1s"],
        ['--victim-patience: Invalid value: "-1s": must not be negative'],
    ),
    "all at once": (
        ["--secure-port=-1", "--logging-format=xml"],
        [
            "--secure-port: Invalid value: -1: must be between 0 and 65535, inclusive; 0 serves nothing",
            '--logging-format: Unsupported value: "xml": supported values: "text", "json"',
        ],
    ),
    "nothing wrong": (
        [
            "--secure-port=0",
            "--tls-min-version=VersionTLS13",
            "--show-hidden-metrics-for-version=1.36",
            "--min-compatibility-version=1.9",
            f"--tls-cipher-suites={','.join(CIPHER_SUITES)}",
        ],
        [],
    ),
}


@pytest.mark.parametrize(("arguments", "lines"), INVALID.values(), ids=INVALID.keys())
def test_flags_that_make_no_sense_are_told(arguments: list[str], lines: list[str]) -> None:
    assert [str(fault) for fault in validate_options(parse_flags(arguments), NEWEST, GATES)] == lines


def test_alpha_logging_is_there_with_its_gate() -> None:
    gates = GATES.with_values({"LoggingAlphaOptions": True})
    assert validate_options(parse_flags(["--log-json-split-stream"]), NEWEST, gates) == []


def test_hidden_metrics_follow_the_version() -> None:
    options = parse_flags(["--show-hidden-metrics-for-version=1.35"])
    assert validate_options(options, OLDEST, default_gates(OLDEST)) == []
