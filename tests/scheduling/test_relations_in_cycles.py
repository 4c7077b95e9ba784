"""Rules between pods within whole cycles: what is kept from pod to pod changes nothing, and promises are respected."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_cluster, a_node, a_pod
from tests.plugins.relation_worlds import NODES, PLAIN, PODS, SPREADING, placed

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from berth.api.pod import TopologySpreadConstraint
from berth.api.selectors import LabelSelector
from berth.config.gates import features_of
from berth.config.load import default_config
from berth.config.versions import row_of
from berth.framework.cycle_state import CycleState
from berth.framework.handle import Handle
from berth.plugins.registry import IN_TREE
from berth.runtime.assembly import build_profiles
from berth.scheduling.algorithm import Algorithm, Found
from berth.scheduling.diagnosis import FitError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from berth.api.node import Node
    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.cluster.pods import PodInfo

MINOR = "1.37"
WEB = LabelSelector(match_labels={"app": "web"})
ZONES = {"a": "east", "b": "east", "c": "west"}


def an_algorithm(cluster: Cluster, promised: dict[str, list[Pod]] | None = None) -> Algorithm:
    row = row_of(MINOR)
    features = features_of(row)
    handle = Handle(cluster=cluster, gates=features.gates, behaviours=features.behaviours)
    [profile] = build_profiles(default_config(row, features.gates), row, handle, IN_TREE).values()
    promises = {name: [cluster.info(pod) for pod in pods] for name, pods in (promised or {}).items()}

    def on(name: str) -> Sequence[PodInfo]:
        return promises.get(name, [])

    return Algorithm(profile, cluster, on, nominated_nodes=lambda: tuple(promises))


Answer = tuple[str, dict[str, int]] | dict[str, tuple[str, tuple[str, ...]]]


def decided(algorithm: Algorithm, cluster: Cluster, pod: Pod) -> Answer:
    """The node and the totals, or who rejected which node and why."""
    outcome = algorithm.schedule(CycleState(), cluster.info(pod), 1)
    if isinstance(outcome, Found):
        scored = outcome.scored
        totals = {} if scored is None else dict(zip(scored.rows.tolist(), scored.totals.tolist(), strict=True))
        return outcome.node_name, {cluster.table.name(row): total for row, total in totals.items()}
    assert isinstance(outcome, FitError)
    nodes = outcome.nodes.by_node() if outcome.nodes is not None else {}
    return {name: (status.plugin, status.reasons) for name, status in nodes.items()}


class Tale:
    """A cluster to which this and that happens."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.cluster = a_cluster(self._node(f"n{i}") for i in range(self._chance.randint(1, 8)))
        self._there: list[Pod] = []
        self._number = 0

    def happen(self) -> None:
        """A pod goes, or a node gets other labels, or nothing."""
        if self._there and self._chance.random() < 0.3:
            self.cluster.remove_pod(self._there.pop(self._chance.randrange(len(self._there))))
        if self._chance.random() < 0.2:
            self.cluster.set_node(self._node(f"n{self._chance.randint(0, 8)}"))

    def waiting(self) -> Pod:
        pod = self._chance.choice(self._chance.choice((PLAIN, SPREADING, PODS)))
        self._number += 1
        return msgspec.structs.replace(placed(pod, self._number, ""), status=pod.status)

    def place(self, pod: Pod, name: str) -> None:
        bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=name))
        self.cluster.add_pod(bound)
        self._there.append(bound)

    def _node(self, name: str) -> Node:
        node = self._chance.choice(NODES)
        return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, name=name))


@given(st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_decisions_are_the_same_whatever_was_decided_before(seed: int) -> None:
    tale = Tale(seed)
    experienced = an_algorithm(tale.cluster)
    for _ in range(20):
        tale.happen()
        pod = tale.waiting()
        answer = decided(experienced, tale.cluster, pod)
        assert answer == decided(an_algorithm(tale.cluster), tale.cluster, pod)
        if isinstance(answer, tuple):
            tale.place(pod, answer[0])
    tale.cluster.validate()


def an_apart_pod(name: str, *, priority: int = 0) -> Pod:
    term = PodAffinityTerm(label_selector=WEB, topology_key="zone")
    anti = PodAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return a_pod(name, labels={"app": "web"}, priority=priority, spec={"affinity": Affinity(pod_anti_affinity=anti)})


def a_spread_pod(name: str, *, priority: int = 0) -> Pod:
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="DoNotSchedule", label_selector=WEB
    )
    return a_pod(name, labels={"app": "web"}, priority=priority, spec={"topology_spread_constraints": (constraint,)})


def zones(*pods: Pod) -> Cluster:
    return a_cluster([a_node(name, labels={"zone": zone}) for name, zone in ZONES.items()], pods)


def fits(algorithm: Algorithm, cluster: Cluster, pod: Pod) -> list[str]:
    outcome = algorithm.schedule(CycleState(), cluster.info(pod), 1)
    return sorted(cluster.table.name(row) for row in outcome.rows.tolist()) if isinstance(outcome, Found) else []


def check_promises(make: Callable[..., Pod]) -> None:
    """A pod that was promised node a counts there as if it ran, for pods that are not more important."""
    cluster = zones()
    algorithm = an_algorithm(cluster, {"a": [make("promised", priority=5)]})
    for _ in range(2):
        assert fits(algorithm, cluster, make("less important")) == ["b", "c"]
        assert fits(algorithm, cluster, make("more important", priority=9)) == ["a", "b", "c"]
    cluster.validate()


def test_a_promised_pod_keeps_others_apart_on_its_node() -> None:
    """Only on its node: what it means for the rest of its domain is seen once it runs, as in the reference."""
    check_promises(an_apart_pod)


def test_a_promised_pod_counts_in_the_domain_of_its_node() -> None:
    check_promises(a_spread_pod)


def test_the_next_pods_of_a_workload_go_where_the_rules_lead_them() -> None:
    cluster = zones()
    algorithm = an_algorithm(cluster)
    went = []
    for i in range(4):
        pod = a_spread_pod(f"w{i}")
        outcome = algorithm.schedule(CycleState(), cluster.info(pod), 1)
        assert isinstance(outcome, Found)
        went.append(ZONES[outcome.node_name])
        cluster.assume(cluster.info(pod).on(outcome.node_name), outcome.node_name)
    assert went.count("east") == went.count("west") == 2
    apart = [an_apart_pod(f"x{i}") for i in range(2)]
    assert [fits(algorithm, cluster, pod) for pod in apart] == [[], []]
