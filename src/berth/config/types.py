"""`KubeSchedulerConfiguration` as the scheduler uses it: decoded, defaulted, profiles merged with the defaults.

Made by ``config.load``; read by the commands, the shell, and whoever builds profiles. Immutable, so that a reload is a
new value. Expansion of multiPoint into the single points is the framework's work.

Source: k8s pkg/scheduler/apis/config/types.go.
"""

from typing import Annotated, Any

import msgspec

from berth.api.durations import Duration
from berth.framework.plugin_args import Int32, Int64, PluginArgs

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Float32 = Annotated[float, msgspec.Meta(ge=-3.4028234663852886e38, le=3.4028234663852886e38)]


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all configuration structs: immutable, camel-case on the wire."""


class LeaderElection(ConfigStruct, frozen=True):
    """Whether and how this instance competes for the lease."""

    leader_elect: bool = True
    lease_duration: Duration = Duration.of_seconds(15)
    renew_deadline: Duration = Duration.of_seconds(10)
    retry_period: Duration = Duration.of_seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigStruct, frozen=True):
    """How the API server is reached; negative ``qps`` means no limit of our own."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: Float32 = 50.0
    burst: Int32 = 100


class Plugin(ConfigStruct, frozen=True):
    """A plugin in a list; weight 0 means none is given, which counts 1 where weights count."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(ConfigStruct, frozen=True):
    """What a profile says about one extension point. A disabled ``*`` stands for all."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()

    def disables(self, name: str) -> bool:
        """Whether *name* is disabled here, by name or by ``*``."""
        return any(plugin.name in (name, "*") for plugin in self.disabled)

    def enabled_names(self) -> tuple[str, ...]:
        """The enabled plugins, in order."""
        return tuple(plugin.name for plugin in self.enabled)


class PluginConfig(ConfigStruct, frozen=True):
    """Arguments of one plugin: its struct, or the decoded JSON as it came where no struct is registered."""

    name: str = ""
    args: PluginArgs | Any = None


class Profile(ConfigStruct, frozen=True):
    """One scheduler name and the plugins that serve it, defaults merged in.

    ``plugins`` has an entry for every extension point of the version, by its camel-case key, ``multiPoint`` among them.
    ``percentage_of_nodes_to_score`` None means that the global value holds; 0 is a choice of its own.
    """

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: dict[str, PluginSet] = msgspec.field(default_factory=dict)
    plugin_config: tuple[PluginConfig, ...] = ()

    def enabled_names(self) -> frozenset[str]:
        """Every plugin enabled anywhere in the profile."""
        return frozenset(name for point in self.plugins.values() for name in point.enabled_names())

    def args_by_plugin(self) -> dict[str, Any]:
        """Arguments by plugin name; valid profiles name each plugin once."""
        return {config.name: config.args for config in self.plugin_config}


class ExtenderTLSConfig(ConfigStruct, frozen=True):
    """Certificates for an extender; the data fields are base64 and win over the files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderManagedResource(ConfigStruct, frozen=True):
    """A resource that makes pods the extender's business, and whether NodeResourcesFit overlooks it."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(ConfigStruct, frozen=True):
    """An HTTP service that takes part in decisions; an empty verb means it does not take part there."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(ConfigStruct, frozen=True):
    """The whole configuration; see the fields of the same name in the reference's API."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
