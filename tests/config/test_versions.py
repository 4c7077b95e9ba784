from __future__ import annotations

from dataclasses import fields

import pytest

from berth.config.faults import ConfigError
from berth.config.gate_table import MINORS
from berth.config.gates import default_gates
from berth.config.versions import NEWEST, OLDEST, ROWS, VersionRow, resolve_version, row_of
from berth.framework.features import Behaviours, Stage

CHOICES = {
    "the API server's own minor": (None, "v1.36.5+k3s1", "1.36", None),
    "a plain minor": (None, "1.37", "1.37", None),
    "emulation decides alone": ("1.36", "v1.37.2", "1.36", None),
    "emulation needs no server": ("1.37", None, "1.37", None),
    "no server and no wish": (None, None, "1.37", None),
    "a newer server gets the newest row": (
        None,
        "v1.39.0-alpha.1",
        "1.37",
        "API server version v1.39.0-alpha.1 is newer than the versions served here; acting as 1.37",
    ),
    "the next major version is newer": (
        None,
        "v2.0.0",
        "1.37",
        "API server version v2.0.0 is newer than the versions served here; acting as 1.37",
    ),
    "an older server gets the oldest row": (
        None,
        "v1.35.9",
        "1.36",
        "API server version v1.35.9 is older than the versions served here; acting as 1.36",
    ),
    "an unreadable version gets the newest row": (
        None,
        "unknown",
        "1.37",
        "API server reports version 'unknown', which is not understood; acting as 1.37",
    ),
}


@pytest.mark.parametrize(("emulated", "server", "minor", "notice"), CHOICES.values(), ids=CHOICES.keys())
def test_the_row_is_chosen(emulated: str | None, server: str | None, minor: str, notice: str | None) -> None:
    assert resolve_version(emulated, server) == (row_of(minor), notice)


@pytest.mark.parametrize("emulated", ["1.33", "1.38", "2.37", "new"])
def test_a_version_that_cannot_be_emulated_is_refused(emulated: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_version(emulated, "v1.36.2")
    assert str(caught.value) == f"--emulated-version: emulation version {emulated} is not between [1.36, 1.37]"


def test_rows_are_the_columns_of_the_gate_table() -> None:
    assert tuple(row.minor for row in ROWS) == MINORS
    assert (ROWS[0], ROWS[-1]) == (OLDEST, NEWEST)


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_every_need_of_a_gate_is_a_gate(row: VersionRow) -> None:
    for spec in row.gates.values():
        assert set(spec.needs) <= set(row.gates), spec.name


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_alpha_gates_are_off_and_default_gates_have_their_needs(row: VersionRow) -> None:
    for spec in row.gates.values():
        assert not (spec.stage is Stage.ALPHA and spec.default), spec.name
        assert not spec.default or all(row.gates[need].default for need in spec.needs), spec.name


GATES = {
    # name: (1.36 stage, default, locked), (1.37 ...)
    "StorageCapacityScoring": ((Stage.ALPHA, False, False), (Stage.BETA, True, False)),
    "VolumeLimitScaling": ((Stage.ALPHA, False, False), (Stage.BETA, True, False)),
    "DRADeviceTaintRules": ((Stage.BETA, False, False), (Stage.GA, True, False)),
    "DRAExtendedResource": ((Stage.BETA, True, False), (Stage.GA, True, True)),
    "DRAPrioritizedList": ((Stage.GA, True, False), (Stage.GA, True, True)),
    "NodeDeclaredFeatures": ((Stage.BETA, True, False), (Stage.GA, True, True)),
    "GenericWorkload": ((Stage.ALPHA, False, False), (Stage.BETA, False, False)),
    "SchedulerAsyncAPICalls": ((Stage.BETA, False, False), (Stage.BETA, False, False)),
    "SchedulerAsyncPreemption": ((Stage.BETA, True, False), (Stage.BETA, True, False)),
    "DynamicResourceAllocation": ((Stage.GA, True, True), (Stage.GA, True, True)),
    "SchedulerQueueingHints": ((Stage.GA, True, True), None),
    "GangScheduling": ((Stage.ALPHA, False, False), None),
    "SchedulerPreQueueingHints": (None, (Stage.ALPHA, False, False)),
    "DRAFractionalCapacityRange": (None, (Stage.BETA, False, False)),
}


@pytest.mark.parametrize("name", GATES)
def test_a_gate_has_the_state_of_its_version(name: str) -> None:
    for row, want in zip(ROWS, GATES[name], strict=True):
        spec = row.gates.get(name)
        assert (spec and (spec.stage, spec.default, spec.locked)) == want


def test_every_behaviour_differs_between_the_versions() -> None:
    for behaviour in fields(Behaviours):
        values = {getattr(row.behaviours, behaviour.name) for row in ROWS}
        assert len(values) == 2, behaviour.name


TAIL = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
]
HEADS = {
    "1.36": [("SchedulingGates", 0), ("PrioritySort", 0), ("NodeUnschedulable", 0), ("NodeName", 0)],
    "1.37": [("SchedulingGates", 0), ("PrioritySort", 0), ("NodeName", 0), ("NodeUnschedulable", 0)],
}


@pytest.mark.parametrize("minor", HEADS)
def test_the_default_plugins_have_their_order_and_weights(minor: str) -> None:
    row = row_of(minor)
    assert list(row.default_multi_point(default_gates(row))) == HEADS[minor] + TAIL


GROUP_PLUGINS = [("GangScheduling", 0), ("TopologyPlacementGenerator", 0), ("PodGroupPodsCount", 1)]


@pytest.mark.parametrize(
    ("minor", "gates"),
    [("1.36", ["GangScheduling", "TopologyAwareWorkloadScheduling"]), ("1.37", ["GenericWorkload"])],
)
def test_group_plugins_come_with_their_gates(minor: str, gates: list[str]) -> None:
    row = row_of(minor)
    on = default_gates(row).with_values(dict.fromkeys([*gates, "TopologyAwareWorkloadScheduling"], True))
    assert list(row.default_multi_point(on))[-3:] == GROUP_PLUGINS


def test_deferred_pods_are_judged_before_resources_where_the_gate_is_on() -> None:
    on = default_gates(NEWEST).with_values({"InPlacePodVerticalScalingSchedulerPreemption": True})
    listed = [name for name, _ in NEWEST.default_multi_point(on)]
    at = listed.index("DeferredPodScheduling")
    assert listed[at - 1 : at + 2] == ["NodePorts", "DeferredPodScheduling", "NodeResourcesFit"]


def test_the_newest_version_alone_has_the_point_after_group_failures() -> None:
    assert "podGroupPostFilter" not in OLDEST.extension_points
    assert "podGroupPostFilter" in NEWEST.extension_points
    assert len(NEWEST.extension_points) == 16
