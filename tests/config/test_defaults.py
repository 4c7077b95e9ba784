from __future__ import annotations

from typing import Any

import pytest
from tests.config.builders import a_document, decoded, decoded_profile, names, with_args, with_profile

from berth.api.durations import Duration
from berth.config.defaults import CAPACITY_SHAPE, merge_plugin_sets
from berth.config.gates import default_gates
from berth.config.load import default_config
from berth.config.types import ClientConnection, LeaderElection, Plugin, PluginSet
from berth.config.versions import NEWEST, ROWS, VersionRow, row_of
from berth.framework.plugin_args import (
    ARGS_BY_PLUGIN,
    CPU_AND_MEMORY,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    ResourceSpec,
    VolumeBindingArgs,
)


@pytest.mark.parametrize("row", ROWS, ids=repr)
def test_an_empty_object_is_the_default_configuration(row: VersionRow) -> None:
    want = default_config(row, default_gates(row))
    assert decoded(a_document(), minor=row.minor) == want
    assert decoded(a_document(profiles=[]), minor=row.minor) == want
    assert decoded(a_document(profiles=[{}]), minor=row.minor) == want


def test_the_defaults_are_those_of_the_reference() -> None:
    config = default_config(NEWEST, default_gates(NEWEST))
    assert config.parallelism == 16
    assert config.percentage_of_nodes_to_score == 0
    assert (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (1, 10)
    assert config.enable_profiling
    assert config.enable_contention_profiling
    assert not config.delay_cache_until_active
    assert config.client_connection == ClientConnection(qps=50.0, burst=100)
    assert config.leader_election == LeaderElection(
        lease_duration=Duration.parse("15s"), renew_deadline=Duration.parse("10s"), retry_period=Duration.parse("2s")
    )
    (profile,) = config.profiles
    assert profile.scheduler_name == "default-scheduler"
    assert profile.percentage_of_nodes_to_score is None
    assert tuple(profile.plugins) == NEWEST.extension_points
    assert [entry.name for entry in profile.plugin_config] == sorted(ARGS_BY_PLUGIN)


ZEROS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "a zero rate": ({"clientConnection": {"qps": 0}}, "client_connection.qps", 50.0),
    "a zero burst": ({"clientConnection": {"burst": 0}}, "client_connection.burst", 100),
    "an empty content type": (
        {"clientConnection": {"contentType": ""}},
        "client_connection.content_type",
        "application/vnd.kubernetes.protobuf",
    ),
    "a zero lease": (
        {"leaderElection": {"leaseDuration": "0s"}},
        "leader_election.lease_duration",
        Duration.parse("15s"),
    ),
    "an empty lease name": (
        {"leaderElection": {"resourceName": ""}},
        "leader_election.resource_name",
        "kube-scheduler",
    ),
    "leader election may be off": (
        {"leaderElection": {"leaderElect": False}},
        "leader_election.leader_elect",
        False,
    ),
    "a negative rate stays": ({"clientConnection": {"qps": -1}}, "client_connection.qps", -1.0),
    "profiling off takes contention with it": ({"enableProfiling": False}, "enable_contention_profiling", False),
    "contention may be off alone": ({"enableContentionProfiling": False}, "enable_contention_profiling", False),
    "contention may be wanted alone": (
        {"enableProfiling": False, "enableContentionProfiling": True},
        "enable_contention_profiling",
        True,
    ),
}


@pytest.mark.parametrize(("fields", "path", "want"), ZEROS.values(), ids=ZEROS.keys())
def test_empty_values_give_way_to_defaults(fields: dict[str, Any], path: str, want: Any) -> None:
    value: Any = decoded(a_document(**fields))
    for attribute in path.split("."):
        value = getattr(value, attribute)
    assert value == want


def test_an_explicit_zero_percentage_of_a_profile_is_kept() -> None:
    assert decoded_profile(percentageOfNodesToScore=0).percentage_of_nodes_to_score == 0


DEFAULT = PluginSet(enabled=(Plugin(name="A"), Plugin(name="B", weight=2), Plugin(name="C")))


def a_set(*enabled: tuple[str, int], disabled: tuple[str, ...] = ()) -> PluginSet:
    return PluginSet(
        enabled=tuple(Plugin(name=name, weight=weight) for name, weight in enabled),
        disabled=tuple(Plugin(name=name) for name in disabled),
    )


MERGES = {
    "nothing said": (a_set(), [("A", 0), ("B", 2), ("C", 0)]),
    "one disabled": (a_set(disabled=("B",)), [("A", 0), ("C", 0)]),
    "all disabled": (a_set(disabled=("*",)), []),
    "all disabled, wherever the star stands": (a_set(("X", 1), disabled=("A", "*", "B")), [("X", 1)]),
    "a default named again keeps its place": (a_set(("B", 7)), [("A", 0), ("B", 7), ("C", 0)]),
    "a new one comes last": (a_set(("X", 1)), [("A", 0), ("B", 2), ("C", 0), ("X", 1)]),
    "replaced and new": (a_set(("X", 1), ("A", 3)), [("A", 3), ("B", 2), ("C", 0), ("X", 1)]),
    "disabled and enabled again comes last": (a_set(("A", 5), disabled=("A",)), [("B", 2), ("C", 0), ("A", 5)]),
    "star and a default": (a_set(("B", 4), disabled=("*",)), [("B", 4)]),
    "a default twice: the last replaces, the first is appended": (
        a_set(("B", 4), ("B", 5)),
        [("A", 0), ("B", 5), ("C", 0), ("B", 4)],
    ),
    "disabling the unknown": (a_set(disabled=("Z",)), [("A", 0), ("B", 2), ("C", 0)]),
}


