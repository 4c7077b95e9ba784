"""Scoring the nodes that fit: raw scores, rescaled by the plugin, times its weight, added up.

Source: k8s pkg/scheduler/framework/runtime/framework.go, ``RunScorePlugins``.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateNotFoundError
from berth.framework.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, ScorePlugin, Scores
from berth.framework.profile import Profile
from berth.framework.run import fault_text, run_pre_score
from berth.framework.status import PluginError
from berth.scheduling.equivalence import EquivalenceClasses, Kept, take
from berth.scheduling.verdicts import CycleError


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """The scores of the nodes that fit.

    Attributes:
        rows: the nodes that fit.
        totals: int64, shape (len(rows),).
        by_plugin: plugin -> int64, shape (len(rows),): rescaled and weighted.
    """

    rows: Rows
    totals: NDArray[np.int64]
    by_plugin: dict[str, NDArray[np.int64]]


def score(
    profile: Profile, classes: EquivalenceClasses, kept: Kept | None, state: CycleState, pod: PodInfo, rows: Rows
) -> Scored:
    """Score *rows* with every score plugin that has something to say about *pod*.

    Args:
        profile: the plugins and their weights.
        classes: which raw scores are kept.
        kept: what holds for pods like this one; None to work all out.
        state: what was worked out for the pod.
        pod: the pod.
        rows: the rows that fit, ascending.

    Raises:
        CycleError: a plugin could not answer, or gave a score out of range.
    """
    status = run_pre_score(profile, state, pod, rows)
    if not status.ok:
        raise CycleError(status.message)
    stale = rows if kept is None else rows[~kept.scored[rows]]
    totals = np.zeros(len(rows), dtype=np.int64)
    by_plugin: dict[str, NDArray[np.int64]] = {}
    for position, plugin in enumerate(profile.score):
        if plugin.name in state.skip_score:
            continue
        index = classes.row_scorers.get(position)
        if kept is None or index is None:
            raw = _ask(plugin, state, pod, rows)
        else:
            if len(stale):
                kept.raw[index, stale] = _ask(plugin, state, pod, stale)
            raw = take(kept.raw[index], rows)
        weighted = _rescaled(profile, plugin, state, pod, raw) * profile.weights[plugin.name]
        by_plugin[plugin.name] = weighted
        totals += weighted
    if kept is not None:
        kept.scored[stale] = True
    return Scored(rows, totals, by_plugin)


def _ask(plugin: ScorePlugin, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
    try:
        return plugin.score(state, pod, rows)
    except (PluginError, StateNotFoundError) as fault:
        raise CycleError(f'running Score plugins: plugin "{plugin.name}" failed with: {fault_text(fault)}') from fault


def _rescaled(profile: Profile, plugin: ScorePlugin, state: CycleState, pod: PodInfo, raw: Scores) -> Scores:
    normalizer = profile.normalizers.get(plugin.name)
    if normalizer is not None:
        try:
            raw = normalizer.normalize(state, pod, raw)
        except (PluginError, StateNotFoundError) as fault:
            raise CycleError(
                f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: {fault_text(fault)}'
            ) from fault
    if len(raw) and not (raw.min() >= MIN_NODE_SCORE and raw.max() <= MAX_NODE_SCORE):
        wrong = int(raw[(raw < MIN_NODE_SCORE) | (raw > MAX_NODE_SCORE)][0])
        raise CycleError(
            f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {wrong}, '
            f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
        )
    return raw
