"""Scores: raw, rescaled, weighted, added up; and the words for those that are wrong."""

from __future__ import annotations

import pytest
from tests.framework.fakes import Filter, NormalizedScore, PreFilter, PreScore, Score
from tests.scheduling.builders import Search, cluster_of, search_of

from berth.framework.interface import Scope
from berth.framework.status import SKIP, PluginError, error
from berth.scheduling.algorithm import Found
from berth.scheduling.verdicts import CycleError

CLUSTER = cluster_of("n1", "n2", "n3")
NUMBER = {"n1": 1, "n2": 2, "n3": 3}
REVERSE = {"n1": 3, "n2": 2, "n3": 1}
SCOPES = pytest.mark.parametrize("scope", Scope)


def breaking(text: str, scope: Scope) -> NormalizedScore:
    """A plugin that cannot rescale."""
    plugin = NormalizedScore("Bad", CLUSTER, NUMBER, scope=scope)
    plugin.fault = PluginError(text)
    return plugin


@SCOPES
def test_the_node_with_the_highest_score_is_taken(scope: Scope) -> None:
    search = search_of(CLUSTER, Score("Number", CLUSTER, NUMBER, scope=scope))
    assert search.found().node_name == "n3"
    assert search.totals() == NUMBER


@SCOPES
def test_a_weight_can_turn_the_choice(scope: Scope) -> None:
    plugins = [Score("Number", CLUSTER, NUMBER), Score("Reverse", CLUSTER, REVERSE, scope=scope)]
    search = search_of(CLUSTER, *plugins, weights={"Reverse": 2})
    assert search.found().node_name == "n1"
    assert search.totals() == {"n1": 7, "n2": 6, "n3": 5}


@SCOPES
def test_weights_come_after_rescaling(scope: Scope) -> None:
    plugin = NormalizedScore("Number", CLUSTER, {"n1": 1000, "n2": 500, "n3": 250}, scope=scope)
    assert search_of(CLUSTER, plugin, weights={"Number": 3}).totals() == {"n1": 300, "n2": 150, "n3": 75}


def test_what_each_plugin_gave_adds_up_to_the_totals() -> None:
    plugins = [
        Score("Row", CLUSTER, NUMBER),
        NormalizedScore("RowNormalized", CLUSTER, NUMBER),
        Score("Cluster", CLUSTER, REVERSE, scope=Scope.CLUSTER),
        NormalizedScore("ClusterNormalized", CLUSTER, REVERSE, scope=Scope.CLUSTER),
    ]
    search = search_of(CLUSTER, *plugins, weights={"RowNormalized": 2, "Cluster": 5})
    in_full, in_short = search.schedule(in_full=True), search.schedule()
    assert isinstance(in_full, Found)
    assert isinstance(in_short, Found)
    assert in_full.scored is not None
    assert in_short.scored is not None
    assert {name: scores.tolist() for name, scores in in_full.scored.by_plugin.items()} == {
        "Row": [1, 2, 3],
        "RowNormalized": [66, 132, 200],
        "Cluster": [15, 10, 5],
        "ClusterNormalized": [100, 66, 33],
    }
    assert in_full.scored.totals.tolist() == in_short.scored.totals.tolist() == [182, 210, 241]
    assert in_short.scored.by_plugin == {}


def test_all_totals_are_equal_where_nobody_scores() -> None:
    assert search_of(CLUSTER).totals() == {"n1": 0, "n2": 0, "n3": 0}


def test_a_single_node_that_fits_needs_no_score() -> None:
    pre, score = PreScore("P", error("must not be asked")), Score("S", CLUSTER, PluginError("must not be asked"))
    search = search_of(CLUSTER, Filter("F", CLUSTER, lambda node, _pod: node != "n2"), pre, score)
    found = search.schedule()
    assert isinstance(found, Found)
    assert (found.node_name, found.scored, pre.given) == ("n2", None, [])
    assert sorted(found.rejected().by_node()) == ["n1", "n3"]


@SCOPES
def test_only_nodes_that_fit_are_scored(scope: Scope) -> None:
    pre, score = PreScore("P"), Score("S", CLUSTER, NUMBER, scope=scope)
    search = search_of(CLUSTER, Filter("F", CLUSTER, lambda node, _pod: node == "n3"), pre, score)
    assert search.totals() == {"n1": 1, "n2": 2}
    assert score.asked_of() == ["n1", "n2"]
    assert pre.given == [[0, 1]]