@pytest.mark.parametrize(("custom", "want"), MERGES.values(), ids=MERGES.keys())
def test_plugins_are_merged_with_the_defaults(custom: PluginSet, want: list[tuple[str, int]]) -> None:
    merged = merge_plugin_sets(DEFAULT, custom)
    assert [(plugin.name, plugin.weight) for plugin in merged.enabled] == want
    assert merged.disabled == custom.disabled


def test_single_points_have_no_defaults_of_their_own() -> None:
    profile = decoded_profile(plugins={"score": {"enabled": names("X"), "disabled": names("*")}})
    assert profile.plugins["score"] == a_set(("X", 0), disabled=("*",))
    assert profile.plugins["filter"] == PluginSet()
    assert "NodeResourcesFit" in profile.plugins["multiPoint"].enabled_names()


def test_a_default_plugin_keeps_its_place_when_its_weight_is_changed() -> None:
    listed = decoded_profile(
        "1.36", plugins={"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 10}]}}
    ).plugins["multiPoint"]
    assert listed.enabled[7] == Plugin(name="NodeResourcesFit", weight=10)


def test_default_arguments_follow_those_given() -> None:
    profile = decoded_profile(
        plugins={"multiPoint": {"disabled": names("VolumeBinding", "DynamicResources")}},
        pluginConfig=[{"name": "VolumeBinding"}, {"name": "Cool", "args": 1}, {"name": "NodeAffinity"}],
    )
    assert [entry.name for entry in profile.plugin_config] == [
        "VolumeBinding",
        "Cool",
        "NodeAffinity",
        "DefaultPreemption",
        "InterPodAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
    ]


def test_two_profiles_are_both_defaulted() -> None:
    document = a_document(profiles=[{"schedulerName": "a"}, {"schedulerName": "b", "pluginConfig": [{"name": "Cool"}]}])
    first, second = decoded(document).profiles
    assert (first.scheduler_name, second.scheduler_name) == ("a", "b")
    assert first.plugins == second.plugins
    assert len(second.plugin_config) == len(first.plugin_config) + 1


SHAPES = {
    "scoring is off": ("1.36", {}, None),
    "scoring is on": ("1.37", {}, CAPACITY_SHAPE),
    "scoring is turned on": ("1.36", {"StorageCapacityScoring": True}, CAPACITY_SHAPE),
    "scoring is turned off": ("1.37", {"StorageCapacityScoring": False}, None),
}


@pytest.mark.parametrize(("minor", "gates", "shape"), SHAPES.values(), ids=SHAPES.keys())
def test_the_capacity_shape_depends_on_the_gate(minor: str, gates: dict[str, bool], shape: Any) -> None:
    args = decoded(a_document(), minor=minor, gates=gates).profiles[0].args_by_plugin()["VolumeBinding"]
    assert args == VolumeBindingArgs(bind_timeout_seconds=600, shape=shape)


TIMEOUTS: dict[str, tuple[dict[str, bool], DynamicResourcesArgs]] = {
    "both on": (
        {},
        DynamicResourcesArgs(filter_timeout=Duration.parse("10s"), binding_timeout=Duration.parse("10m")),
    ),
    "no filter timeout": (
        {"DRASchedulerFilterTimeout": False},
        DynamicResourcesArgs(binding_timeout=Duration.parse("10m")),
    ),
    "no binding conditions": (
        {"DRADeviceBindingConditions": False},
        DynamicResourcesArgs(filter_timeout=Duration.parse("10s")),
    ),
}


@pytest.mark.parametrize(("gates", "want"), TIMEOUTS.values(), ids=TIMEOUTS.keys())
def test_timeouts_of_dynamic_resources_depend_on_gates(gates: dict[str, bool], want: DynamicResourcesArgs) -> None:
    assert decoded(a_document(), gates=gates).profiles[0].args_by_plugin()["DynamicResources"] == want


RESOURCES: dict[str, tuple[list[dict[str, Any]], tuple[ResourceSpec, ...]]] = {
    "none": ([], CPU_AND_MEMORY),
    "without weight": ([{"name": "cpu"}], (ResourceSpec(name="cpu", weight=1),)),
    "weight zero": ([{"name": "gpu", "weight": 0}], (ResourceSpec(name="gpu", weight=1),)),
    "with weight": ([{"name": "cpu", "weight": 3}], (ResourceSpec(name="cpu", weight=3),)),
}


@pytest.mark.parametrize(("given", "want"), RESOURCES.values(), ids=RESOURCES.keys())
def test_scored_resources_default_to_cpu_and_memory_of_weight_one(
    given: list[dict[str, Any]], want: tuple[ResourceSpec, ...]
) -> None:
    document = with_args("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": given}})
    strategy = decoded(document).profiles[0].args_by_plugin()["NodeResourcesFit"].scoring_strategy
    assert (strategy.type, strategy.resources) == ("MostAllocated", want)


def test_balanced_resources_default_too() -> None:
    args = decoded(with_args("NodeResourcesBalancedAllocation", {})).profiles[0].args_by_plugin()
    want = NodeResourcesBalancedAllocationArgs(resources=CPU_AND_MEMORY)
    assert args["NodeResourcesBalancedAllocation"] == want


def test_the_order_of_default_plugins_is_that_of_the_version() -> None:
    for minor, second in (("1.36", "NodeUnschedulable"), ("1.37", "NodeName")):
        row = row_of(minor)
        listed = decoded(with_profile(), minor=row.minor).profiles[0].plugins["multiPoint"].enabled_names()
        assert listed[2] == second
