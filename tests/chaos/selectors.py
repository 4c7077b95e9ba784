"""Selectors and amounts, as the API describes them, over plain JSON."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.chaos.world import JsonObject

_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def quantity(text: str | int) -> Decimal:
    """An amount as the API writes it."""
    digits = str(text).rstrip("numkKMGTPEi")
    return Decimal(digits) * _SUFFIXES[str(text)[len(digits) :]]


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector selects; an absent one selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(satisfies(each, labels) for each in selector.get("matchExpressions") or [])


def satisfies(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels (or fields) satisfy one requirement."""
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    if operator in {"Gt", "Lt"}:
        return _compares(operator, labels.get(key, ""), values[0])
    raise ValueError(f"no such operator: {operator!r}")


def term_matches(term: Mapping[str, Any], node: JsonObject) -> bool:
    """Whether a node satisfies a node selector term; an empty one nobody satisfies."""
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not (expressions or fields):
        return False
    labels = node["metadata"].get("labels", {})
    return all(satisfies(each, labels) for each in expressions) and all(
        satisfies(each, {"metadata.name": node["metadata"]["name"]}) for each in fields
    )


def _compares(operator: str, text: str, bound: str) -> bool:
    try:
        have, limit = int(text), int(bound)
    except ValueError:
        return False
    return have > limit if operator == "Gt" else have < limit


def untolerated(pod: Mapping[str, Any], taints: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """The taints that keep a pod away which it does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or []
    keeping = [taint for taint in taints if taint["effect"] in {"NoSchedule", "NoExecute"}]
    return [taint for taint in keeping if not any(_tolerates(each, taint) for each in tolerations)]


def _tolerates(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and toleration.get("value", "") == taint.get("value", "")
