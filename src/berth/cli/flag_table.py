"""Every flag of the scheduler command: name, kind of value, and a line of help, in the reference's groups.

Flags that only this scheduler has are in a group of their own. Defaults are those of `berth.cli.flags.RunOptions`,
whose fields are named after the flags. Reading the table is the business of ``cli.flags``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from berth.cli import flag_kinds as kinds

if TYPE_CHECKING:
    from berth.cli.flag_kinds import Kind


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; ``short`` is its one-letter form, if it has one."""

    name: str
    kind: Kind
    help: str
    short: str = ""

    @property
    def field(self) -> str:
        """The field of ``RunOptions`` that holds the value."""
        return self.name.replace("-", "_")


GROUPS: dict[str, tuple[Flag, ...]] = {
    "Misc": (
        Flag("config", kinds.STRING, "KubeSchedulerConfiguration file"),
        Flag("master", kinds.STRING, "URL of the API server; overrides the kubeconfig's"),
        Flag("write-config-to", kinds.STRING, "write the configuration in use to this file and exit"),
    ),
    "Secure serving": (
        Flag("bind-address", kinds.IP, "address to listen on; 0.0.0.0 or :: for all"),
        Flag("cert-dir", kinds.STRING, "directory for a generated certificate; kept in memory if empty"),
        Flag("disable-http2-serving", kinds.BOOL, "serve HTTP/1.1 only"),
        Flag("http2-max-streams-per-connection", kinds.INT, "limit told to clients; 0 for the default of 100"),
        Flag("permit-address-sharing", kinds.BOOL, "listen with SO_REUSEADDR"),
        Flag("permit-port-sharing", kinds.BOOL, "listen with SO_REUSEPORT"),
        Flag("secure-port", kinds.INT, "port for HTTPS; 0 serves nothing"),
        Flag("tls-cert-file", kinds.STRING, "serving certificate; reloaded when it changes"),
        Flag("tls-cipher-suites", kinds.STRINGS, "IANA names of the suites below TLS 1.3"),
        Flag("tls-curve-preferences", kinds.INTS, "numeric ids of key exchanges, in order of preference"),
        Flag("tls-min-version", kinds.STRING, "VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13"),
        Flag("tls-private-key-file", kinds.STRING, "key of the serving certificate"),
        Flag("tls-sni-cert-key", kinds.SNI, "certificate and key by server name; repeatable"),
    ),
    "Authentication": (
        Flag("authentication-kubeconfig", kinds.STRING, "kubeconfig for token reviews; empty for in-cluster"),
        Flag("authentication-skip-lookup", kinds.BOOL, "do not read the authentication ConfigMap"),
        Flag("authentication-token-webhook-cache-ttl", kinds.DURATION, "how long token reviews are kept"),
        Flag("authentication-tolerate-lookup-failure", kinds.BOOL, "go on when the ConfigMap cannot be read"),
        Flag("client-ca-file", kinds.STRING, "authority of client certificates"),
        Flag("requestheader-allowed-names", kinds.STRINGS, "common names of front proxies; any if empty"),
        Flag("requestheader-client-ca-file", kinds.STRING, "authority of front proxies"),
        Flag("requestheader-extra-headers-prefix", kinds.STRINGS, "prefixes of extra headers"),
        Flag("requestheader-group-headers", kinds.STRINGS, "headers that name groups"),
        Flag("requestheader-uid-headers", kinds.STRINGS, "headers that name the user's UID"),
        Flag("requestheader-username-headers", kinds.STRINGS, "headers that name the user"),
    ),
    "Authorization": (
        Flag("authorization-always-allow-paths", kinds.STRINGS, "paths open to everybody; a final * is a prefix"),
        Flag("authorization-kubeconfig", kinds.STRING, "kubeconfig for access reviews; empty for in-cluster"),
        Flag("authorization-webhook-cache-authorized-ttl", kinds.DURATION, "how long permissions are kept"),
        Flag("authorization-webhook-cache-unauthorized-ttl", kinds.DURATION, "how long refusals are kept"),
    ),
    "Deprecated": (
        Flag("contention-profiling", kinds.BOOL, "deprecated: enableContentionProfiling, ignored with --config"),
        Flag("kube-api-burst", kinds.INT32, "deprecated: clientConnection.burst, ignored with --config"),
        Flag("kube-api-content-type", kinds.STRING, "deprecated: clientConnection.contentType, ignored with --config"),
        Flag("kube-api-qps", kinds.FLOAT, "deprecated: clientConnection.qps, ignored with --config"),
        Flag("kubeconfig", kinds.STRING, "deprecated: clientConnection.kubeconfig, ignored with --config"),
        Flag("pod-max-in-unschedulable-pods-duration", kinds.DURATION, "deprecated: longest stay without a retry"),
        Flag("profiling", kinds.BOOL, "deprecated: enableProfiling, ignored with --config"),
    ),
    "Leader election": (
        Flag("leader-elect", kinds.BOOL, "compete for the lease before scheduling"),
        Flag("leader-elect-lease-duration", kinds.DURATION, "how long others wait before they take over"),
        Flag("leader-elect-renew-deadline", kinds.DURATION, "how long the leader tries to renew before it gives up"),
        Flag("leader-elect-resource-lock", kinds.STRING, "kind of lock; only leases"),
        Flag("leader-elect-resource-name", kinds.STRING, "name of the lease"),
        Flag("leader-elect-resource-namespace", kinds.STRING, "namespace of the lease"),
        Flag("leader-elect-retry-period", kinds.DURATION, "time between attempts"),
    ),
    "Feature gates and versions": (
        Flag("emulated-version", kinds.COMPONENT_VERSION, "minor version to act as; the API server's if not given"),
        Flag("feature-gates", kinds.GATES, "feature gates to set; repeatable"),
        Flag("min-compatibility-version", kinds.COMPONENT_VERSION, "oldest minor version to be compatible with"),
    ),
    "Metrics": (
        Flag("allow-metric-labels", kinds.METRIC_LABELS, "values that a metric's label may take; repeatable"),
        Flag("allow-metric-labels-manifest", kinds.STRING, "YAML file of the same; excludes the flag"),
        Flag("disabled-metrics", kinds.STRINGS, "full names of metrics to turn off"),
        Flag("show-hidden-metrics-for-version", kinds.STRING, "previous minor whose hidden metrics are shown"),
    ),
    "Logs": (
        Flag("log-flush-frequency", kinds.DURATION, "longest time between flushes"),
        Flag("log-json-info-buffer-size", kinds.QUANTITY, "alpha: buffer of info messages, json format"),
        Flag("log-json-split-stream", kinds.BOOL, "alpha: info to stdout, errors to stderr, json format"),
        Flag("log-text-info-buffer-size", kinds.QUANTITY, "alpha: buffer of info messages, text format"),
        Flag("log-text-split-stream", kinds.BOOL, "alpha: info to stdout, errors to stderr, text format"),
        Flag("logging-format", kinds.STRING, "text or json"),
        Flag("v", kinds.INT32, "verbosity of the log", short="v"),
        Flag("vmodule", kinds.VMODULE, "verbosity by file pattern, text format only"),
    ),
    "Berth": (
        Flag("self-audit-period", kinds.DURATION, "time between checks of what is believed; 0 for none"),
        Flag("victim-patience", kinds.DURATION, "time that evicted pods may take beyond their grace period"),
    ),
    "Global": (Flag("version", kinds.VERSION, "print the version and exit; raw prints all of it"),),
}
"""All flags by group, as ``--help`` prints them."""

FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS.values() for flag in group}
"""All flags by name."""
