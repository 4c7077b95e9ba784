"""The first plugin that says no to a node decides, and nobody is asked in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.builders import a_pod, rows_of
from tests.framework.fakes import Filter, profile_of
from tests.scheduling.builders import cluster_of

from berth.api.quantity import QuantityError
from berth.framework.cycle_state import CycleState, StateNotFoundError
from berth.framework.status import PluginError, unresolvable
from berth.scheduling.verdicts import CycleError, Verdicts, explain, judge, placed_filters, position_of, tally

if TYPE_CHECKING:
    from berth.cluster.columns import Rows
    from berth.cluster.pods import PodInfo
    from berth.framework.interface import Rejections
    from berth.framework.status import Status

ALL = ["n1", "n2", "n3"]
CLUSTER = cluster_of(*ALL)
POD = CLUSTER.info(a_pod())


def rejecting(name: str, *nodes: str) -> Filter:
    return Filter(name, CLUSTER, lambda node, _pod: node in nodes)


def judged(*plugins: Filter, state: CycleState | None = None, names: list[str] | None = None) -> Verdicts:
    filters = placed_filters(profile_of(*plugins))
    return judge(filters, state or CycleState(), POD, rows_of(CLUSTER, names))


# the nodes that each plugin objects to, in order of plugins; who rejects each node, whom each plugin is asked about
CASES: dict[str, tuple[list[list[str]], list[str], list[list[str]]]] = {
    "nobody objects": ([[], []], ["", "", ""], [ALL, ALL]),
    "the first objects to all": ([ALL, []], ["A", "A", "A"], [ALL, []]),
    "the last objects to all": ([[], ALL], ["B", "B", "B"], [ALL, ALL]),
    "each objects to one": ([["n2"], ["n1"]], ["B", "A", ""], [ALL, ["n1", "n3"]]),
    "several object to one": (
        [["n2"], ["n2", "n3"], ALL],
        ["C", "A", "B"],
        [ALL, ["n1", "n3"], ["n1"]],
    ),
    "there are no plugins": ([], ["", "", ""], []),
}


@pytest.mark.parametrize(("objections", "blamed", "asked"), CASES.values(), ids=CASES)
def test_nodes_are_rejected_where(objections: list[list[str]], blamed: list[str], asked: list[list[str]]) -> None:
    plugins = [rejecting(name, *nodes) for name, nodes in zip("ABC", objections, strict=False)]
    verdicts = judged(*plugins)
    profile = profile_of(*plugins)
    assert [explain(profile, verdict).plugin if verdict else "" for verdict in verdicts.tolist()] == blamed
    assert [plugin.asked_of() for plugin in plugins] == asked


def test_verdicts_stand_in_the_order_of_the_rows_that_were_asked_about() -> None:
    verdicts = judged(rejecting("A", "n1"), rejecting("B", "n3"), names=["n3", "n2", "n1"])
    assert position_of(verdicts).tolist() == [2, 0, 1]


def test_no_rows_have_no_verdicts() -> None:
    plugin = rejecting("A", *ALL)
    assert judged(plugin, names=[]).tolist() == []


def test_who_sits_out_is_not_asked() -> None:
    state, plugin = CycleState(), rejecting("A", *ALL)
    state.skip_filter.add("A")
    assert judged(plugin, rejecting("B", "n2"), state=state).astype(bool).tolist() == [False, True, False]
    assert plugin.asked_of() == []


def test_a_verdict_says_code_reasons_and_plugin() -> None:
    plugin = Filter("A", CLUSTER, answer=unresolvable("too far", "too small"))
    profile = profile_of(rejecting("Z"), plugin)
    verdict = int(judge(placed_filters(profile), CycleState(), POD, rows_of(CLUSTER))[0])
    assert explain(profile, verdict) == unresolvable("too far", "too small").by("A")


class Numbering(Filter):
    """Rejects each node with a number of its own, up to the largest that there is."""

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        del state, pod
        return (np.iinfo(np.int16).max - rows).astype(np.int16)

    def rejection(self, code: int) -> Status:
        return unresolvable(str(code))


def test_a_plugin_may_use_all_numbers_that_there_are() -> None:
    profile = profile_of(rejecting("Z"), Numbering("A", CLUSTER))
    verdicts = judge(placed_filters(profile), CycleState(), POD, rows_of(CLUSTER))
    assert [explain(profile, verdict).message for verdict in verdicts.tolist()] == ["32767", "32766", "32765"]
    assert position_of(verdicts).tolist() == [2, 2, 2]


def test_verdicts_are_counted_one_by_one() -> None:
    verdicts = judged(rejecting("A", "n1"), rejecting("B", "n2", "n3"))
    verdicts = np.append(verdicts, np.array([0, -1, -2], dtype=np.int32))
    assert sorted(count for _, count in tally(verdicts)) == [1, 2]


FAULTS = {
    "it cannot tell": (PluginError("boom"), "boom"),
    "it was asked out of turn": (StateNotFoundError("nothing there"), "nothing there"),
    "an amount is none": (QuantityError("much"), "want a quantity such as 500m, 2 or 4Gi, got 'much'"),
}


@pytest.mark.parametrize(("fault", "text"), FAULTS.values(), ids=FAULTS)
def test_a_plugin_that_fails_at_one_node_ends_the_attempt(fault: Exception, text: str) -> None:
    plugin = Filter("A", CLUSTER, lambda node, _pod: node == "n3", answer=fault)
    with pytest.raises(CycleError) as caught:
        judged(rejecting("Z", "n1"), plugin)
    assert str(caught.value) == f'running "A" filter plugin: {text}'


def test_a_plugin_that_would_fail_is_not_asked_about_nodes_that_are_out_already() -> None:
    plugin = Filter("A", CLUSTER, lambda node, _pod: node == "n3", answer=PluginError("boom"))
    assert position_of(judged(rejecting("Z", "n3"), plugin)).tolist() == [0, 0, 1]
