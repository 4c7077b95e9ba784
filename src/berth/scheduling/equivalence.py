"""What was worked out for one pod serves the next pod like it: only the rows touched in between are looked at again.

Kept are the verdicts and raw scores of plugins whose judgement of a node depends on that node alone; all others are
asked anew in every cycle.  Pods are alike when each plugin of the first sort says so
(`berth.framework.interface.SignPlugin`); in what only the others look at they may differ, such as in labels of their
own.  The results are the same, bit for bit, as those of an evaluation from scratch.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from berth.cluster.changelog import Mark
from berth.cluster.columns import Amounts, Mask, Rows, grown
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Epochal, FilterPlugin, Scope, ScorePlugin, SignPlugin
from berth.framework.profile import Profile
from berth.framework.run import FAULTS, fault_text
from berth.scheduling.verdicts import FEASIBLE, NO_NODE, SHIFT, CycleError, Placed, Verdicts, judge, placed_filters

_CLASSES: Final = 64  # how many kinds of pods are remembered; at 5000 nodes each takes a quarter of a megabyte


class Kept:
    """Verdicts and scores for one kind of pod.

    Attributes:
        verdicts: int32, shape (capacity,): by filters of scope ROW.
        stale: rows whose scores are of before their last change.
        scores: what `berth.scheduling.scoring` keeps for pods of this kind; None until it first scores one.
        promised: row -> who was promised it, and the verdict by filters of scope ROW if these ran there.
    """

    def __init__(self) -> None:
        self.verdicts: Verdicts = np.zeros(0, dtype=np.int32)
        self.stale: Rows = np.zeros(0, dtype=np.intp)
        self.scores: KeptScores | None = None
        self.promised: dict[int, tuple[Sequence[PodInfo], int]] = {}
        self._feasible: Rows | None = None
        self._last_rejector: int | None = None
        self._mark: Mark | None = None
        self._epochs: Hashable = None

    def feasible(self) -> Rows:
        """The rows that fit as far as filters of scope ROW say, ascending; not to be written to."""
        if self._feasible is None:
            self._feasible = np.flatnonzero(self.verdicts == FEASIBLE)
        return self._feasible

    def last_rejector(self) -> int:
        """The last position among those of the filters that rejected some row; less than 1 if none did."""
        if self._last_rejector is None:
            self._last_rejector = int(self.verdicts.max(initial=FEASIBLE)) >> SHIFT
        return self._last_rejector

    def refresh(
        self, table: NodeTable, filters: tuple[Placed, ...], epochs: Hashable, state: CycleState, pod: PodInfo
    ) -> None:
        """Bring the verdicts up to date.

        Raises:
            CycleError: a plugin could not answer; what is kept is as old as before.
        """
        changed = None if self._mark is None or epochs != self._epochs else table.changed_since(self._mark)
        mark = table.mark()
        if changed is None:
            self._start_over(table, filters, state, pod)
        elif len(changed):
            self._catch_up(table, filters, state, pod, changed)
        self._mark, self._epochs = mark, epochs

    def _catch_up(
        self, table: NodeTable, filters: tuple[Placed, ...], state: CycleState, pod: PodInfo, changed: Rows
    ) -> None:
        if self.promised:
            for row in changed.tolist():
                self.promised.pop(row, None)
        live = table.live[changed]
        all_live = np.count_nonzero(live) == len(live)
        rows = changed if all_live else changed[live]
        verdicts = judge(filters, state, pod, rows)
        self._make_room(len(table.live))
        before = self.verdicts[changed]
        if not all_live:
            self.verdicts[changed[~live]] = NO_NODE
        self.verdicts[rows] = verdicts
        if np.count_nonzero(before != self.verdicts[changed]):
            self._last_rejector = None
            if np.count_nonzero((before == FEASIBLE) != (self.verdicts[changed] == FEASIBLE)):
                self._feasible = None
        self.stale = np.union1d(self.stale, changed) if len(self.stale) else changed

    def _start_over(self, table: NodeTable, filters: tuple[Placed, ...], state: CycleState, pod: PodInfo) -> None:
        self.promised.clear()
        rows = table.live_rows()
        verdicts = judge(filters, state, pod, rows)
        self.verdicts = np.full(len(table.live), NO_NODE, dtype=np.int32)
        self.verdicts[rows] = verdicts
        self.stale = rows
        self.scores = None
        self._feasible = self._last_rejector = None

    def _make_room(self, capacity: int) -> None:
        before = len(self.verdicts)
        if before < capacity:
            self.verdicts = grown(self.verdicts, capacity)
            self.verdicts[before:] = NO_NODE


class KeptScores:
    """Scores for one kind of pod, by score plugins of scope ROW.

    Attributes:
        sat_out: those of them that had nothing to say; whether they do may depend on more than the kind of pod.
        raw: int64, shape (row scorers, capacity): raw scores of the rows that fit.
        blank: bool, shape (row scorers,): whose raw scores have all been 0 so far.
        fixed: int64, shape (capacity,): the weighted sum of those raw scores that are not rescaled.
        rows: the rows that ``rescaled`` and ``totals`` are about, as the very array.
        rescaled: score plugin -> int64, shape (len(rows),): its scores, rescaled and weighted, unless it is blank.
        levels: score plugin that is blank -> int64, shape (1,): what it gives every row, rescaled and weighted.
        totals: int64, shape (len(rows),): the sum of all; None if it has to be made anew.
    """

    def __init__(self, sat_out: frozenset[str], scorers: int, capacity: int) -> None:
        self.sat_out = sat_out
        self.raw: Amounts = np.zeros((scorers, capacity), dtype=np.int64)
        self.blank: Mask = np.ones(scorers, dtype=np.bool_)
        self.fixed: Amounts = np.zeros(capacity, dtype=np.int64)
        self.rows: Rows | None = None
        self.rescaled: dict[str, Amounts] = {}
        self.levels: dict[str, Amounts] = {}
        self.totals: Amounts | None = None

    def turn_to(self, rows: Rows) -> None:
        """Forget what is about other rows than *rows*."""
        if self.rows is not rows:
            self.rows = rows
            self.rescaled.clear()
            self.totals = None

    def make_room(self, capacity: int) -> None:
        """Make room for *capacity* rows."""
        if len(self.fixed) < capacity:
            self.raw = grown(self.raw, capacity)
            self.fixed = grown(self.fixed, capacity)


class EquivalenceClasses:
    """The kinds of pods seen lately by one profile.

    Attributes:
        row_filters: the filters whose verdicts are kept, with their positions.
        cluster_filters: the filters that are asked in every cycle.
        row_scorers: position of each score plugin whose raw scores are kept -> its row in `KeptScores.raw`.
    """

    def __init__(self, profile: Profile, table: NodeTable) -> None:
        placed = placed_filters(profile)
        self.row_filters = tuple(p for p in placed if p[1].scope is Scope.ROW)
        self.cluster_filters = tuple(p for p in placed if p[1].scope is not Scope.ROW)
        row_scorers = [i for i, plugin in enumerate(profile.score) if plugin.scope is Scope.ROW]
        self.row_scorers = {position: i for i, position in enumerate(row_scorers)}
        judges: tuple[FilterPlugin | ScorePlugin, ...] = (*profile.filter, *profile.score)
        of_row = {plugin.name: plugin for plugin in judges if plugin.scope is Scope.ROW}
        self._epochal = tuple(plugin for plugin in of_row.values() if isinstance(plugin, Epochal))
        self._row_names = frozenset(of_row)
        self._signers = _signers_of(profile, {p.name for p in judges if p.scope is not Scope.ROW})
        self._table = table
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()

    def refreshed(self, state: CycleState, pod: PodInfo) -> Kept:
        """What holds for pods like *pod*, with verdicts that are true now.

        Raises:
            CycleError: a plugin could not answer.
        """
        kept = self._find(pod)
        epochs = tuple(_epoch(plugin) for plugin in self._epochal), self._row_names & state.skip_filter
        kept.refresh(self._table, self.row_filters, epochs, state, pod)
        return kept

    def _find(self, pod: PodInfo) -> Kept:
        signature = self._signature(pod)
        if signature is None:
            return Kept()
        kept = self._kept.get(signature)
        if kept is None:
            kept = self._kept[signature] = Kept()
            if len(self._kept) > _CLASSES:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(signature)
        return kept

    def _signature(self, pod: PodInfo) -> Hashable:
        if self._signers is None:
            return None
        try:
            parts = tuple(plugin.sign(pod) for plugin in self._signers)
        except FAULTS:
            return None  # the same plugin meets the fault where it judges the pod, and reports it there
        return None if None in parts else parts


def _epoch(plugin: Epochal) -> Hashable:
    try:
        return plugin.epoch()
    except FAULTS as fault:
        raise CycleError(f'asking plugin "{plugin.name}" for its epoch: {fault_text(fault)}') from fault


def _signers_of(profile: Profile, cluster_wide: set[str]) -> tuple[SignPlugin, ...] | None:
    """Those who tell whether what is kept for one pod holds for another; None if one of them cannot tell."""
    signers = profile.signers()
    return None if signers is None else tuple(plugin for plugin in signers if plugin.name not in cluster_wide)


def take(array: Amounts, rows: Rows) -> Amounts:
    """The entries of *rows*, which ascend; a view where they are all from the first on, so not to be written to."""
    if len(rows) and rows[-1] == len(rows) - 1:
        return array[: len(rows)]
    return array[rows]


def places(rows: Rows, among: Rows) -> Rows:
    """Where *rows* stand in *among*, which ascends and holds them all."""
    if among[-1] == len(among) - 1:
        return rows
    return np.searchsorted(among, rows)
