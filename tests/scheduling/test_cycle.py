"""One attempt at one pod, from PreFilter to Permit: what is booked, and what is taken back."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_pod
from tests.framework.fakes import (
    Filter,
    NormalizedScore,
    Permit,
    PostFilter,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    profile_of,
)
from tests.scheduling.builders import cluster_of

from berth.framework.interface import Scope
from berth.framework.status import SKIP, SUCCESS, Code, PluginError, Status, error, unresolvable, unschedulable
from berth.scheduling.algorithm import Algorithm
from berth.scheduling.cycle import CLEAR, KEEP, Failure, Placement, run_cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.framework.fakes import Answer

    from berth.cluster.cache import Cluster
    from berth.framework.interface import Plugin

WAIT = Status(Code.WAIT, ("hold on",))


class Diary:
    """An observer that writes down which step ended how."""

    def __init__(self) -> None:
        ticks = itertools.count()
        self.stopwatch: Callable[[], float] = lambda: float(next(ticks))
        self.steps: list[tuple[str, str]] = []
        self.judges: dict[str, list[str]] = {}

    def extension_point_ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        assert profile == "default-scheduler"
        assert seconds > 0
        self.steps.append((point, status))

    def plugins_evaluated(self, profile: str, point: str, names: Iterable[str]) -> None:
        assert profile == "default-scheduler"
        self.judges[point] = list(names)


def run(
    cluster: Cluster, *plugins: Plugin, observer: Diary | None = None, cpu: str | None = None
) -> Placement | Failure:
    algorithm = Algorithm(profile_of(*plugins), cluster, lambda _: [], nominated_nodes=list, observer=observer)
    return run_cycle(algorithm, cluster, cluster.info(a_pod(cpu=cpu)), attempt=1)


def failed(outcome: Placement | Failure) -> Failure:
    assert isinstance(outcome, Failure), outcome
    return outcome


def counts(cluster: Cluster) -> tuple[int, int]:
    """How many pods count, and how many of them are assumed."""
    cluster.validate()
    return cluster.counts()["pods"], cluster.counts()["assumed_pods"]


# -- placed -----------------------------------------------------------------------------------------------------------


def test_a_pod_that_was_placed_counts_on_its_node() -> None:
    cluster = cluster_of("n1")
    reserve = Reserve("R")
    outcome = run(cluster, reserve, Permit("P"), cpu="250m")
    assert isinstance(outcome, Placement)
    assert (outcome.node_name, outcome.info.pod.spec.node_name) == ("n1", "n1")
    assert outcome.permit.status == SUCCESS
    assert cluster.is_assumed(outcome.info.uid)
    assert cluster.table.usage("n1")["cpu"] == 250
    assert reserve.diary == ["R reserves on n1"]
    assert counts(cluster) == (1, 1)


def test_a_pod_that_permission_is_withheld_from_counts_all_the_same() -> None:
    cluster = cluster_of("n1")
    outcome = run(cluster, Permit("P", WAIT, 3), Permit("Q", WAIT, 5))
    assert isinstance(outcome, Placement)
    assert outcome.permit.waits == {"P": 3, "Q": 5}
    assert counts(cluster) == (1, 1)


# -- not placed -------------------------------------------------------------------------------------------------------


def test_without_nodes_there_is_nothing_to_make_room_on() -> None:
    post = PostFilter("Post", SUCCESS, "n1")
    failure = failed(run(a_cluster(), post))
    assert failure == Failure(unresolvable("no nodes available to schedule pods"), None, CLEAR)
    assert post.told == []


def test_a_plugin_that_fails_ends_the_attempt_and_clears_the_promise() -> None:
    cluster = cluster_of("n1")
    post = PostFilter("Post", SUCCESS, "n1")
    failure = failed(run(cluster, Filter("F", cluster, answer=PluginError("boom")), post))
    assert failure == Failure(error('running "F" filter plugin: boom'), None, CLEAR)
    assert post.told == []


def test_a_pod_that_fits_nowhere_gives_its_promise_up_where_nobody_makes_room() -> None:
    cluster = cluster_of("n1", "n2")
    failure = failed(run(cluster, Filter("F", cluster)))
    assert failure.status == unschedulable("0/2 nodes are available: 2 F says no.")
    assert failure.fit_error is not None
    assert failure.nominated_node_name == CLEAR
    assert counts(cluster) == (0, 0)


PREFIX = "0/1 nodes are available: 1 F says no."

# what PostFilter says, and which node it nominates; the message, and what becomes of the promise
POST_FILTERS: dict[str, tuple[Answer, str | None, str, str | None]] = {
    "it made room": (SUCCESS, "n1", PREFIX, "n1"),
    "it made room, and tells how": (Status(reasons=("evicted 2",)), "n1", f"{PREFIX} evicted 2", "n1"),
    "it could not": (unschedulable("no victims"), CLEAR, f"{PREFIX} no victims", CLEAR),
    "it did not try": (unschedulable("not eligible"), KEEP, f"{PREFIX} not eligible", KEEP),
    "it knows that nobody can": (unresolvable("hopeless"), KEEP, f"{PREFIX} hopeless", KEEP),
    "it failed": (error("no victims listed"), "n1", f"{PREFIX} no victims listed", KEEP),
    "it raised": (PluginError("boom"), "n1", f"{PREFIX} boom", KEEP),
}


@pytest.mark.parametrize(("answer", "nominated", "message", "promise"), POST_FILTERS.values(), ids=POST_FILTERS)
def test_whatever_comes_of_making_room_the_pod_is_unschedulable(
    answer: Answer, nominated: str | None, message: str, promise: str | None
) -> None:
    cluster = cluster_of("n1")
    failure = failed(run(cluster, Filter("F", cluster), PostFilter("Post", answer, nominated)))
    assert failure.status == unschedulable(message)
    assert failure.nominated_node_name == promise
    assert failure.fit_error is not None
    assert failure.fit_error.unschedulable_plugins == {"F"}


def test_who_makes_room_is_told_of_each_node() -> None:
    cluster = cluster_of("n1", "n2")
    post = PostFilter("Post", unschedulable("no victims"))
    far = Filter("Far", cluster, lambda name, _pod: name == "n2", answer=unresolvable("far"))
    run(cluster, Filter("Full", cluster, lambda name, _pod: name == "n1"), far, post)
    (told,) = post.told
    assert [told.get(name).code for name in ("n1", "n2")] == [Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE]


def test_who_makes_room_is_asked_also_where_no_node_was_looked_at() -> None:
    post = PostFilter("Post", unschedulable("no victims"))
    failure = failed(run(cluster_of("n1"), PreFilter("P", unschedulable("no claim")), post))
    assert failure.status.message == "0/1 nodes are available: no claim. no victims"
    (told,) = post.told
    assert told.get("n1") == unschedulable("no claim").by("P")


# -- taken back -------------------------------------------------------------------------------------------------------

# what the second of three plugins says; the status, and who is to blame
REFUSALS: dict[str, tuple[Answer, Status, set[str]]] = {
    "unschedulable": (unschedulable("refused"), unschedulable("0/1 nodes are available: 1 refused."), {"B"}),
    "unresolvable": (unresolvable("refused"), unresolvable("0/1 nodes are available: 1 refused."), {"B"}),
    "pending": (
        Status(Code.PENDING, ("not yet",)),
        Status(Code.PENDING, ("0/1 nodes are available: 1 not yet.",)),
        {"B"},
    ),
    "skip": (Status(Code.SKIP, ("idle",)), error('running {} plugin "B": idle'), set()),
    "error": (error("broken"), error('running {} plugin "B": broken'), set()),
    "an exception": (PluginError("boom"), error('running {} plugin "B": boom'), set()),
}


def check_refusal(failure: Failure, expected: Status, blamed: set[str], point: str) -> None:
    assert failure.status == Status(expected.code, tuple(reason.format(point) for reason in expected.reasons))
    assert failure.nominated_node_name == CLEAR
    if not blamed:
        assert failure.fit_error is None
        return
    assert failure.fit_error is not None
    assert failure.fit_error.unschedulable_plugins == blamed
    assert failure.fit_error.pending_plugins == (blamed if expected.code is Code.PENDING else set())


@pytest.mark.parametrize(("answer", "expected", "blamed"), REFUSALS.values(), ids=REFUSALS)
def test_a_placement_that_cannot_be_booked_is_taken_back(answer: Answer, expected: Status, blamed: set[str]) -> None:
    cluster, diary, permit = cluster_of("n1", "n2", "n3"), list[str](), Permit("P")
    plugins = [Reserve("A", diary=diary), Reserve("B", answer, diary), Reserve("C", diary=diary)]
    only = Filter("F", cluster, lambda name, _pod: name != "n2")
    check_refusal(failed(run(cluster, only, *plugins, permit)), expected, blamed, "Reserve")
    assert diary == [
        "A reserves on n2",
        "B reserves on n2",
        "C unreserves on n2",
        "B unreserves on n2",
        "A unreserves on n2",
    ]
    assert permit.calls == 0
    assert counts(cluster) == (0, 0)


@pytest.mark.parametrize(("answer", "expected", "blamed"), REFUSALS.values(), ids=REFUSALS)
def test_a_placement_that_is_not_permitted_is_taken_back(answer: Answer, expected: Status, blamed: set[str]) -> None:
    cluster, diary, last = cluster_of("n1"), list[str](), Permit("C")
    reserves = [Reserve("R", diary=diary), Reserve("S", diary=diary)]
    failure = failed(run(cluster, *reserves, Permit("A", WAIT), Permit("B", answer), last))
    check_refusal(failure, expected, blamed, "Permit")
    assert diary == ["R reserves on n1", "S reserves on n1", "S unreserves on n1", "R unreserves on n1"]
    assert last.calls == 0
    assert counts(cluster) == (0, 0)


def test_a_pod_that_counts_already_is_not_placed_again() -> None:
    cluster = cluster_of("n1")
    cluster.assume(cluster.info(a_pod()).on("n1"), "n1")
    reserve = Reserve("R")
    failure = failed(run(cluster, reserve))
    assert failure == Failure(error("pod uid-of-default-web(default/web) is in the cache, so can't be assumed"))
    assert reserve.diary == []
    assert counts(cluster) == (1, 1)


# -- what an observer hears -------------------------------------------------------------------------------------------


def everyone(cluster: Cluster, scope: Scope = Scope.ROW) -> list[Plugin]:
    return [
        PreFilter("Pre"),
        PreFilter("Idle", SKIP),
        Filter("F", cluster, lambda _node, _pod: False, scope=scope),
        PreScore("PreS"),
        Score("S", cluster, lambda _: 1, scope=scope),
        Reserve("R"),
        Permit("P"),
    ]


def test_an_observer_hears_of_every_step_of_a_placement() -> None:
    cluster, diary = cluster_of("n1", "n2"), Diary()
    run(cluster, *everyone(cluster), observer=diary)
    points = ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit"]
    assert diary.steps == [(point, "Success") for point in points]
    assert diary.judges == {"PreFilter": ["Pre"], "Filter": ["F"], "PreScore": ["PreS"], "Score": ["S"]}


def breaking_normalizer(cluster: Cluster) -> Plugin:
    plugin = NormalizedScore("N", cluster, {"n1": 1, "n2": 2})
    plugin.fault = PluginError("boom")
    return plugin


# one more plugin; the last steps
LAST_STEPS: dict[str, tuple[Callable[[Cluster], Plugin], list[tuple[str, str]]]] = {
    "PreFilter rejects": (
        lambda _: PreFilter("X", unresolvable("no")),
        [("PreFilter", "UnschedulableAndUnresolvable")],
    ),
    "PreFilter fails": (lambda _: PreFilter("X", error("no")), [("PreFilter", "Error")]),
    "Filter rejects": (lambda c: Filter("X", c), [("PreFilter", "Success"), ("Filter", "Success")]),
    "Filter fails": (
        lambda c: Filter("X", c, answer=PluginError("no")),
        [("PreFilter", "Success"), ("Filter", "Error")],
    ),
    "PreScore fails": (lambda _: PreScore("X", error("no")), [("Filter", "Success"), ("PreScore", "Error")]),
    "Score fails": (
        lambda c: Score("X", c, PluginError("no")),
        [("PreScore", "Success"), ("Score", "Error")],
    ),
    "Normalize fails": (breaking_normalizer, [("PreScore", "Success"), ("Score", "Error")]),
    "a score is out of range": (
        lambda c: Score("X", c, lambda _: 101, scope=Scope.CLUSTER),
        [("PreScore", "Success"), ("Score", "Error")],
    ),
    "Reserve rejects": (
        lambda _: Reserve("X", unschedulable("no")),
        [("Reserve", "Unschedulable"), ("Unreserve", "Success")],
    ),
    "Permit waits": (lambda _: Permit("X", WAIT), [("Reserve", "Success"), ("Permit", "Wait")]),
    "Permit fails": (lambda _: Permit("X", error("no")), [("Permit", "Error"), ("Unreserve", "Success")]),
}


@pytest.mark.parametrize(("make", "expected"), LAST_STEPS.values(), ids=LAST_STEPS)
def test_an_observer_hears_how_an_attempt_ended_where(
    make: Callable[[Cluster], Plugin], expected: list[tuple[str, str]]
) -> None:
    cluster, diary = cluster_of("n1", "n2"), Diary()
    run(cluster, *everyone(cluster), make(cluster), observer=diary)
    assert diary.steps[-len(expected) :] == expected


def test_an_observer_hears_of_the_attempt_to_make_room() -> None:
    cluster, diary = cluster_of("n1"), Diary()
    run(cluster, Filter("F", cluster), PostFilter("Post", unresolvable("no")), observer=diary)
    assert diary.steps[-1] == ("PostFilter", "UnschedulableAndUnresolvable")
