"""NodeAffinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_node_affinity, a_pod, a_term
from tests.plugins.judging import hinted, judged, pre_filtered, raw_scores, scored

from berth.framework.cycle_state import CycleState
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, HintError, Resource
from berth.framework.plugin_args import NodeAffinityArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable
from berth.plugins.node_affinity import NodeAffinity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.affinity import NodeSelectorTerm
    from berth.api.node import Node
    from berth.api.pod import Pod

MISMATCH = unresolvable("node(s) didn't match Pod's node affinity/selector")
ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)


def named(*names: str, operator: str = "In") -> tuple[str, str, list[str]]:
    return ("metadata.name", operator, list(names))


def only(*names: str) -> NodeSelectorTerm:
    return a_term(fields=[named(*names)])


def requires(*terms: NodeSelectorTerm) -> Pod:
    return a_pod(required=terms)


def selects(**labels: str) -> Pod:
    return a_pod(node_selector=labels)


FILTERS: Mapping[str, tuple[Pod, dict[str, str], bool]] = {
    "a selected label is missing": (selects(foo="bar"), {}, False),
    "a selected label is there": (selects(foo="bar"), {"foo": "bar"}, True),
    "the node has more labels": (selects(foo="bar"), {"foo": "bar", "baz": "blah"}, True),
    "the node has fewer labels": (selects(foo="bar", baz="blah"), {"foo": "bar"}, False),
    "In one of several values": (requires(a_term(("foo", "In", ["bar", "value2"]))), {"foo": "bar"}, True),
    "In none of the values": (requires(a_term(("foo", "In", ["bar", "value2"]))), {"foo": "baz"}, False),
    "Gt compares numbers with leading zeros": (requires(a_term(("v", "Gt", ["0204"]))), {"v": "0206"}, True),
    "Gt is strict": (requires(a_term(("v", "Gt", ["0206"]))), {"v": "0206"}, False),
    "Lt of a word is false": (requires(a_term(("v", "Lt", ["10"]))), {"v": "high"}, False),
    "Lt of a missing label is false": (requires(a_term(("v", "Lt", ["10"]))), {}, False),
    "Gt beyond 64 bits is false": (requires(a_term(("v", "Gt", ["1"]))), {"v": "9223372036854775808"}, False),
    "NotIn of another value": (requires(a_term(("mem", "NotIn", ["DDR", "DDR2"]))), {"mem": "DDR3"}, True),
    "NotIn of a missing label": (requires(a_term(("mem", "NotIn", ["DDR"]))), {}, True),
    "Exists": (requires(a_term(("GPU", "Exists", []))), {"GPU": "NVIDIA"}, True),
    "DoesNotExist": (requires(a_term(("GPU", "DoesNotExist", []))), {"GPU": "NVIDIA"}, False),
    "an empty term matches nothing": (requires(a_term()), {"foo": "bar"}, False),
    "no terms match nothing": (requires(), {"foo": "bar"}, False),
    "both conditions of a term hold": (
        requires(a_term(("GPU", "Exists", []), ("GPU", "NotIn", ["AMD"]))),
        {"GPU": "NVIDIA"},
        True,
    ),
    "one of two conditions fails": (
        requires(a_term(("GPU", "Exists", []), ("GPU", "In", ["AMD"]))),
        {"GPU": "NVIDIA"},
        False,
    ),
    "one of two terms matches": (
        requires(a_term(("foo", "In", ["bar"])), a_term(("diffkey", "In", ["wrong"]))),
        {"foo": "bar"},
        True,
    ),
    "selector and affinity both hold": (
        a_pod(node_selector={"foo": "bar"}, required=[a_term(("foo", "Exists", []))]),
        {"foo": "bar"},
        True,
    ),
    "the affinity holds, the selector does not": (
        a_pod(node_selector={"foo": "bar"}, required=[a_term(("foo", "Exists", []))]),
        {"foo": "baz"},
        False,
    ),
    "a value that is no label value makes a term match nothing": (
        requires(a_term(("foo", "NotIn", ["invalid value: ___@#$%^"]))),
        {"foo": "bar"},
        False,
    ),
    "a faulty term beside one that matches": (
        requires(a_term(("foo", "Like", ["x"])), a_term(("foo", "Exists", []))),
        {"foo": "bar"},
        True,
    ),
    "an unknown field reads as empty": (requires(a_term(fields=[("metadata.uid", "NotIn", ["x"])])), {}, True),
    "a field with two values is faulty": (requires(only("n1", "n2")), {}, False),
}


@pytest.mark.parametrize("many", [1, 20])
@pytest.mark.parametrize(("pod", "labels", "fits"), FILTERS.values(), ids=FILTERS.keys())
def test_filter(pod: Pod, labels: dict[str, str], fits: bool, many: int) -> None:
    cluster = a_cluster([a_node(f"n{i}", labels=labels) for i in range(many)])
    assert judged(NodeAffinity(None, a_handle(cluster)), cluster, pod) == [SUCCESS if fits else MISMATCH] * many


FIELDS: Mapping[str, tuple[Pod, tuple[Status, frozenset[str] | None], list[Status]]] = {
    "a name": (requires(only("n1")), (SUCCESS, frozenset({"n1"})), [SUCCESS, MISMATCH]),
    "any but a name": (
        requires(a_term(fields=[named("n1", operator="NotIn")])),
        (SUCCESS, None),
        [MISMATCH, SUCCESS],
    ),
    "a name and a label": (
        requires(a_term(("foo", "In", ["bar"]), fields=[named("n1")])),
        (SUCCESS, frozenset({"n1"})),
        [MISMATCH, MISMATCH],
    ),
    "two names": (requires(only("n1"), only("n2")), (SUCCESS, frozenset({"n1", "n2"})), [SUCCESS, SUCCESS]),
    "a name, or a label": (
        requires(only("n1"), a_term(("foo", "In", ["bar"]))),
        (SUCCESS, None),
        [SUCCESS, SUCCESS],
    ),
    "a contradiction": (
        requires(a_term(fields=[named("n1"), named("n2")])),
        (CONFLICT, None),
        [CONFLICT, CONFLICT],
    ),
    "a contradiction, or a label": (
        requires(a_term(fields=[named("n1"), named("n2")]), a_term(("foo", "In", ["bar"]))),
        (SUCCESS, None),
        [MISMATCH, SUCCESS],
    ),
    "a contradiction, or a name": (
        requires(a_term(fields=[named("n1"), named("n2")]), only("n2")),
        (SUCCESS, frozenset({"n2"})),
        [MISMATCH, SUCCESS],
    ),
    "a name that no node has": (requires(only("n9")), (SUCCESS, frozenset({"n9"})), [MISMATCH, MISMATCH]),
    "an empty term": (requires(a_term()), (SUCCESS, None), [MISMATCH, MISMATCH]),
    "no terms": (requires(), (SUCCESS, None), [MISMATCH, MISMATCH]),
}


@pytest.mark.parametrize(("pod", "before", "want"), FIELDS.values(), ids=FIELDS.keys())
def test_terms_that_name_nodes_narrow(
    pod: Pod, before: tuple[Status, frozenset[str] | None], want: list[Status]
) -> None:
    cluster = a_cluster([a_node("n1"), a_node("n2", labels={"foo": "bar"})])
    plugin = NodeAffinity(None, a_handle(cluster))
    assert pre_filtered(plugin, cluster, pod) == before
    assert judged(plugin, cluster, pod) == want


@pytest.mark.parametrize("pod", [a_pod(), a_pod(preferred=[])], ids=["no affinity", "no required affinity"])
def test_an_unrestricted_pod_is_skipped(pod: Pod) -> None:
    assert pre_filtered(NodeAffinity(None, a_handle()), a_cluster(), pod) == (SKIP, None)


def test_an_empty_selector_is_not_skipped() -> None:
    assert pre_filtered(NodeAffinity(None, a_handle()), a_cluster(), a_pod(node_selector={})) == (SUCCESS, None)


ADDED: Mapping[str, tuple[Pod, NodeSelectorTerm, list[Status]]] = {
    "both match": (requires(a_term(("zone", "In", ["foo"]))), only("n2"), [ENFORCED, SUCCESS]),
    "only the added one matches": (requires(a_term(("zone", "In", ["bar"]))), only("n2"), [ENFORCED, MISMATCH]),
    "only the added one is there": (a_pod(), a_term(("zone", "In", ["bar"])), [ENFORCED, ENFORCED]),
}


@pytest.mark.parametrize(("pod", "added", "want"), ADDED.values(), ids=ADDED.keys())
def test_added_affinity_holds_for_every_pod(pod: Pod, added: NodeSelectorTerm, want: list[Status]) -> None:
    cluster = a_cluster([a_node("n1", labels={"zone": "foo"}), a_node("n2", labels={"zone": "foo"})])
    args = NodeAffinityArgs(added_affinity=a_node_affinity([added]))
    assert judged(NodeAffinity(args, a_handle(cluster)), cluster, pod) == want


FAULTY = a_term(("invalid key", "In", ["x"]))


@pytest.mark.parametrize("affinity", [a_node_affinity([FAULTY]), a_node_affinity(preferred=[(1, FAULTY)])])
def test_faulty_added_affinity_is_refused_at_once(affinity: object) -> None:
    assert isinstance(affinity, type(a_node_affinity()))
    with pytest.raises(ValueError, match=r'matchExpressions\[0\].key: Invalid value: "invalid key"'):
        NodeAffinity(NodeAffinityArgs(added_affinity=affinity), a_handle())


SCORED = (
    a_node("n1", labels={"foo": "bar"}),
    a_node("n2", labels={"foo": "bar", "key": "value", "az": "az1"}),
    a_node("n3", labels={"key": "value"}),
)
FOO, KEY = a_term(("foo", "In", ["bar"])), a_term(("key", "In", ["value"]))
ALL = a_term(("foo", "In", ["bar"]), ("key", "In", ["value"]), ("az", "In", ["az1"]))
SCORES: Mapping[str, tuple[list[tuple[int, NodeSelectorTerm]] | None, list[int] | None, list[int] | None]] = {
    "no affinity sits out": (None, None, None),
    "an empty list of preferences does not sit out": ([], [0, 0, 0], [0, 0, 0]),
    "no node matches": ([(2, a_term(("foo", "In", ["other"])))], [0, 0, 0], [0, 0, 0]),
    "one preference": ([(2, FOO)], [2, 2, 0], [100, 100, 0]),
    "weights add up": ([(2, FOO), (4, KEY), (5, ALL)], [2, 11, 4], [18, 100, 36]),
    "weight 0 is not looked at": ([(0, FAULTY), (2, FOO)], [2, 2, 0], [100, 100, 0]),
    "an empty preference is not looked at": ([(7, a_term()), (2, FOO)], [2, 2, 0], [100, 100, 0]),
}


@pytest.mark.parametrize(("preferred", "raw", "want"), SCORES.values(), ids=SCORES.keys())
def test_score(
    preferred: list[tuple[int, NodeSelectorTerm]] | None, raw: list[int] | None, want: list[int] | None
) -> None:
    cluster = a_cluster(SCORED)
    plugin, pod = NodeAffinity(None, a_handle(cluster)), a_pod(preferred=preferred)
    assert raw_scores(plugin, cluster, pod) == raw
    assert scored(plugin, cluster, pod) == want


def test_added_preferences_add_to_those_of_the_pod() -> None:
    cluster = a_cluster(SCORED)
    args = NodeAffinityArgs(added_affinity=a_node_affinity(preferred=[(3, KEY)]))
    plugin = NodeAffinity(args, a_handle(cluster))
    assert scored(plugin, cluster, a_pod()) == [0, 100, 100]
    assert scored(plugin, cluster, a_pod(preferred=[(2, FOO)])) == [40, 100, 60]


def test_a_faulty_preference_breaks_the_attempt_off() -> None:
    cluster = a_cluster(SCORED)
    plugin = NodeAffinity(None, a_handle(cluster))
    with pytest.raises(PluginError, match=r'^\[0\]\.matchExpressions\[0\]\.key: Invalid value: "invalid key"'):
        raw_scores(plugin, cluster, a_pod(preferred=[(2, FAULTY)]))


def test_score_works_without_prescore() -> None:
    cluster = a_cluster(SCORED)
    plugin = NodeAffinity(None, a_handle(cluster))
    info = cluster.info(a_pod(preferred=[(2, FOO)]))
    assert plugin.score(CycleState(), info, cluster.table.live_rows()).tolist() == [2, 2, 0]


GOOD, BAD = a_node(labels={"foo": "bar"}), a_node(labels={"foo": "other"})
NODE_CHANGES: Mapping[str, tuple[Node | None, Node, Hint]] = {
    "a new node that does not match": (None, BAD, Hint.SKIP),
    "a new node that matches": (None, GOOD, Hint.QUEUE),
    "another label changes": (BAD, a_node(labels={"foo": "other", "k": "v"}), Hint.SKIP),
    "it no longer matches": (GOOD, BAD, Hint.SKIP),
    "it comes to match": (BAD, GOOD, Hint.QUEUE),
    "it goes on matching": (GOOD, a_node(labels={"foo": "bar", "k": "v"}), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CHANGES.values(), ids=NODE_CHANGES.keys())
def test_nodes_that_come_to_match_wake_the_pod(old: Node | None, new: Node, want: Hint) -> None:
    event = NODE_ADD if old is None else NODE_LABEL
    assert hinted(NodeAffinity(None, a_handle()), event, a_cluster(), requires(FOO), old, new) is want


def test_a_node_that_the_added_affinity_refuses_does_not_wake() -> None:
    plugin = NodeAffinity(NodeAffinityArgs(added_affinity=a_node_affinity([KEY])), a_handle())
    assert hinted(plugin, NODE_ADD, a_cluster(), requires(FOO), None, GOOD) is Hint.SKIP
    both = a_node(labels={"foo": "bar", "key": "value"})
    assert hinted(plugin, NODE_ADD, a_cluster(), requires(FOO), None, both) is Hint.QUEUE
    assert hinted(plugin, NODE_LABEL, a_cluster(), requires(FOO), GOOD, both) is Hint.SKIP


def test_the_hint_fails_over_a_faulty_term_only_if_no_other_matches() -> None:
    plugin = NodeAffinity(None, a_handle())
    assert hinted(plugin, NODE_ADD, a_cluster(), requires(FAULTY, FOO), None, GOOD) is Hint.QUEUE
    with pytest.raises(HintError, match="invalid key"):
        hinted(plugin, NODE_ADD, a_cluster(), requires(FAULTY, FOO), None, BAD)
    unselected = a_pod(node_selector={"x": "y"}, required=[FAULTY])
    assert hinted(plugin, NODE_ADD, a_cluster(), unselected, None, BAD) is Hint.SKIP
