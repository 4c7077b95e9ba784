"""What one pod taught serves the next one like it, and only that which may have changed is asked again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.builders import a_node, a_pod
from tests.framework.fakes import Filter, NormalizedScore, PreFilter, PreScore, Score
from tests.scheduling.builders import Search, cluster_of, numbered, search_of, with_metadata

from berth.cluster import changelog
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Scope
from berth.framework.status import SKIP, SUCCESS, PluginError
from berth.scheduling import equivalence
from berth.scheduling.verdicts import CycleError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.cluster.pods import PodInfo

ALL = ["n1", "n2", "n3"]


def cpu_of(pod: PodInfo) -> Hashable:
    """What a pod asks for, as the only thing that the plugins look at."""
    return pod.asked.get("cpu", 0)


class Full(Filter):
    """Rejects nodes that hold a pod."""

    def __init__(self, cluster: Cluster, scope: Scope = Scope.ROW) -> None:
        super().__init__("Full", cluster, self._is_full, scope=scope, signs=cpu_of)

    def _is_full(self, name: str, _pod: PodInfo) -> bool:
        row = self._table.row_of(name)
        assert row is not None, "nodes that do not exist are never asked about"
        return bool(self._table.pod_count[row])


class Load(Score):
    """100 for an empty node, less for each pod on it."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("Load", cluster, self._load, signs=cpu_of)

    def _load(self, name: str) -> int:
        row = self._table.row_of(name)
        assert row is not None, "nodes that do not exist are never asked about"
        return 100 - int(self._table.pod_count[row])


def full_search(*names: str) -> tuple[Search, Full]:
    """A search over nodes, all of which have been asked about."""
    cluster = cluster_of(*names)
    plugin = Full(cluster)
    search = search_of(cluster, plugin)
    assert search.feasible(a_pod("first")) == sorted(names)
    assert plugin.asked_of() == sorted(names)
    return search, plugin


def add_and_remove(search: Search) -> None:
    info = search.assume(a_pod("other"), "n2")
    search.cluster.forget(info, "n2")


def confirm(search: Search) -> None:
    pod = search.assume(a_pod("other"), "n2").pod
    search.feasible()
    search.cluster.add_pod(pod)


def confirm_with(**labels: str) -> Callable[[Search], None]:
    """The API server shows a placement, with labels that it added to the pod; the node is of zone z."""

    def act(search: Search) -> None:
        search.cluster.set_node(a_node("n2", labels={"zone": "z"}))
        pod = search.assume(a_pod("other"), "n2").pod
        search.feasible()
        search.cluster.add_pod(with_metadata(pod, labels={**pod.metadata.labels, **labels}))

    return act


def after_a_bound_pod_is_known(change: Callable[[Pod], Pod]) -> Callable[[Search], None]:
    def act(search: Search) -> None:
        pod = a_pod("other", on="n2", cpu="1")
        search.cluster.add_pod(pod)
        search.feasible()
        search.cluster.update_pod(change(pod))

    return act


def with_status(pod: Pod, **fields: Any) -> Pod:
    return replace(pod, status=replace(pod.status, **fields))


def replace_node(search: Search) -> None:
    search.cluster.remove_node("n2")
    search.cluster.set_node(a_node("m2"))


def leave_ghost(search: Search) -> None:
    search.assume(a_pod("other"), "n2")
    search.cluster.remove_node("n2")


def revive_ghost(search: Search) -> None:
    leave_ghost(search)
    search.cluster.set_node(a_node("n2"))


