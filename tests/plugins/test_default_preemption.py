"""DefaultPreemption: who may evict others, who has to go, where the least is lost, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod
from tests.framework.fakes import Filter, profile_of
from tests.scheduling.builders import search_of

from berth.api.meta import Condition, ObjectMeta, PodUid
from berth.api.pod import PodSchedulingGroup
from berth.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from berth.api.selectors import LabelSelector
from berth.cluster.kinds import POD_DISRUPTION_BUDGET
from berth.framework.cycle_state import CycleState
from berth.framework.plugin_args import DefaultPreemptionArgs
from berth.framework.status import SUCCESS, Code, unresolvable, unschedulable
from berth.plugins.default_preemption.plugin import DefaultPreemption
from berth.plugins.default_preemption.sampling import CandidateSampling
from berth.plugins.noderesources.fit import NodeResourcesFit
from berth.scheduling.algorithm import Algorithm
from berth.scheduling.diagnosis import FitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.api.pod import Pod
    from berth.framework.interface import PostFilterResult

LOW, MID, HIGH = 0, 100, 1000
GOING = "2026-02-01T00:00:00Z"
TARGET = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


@dataclass
class Case:
    """Pods that run, the pod that fits nowhere, and what comes of it."""

    pods: Sequence[Pod]
    asker: Pod = field(default_factory=lambda: a_pod("asker", priority=HIGH, cpu="3"))
    nodes: Sequence[str] = ("n1", "n2", "n3")
    budgets: Sequence[PodDisruptionBudget] = ()
    args: DefaultPreemptionArgs | None = None
    closed: Sequence[str] = ()
    minor: str = "1.37"
    gates: Mapping[str, bool] = field(default_factory=dict)

    def run(self) -> PostFilterResult:
        cluster = a_cluster([a_node(name, cpu="4", pods="9") for name in self.nodes], self.pods, minor=self.minor)
        for budget in self.budgets:
            cluster.objects.put(POD_DISRUPTION_BUDGET, budget)
        handle = a_handle(cluster, minor=self.minor, gates=self.gates)
        plugin = DefaultPreemption(self.args, handle)
        closed = Filter("Closed", cluster, lambda name, _: name in self.closed, answer=unresolvable("closed"))
        algorithm: Algorithm = search_of(cluster, closed, NodeResourcesFit(None, handle)).algorithm
        state, info = CycleState(), cluster.info(self.asker)
        failure = algorithm.schedule(state, info, 1)
        assert isinstance(failure, FitError), failure
        return plugin.post_filter(state, info, algorithm.statuses(state, info, failure))

    def evicted(self) -> tuple[str | None, list[str]]:
        """The node, and who has to go there."""
        result = self.run()
        victims = [] if result.eviction is None else [pod.pod.metadata.name for pod in result.eviction.victims]
        return result.nominated_node_name, victims


def running(name: str, on: str, priority: int = LOW, *, cpu: str = "1", start: int | None = 1, **more: Any) -> Pod:
    status = {} if start is None else {"start_time": f"2026-01-{start:02}T00:00:00Z"}
    return a_pod(name, on=on, priority=priority, cpu=cpu, status=status, **more)


def budget(allowed: int, labels: Mapping[str, str] | None = None, *disrupted: str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=dict(labels or {"app": "web"}))),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
        ),
    )


WEB = {"app": "web"}
CHOICES: dict[str, tuple[Case, tuple[str | None, list[str]]]] = {
    "nobody more than needed": (
        Case([running(f"p{i}", "n1", start=i + 1) for i in range(4)], nodes=["n1"]),
        ("n1", ["p1", "p2", "p3"]),
    ),
    "the less important ones": (
        Case([running("a", "n1", MID, cpu="2"), running("b", "n1", LOW, cpu="2")], nodes=["n1"],
             asker=a_pod("asker", priority=HIGH, cpu="2")),
        ("n1", ["b"]),
    ),
    "a larger one of more importance, where a smaller one does not do": (
        Case([running("a", "n1", MID, cpu="3"), running("b", "n1", LOW, cpu="1")], nodes=["n1"]),
        ("n1", ["a"]),
    ),
    "whose most important victim is the least important": (
        Case([running("a", "n1", MID, cpu="4"), running("b", "n2", LOW, cpu="4"), running("c", "n3", MID, cpu="4")]),
        ("n2", ["b"]),
    ),
    "where the sum of priorities is the lowest, also of negative ones": (
        Case(
            [
                running("a", "n1", MID, cpu="2"), running("b", "n1", -5, cpu="2"),
                running("c", "n2", MID, cpu="4"),
            ],
            nodes=["n1", "n2"], asker=a_pod("asker", priority=HIGH, cpu="4"),
        ),
        ("n2", ["c"]),
    ),
    "where the most important victims started last": (
        Case([running("a", "n1", cpu="4", start=2), running("b", "n2", cpu="4", start=5),
              running("c", "n3", cpu="4", start=3)]),
        ("n2", ["b"]),
    ),
    "where they have not started at all": (
        Case([running("a", "n1", cpu="4", start=9), running("b", "n2", cpu="4", start=None)], nodes=["n1", "n2"]),
        ("n2", ["b"]),
    ),
    "where no budget is broken, however important the victim": (
        Case([running("a", "n1", LOW, cpu="4", labels=WEB), running("b", "n2", MID, cpu="4")], nodes=["n1", "n2"],
             budgets=[budget(0)]),
        ("n2", ["b"]),
    ),
    "first those whom no budget protects, on one node": (
        Case([running("a", "n1", LOW, cpu="2", labels=WEB), running("b", "n1", MID, cpu="2")], nodes=["n1"],
             asker=a_pod("asker", priority=HIGH, cpu="2"), budgets=[budget(0)]),
        ("n1", ["b"]),
    ),
    "a budget counts from the most important pod on": (
        Case([running("a", "n1", 2, cpu="2", labels=WEB), running("b", "n1", 1, cpu="2", labels=WEB)], nodes=["n1"],
             asker=a_pod("asker", priority=HIGH, cpu="2"), budgets=[budget(1)]),
        ("n1", ["a"]),
    ),
    "a pod whose going is counted already breaks no budget": (
        Case([running("a", "n1", LOW, cpu="4", labels=WEB), running("b", "n2", MID, cpu="4")], nodes=["n1", "n2"],
             budgets=[budget(0, WEB, "a")]),
        ("n1", ["a"]),
    ),
    "a budget without conditions protects nobody": (
        Case([running("a", "n1", LOW, cpu="4", labels=WEB), running("b", "n2", MID, cpu="4")], nodes=["n1", "n2"],
             budgets=[budget(0, {"app": "nobody"}), PodDisruptionBudget(metadata=ObjectMeta(name="all"))]),
        ("n1", ["a"]),
    ),
    "nobody of the same importance": (Case([running("a", "n1", HIGH, cpu="4")], nodes=["n1"]), ("", [])),
    "nobody on a node that evictions cannot help": (
        Case([running("a", "n1", LOW, cpu="4"), running("b", "n2", MID, cpu="4")], nodes=["n1", "n2"],
             closed=["n1"]),
        ("n2", ["b"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "outcome"), CHOICES.values(), ids=CHOICES)
def test_who_goes(case: Case, outcome: tuple[str | None, list[str]]) -> None:
    assert case.evicted() == outcome


SENTENCES: dict[str, tuple[Case, str, str | None]] = {
    "no less important pods": (
        Case([running("a", "n1", HIGH, cpu="4"), running("b", "n2", HIGH, cpu="4")], nodes=["n1", "n2"]),
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        "",
    ),
    "too large for an emptied node beside a more important pod": (
        Case([running("a", "n1", HIGH, cpu="2"), running("b", "n1", LOW, cpu="1"), running("c", "n2", HIGH, cpu="4")],
             nodes=["n1", "n2"]),
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod.",
        "",
    ),
    "larger than any node": (
        Case([running("a", "n1")], asker=a_pod("asker", priority=HIGH, cpu="9")),
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        "",
    ),
    "a pod that never preempts": (
        Case([running("a", "n1", cpu="4")], nodes=["n1"],
             asker=a_pod("asker", priority=HIGH, cpu="3", spec={"preemption_policy": "Never"})),
        "preemption: not eligible due to preemptionPolicy=Never.",
        None,
    ),
    "somebody goes for it already": (
        Case(
            [running("a", "n1", cpu="3"),
             a_pod("b", on="n1", cpu="1", metadata={"deletion_timestamp": GOING}, status={"conditions": (TARGET,)})],
            nodes=["n1"], asker=a_pod("asker", priority=HIGH, cpu="3", nominated="n1"),
        ),
        "preemption: not eligible due to a terminating pod on the nominated node.",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("case", "text", "nominated"), SENTENCES.values(), ids=SENTENCES)
def test_why_nobody_goes(case: Case, text: str, nominated: str | None) -> None:
    result = case.run()
    assert (result.status.code, result.status.message) == (Code.UNSCHEDULABLE, text)
    assert (result.nominated_node_name, result.eviction) == (nominated, None)


# A pod that goes for a reason of its own, or whose node cannot be had, keeps nobody from evicting others.
GOES_ON: dict[str, Case] = {
    "somebody goes for another reason": Case(
        [a_pod("a", on="n1", cpu="4", metadata={"deletion_timestamp": GOING})],
        nodes=["n1"], asker=a_pod("asker", priority=HIGH, cpu="3", nominated="n1"),
    ),
    "nobody goes": Case(
        [a_pod("a", on="n1", cpu="4", status={"conditions": (TARGET,)})],
        nodes=["n1"], asker=a_pod("asker", priority=HIGH, cpu="3", nominated="n1"),
    ),
    "the nominated node is gone": Case(
        [running("a", "n1", cpu="4")], nodes=["n1"], asker=a_pod("asker", priority=HIGH, cpu="3", nominated="n9")
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GOES_ON.values(), ids=GOES_ON)
def test_a_nominated_pod_may_evict_others_though(case: Case) -> None:
    assert case.evicted() == ("n1", ["a"])


@pytest.mark.parametrize(
    ("minor", "text"),
    [("1.36", ""), ("1.37", "preemption: found a potential placement for pod on node n1, preempting 3 victims")],
)
def test_success_is_told_where_the_version_tells_it(minor: str, text: str) -> None:
    case = Case([running(f"p{i}", "n1", start=i + 1) for i in range(4)], nodes=["n1"], minor=minor)
    assert (case.run().status.code, case.run().status.message) == (Code.SUCCESS, text)


def test_members_of_groups_evict_nobody_where_the_group_does() -> None:
    asker = a_pod("asker", priority=HIGH, cpu="3", spec={"scheduling_group": PodSchedulingGroup(pod_group_name="g")})
    case = Case([running("a", "n1", cpu="4")], asker, ["n1"], minor="1.36", gates={"WorkloadAwarePreemption": True})
    assert case.run().status == unschedulable("preemption: not eligible due to workload aware preemption enabled")


def test_pods_that_do_not_go_are_not_counted_on_again() -> None:
    case = Case([running("a", "n1", cpu="4"), running("b", "n2", MID, cpu="4")], nodes=["n1", "n2"])
    eviction = case.run().eviction
    assert eviction is not None
    cluster = a_cluster([a_node(name, cpu="4") for name in case.nodes], case.pods)
    plugin = DefaultPreemption(None, a_handle(cluster))
    algorithm = search_of(cluster, NodeResourcesFit(None, a_handle(cluster))).algorithm
    for stuck, chosen in (((), "n1"), (("uid-of-default-a",), "n2")):
        state, info = CycleState(), cluster.info(case.asker)
        failure = algorithm.schedule(state, info, 1)
        assert isinstance(failure, FitError)
        result = plugin.post_filter(state, info, algorithm.statuses(state, info, failure))
        assert result.nominated_node_name == chosen
        assert result.eviction is not None
        result.eviction.progress.stuck(PodUid(uid) for uid in stuck or ("uid-of-default-a",))


SAMPLES = [
    # percentage, absolute, of how many; how many are enough
    (10, 100, 1000, 1000),  # the defaults look at all
    (0, 10, 100, 10),
    (40, 1, 5, 2),
    (10, 1, 5000, 500),
    (1, 1, 50, 1),
    (100, 1, 7, 7),
]


@pytest.mark.parametrize(("percentage", "absolute", "many", "enough"), SAMPLES)
def test_how_many_candidates_are_enough(percentage: int, absolute: int, many: int, enough: int) -> None:
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute)
    pods = [running(f"p{i}", f"n{i}", cpu="4", start=1 + i % 27) for i in range(min(many, 60))]
    if many > len(pods):
        sampling = CandidateSampling(args)
        assert (many if sampling.looks_at_all else sampling.enough(many)) == enough
        return
    case = Case(pods, nodes=[f"n{i}" for i in range(many)], args=args)
    node, victims = case.evicted()
    assert [node] == [f"n{victims[0][1:]}"]


# -- held back --------------------------------------------------------------------------------------------------------


def test_a_pod_is_held_back_until_its_last_victim_goes() -> None:
    case = Case([running("a", "n1", cpu="2"), running("b", "n1", cpu="2")], nodes=["n1"])
    shown = {pod.key: pod for pod in case.pods}
    cluster = a_cluster([a_node("n1", cpu="4")], case.pods)
    handle = a_handle(cluster, lister=shown.get)
    plugin, algorithm = DefaultPreemption(None, handle), search_of(cluster, NodeResourcesFit(None, handle)).algorithm
    state, info = CycleState(), cluster.info(case.asker)
    failure = algorithm.schedule(state, info, 1)
    assert isinstance(failure, FitError)
    eviction = plugin.post_filter(state, info, algorithm.statuses(state, info, failure)).eviction
    assert eviction is not None
    assert plugin.pre_enqueue(info) == SUCCESS, "nothing is done yet"
    eviction.progress.started()
    assert plugin.pre_enqueue(info) == unresolvable("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(cluster.info(a_pod("another"))) == SUCCESS
    eviction.progress.reached_last(case.pods[1])
    assert set(plugin.held_back(case.pods[0])) == {info.uid}
    del shown[case.pods[1].key]
    assert plugin.pre_enqueue(info) == SUCCESS
    assert set(plugin.held_back(case.pods[0])) == {info.uid}, "nothing has been heard of the last victim"
    assert not plugin.held_back(case.pods[1])
    eviction.progress.ended()
    assert plugin.pre_enqueue(info) == SUCCESS


def test_without_evictions_beside_the_cycles_nobody_is_held_back_and_no_event_is_waited_for() -> None:
    plugin = DefaultPreemption(None, a_handle(gates={"SchedulerAsyncPreemption": False}))
    assert plugin.events_to_register() == ()
    assert profile_of(plugin).post_filter == (plugin,)
