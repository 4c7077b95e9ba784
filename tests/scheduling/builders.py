"""Searches and engines over small clusters, with plugins that do as they are told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from tests.builders import a_cluster, a_node, a_pod
from tests.framework.fakes import profile_of

from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.scheduling.algorithm import Algorithm, Found, Outcome
from berth.scheduling.diagnosis import FitError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.framework.interface import Plugin


def cluster_of(*names: str) -> Cluster:
    """A cluster of nodes of these names, in this order."""
    return a_cluster([a_node(name) for name in names])


def numbered(count: int) -> list[str]:
    """Names in the order in which they sort."""
    return [f"n{number:03}" for number in range(count)]


def with_metadata(pod: Pod, **fields: Any) -> Pod:
    """The same pod with other metadata."""
    return replace(pod, metadata=replace(pod.metadata, **fields))


@dataclass
class Search:
    """An algorithm, its cluster, and who was promised which node."""

    cluster: Cluster
    algorithm: Algorithm
    nominated: dict[str, list[PodInfo]] = field(default_factory=dict)

    def info(self, pod: Pod | None = None) -> PodInfo:
        return self.cluster.info(pod or a_pod())

    def schedule(self, pod: Pod | None = None, *, attempt: int = 1, in_full: bool = False) -> Outcome:
        return self.algorithm.schedule(CycleState(), self.info(pod), attempt, in_full=in_full)

    def found(self, pod: Pod | None = None, *, attempt: int = 1) -> Found:
        """The outcome, which must be a node; scored also where only one fits."""
        outcome = self.schedule(pod, attempt=attempt, in_full=True)
        assert isinstance(outcome, Found), outcome
        return outcome

    def feasible(self, pod: Pod | None = None) -> list[str]:
        """The names of the nodes that fit, sorted; none where none fits."""
        outcome = self.schedule(pod)
        rows = outcome.rows.tolist() if isinstance(outcome, Found) else []
        return sorted(self.cluster.table.name(row) for row in rows)

    def totals(self, pod: Pod | None = None) -> dict[str, int]:
        """Node name -> total score."""
        scored = self.found(pod).scored
        assert scored is not None
        names = [self.cluster.table.name(row) for row in scored.rows.tolist()]
        return dict(zip(names, scored.totals.tolist(), strict=True))

    def failure(self, pod: Pod | None = None) -> FitError:
        """The outcome, which must be a failure to fit."""
        outcome = self.schedule(pod)
        assert isinstance(outcome, FitError), outcome
        return outcome

    def nominate(self, pod: Pod, node_name: str) -> PodInfo:
        """Promise a node to a pod."""
        info = self.cluster.info(pod)
        self.nominated.setdefault(node_name, []).append(info)
        return info

    def assume(self, pod: Pod, node_name: str) -> PodInfo:
        """Place a pod."""
        info = self.cluster.info(pod).on(node_name)
        self.cluster.assume(info, node_name)
        return info


def search_of(
    cluster: Cluster,
    *plugins: Plugin,
    weights: Mapping[str, int] | None = None,
    percentage: int = 0,
    of_profile: int | None = None,
    seed: int = 0,
) -> Search:
    """A search with these plugins, each wherever it can take part.

    Args:
        cluster: where to search.
        plugins: the plugins.
        weights: of score plugins; 1 where it is not given.
        percentage: how many nodes to look at, for all profiles.
        of_profile: the same, as the profile says.
        seed: settles ties.
    """
    profile = profile_of(*plugins, weights=weights, percentage_of_nodes_to_score=of_profile)
    nominated: dict[str, list[PodInfo]] = {}
    algorithm = Algorithm(
        profile,
        cluster,
        lambda name: nominated.get(name, []),
        nominated_nodes=lambda: list(nominated),
        percentage_of_nodes_to_score=percentage,
        seed=seed,
    )
    return Search(cluster, algorithm, nominated)
