"""Why a pod fits nowhere: the sentence, who is to blame, and what is known of each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_pod
from tests.framework.fakes import Filter, PreFilter
from tests.scheduling.builders import Search, cluster_of, numbered, search_of

from berth.framework.cycle_state import CycleState
from berth.framework.interface import Scope
from berth.framework.status import SKIP, Code, PluginError, Status, error, unresolvable, unschedulable
from berth.scheduling.algorithm import NoNodes
from berth.scheduling.diagnosis import FitError, fit_error_of_one_node, fit_error_of_pre_filter
from berth.scheduling.verdicts import CycleError

if TYPE_CHECKING:
    from berth.framework.interface import Plugin

NOBODY = frozenset[str]()


def counted(num_all_nodes: int, *counts: tuple[Status, int], **fields: object) -> FitError:
    return FitError(num_all_nodes=num_all_nodes, counts=counts, **fields)  # type: ignore[arg-type]  # any field


ABSENT = unresolvable("left out")

SENTENCES: dict[str, FitError] = {
    "0/3 nodes are available: 1 small, 2 far.": counted(3, (unschedulable("far"), 2), (unschedulable("small"), 1)),
    # counts are sorted as texts
    "0/12 nodes are available: 10 x, 2 y.": counted(12, (unschedulable("y"), 2), (unschedulable("x"), 10)),
    "0/14 nodes are available: 12 A, 2 B.": counted(14, (unschedulable("B"), 2), (unschedulable("A"), 12)),
    "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.": counted(
        3, (unschedulable("Insufficient cpu", "Insufficient memory"), 3)
    ),
    # the same reason of several plugins, or with several codes, counts once for each node
    "0/5 nodes are available: 5 no.": counted(
        5, (unschedulable("no").by("A"), 1), (unschedulable("no").by("B"), 1), (unresolvable("no").by("A"), 3)
    ),
    # nodes that were not looked at
    "0/9 nodes are available: 2 small, 7 left out.": counted(9, (unschedulable("small"), 2), absent=ABSENT),
    "0/2 nodes are available: 2 small.": counted(2, (unschedulable("small"), 2), absent=ABSENT),
    "0/4 nodes are available: 4 left out.": counted(4, absent=ABSENT),
    "0/4 nodes are available: 1 small.": counted(4, (unschedulable("small"), 1)),
    # nobody gave a reason
    "0/4 nodes are available:": counted(4, (unschedulable(), 4)),
    # PreFilter rejected the pod; what is known of nodes is left out
    "0/4 nodes are available: no such claim.": counted(
        4, (unschedulable("small"), 1), absent=ABSENT, pre_filter_message="no such claim"
    ),
    # what came of the attempt to make room, without another full stop
    "0/4 nodes are available: no such claim. preemption is not helpful": counted(
        4, pre_filter_message="no such claim", post_filter_message="preemption is not helpful"
    ),
    "0/1 nodes are available: 1 small. preemption: 0/1 nodes are available: 1 no victims.": counted(
        1, (unschedulable("small"), 1)
    ).with_post_filter_message("preemption: 0/1 nodes are available: 1 no victims."),
    "0/1 nodes are available: nothing helps": counted(1, post_filter_message="nothing helps"),
    # rejected after a node had been chosen
    "0/1 nodes are available: 1 rejected on reserve.": fit_error_of_one_node(unresolvable("rejected on reserve")),
    "0/7 nodes are available: claim a, claim b.": fit_error_of_pre_filter(
        7, unschedulable("claim a", "claim b"), NOBODY
    ),
}


@pytest.mark.parametrize(("sentence", "fit_error"), SENTENCES.items(), ids=SENTENCES)
def test_the_sentence_is(sentence: str, fit_error: FitError) -> None:
    assert fit_error.message == sentence


def test_who_rejects_a_placement_and_who_waits_for_something_outside() -> None:
    waiting, rejecting = Status(Code.PENDING, ("not yet",), "P"), unschedulable("no").by("P")
    for status, pending in ((waiting, {"P"}), (rejecting, set[str]())):
        fit_error = fit_error_of_one_node(status)
        assert fit_error.unschedulable_plugins == {"P"}
        assert fit_error.pending_plugins == pending


# -- as the search finds it -------------------------------------------------------------------------------------------


def search_over(*plugins: str, pre: PreFilter | None = None) -> tuple[Search, list[Filter]]:
    """Three nodes; a plugin ``F:n1,n2`` objects to these."""
    cluster = cluster_of("n1", "n2", "n3")
    filters = []
    for text in plugins:
        name, _, nodes = text.partition(":")
        filters.append(Filter(name, cluster, lambda node, _pod, nodes=nodes: node in nodes.split(",")))  # type: ignore[misc]  # bound now
    everyone: list[Plugin] = [*filters] if pre is None else [pre, *filters]
    return search_of(cluster, *everyone), filters


def test_a_cluster_without_nodes_is_a_case_of_its_own() -> None:
    cluster = a_cluster()
    pre = PreFilter("P", unresolvable("never"))
    assert search_of(cluster, pre).schedule() == NoNodes()
    assert pre.calls == 0


def test_each_node_has_the_answer_of_the_plugin_that_rejected_it() -> None:
    search, _ = search_over("NoPods:n2", "Match:n1,n2,n3")
    failure = search.failure()
    assert failure.message == "0/3 nodes are available: 1 NoPods says no, 2 Match says no."
    assert failure.unschedulable_plugins == {"NoPods", "Match"}
    assert failure.nodes is not None
    assert {name: status.plugin for name, status in failure.nodes.by_node().items()} == {
        "n1": "Match",
        "n2": "NoPods",
        "n3": "Match",
    }
    assert failure.nodes.get("n2") == unschedulable("NoPods says no").by("NoPods")
    assert len(failure.nodes) == 3


def test_plugins_that_found_nothing_wrong_are_not_to_blame() -> None:
    failure = search_over("True:", "False:n1,n2,n3")[0].failure()
    assert failure.unschedulable_plugins == {"False"}
    assert failure.message == "0/3 nodes are available: 3 False says no."


@pytest.mark.parametrize("answer", [unschedulable("no"), unresolvable("never"), Status(Code.PENDING, ("not yet",))])
@pytest.mark.parametrize("scope", Scope)
def test_the_code_of_a_rejection_is_kept(answer: Status, scope: Scope) -> None:
    cluster = cluster_of("n1")
    failure = search_of(cluster, Filter("F", cluster, answer=answer, scope=scope)).failure()
    assert failure.nodes is not None
    assert failure.nodes.get("n1") == answer.by("F")
    assert failure.unschedulable_plugins == {"F"}
    assert failure.pending_plugins == ({"F"} if answer.code is Code.PENDING else set())


# PreFilter; the sentence, who is to blame
REJECTIONS: dict[str, tuple[PreFilter, str, set[str]]] = {
    "unresolvable": (PreFilter("P", unresolvable("no such claim")), "no such claim.", {"P"}),
    "unschedulable": (PreFilter("P", unschedulable("no such claim", "nor that")), "no such claim, nor that.", {"P"}),
    "no node left": (PreFilter("P", nodes=()), "node(s) didn't satisfy plugin P.", {"P"}),
}


@pytest.mark.parametrize(("pre", "text", "blamed"), REJECTIONS.values(), ids=REJECTIONS)
def test_a_pod_rejected_before_any_node_was_looked_at(pre: PreFilter, text: str, blamed: set[str]) -> None:
    search, (plugin,) = search_over("F:n1,n2,n3", pre=pre)
    failure = search.failure()
    assert failure.message == f"0/3 nodes are available: {text}"
    assert failure.unschedulable_plugins == blamed
    assert failure.nodes is None
    assert plugin.asked_of() == []
    statuses = search.algorithm.statuses(CycleState(), search.cluster.info(a_pod()), failure)
    assert statuses.get("n1") == statuses.get("nobody knows") == failure.absent


def test_a_fault_before_any_node_was_looked_at_ends_the_attempt() -> None:
    search, _ = search_over(pre=PreFilter("P", error("injected")))
    with pytest.raises(CycleError, match=r'^running PreFilter plugin "P": injected$'):
        search.schedule()


def test_nodes_left_out_by_name_are_told_of_as_such() -> None:
    search, (plugin,) = search_over("F:n2", pre=PreFilter("P", nodes={"n2"}))
    failure = search.failure()
    assert failure.message == "0/3 nodes are available: 1 F says no, 2 node(s) didn't satisfy plugin(s) [P]."
    assert failure.unschedulable_plugins == {"P", "F"}
    assert failure.nodes is not None
    assert failure.nodes.by_node() == {"n2": unschedulable("F says no").by("F")}
    assert failure.nodes.get("n1") == unresolvable("node(s) didn't satisfy plugin(s) [P]")
    assert plugin.asked_of() == ["n2"]


def test_names_of_nodes_that_do_not_exist_leave_none() -> None:
    search, _ = search_over("F:", pre=PreFilter("P", nodes={"gone"}))
    failure = search.failure()
    assert failure.message == "0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [P]."
    assert failure.unschedulable_plugins == {"P"}


def test_a_search_narrowed_by_name_finds_the_node() -> None:
    search, _ = search_over("F:n1", pre=PreFilter("P", nodes={"n1", "n3"}))
    found = search.found()
    assert found.node_name == "n3"
    assert found.rejected().rejectors() == {"P", "F"}
    assert found.rejected().by_node().keys() == {"n1"}


def test_a_filter_sits_out_where_its_pre_filter_did() -> None:
    class Both(PreFilter, Filter):
        def __init__(self, cluster: object) -> None:
            Filter.__init__(self, "B", cluster, answer=PluginError("must not be asked"))  # type: ignore[arg-type]
            PreFilter.__init__(self, "B", SKIP)

    search, _ = search_over("F:n1")
    both = Both(search.cluster)
    search = search_of(search.cluster, both, *search.algorithm.profile.filter)
    assert search.feasible() == ["n2", "n3"]
    assert both.asked_of() == []


def test_what_is_known_of_nodes_follows_them_whatever_comes_later() -> None:
    search, _ = search_over("F:n1,n2,n3")
    failure = search.failure()
    search.cluster.remove_node("n2")
    search.cluster.assume(search.info(a_pod("other")).on("n1"), "n1")
    assert failure.message == "0/3 nodes are available: 3 F says no."


def test_a_thousand_nodes_make_a_short_sentence() -> None:
    cluster = cluster_of(*numbered(1000))
    search = search_of(cluster, Filter("F", cluster, answer=unschedulable("Insufficient cpu", "Too many pods")))
    assert search.failure().message == "0/1000 nodes are available: 1000 Insufficient cpu, 1000 Too many pods."
