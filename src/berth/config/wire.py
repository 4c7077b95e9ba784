"""The configuration as written: what differs from ``config.types`` because absent and empty are told apart here.

Read by ``config.decode``, resolved by ``config.defaults``, written by ``config.encode``; nobody else sees it.

Source: k8s staging/src/k8s.io/kube-scheduler/config/v1/types.go.
"""

from typing import Any

import msgspec

from berth.config.types import ClientConnection, ConfigStruct, Extender, LeaderElection, PluginSet
from berth.framework.plugin_args import Int32, Int64


class PluginConfigV1(ConfigStruct, frozen=True):
    """Arguments of a plugin, still untyped."""

    name: str = ""
    args: Any = None


class ProfileV1(ConfigStruct, frozen=True):
    """A profile before the defaults are merged in."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: dict[str, PluginSet] = msgspec.field(default_factory=dict)
    plugin_config: tuple[PluginConfigV1, ...] = ()


class ConfigurationV1(ConfigStruct, frozen=True):
    """The top-level object."""

    api_version: str = ""
    kind: str = ""
    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[ProfileV1, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
