"""Which pods would have to go, on every node where evictions might help; all nodes together.

All less important pods are taken off all nodes; where the pod then fits, they are given back one by one, on all nodes
at once: those whose going would break a disruption budget first, then the more important ones.  Whoever leaves no room
when given back has to go.

Source: k8s pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, ``SelectVictimsOnDomain``.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.api.meta import PodUid
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
    ranking: Ranking,
    statuses: NodeStatuses,
    pod: PodInfo,
    rows: Rows,
    budgets: Iterable[PodDisruptionBudget],
    stuck: Collection[PodUid] = (),
) -> DryRun:
    """Find who would have to go for *pod* on each of *rows*.

    Where a filter cannot answer for all nodes at once, they are asked one by one, so that its error concerns only the
    nodes that it is about.

    Args:
        ranking: the pods by importance.
        statuses: puts the question to the filters.
        pod: the pod that fits nowhere.
        rows: the nodes, ascending.
        budgets: all disruption budgets.
        stuck: pods that do not go, whoever tells them to.
    """
    ranks = ranking.below(pod.priority, rows)
    if stuck:
        ranks = ranks.where(_not_stuck(ranking, ranks, stuck))
    guests = _guests(ranking, ranks)
    breaks_budget = violating(budgets, guests)
    try:
        with statuses.trial(guests) as trial:
            found = _ask(trial, guests, breaks_budget)
    except TrialError:
        found = _ask_one_by_one(statuses, guests, breaks_budget)
    answers = list(found.answers.items())
    empty = len(rows) - int(np.count_nonzero(guests.per_place()))
    if empty:
        answers.append((NO_VICTIMS, empty))
    return DryRun(ranks, guests, found.is_victim, breaks_budget, tuple(answers), found.candidates, found.spared)


def _not_stuck(ranking: Ranking, ranks: Ranks, stuck: Collection[PodUid]) -> Mask:
    rows = ranks.rows[ranks.places]
    uids = (ranking.pod(row, rank).uid for row, rank in zip(rows.tolist(), ranks.ranks.tolist(), strict=True))
    return np.fromiter((uid not in stuck for uid in uids), dtype=np.bool_, count=len(rows))


def _guests(ranking: Ranking, ranks: Ranks) -> Guests:
    used = np.zeros(len(ranking.kinds.samples), dtype=np.bool_)
    used[ranks.kinds] = True
    samples = [ranking.kinds.samples[kind] for kind in np.flatnonzero(used).tolist()]
    kinds = (np.cumsum(used) - 1)[ranks.kinds]

    def pod(guest: int) -> PodInfo:
        return ranking.pod(int(ranks.rows[ranks.places[guest]]), int(ranks.ranks[guest]))

    return Guests(ranks.rows, ranks.places, kinds, samples, pod)


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The part of a `DryRun` that filters decide, about places with guests."""

    is_victim: Mask
    answers: Counter[Status]
    candidates: Indices
    spared: Indices


def _ask(trial: Trial, guests: Guests, breaks_budget: Mask) -> _Found:
    """One question to the filters, from all pods gone to as many as possible given back."""
    many = guests.per_place()
    occupied = np.flatnonzero(many)
    trial.move(guests.everyone(), -1)
    verdicts = trial.judge(occupied)
    fits = occupied[verdicts == 0]
    order = guests.everyone()
    if np.count_nonzero(breaks_budget):
        order = np.argsort(2 * guests.places + ~breaks_budget, kind="stable")
    is_victim = _give_back(trial, guests, many, fits, order)
    has_victim = np.zeros(len(guests.rows), dtype=np.bool_)
    has_victim[guests.places[is_victim]] = True
    values, counts = np.unique(verdicts[verdicts != 0], return_counts=True)
    answers = Counter[Status]()
    for verdict, places in zip(values.tolist(), counts.tolist(), strict=True):
        answers[trial.explain(verdict)] += places
    return _Found(is_victim, answers, fits[has_victim[fits]], fits[~has_victim[fits]])


def _ask_one_by_one(statuses: NodeStatuses, guests: Guests, breaks_budget: Mask) -> _Found:
    is_victim = np.zeros(len(guests), dtype=np.bool_)
    answers = Counter[Status]()
    candidates, spared = list[int](), list[int]()
    for place in np.unique(guests.places).tolist():
        there = slice(*np.searchsorted(guests.places, (place, place + 1)).tolist())
        alone = guests.at(place)
        with statuses.live_trial(alone) as trial:
            found = _ask(trial, alone, breaks_budget[there])
        is_victim[there] = found.is_victim
        answers.update(found.answers)
        candidates += [place] * len(found.candidates)
        spared += [place] * len(found.spared)
    return _Found(is_victim, answers, np.array(candidates, dtype=np.intp), np.array(spared, dtype=np.intp))


def _give_back(trial: Trial, guests: Guests, many: Amounts, fits: Indices, order: Indices) -> Mask:
    """Give pods back where the pod fits, each node's in turn as *order* has them, node by node.

    Returns:
        bool, shape (guests,): who has to go.
    """
    is_victim: Mask = np.zeros(len(guests), dtype=np.bool_)
    first = np.cumsum(many) - many
    for turn in range(int(many[fits].max(initial=0))):
        fits = fits[many[fits] > turn]
        given = order[first[fits] + turn]
        trial.move(given, 1)
        refused = trial.judge(fits, again=True) != 0
        if refused.any():
            trial.move(given[refused], -1)
            is_victim[given[refused]] = True
    return is_victim
