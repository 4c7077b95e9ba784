"""Which pods would have to go, on every node where evictions might help; all nodes together.

All less important pods are taken off all nodes; where the pod then fits, they are given back one by one, on all nodes
at once: those whose going would break a disruption budget first, then the more important ones.  Whoever leaves no room
when given back has to go.

Source: k8s pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, ``SelectVictimsOnDomain``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.api.policy import PodDisruptionBudget
from berth.cluster.columns import Amounts, Mask, Rows
from berth.cluster.pods import PodInfo
from berth.cluster.ranking import Ranking, Ranks
from berth.framework.interface import NodeStatuses
from berth.framework.status import Status, unresolvable
from berth.framework.what_if import Guests, Indices, Trial, TrialError
from berth.plugins.default_preemption.budgets import violating

NO_VICTIMS: Final = unresolvable("No preemption victims found for incoming pod")


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """What was found; a place is an index into ``ranks.rows``.

    Attributes:
        ranks: the less important pods, by place and importance.
        guests: the same pods.
        is_victim: bool, shape (pods,): which of them have to go.
        breaks_budget: bool, shape (pods,): whose going breaks a budget.
        answers: why the pod does not fit, whoever goes; for each of these statuses, at how many places.
        candidates: shape (candidates,): the places where it does, ascending.
        spared: shape (spared,): the places where it does although nobody has to go, which cannot be.
    """

    ranks: Ranks
    guests: Guests
    is_victim: Mask
    breaks_budget: Mask
    answers: tuple[tuple[Status, int], ...]
    candidates: Indices
    spared: Indices

    def violations(self) -> Amounts:
        """int64, shape (places,): how many victims break a budget."""
        return self.per_place(self.is_victim & self.breaks_budget)

    def per_place(self, chosen: Mask) -> Amounts:
        """int64, shape (places,): how many of the pods are chosen."""
        return np.bincount(self.guests.places[chosen], minlength=len(self.ranks.rows))

    def victims(self, place: int) -> tuple[PodInfo, ...]:
        """Who has to go there, most important first."""
        there = np.flatnonzero(self.is_victim & (self.guests.places == place))
        return tuple(self.guests.pod(guest) for guest in there.tolist())


def dry_run(
    ranking: Ranking, statuses: NodeStatuses, pod: PodInfo, rows: Rows, budgets: Iterable[PodDisruptionBudget]
) -> DryRun:
    """Find who would have to go for *pod* on each of *rows*.

    Where a filter cannot answer for all nodes at once, they are asked one by one, so that its error concerns only the
    nodes that it is about.
    """
    ranks = ranking.below(pod.priority, rows)
    guests = _guests(ranking, ranks)
    breaks_budget = violating(budgets, guests)
    try:
        found = _Reprieve(statuses.trial(guests), guests, breaks_budget)
    except TrialError:
        found = _Reprieve(statuses.trial(guests, one_by_one=True), guests, breaks_budget)
    return DryRun(ranks, guests, found.is_victim, breaks_budget, found.answers(), found.candidates, found.spared)


def _guests(ranking: Ranking, ranks: Ranks) -> Guests:
    used = np.zeros(len(ranking.kinds.samples), dtype=np.bool_)
    used[ranks.kinds] = True
    samples = [ranking.kinds.samples[kind] for kind in np.flatnonzero(used).tolist()]
    kinds = (np.cumsum(used) - 1)[ranks.kinds]

    def pod(guest: int) -> PodInfo:
        return ranking.pod(int(ranks.rows[ranks.places[guest]]), int(ranks.ranks[guest]))

    return Guests(ranks.rows, ranks.places, kinds, samples, pod)


class _Reprieve:
    """One question to the filters, from all pods gone to as many as possible given back."""

    def __init__(self, trial: Trial, guests: Guests, breaks_budget: Mask) -> None:
        self._trial, self._guests = trial, guests
        self.is_victim: Mask = np.zeros(len(guests), dtype=np.bool_)
        self._many = np.bincount(guests.places, minlength=len(guests.rows))
        self._verdicts = np.zeros(len(guests.rows), dtype=np.int32)
        occupied = np.flatnonzero(self._many)
        trial.move(guests.everyone(), -1)
        if len(occupied):
            self._verdicts[occupied] = trial.judge(occupied)
        fits = occupied[self._verdicts[occupied] == 0]
        self._give_back(fits, np.argsort(2 * guests.places + ~breaks_budget, kind="stable"))
        has_victim = np.bincount(guests.places[self.is_victim], minlength=len(guests.rows)) > 0
        self.candidates: Indices = fits[has_victim[fits]]
        self.spared: Indices = fits[~has_victim[fits]]

    def answers(self) -> tuple[tuple[Status, int], ...]:
        """Why other places are no candidates, and how many there are of each sort."""
        values, counts = np.unique(self._verdicts[self._verdicts != 0], return_counts=True)
        answers = [
            (self._trial.explain(verdict), many)
            for verdict, many in zip(values.tolist(), counts.tolist(), strict=True)
        ]
        empty = len(self._many) - int(np.count_nonzero(self._many))
        if empty:
            answers.append((NO_VICTIMS, empty))
        return tuple(answers)

    def _give_back(self, fits: Indices, order: Indices) -> None:
        """Give pods back where the pod fits, each node's in turn as *order* has them, node by node."""
        first = np.cumsum(self._many) - self._many
        for turn in range(int(self._many[fits].max(initial=0))):
            fits = fits[self._many[fits] > turn]
            given = order[first[fits] + turn]
            self._trial.move(given, 1)
            refused = self._trial.judge(fits, again=True) != 0
            if refused.any():
                self._trial.move(given[refused], -1)
                self.is_victim[given[refused]] = True
