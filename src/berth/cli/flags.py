"""The command line of the scheduler: what it says, and what the configuration becomes under it.

`parse_flags` follows the reference's flag library: ``_`` counts as ``-``, a boolean needs no value and takes one only
after ``=``, any other flag takes the next word whatever it looks like, and no name may be shortened. The commands call
it first, then `effective_config` once the version row is known.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from berth import __version__
from berth.api.durations import Duration
from berth.cli.flag_kinds import BOOL
from berth.cli.flag_table import FLAGS, GROUPS, Flag
from berth.config.faults import ConfigError, Fault, forbidden, invalid, not_supported, other
from berth.config.gates import default_gates
from berth.config.load import default_config, read_config
from berth.config.tls import CIPHER_SUITES, TLS_VERSIONS
from berth.config.types import ClientConnection, LeaderElection
from berth.config.validation import validate_leader_election, validated
from berth.config.versions import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from berth.config.types import KubeSchedulerConfiguration
    from berth.config.versions import VersionRow
    from berth.framework.features import FeatureGates

PROGRAM = "kube-scheduler"

_ELECTION_DEFAULTS = LeaderElection()
_CONNECTION_DEFAULTS = ClientConnection()
_FIVE_SECONDS = Duration.of_seconds(5)
_TEN_SECONDS = Duration.of_seconds(10)
_FIVE_MINUTES = Duration.of_seconds(300)


class EarlyExit(Exception):  # noqa: N818 -- asking for help is no error
    """The command line is answered without running anything: help, the version, or a complaint.

    ``code`` is the exit code, ``stdout`` and ``stderr`` what to print.
    """

    def __init__(self, code: int, *, stdout: str = "", stderr: str = "") -> None:
        """Keep what to print and the exit code."""
        super().__init__(stderr or stdout)
        self.code, self.stdout, self.stderr = code, stdout, stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says; a field per flag, named after it, with the flag's default.

    ``explicit`` holds the names (with dashes) of the flags that were given, because only those override the file.
    """

    config: str = ""
    master: str = ""
    write_config_to: str = ""

    bind_address: str = "0.0.0.0"  # noqa: S104 -- the reference listens everywhere, and asks who calls
    cert_dir: str = ""
    disable_http2_serving: bool = False
    http2_max_streams_per_connection: int = 0
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False
    secure_port: int = 10259
    tls_cert_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_min_version: str = ""
    tls_private_key_file: str = ""
    tls_sni_cert_key: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_token_webhook_cache_ttl: Duration = _TEN_SECONDS
    authentication_tolerate_lookup_failure: bool = True
    client_ca_file: str = ""
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_client_ca_file: str = ""
    requestheader_extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)
    requestheader_group_headers: tuple[str, ...] = ("x-remote-group",)
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ("x-remote-user",)

    authorization_always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorization_kubeconfig: str = ""
    authorization_webhook_cache_authorized_ttl: Duration = _TEN_SECONDS
    authorization_webhook_cache_unauthorized_ttl: Duration = _TEN_SECONDS

    contention_profiling: bool = True
    kube_api_burst: int = _CONNECTION_DEFAULTS.burst
    kube_api_content_type: str = _CONNECTION_DEFAULTS.content_type
    kube_api_qps: float = _CONNECTION_DEFAULTS.qps
    kubeconfig: str = ""
    pod_max_in_unschedulable_pods_duration: Duration = _FIVE_MINUTES
    profiling: bool = True

    leader_elect: bool = True
    leader_elect_lease_duration: Duration = _ELECTION_DEFAULTS.lease_duration
    leader_elect_renew_deadline: Duration = _ELECTION_DEFAULTS.renew_deadline
    leader_elect_resource_lock: str = _ELECTION_DEFAULTS.resource_lock
    leader_elect_resource_name: str = _ELECTION_DEFAULTS.resource_name
    leader_elect_resource_namespace: str = _ELECTION_DEFAULTS.resource_namespace
    leader_elect_retry_period: Duration = _ELECTION_DEFAULTS.retry_period

    emulated_version: str | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    min_compatibility_version: str | None = None

    allow_metric_labels: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    allow_metric_labels_manifest: str = ""
    disabled_metrics: tuple[str, ...] = ()
    show_hidden_metrics_for_version: str = ""

    log_flush_frequency: Duration = _FIVE_SECONDS
    log_json_info_buffer_size: str = "0"
    log_json_split_stream: bool = False
    log_text_info_buffer_size: str = "0"
    log_text_split_stream: bool = False
    logging_format: str = "text"
    v: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()

    version: str = ""
    explicit: frozenset[str] = frozenset()

    def shown(self) -> dict[str, str]:
        """Every flag with its value as text, sorted by name: for ``/flagz`` and the level-1 log lines."""
        values = {name: getattr(self, flag.field) for name, flag in FLAGS.items()}
        return {name: "" if value is None else FLAGS[name].kind.show(value) for name, value in sorted(values.items())}


