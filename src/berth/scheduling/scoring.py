"""Scoring the nodes that fit: raw scores, rescaled by the plugin, times its weight, added up.

Raw scores of plugins that look at one node only are kept from pod to pod (`berth.scheduling.equivalence`), and so is
what rescaling made of them as long as they stay the same.

Source: k8s pkg/scheduler/framework/runtime/framework.go, ``RunScorePlugins``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.cluster.columns import Amounts, Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, ScoreNormalizer, ScorePlugin, Scores
from berth.framework.profile import Profile
from berth.framework.run import FAULTS, fault_text, run_pre_score
from berth.scheduling.equivalence import EquivalenceClasses, Kept, KeptScores, places, take
from berth.scheduling.observer import Steps
from berth.scheduling.verdicts import FEASIBLE, CycleError


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The scores of the nodes that fit.

    Attributes:
        rows: the nodes that fit.
        totals: int64, shape (len(rows),); true until the next pod is scored, and not to be written to.
        by_plugin: plugin -> int64, shape (len(rows),): rescaled and weighted; empty unless it was asked for.
    """

    rows: Rows
    totals: Amounts
    by_plugin: dict[str, Amounts]


class _Scorer(NamedTuple):
    plugin: ScorePlugin
    normalizer: ScoreNormalizer | None
    weight: int
    kept_in: int | None  # its row in `KeptScores.raw`


class Scoring:
    """The score plugins of one profile.

    Args:
        profile: the plugins and their weights.
        classes: which raw scores are kept.
        steps: hears when the plugins ran.
    """

    def __init__(self, profile: Profile, classes: EquivalenceClasses, steps: Steps) -> None:
        self._profile, self._steps = profile, steps
        self._pre_score_names = tuple(plugin.name for plugin in profile.pre_score)
        self._score_names = tuple(plugin.name for plugin in profile.score)
        self._kept_scorers = len(classes.row_scorers)
        self._scorers = tuple(
            _Scorer(
                plugin,
                profile.normalizers.get(plugin.name),
                profile.weights[plugin.name],
                classes.row_scorers.get(position),
            )
            for position, plugin in enumerate(profile.score)
        )
        self._kept_names = frozenset(each.plugin.name for each in self._scorers if each.kept_in is not None)

    def score(
        self, kept: Kept | None, state: CycleState, pod: PodInfo, rows: Rows, *, by_plugin: bool = False
    ) -> Scored:
        """Score *rows* with every plugin that has something to say about *pod*.

        Args:
            kept: what holds for pods like this one; None to work all out.
            state: what was worked out for the pod.
            pod: the pod.
            rows: the rows that fit, ascending.
            by_plugin: tell also what each plugin gave.

        Raises:
            CycleError: a plugin could not answer, or gave a score out of range.
        """
        steps = self._steps
        start_s = steps.now()
        status = run_pre_score(self._profile, state, pod, rows)
        start_s = steps.ran("PreScore", status.code.label, start_s)
        steps.evaluated("PreScore", self._pre_score_names, state.skip_score)
        if not status.ok:
            raise CycleError(status.message)
        try:
            scored = self._scored(kept, state, pod, rows, by_plugin=by_plugin)
        except CycleError:
            steps.ran("Score", "Error", start_s)
            raise
        steps.ran("Score", "Success", start_s)
        steps.evaluated("Score", self._score_names, state.skip_score)
        return scored

    def _scored(self, kept: Kept | None, state: CycleState, pod: PodInfo, rows: Rows, *, by_plugin: bool) -> Scored:
        scorers = [scorer for scorer in self._scorers if scorer.plugin.name not in state.skip_score]
        scores = None if kept is None else self._caught_up(kept, scorers, state, pod)
        if scores is None or by_plugin:
            parts = {scorer.plugin.name: _part(scorer, scores, state, pod, rows) for scorer in scorers}
            return Scored(rows, sum(parts.values(), np.zeros(len(rows), dtype=np.int64)), parts)
        scores.turn_to(rows)
        if scores.totals is None:
            totals = take(scores.fixed, rows).copy()
            for scorer in scorers:
                if scorer.normalizer is not None and scorer.kept_in is not None:
                    totals += _rescaled(scorer, scores, state, pod, rows)
            scores.totals = totals
        totals = scores.totals
        for scorer in scorers:
            if scorer.kept_in is None:
                totals = totals + _part(scorer, None, state, pod, rows)
        return Scored(rows, totals, {})

    def _caught_up(self, kept: Kept, scorers: list[_Scorer], state: CycleState, pod: PodInfo) -> KeptScores:
        """What is kept, once the rows that changed and fit have been scored again."""
        scores = kept.scores
        sat_out = self._kept_names & state.skip_score
        if scores is None or scores.sat_out != sat_out:
            scores = kept.scores = KeptScores(sat_out, self._kept_scorers, len(kept.verdicts))
            kept.stale = kept.feasible()
        if not len(kept.stale):
            return scores
        scores.make_room(len(kept.verdicts))
        rows = kept.stale[kept.verdicts[kept.stale] == FEASIBLE]
        if len(rows) == 1:
            _rescore_one(scorers, kept, scores, state, pod, rows)
        elif len(rows):
            fixed = np.zeros(len(rows), dtype=np.int64)
            for scorer in scorers:
                if scorer.kept_in is not None:
                    fixed += _rescore(scorer, scores, state, pod, rows)
            if scores.totals is not None and scores.rows is kept.feasible():
                scores.totals[places(rows, scores.rows)] += fixed - scores.fixed[rows]
            else:
                scores.totals = None
            scores.fixed[rows] = fixed
        kept.stale = kept.stale[:0]
        return scores


