"""Who has to go is found for all nodes at once as it would be node by node, and as by trying everything in earnest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import a_cluster
from tests.scheduling.preemption_worlds import PreemptionWorld, preemption_world

from berth.api.selectors import compile_label_selector
from berth.cluster.kinds import ALL, POD_DISRUPTION_BUDGET
from berth.cluster.ranking import Ranking, started_us
from berth.framework.cycle_state import CycleState
from berth.framework.run import run_pre_filter
from berth.framework.what_if import TrialError
from berth.plugins.default_preemption.dry_run import DryRun, dry_run
from berth.scheduling.verdicts import judge, placed_filters

if TYPE_CHECKING:
    from collections.abc import Collection

    from berth.cluster.cache import Cluster
    from berth.cluster.columns import Rows
    from berth.cluster.objects import Kind
    from berth.cluster.pods import PodInfo
    from berth.framework.status import Status
    from berth.framework.what_if import Guests, Trial
    from berth.scheduling.algorithm import Algorithm

EXAMPLES = settings(max_examples=80, deadline=None)
FEWER = settings(max_examples=15, deadline=None)  # each builds dozens of clusters
seeds = st.integers(0, 2**32 - 1)


@dataclass
class Asked:
    """A pod that fits nowhere, and the means to ask what might change that."""

    algorithm: Algorithm
    state: CycleState
    pod: PodInfo
    one_by_one: bool
    num_all_nodes: int = 0

    def get(self, node_name: str) -> Status:
        raise NotImplementedError(node_name)

    def unschedulable_rows(self) -> Rows:
        raise NotImplementedError

    def trial(self, guests: Guests) -> Trial:
        if self.one_by_one:
            raise TrialError("not at once")
        return self.algorithm.trial(self.state, self.pod, guests)

    def live_trial(self, guests: Guests) -> Trial:
        return self.algorithm.live_trial(self.state, self.pod, guests)


def found(world: PreemptionWorld, *, one_by_one: bool) -> DryRun:
    algorithm, state = world.algorithm(), CycleState()
    assume(run_pre_filter(algorithm.profile, state, world.pod).status.ok)
    asked = Asked(algorithm, state, world.pod, one_by_one)
    budgets = list(world.cluster.objects.list(POD_DISRUPTION_BUDGET))
    return dry_run(Ranking(world.cluster.table), asked, world.pod, world.cluster.table.live_rows(), budgets)


def told(world: PreemptionWorld, run: DryRun) -> tuple[dict[str, tuple[list[str], int]], dict[Status, int]]:
    """Node -> who has to go, and how many of these break a budget; and why it helps nowhere else."""
    violations, name = run.violations(), world.cluster.table.name
    by_node: dict[str, tuple[list[str], int]] = {
        name(int(run.ranks.rows[place])): ([pod.key for pod in run.victims(place)], int(violations[place]))
        for place in (*run.candidates.tolist(), *run.spared.tolist())
    }
    return by_node, dict(run.answers)


@given(seed=seeds)
@EXAMPLES
def test_all_nodes_at_once_as_one_by_one(seed: int) -> None:
    world = preemption_world(seed)
    at_once, one_by_one = found(world, one_by_one=False), found(world, one_by_one=True)
    assert told(world, at_once) == told(world, one_by_one)
    world.cluster.validate()


@given(seed=seeds)
@FEWER
def test_as_by_trying_everything_in_earnest(seed: int) -> None:
    world = preemption_world(seed)
    assume(not world.pod.volumes)
    by_node, _ = told(world, found(world, one_by_one=False))
    table = world.cluster.table
    wanted = {table.name(row): in_earnest(world, row) for row in table.live_rows().tolist()}
    assert by_node == {name: outcome for name, outcome in wanted.items() if outcome is not None}


def in_earnest(world: PreemptionWorld, row: int) -> tuple[list[str], int] | None:
    """Who has to go from one node, found in clusters that are built for each question; None if that does not help."""
    there = sorted(
        (pod for pod in world.cluster.table.pods(row).values() if pod.priority < world.pod.priority),
        key=lambda pod: (-pod.priority, started_us(pod), pod.key),
    )
    if not there or not fits(world, row, there):
        return None
    breaking = breaking_budgets(world, there)
    gone, victims = list(there), []
    for pod in sorted(there, key=lambda pod: pod.key not in breaking):
        gone.remove(pod)
        if not fits(world, row, gone):
            gone.append(pod)
            victims.append(pod)
    return [pod.key for pod in there if pod in victims], sum(pod.key in breaking for pod in victims)


def breaking_budgets(world: PreemptionWorld, pods: list[PodInfo]) -> set[str]:
    breaking: set[str] = set()
    for budget in world.cluster.objects.list(POD_DISRUPTION_BUDGET):
        selector = compile_label_selector(budget.spec.selector)
        left = budget.status.disruptions_allowed
        for pod in pods:
            meta = pod.pod.metadata
            if selector.empty or not meta.labels or meta.namespace != "default" or not selector.matches(meta.labels):
                continue
            if meta.name not in budget.status.disrupted_pods:
                left -= 1
                if left < 0:
                    breaking.add(pod.key)
    return breaking


def fits(world: PreemptionWorld, row: int, gone: Collection[PodInfo]) -> bool:
    name = world.cluster.table.name(row)
    promised = [pod for pod in world.promised.get(name, ()) if pod.priority >= world.pod.priority]
    return all(fits_in(world, without(world.cluster, gone, also, name), name) for also in ([], promised))


def without(cluster: Cluster, gone: Collection[PodInfo], also: Collection[PodInfo], name: str) -> Cluster:
    table = cluster.table
    rows = table.live_rows().tolist()
    pods = [pod for row in rows for pod in table.pods(row).values() if pod not in gone]
    twin = a_cluster([table.node(row) for row in rows])
    kinds: tuple[Kind[Any], ...] = ALL
    for kind in kinds:
        for each in cluster.objects.list(kind):
            twin.objects.put(kind, each)
    for pod in pods:
        twin.add_pod(pod.pod)
    for pod in also:
        twin.assume(pod, name)
    return twin


def fits_in(world: PreemptionWorld, cluster: Cluster, name: str) -> bool:
    algorithm, state = world.algorithm(cluster), CycleState()
    if not run_pre_filter(algorithm.profile, state, world.pod).status.ok:
        return False
    row = cluster.table.row_of(name)
    return not judge(placed_filters(algorithm.profile), state, world.pod, np.array([row], dtype=np.intp)).any()
