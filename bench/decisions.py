"""What a decision costs, and whether the cost depends on how many pods run already; in memory, without a server.

    python -m bench.decisions --nodes 1000 --bound 1000 10000 100000

For each kind of pod the same nodes are filled with more and more pods, which are spread evenly and whose labels the
rules of the pod look at; then some pods are decided and placed.  The figures are CPU time of one decision (the lowest
decile), its ratio to that of a plain pod beside as many bound pods, and to that of the same kind beside the fewest.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.builders import a_cluster, a_node, a_pod

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.api.pod import TopologySpreadConstraint
from berth.api.selectors import LabelSelector
from berth.config.gates import features_of
from berth.config.load import default_config
from berth.config.versions import row_of
from berth.framework.handle import Handle
from berth.plugins.registry import IN_TREE
from berth.runtime.assembly import build_profiles
from berth.scheduling.algorithm import Algorithm
from berth.scheduling.cycle import Failure, run_cycle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster

MINOR = "1.37"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = 10
APPS = 50
CARRIERS = 10  # one bound pod in so many carries terms


@dataclass(frozen=True)
class Kind:
    """Pods that are decided, and what some of the pods on the first half of the nodes carry."""

    app: int = 0
    spread: tuple[TopologySpreadConstraint, ...] = ()
    affinity: Affinity | None = None
    of_others: Affinity | None = None


def selecting(app: int) -> LabelSelector:
    return LabelSelector(match_labels={"app": f"app-{app}"})


def term(app: int, key: str) -> PodAffinityTerm:
    return PodAffinityTerm(label_selector=selecting(app), topology_key=key)


def required(*terms: PodAffinityTerm) -> PodAffinity:
    return PodAffinity(required_during_scheduling_ignored_during_execution=terms)


def preferred(*terms: PodAffinityTerm) -> PodAffinity:
    weighted = tuple(WeightedPodAffinityTerm(weight=10, pod_affinity_term=each) for each in terms)
    return PodAffinity(preferred_during_scheduling_ignored_during_execution=weighted)


def constraint(app: int, key: str, max_skew: int) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=max_skew, topology_key=key, when_unsatisfiable="DoNotSchedule", label_selector=selecting(app)
    )


NEAR_AND_APART = Affinity(pod_affinity=preferred(term(1, ZONE)), pod_anti_affinity=preferred(term(0, HOSTNAME)))
KINDS = {
    "plain": Kind(),
    "hard spread over zones": Kind(spread=(constraint(0, ZONE, 5),)),
    "hard spread over zones and nodes": Kind(spread=(constraint(0, ZONE, 5), constraint(0, HOSTNAME, 2))),
    "required affinity": Kind(affinity=Affinity(pod_affinity=required(term(1, ZONE)))),
    "required anti-affinity": Kind(
        app=APPS,
        affinity=Affinity(pod_anti_affinity=required(term(APPS, HOSTNAME))),
        of_others=Affinity(pod_anti_affinity=required(term(APPS, HOSTNAME))),
    ),
    "preferred both": Kind(affinity=NEAR_AND_APART, of_others=NEAR_AND_APART),
}


def filled(kind: Kind, nodes: int, bound: int) -> Cluster:
    """A cluster in which *bound* pods run, as many on one node as on another."""
    cluster = a_cluster(
        a_node(f"n{i}", cpu="1000", memory="4Ti", pods="1000", labels={HOSTNAME: f"n{i}", ZONE: f"z{i % ZONES}"})
        for i in range(nodes)
    )
    for i in range(bound):
        # Shifted once round, so that every app is on every node sooner or later.
        app = (i + i // nodes) % APPS
        carries = i % CARRIERS == 0 and i % nodes < nodes // 2
        pod = a_pod(
            f"b{i}",
            on=f"n{i % nodes}",
            cpu="100m",
            memory="128Mi",
            labels={"app": f"app-{app}"},
            spec={"affinity": kind.of_others if carries else None},
        )
        cluster.add_pod(pod)
    return cluster


def waiting(kind: Kind, number: int) -> Pod:
    return a_pod(
        f"w{number}",
        cpu="100m",
        memory="128Mi",
        labels={"app": f"app-{kind.app}"},
        spec={"topology_spread_constraints": kind.spread, "affinity": kind.affinity},
    )


def algorithm_for(cluster: Cluster) -> Algorithm:
    row = row_of(MINOR)
    features = features_of(row)
    handle = Handle(cluster=cluster, gates=features.gates, behaviours=features.behaviours)
    [profile] = build_profiles(default_config(row, features.gates), row, handle, IN_TREE).values()
    return Algorithm(profile, cluster, lambda _: (), nominated_nodes=lambda: ())


def measure(kind: Kind, nodes: int, bound: int, decisions: int) -> float:
    """Microseconds of CPU of the decision that nine in ten take longer than; others suffer from what else runs.

    Raises:
        RuntimeError: a pod could not be placed.
    """
    cluster = filled(kind, nodes, bound)
    algorithm = algorithm_for(cluster)
    spent = []
    for number in range(decisions):
        info = cluster.info(waiting(kind, number))
        start = time.process_time_ns()
        outcome = run_cycle(algorithm, cluster, info, 1)
        spent.append(time.process_time_ns() - start)
        match outcome:
            case Failure():
                raise RuntimeError(f"pod {info.key} was not placed: {outcome.status.message}")
    return statistics.quantiles(spent, n=10)[0] / 1000


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="bench.decisions", description="What a decision costs, in memory.")
    options.add_argument("--nodes", type=int, default=1000, help="%(default)s if absent")
    options.add_argument("--bound", type=int, nargs="+", default=[1000, 10000, 100000], help="%(default)s if absent")
    options.add_argument("--decisions", type=int, default=200, help="for each figure; %(default)s if absent")
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="all if absent")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    plain = {bound: measure(KINDS["plain"], options.nodes, bound, options.decisions) for bound in options.bound}
    print(f"{options.nodes} nodes, {options.decisions} decisions a figure: us of CPU, x plain, x fewest bound pods\n")
    print(f"{'':34}" + "".join(f"{bound:>26,}" for bound in options.bound))
    for name in options.kinds:
        fewest = 0.0
        cells = []
        for bound in options.bound:
            spent = plain[bound] if name == "plain" else measure(KINDS[name], options.nodes, bound, options.decisions)
            fewest = fewest or spent
            cells.append(f"{spent:>11.0f} {spent / plain[bound]:>6.2f} {spent / fewest:>7.2f}")
        print(f"{name:34}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