# what happens between two pods that are alike; the nodes asked about for the second, and those that fit
CHANGES: dict[str, tuple[Callable[[Search], object], list[str], list[str]]] = {
    "nothing": (lambda _: None, [], ALL),
    "a pod is placed": (lambda s: s.assume(a_pod("other"), "n2"), ["n2"], ["n1", "n3"]),
    "a pod is placed and taken back": (add_and_remove, ["n2"], ALL),
    "a bound pod appears": (lambda s: s.cluster.add_pod(a_pod("other", on="n3")), ["n3"], ["n1", "n2"]),
    "a node changes": (lambda s: s.cluster.set_node(a_node("n2", labels={"a": "b"})), ["n2"], ALL),
    "a node comes": (lambda s: s.cluster.set_node(a_node("n4")), ["n4"], [*ALL, "n4"]),
    "a node goes": (lambda s: s.cluster.remove_node("n2"), [], ["n1", "n3"]),
    "a node goes and another takes its row": (replace_node, ["m2"], ["m2", "n1", "n3"]),
    "a node goes and leaves a pod behind": (leave_ghost, [], ["n1", "n3"]),
    "a node comes back to its pod": (revive_ghost, ["n2"], ["n1", "n3"]),
    "a pod comes before its node": (lambda s: s.cluster.add_pod(a_pod("other", on="n9")), [], ALL),
    "a placement is confirmed": (confirm, ["n2"], ["n1", "n3"]),
    "a placement is confirmed with labels of its node": (confirm_with(zone="z"), ["n2"], ["n1", "n3"]),
    "a placement is confirmed with labels unlike those of its node": (
        confirm_with(zone="y"),
        ["n2", "n2"],
        ["n1", "n3"],
    ),
    "a bound pod changes its labels": (
        after_a_bound_pod_is_known(lambda pod: with_metadata(pod, labels={"a": "b"})),
        ["n2", "n2"],
        ["n1", "n3"],
    ),
    "a bound pod is going away": (
        after_a_bound_pod_is_known(lambda pod: with_metadata(pod, deletion_timestamp="now")),
        ["n2", "n2"],
        ["n1", "n3"],
    ),
    "a bound pod changes its spec, but not what it takes": (
        after_a_bound_pod_is_known(lambda pod: replace(pod, spec=replace(pod.spec, priority=7))),
        ["n2", "n2"],
        ["n1", "n3"],
    ),
    "a bound pod changes its status": (
        after_a_bound_pod_is_known(lambda pod: with_status(pod, phase="Running")),
        ["n2"],
        ["n1", "n3"],
    ),
    "a bound pod changes its annotations": (
        after_a_bound_pod_is_known(lambda pod: with_metadata(pod, annotations={"a": "b"})),
        ["n2"],
        ["n1", "n3"],
    ),
}


@pytest.mark.parametrize(("change", "asked", "feasible"), CHANGES.values(), ids=CHANGES)
def test_asked_again_are_only_nodes_that_changed(
    change: Callable[[Search], object], asked: list[str], feasible: list[str]
) -> None:
    search, plugin = full_search(*ALL)
    change(search)
    assert search.feasible(a_pod("second")) == feasible
    assert plugin.asked_of() == asked
    assert search.feasible(a_pod("third")) == feasible
    assert plugin.asked_of() == []


def test_nodes_beyond_the_first_block_of_rows_are_asked_about_alone() -> None:
    search, plugin = full_search(*numbered(63))
    more = [f"o{number:03}" for number in range(200)]
    for name in more:
        search.cluster.set_node(a_node(name))
    assert search.feasible(a_pod("second")) == [*numbered(63), *more]
    assert plugin.asked_of() == more
    search.assume(a_pod("other"), "o150")
    assert "o150" not in search.feasible(a_pod("third"))


def test_all_are_asked_again_once_the_log_no_longer_reaches_back(monkeypatch: pytest.MonkeyPatch) -> None:
    search, plugin = full_search(*ALL)
    monkeypatch.setattr(changelog, "_LONGEST", 4)
    monkeypatch.setattr(changelog, "_KEPT", 2)
    for number in range(4):
        search.cluster.set_node(a_node("n1", labels={"number": str(number)}))
    search.assume(a_pod("other"), "n2")
    assert search.feasible(a_pod("second")) == ["n1", "n3"]
    assert plugin.asked_of() == ALL


# -- which pods are alike ---------------------------------------------------------------------------------------------


def test_pods_that_differ_in_what_plugins_look_at_are_judged_apart() -> None:
    search, plugin = full_search(*ALL)
    for pod, asked in (
        (a_pod("other", cpu="1"), ALL),
        (a_pod("third", labels={"not": "looked at"}), []),
        (a_pod("fourth", cpu="1"), []),
        (a_pod("fifth", cpu="1000m"), []),
        (a_pod("sixth", cpu="2"), ALL),
    ):
        search.feasible(pod)
        assert plugin.asked_of() == asked, pod.key


