"""`Ranking`: the pods of each node in the order of their importance, as arrays.

Preemption asks, for thousands of nodes at once, which pods are less important than another, what taking them away frees
and in which order they may stay.  Rows whose pods changed are sorted anew when somebody asks; for the others the arrays
of the time before hold.  What rules can tell of a pod is a small number, its kind, since pods are alike by the hundred.

Owned by the plugin DefaultPreemption.

Source: k8s pkg/scheduler/util/utils.go, ``MoreImportantPod``.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.cluster.changelog import Mark
from berth.cluster.columns import Amounts, Mask, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo

NOT_YET: Final = 2**62
"""The start of a pod that has not started, which is later than that of any other."""

_NOBODY: Final = 2**63 - 1  # the priority in places where there is no pod
_FIRST_WIDTH: Final = 8
_SPARE_KINDS: Final = 1024  # kinds that may be out of use before they are dropped


class PodKinds:
    """Kinds of pods, numbered; pods of one kind are alike to every rule.

    Attributes:
        samples: a pod of each kind.
    """

    def __init__(self) -> None:
        self.samples: list[PodInfo] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, pod: PodInfo) -> int:
        """The kind of *pod*.

        Raises:
            QuantityError: an amount is no quantity.
        """
        number = self._numbers.get(pod.likeness)
        if number is None:
            number = self._numbers[pod.likeness] = len(self.samples)
            self.samples.append(pod)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class Ranks:
    """Pods of some rows, a line each, most important first.

    Attributes:
        rows: the rows.
        places: intp, shape (pods,): for each pod, which of ``rows`` it is on; ascending.
        ranks: intp, shape (pods,): its rank among all pods of its row.
        kinds: intp, shape (pods,): what kind of pod it is.
        priorities: int64, shape (pods,).
        starts: int64, shape (pods,): when it started, in microseconds since 1970, or `NOT_YET`.
    """

    rows: Rows
    places: NDArray[np.intp]
    ranks: NDArray[np.intp]
    kinds: NDArray[np.intp]
    priorities: Amounts
    starts: Amounts

    def where(self, chosen: Mask) -> "Ranks":
        """Only the pods that are *chosen*: bool, shape (pods,)."""
        return Ranks(
            self.rows,
            self.places[chosen],
            self.ranks[chosen],
            self.kinds[chosen],
            self.priorities[chosen],
            self.starts[chosen],
        )


class Ranking:
    """The pods of all rows by importance: higher priority first, then earlier start, then name.

    Args:
        table: the nodes.

    Attributes:
        kinds: the kinds of pods met.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self.kinds = PodKinds()
        self._pods: list[tuple[PodInfo, ...]] = []
        self._priorities: Amounts = np.zeros((0, _FIRST_WIDTH), dtype=np.int64)
        self._starts: Amounts = np.zeros((0, _FIRST_WIDTH), dtype=np.int64)
        self._kinds: NDArray[np.intp] = np.zeros((0, _FIRST_WIDTH), dtype=np.intp)
        self._mark: Mark | None = None

    def below(self, priority: int, rows: Rows) -> Ranks:
        """The pods of *rows* whose priority is lower than *priority*."""
        self._catch_up()
        priorities = self._priorities[rows]
        places, ranks = np.nonzero(priorities < priority)
        at = rows[places]
        return Ranks(rows, places, ranks, self._kinds[at, ranks], priorities[places, ranks], self._starts[at, ranks])

    def pod(self, row: int, rank: int) -> PodInfo:
        """The pod of that rank, as of the last answer."""
        return self._pods[row][rank]

    def _catch_up(self) -> None:
        table = self._table
        changed = None if self._mark is None else table.pods_changed_since(self._mark)
        if changed is None or len(self.kinds.samples) > 2 * sum(map(len, self._pods)) + _SPARE_KINDS:
            changed = np.flatnonzero(table.pod_count)
            self._start_over()
        self._mark = table.pods_mark()
        self._make_room(len(table.live))
        for row in changed.tolist():
            self._sort(row)

    def _start_over(self) -> None:
        self.kinds = PodKinds()
        self._pods = []
        self._priorities, self._starts = self._priorities[:0], self._starts[:0]
        self._kinds = self._kinds[:0]

    def _sort(self, row: int) -> None:
        pods = sorted(self._table.pods(row).values(), key=_importance)
        many = len(pods)
        if many > self._priorities.shape[1]:
            self._widen(many)
        self._pods[row] = tuple(pods)
        self._priorities[row, :many] = [pod.priority for pod in pods]
        self._priorities[row, many:] = _NOBODY
        self._starts[row, :many] = [started_us(pod) for pod in pods]
        self._kinds[row, :many] = [self.kinds.number(pod) for pod in pods]

    def _make_room(self, capacity: int) -> None:
        more = capacity - len(self._pods)
        if more <= 0:
            return
        width = self._priorities.shape[1]
        self._pods.extend(() for _ in range(more))
        self._priorities = np.vstack([self._priorities, np.full((more, width), _NOBODY, dtype=np.int64)])
        self._starts = np.vstack([self._starts, np.zeros((more, width), dtype=np.int64)])
        self._kinds = np.vstack([self._kinds, np.zeros((more, width), dtype=np.intp)])

    def _widen(self, many: int) -> None:
        more = max(many, 2 * self._priorities.shape[1]) - self._priorities.shape[1]
        beside = ((0, 0), (0, more))
        self._priorities = np.pad(self._priorities, beside, constant_values=_NOBODY)
        self._starts, self._kinds = np.pad(self._starts, beside), np.pad(self._kinds, beside)


def _importance(pod: PodInfo) -> tuple[int, int, str]:
    return -pod.priority, started_us(pod), pod.key


def started_us(pod: PodInfo) -> int:
    """When the pod started, in microseconds since 1970; `NOT_YET` if it has not."""
    text = pod.pod.status.start_time
    return _time_us(text) if text else NOT_YET


@lru_cache(maxsize=4096)
def _time_us(text: str) -> int:
    moment = datetime.fromisoformat(text)
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1_000_000 + moment.microsecond
