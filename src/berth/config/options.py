"""The run options: what the command line says, and what the configuration becomes under it.

`RunOptions` is made by ``cli.flags`` and read by the process that runs. `effective_config` puts the flags on top of the
file, or of the defaults, with the reference's rules of precedence; the checks of the flags themselves are here too,
because some of them depend on the version row.

Source: k8s cmd/kube-scheduler/app/options/options.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from berth.api.durations import Duration
from berth.config.faults import ConfigError, Fault, forbidden, invalid, not_supported, other
from berth.config.gates import default_gates
from berth.config.load import default_config, read_config
from berth.config.tls import CIPHER_SUITES, TLS_VERSIONS
from berth.config.types import ClientConnection, LeaderElection
from berth.config.validation import validate_leader_election, validated
from berth.config.versions import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from berth.config.types import KubeSchedulerConfiguration
    from berth.config.versions import VersionRow
    from berth.framework.features import FeatureGates

_ELECTION_DEFAULTS = LeaderElection()
_CONNECTION_DEFAULTS = ClientConnection()
_FIVE_SECONDS = Duration.of_seconds(5)
_TEN_SECONDS = Duration.of_seconds(10)
_ONE_MINUTE = Duration.of_seconds(60)
_FIVE_MINUTES = Duration.of_seconds(300)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says; a field per flag, named after it, with the flag's default.

    ``explicit`` holds the names (with dashes) of the flags that were given, because only those override the file;
    ``shown`` holds every flag with its value as text, for ``/flagz`` and the log.
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

    self_audit_period: Duration = _ONE_MINUTE
    victim_patience: Duration = _ONE_MINUTE

    version: str = ""

    explicit: frozenset[str] = frozenset()
    shown: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def apply_flags(config: KubeSchedulerConfiguration, options: RunOptions) -> KubeSchedulerConfiguration:
    """*config* with the flags on top: ``--leader-elect*`` always, the deprecated ones only without ``--config``."""
    given = options.explicit

    def chosen(values: Mapping[str, str]) -> dict[str, Any]:
        return {key: getattr(options, _field(flag)) for flag, key in values.items() if flag in given}

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
    for name, duration in (
        ("--self-audit-period", options.self_audit_period),
        ("--victim-patience", options.victim_patience),
    ):
        if duration.seconds < 0:
            faults.append(invalid(name, str(duration), "must not be negative"))
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
            if getattr(options, _field(name)) not in (False, "0"):
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


def _field(flag: str) -> str:
    return flag.replace("-", "_")
