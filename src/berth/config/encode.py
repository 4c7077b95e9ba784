"""The configuration in use, written as the v1 object: for ``--write-config-to``, ``/configz`` and the log.

What is written reads back as the same configuration. multiPoint is kept as such; pluginConfig holds the enabled plugins
that take arguments, by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import yaml
from msgspec.structs import fields

from berth.api.durations import Duration
from berth.api.meta import ApiStruct
from berth.config.types import API_VERSION, KIND, Extender, KubeSchedulerConfiguration, PluginSet, Profile
from berth.framework.plugin_args import ARGS_BY_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping


def encode_config(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """The v1 object as plain values, ready for JSON or YAML."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **_plain(config)}
    document["profiles"] = [_profile(profile) for profile in config.profiles]
    return document


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    """The v1 object as YAML, keys sorted."""
    return yaml.safe_dump(encode_config(config), sort_keys=True, allow_unicode=True)


def _profile(profile: Profile) -> dict[str, Any]:
    enabled = profile.enabled_names()
    args = {name: value for name, value in profile.args_by_plugin().items() if name in enabled}
    encoded: dict[str, Any] = {
        "schedulerName": profile.scheduler_name,
        "plugins": {point: _plain(plugins) for point, plugins in profile.plugins.items()},
        "pluginConfig": [{"name": name, "args": _args(name, args[name])} for name in sorted(args)],
    }
    if profile.percentage_of_nodes_to_score is not None:
        encoded["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    return encoded


def _args(plugin: str, args: Any) -> Any:
    cls = ARGS_BY_PLUGIN.get(plugin)
    if cls is None:
        return args
    return {"apiVersion": API_VERSION, "kind": cls.__name__, **_plain(args)}


def _plain(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, ApiStruct):
        return msgspec.to_builtins(value)
    if isinstance(value, msgspec.Struct):
        return _object(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    return value


def _object(struct: msgspec.Struct) -> Mapping[str, Any]:
    """All that is set; of lists only those that hold something, of extenders only what departs from the default."""
    terse = isinstance(struct, Extender | PluginSet)
    encoded = {}
    for field in fields(struct):
        value = getattr(struct, field.name)
        if value is not None and value != () and not (terse and value == field.default):
            encoded[field.encode_name] = _plain(value)
    return encoded