def parse_flags(arguments: Sequence[str], program: str = PROGRAM) -> RunOptions:
    """Read the command line after the program's name.

    Raises:
        EarlyExit: help (0) or the version (0) was asked for, or something is wrong (1, with the usage on stderr).
    """
    try:
        options = _options(arguments, program)
    except ValueError as error:
        usage = f"Usage: {program} [flags]\nUse '{program} --help' for the flags."
        raise EarlyExit(1, stderr=f"Error: {error}\n{usage}\n") from error
    if options.version in ("true", "raw"):
        raise EarlyExit(0, stdout=_version_text(options.version) + "\n")
    return options


def apply_flags(config: KubeSchedulerConfiguration, options: RunOptions) -> KubeSchedulerConfiguration:
    """*config* with the flags on top: ``--leader-elect*`` always, the deprecated ones only without ``--config``."""
    given = options.explicit

    def chosen(values: Mapping[str, str]) -> dict[str, Any]:
        return {key: getattr(options, FLAGS[flag].field) for flag, key in values.items() if flag in given}

    config = replace(config, leader_election=replace(config.leader_election, **chosen(_ELECTION)))
    if options.config:
        return config
    connection = replace(config.client_connection, **chosen(_CONNECTION))
    return replace(config, client_connection=connection, **chosen(_DEBUGGING))


_ELECTION = {
    "leader-elect": "leader_elect",
    "leader-elect-lease-duration": "lease_duration",
    "leader-elect-renew-deadline": "renew_deadline",
    "leader-elect-retry-period": "retry_period",
    "leader-elect-resource-lock": "resource_lock",
    "leader-elect-resource-name": "resource_name",
    "leader-elect-resource-namespace": "resource_namespace",
}
_CONNECTION = {
    "kubeconfig": "kubeconfig",
    "kube-api-content-type": "content_type",
    "kube-api-qps": "qps",
    "kube-api-burst": "burst",
}
_DEBUGGING = {"profiling": "enable_profiling", "contention-profiling": "enable_contention_profiling"}


