"""From a configuration to plugins in order: what stands where, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_handle
from tests.framework.fakes import (
    Binder,
    Builder,
    Filter,
    Gate,
    NormalizedScore,
    Permit,
    PluginSet,
    PostBind,
    PostFilter,
    PreBind,
    PreFilter,
    PreScore,
    Ref,
    Reserve,
    Score,
    Sort,
    profile_of,
    registry_of,
)

from berth.framework.profile import MAX_TOTAL_SCORE, MULTI_POINT, POINTS, Profile, ProfileError, build_profile
from berth.framework.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.framework.interface import Plugin

CLUSTER = a_cluster()
ATTRIBUTES = {
    "preFilter": "pre_filter",
    "filter": "filter",
    "postFilter": "post_filter",
    "reserve": "reserve",
    "preScore": "pre_score",
    "score": "score",
    "preBind": "pre_bind",
    "bind": "bind",
    "postBind": "post_bind",
    "permit": "permit",
    "preEnqueue": "pre_enqueue",
}


class Everything(
    Gate, PreFilter, Filter, PostFilter, PreScore, NormalizedScore, Reserve, Permit, PreBind, Binder, PostBind
):
    """A plugin that takes part everywhere."""

    def __init__(self, name: str) -> None:
        Filter.__init__(self, name, CLUSTER)

    def sort_key(self, pod: Any, timestamp_s: float) -> Any:
        del pod
        return timestamp_s


def refs(*names: str | Ref) -> tuple[Ref, ...]:
    return tuple(Ref(name) if isinstance(name, str) else name for name in names)


def on(*names: str | Ref) -> PluginSet:
    return PluginSet(refs(*names))


def off(*names: str, on: Sequence[str | Ref] = ()) -> PluginSet:
    return PluginSet(refs(*on), refs(*names))


def built(
    sets: Mapping[str, PluginSet], *plugins: Plugin, args: Mapping[str, Any] | None = None, **options: Any
) -> Profile:
    everyone = (*plugins, Sort(), Binder())
    own = {"queueSort": on("Sort"), "bind": on("Binder")}
    return build_profile("mine", {**own, **sets}, args or {}, registry_of(*everyone), a_handle(), **options)


def names_at(profile: Profile, point: str) -> list[str]:
    return [plugin.name for plugin in getattr(profile, ATTRIBUTES[point])]


def scores(*names: str) -> list[Score]:
    return [Score(name, CLUSTER, {}) for name in names]


# -- what stands where ------------------------------------------------------------------------------------------------


def test_a_plugin_that_can_do_everything_stands_everywhere() -> None:
    profile = build_profile("mine", {MULTI_POINT: on("All")}, {}, registry_of(Everything("All")), a_handle())
    assert {point: names_at(profile, point) for point in ATTRIBUTES} == {point: ["All"] for point in ATTRIBUTES}
    assert profile.queue_sort.name == "All"
    assert set(ATTRIBUTES) | {"queueSort"} == set(POINTS)
    assert len({id(plugin) for plugin in (profile.queue_sort, *profile.filter, *profile.score, *profile.bind)}) == 1


def test_a_plugin_disabled_at_one_point_is_absent_from_that_point_only() -> None:
    sets = {MULTI_POINT: on("All"), "score": off("All")}
    profile = build_profile("mine", sets, {}, registry_of(Everything("All")), a_handle())
    assert names_at(profile, "score") == []
    assert names_at(profile, "filter") == names_at(profile, "preScore") == ["All"]
    assert profile.normalizers == {}


def test_plugins_stand_only_where_they_can_take_part() -> None:
    profile = built({MULTI_POINT: on("F", "S")}, Filter("F", CLUSTER), Score("S", CLUSTER, {}))
    found = {point: names_at(profile, point) for point in ATTRIBUTES if names_at(profile, point)}
    assert found == {"filter": ["F"], "score": ["S"], "bind": ["Binder"]}


# sets; the order of score plugins
ORDERS: dict[str, tuple[dict[str, PluginSet], list[str]]] = {
    "as listed": ({"score": on("P2", "P1")}, ["P2", "P1"]),
    "as listed for all points": ({MULTI_POINT: on("P1", "P3", "P2")}, ["P1", "P3", "P2"]),
    "a plugin that the point lists itself comes first": (
        {MULTI_POINT: on("P1", "P2"), "score": on("P2")},
        ["P2", "P1"],
    ),
    "several of these keep the order of the point": (
        {MULTI_POINT: on("P1", "P2", "P3"), "score": on("P3", "P1")},
        ["P3", "P1", "P2"],
    ),
    "a plugin that only the point lists comes last": (
        {MULTI_POINT: on("P1", "P2"), "score": on("P3")},
        ["P1", "P2", "P3"],
    ),
    "both kinds at once": ({MULTI_POINT: on("P1", "P2"), "score": on("P3", "P2")}, ["P2", "P1", "P3"]),
    "everything disabled, but one listed": ({MULTI_POINT: on("P1", "P2"), "score": off("*", on=["P3"])}, ["P3"]),
    "everything disabled, but one of all points listed": (
        {MULTI_POINT: on("P1", "P2"), "score": off("*", on=["P2"])},
        ["P2"],
    ),
    "disabled at the point and listed there again": (
        {MULTI_POINT: on("P1", "P2"), "score": off("P1", on=["P1"])},
        ["P2", "P1"],
    ),
    "a disabled name that nobody has": ({MULTI_POINT: on("P1"), "score": off("Nobody")}, ["P1"]),
    "what a set disables for all points is a matter of merging, and long done": (
        {MULTI_POINT: off("P1", on=["P1"])},
        ["P1"],
    ),
}


@pytest.mark.parametrize(("sets", "expected"), ORDERS.values(), ids=ORDERS)
def test_the_order_at_a_point(sets: dict[str, PluginSet], expected: list[str]) -> None:
    assert names_at(built(sets, *scores("P1", "P2", "P3")), "score") == expected


def test_an_order_of_one_point_leaves_the_others_alone() -> None:
    first, second = Everything("P1"), Everything("P2")
    sets = {MULTI_POINT: on("P1", "P2"), "score": on("P2"), "queueSort": off("*", on=["Sort"])}
    profile = built(sets, first, second)
    assert (names_at(profile, "score"), names_at(profile, "filter")) == (["P2", "P1"], ["P1", "P2"])


# -- weights ----------------------------------------------------------------------------------------------------------

LARGEST = MAX_TOTAL_SCORE // 100

# sets; weights
WEIGHTS: dict[str, tuple[dict[str, PluginSet], dict[str, int]]] = {
    "the one that is given": ({"score": on(Ref("P1", 7))}, {"P1": 7}),
    "1 where none is given": ({"score": on("P1")}, {"P1": 1}),
    "the one of all points": ({MULTI_POINT: on(Ref("P1", 5), "P2")}, {"P1": 5, "P2": 1}),
    "the one of the point rather than that of all points": (
        {MULTI_POINT: on(Ref("P1", 5)), "score": on(Ref("P1", 100))},
        {"P1": 100},
    ),
    "1 at the point rather than that of all points": (
        {MULTI_POINT: on(Ref("P1", 5)), "score": on("P1")},
        {"P1": 1},
    ),
    "the largest that there is room for": ({"score": on(Ref("P1", LARGEST))}, {"P1": LARGEST}),
    "two that just fit together": (
        {"score": on(Ref("P1", LARGEST - 1), "P2")},
        {"P1": LARGEST - 1, "P2": 1},
    ),
}


@pytest.mark.parametrize(("sets", "expected"), WEIGHTS.values(), ids=WEIGHTS)
def test_a_score_plugin_has_the_weight(sets: dict[str, PluginSet], expected: dict[str, int]) -> None:
    profile = built(sets, *scores("P1", "P2"))
    assert {name: profile.weights[name] for name in names_at(profile, "score")} == expected


def test_only_those_who_rescale_are_asked_to() -> None:
    profile = built({MULTI_POINT: on("N", "S")}, NormalizedScore("N", CLUSTER, {}), Score("S", CLUSTER, {}))
    assert set(profile.normalizers) == {"N"}


# -- what is refused --------------------------------------------------------------------------------------------------

# sets; the whole message
FAULTS: dict[str, tuple[dict[str, PluginSet], str]] = {
    "a plugin that nobody has, at a point": ({"filter": on("X")}, 'FilterPlugin "X" does not exist'),
    "a plugin that nobody has, at all points": ({MULTI_POINT: on("X")}, 'PreFilterPlugin "X" does not exist'),
    "a plugin that nobody has, at all points, one of which takes none": (
        {MULTI_POINT: on("X"), "preFilter": off("*"), "filter": off("*")},
        'PostFilterPlugin "X" does not exist',
    ),
    "a plugin at a point where it cannot take part": (
        {"preScore": on("P1")},
        'plugin "P1" does not extend PreScorePlugin plugin',
    ),
    "a plugin twice at a point": ({"score": on("P1", "P1")}, 'plugin "P1" already registered as "ScorePlugin"'),
    "a plugin twice at all points": (
        {MULTI_POINT: on("P1", "P1")},
        'plugin "P1" already registered as "ScorePlugin"',
    ),
    "no queue sort plugin": (
        {"queueSort": on()},
        'only one queue sort plugin required for profile with scheduler name "mine", but got 0',
    ),
    "two queue sort plugins": (
        {MULTI_POINT: on("Sort2")},
        'only one queue sort plugin required for profile with scheduler name "mine", but got 2',
    ),
    "no bind plugin": ({"bind": on()}, 'at least one bind plugin is needed for profile with scheduler name "mine"'),
    "a weight whose scores do not fit 64 bits": (
        {"score": on(Ref("P1", LARGEST + 1))},
        "score plugins: total score of Score plugins could overflow",
    ),
    "weights whose scores together do not fit 64 bits": (
        {MULTI_POINT: on(Ref("P2", LARGEST // 2 + 1)), "score": on(Ref("P1", LARGEST // 2 + 1))},
        "score plugins: total score of Score plugins could overflow",
    ),
    "a weight that does not fit, of a plugin that is disabled at Score": (
        {MULTI_POINT: on(Ref("P1", LARGEST + 1)), "score": off("P1")},
        "score plugins: total score of Score plugins could overflow",
    ),
}


@pytest.mark.parametrize(("sets", "message"), FAULTS.values(), ids=FAULTS)
def test_a_profile_is_refused(sets: dict[str, PluginSet], message: str) -> None:
    with pytest.raises(ProfileError) as caught:
        built(sets, *scores("P1", "P2"), Sort("Sort2"))
    assert str(caught.value) == message


def test_a_plugin_that_cannot_be_built_is_named() -> None:
    registry = Registry({"Picky": Builder(ValueError("strategy: unknown"))})
    with pytest.raises(ProfileError, match=r'^initializing plugin "Picky": strategy: unknown$'):
        build_profile("mine", {"filter": on("Picky")}, {}, registry, a_handle())


def test_a_score_plugin_that_goes_by_another_name_than_it_is_registered_under_has_no_weight() -> None:
    registry = registry_of(Sort(), Binder()).merged({"Alias": Builder(Score("P1", CLUSTER, {}))})
    with pytest.raises(ProfileError, match=r'^score plugin "P1" is not configured with weight$'):
        build_profile("mine", {MULTI_POINT: on("Sort", "Binder", "Alias")}, {}, registry, a_handle())


# -- how plugins are built --------------------------------------------------------------------------------------------


def test_a_plugin_is_built_once_with_its_own_arguments_however_often_it_is_named() -> None:
    builder, other = Builder(Everything("All")), Builder(Gate("Other"))
    sets = {MULTI_POINT: on("All"), "score": on(Ref("All", 3)), "preEnqueue": on("Other")}
    build_profile("mine", sets, {"All": "its arguments"}, Registry({"All": builder, "Other": other}), a_handle())
    assert (builder.args, other.args) == (["its arguments"], [None])


def test_a_plugin_that_is_nowhere_enabled_is_not_built() -> None:
    builder = Builder(Everything("All"))
    registry = registry_of(Sort(), Binder()).merged({"All": builder})
    sets = {MULTI_POINT: on("Sort", "Binder"), "score": off("All")}
    assert build_profile("mine", sets, {}, registry, a_handle()).plugins.keys() == {"Sort", "Binder"}
    assert builder.args == []


def test_plugins_of_the_reference_that_are_missing_here_are_left_out_and_named() -> None:
    sets = {MULTI_POINT: on("Theirs", "P1"), "score": on(Ref("Other", 2), "Theirs")}
    profile = built(sets, *scores("P1"), known_elsewhere=frozenset({"Theirs", "Other", "P1"}))
    assert profile.absent == ("Theirs", "Other")
    assert names_at(profile, "score") == ["P1"]


def test_a_missing_plugin_that_the_reference_does_not_have_either_is_a_fault() -> None:
    with pytest.raises(ProfileError, match=r'^PreFilterPlugin "Typo" does not exist$'):
        built({MULTI_POINT: on("Theirs", "Typo")}, known_elsewhere=frozenset({"Theirs"}))


@pytest.mark.parametrize("percentage", [None, 0, 10])
def test_the_share_of_nodes_to_score_is_kept_as_it_is(percentage: int | None) -> None:
    assert built({}, percentage_of_nodes_to_score=percentage).percentage_of_nodes_to_score == percentage


# -- who tells pods apart ---------------------------------------------------------------------------------------------


def test_all_who_judge_tell_pods_apart() -> None:
    both, late = Filter("F", CLUSTER), PreScore("L")
    profile = profile_of(both, late, Score("S", CLUSTER, {}), PostFilter("Post", Exception()), Reserve("R"))
    signers = profile.signers()
    assert signers is not None
    assert [plugin.name for plugin in signers] == ["F", "L", "S"]


def test_nobody_can_tell_pods_apart_if_one_who_judges_cannot() -> None:
    assert profile_of(Filter("F", CLUSTER), PreFilter("cannot sign")).signers() is None
