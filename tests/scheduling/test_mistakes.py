"""A mistake in a plugin: the pod that met it is told, the log has the traceback, and everything else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_pod
from tests.framework.fakes import (
    Filter,
    NormalizedScore,
    Permit,
    PostBind,
    PostFilter,
    PreFilter,
    PreScore,
    Reserve,
    Score,
    profile_of,
)
from tests.scheduling.builders import cluster_of

from berth.framework.cycle_state import CycleState
from berth.framework.run import run_post_bind
from berth.framework.status import unschedulable
from berth.scheduling.algorithm import Algorithm
from berth.scheduling.cycle import Failure, Placement, run_cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from berth.cluster.cache import Cluster
    from berth.cluster.pods import PodInfo
    from berth.framework.cycle_state import CycleState as State
    from berth.framework.interface import Plugin

MISTAKE = KeyError("never thought of")
TOLD = "KeyError: 'never thought of'"


class Epochal(Filter):
    """Looks at something cluster-wide, and breaks off."""

    def epoch(self) -> Hashable:
        raise MISTAKE


class Clumsy(Reserve):
    """Cannot take back what it booked."""

    def unreserve(self, state: State, pod: PodInfo, node_name: str) -> None:
        super().unreserve(state, pod, node_name)
        raise MISTAKE


class Deaf(PostBind):
    """Does not want to hear of bindings."""

    def post_bind(self, state: State, pod: PodInfo, node_name: str) -> None:
        super().post_bind(state, pod, node_name)
        raise MISTAKE


def accepting(_node: str, _pod: PodInfo) -> bool:
    return False


def normalizer(cluster: Cluster) -> Plugin:
    plugin = NormalizedScore("X", cluster, {"n1": 1, "n2": 2})
    plugin.fault = MISTAKE
    return plugin


POINTS: dict[str, Callable[[Cluster], Sequence[Plugin]]] = {
    "PreFilter": lambda _: [PreFilter("X", MISTAKE)],
    "Filter": lambda c: [Filter("X", c, answer=MISTAKE)],
    "the epoch of a Filter": lambda c: [Epochal("X", c, accepting)],
    "PostFilter": lambda c: [Filter("F", c), PostFilter("X", MISTAKE)],
    "PreScore": lambda _: [PreScore("X", MISTAKE)],
    "Score": lambda c: [Score("X", c, MISTAKE)],
    "Normalize": lambda c: [normalizer(c)],
    "Reserve": lambda _: [Reserve("X", MISTAKE)],
    "Permit": lambda _: [Permit("X", MISTAKE)],
}


@pytest.mark.parametrize("make", POINTS.values(), ids=POINTS)
def test_the_pod_is_told_of_a_mistake_at(
    make: Callable[[Cluster], Sequence[Plugin]], caplog: pytest.LogCaptureFixture
) -> None:
    cluster = cluster_of("n1", "n2")
    algorithm = Algorithm(profile_of(*make(cluster)), cluster, lambda _: [], nominated_nodes=list)
    outcome = run_cycle(algorithm, cluster, cluster.info(a_pod()), attempt=1)
    assert isinstance(outcome, Failure)
    assert TOLD in outcome.status.message
    assert "Traceback" in caplog.text
    assert cluster.counts()["pods"] == 0


def test_a_mistake_in_the_signing_of_a_pod_costs_only_memory() -> None:
    def sign(_pod: PodInfo) -> Hashable:
        raise MISTAKE

    cluster = cluster_of("n1")
    algorithm = Algorithm(
        profile_of(Filter("X", cluster, accepting, signs=sign)), cluster, lambda _: [], nominated_nodes=list
    )
    assert isinstance(run_cycle(algorithm, cluster, cluster.info(a_pod()), attempt=1), Placement)


def test_a_mistake_while_bookings_are_taken_back_keeps_no_other_booking(caplog: pytest.LogCaptureFixture) -> None:
    cluster, diary = cluster_of("n1"), list[str]()
    profile = profile_of(Reserve("A", diary=diary), Clumsy("B", diary=diary), Permit("P", unschedulable("no")))
    outcome = run_cycle(
        Algorithm(profile, cluster, lambda _: [], nominated_nodes=list), cluster, cluster.info(a_pod()), attempt=1
    )
    assert isinstance(outcome, Failure)
    assert diary[2:] == ["B unreserves on n1", "A unreserves on n1"]
    assert "Unreserve of plugin B broke off" in caplog.text
    assert cluster.counts()["pods"] == 0


def test_a_mistake_after_a_binding_keeps_it_from_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    first, second = Deaf("A"), PostBind("B")
    pod = a_cluster().info(a_pod("web"))
    run_post_bind(profile_of(first, second), CycleState(), pod, "n1")
    assert first.heard == second.heard == [(pod.key, "n1")]
    assert "PostBind of plugin A broke off" in caplog.text
