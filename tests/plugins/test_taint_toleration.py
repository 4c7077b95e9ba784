"""TaintToleration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod, rows_of
from tests.plugins.judging import hinted, judged, scored

from berth.api.node import Node, Taint
from berth.api.pod import Toleration
from berth.framework.cycle_state import CycleState
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource
from berth.framework.status import SUCCESS, PluginError, unresolvable
from berth.plugins.taint_toleration import make_taint_toleration

if TYPE_CHECKING:
    from collections.abc import Mapping

REJECTED = unresolvable("node(s) had untolerated taint(s)")
OPERATORS = {"TaintTolerationComparisonOperators": True}


def hard(value: str = "user1", key: str = "dedicated") -> Taint:
    return Taint(key=key, value=value, effect="NoSchedule")


def soft(value: str = "user1", key: str = "dedicated") -> Taint:
    return Taint(key=key, value=value, effect="PreferNoSchedule")


def tolerate(value: str, effect: str = "NoSchedule", operator: str = "", key: str = "dedicated") -> Toleration:
    return Toleration(key=key, value=value, effect=effect, operator=operator)


FILTERS: Mapping[str, tuple[list[Taint], list[Toleration], bool]] = {
    "a hard taint without toleration": ([hard()], [], False),
    "key, value and effect are tolerated": ([hard()], [tolerate("user1")], True),
    "another value is tolerated": ([hard()], [tolerate("user2")], False),
    "the key is tolerated with any value": ([hard()], [tolerate("", operator="Exists")], True),
    "two taints, both tolerated": (
        [hard(), hard(key="foo")],
        [tolerate("user1"), tolerate("user1", key="foo")],
        True,
    ),
    "two taints, one tolerated": ([hard(), hard(key="foo")], [tolerate("user1")], False),
    "tolerated with another effect": ([hard()], [tolerate("user1", "PreferNoSchedule")], False),
    "tolerated with any effect": ([hard()], [tolerate("user1", "")], True),
    "a soft taint closes nothing": ([soft()], [], True),
    "an evicting taint closes the node": ([Taint(key="dedicated", effect="NoExecute")], [], False),
    "any key of the same value, by an empty key": ([hard()], [tolerate("user1", key="")], True),
}


@pytest.mark.parametrize(("taints", "tolerations", "fits"), FILTERS.values(), ids=FILTERS.keys())
def test_filter(taints: list[Taint], tolerations: list[Toleration], fits: bool) -> None:
    cluster = a_cluster([a_node(taints=taints)])
    got = judged(make_taint_toleration(a_handle(cluster)), cluster, a_pod(tolerations=tolerations))
    assert got == [SUCCESS if fits else REJECTED]


COMPARISONS: Mapping[str, tuple[str, str, str, bool]] = {
    "800 is not above 950": ("800", "Gt", "950", False),
    "950 is above 750": ("950", "Gt", "750", True),
    "950 is not below 800": ("950", "Lt", "800", False),
    "800 is below 950": ("800", "Lt", "950", True),
    "a word is no number": ("high", "Gt", "1", False),
}


@pytest.mark.parametrize(("value", "operator", "bound", "fits"), COMPARISONS.values(), ids=COMPARISONS.keys())
def test_filter_compares_numbers_only_with_the_gate(value: str, operator: str, bound: str, fits: bool) -> None:
    cluster = a_cluster([a_node(taints=[hard(value)])])
    pod = a_pod(tolerations=[tolerate(bound, operator=operator)])
    assert judged(make_taint_toleration(a_handle(cluster)), cluster, pod) == [REJECTED]
    gated = make_taint_toleration(a_handle(cluster, gates=OPERATORS))
    assert judged(gated, cluster, pod) == [SUCCESS if fits else REJECTED]


SCORES: Mapping[str, tuple[list[list[Taint]], list[Toleration], list[int]]] = {
    "tolerated beats untolerated": ([[soft()], [soft("user2")]], [tolerate("user1", "PreferNoSchedule")], [100, 0]),
    "how many are tolerated is no matter": (
        [[], [soft()], [soft(), soft(key="disk")]],
        [tolerate("user1", "PreferNoSchedule"), tolerate("user1", "PreferNoSchedule", key="disk")],
        [100, 100, 100],
    ),
    "each untolerated taint counts": (
        [[], [soft()], [soft(), soft(key="disk")]],
        [tolerate("user1", key="other")],
        [100, 50, 0],
    ),
    "only soft taints and tolerations count": (
        [[], [hard(), hard(key="disk")], [soft(), soft(key="disk")]],
        [tolerate("user1"), tolerate("user1", key="disk")],
        [100, 100, 0],
    ),
    "a toleration of any effect helps": ([[soft()], [soft("user2")]], [tolerate("user1", "")], [100, 0]),
    "without tolerations the clean node is best": ([[], [soft()]], [], [100, 0]),
    "no taints anywhere": ([[], []], [], [100, 100]),
}


@pytest.mark.parametrize(("taints", "tolerations", "want"), SCORES.values(), ids=SCORES.keys())
def test_score(taints: list[list[Taint]], tolerations: list[Toleration], want: list[int]) -> None:
    cluster = a_cluster([a_node(f"n{i}", taints=each) for i, each in enumerate(taints)])
    assert scored(make_taint_toleration(a_handle(cluster)), cluster, a_pod(tolerations=tolerations)) == want


def test_score_needs_prescore() -> None:
    cluster = a_cluster([a_node()])
    plugin = make_taint_toleration(a_handle(cluster))
    with pytest.raises(PluginError, match='reading "PreScoreTaintToleration" from cycleState: not found'):
        plugin.score(CycleState(), cluster.info(a_pod()), rows_of(cluster))


CLOSED, OPEN = a_node(taints=[hard("user2")]), a_node(taints=[hard()])
NODE_CHANGES: Mapping[str, tuple[Node | None, Node, Hint]] = {
    "a new node with an untolerated taint": (None, CLOSED, Hint.SKIP),
    "a new node with a tolerated taint": (None, OPEN, Hint.QUEUE),
    "the taint stays untolerated": (CLOSED, a_node(taints=[hard("user3")]), Hint.SKIP),
    "the taint becomes tolerable": (CLOSED, OPEN, Hint.QUEUE),
    "the taint goes away": (CLOSED, a_node(), Hint.QUEUE),
    "the taint was tolerated before": (OPEN, a_node(), Hint.SKIP),
    "only a soft taint went away": (a_node(taints=[soft("user2")]), a_node(), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CHANGES.values(), ids=NODE_CHANGES.keys())
def test_nodes_that_become_tolerable_wake_the_pod(old: Node | None, new: Node, want: Hint) -> None:
    event = NODE_ADD if old is None else ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
    pod = a_pod(tolerations=[tolerate("user1")])
    assert hinted(make_taint_toleration(a_handle()), event, a_cluster(), pod, old, new) is want


@pytest.mark.parametrize(("minor", "resource"), [("1.36", Resource.UNSCHEDULABLE_POD), ("1.37", Resource.TARGET_POD)])
def test_any_change_of_its_own_tolerations_wakes_the_pod(minor: str, resource: Resource) -> None:
    plugin = make_taint_toleration(a_handle(minor=minor))
    event = ClusterEvent(resource, Action.UPDATE_POD_TOLERATION)
    assert hinted(plugin, event, a_cluster(), a_pod(), a_pod(), a_pod()) is Hint.QUEUE
    assert hinted(plugin, event, a_cluster(), a_pod(), a_pod("other"), a_pod("other")) is Hint.SKIP
