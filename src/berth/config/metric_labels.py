"""The manifest of ``--allow-metric-labels-manifest``: which values the labels of which metrics may take.

A YAML mapping of ``metric,label`` to ``value1,value2``, the same pairs as the flag ``--allow-metric-labels`` takes.
Read once, at the start.

Source: k8s component-base metrics/opts.go, ``SetLabelAllowListFromManifest``.
"""

from __future__ import annotations

from pathlib import Path

from berth.config.documents import parse_document
from berth.config.faults import ConfigError, Fault, invalid, other

_FLAG = "--allow-metric-labels-manifest"


def read_metric_labels(path: str) -> dict[tuple[str, str], frozenset[str]]:
    """(metric, label) -> the values to keep, as the file at *path* says.

    Raises:
        ConfigError: the file cannot be read, or says something else.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([other(_FLAG, f"cannot read {path}: {error}")]) from error
    try:
        document = parse_document(text) or {}
    except ConfigError as error:
        raise ConfigError([other(_FLAG, f"{path}: {fault}") for fault in error.faults]) from error
    if not isinstance(document, dict):
        raise ConfigError([invalid(_FLAG, document, f"{path} must be a mapping of metric,label to value1,value2")])
    allowed: dict[tuple[str, str], frozenset[str]] = {}
    faults: list[Fault] = []
    for place, values in document.items():
        metric, comma, label = str(place).partition(",")
        if not (metric and comma and label and isinstance(values, str)):
            faults.append(invalid(f"{_FLAG}[{place}]", values, "must be formatted as metric,label: value1,value2"))
        else:
            allowed[metric.strip(), label.strip()] = frozenset(part.strip() for part in values.split(","))
    if faults:
        raise ConfigError(faults)
    return allowed
