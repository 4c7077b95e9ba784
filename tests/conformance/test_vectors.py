"""What must be equal to the reference, in Kubernetes 1.36 and 1.37: every part of every decision, and every hint."""

from functools import cache
from pathlib import Path
from typing import Final

import pytest
from tests.conformance.compare import EVENTS, PARTS
from tests.conformance.report import Report
from tests.conformance.runner import HINTS, Selection, run

from berth.config.versions import ROWS
from berth.plugins.registry import IN_TREE

VECTORS: Final = Path(__file__).parent / "vectors"
VERSIONS: Final = tuple(row.minor for row in ROWS)
PLUGINS_TODAY: Final = frozenset(IN_TREE)

# Group -> how many pods it schedules, in either version or by version; so for the changes of the hint groups below.
GROUPS_TODAY: Final[dict[str, int | dict[str, int]]] = {
    "resources": 580,
    "taints": 401,
    "node-affinity": 418,
    "ports": 321,
    "images": 273,
    "spread": 589,
    "pod-affinity": 590,
    "volumes": {"1.36": 645, "1.37": 617},
    "preemption": 198,
    "dra": 409,
    "config": 415,
    "mixed": 417,
    "messages": 167,
    "changes": {"1.36": 374, "1.37": 458},
}
CHANGES: Final = {
    "node": 519,
    "assigned-pod": 461,
    "own-update": 283,
    "volumes": 396,
    "dra": 231,
    "changes": 165,
}


@cache
def decisions(group: str) -> Report:
    files = [VECTORS / version / f"{group}.jsonl.gz" for version in VERSIONS]
    return run(files, Selection(parts=tuple(PARTS)))


@cache
def hints() -> Report:
    return run([VECTORS], Selection(parts=(HINTS,)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", GROUPS_TODAY)
def test_every_part_of_every_decision_is_that_of_the_reference(version: str, group: str) -> None:
    report = decisions(group)
    rows = [row for row in report.rows() if (row.version, row.group) == (version, group)]
    pods = GROUPS_TODAY[group]
    many = pods if isinstance(pods, int) else pods[version]
    expected = [(part, many, many) for part in PARTS]
    assert [(row.part, row.equal, row.total) for row in rows] == expected, _told(report, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_scores_of_every_plugin_that_exists_are_those_of_the_reference(version: str) -> None:
    all_rows = (row for group in GROUPS_TODAY for row in decisions(group).plugin_rows())
    rows = [row for row in all_rows if row.version == version and row.plugin in PLUGINS_TODAY]
    scorers = {row.plugin for row in rows}
    assert ("VolumeBinding" in scorers) is (version != "1.36"), "storage is scored since 1.37"
    assert scorers >= {
        "DynamicResources",
        "ImageLocality",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesFit",
        "PodTopologySpread",
        "TaintToleration",
    }
    assert [row for row in rows if row.equal != row.total] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("group", CHANGES)
def test_every_change_is_the_events_that_it_is_in_the_reference(version: str, group: str) -> None:
    rows = [row for row in hints().plugin_rows() if (row.version, row.group, row.plugin) == (version, group, EVENTS)]
    assert [(row.equal, row.total) for row in rows] == [(CHANGES[group], CHANGES[group])], _told(hints(), version)


@pytest.mark.parametrize("version", VERSIONS)
def test_hints_of_every_plugin_that_exists_answer_as_in_the_reference(version: str) -> None:
    rows = [row for row in hints().plugin_rows() if row.version == version and row.plugin in PLUGINS_TODAY]
    assert {row.plugin for row in rows} >= {
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "NodeVolumeLimits",
        "PodTopologySpread",
        "SchedulingGates",
        "VolumeBinding",
        "VolumeRestrictions",
        "VolumeZone",
    }
    assert [row for row in rows if row.equal != row.total] == []


def _told(report: Report, version: str) -> str:
    return "\n".join(f"{d.name} {d.subject}: {d.words}" for d in report.differences() if d.version == version)
