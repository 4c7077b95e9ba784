"""Why a pod fits nowhere: the statuses behind the verdicts, and the ``FailedScheduling`` sentence made of them.

Source: k8s pkg/scheduler/framework/types.go, ``Diagnosis`` and ``FitError``.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from berth.cluster.columns import Rows
from berth.cluster.nodes import NodeTable
from berth.framework.profile import Profile
from berth.framework.status import Code, Status, unresolvable
from berth.scheduling.verdicts import FEASIBLE, Verdicts, explain, tally

NO_NODES: Final = "no nodes available to schedule pods"
_NO_REASON: Final = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


class RejectedNodes:
    """The answer for every node, as words only when asked.

    Attributes:
        absent: the answer for nodes that were not looked at.
        narrowing: the plugins that left these nodes out by name.
    """

    def __init__(
        self,
        profile: Profile,
        table: NodeTable,
        rows: Rows,
        verdicts: Verdicts,
        absent: Status = _NO_REASON,
        narrowing: frozenset[str] = frozenset(),
    ) -> None:
        rejected = verdicts > FEASIBLE
        self._profile, self._table = profile, table
        self._rows, self._verdicts = rows[rejected], verdicts[rejected]
        self.absent, self.narrowing = absent, narrowing

    @cached_property
    def _counts(self) -> list[tuple[int, int]]:
        """Each verdict and how many nodes it is about."""
        return list(tally(self._verdicts))

    def __len__(self) -> int:
        """How many nodes have an answer of their own."""
        return len(self._rows)

    def get(self, node_name: str) -> Status:
        """The answer for one node."""
        row = self._table.row_of(node_name)
        spots = np.flatnonzero(self._rows == (-1 if row is None else row))
        return explain(self._profile, int(self._verdicts[spots[0]])) if len(spots) else self.absent

    def by_node(self) -> dict[str, Status]:
        """The answer for each node that has one of its own."""
        words = {verdict: explain(self._profile, verdict) for verdict, _ in self._counts}
        return {
            self._table.name(row): words[verdict]
            for row, verdict in zip(self._rows.tolist(), self._verdicts.tolist(), strict=True)
        }

    def rows_of(self, code: Code) -> Rows:
        """The nodes that were answered with *code*, ascending."""
        wanted = [verdict for verdict, _ in self._counts if explain(self._profile, verdict).code is code]
        found = self._rows if len(wanted) == len(self._counts) else self._rows[np.isin(self._verdicts, wanted)]
        if self.absent.code is code:
            found = np.union1d(found, np.setdiff1d(self._table.live_rows(), self._rows))
        return np.sort(found)

    def tally(self) -> list[tuple[Status, int]]:
        """Each answer, and for how many nodes it was given; absent nodes not counted."""
        return [(explain(self._profile, verdict), count) for verdict, count in self._counts]

    def rejectors(self) -> frozenset[str]:
        """The plugins that rejected some node, by name or by judgement."""
        return self.narrowing | {status.plugin for status, _ in self.tally()}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitError:
    """A pod fits nowhere.

    Attributes:
        num_all_nodes: how many nodes there are.
        counts: each answer and for how many nodes it was given.
        absent: the answer for all nodes that ``counts`` leaves out.
        pre_filter_message: why no node was looked at; empty if some were.
        post_filter_message: what came of the attempt to make room.
        unschedulable_plugins: who rejected the pod or some node; their events bring it back.
        pending_plugins: those among them that wait for something outside.
        nodes: the answers by node; None where the pod was rejected as a whole.
    """

    num_all_nodes: int
    counts: tuple[tuple[Status, int], ...] = ()
    absent: Status = _NO_REASON
    pre_filter_message: str = ""
    post_filter_message: str = ""
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    nodes: RejectedNodes | None = field(default=None, compare=False)

    @property
    def message(self) -> str:
        """The sentence that events and conditions carry, as the reference words it."""
        text = f"0/{self.num_all_nodes} nodes are available:"
        if self.pre_filter_message:
            text += f" {self.pre_filter_message}."
        else:
            text += self._histogram()
        return f"{text} {self.post_filter_message}" if self.post_filter_message else text

    def with_post_filter_message(self, message: str) -> "FitError":
        """The same error, with what came of the attempt to make room."""
        return replace(self, post_filter_message=message)

    def _histogram(self) -> str:
        reasons: Counter[str] = Counter()
        for status, count in self.counts:
            for reason in status.reasons:
                reasons[reason] += count
        missing = self.num_all_nodes - sum(count for _, count in self.counts)
        if missing > 0:
            for reason in self.absent.reasons:
                reasons[reason] += missing
        parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f" {', '.join(parts)}." if parts else ""


def fit_error_of_pre_filter(num_all_nodes: int, status: Status, rejectors: frozenset[str]) -> FitError:
    """The error for a pod that was rejected before any node was looked at."""
    return FitError(
        num_all_nodes=num_all_nodes,
        absent=status,
        pre_filter_message=status.message,
        unschedulable_plugins=rejectors,
    )


def fit_error_of_nodes(num_all_nodes: int, nodes: RejectedNodes) -> FitError:
    """The error for a pod that every node was found wanting for."""
    counts = nodes.tally()
    return FitError(
        num_all_nodes=num_all_nodes,
        counts=tuple(counts),
        absent=nodes.absent,
        unschedulable_plugins=nodes.rejectors(),
        pending_plugins=frozenset(status.plugin for status, _ in counts if status.code is Code.PENDING),
        nodes=nodes,
    )


def fit_error_of_one_node(status: Status) -> FitError:
    """The error for a pod whose placement was rejected after it had been chosen (Reserve, Permit).

    Source: k8s pkg/scheduler/schedule_one.go, ``schedulingCycle``.
    """
    plugins = frozenset((status.plugin,))
    return FitError(
        num_all_nodes=1,
        counts=((status, 1),),
        unschedulable_plugins=plugins,
        pending_plugins=plugins if status.code is Code.PENDING else frozenset(),
    )


def left_out(narrowing: frozenset[str]) -> Status:
    """The answer for nodes that PreFilter plugins left out by name."""
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing))}]")
