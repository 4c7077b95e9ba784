"""The way from a file, a mapping, or nothing at all to a usable `KubeSchedulerConfiguration`.

Three steps, each ending the way if it finds faults, and each finding all of its own: parse the text, decode it
strictly, validate the defaulted result. Commands that put flags between defaults and validation use `read_config` and
`validate` one after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from berth.config.decode import decode_struct, unknown_field
from berth.config.defaults import set_defaults
from berth.config.documents import parse_document
from berth.config.faults import ConfigError, Fault, invalid, other
from berth.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from berth.config.validation import validated
from berth.config.wire import ConfigurationV1, PluginConfigV1, ProfileV1
from berth.framework.plugin_args import ARGS_BY_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.config.versions import VersionRow
    from berth.framework.features import FeatureGates

_ARGS_KINDS = frozenset(cls.__name__ for cls in ARGS_BY_PLUGIN.values())


def default_config(row: VersionRow, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """The configuration in use when none is given."""
    return set_defaults(ConfigurationV1(), (), row, gates)


def load_config(path: Path | str, row: VersionRow, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Read, decode, default and validate the file at *path*.

    Raises:
        ConfigError: with every fault of the first step that finds any; unreadable files too.
    """
    return validated(read_config(path, row, gates), gates)


def read_config(path: Path | str, row: VersionRow, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """As `load_config`, without the validation.

    Raises:
        ConfigError: the file cannot be read or decoded.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError([other("", f"cannot read configuration file {path}: {reason}")]) from error
    return _decode(parse_document(text), row, gates)


def decode_config(document: Mapping[str, Any], row: VersionRow, gates: FeatureGates) -> KubeSchedulerConfiguration:
    """Decode, default and validate a configuration that is already parsed.

    Raises:
        ConfigError: with every fault of the first step that finds any.
    """
    return validated(_decode(document, row, gates), gates)


def _decode(document: Any, row: VersionRow, gates: FeatureGates) -> KubeSchedulerConfiguration:
    _check_identity(document)
    faults: list[Fault] = []
    given = decode_struct(document, ConfigurationV1, "", faults)
    args = [
        _decode_profile(profile, f"profiles[{index}]", row, faults)
        for index, profile in enumerate(given.profiles)
        if isinstance(profile, ProfileV1)  # else it is among the faults
    ]
    if faults:
        raise ConfigError(faults)
    return set_defaults(given, args, row, gates)


def _check_identity(document: Any) -> None:
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise ConfigError([invalid("", document, "the document must be an object")])
    kind, version = document.get("kind") or "", document.get("apiVersion") or ""
    if not kind:
        detail = "Object 'Kind' is missing"
    elif not version:
        detail = "Object 'apiVersion' is missing"
    elif version == API_VERSION and kind in _ARGS_KINDS:
        detail = f"couldn't decode as {KIND}, got {kind}"
    elif version != API_VERSION or kind != KIND:
        detail = f'no kind "{kind}" is registered for version "{version}"'
    else:
        return
    raise ConfigError([other("", detail)])


def _decode_profile(profile: ProfileV1, path: str, row: VersionRow, faults: list[Fault]) -> list[Any]:
    """The typed arguments of each pluginConfig entry; faults also for points that the version does not have."""
    unknown = [point for point in profile.plugins if point not in row.extension_points]
    faults += [unknown_field(f"{path}.plugins.{point}") for point in unknown]
    return [
        _decode_args(entry, f"{path}.pluginConfig[{index}].args", faults)
        for index, entry in enumerate(profile.plugin_config)
        if isinstance(entry, PluginConfigV1)  # else it is among the faults
    ]


def _decode_args(entry: PluginConfigV1, path: str, faults: list[Fault]) -> Any:
    """The typed arguments of an in-tree plugin; those of any other as they came."""
    cls = ARGS_BY_PLUGIN.get(entry.name)
    if cls is None:
        return entry.args
    fields = entry.args
    if isinstance(fields, dict):
        fields = dict(fields)
        kind, version = fields.pop("kind", None) or cls.__name__, fields.pop("apiVersion", None) or API_VERSION
        if kind != cls.__name__:
            faults.append(invalid(f"{path}.kind", kind, f"args for plugin {entry.name} must be {cls.__name__}"))
        if version != API_VERSION:
            faults.append(invalid(f"{path}.apiVersion", version, f"args for plugin {entry.name} must be {API_VERSION}"))
    return decode_struct(fields, cls, path, faults)
