"""Documents and decoded configurations that say only what a case is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.config.faults import ConfigError
from berth.config.gates import resolve_gates
from berth.config.load import decode_config
from berth.config.types import API_VERSION, KIND
from berth.config.versions import row_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.config.types import KubeSchedulerConfiguration, Profile


def a_document(**fields: Any) -> dict[str, Any]:
    """A v1 object with these fields and nothing else."""
    return {"apiVersion": API_VERSION, "kind": KIND, **fields}


def with_profile(**fields: Any) -> dict[str, Any]:
    """A v1 object whose only profile has these fields."""
    return a_document(profiles=[fields])


def with_args(plugin: str, args: Any) -> dict[str, Any]:
    """A v1 object that gives *plugin* these arguments."""
    return with_profile(pluginConfig=[{"name": plugin, "args": args}])


def decoded(
    document: Any, *, minor: str = "1.37", gates: Mapping[str, bool] | None = None
) -> KubeSchedulerConfiguration:
    row = row_of(minor)
    return decode_config(document, row, resolve_gates(row, gates or {})[0])


def decoded_profile(minor: str = "1.37", /, **fields: Any) -> Profile:
    return decoded(with_profile(**fields), minor=minor).profiles[0]


def faults_of(document: Any, *, minor: str = "1.37", gates: Mapping[str, bool] | None = None) -> list[str]:
    """The lines that a document is refused with; empty if it is accepted."""
    try:
        decoded(document, minor=minor, gates=gates)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def names(*plugins: str) -> list[dict[str, str]]:
    """A plugin list without weights."""
    return [{"name": plugin} for plugin in plugins]
