"""The search for a node for one pod: PreFilter, Filter, PreScore, Score, select.

Pure: the same cluster, pod, seed and attempt give the same answer, here, in a simulation and in a replay.  PostFilter
and everything that changes something are the business of `berth.scheduling.cycle`.

Source: k8s pkg/scheduler/schedule_one.go, ``schedulePod``.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.cluster.cache import Cluster
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import NodeStatuses
from berth.framework.profile import Profile
from berth.framework.run import PreFilterOutcome, run_pre_filter
from berth.framework.status import Code, Status
from berth.framework.what_if import Guests, Trial
from berth.scheduling.cluster_wide import Answers
from berth.scheduling.diagnosis import (
    FitError,
    RejectedNodes,
    fit_error_of_nodes,
    fit_error_of_pre_filter,
    left_out,
)
from berth.scheduling.equivalence import EquivalenceClasses, Kept
from berth.scheduling.observer import CycleObserver, NoCycleObserver, Steps
from berth.scheduling.promises import NominatedPods, NominationLog, Promises
from berth.scheduling.sampling import Sampler, num_feasible_nodes_to_find
from berth.scheduling.scoring import Scored, Scoring
from berth.scheduling.selection import select
from berth.scheduling.verdicts import FEASIBLE, CycleError, Verdicts, judge, placed_filters
from berth.scheduling.what_if import Hopeful, Promised, Questioner


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A node was found.

    Attributes:
        node_name: the node to take.
        rows: all rows that fit.
        scored: their scores; None where only one fitted, which needs none.
        rejected: gives the answers of the nodes that do not fit; to be asked before the cluster changes.
    """

    node_name: str
    rows: Rows
    scored: Scored | None
    rejected: Callable[[], RejectedNodes]


@dataclass(frozen=True, slots=True)
class NoNodes:
    """The cluster has no nodes at all."""


Outcome = Found | FitError | NoNodes

