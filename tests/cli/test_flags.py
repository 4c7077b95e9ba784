from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest

from berth import __version__
from berth.api.durations import Duration
from berth.cli.flag_table import FLAGS
from berth.cli.flags import EarlyExit, parse_flags
from berth.config.gates import default_gates
from berth.config.options import RunOptions
from berth.config.versions import NEWEST

if TYPE_CHECKING:
    pass

GATES = default_gates(NEWEST)

READ: dict[str, tuple[list[str], str, Any]] = {
    "a value after the equals sign": (["--config=/etc/a.yaml"], "config", "/etc/a.yaml"),
    "a value as the next word": (["--config", "/etc/a.yaml"], "config", "/etc/a.yaml"),
    "a value that looks like a flag": (["--config", "--master"], "config", "--master"),
    "a value with equals signs": (["--config=a=b"], "config", "a=b"),
    "an empty value": (["--leader-elect-resource-name="], "leader_elect_resource_name", ""),
    "the last mention wins": (["--secure-port=1", "--secure-port=2"], "secure_port", 2),
    "underscores count as dashes": (["--secure_port=1"], "secure_port", 1),
    "a bare boolean": (["--permit-port-sharing"], "permit_port_sharing", True),
    "a boolean turned off": (["--leader-elect=false"], "leader_elect", False),
    "a boolean in other words": (["--leader-elect=F"], "leader_elect", False),
    "a number": (["--secure-port", "0"], "secure_port", 0),
    "a hexadecimal number": (["--secure-port=0x10"], "secure_port", 16),
    "a negative number": (["--kube-api-qps", "-1.5"], "kube_api_qps", -1.5),
    "a duration": (["--leader-elect-lease-duration=1m30s"], "leader_elect_lease_duration", Duration.parse("90s")),
    "verbosity, one word": (["-v4"], "v", 4),
    "verbosity with an equals sign": (["-v=4"], "v", 4),
    "verbosity as the next word": (["-v", "4"], "v", 4),
    "verbosity in the long form": (["--v=4"], "v", 4),
    "an address of version 6": (["--bind-address=::"], "bind_address", "::"),
    "a list": (["--disabled-metrics=a,b"], "disabled_metrics", ("a", "b")),
    "a list in parts": (["--disabled-metrics=a", "--disabled-metrics=b,c"], "disabled_metrics", ("a", "b", "c")),
    "a list takes the place of its default": (
        ["--authorization-always-allow-paths=/metrics"],
        "authorization_always_allow_paths",
        ("/metrics",),
    ),
    "an emptied list": (["--authorization-always-allow-paths="], "authorization_always_allow_paths", ()),
    "a list of quoted parts": (['--requestheader-allowed-names="a,b",c'], "requestheader_allowed_names", ("a,b", "c")),
    "a list of numbers": (["--tls-curve-preferences=29,23"], "tls_curve_preferences", (29, 23)),
    "feature gates in parts": (
        ["--feature-gates=A=true,kube:B=false", "--feature-gates", "C=1,A=false"],
        "feature_gates",
        {"A": False, "B": False, "C": True},
    ),
    "an emulated version": (["--emulated-version=1.36"], "emulated_version", "1.36"),
    "an emulated version by component": (["--emulated-version=kube=1.36"], "emulated_version", "1.36"),
    "an emulated version in full": (["--emulated-version=v1.36.2"], "emulated_version", "1.36"),
    "verbosity by file": (["--vmodule=a*=2,b=3"], "vmodule", (("a*", 2), ("b", 3))),
    "labels of metrics": (
        ["--allow-metric-labels=m,l=a,b", "--allow-metric-labels=m,k=c"],
        "allow_metric_labels",
        {("m", "l"): frozenset("ab"), ("m", "k"): frozenset("c")},
    ),
    "certificates by name": (
        ["--tls-sni-cert-key=a.crt,a.key", "--tls-sni-cert-key=b.crt,b.key:b.example,*.b.example"],
        "tls_sni_cert_key",
        (("a.crt", "a.key", ()), ("b.crt", "b.key", ("b.example", "*.b.example"))),
    ),
    "a size": (["--log-json-info-buffer-size=64Ki"], "log_json_info_buffer_size", "64Ki"),
    "no version asked for": (["--version=false"], "version", ""),
    "another version to report": (["--version=v1.36.2-acme"], "version", "v1.36.2-acme"),
}


@pytest.mark.parametrize(("arguments", "field", "value"), READ.values(), ids=READ.keys())
def test_a_flag_is_read(arguments: list[str], field: str, value: Any) -> None:
    options = parse_flags(arguments)
    assert getattr(options, field) == value
    assert options.explicit == {field.replace("_", "-")}


