from __future__ import annotations

from typing import Any

import pytest
from tests.config.builders import faults_of, names, with_args, with_profile

from berth.config.gates import default_gates
from berth.config.validation_args import validate_args
from berth.config.versions import NEWEST
from berth.framework.plugin_args import InterPodAffinityArgs

AT = "profiles[0].pluginConfig[0].args"
SHAPE = [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]


def a_strategy(strategy: str, **fields: Any) -> dict[str, Any]:
    return {"scoringStrategy": {"type": strategy, **fields}}


def a_ratio(*points: tuple[int, int]) -> dict[str, Any]:
    shape = [{"utilization": utilization, "score": score} for utilization, score in points]
    return a_strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": shape})


def a_constraint(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}
    return {"defaultingType": "List", "defaultConstraints": [constraint]}


def an_affinity(key: str, terms: Any) -> dict[str, Any]:
    return {"addedAffinity": {f"{key}DuringSchedulingIgnoredDuringExecution": terms}}


# case: (plugin, arguments, lines without the common start of the path)
REFUSED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "preemption: a percentage above all": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 101},
        ["minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]"],
    ),
    "preemption: a negative number": (
        "DefaultPreemption",
        {"minCandidateNodesAbsolute": -1},
        ["minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)"],
    ),
    "preemption: no candidates at all": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        [
            (
                "minCandidateNodesPercentage: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesAbsolute"
            ),
            (
                "minCandidateNodesAbsolute: Invalid value: 0: "
                "cannot be zero at the same time as minCandidateNodesPercentage"
            ),
        ],
    ),
    "pod affinity: a weight above the limit": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": 101},
        ["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
    ),
    "node affinity: a required term that cannot be parsed": (
        "NodeAffinity",
        an_affinity("required", {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}),
        [
            (
                "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
                '.operator: Unsupported value: "Near"'
            )
        ],
    ),
    "node affinity: every preferred term that cannot be parsed": (
        "NodeAffinity",
        an_affinity(
            "preferred",
            [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}},
                {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                {"weight": 1, "preference": {"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}},
            ],
        ),
        [
            (
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].matchExpressions[0].values: "
                "Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
            ),
            (
                "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[2].matchFields[0].operator: "
                'Unsupported value: "Exists"'
            ),
        ],
    ),
    "balance: a weight": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 2}]},
        ["resources[0].weight: Invalid value: 2: must be 1"],
    ),
    "balance: a resource twice": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
        ['resources[1].name: Duplicate value: "cpu"'],
    ),
    "fit: a group with a slash": (
        "NodeResourcesFit",
        {"ignoredResourceGroups": ["a/b"]},
        ["ignoredResourceGroups[0]: Invalid value: \"a/b\": resource group name can't contain '/'"],
    ),
    "fit: an unknown strategy": (
        "NodeResourcesFit",
        a_strategy("Random"),
        [
            (
                'scoringStrategy.type: Unsupported value: "Random": '
                'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
            )
        ],
    ),
    "fit: the strategy of a given object is not defaulted": (
        "NodeResourcesFit",
        {"scoringStrategy": {"resources": [{"name": "cpu"}]}},
        [
            (
                'scoringStrategy.type: Unsupported value: "": '
                'supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"'
            )
        ],
    ),
    "fit: weights out of range": (
        "NodeResourcesFit",
        a_strategy("LeastAllocated", resources=[{"name": "cpu", "weight": 101}, {"name": "memory", "weight": -1}]),
        [
            (
                "scoringStrategy.resources[0].weight: Invalid value: 101: "
                "resource weight of cpu not in valid range (0, 100]"
            ),
            (
                "scoringStrategy.resources[1].weight: Invalid value: -1: "
                "resource weight of memory not in valid range (0, 100]"
            ),
        ],
    ),
    "fit: a ratio without its shape": (
        "NodeResourcesFit",
        a_strategy("RequestedToCapacityRatio"),
        [
            (
                "scoringStrategy.requestedToCapacityRatio: Required value: "
                "must be specified when type is RequestedToCapacityRatio"
            )
        ],
    ),
    "fit: a shape without its strategy": (
        "NodeResourcesFit",
        a_strategy("MostAllocated", requestedToCapacityRatio={"shape": SHAPE}),
        [
            (
                "scoringStrategy.requestedToCapacityRatio: Forbidden: "
                "must be nil when type is not RequestedToCapacityRatio"
            )
        ],
    ),
    "fit: a shape without points": (
        "NodeResourcesFit",
        a_ratio(),
        [("scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified")],
    ),
    "fit: points out of range": (
        "NodeResourcesFit",
        a_ratio((-1, 0), (101, 11)),
        [
            (
                "scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: -1: "
                "not in valid range [0, 100]"
            ),
            (
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 101: "
                "not in valid range [0, 100]"
            ),
            "scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: 11: not in valid range [0, 10]",
        ],
    ),
    "fit: points out of order, told once": (
        "NodeResourcesFit",
        a_ratio((50, 1), (50, 2), (20, 3)),
        [
            (
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: "
                "values must be sorted in increasing order"
            )
        ],
    ),
    "spread: an unknown type": (
        "PodTopologySpread",
        {"defaultingType": "Mine"},
        ['defaultingType: Unsupported value: "Mine": supported values: "System", "List"'],
    ),
    "spread: constraints beside the built-in ones": (
        "PodTopologySpread",
        {**a_constraint(), "defaultingType": "System"},
        ['defaultingType: Invalid value: "System": when .defaultConstraints are not empty'],
    ),
    "spread: no skew": (
        "PodTopologySpread",
        a_constraint(maxSkew=0),
        ["defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)"],
    ),
    "spread: an empty constraint": (
        "PodTopologySpread",
        {"defaultingType": "List", "defaultConstraints": [{}]},
        [
            "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
            "defaultConstraints[0].topologyKey: Required value: can not be empty",
            "defaultConstraints[0].whenUnsatisfiable: Required value: can not be empty",
        ],
    ),
    "spread: an unknown action": (
        "PodTopologySpread",
        a_constraint(whenUnsatisfiable="Maybe"),
        [
            (
                'defaultConstraints[0].whenUnsatisfiable: Unsupported value: "Maybe": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"'
            )
        ],
    ),
    "spread: a selector": (
        "PodTopologySpread",
        a_constraint(labelSelector={}),
        [
            (
                "defaultConstraints[0].labelSelector: Forbidden: "
                "constraint must not define a selector, as they deduced for each pod"
            )
        ],
    ),
    "spread: a constraint twice": (
        "PodTopologySpread",
        {**a_constraint(), "defaultConstraints": 2 * a_constraint()["defaultConstraints"]},
        ['defaultConstraints[1]: Duplicate value: "{zone, ScheduleAnyway}"'],
    ),
    "volumes: a negative wait": (
        "VolumeBinding",
        {"bindTimeoutSeconds": -1},
        ["bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"],
    ),
    "volumes: a shape out of order": (
        "VolumeBinding",
        {"shape": [{"utilization": 9, "score": 1}, {"utilization": 9, "score": 2}]},
        ["shape[1].utilization: Invalid value: 9: values must be sorted in increasing order"],
    ),
    "devices: a negative wait": (
        "DynamicResources",
        {"filterTimeout": "-1s"},
        ["filterTimeout: Invalid value: -1s: must be zero or positive"],
    ),
    "devices: a binding wait below a second": (
        "DynamicResources",
        {"bindingTimeout": "999ms"},
        ["bindingTimeout: Invalid value: 999ms: must be at least 1 second"],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "lines"), REFUSED.values(), ids=REFUSED.keys())