class Sitting(PreScore, Score):
    """A score plugin that sits out when it is told to."""

    def __init__(self, name: str, scope: Scope, *, out: bool) -> None:
        Score.__init__(self, name, CLUSTER, NUMBER, scope=scope)
        PreScore.__init__(self, name)
        self.sit(out=out)

    def sit(self, *, out: bool) -> None:
        self.answer = SKIP if out else PreScore("").answer


@SCOPES
def test_who_sits_out_gives_no_score(scope: Scope) -> None:
    idle, busy = Sitting("Idle", scope, out=True), Sitting("Busy", scope, out=False)
    search = search_of(CLUSTER, idle, busy, weights={"Idle": 7})
    found = search.found()
    assert found.scored is not None
    assert found.scored.by_plugin.keys() == {"Busy"}
    assert search.totals() == NUMBER
    assert idle.asked_of() == []


def test_all_may_sit_out() -> None:
    search = search_of(CLUSTER, *(Sitting(name, Scope.ROW, out=True) for name in "AB"))
    assert search.totals() == {"n1": 0, "n2": 0, "n3": 0}


INVALID = "it should in the range of [0, 100] after normalizing"

# the plugin at fault, made for a scope; the whole text
FAULTS = {
    "PreScore fails": (lambda _: PreScore("Bad", error("boom")), 'running PreScore plugin "Bad": boom'),
    "PreScore raises": (lambda _: PreScore("Bad", PluginError("boom")), 'running PreScore plugin "Bad": boom'),
    "Score raises": (
        lambda scope: Score("Bad", CLUSTER, PluginError("boom"), scope=scope),
        'running Score plugins: plugin "Bad" failed with: boom',
    ),
    "Normalize raises": (
        lambda scope: breaking("boom", scope),
        'running Normalize on Score plugins: plugin "Bad" failed with: boom',
    ),
    "a score is too high": (
        lambda scope: Score("Bad", CLUSTER, {**NUMBER, "n2": 101}, scope=scope),
        f'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score 101, {INVALID}',
    ),
    "a score is too low": (
        lambda scope: Score("Bad", CLUSTER, {**NUMBER, "n3": -1}, scope=scope),
        f'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score -1, {INVALID}',
    ),
    "a rescaled score is too low": (
        lambda scope: NormalizedScore("Bad", CLUSTER, {"n1": 2, "n2": -1, "n3": 2}, scope=scope),
        f'applying score defaultWeights on Score plugins: plugin "Bad" returns an invalid score -50, {INVALID}',
    ),
}


@SCOPES
@pytest.mark.parametrize("in_full", [False, True])
@pytest.mark.parametrize(("make", "text"), FAULTS.values(), ids=FAULTS)
def test_the_attempt_ends_where(make: object, text: str, scope: Scope, in_full: bool) -> None:
    assert callable(make)
    search = search_of(CLUSTER, Score("Good", CLUSTER, NUMBER), make(scope))
    for _ in range(2):  # the next pod like it meets the same fault
        with pytest.raises(CycleError) as caught:
            search.schedule(in_full=in_full)
        assert str(caught.value) == text


def test_the_bounds_themselves_are_valid() -> None:
    assert search_of(CLUSTER, Score("S", CLUSTER, {"n1": 0, "n2": 100, "n3": 50})).totals()["n2"] == 100


def test_scores_of_nodes_named_by_pre_filter_are_worked_out_afresh() -> None:
    score = NormalizedScore("S", CLUSTER, NUMBER)
    search = search_of(CLUSTER, PreFilter("P", nodes={"n1", "n2"}), score)
    assert search.totals() == search.totals() == {"n1": 50, "n2": 100}
    assert score.asked_of() == ["n1", "n1", "n2", "n2"]


def totals_after_a_fault(search: Search, plugin: Score) -> dict[str, int]:
    plugin.scores, scores = PluginError("boom"), plugin.scores
    with pytest.raises(CycleError):
        search.schedule()
    plugin.scores = scores
    return search.totals()


def test_a_fault_leaves_nothing_behind() -> None:
    cluster = cluster_of("n1", "n2", "n3")
    first, second = Score("A", cluster, dict(NUMBER)), Score("B", cluster, NUMBER)
    search = search_of(cluster, first, second)
    assert search.totals() == {"n1": 2, "n2": 4, "n3": 6}
    assert isinstance(first.scores, dict)
    first.scores["n1"] = 50
    cluster.set_node(cluster.table.node(0))
    assert totals_after_a_fault(search, second) == {"n1": 51, "n2": 4, "n3": 6}
