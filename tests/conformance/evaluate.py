"""Deciding a scenario with the core, pod by pod, in the form in which the reference's decisions are recorded.

PostFilter is run where the search fails, as the cycle does.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace
from tests.conformance.records import Outcome, Scenario, StatusRecord
from tests.conformance.scenario import POD, World
from tests.conformance.settings import configuration, features, profiles

from berth.cluster.pods import PodInfo
from berth.config.types import KubeSchedulerConfiguration
from berth.framework.cycle_state import CycleState
from berth.framework.profile import Profile
from berth.framework.run import run_post_filter
from berth.framework.status import Status
from berth.scheduling.algorithm import Algorithm, Found, NoNodes
from berth.scheduling.diagnosis import NO_NODES, FitError, RejectedNodes
from berth.scheduling.scoring import Scored
from berth.scheduling.verdicts import CycleError

_ATTEMPT: Final = 1


def evaluate(scenario: Scenario) -> list[Outcome]:
    """Our outcome for each pod of *scenario*; each is placed where the reference placed it."""
    world = World(scenario.objects, features(scenario.version))
    config = configuration(scenario.version, scenario.config)
    decider = _Decider(world, config, profiles(scenario.version, config, world))
    outcomes = []
    for raw, recorded in zip(scenario.pods, scenario.expect, strict=True):
        info = world.arrive(POD.decode(raw))
        outcomes.append(decider.decide(info))
        world.follow(info, recorded)
    return outcomes


class _Decider:
    """The searches of a scenario, one for each profile."""

    def __init__(self, world: World, config: KubeSchedulerConfiguration, built: Mapping[str, Profile]) -> None:
        self._world = world
        self._percentage = config.percentage_of_nodes_to_score
        self._algorithms = {name: self._search_of(profile) for name, profile in built.items()}

    def decide(self, pod: PodInfo) -> Outcome:
        """What becomes of *pod*."""
        about = Outcome(pod=pod.key, num_nodes=len(self._world.cluster.table))
        name = pod.pod.spec.scheduler_name
        algorithm = self._algorithms.get(name)
        if algorithm is None:
            # Nothing is looked at for a pod that nobody schedules.
            return replace(about, num_nodes=0, error=f'profile not found for scheduler name "{name}"')
        state = CycleState()
        try:
            outcome = algorithm.schedule(state, pod, _ATTEMPT, in_full=True)
        except CycleError as error:
            return replace(about, error=str(error), **self._before_the_error(algorithm.profile, pod))
        if isinstance(outcome, NoNodes):
            return replace(about, message=NO_NODES)
        if isinstance(outcome, FitError):
            return replace(about, **_failure(algorithm, state, pod, outcome))
        return replace(about, **self._rejections(outcome), **self._scores(outcome))

    def _search_of(self, profile: Profile) -> Algorithm:
        nominator = self._world.nominator
        return Algorithm(
            profile,
            self._world.cluster,
            nominator.pods_on,
            nominated_nodes=lambda: tuple(nominator.nodes()),
            percentage_of_nodes_to_score=self._percentage,
        )

    def _before_the_error(self, profile: Profile, pod: PodInfo) -> dict[str, Any]:
        """What an attempt had found out about the nodes when scoring failed; nothing where it failed before."""
        filters_only = self._search_of(dataclasses.replace(profile, pre_score=(), score=()))
        try:
            outcome = filters_only.schedule(CycleState(), pod, _ATTEMPT)
        except CycleError:
            return {}
        return self._rejections(outcome) if isinstance(outcome, Found) else {}

    def _rejections(self, found: Found) -> dict[str, Any]:
        rejected = found.rejected()
        return {
            "feasible": tuple(sorted(self._names(found.rows.tolist()))),
            **_statuses(rejected, rejected.absent),
            "unschedulable_plugins": tuple(sorted(rejected.rejectors())),
        }

    def _scores(self, found: Found) -> dict[str, Any]:
        scored = found.scored
        if scored is None:
            raise AssertionError("scores were asked for also where a single node fits")
        names = self._names(scored.rows.tolist())
        totals = dict(zip(names, scored.totals.tolist(), strict=True))
        highest = max(totals.values())
        return {
            "scores": _by_node(scored, names),
            "totals": totals,
            "best": tuple(sorted(name for name, total in totals.items() if total == highest)),
            "chosen": found.node_name,
        }

    def _names(self, rows: list[int]) -> list[str]:
        return [self._world.cluster.table.name(row) for row in rows]


def _failure(algorithm: Algorithm, state: CycleState, pod: PodInfo, fit_error: FitError) -> dict[str, Any]:
    fields = {
        **_statuses(fit_error.nodes, fit_error.absent),
        "pre_filter_message": fit_error.pre_filter_message,
        "unschedulable_plugins": tuple(sorted(fit_error.unschedulable_plugins)),
    }
    if algorithm.profile.post_filter:
        result = run_post_filter(algorithm.profile, state, pod, algorithm.statuses(state, pod, fit_error))
        fit_error = fit_error.with_post_filter_message(result.status.message)
        fields["post_filter"] = _record(result.status)
        fields["nominated_node"] = result.nominated_node_name or ""
        victims = result.eviction.victims if result.eviction is not None else ()
        fields["victims"] = tuple(sorted(victim.key for victim in victims))
    return {**fields, "message": fit_error.message}


def _statuses(nodes: RejectedNodes | None, absent: Status) -> dict[str, Any]:
    by_node = nodes.by_node() if nodes is not None else {}
    return {
        "nodes": {name: _record(status) for name, status in by_node.items()},
        "absent_nodes": _record(absent),
    }


def _record(status: Status) -> StatusRecord:
    return StatusRecord(code=status.code.label, plugin=status.plugin, reasons=status.reasons)


def _by_node(scored: Scored, names: list[str]) -> dict[str, dict[str, int]]:
    by_plugin = {plugin: scores.tolist() for plugin, scores in scored.by_plugin.items()}
    return {name: {plugin: scores[i] for plugin, scores in by_plugin.items()} for i, name in enumerate(names)}