def _rescore_one(
    scorers: list[_Scorer], kept: Kept, scores: KeptScores, state: CycleState, pod: PodInfo, rows: Rows
) -> None:
    """As for several rows, in plain integers: one placement touches one row, so this is what happens for every pod."""
    row = int(rows[0])
    fixed = 0
    for scorer in scorers:
        if scorer.kept_in is None:
            continue
        raw = int(_ask(scorer.plugin, state, pod, rows)[0])
        if scorer.normalizer is None:
            if not MIN_NODE_SCORE <= raw <= MAX_NODE_SCORE:
                raise _out_of_range(scorer.plugin, raw)
            fixed += raw * scorer.weight
        elif scores.raw[scorer.kept_in, row] != raw:
            scores.blank[scorer.kept_in] &= raw == 0
            scores.rescaled.pop(scorer.plugin.name, None)
            scores.totals = None
        scores.raw[scorer.kept_in, row] = raw
    if scores.totals is not None and scores.rows is kept.feasible():
        scores.totals[places(rows, scores.rows)] += fixed - int(scores.fixed[row])
    else:
        scores.totals = None
    scores.fixed[row] = fixed


def _rescore(scorer: _Scorer, scores: KeptScores, state: CycleState, pod: PodInfo, rows: Rows) -> Amounts | int:
    """Ask a plugin about rows that changed; returns what it adds to ``fixed`` there."""
    raw = _ask(scorer.plugin, state, pod, rows)
    kept = scores.raw[scorer.kept_in]
    if scorer.normalizer is None:
        _check(scorer.plugin, raw)
        kept[rows] = raw
        return raw * scorer.weight
    if np.count_nonzero(kept[rows] != raw):
        kept[rows] = raw
        scores.blank[scorer.kept_in] &= np.count_nonzero(raw) == 0
        scores.rescaled.pop(scorer.plugin.name, None)
        scores.totals = None
    return 0


def _rescaled(scorer: _Scorer, scores: KeptScores, state: CycleState, pod: PodInfo, rows: Rows) -> Amounts:
    """int64, shape (len(rows),) or (1,): what a scorer whose raw scores are kept adds to the totals."""
    name = scorer.plugin.name
    if scores.blank[scorer.kept_in]:
        if name not in scores.levels:
            scores.levels[name] = _weighted(scorer, state, pod, np.zeros(1, dtype=np.int64))
        return scores.levels[name]
    if name not in scores.rescaled:
        scores.rescaled[name] = _part(scorer, scores, state, pod, rows)
    return scores.rescaled[name]


def _part(scorer: _Scorer, scores: KeptScores | None, state: CycleState, pod: PodInfo, rows: Rows) -> Amounts:
    """int64, shape (len(rows),): what one plugin adds to the totals."""
    if scores is None or scorer.kept_in is None:
        raw = _ask(scorer.plugin, state, pod, rows)
    else:
        raw = take(scores.raw[scorer.kept_in], rows).copy()
    return _weighted(scorer, state, pod, raw)


def _ask(plugin: ScorePlugin, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
    try:
        return plugin.score(state, pod, rows)
    except FAULTS as fault:
        raise CycleError(f'running Score plugins: plugin "{plugin.name}" failed with: {fault_text(fault)}') from fault


def _weighted(scorer: _Scorer, state: CycleState, pod: PodInfo, raw: Scores) -> Amounts:
    """Rescaled by the plugin where it wants that, checked, and weighted."""
    if scorer.normalizer is not None:
        try:
            raw = scorer.normalizer.normalize(state, pod, raw)
        except FAULTS as fault:
            raise CycleError(
                f'running Normalize on Score plugins: plugin "{scorer.plugin.name}" failed with: {fault_text(fault)}'
            ) from fault
    _check(scorer.plugin, raw)
    return raw * scorer.weight


def _check(plugin: ScorePlugin, scores: Scores) -> None:
    if np.count_nonzero((scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)):
        raise _out_of_range(plugin, int(scores[(scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)][0]))


def _out_of_range(plugin: ScorePlugin, score: int) -> CycleError:
    return CycleError(
        f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {score}, '
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )
