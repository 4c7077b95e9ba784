"""Pods with spread constraints, as the tests of PodTopologySpread write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builders import a_pod

from berth.api.pod import TopologySpreadConstraint
from berth.api.selectors import LabelSelector, SelectorRequirement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.api.pod import Pod

ZONE, HOSTNAME, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
FOO = LabelSelector(match_expressions=(SelectorRequirement(key="foo", operator="Exists"),))
BAR = LabelSelector(match_expressions=(SelectorRequirement(key="bar", operator="Exists"),))
FAULTY = LabelSelector(match_labels={"foo": "{{.bad-value.}}"})


def evenly(
    key: str = ZONE, skew: int = 1, selector: LabelSelector | None = FOO, *, soft: bool = False, **other: Any
) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=selector,
        **other,
    )


def a_waiting_pod(*constraints: TopologySpreadConstraint, labels: Mapping[str, str] | None = None, **other: Any) -> Pod:
    spec = {"topology_spread_constraints": constraints, **other.pop("spec", {})}
    return a_pod("waiting", labels={"foo": ""} if labels is None else labels, spec=spec, **other)


def some(number: int, on: str, labels: Sequence[str] = ("foo",), **other: Any) -> list[Pod]:
    """Pods with these labels on a node."""
    kind = "-".join([*labels, other.get("namespace", ""), "gone" if other.get("metadata") else ""])
    return [a_pod(f"{on}-{kind}-{i}", on=on, labels=dict.fromkeys(labels, ""), **other) for i in range(number)]
