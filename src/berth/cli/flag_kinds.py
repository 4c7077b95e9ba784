"""The kinds of values that flags take: how a text is read, how repeated mentions add up, how a value is shown.

Error texts follow the wording of the reference's flag library, because people search for them. Used by
``cli.flag_table`` only.
"""

from __future__ import annotations

import csv
import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from berth.api.durations import Duration
from berth.api.quantity import parse_quantity
from berth.config.faults import ConfigError
from berth.config.gates import parse_bool, parse_settings

if TYPE_CHECKING:
    from collections.abc import Callable

_INT64 = 2**63
_INT32 = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """How values of one kind are read.

    ``read`` turns one text into a value and raises `ValueError` with the reason. ``fold`` puts a further mention on top
    of what earlier ones gave (None before the first); without it the last one wins. ``bare`` is the text that a mention
    without a value stands for, None where a value is needed.
    """

    word: str
    read: Callable[[str], Any]
    fold: Callable[[Any, Any], Any] | None = None
    bare: str | None = None
    show: Callable[[Any], str] = str


def _read_int(text: str, limit: int = _INT64) -> int:
    try:
        number = int(text, 0)
    except ValueError:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -limit <= number < limit:
        raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number


def _read_int32(text: str) -> int:
    return _read_int(text, _INT32)


def _read_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _read_ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f'failed to parse IP: "{text}"') from None


def _read_list(text: str) -> tuple[str, ...]:
    return tuple(next(csv.reader([text]), ())) if text else ()


def _read_ints(text: str) -> tuple[int, ...]:
    return tuple(_read_int32(part.strip()) for part in _read_list(text))


def _read_gates(text: str) -> dict[str, bool]:
    try:
        return parse_settings(text)
    except ConfigError as error:
        raise ValueError("; ".join(fault.detail for fault in error.faults)) from error


def _read_component_version(text: str) -> str:
    found = re.fullmatch(r"(?:([A-Za-z][A-Za-z0-9.-]*)=)?v?([0-9]+\.[0-9]+)(?:\.[0-9]+)?", text)
    if found is None:
        raise ValueError(f"want [kube=]MAJOR.MINOR, got {text}")
    if found[1] not in (None, "kube"):
        raise ValueError(f"component not registered: {found[1]}")
    return found[2]


def _read_vmodule(text: str) -> tuple[tuple[str, int], ...]:
    pairs = []
    for entry in filter(None, text.split(",")):
        pattern, equals, level = entry.partition("=")
        if not (pattern and equals and re.fullmatch(r"[0-9]+", level)):
            raise ValueError("syntax error: expect comma-separated list of filename=N")
        pairs.append((pattern, int(level)))
    return tuple(pairs)


def _read_metric_labels(text: str) -> dict[tuple[str, str], frozenset[str]]:
    place, equals, values = text.partition("=")
    metric, comma, label = place.partition(",")
    if not (metric and comma and label and equals):
        raise ValueError(f"{text} must be formatted as metric,label=value1,value2")
    return {(metric.strip(), label.strip()): frozenset(part.strip() for part in values.split(","))}


def _read_sni(text: str) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    files, _, domains = text.partition(":")
    certificate, comma, key = files.partition(",")
    if not (certificate and comma and key):
        raise ValueError("expected comma separated certificate and key file paths")
    return ((certificate, key, tuple(filter(None, domains.split(",")))),)


def _read_quantity(text: str) -> str:
    parse_quantity(text)
    return text


def _read_version(text: str) -> str:
    """``true`` and ``raw`` ask for output, ``false`` for nothing, ``vX.Y.Z`` changes what is reported."""
    if text == "raw" or re.fullmatch(r"v[0-9]+\.[0-9]+\.[0-9]+.*", text):
        return text
    return "true" if parse_bool(text) else ""


def _append(before: tuple[Any, ...] | None, more: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*(before or ()), *more)


def _merge(before: dict[Any, Any] | None, more: dict[Any, Any]) -> dict[Any, Any]:
    return {**(before or {}), **more}


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


def _show_float(value: float) -> str:
    return f"{value:g}"


def _show_list(values: tuple[Any, ...]) -> str:
    return f"[{','.join(str(value) for value in values)}]"


def _show_gates(settings: dict[str, bool]) -> str:
    return ",".join(f"{name}={_show_bool(value)}" for name, value in sorted(settings.items()))


def _show_vmodule(pairs: tuple[tuple[str, int], ...]) -> str:
    return ",".join(f"{pattern}={level}" for pattern, level in pairs)


def _show_sni(certificates: tuple[tuple[str, str, tuple[str, ...]], ...]) -> str:
    return ";".join(f"{cert},{key}" + (f":{','.join(names)}" if names else "") for cert, key, names in certificates)


def _show_metric_labels(allowed: dict[tuple[str, str], frozenset[str]]) -> str:
    return ";".join(f"{metric},{label}={','.join(sorted(values))}" for (metric, label), values in allowed.items())


STRING = Kind(word="string", read=str)
BOOL = Kind(word="bool", read=parse_bool, bare="true", show=_show_bool)
INT = Kind(word="int", read=_read_int)
INT32 = Kind(word="int32", read=_read_int32)
FLOAT = Kind(word="float32", read=_read_float, show=_show_float)
DURATION = Kind(word="duration", read=Duration.parse)
IP = Kind(word="ip", read=_read_ip)
STRINGS = Kind(word="strings", read=_read_list, fold=_append, show=_show_list)
INTS = Kind(word="int32s", read=_read_ints, fold=_append, show=_show_list)
GATES = Kind(word="name=bool,...", read=_read_gates, fold=_merge, show=_show_gates)
COMPONENT_VERSION = Kind(word="[kube=]MAJOR.MINOR", read=_read_component_version)
VMODULE = Kind(word="pattern=N,...", read=_read_vmodule, fold=_append, show=_show_vmodule)
METRIC_LABELS = Kind(word="metric,label=values", read=_read_metric_labels, fold=_merge, show=_show_metric_labels)
SNI = Kind(word="cert,key[:domains]", read=_read_sni, fold=_append, show=_show_sni)
QUANTITY = Kind(word="quantity", read=_read_quantity)
VERSION = Kind(word="how", read=_read_version, bare="true")
