"""What a plugin answers, as plain values: the framework's part of a cycle, for one plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.builders import rows_of

from berth.framework.cycle_state import CycleState
from berth.framework.events import ClusterEvent, Hint
from berth.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScoreNormalizer,
    ScorePlugin,
)
from berth.framework.status import SKIP, SUCCESS, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster


def pre_filtered(plugin: object, cluster: Cluster, pod: Pod) -> tuple[Status, frozenset[str] | None]:
    """The answer of PreFilter, and the nodes that it narrows to."""
    assert isinstance(plugin, PreFilterPlugin)
    return plugin.pre_filter(CycleState(), cluster.info(pod))


def judged(plugin: object, cluster: Cluster, pod: Pod, names: Iterable[str] | None = None) -> list[Status]:
    """The answer for each node, in the order of *names*; success for all where the plugin sits out."""
    assert isinstance(plugin, FilterPlugin)
    state, info, rows = CycleState(), cluster.info(pod), rows_of(cluster, names)
    if isinstance(plugin, PreFilterPlugin):
        before = plugin.pre_filter(state, info).status
        if before == SKIP:
            return [SUCCESS] * len(rows)
        if not before.ok:
            return [before] * len(rows)
    codes = plugin.filter(state, info, rows)
    assert codes.dtype == np.int16
    assert codes.shape == rows.shape
    return [plugin.rejection(code) if code else SUCCESS for code in codes.tolist()]


def raw_scores(plugin: object, cluster: Cluster, pod: Pod, names: Iterable[str] | None = None) -> list[int] | None:
    """The raw score of each node, in the order of *names*; None where the plugin sits out."""
    scores = _scores(plugin, cluster, pod, names)
    return None if scores is None else scores[1].tolist()


def scored(plugin: object, cluster: Cluster, pod: Pod, names: Iterable[str] | None = None) -> list[int] | None:
    """The normalized score of each node, in the order of *names*; None where the plugin sits out."""
    scores = _scores(plugin, cluster, pod, names)
    if scores is None:
        return None
    state, raw = scores
    if isinstance(plugin, ScoreNormalizer):
        raw = plugin.normalize(state, cluster.info(pod), raw)
    return list(raw.tolist())


def _scores(plugin: object, cluster: Cluster, pod: Pod, names: Iterable[str] | None) -> tuple[CycleState, Any] | None:
    assert isinstance(plugin, ScorePlugin)
    state, info, rows = CycleState(), cluster.info(pod), rows_of(cluster, names)
    if isinstance(plugin, PreScorePlugin) and plugin.pre_score(state, info, rows) == SKIP:
        return None
    raw = plugin.score(state, info, rows)
    assert raw.dtype == np.int64
    assert raw.shape == rows.shape
    return state, raw


def hinted(plugin: object, event: ClusterEvent, cluster: Cluster, pod: Pod, old: Any, new: Any) -> Hint | None:
    """The answer of the hint for *event*; None if the plugin does not wait for it, queue if it has no hint for it."""
    assert isinstance(plugin, EnqueueExtensions)
    matching = [each for each in plugin.events_to_register() if each.event.matches(event)]
    if not matching:
        return None
    [registration] = matching
    return Hint.QUEUE if registration.hint is None else registration.hint(cluster.info(pod), old, new)
