"""Plugins that look at all sorts of things, so that whatever is kept wrongly is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from berth.framework.cycle_state import CycleState, StateKey
from berth.framework.interface import PreFilterResult, Scope
from berth.framework.status import SKIP, SUCCESS, Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Hashable

    from berth.cluster.cache import Cluster
    from berth.cluster.columns import Rows
    from berth.cluster.pods import PodInfo
    from berth.framework.interface import Rejections, Scores

LONELY: Final = "lonely"


class Lonely:
    """A lonely pod goes only where no other lonely pod is: looks at the labels of the pods on a node.

    Sits out for pods that are not lonely, and as long as no pod anywhere is.
    """

    name = "Lonely"
    scope = Scope.ROW

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table

    def sign(self, pod: PodInfo) -> Hashable:
        return LONELY in pod.pod.metadata.labels

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        del state
        anybody = any(self._lonely(row) for row in self._table.live_rows().tolist())
        return PreFilterResult(SUCCESS if anybody and LONELY in pod.pod.metadata.labels else SKIP)

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        del state, pod
        return np.fromiter((self._lonely(row) for row in rows.tolist()), dtype=np.int16, count=len(rows))

    def rejection(self, code: int) -> Status:
        return unschedulable(f"another lonely pod ({code})")

    def _lonely(self, row: int) -> bool:
        return any(LONELY in other.pod.metadata.labels for other in self._table.pods(row).values())


class Moody:
    """No pod goes to a node with an odd number of pods, unless there is an odd number of pods in all.

    Sits out then, which no change of a node goes with.
    """

    name = "Moody"
    scope = Scope.ROW

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table

    def sign(self, pod: PodInfo) -> Hashable:
        del pod
        return ""

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        del state, pod
        return PreFilterResult(SKIP if self._table.pod_count.sum() % 2 else SUCCESS)

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        del state, pod
        return (self._table.pod_count[rows] % 2).astype(np.int16)

    def rejection(self, code: int) -> Status:
        return unschedulable(f"an odd number of pods ({code})")


_MOST: Final = StateKey[int]("Busiest")


class Busiest:
    """No pod goes to a node that holds as many pods as any other: looks beyond a node.

    Keeps count in PreFilter, and follows pods that are added for the sake of a question.
    """

    name = "Busiest"
    scope = Scope.CLUSTER

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table

    def sign(self, pod: PodInfo) -> Hashable:
        del pod
        return ""

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        del pod
        counts = self._table.pod_count[self._table.live_rows()]
        state.write(_MOST, int(counts.max(initial=0)))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        del pod, other
        state.write(_MOST, max(state.read(_MOST), int(self._table.pod_count[row])))
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        del pod, other, row
        counts = self._table.pod_count[self._table.live_rows()]
        state.write(_MOST, int(counts.max(initial=0)))
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        del pod
        counts = self._table.pod_count[rows]
        busiest = counts == state.read(_MOST)
        return np.where((counts > 0) & busiest, 2, 0).astype(np.int16)

    def rejection(self, code: int) -> Status:
        return unresolvable(f"too busy ({code})")


class Calm:
    """Prefers nodes with few pods; sits out where some node that fits is empty: looks at a node, without rescaling."""

    name = "Calm"
    scope = Scope.ROW

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table

    def sign(self, pod: PodInfo) -> Hashable:
        del pod
        return ""

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        del state, pod
        return SKIP if (self._table.pod_count[rows] == 0).any() else SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        del state, pod
        return np.asarray(100 - np.minimum(self._table.pod_count[rows], 100), dtype=np.int64)


class Company:
    """Prefers nodes with many pods, in proportion to the fullest one that fits: looks at a node, and rescales."""

    name = "Company"
    scope = Scope.ROW

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table

    def sign(self, pod: PodInfo) -> Hashable:
        del pod
        return ""

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        del state, pod
        return self._table.pod_count[rows].astype(np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        del state, pod
        scores *= 100
        scores //= max(1, int(scores.max(initial=0)))
        return scores


class Share(Company):
    """Prefers nodes that hold a large share of all pods: looks beyond a node, and rescales."""

    name = "Share"
    scope = Scope.CLUSTER

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        del state, pod
        total = max(1, int(self._table.pod_count.sum()))
        return np.asarray(self._table.pod_count[rows] * 1000 // total, dtype=np.int64)


class Membership:
    """Prefers all nodes alike, by how many there are: a rarely changing fact that makes what is kept void."""

    name = "Membership"
    scope = Scope.ROW

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.table

    def epoch(self) -> Hashable:
        return len(self._table)

    def sign(self, pod: PodInfo) -> Hashable:
        del pod
        return ""

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        del state, pod
        return np.full(len(rows), len(self._table), dtype=np.int64)