def test_two_plugins_tell_pods_apart_together() -> None:
    cluster = cluster_of(*ALL)
    by_cpu = Filter("C", cluster, lambda node, pod: bool(cpu_of(pod)) and node == "n1", signs=cpu_of)
    by_label = Filter(
        "L",
        cluster,
        lambda node, pod: "far" in pod.pod.metadata.labels and node == "n2",
        signs=lambda pod: tuple(pod.pod.metadata.labels),
    )
    search = search_of(cluster, by_cpu, by_label)
    for _ in range(2):
        assert search.feasible(a_pod("a")) == ALL
        assert search.feasible(a_pod("b", cpu="1")) == ["n2", "n3"]
        assert search.feasible(a_pod("c", labels={"far": ""})) == ["n1", "n3"]
        assert search.feasible(a_pod("d", cpu="1", labels={"far": ""})) == ["n3"]


def unsignable(_pod: PodInfo) -> Hashable:
    return None


def failing(_pod: PodInfo) -> Hashable:
    raise PluginError("cannot sign")


@pytest.mark.parametrize("signs", [unsignable, failing])
def test_a_pod_like_no_other_is_judged_from_scratch(signs: Callable[[PodInfo], Hashable]) -> None:
    cluster = cluster_of(*ALL)
    plugin = Filter("F", cluster, lambda node, _pod: node == "n1", signs=signs)
    search = search_of(cluster, plugin)
    for _ in range(2):
        assert search.feasible() == ["n2", "n3"]
        assert plugin.asked_of() == ALL


def test_nothing_is_kept_where_one_who_judges_cannot_tell_pods_apart() -> None:
    cluster = cluster_of(*ALL)
    plugin = Filter("F", cluster, lambda _node, _pod: False)
    search = search_of(cluster, plugin, PreFilter("cannot sign"))
    for _ in range(2):
        search.feasible()
        assert plugin.asked_of() == ALL


def test_the_kind_of_pod_that_was_seen_least_lately_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence, "_CLASSES", 2)
    search, plugin = full_search(*ALL)
    asked = []
    for cpu in ("1", None, "2", None, "1"):
        search.feasible(a_pod(cpu=cpu))
        asked.append(plugin.asked_of())
    assert asked == [ALL, [], ALL, [], ALL]


# -- what plugins look at besides -------------------------------------------------------------------------------------