def test_arguments_that_make_no_sense_are_refused(plugin: str, args: dict[str, Any], lines: list[str]) -> None:
    assert faults_of(with_args(plugin, args)) == [f"{AT}.{line}" for line in lines]


@pytest.mark.parametrize("name", ["", "-x", "a b", "/x", "A/x/y", "x" * 64])
def test_ignored_resources_must_be_qualified_names(name: str) -> None:
    (line,) = faults_of(with_args("NodeResourcesFit", {"ignoredResources": [name]}))
    assert line.startswith(f'{AT}.ignoredResources[0]: Invalid value: "{name}": ')


@pytest.mark.parametrize("key", ["-x", "a b", "/x"])
def test_topology_keys_must_be_label_keys(key: str) -> None:
    (line,) = faults_of(with_args("PodTopologySpread", a_constraint(topologyKey=key)))
    assert line.startswith(f'{AT}.defaultConstraints[0].topologyKey: Invalid value: "{key}": ')


GATED: dict[str, tuple[str, dict[str, Any], dict[str, bool], list[str]]] = {
    "a shape while scoring is off": (
        "VolumeBinding",
        {"shape": [{"utilization": 0, "score": 1}]},
        {"StorageCapacityScoring": False},
        [
            (
                'shape: Invalid value: [{"utilization": 0, "score": 1}]: '
                "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            )
        ],
    ),
    "a filter timeout while there is none": (
        "DynamicResources",
        {"filterTimeout": "1s"},
        {"DRASchedulerFilterTimeout": False},
        ["filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled"],
    ),
    "a binding timeout while there are no conditions": (
        "DynamicResources",
        {"bindingTimeout": "1m"},
        {"DRADeviceBindingConditions": False},
        [
            (
                "bindingTimeout: Forbidden: "
                "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            )
        ],
    ),
}


@pytest.mark.parametrize(("plugin", "args", "gates", "lines"), GATED.values(), ids=GATED.keys())
def test_arguments_of_a_feature_that_is_off_are_refused(
    plugin: str, args: dict[str, Any], gates: dict[str, bool], lines: list[str]
) -> None:
    assert faults_of(with_args(plugin, args), gates=gates) == [f"{AT}.{line}" for line in lines]
    assert faults_of(with_args(plugin, args)) == []


def test_a_shape_is_refused_by_the_older_version_and_accepted_by_the_newer() -> None:
    document = with_args("VolumeBinding", {"shape": SHAPE})
    assert len(faults_of(document, minor="1.36")) == 1
    assert faults_of(document, minor="1.37") == []


ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "one of the two numbers of candidates may be zero": ("DefaultPreemption", {"minCandidateNodesPercentage": 0}),
    "pod affinity without weight": ("InterPodAffinity", {"hardPodAffinityWeight": 0}),
    "no limit for filtering": ("DynamicResources", {"filterTimeout": "0s", "bindingTimeout": "1s"}),
    "no wait for volumes": ("VolumeBinding", {"bindTimeoutSeconds": 0}),
    "a list without constraints": ("PodTopologySpread", {"defaultingType": "List"}),
    "a ratio with one point": ("NodeResourcesFit", a_ratio((30, 10))),
    "a term without conditions is never looked at": ("NodeAffinity", an_affinity("preferred", [{"weight": 1}])),
}


@pytest.mark.parametrize(("plugin", "args"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_arguments_at_the_edge_are_accepted(plugin: str, args: dict[str, Any]) -> None:
    assert faults_of(with_args(plugin, args)) == []


def test_arguments_of_a_disabled_plugin_are_validated_except_those_of_fit() -> None:
    off = {"multiPoint": {"disabled": names("InterPodAffinity", "NodeResourcesFit")}}
    bad = [
        {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": -1}},
        {"name": "NodeResourcesFit", "args": a_strategy("Random")},
    ]
    (line,) = faults_of(with_profile(plugins=off, pluginConfig=bad))
    assert line.startswith(f"{AT}.hardPodAffinityWeight: ")


def test_arguments_of_another_plugin_are_refused() -> None:
    (fault,) = validate_args("NodeAffinity", InterPodAffinityArgs(), "args", default_gates(NEWEST))
    assert str(fault) == (
        'args: Invalid value: "InterPodAffinityArgs": has to match plugin name: want NodeAffinityArgs'
    )
