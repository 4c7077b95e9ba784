"""What extenders change in the rest of the configuration: resources that NodeResourcesFit is to overlook.

Called once, after validation and before profiles are built.

Source: k8s pkg/scheduler/scheduler.go, ``buildExtenders``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from berth.config.faults import ConfigError, Fault, required
from berth.framework.plugin_args import NodeResourcesFitArgs

if TYPE_CHECKING:
    from berth.config.types import KubeSchedulerConfiguration, PluginConfig, Profile


def inject_ignored_resources(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """*config* with the resources marked ``ignoredByScheduler`` as NodeResourcesFit's ``ignoredResources``.

    They replace what the profiles say there, as in the reference. Without such resources *config* is returned as it is.

    Raises:
        ConfigError: a profile has no arguments for NodeResourcesFit to put them in.
    """
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    if not ignored:
        return config
    faults: list[Fault] = []
    profiles = tuple(
        _with_ignored(profile, ignored, f"profiles[{index}].pluginConfig", faults)
        for index, profile in enumerate(config.profiles)
    )
    if faults:
        raise ConfigError(faults)
    return replace(config, profiles=profiles)


def _with_ignored(profile: Profile, ignored: tuple[str, ...], path: str, faults: list[Fault]) -> Profile:
    def changed(entry: PluginConfig) -> PluginConfig:
        if not isinstance(entry.args, NodeResourcesFitArgs):
            return entry
        return replace(entry, args=replace(entry.args, ignored_resources=ignored))

    if not any(isinstance(entry.args, NodeResourcesFitArgs) for entry in profile.plugin_config):
        faults.append(required(path, "NodeResourcesFit needs an entry for the resources that extenders manage"))
    return replace(profile, plugin_config=tuple(changed(entry) for entry in profile.plugin_config))
