from __future__ import annotations

import pytest

from berth.config.faults import ConfigError
from berth.config.gates import default_gates, features_of, parse_settings, resolve_gates
from berth.config.versions import NEWEST, OLDEST, row_of

SETTINGS = {
    "nothing": ("", {}),
    "one": ("A=true", {"A": True}),
    "several": ("A=true,B=false", {"A": True, "B": False}),
    "the last mention wins": ("A=true,A=false", {"A": False}),
    "the component may be named": ("kube:A=true,kube:B=false", {"A": True, "B": False}),
    "spaces and empty entries are passed over": (" A = true , ,B=0", {"A": True, "B": False}),
    "every spelling of a boolean": (
        "a=t,b=T,c=1,d=TRUE,e=True,f=f,g=F,h=FALSE,i=False",
        dict.fromkeys("abcde", True) | dict.fromkeys("fghi", False),
    ),
}


@pytest.mark.parametrize(("text", "settings"), SETTINGS.values(), ids=SETTINGS.keys())
def test_settings_are_read(text: str, settings: dict[str, bool]) -> None:
    assert parse_settings(text) == settings


def test_every_faulty_setting_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings("A,B=yes,cloud:C=true,D=true")
    assert [fault.detail for fault in caught.value.faults] == [
        "missing bool value for A",
        'invalid value of B=yes, err: strconv.ParseBool: parsing "yes": invalid syntax',
        "component not registered: cloud",
    ]


REFUSED = {
    "an unknown gate": ("1.37", {"NoSuchGate": True}, ["unrecognized feature gate: NoSuchGate"]),
    "a locked gate": (
        "1.37",
        {"NodeDeclaredFeatures": False},
        ["cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true"],
    ),
    "a gate without another that it needs": (
        "1.37",
        {"TopologyAwareWorkloadScheduling": True},
        ["TopologyAwareWorkloadScheduling is enabled, but depends on features that are disabled: [GenericWorkload]"],
    ),
    "a gate without several that it needs": (
        "1.37",
        {"CompositePodGroup": True},
        [
            (
                "CompositePodGroup is enabled, but depends on features that are disabled: "
                "[GenericWorkload TopologyAwareWorkloadScheduling]"
            )
        ],
    ),
    "a gate that others need": (
        "1.36",
        {"NodeDeclaredFeatures": False, "ExtendWebSocketsToKubelet": False},
        [
            (
                "InPlacePodLevelResourcesVerticalScaling is enabled, but depends on features that are disabled: "
                "[NodeDeclaredFeatures]"
            ),
            (
                "RestartAllContainersOnContainerExits is enabled, but depends on features that are disabled: "
                "[NodeDeclaredFeatures]"
            ),
        ],
    ),
    "all at once": (
        "1.36",
        {"NoSuchGate": True, "DynamicResourceAllocation": False, "GangScheduling": True},
        [
            "unrecognized feature gate: NoSuchGate",
            "cannot set feature gate DynamicResourceAllocation to false, feature is locked to true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ],
    ),
}


@pytest.mark.parametrize(("minor", "settings", "faults"), REFUSED.values(), ids=REFUSED.keys())
def test_settings_that_cannot_be_are_refused(minor: str, settings: dict[str, bool], faults: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_gates(row_of(minor), settings)
    told = [fault.detail for fault in caught.value.faults]
    assert [fault for fault in told if fault in faults] == faults


NOTED = {
    "a gate that became part of another": (
        "1.37",
        {"GangScheduling": True},
        "feature gate GangScheduling=true is not known to Kubernetes 1.37 and has no effect; use GenericWorkload",
    ),
    "a gate that is not born yet": (
        "1.36",
        {"SchedulerPreQueueingHints": True},
        "feature gate SchedulerPreQueueingHints=true is not known to Kubernetes 1.36 and has no effect",
    ),
    "a gate that is about to go": (
        "1.37",
        {"DRADeviceTaints": True},
        "Setting GA feature gate DRADeviceTaints=true. It will be removed in a future release.",
    ),
}


@pytest.mark.parametrize(("minor", "settings", "notice"), NOTED.values(), ids=NOTED.keys())
def test_settings_without_effect_are_noted(minor: str, settings: dict[str, bool], notice: str) -> None:
    gates, notices = resolve_gates(row_of(minor), settings)
    assert notices == (notice,)
    assert gates == default_gates(row_of(minor))


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    gates, _ = resolve_gates(NEWEST, {"NodeDeclaredFeatures": True})
    assert gates.enabled("NodeDeclaredFeatures")


def test_all_alpha_moves_alpha_gates_that_are_not_set_by_name() -> None:
    gates, _ = resolve_gates(OLDEST, {"AllAlpha": True, "StorageCapacityScoring": False})
    assert gates.enabled("GenericWorkload")
    assert not gates.enabled("StorageCapacityScoring")
    assert not gates.enabled("SchedulerAsyncAPICalls"), "beta gates stay"


def test_all_beta_moves_beta_gates_and_leaves_locked_ones() -> None:
    # PodLevelResources and what needs it move together, so no dependency is left open.
    gates, _ = resolve_gates(NEWEST, {"AllBeta": False})
    assert not gates.enabled("OpportunisticBatching")
    assert not gates.enabled("PodLevelResources")
    assert gates.enabled("NodeDeclaredFeatures")


ELSEWHERE = {
    "merged gates follow the one they went into": ("1.37", {"GenericWorkload": True}, "WorkloadAwarePreemption", True),
    "merged gates are off with it": ("1.37", {}, "GangScheduling", False),
    "permanent features are on": ("1.37", {}, "SidecarContainers", True),
    "unborn gates are off": ("1.36", {}, "PodLevelResourcesFixDefaulting", False),
}


@pytest.mark.parametrize(("minor", "settings", "name", "on"), ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_gates_of_the_other_version_have_an_answer(minor: str, settings: dict[str, bool], name: str, on: bool) -> None:
    assert features_of(row_of(minor), settings).enabled(name) is on


def test_a_misspelt_gate_is_an_error() -> None:
    gates = default_gates(NEWEST)
    with pytest.raises(KeyError, match="StorageCapacityScorring"):
        gates.enabled("StorageCapacityScorring")
    with pytest.raises(KeyError, match="StorageCapacityScorring"):
        gates.with_values({"StorageCapacityScorring": True})
