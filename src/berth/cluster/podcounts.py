"""`PodCounts`: how many pods of which labels are on which node, kept up to date as pods come and go.

Rules between pods ask how many pods match a selector in each domain.  They are answered from a column per selector, so
that a decision costs the same however many pods there are.  Pods with the same namespace and labels count together, as
a cohort: which columns a cohort counts in is found out once, and a pod that comes or goes then changes its row in
those.  A column is made when it is first asked for, and dropped when many others have been asked for since.

Written by `berth.cluster.nodes.NodeTable`, read by the plugins PodTopologySpread and InterPodAffinity.  Rows that hold
pods but have no node count too; whoever adds up a domain leaves them out, as they are in none.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from berth.api.selectors import Selector
from berth.cluster.label_index import LabelsIndex, SelectorIndex
from berth.cluster.pods import LabelSet, PodInfo
from berth.cluster.tallies import Column, Tally

_COLUMNS: Final = 256  # at 5000 nodes each takes 64 kB


@dataclass(frozen=True, slots=True)
class PodSelection:
    """Some of the pods that are on nodes.

    Attributes:
        namespaces: where; None for everywhere.
        selector: which labels they have.
        terminating: whether those that are being deleted count.
    """

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool

    def selects(self, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> bool:
        """Whether a pod is one of them."""
        if terminating and not self.terminating:
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, eq=False, slots=True)
class _Cohort:
    """Pods of one namespace with the same labels, either all terminating or none."""

    namespace: str
    labels: Mapping[str, str]
    terminating: bool
    tally: Tally

    def is_of(self, selection: PodSelection) -> bool:
        return selection.selects(self.namespace, self.labels, terminating=self.terminating)


class PodCounts:
    """The pods on all nodes by their labels.

    Args:
        capacity: how many rows there are.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._cohorts: dict[tuple[LabelSet, bool], _Cohort] = {}
        self._by_labels = LabelsIndex[_Cohort]()
        self._columns: OrderedDict[PodSelection, Column] = OrderedDict()
        self._selections = SelectorIndex[PodSelection]()

    def column(self, selection: PodSelection) -> Column:
        """How many pods of *selection* are on each row; not to be written to, nor kept beyond the cycle."""
        column = self._columns.get(selection)
        if column is not None:
            self._columns.move_to_end(selection)
            return column
        column = Column(self._capacity)
        for cohort in self._by_labels.candidates(selection.namespaces, selection.selector):
            if cohort.is_of(selection):
                cohort.tally.join(column)
        self._columns[selection] = column
        self._selections.add(selection, selection.namespaces, selection.selector)
        if len(self._columns) > _COLUMNS:
            self._drop_oldest()
        return column

    def add(self, row: int, info: PodInfo) -> None:
        """Count a pod on a row."""
        cohort = self._cohorts.get(_cohort_key(info))
        if cohort is None:
            cohort = self._found(info)
        cohort.tally.move(row, 1)

    def remove(self, row: int, info: PodInfo) -> None:
        """Count a pod on a row no more.

        Raises:
            KeyError: no such pod is counted there.
        """
        key = _cohort_key(info)
        cohort = self._cohorts[key]
        cohort.tally.move(row, -1)
        if not cohort.tally:
            del self._cohorts[key]
            self._by_labels.remove(cohort, cohort.namespace, cohort.labels)

    def swap(self, row: int, before: PodInfo, after: PodInfo) -> None:
        """Count another version of a pod in place of the one before."""
        if _cohort_key(before) != _cohort_key(after):
            self.remove(row, before)
            self.add(row, after)

    def grow(self, capacity: int) -> None:
        """Make room for *capacity* rows."""
        self._capacity = capacity
        for column in self._columns.values():
            column.grow(capacity)

    def faults(self, pods: Iterable[tuple[int, PodInfo]]) -> list[str]:
        """In what the counts differ from those of *pods*, which come with their rows; empty if in nothing."""
        fresh = PodCounts(self._capacity)
        for row, info in pods:
            fresh.add(row, info)
        found = [
            f"pods labelled {key} are counted on {self._rows(key)}, but are on {fresh._rows(key)}"
            for key in self._cohorts.keys() | fresh._cohorts.keys()
            if self._rows(key) != fresh._rows(key)
        ]
        for selection, column in self._columns.items():
            want = fresh.column(selection)
            if not np.array_equal(column.counts, want.counts) or column.total != want.total:
                found.append(f"{selection} counts {column.total} pods, there are {want.total}")
        return found

    def _found(self, info: PodInfo) -> _Cohort:
        metadata = info.pod.metadata
        cohort = _Cohort(metadata.namespace, metadata.labels, metadata.deletion_timestamp is not None, Tally())
        self._cohorts[_cohort_key(info)] = cohort
        self._by_labels.add(cohort, cohort.namespace, cohort.labels)
        for selection in self._selections.candidates(cohort.namespace, cohort.labels):
            if cohort.is_of(selection):
                cohort.tally.join(self._columns[selection])
        return cohort

    def _rows(self, key: tuple[LabelSet, bool]) -> dict[int, int]:
        cohort = self._cohorts.get(key)
        return {} if cohort is None else cohort.tally.rows

    def _drop_oldest(self) -> None:
        selection, column = self._columns.popitem(last=False)
        self._selections.remove(selection, selection.namespaces, selection.selector)
        for cohort in self._by_labels.candidates(selection.namespaces, selection.selector):
            cohort.tally.leave(column)


def _cohort_key(info: PodInfo) -> tuple[LabelSet, bool]:
    return info.label_set, info.pod.metadata.deletion_timestamp is not None