_UNASKED: Final[tuple[tuple[PodInfo, ...], int]] = ((), FEASIBLE)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Which rows fit, and what was found about the others.

    `verdicts` gives the verdicts about the rows named in `rows`, or, where that is None, about the table by row.
    """

    feasible: Rows
    verdicts: Callable[[], Verdicts]
    rows: Rows | None = None
    kept: Kept | None = None


class Algorithm:
    """The search of one profile.

    Args:
        profile: the plugins.
        cluster: the nodes and pods.
        nominated: who was promised room where.
        nominated_nodes: the nodes where anybody was.
        nomination_log: tells what changed of that; None if nobody does.
        percentage_of_nodes_to_score: how many nodes to look at; 0 for all.
        seed: settles ties.
        observer: hears of the steps.
    """

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        nominated: NominatedPods,
        *,
        nominated_nodes: Callable[[], Collection[str]],
        nomination_log: NominationLog | None = None,
        percentage_of_nodes_to_score: int = 0,
        seed: int = 0,
        observer: CycleObserver | None = None,
    ) -> None:
        self.profile = profile
        self._cluster, self._table = cluster, cluster.table
        self._promises = Promises(self._table, nominated, nominated_nodes, nomination_log)
        own = profile.percentage_of_nodes_to_score
        self._percentage = percentage_of_nodes_to_score if own is None else own
        self._seed = seed
        self._classes = EquivalenceClasses(profile, self._table)
        self.steps = Steps(profile.scheduler_name, observer or NoCycleObserver())
        self._scoring = Scoring(profile, self._classes, self.steps)
        self._pre_filter_names = tuple(plugin.name for plugin in profile.pre_filter)
        self._filter_names = tuple(plugin.name for plugin in profile.filter)
        self._filters = placed_filters(profile)
        self._questioner = Questioner(profile, self._table)
        self._sampler = Sampler()

    def schedule(self, state: CycleState, pod: PodInfo, attempt: int, *, in_full: bool = False) -> Outcome:
        """Find the node for *pod*.

        Args:
            state: an empty state; holds what the plugins worked out, afterwards.
            pod: the pod.
            attempt: which attempt at it this is.
            in_full: score also where only one node fits, and tell what each plugin gave.

        Raises:
            CycleError: a plugin could not answer.
        """
        num_all = len(self._table)
        if not num_all:
            return NoNodes()
        self._promises.begin()
        steps = self.steps
        start_s = steps.now()
        narrowed = run_pre_filter(self.profile, state, pod)
        start_s = steps.ran("PreFilter", narrowed.status.code.label, start_s)
        steps.evaluated("PreFilter", self._pre_filter_names, state.skip_filter)
        if narrowed.status.rejected:
            return fit_error_of_pre_filter(num_all, narrowed.status, narrowed.rejectors)
        if not narrowed.status.ok:
            raise CycleError(narrowed.status.message)
        try:
            search = self._search(state, pod, narrowed)
        except CycleError:
            steps.ran("Filter", "Error", start_s)
            raise
        rows = search.feasible
        steps.ran("Filter", "Success", start_s)  # also where no node fits, as in the reference
        steps.evaluated("Filter", self._filter_names, state.skip_filter)

        def rejected() -> RejectedNodes:
            return self._rejected(search, narrowed)

        if not len(rows):
            return fit_error_of_nodes(num_all, rejected())
        if len(rows) == 1 and not in_full:
            return Found(self._table.name(int(rows[0])), rows, None, rejected)
        scored = self._scoring.score(search.kept, state, pod, rows, by_plugin=in_full)
        chosen = select(rows, scored.totals, self._seed, pod.uid, attempt)
        return Found(self._table.name(chosen), rows, scored, rejected)

    def statuses(self, state: CycleState, pod: PodInfo, fit_error: FitError) -> NodeStatuses:
        """The answers by node behind *fit_error*, for whoever wants to change them."""
        nodes = fit_error.nodes
        if nodes is None:
            nothing = np.zeros(0, dtype=np.int32)
            nodes = RejectedNodes(self.profile, self._table, nothing.astype(np.intp), nothing, fit_error.absent)
        return _Statuses(self, state, pod, nodes, fit_error.num_all_nodes)

    def trial(self, state: CycleState, pod: PodInfo, guests: Guests) -> Trial:
        """What if pods came and went on many nodes?

        Raises:
            TrialError: a filter cannot answer for all nodes at once.
        """
        return self._questioner.trial(state, pod, guests, self._promises.about(pod, guests.rows))

    def live_trial(self, state: CycleState, pod: PodInfo, guests: Guests) -> Trial:
        """What if pods came and went on one node?"""
        return self._questioner.live_trial(state, pod, guests, self._promises.about(pod, guests.rows))

    def _search(self, state: CycleState, pod: PodInfo, narrowed: PreFilterOutcome) -> _Search:
        preferred = self._preferred(state, pod)
        if preferred is not None:
            return preferred
        if narrowed.node_names is not None:
            found = (self._table.row_of(name) for name in narrowed.node_names)
            rows = np.array(sorted(row for row in found if row is not None), dtype=np.intp)
            verdicts = judge(self._filters, state, pod, rows)
            self._apply_nominations(state, pod, rows, verdicts)
            return _Search(rows[verdicts == FEASIBLE], lambda: verdicts, rows)
        return self._search_all(state, pod)

    def _search_all(self, state: CycleState, pod: PodInfo) -> _Search:
        kept = self._classes.refreshed(state, pod)
        answers = Answers(kept, self._table)
        for placed in self._classes.cluster_filters:
            if placed[1].name not in state.skip_filter:
                answers.ask(placed, state, pod)
        wanted = self._wanted(len(self._table))
        if wanted is None and not self._promises:
            return _Search(answers.feasible, answers.verdicts, kept=kept)
        whole = answers.verdicts()
        if self._promises:
            rows = self._table.live_rows()
            verdicts = whole[rows]
            self._apply_nominations(state, pod, rows, verdicts, kept)
            whole = whole.copy()
            whole[rows] = verdicts
        if wanted is not None:
            order = np.array(self._table.zones.rows(), dtype=np.intp)
            whole = self._sampler.cut(order, whole, wanted)
        return _Search(np.flatnonzero(whole == FEASIBLE), lambda: whole, kept=kept)

    def _wanted(self, num_nodes: int) -> int | None:
        if not self._percentage:
            return None
        wanted = num_feasible_nodes_to_find(num_nodes, self._percentage)
        return wanted if wanted < num_nodes else None

    def _preferred(self, state: CycleState, pod: PodInfo) -> _Search | None:
        """The one node that the pod was promised, if it fits there; other nodes are then not looked at."""
        name = pod.pod.status.nominated_node_name
        row = self._table.row_of(name) if name else None
        if row is None:
            return None
        rows = np.array([row], dtype=np.intp)
        try:
            verdicts = judge(self._filters, state, pod, rows)
            self._apply_nominations(state, pod, rows, verdicts)
        except CycleError:
            return None  # the search over all nodes meets the same fault and reports it
        return _Search(rows, lambda: verdicts, rows) if verdicts[0] == FEASIBLE else None

    def _apply_nominations(
        self, state: CycleState, pod: PodInfo, rows: Rows, verdicts: Verdicts, kept: Kept | None = None
    ) -> None:
        """Reject rows that fit only as long as the pods that were promised room there are left out.

        Source: k8s pkg/scheduler/framework/runtime/framework.go, ``RunFilterPluginsWithNominatedPods``.
        """
        promised = self._promises.about(pod, rows)
        if not promised.by_place:
            return
        spots = np.array(list(promised.by_place), dtype=np.intp)
        if kept is None or any(plugin.name not in state.skip_filter for _, plugin in self._classes.cluster_filters):
            with_others = self._with(list(promised.by_place.values()), promised, state, pod, rows[spots])
        else:
            with_others = self._kept_with(kept, promised, state, pod, rows[spots])
        verdicts[spots] = np.where(with_others == FEASIBLE, verdicts[spots], with_others)

    def _with(
        self, others: Sequence[Hopeful], promised: Promised, state: CycleState, pod: PodInfo, rows: Rows
    ) -> Verdicts:
        """The verdicts about *rows* if *others*, some of those *promised* for each row, ran there."""
        asked = Promised(dict(enumerate(others)), promised.samples)
        return self._questioner.with_promised(state, pod, rows, asked)

    def _kept_with(self, kept: Kept, promised: Promised, state: CycleState, pod: PodInfo, rows: Rows) -> Verdicts:
        """The same, where only filters of scope ROW have a say: what was found for a pod like this one holds."""
        others = list(promised.by_place.values())
        found = [kept.promised.get(row, _UNASKED) for row in rows.tolist()]
        verdicts = np.array([verdict for _, verdict in found], dtype=np.int32)
        missing = [i for i, (who, _) in enumerate(found) if who is not others[i].pods and who != others[i].pods]
        if missing:
            spots = np.array(missing, dtype=np.intp)
            asked = [others[i] for i in missing]
            verdicts[spots] = self._with(asked, promised, state, pod, rows[spots])
            for row, who, verdict in zip(rows[spots].tolist(), asked, verdicts[spots].tolist(), strict=True):
                kept.promised[row] = (who.pods, verdict)
        return verdicts

    def _rejected(self, search: _Search, narrowed: PreFilterOutcome) -> RejectedNodes:
        rows = self._table.live_rows() if search.rows is None else search.rows
        verdicts = search.verdicts()[rows] if search.rows is None else search.verdicts()
        if narrowed.node_names is None:
            return RejectedNodes(self.profile, self._table, rows, verdicts)
        narrowing = narrowed.rejectors
        return RejectedNodes(self.profile, self._table, rows, verdicts, left_out(narrowing), narrowing)


class _Statuses:
    """Why nodes were rejected for one pod in one attempt, and the means to ask what might change that."""

    def __init__(
        self, algorithm: Algorithm, state: CycleState, pod: PodInfo, nodes: RejectedNodes, num_all_nodes: int
    ) -> None:
        self._algorithm, self._state, self._pod, self._nodes = algorithm, state, pod, nodes
        self.num_all_nodes = num_all_nodes

    def get(self, node_name: str) -> Status:
        """The answer for one node."""
        return self._nodes.get(node_name)

    def unschedulable_rows(self) -> Rows:
        """The nodes where evictions might help, ascending."""
        return self._nodes.rows_of(Code.UNSCHEDULABLE)

    def trial(self, guests: Guests) -> Trial:
        """What if pods came and went on many nodes?

        Raises:
            TrialError: a filter cannot answer for all nodes at once.
        """
        return self._algorithm.trial(self._state, self._pod, guests)

    def live_trial(self, guests: Guests) -> Trial:
        """What if pods came and went on one node?"""
        return self._algorithm.live_trial(self._state, self._pod, guests)