def effective_config(options: RunOptions, row: VersionRow, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """The configuration to run with: the file or the defaults, then the flags, then the checks.

    As in the reference, only a file is validated whole; without one, only what the elector itself would refuse.

    Raises:
        ConfigError: the file cannot be read or decoded, or the result does not make sense.
    """
    if options.config:
        return validated(apply_flags(read_config(options.config, row, gates), options), gates)
    config = apply_flags(default_config(row, gates), options)
    if faults := validate_leader_election(config.leader_election):
        raise ConfigError(faults)
    return config


def connection_of(options: RunOptions) -> ClientConnection:
    """How to reach the API server, for asking its version before there is a version row to decode by.

    Raises:
        ConfigError: the file cannot be read or decoded on any served version.
    """
    gates = default_gates(NEWEST)
    base = read_config(options.config, NEWEST, gates) if options.config else default_config(NEWEST, gates)
    return apply_flags(base, options).client_connection


def validate_options(options: RunOptions, row: VersionRow, gates: FeatureGates) -> list[Fault]:
    """What is wrong with flags that were each read without complaint."""
    faults = [
        *_serving_faults(options),
        *_logging_faults(options, gates),
        *_metrics_faults(options, row),
    ]
    oldest = options.min_compatibility_version
    if oldest is not None and _order(oldest) > _order(row.minor):
        faults.append(invalid("--min-compatibility-version", oldest, f"is above the emulated version {row.minor}"))
    return faults


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _serving_faults(options: RunOptions) -> Iterator[Fault]:
    if not 0 <= options.secure_port <= MAX_PORT:
        yield invalid("--secure-port", options.secure_port, "must be between 0 and 65535, inclusive; 0 serves nothing")
    if options.http2_max_streams_per_connection < 0:
        yield invalid(
            "--http2-max-streams-per-connection", options.http2_max_streams_per_connection, "must not be negative"
        )
    if options.tls_min_version and options.tls_min_version not in TLS_VERSIONS:
        yield not_supported("--tls-min-version", options.tls_min_version, TLS_VERSIONS)
    for suite in options.tls_cipher_suites:
        if suite not in CIPHER_SUITES:
            yield invalid("--tls-cipher-suites", suite, "is not the IANA name of a known suite")
    if bool(options.tls_cert_file) != bool(options.tls_private_key_file):
        yield other("--tls-cert-file", "must be given together with --tls-private-key-file")


def _logging_faults(options: RunOptions, gates: FeatureGates) -> Iterator[Fault]:
    if options.logging_format not in LOG_FORMATS:
        yield not_supported("--logging-format", options.logging_format, LOG_FORMATS)
    if options.vmodule and options.logging_format == "json":
        yield forbidden("--vmodule", "only supported for text log format")
    if not gates.enabled("LoggingAlphaOptions"):
        for name in sorted(options.explicit & _ALPHA_LOGGING):
            if getattr(options, FLAGS[name].field) not in (False, "0"):
                yield forbidden(f"--{name}", "feature LoggingAlphaOptions is disabled")


def _metrics_faults(options: RunOptions, row: VersionRow) -> Iterator[Fault]:
    shown = options.show_hidden_metrics_for_version
    if shown and shown != row.previous_minor:
        yield not_supported("--show-hidden-metrics-for-version", shown, [row.previous_minor])
    if options.allow_metric_labels and options.allow_metric_labels_manifest:
        yield forbidden("--allow-metric-labels-manifest", "cannot be given together with --allow-metric-labels")


MAX_PORT = 65535
LOG_FORMATS = ("text", "json")
_ALPHA_LOGGING = frozenset(
    {
        "log-json-info-buffer-size",
        "log-json-split-stream",
        "log-text-info-buffer-size",
        "log-text-split-stream",
    }
)


def _options(arguments: Sequence[str], program: str) -> RunOptions:
    values: dict[str, Any] = {}
    for flag, text in _mentions(arguments, program):
        kind = flag.kind
        try:
            value = kind.read(text)
        except ValueError as error:
            label = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise ValueError(f'invalid argument "{text}" for "{label}" flag: {error}') from error
        values[flag.name] = kind.fold(values.get(flag.name), value) if kind.fold else value
    if values.pop(_HELP.name, False):
        raise EarlyExit(0, stdout=_help(program).format_help())
    chosen: dict[str, Any] = {
        FLAGS[name].field: MappingProxyType(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return RunOptions(**chosen, explicit=frozenset(values))


def _mentions(arguments: Sequence[str], program: str) -> Iterator[tuple[Flag, str]]:
    """Each flag of the command line with the text of its value, in order.

    Raises:
        ValueError: an unknown flag, a flag without its value, or a word that belongs to no flag.
    """
    words = iter(arguments)
    for word in words:
        if word == "--" or not word.startswith("-") or word == "-":
            strays = [*([] if word == "--" else [word]), *words]
            if any(strays):
                listed = " ".join(f'"{stray}"' for stray in strays)
                raise ValueError(f'"{program}" does not take any arguments, got [{listed}]')
            return
        flag, text, label = _long(word) if word.startswith("--") else _short(word)
        if text is None:
            text = flag.kind.bare
        if text is None:
            text = next(words, None)
        if text is None:
            raise ValueError(f"flag needs an argument: {label}")
        yield flag, text


def _long(word: str) -> tuple[Flag, str | None, str]:
    name, equals, text = word[2:].partition("=")
    if not name or name.startswith("-"):
        raise ValueError(f"bad flag syntax: {word}")
    if (flag := _KNOWN.get(name.replace("_", "-"))) is None:
        raise ValueError(f"unknown flag: --{name}")
    return flag, text if equals else None, f"--{name}"


def _short(word: str) -> tuple[Flag, str | None, str]:
    letter, text = word[1], word[2:]
    flag = _HELP if letter == "h" else next((flag for flag in FLAGS.values() if flag.short == letter), None)
    if flag is None:
        raise ValueError(f"unknown shorthand flag: '{letter}' in {word}")
    if flag is _HELP:
        return flag, None, word
    return flag, text.removeprefix("=") if text else None, f"'{letter}' in {word}"


_EMPTY = frozenset({"", "false", "0", "[]"})  # defaults that need no telling
_HELP = Flag("help", BOOL, "this text", short="h")
_KNOWN = {**FLAGS, _HELP.name: _HELP}


def _help(program: str) -> argparse.ArgumentParser:
    """The flags as argparse presents them; reading them is stricter than argparse can be told to be."""
    parser = argparse.ArgumentParser(prog=program, usage=f"{program} [flags]", allow_abbrev=False, add_help=False)
    defaults = RunOptions().shown()
    for title, flags in {**GROUPS, "Other": (_HELP,)}.items():
        group = parser.add_argument_group(f"{title} flags")
        for flag in flags:
            value = defaults.get(flag.name, "")
            default = "" if value in _EMPTY else f" (default {value})"
            group.add_argument(
                *([f"-{flag.short}"] if flag.short else []),
                f"--{flag.name}",
                metavar=flag.kind.word,
                nargs=None if flag.kind.bare is None else "?",
                help=(flag.help + default).replace("%", "%%"),
            )
    return parser


def _version_text(version: str) -> str:
    """What ``--version`` prints: the reference's line, so that scripts keep reading it, and who speaks."""
    release = NEWEST.reference
    if version == "true":
        return f"Kubernetes {release} (Berth {__version__})"
    major, minor = NEWEST.minor.split(".")
    return f'version.Info{{Major:"{major}", Minor:"{minor}", GitVersion:"{release}", Berth:"{__version__}"}}'