REFUSED = {
    "an unknown flag": (["--port=10251"], "unknown flag: --port"),
    "a shortened name": (["--leader-elect-lease=15s"], "unknown flag: --leader-elect-lease"),
    "an unknown letter": (["-x"], "unknown shorthand flag: 'x' in -x"),
    "a missing value": (["--config"], "flag needs an argument: --config"),
    "a missing verbosity": (["-v"], "flag needs an argument: 'v' in -v"),
    "a flag without a name": (["--=1"], "bad flag syntax: --=1"),
    "too many dashes": (["---config=a"], "bad flag syntax: ---config=a"),
    "a stray word": (["run", "now"], '"kube-scheduler" does not take any arguments, got ["run" "now"]'),
    "a boolean's value apart": (
        ["--leader-elect", "false"],
        '"kube-scheduler" does not take any arguments, got ["false"]',
    ),
    "words after the end of flags": (["--", "a"], '"kube-scheduler" does not take any arguments, got ["a"]'),
    "no number": (
        ["--secure-port=https"],
        'invalid argument "https" for "--secure-port" flag: strconv.ParseInt: parsing "https": invalid syntax',
    ),
    "a number too large": (
        ["--kube-api-burst=2147483648"],
        (
            'invalid argument "2147483648" for "--kube-api-burst" flag: '
            'strconv.ParseInt: parsing "2147483648": value out of range'
        ),
    ),
    "no verbosity": (
        ["-v=high"],
        'invalid argument "high" for "-v, --v" flag: strconv.ParseInt: parsing "high": invalid syntax',
    ),
    "no rate": (
        ["--kube-api-qps=fast"],
        'invalid argument "fast" for "--kube-api-qps" flag: strconv.ParseFloat: parsing "fast": invalid syntax',
    ),
    "no boolean": (
        ["--leader-elect=yes"],
        'invalid argument "yes" for "--leader-elect" flag: strconv.ParseBool: parsing "yes": invalid syntax',
    ),
    "no duration": (
        ["--leader-elect-retry-period=2"],
        'invalid argument "2" for "--leader-elect-retry-period" flag: time: missing unit in duration "2"',
    ),
    "no address": (
        ["--bind-address=localhost"],
        'invalid argument "localhost" for "--bind-address" flag: failed to parse IP: "localhost"',
    ),
    "a gate without a value": (
        ["--feature-gates=A"],
        'invalid argument "A" for "--feature-gates" flag: missing bool value for A',
    ),
    "the version of another component": (
        ["--emulated-version=cloud=1.36"],
        'invalid argument "cloud=1.36" for "--emulated-version" flag: component not registered: cloud',
    ),
    "no version": (
        ["--emulated-version=latest"],
        'invalid argument "latest" for "--emulated-version" flag: want [kube=]MAJOR.MINOR, got latest',
    ),
    "verbosity by file without a level": (
        ["--vmodule=a"],
        ('invalid argument "a" for "--vmodule" flag: syntax error: expect comma-separated list of filename=N'),
    ),
    "a label without a metric": (
        ["--allow-metric-labels=l=a"],
        (
            'invalid argument "l=a" for "--allow-metric-labels" flag: '
            "l=a must be formatted as metric,label=value1,value2"
        ),
    ),
    "a certificate without a key": (
        ["--tls-sni-cert-key=a.crt"],
        (
            'invalid argument "a.crt" for "--tls-sni-cert-key" flag: '
            "expected comma separated certificate and key file paths"
        ),
    ),
    "no size": (
        ["--log-text-info-buffer-size=big"],
        (
            'invalid argument "big" for "--log-text-info-buffer-size" flag: '
            "want a quantity such as 500m, 2 or 4Gi, got 'big'"
        ),
    ),
    "an odd wish for the version": (
        ["--version=short"],
        'invalid argument "short" for "--version" flag: strconv.ParseBool: parsing "short": invalid syntax',
    ),
}


@pytest.mark.parametrize(("arguments", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_a_faulty_command_line_ends_with_code_1_and_the_usage(arguments: list[str], complaint: str) -> None:
    with pytest.raises(EarlyExit) as caught:
        parse_flags(arguments)
    first, usage, _ = caught.value.stderr.splitlines()
    assert (caught.value.code, caught.value.stdout) == (1, "")
    assert first == f"Error: {complaint}"
    assert usage == "Usage: kube-scheduler [flags]"


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["--v=2", "--help=true"]])
def test_help_lists_every_flag_and_ends_with_code_0(arguments: list[str]) -> None:
    with pytest.raises(EarlyExit) as caught:
        parse_flags(arguments)
    assert caught.value.code == 0
    for name in FLAGS:
        assert f"--{name} " in caught.value.stdout


VERSIONS = {
    "the line that scripts read": (["--version"], f"Kubernetes v1.37.2 (Berth {__version__})\n"),
    "all of it": (
        ["--version=raw"],
        f'version.Info{{Major:"1", Minor:"37", GitVersion:"v1.37.2", Berth:"{__version__}"}}\n',
    ),
}


@pytest.mark.parametrize(("arguments", "text"), VERSIONS.values(), ids=VERSIONS.keys())
def test_the_version_is_printed_with_code_0(arguments: list[str], text: str) -> None:
    with pytest.raises(EarlyExit) as caught:
        parse_flags(arguments)
    assert (caught.value.code, caught.value.stdout, caught.value.stderr) == (0, text, "")


def test_every_flag_has_a_field_and_every_field_a_flag() -> None:
    assert {flag.field for flag in FLAGS.values()} == {field.name for field in fields(RunOptions)} - {
        "explicit",
        "shown",
    }


def test_flags_are_shown_as_they_were_meant() -> None:
    shown = parse_flags(["--feature-gates=B=true,A=false", "--kube-api-qps=7", "-v=2"]).shown
    assert list(shown) == sorted(FLAGS)
    assert shown["feature-gates"] == "A=false,B=true"
    assert shown["kube-api-qps"] == "7"
    assert shown["v"] == "2"
    assert shown["authorization-always-allow-paths"] == "[/healthz,/readyz,/livez]"
    assert shown["pod-max-in-unschedulable-pods-duration"] == "5m0s"
