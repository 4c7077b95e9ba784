"""PrioritySort, SchedulingGates, NodeName, NodeUnschedulable, DefaultBinder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod
from tests.plugins.judging import hinted, judged, pre_filtered

from berth.api.node import Node, Taint
from berth.api.pod import Pod, Toleration
from berth.framework.cycle_state import CycleState
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, HintError, Resource
from berth.framework.interface import PreFilterPlugin
from berth.framework.status import SUCCESS, Code, Status, error, unresolvable
from berth.plugins.default_binder import DefaultBinder
from berth.plugins.node_name import make_node_name
from berth.plugins.node_unschedulable import make_node_unschedulable
from berth.plugins.priority_sort import PrioritySort
from berth.plugins.scheduling_gates import SchedulingGates
from berth.plugins.taint_toleration import make_taint_toleration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.cluster.pods import PodInfo

CORDON = "node.kubernetes.io/unschedulable"
GATES_GONE = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
TOLERATION = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)

ORDERS: Mapping[str, tuple[tuple[int | None, float], tuple[int | None, float], bool]] = {
    "lower priority goes later": ((10, 1.0), (100, 2.0), False),
    "higher priority goes first, even if queued later": ((100, 2.0), (10, 1.0), True),
    "of equal priorities the earlier goes first": ((100, 1.0), (100, 2.0), True),
    "of equal priorities the later goes later": ((100, 2.0), (100, 1.0), False),
    "equal in both, neither goes first": ((7, 1.0), (7, 1.0), False),
    "no priority is priority 0": ((None, 1.0), (0, 1.0), False),
    "a negative priority goes after none": ((None, 2.0), (-1, 1.0), True),
}


@pytest.mark.parametrize(("one", "other", "first"), ORDERS.values(), ids=ORDERS.keys())
def test_priority_sort(one: tuple[int | None, float], other: tuple[int | None, float], first: bool) -> None:
    info = a_cluster().info
    keys = [PrioritySort().sort_key(info(a_pod(priority=priority)), queued_s) for priority, queued_s in (one, other)]
    assert (keys[0] < keys[1]) is first


def test_a_pod_without_gates_is_let_in() -> None:
    assert SchedulingGates(a_handle()).pre_enqueue(a_cluster().info(a_pod())) == SUCCESS


def test_a_gated_pod_waits_and_is_told_for_what() -> None:
    status = SchedulingGates(a_handle()).pre_enqueue(a_cluster().info(a_pod(gates=["foo", "bar"])))
    assert status == unresolvable("waiting for scheduling gates: [foo bar]")


@pytest.mark.parametrize(("minor", "resource"), [("1.36", Resource.UNSCHEDULABLE_POD), ("1.37", Resource.TARGET_POD)])
def test_the_last_gate_of_the_pod_itself_wakes_it(minor: str, resource: Resource) -> None:
    gates, event = SchedulingGates(a_handle(minor=minor)), ClusterEvent(resource, GATES_GONE)
    gated, freed = a_pod(gates=["foo"]), a_pod()
    assert hinted(gates, event, a_cluster(), gated, gated, freed) is Hint.QUEUE
    assert hinted(gates, event, a_cluster(), gated, gated, a_pod("other")) is Hint.SKIP


def test_gates_of_other_pods_are_not_waited_for_where_events_tell_them_apart() -> None:
    event = ClusterEvent(Resource.UNSCHEDULED_POD, GATES_GONE)
    assert hinted(SchedulingGates(a_handle()), event, a_cluster(), a_pod(), a_pod(), a_pod()) is None


def test_hints_tell_what_they_expected() -> None:
    event = ClusterEvent(Resource.TARGET_POD, GATES_GONE)
    with pytest.raises(HintError, match=r"^expected \*v1.Pod, but got \*v1.Node$"):
        hinted(SchedulingGates(a_handle()), event, a_cluster(), a_pod(), a_node(), a_pod())


NAMES: Mapping[str, tuple[str, list[Code]]] = {
    "a pod that names no node fits all": ("", [Code.SUCCESS, Code.SUCCESS]),
    "a pod that names a node fits there only": ("n2", [Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.SUCCESS]),
    "a pod that names an unknown node fits nowhere": ("n3", [Code.UNSCHEDULABLE_AND_UNRESOLVABLE] * 2),
}


@pytest.mark.parametrize(("wanted", "want"), NAMES.values(), ids=NAMES.keys())
def test_node_name(wanted: str, want: list[Code]) -> None:
    cluster = a_cluster([a_node("n1"), a_node("n2")])
    statuses = judged(make_node_name(a_handle(cluster)), cluster, a_pod(on=wanted))
    assert [status.code for status in statuses] == want
    assert {status.reasons for status in statuses} <= {(), ("node(s) didn't match the requested node name",)}


def test_node_name_narrows_to_the_node_named() -> None:
    plugin = make_node_name(a_handle(minor="1.37"))
    assert pre_filtered(plugin, a_cluster(), a_pod(on="n1")) == (SUCCESS, frozenset({"n1"}))
    assert pre_filtered(plugin, a_cluster(), a_pod()) == (SUCCESS, None)


@pytest.mark.parametrize("make", [make_node_name, make_node_unschedulable, make_taint_toleration])
def test_plugins_about_the_node_alone_take_part_in_prefilter_since_1_37(make: object) -> None:
    assert callable(make)
    assert not isinstance(make(a_handle(minor="1.36")), PreFilterPlugin)
    plugin = make(a_handle(minor="1.37"))
    assert pre_filtered(plugin, a_cluster(), a_pod()) == (SUCCESS, None)


def test_any_new_node_wakes_a_pod_that_names_one() -> None:
    assert hinted(make_node_name(a_handle()), NODE_ADD, a_cluster(), a_pod(on="n1"), None, a_node("n2")) is Hint.QUEUE


CORDONS: Mapping[str, tuple[bool, list[Toleration], bool]] = {
    "a cordoned node is closed": (True, [], False),
    "another node is open": (False, [], True),
    "a toleration by key and effect opens it": (True, [Toleration(key=CORDON, effect="NoSchedule")], True),
    "a toleration of everything opens it": (True, [Toleration(operator="Exists")], True),
    "a toleration of another effect does not": (
        True,
        [Toleration(key=CORDON, operator="Exists", effect="NoExecute")],
        False,
    ),
}


@pytest.mark.parametrize(("cordoned", "tolerations", "fits"), CORDONS.values(), ids=CORDONS.keys())
def test_node_unschedulable(cordoned: bool, tolerations: list[Toleration], fits: bool) -> None:
    cluster = a_cluster([a_node(unschedulable=cordoned)])
    [status] = judged(make_node_unschedulable(a_handle(cluster)), cluster, a_pod(tolerations=tolerations))
    assert status == (SUCCESS if fits else unresolvable("node(s) were unschedulable"))


NODE_CHANGES: Mapping[str, tuple[Node | None, Node, Hint]] = {
    "a new cordoned node": (None, a_node(unschedulable=True), Hint.SKIP),
    "a new open node": (None, a_node(), Hint.QUEUE),
    "a cordoned node gets a taint": (
        a_node(unschedulable=True),
        a_node(unschedulable=True, taints=[Taint(key="a", effect="NoSchedule")]),
        Hint.SKIP,
    ),
    "an open node changes otherwise": (a_node(), a_node(labels={"a": "b"}), Hint.SKIP),
    "a node is uncordoned": (a_node(unschedulable=True), a_node(), Hint.QUEUE),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CHANGES.values(), ids=NODE_CHANGES.keys())
def test_nodes_that_open_wake_pods_of_node_unschedulable(old: Node | None, new: Node, want: Hint) -> None:
    event = NODE_ADD if old is None else NODE_TAINT
    assert hinted(make_node_unschedulable(a_handle()), event, a_cluster(), a_pod(), old, new) is want


TOLERATED: Mapping[str, tuple[Pod, Hint]] = {
    "it tolerates the cordon now": (a_pod(tolerations=[Toleration(key=CORDON, operator="Exists")]), Hint.QUEUE),
    "it tolerates something else": (a_pod(tolerations=[Toleration(key="a", operator="Exists")]), Hint.SKIP),
    "another pod tolerates the cordon": (a_pod("other", tolerations=[Toleration(operator="Exists")]), Hint.SKIP),
}


@pytest.mark.parametrize(("new", "want"), TOLERATED.values(), ids=TOLERATED.keys())
def test_tolerations_wake_pods_of_node_unschedulable(new: Pod, want: Hint) -> None:
    assert hinted(make_node_unschedulable(a_handle()), TOLERATION, a_cluster(), a_pod(), a_pod(), new) is want


class ABinder:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self, answer: Status) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    async def bind(self, pod: Pod, node_name: str) -> Status:
        self.asked.append((pod.key, node_name))
        return self.answer


def info(pod: Pod) -> PodInfo:
    return a_cluster().info(pod)


@pytest.mark.parametrize("answer", [SUCCESS, error("the server is on fire")])
async def test_default_binder_hands_on_what_the_api_server_says(answer: Status) -> None:
    binder = ABinder(answer)
    assert await DefaultBinder(a_handle(binder=binder)).bind(CycleState(), info(a_pod("web")), "n1") == answer
    assert binder.asked == [("default/web", "n1")]


async def test_default_binder_fails_where_nothing_is_bound() -> None:
    status = await DefaultBinder(a_handle()).bind(CycleState(), info(a_pod("web")), "n1")
    assert status.code is Code.ERROR
