"""``--feature-gates``: reading the settings, checking them against a version row, and the gates that result.

Called by the commands once the version row is known. One string may serve clusters of both minors, so a name that only
another served minor knows is noted and left aside; a name that nobody knows is an error.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from berth.config.faults import ConfigError, Fault, other
from berth.config.versions import ROWS
from berth.framework.features import FeatureGates, Features, GateSpec, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from berth.config.versions import VersionRow

FLAG = "--feature-gates"
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_GROUPS = {"AllAlpha": Stage.ALPHA, "AllBeta": Stage.BETA}
_MERGED = {"GangScheduling": "GenericWorkload", "WorkloadAwarePreemption": "GenericWorkload"}


def parse_bool(text: str) -> bool:
    """A boolean as flags spell it.

    Raises:
        ValueError: *text* is none of the spellings.

    Source: Go package strconv, ParseBool.
    """
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def parse_settings(text: str) -> dict[str, bool]:
    """Read ``A=true,kube:B=false``; a later mention of a name wins.

    Raises:
        ConfigError: an entry has no ``=``, no boolean, or names a component that is not ``kube``.
    """
    settings: dict[str, bool] = {}
    faults: list[Fault] = []
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        try:
            name, value = _setting(entry)
        except ValueError as error:
            faults.append(other(FLAG, str(error)))
        else:
            settings[name] = value
    if faults:
        raise ConfigError(faults)
    return settings


def _setting(entry: str) -> tuple[str, bool]:
    component, colon, pair = entry.rpartition(":")
    name, equals, value = (part.strip() for part in pair.partition("="))
    if colon and component != "kube":
        raise ValueError(f"component not registered: {component}")
    if not equals:
        raise ValueError(f"missing bool value for {name}")
    try:
        return name, parse_bool(value)
    except ValueError as error:
        raise ValueError(f"invalid value of {name}={value}, err: {error}") from error


def default_gates(row: VersionRow) -> FeatureGates:
    """The gates of *row* at their defaults."""
    return FeatureGates(specs=row.gates, values=_values(row, {name: spec.default for name, spec in row.gates.items()}))


def resolve_gates(row: VersionRow, settings: Mapping[str, bool]) -> tuple[FeatureGates, tuple[str, ...]]:
    """The gates of *row* with *settings* applied, and lines for the log.

    ``AllAlpha`` and ``AllBeta`` move every unlocked gate of their stage that is not set by name.

    Raises:
        ConfigError: with a fault for each unknown name, each locked gate set otherwise, and each enabled gate that
            lacks another it needs.

    Source: k8s component-base featuregate/feature_gate.go.
    """
    faults: list[Fault] = []
    notices: list[str] = []
    chosen: dict[str, bool] = {}
    for name, value in settings.items():
        spec = row.gates.get(name)
        if spec is None:
            _judge_unknown(row, name, value, faults, notices)
        elif spec.locked and value is not spec.default:
            locked = f"cannot set feature gate {name} to {_go(value)}, feature is locked to {_go(spec.default)}"
            faults.append(other(FLAG, locked))
        else:
            chosen[name] = value
            notices += _leaving(spec, value)
    own = {name: _value(spec, chosen) for name, spec in row.gates.items()}
    faults += _unmet_needs(row.gates.values(), own)
    if faults:
        raise ConfigError(faults)
    return FeatureGates(specs=row.gates, values=_values(row, own)), tuple(notices)


def features_of(row: VersionRow, settings: Mapping[str, bool] | None = None) -> Features:
    """The handle the core is built with: gates of *row* with *settings*, and its behaviours.

    Raises:
        ConfigError: as `resolve_gates`.
    """
    gates, _ = resolve_gates(row, settings or {})
    return Features(gates=gates, behaviours=row.behaviours)


def _judge_unknown(row: VersionRow, name: str, value: bool, faults: list[Fault], notices: list[str]) -> None:
    if not any(name in served.gates for served in ROWS):
        faults.append(other(FLAG, f"unrecognized feature gate: {name}"))
        return
    advice = f"; use {_MERGED[name]}" if name in _MERGED else ""
    notices.append(f"feature gate {name}={_go(value)} is not known to Kubernetes {row.minor} and has no effect{advice}")


def _leaving(spec: GateSpec, value: bool) -> list[str]:
    if spec.stage is Stage.GA:
        return [f"Setting GA feature gate {spec.name}={_go(value)}. It will be removed in a future release."]
    if spec.stage is Stage.DEPRECATED:
        return [f"Setting deprecated feature gate {spec.name}={_go(value)}. It will be removed in a future release."]
    return []


def _value(spec: GateSpec, chosen: Mapping[str, bool]) -> bool:
    if spec.name in chosen:
        return chosen[spec.name]
    for group, stage in _GROUPS.items():
        if group in chosen and spec.stage is stage and not spec.locked and spec.name not in _GROUPS:
            return chosen[group]
    return spec.default


def _unmet_needs(specs: Iterable[GateSpec], values: Mapping[str, bool]) -> list[Fault]:
    faults = []
    for spec in specs:
        missing = [need for need in spec.needs if not values[need]]
        if values[spec.name] and missing:
            listed = " ".join(missing)
            text = f"{spec.name} is enabled, but depends on features that are disabled: [{listed}]"
            faults.append(other(FLAG, text))
    return faults


def _values(row: VersionRow, own: Mapping[str, bool]) -> Mapping[str, bool]:
    """*own*, and an answer for each gate that only another served minor knows."""
    values = dict(own)
    position = ROWS.index(row)
    for elsewhere, served in enumerate(ROWS):
        for name, spec in served.gates.items():
            if name not in own:
                gone = elsewhere < position  # its feature became permanent, or part of another
                values[name] = gone and (own[_MERGED[name]] if name in _MERGED else spec.default)
    return MappingProxyType(values)


def _go(value: bool) -> str:
    return "true" if value else "false"
