"""Pods that were promised room count as if they had it, for pods that are not more important; and leave no trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.builders import a_cluster, a_node, a_pod, a_port
from tests.framework.fakes import Answer, Filter, PreFilter, Score, said
from tests.scheduling.builders import Search, cluster_of, search_of

from berth.api.requests import CPU
from berth.framework.cycle_state import CycleState, StateKey
from berth.framework.interface import PreFilterResult, Scope
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, error, unschedulable
from berth.scheduling.verdicts import CycleError

if TYPE_CHECKING:
    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.cluster.columns import Rows
    from berth.cluster.pods import PodInfo
    from berth.framework.interface import Rejections

ALL = ["n1", "n2"]


class OnePod(Filter):
    """Rejects nodes that hold a pod."""

    def __init__(self, cluster: Cluster, scope: Scope = Scope.ROW) -> None:
        super().__init__("OnePod", cluster, self._is_full, scope=scope)

    def _is_full(self, name: str, _pod: PodInfo) -> bool:
        return bool(self._table.pod_count[self._table.row_of(name)])


def one_pod_search(scope: Scope = Scope.ROW) -> tuple[Search, OnePod]:
    cluster = cluster_of(*ALL)
    plugin = OnePod(cluster, scope)
    return search_of(cluster, plugin), plugin


# who was promised n1; the nodes that fit a pod of priority 10, and those asked about
PROMISES: dict[str, tuple[list[Pod], list[str], list[str]]] = {
    "nobody": ([], ALL, ALL),
    "a less important pod": ([a_pod("other", priority=9)], ALL, ALL),
    "a pod of the same importance": ([a_pod("other", priority=10)], ["n2"], ["n1", *ALL]),
    "a more important pod": ([a_pod("other", priority=11)], ["n2"], ["n1", *ALL]),
    "the pod itself": ([a_pod("me", priority=10)], ALL, ALL),
    "a pod of no importance": ([a_pod("other")], ALL, ALL),
    "several": ([a_pod("a", priority=1), a_pod("b", priority=99)], ["n2"], ["n1", *ALL]),
}


@pytest.mark.parametrize("scope", Scope)
@pytest.mark.parametrize(("promised", "feasible", "asked"), PROMISES.values(), ids=PROMISES)
def test_promised_to(promised: list[Pod], feasible: list[str], asked: list[str], scope: Scope) -> None:
    search, plugin = one_pod_search(scope)
    for pod in promised:
        search.nominate(pod, "n1")
    assert search.feasible(a_pod("me", priority=10)) == feasible
    assert plugin.asked_of() == asked


def test_a_pod_that_already_counts_on_the_node_does_not_count_twice() -> None:
    cluster = cluster_of("n1")
    counts: list[int] = []

    def count(_node: str, _pod: PodInfo) -> bool:
        counts.append(int(cluster.table.pod_count[0]))
        return False

    search = search_of(cluster, Filter("F", cluster, count))
    search.assume(a_pod("other"), "n1")
    search.nominate(a_pod("other"), "n1")
    search.nominate(a_pod("third"), "n1")
    search.schedule()
    assert counts == [1, 2]


def test_a_promise_of_a_node_that_is_gone_is_of_no_account() -> None:
    search, plugin = one_pod_search()
    search.nominate(a_pod("other", priority=99), "n9")
    assert search.feasible() == ALL
    assert plugin.asked_of() == ALL


def test_where_the_node_does_not_fit_with_the_promised_pod_that_is_the_answer() -> None:
    cluster = cluster_of("n1")
    small = Filter("Small", cluster, lambda _node, _pod: cluster.table.pod_count[0] > 0, answer=unschedulable("small"))
    far = Filter("Far", cluster, answer=unschedulable("far"))
    search = search_of(cluster, small, far)
    assert search.failure().message == "0/1 nodes are available: 1 far."
    search.nominate(a_pod("other"), "n1")
    assert search.failure().message == "0/1 nodes are available: 1 small."
    search.nominated.clear()
    assert search.failure().message == "0/1 nodes are available: 1 far."


def test_a_node_that_fits_only_thanks_to_the_promised_pod_does_not_fit() -> None:
    cluster = cluster_of(*ALL)
    lonely = Filter("Lonely", cluster, lambda node, _pod: not cluster.table.pod_count[cluster.table.row_of(node)])
    search = search_of(cluster, lonely)
    search.nominate(a_pod("other"), "n1")
    assert search.feasible() == []
    search.assume(a_pod("third"), "n1")
    assert search.feasible() == ["n1"]


def test_promises_hold_on_nodes_named_by_pre_filter() -> None:
    search, plugin = one_pod_search()
    search = search_of(search.cluster, plugin, PreFilter("P", nodes={"n1", "n2"}))
    search.nominate(a_pod("other"), "n1")
    assert search.feasible() == ["n2"]


# -- no trace ---------------------------------------------------------------------------------------------------------


def snapshot(cluster: Cluster) -> dict[str, object]:
    table = cluster.table
    rows = range(len(table.live))
    return {
        "requested": table.requested.tolist(),
        "non zero": table.non_zero.tolist(),
        "pods": table.pod_count.tolist(),
        "pods by name": [list(table.pods(row)) for row in rows if row in table.live_rows()],
        "ports": {row: dict(ports) for row, ports in table.rows_with_ports().items()},
        "mark": table.mark(),
        "membership": table.membership,
    }


BIG = 2**63 - 1
GREEDY = a_pod("greedy", cpu="2", memory="1Gi", ports=[a_port(80)], requests={"ephemeral-storage": str(BIG)})


@pytest.mark.parametrize("breaks", [False, True])
def test_a_promise_leaves_no_trace(breaks: bool) -> None:
    cluster = a_cluster([a_node("n1"), a_node("n2")], [a_pod("old", on="n1", cpu="1", ports=[a_port(80)])])
    answer = PluginError("boom") if breaks else None
    plugin = Filter("F", cluster, lambda _node, _pod: cluster.table.pod_count[0] > 1, answer=answer)
    search = search_of(cluster, plugin)
    assert search.feasible() == ALL
    before = snapshot(cluster)
    search.nominate(GREEDY, "n1")
    search.nominate(a_pod("odd", cpu="1m"), "n1")
    if breaks:
        with pytest.raises(CycleError):
            search.schedule()
    else:
        assert search.feasible() == ["n2"]
    assert snapshot(cluster) == before
    cluster.validate()
    plugin.asked_of()
    search.nominated.clear()
    assert search.feasible() == ALL
    assert plugin.asked_of() == []


def test_what_is_kept_between_pods_holds_for_as_long_as_the_promises_do() -> None:
    search, plugin = one_pod_search()
    search.nominate(a_pod("other", priority=5), "n1")
    assert search.feasible(a_pod("a", priority=1)) == ["n2"]
    assert search.feasible(a_pod("b", priority=9)) == ALL
    search.nominate(a_pod("third", priority=5), "n2")
    assert search.feasible(a_pod("c", priority=1)) == []
    search.nominated.clear()
    assert search.feasible(a_pod("d", priority=1)) == ALL
    assert plugin.asked_of() == ["n1", "n1", "n2", "n2"], "as they are, and once each with whom they were promised to"


def test_scores_take_no_notice_of_promises() -> None:
    cluster = cluster_of(*ALL)
    score = Score("S", cluster, lambda name: 100 - int(cluster.table.requested[0, cluster.table.row_of(name)]))
    search = search_of(cluster, score)
    search.nominate(a_pod("other", cpu="10m"), "n1")
    assert search.totals() == dict.fromkeys(ALL, 100)


def test_a_promised_pod_whose_requests_are_no_amounts_takes_no_room_and_does_no_harm() -> None:
    search, _ = one_pod_search()
    before = snapshot(search.cluster)
    search.nominate(a_pod("faulty", cpu="much"), "n1")
    assert search.feasible() == ALL
    search.nominate(a_pod("other"), "n1")
    assert search.feasible() == ["n2"]
    assert snapshot(search.cluster) == before


# -- plugins that keep count ------------------------------------------------------------------------------------------


@dataclass
class Counted:
    """How many pods there are, as PreFilter found."""

    pods: int


COUNTED = StateKey[Counted]("Counting")


class Counting:
    """Rejects all nodes while there is any pod; keeps its own count of them."""

    name = "Counting"
    scope = Scope.CLUSTER

    def __init__(self, cluster: Cluster, answer: Answer = SUCCESS, before: Status = SUCCESS) -> None:
        self._table = cluster.table
        self._answer, self._before = answer, before
        self.told: list[tuple[str, str]] = []

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        del pod
        state.write(COUNTED, Counted(int(self._table.pod_count.sum())))
        return PreFilterResult(self._before)

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        del pod
        assert other.uid in self._table.pods(row), "the pod counts already when plugins hear of it"
        self.told.append((other.key, self._table.name(row)))
        state.read(COUNTED).pods += 1
        return said(self._answer)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        raise NotImplementedError

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        del pod
        return np.full(len(rows), state.read(COUNTED).pods > 0, dtype=np.int16)

    def rejection(self, code: int) -> Status:
        return unschedulable(f"{code} pods")


def test_plugins_that_keep_count_are_told_of_each_promised_pod_on_a_copy_of_their_own() -> None:
    cluster = cluster_of(*ALL)
    counting = Counting(cluster)
    search = search_of(cluster, counting)
    search.nominate(a_pod("other"), "n1")
    assert search.feasible() == ["n2"]
    assert counting.told == [("default/other", "n1")]


def test_who_sits_out_is_not_told() -> None:
    cluster = cluster_of(*ALL)
    counting = Counting(cluster, before=SKIP)
    search = search_of(cluster, counting)
    search.nominate(a_pod("other"), "n1")
    assert search.feasible() == ALL
    assert counting.told == []


# what a plugin says when it is told; the text
COMPLAINTS: dict[str, tuple[Answer, str]] = {
    "error": (error("lost count"), 'running AddPod on PreFilter plugin "Counting": lost count'),
    "unschedulable": (unschedulable("no"), 'running AddPod on PreFilter plugin "Counting": no'),
    "an exception": (PluginError("boom"), 'running AddPod on PreFilter plugin "Counting": boom'),
}


@pytest.mark.parametrize(("answer", "text"), COMPLAINTS.values(), ids=COMPLAINTS)
def test_a_plugin_that_cannot_keep_count_ends_the_attempt(answer: Answer, text: str) -> None:
    cluster = cluster_of(*ALL)
    search = search_of(cluster, Counting(cluster, answer))
    before = snapshot(cluster)
    search.nominate(a_pod("other"), "n1")
    with pytest.raises(CycleError) as caught:
        search.schedule()
    assert str(caught.value) == text
    assert snapshot(cluster) == before


# -- the pod's own promise --------------------------------------------------------------------------------------------


# where the pod was promised room, and the nodes that do not fit; the node that it goes to, and those asked about
OWN: dict[str, tuple[str, list[str], str, list[str]]] = {
    "no promise": ("", ["n1"], "n2", ALL),
    "a node that fits": ("n1", [], "n1", ["n1"]),
    "a node that does not": ("n1", ["n1"], "n2", ["n1", *ALL]),
    "a node that is gone": ("n9", ["n1"], "n2", ALL),
}


@pytest.mark.parametrize(("promise", "bad", "node", "asked"), OWN.values(), ids=OWN)
def test_the_pod_was_promised(promise: str, bad: list[str], node: str, asked: list[str]) -> None:
    cluster = cluster_of(*ALL)
    plugin = Filter("F", cluster, lambda name, _pod: name in bad)
    search = search_of(cluster, plugin, Score("S", cluster, {"n1": 0, "n2": 100}))
    pod = a_pod("me", nominated=promise)
    search.nominate(pod, promise)
    found = search.found(pod)
    assert (found.node_name, plugin.asked_of()) == (node, asked)


def test_a_promise_is_no_use_against_a_more_important_one() -> None:
    search, _ = one_pod_search()
    search.nominate(a_pod("other", priority=5), "n1")
    assert search.found(a_pod("me", nominated="n1")).node_name == "n2"


def test_a_fault_at_the_promised_node_is_met_again_and_reported() -> None:
    cluster = cluster_of(*ALL)
    search = search_of(cluster, Filter("F", cluster, lambda name, _pod: name == "n1", answer=PluginError("boom")))
    with pytest.raises(CycleError, match=r'^running "F" filter plugin: boom$'):
        search.schedule(a_pod(nominated="n1"))


def test_a_promise_outside_the_nodes_named_by_pre_filter_is_honoured() -> None:
    cluster = cluster_of(*ALL)
    search = search_of(cluster, PreFilter("P", nodes={"n1"}))
    assert search.found(a_pod(nominated="n2")).node_name == "n2"


def test_the_promised_node_is_looked_at_without_moving_on_where_nodes_are_sampled() -> None:
    cluster = cluster_of(*(f"n{number:03}" for number in range(200)))
    search = search_of(cluster, percentage=50)
    assert search.found(a_pod(nominated="n150")).node_name == "n150"
    assert search.feasible()[0] == "n000"


def test_promises_are_looked_at_before_some_nodes_are_picked() -> None:
    cluster = cluster_of(*(f"n{number:03}" for number in range(200)))
    search = search_of(cluster, OnePod(cluster), percentage=50)
    search.nominate(a_pod("other"), "n000")
    assert search.feasible() == [f"n{number:03}" for number in range(1, 101)]


def test_requests_of_promised_pods_of_any_size_are_taken_back_exactly() -> None:
    cluster = cluster_of("n1")
    search = search_of(cluster, OnePod(cluster))
    for number in range(3):
        search.nominate(a_pod(f"p{number}", requests={CPU: str(BIG), "memory": str(BIG)}), "n1")
    before = snapshot(cluster)
    assert search.feasible() == []
    assert snapshot(cluster) == before