class Weather(Filter):
    """Looks at something cluster-wide that rarely changes."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__("Weather", cluster, lambda _node, _pod: self.rains)
        self.rains = False

    def epoch(self) -> Hashable:
        return self.rains


def test_another_epoch_makes_all_judgements_void() -> None:
    cluster = cluster_of(*ALL)
    weather, plugin = Weather(cluster), Full(cluster)
    search = search_of(cluster, weather, plugin)
    assert search.feasible() == ALL
    weather.rains = True
    assert search.feasible() == []
    weather.rains = False
    assert search.feasible() == ALL
    assert weather.asked_of() == sorted(ALL * 3)


class Season(Load):
    """A score that looks at something cluster-wide."""

    now = "summer"

    def epoch(self) -> Hashable:
        return self.now

    def _load(self, name: str) -> int:
        del name
        return {"summer": 30, "winter": 3}[self.now]


def test_another_epoch_makes_all_scores_void() -> None:
    cluster = cluster_of(*ALL)
    season = Season(cluster)
    search = search_of(cluster, season)
    assert search.totals() == dict.fromkeys(ALL, 30)
    season.now = "winter"
    assert search.totals() == dict.fromkeys(ALL, 3)


def test_a_plugin_that_looks_beyond_a_node_is_asked_in_every_cycle_and_in_its_place() -> None:
    cluster = cluster_of(*ALL)
    early = Filter("Early", cluster, lambda node, _pod: node == "n1")
    wide = Filter("Wide", cluster, lambda node, _pod: node in ("n1", "n2"), scope=Scope.CLUSTER)
    late = Filter("Late", cluster, lambda node, _pod: node == "n2")
    last = Filter("Last", cluster, lambda _node, _pod: True, scope=Scope.CLUSTER)
    search = search_of(cluster, early, wide, late, last)
    for _ in range(2):
        failure = search.failure()
        assert failure.nodes is not None
        blamed = {name: status.plugin for name, status in failure.nodes.by_node().items()}
        assert blamed == {"n1": "Early", "n2": "Wide", "n3": "Last"}
        assert (wide.asked_of(), last.asked_of()) == (["n2", "n3"], ["n3"])
    assert (early.asked_of(), late.asked_of()) == (ALL, ["n2", "n3"])


def test_a_plugin_that_looks_beyond_a_node_is_asked_about_one_that_only_a_later_plugin_has_come_to_reject() -> None:
    cluster = cluster_of(*ALL)
    wide = Filter("Wide", cluster, lambda node, _pod: node == "n1", scope=Scope.CLUSTER)
    search = search_of(cluster, wide, Full(cluster))
    assert search.feasible() == ["n2", "n3"]
    assert wide.asked_of() == ALL
    info = search.assume(a_pod("other"), "n2")
    assert search.feasible() == ["n3"]
    assert wide.asked_of() == ALL
    cluster.forget(info, "n2")
    assert search.feasible() == ["n2", "n3"]


def test_pods_that_only_cluster_wide_plugins_tell_apart_share_what_others_found() -> None:
    cluster = cluster_of(*ALL)
    narrow = Filter("Narrow", cluster, lambda node, _pod: node == "n1", signs=cpu_of)
    wide = Filter(
        "Wide",
        cluster,
        lambda node, pod: node == pod.pod.metadata.labels["not"],
        scope=Scope.CLUSTER,
        signs=lambda pod: pod.label_set,
    )
    search = search_of(cluster, narrow, wide)
    for shunned, feasible, asked in (("n2", ["n3"], ALL), ("n3", ["n2"], []), ("n2", ["n3"], [])):
        assert search.feasible(a_pod(shunned, labels={"not": shunned})) == feasible
        assert (narrow.asked_of(), wide.asked_of()) == (asked, ["n2", "n3"])


def test_a_cluster_wide_plugin_that_sits_out_or_rejects_nobody_leaves_what_is_kept_as_it_is() -> None:
    cluster = cluster_of(*ALL)
    plugin, wide = Full(cluster), SittingWide(cluster)
    search = search_of(cluster, wide, plugin)
    for answer in (SUCCESS, SKIP, SUCCESS):
        wide.answer = answer
        assert search.feasible() == ALL
    assert plugin.asked_of() == ALL


class SittingWide(PreFilter, Filter):
    """Looks beyond a node, rejects nobody, and sits out where it is told to."""

    def __init__(self, cluster: Cluster) -> None:
        Filter.__init__(self, "Wide", cluster, lambda _node, _pod: False, scope=Scope.CLUSTER)
        PreFilter.__init__(self, "Wide")


class Sitting(PreFilter, Full):
    """Sits out where it is told to."""

    def __init__(self, cluster: Cluster) -> None:
        Full.__init__(self, cluster)
        PreFilter.__init__(self, "Full")


def test_what_was_found_while_a_filter_sat_out_does_not_hold_once_it_takes_part() -> None:
    cluster = cluster_of(*ALL)
    plugin = Sitting(cluster)
    search = search_of(cluster, plugin)
    search.assume(a_pod("other"), "n2")
    for answer, feasible in ((SKIP, ALL), (SUCCESS, ["n1", "n3"]), (SKIP, ALL), (SUCCESS, ["n1", "n3"])):
        plugin.answer = answer
        assert search.feasible() == feasible


class SittingScore(PreScore, Load):
    """Sits out where it is told to."""

    def __init__(self, cluster: Cluster) -> None:
        Load.__init__(self, cluster)
        PreScore.__init__(self, "Load")


def test_scores_made_while_a_plugin_sat_out_do_not_hold_once_it_takes_part() -> None:
    cluster = cluster_of(*ALL)
    plugin, normalized = SittingScore(cluster), NormalizedScore("N", cluster, {"n1": 2, "n2": 1, "n3": 0})
    search = search_of(cluster, plugin, normalized)
    without = {"n1": 100, "n2": 50, "n3": 0}
    for answer, load in ((SKIP, 0), (SUCCESS, 100), (SKIP, 0), (SUCCESS, 100)):
        plugin.answer = answer
        assert search.totals() == {name: score + load for name, score in without.items()}
        search.cluster.set_node(a_node("n2", labels={"load": str(load)}))


def test_a_fault_leaves_what_is_kept_as_it_was() -> None:
    search, plugin = full_search(*ALL)
    search.assume(a_pod("other"), "n2")
    search.assume(a_pod("another"), "n3")
    plugin.answer, says = PluginError("boom"), plugin.answer
    with pytest.raises(CycleError):
        search.schedule(a_pod("second"))
    plugin.asked_of()
    plugin.answer = says
    assert search.feasible(a_pod("second")) == ["n1"]
    assert plugin.asked_of() == ["n2", "n3"]


# -- scores -----------------------------------------------------------------------------------------------------------


def test_scored_again_are_only_nodes_that_changed_and_fit() -> None:
    cluster = cluster_of(*ALL, "n4")
    plugin = Load(cluster)
    search = search_of(cluster, plugin, Filter("F", cluster, lambda node, _pod: node == "n4", signs=cpu_of))
    assert search.totals() == dict.fromkeys(ALL, 100)
    assert plugin.asked_of() == ALL
    search.assume(a_pod("p1"), "n2")
    search.assume(a_pod("p2"), "n4")
    assert search.totals() == {"n1": 100, "n2": 99, "n3": 100}
    assert plugin.asked_of() == ["n2"]


def test_scores_of_nodes_that_did_not_fit_for_a_while_are_made_anew() -> None:
    cluster = cluster_of(*ALL)
    plugin, full = Load(cluster), Full(cluster)
    search = search_of(cluster, full, plugin)
    search.totals()
    info = search.assume(a_pod("other"), "n2")
    assert search.totals() == {"n1": 100, "n3": 100}
    cluster.forget(info, "n2")
    assert search.totals() == dict.fromkeys(ALL, 100)
    assert plugin.asked_of() == [*ALL[:2], *ALL[1:]]


def test_changes_pile_up_while_no_scores_are_needed() -> None:
    cluster = cluster_of(*ALL)
    plugin = Load(cluster)
    search = search_of(cluster, plugin)
    search.totals()
    plugin.asked_of()
    for number, name in enumerate(["n1", "n3", "n1"]):
        search.assume(a_pod(f"p{number}"), name)
        search.algorithm._classes.refreshed(CycleState(), search.info())
    assert search.totals() == {"n1": 98, "n2": 100, "n3": 99}
    assert plugin.asked_of() == ["n1", "n3"]


def test_rescaling_follows_every_score_that_changes() -> None:
    scores = {"n1": 10, "n2": 20, "n3": 40}
    cluster = cluster_of(*ALL)
    search = search_of(cluster, NormalizedScore("N", cluster, scores))
    assert search.totals() == {"n1": 25, "n2": 50, "n3": 100}
    scores["n2"] = 80
    cluster.set_node(a_node("n2", labels={"changed": ""}))
    assert search.totals() == {"n1": 12, "n2": 100, "n3": 50}
    cluster.remove_node("n2")
    assert search.totals() == {"n1": 25, "n3": 100}


def test_rescaling_follows_scores_that_were_all_0() -> None:
    scores = dict.fromkeys(ALL, 0)
    cluster = cluster_of(*ALL)
    search = search_of(cluster, NormalizedScore("N", cluster, scores), Full(cluster))
    for names, score, expected in (
        (ALL, 0, [0, 0, 0]),
        (["n2"], 4, [0, 100, 0]),
        (["n1"], 8, [100, 50, 0]),
        (["n1", "n2"], 0, [0, 0, 0]),
    ):
        scores.update(dict.fromkeys(names, score))
        for name in names:
            cluster.set_node(a_node(name, labels={"changed": f"{score}"}))
        assert search.totals() == dict(zip(ALL, expected, strict=True))
    scores["n3"] = 1
    search.assume(a_pod("other"), "n2")
    cluster.set_node(a_node("n3", labels={"changed": ""}))
    assert search.totals() == {"n1": 0, "n3": 100}
