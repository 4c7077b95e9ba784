"""`CarriedTerms`: which terms of pod affinity the pods on the nodes carry, and how many of them are on which node.

A pod that waits is repelled and attracted by terms of the pods that are there.  Pods of one workload carry equal terms,
which are counted together.  For pods of a namespace with certain labels, the terms that select them are found out once
and kept as sums per row and topology key; terms that come, go or move from then on change these sums.  So a decision
costs the same however many pods carry terms.

Written by `berth.cluster.nodes.NodeTable`, read by the plugin InterPodAffinity.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from berth.api.pod_affinity import CarriedTerm, TermKind
from berth.cluster.label_index import SelectorIndex
from berth.cluster.pods import LabelSet, PodInfo
from berth.cluster.tallies import Column, Tally

_AUDIENCES: Final = 128
_REPELLED: Final = -1  # in place of a weight of required affinity: only required anti-affinity counts


class Sums:
    """What the carriers of terms with one topology key come to, row by row.

    Attributes:
        many: how many terms there are.
        weighted: what they add.
    """

    __slots__ = ("many", "weighted")

    def __init__(self, capacity: int) -> None:
        self.many, self.weighted = Column(capacity), Column(capacity)


@dataclass(frozen=True, slots=True, eq=False)
class _Audience:
    """Pods of one namespace with the same labels, as terms select them."""

    namespace: str
    labels: Mapping[str, str]
    namespace_labels: Mapping[str, str]
    required_weight: int
    by_key: dict[str, Sums] = field(default_factory=dict)

    def consider(self, carried: CarriedTerm, tally: Tally, capacity: int) -> None:
        """Add a term up, if it is of concern and selects these pods."""
        weight = self._weight(carried)
        if weight is None or not carried.term.matches(self.namespace, self.labels, self.namespace_labels):
            return
        sums = self.by_key.get(carried.term.topology_key)
        if sums is None:
            sums = self.by_key[carried.term.topology_key] = Sums(capacity)
        tally.join(sums.many)
        tally.join(sums.weighted, weight)

    def _weight(self, carried: CarriedTerm) -> int | None:
        """What a carrier of the term adds; None if such terms do not matter here."""
        if self.required_weight == _REPELLED:
            return 1 if carried.kind is TermKind.REQUIRED_ANTI_AFFINITY else None
        match carried.kind:
            case TermKind.REQUIRED_AFFINITY:
                return self.required_weight or None
            case TermKind.PREFERRED_AFFINITY:
                return carried.weight
            case TermKind.PREFERRED_ANTI_AFFINITY:
                return -carried.weight
            case TermKind.REQUIRED_ANTI_AFFINITY:
                return None


class CarriedTerms:
    """The terms of the pods on all nodes.

    Args:
        capacity: how many rows there are.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._tallies: dict[CarriedTerm, Tally] = {}
        self._index = SelectorIndex[CarriedTerm]()
        self._audiences: OrderedDict[tuple[LabelSet, frozenset[tuple[str, str]], int], _Audience] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether any pod carries a term."""
        return bool(self._tallies)

    def repelling(self, info: PodInfo, namespace_labels: Mapping[str, str]) -> Mapping[str, Sums]:
        """Topology key -> how many required anti-affinity terms that select the pod are carried on each row.

        Args:
            info: the pod that waits.
            namespace_labels: the labels of its namespace.
        """
        return self._sums(info, namespace_labels, _REPELLED)

    def attracting(
        self, info: PodInfo, namespace_labels: Mapping[str, str], required_weight: int
    ) -> Mapping[str, Sums]:
        """Topology key -> what terms that select the pod add to the score of each row.

        Preferred affinity adds its weight, preferred anti-affinity takes it.

        Args:
            info: the pod that waits.
            namespace_labels: the labels of its namespace.
            required_weight: what required affinity adds; with 0 it does not count.
        """
        return self._sums(info, namespace_labels, required_weight)

    def add(self, row: int, carried: Iterable[CarriedTerm]) -> None:
        """Count the terms of a pod on a row."""
        for each in carried:
            tally = self._tallies.get(each)
            if tally is None:
                tally = self._found(each)
            tally.move(row, 1)

    def remove(self, row: int, carried: Iterable[CarriedTerm]) -> None:
        """Count the terms of a pod on a row no more.

        Raises:
            KeyError: one of them is not counted there.
        """
        for each in carried:
            tally = self._tallies[each]
            tally.move(row, -1)
            if not tally:
                del self._tallies[each]
                self._index.remove(each, _named_only(each), each.term.selector)

    def grow(self, capacity: int) -> None:
        """Make room for *capacity* rows."""
        self._capacity = capacity
        for audience in self._audiences.values():
            for sums in audience.by_key.values():
                sums.many.grow(capacity)
                sums.weighted.grow(capacity)

    def faults(self, pods: Iterable[tuple[int, PodInfo]]) -> list[str]:
        """In what the counts differ from those of *pods*, which come with their rows; empty if in nothing."""
        fresh = CarriedTerms(self._capacity)
        for row, info in pods:
            fresh.add(row, info.affinity_terms.carried)
        found = [
            f"{each} is counted on {self._rows(each)}, but is carried on {fresh._rows(each)}"
            for each in self._tallies.keys() | fresh._tallies.keys()
            if self._rows(each) != fresh._rows(each)
        ]
        for (label_set, _, _), audience in self._audiences.items():
            want = replace(audience, by_key={})
            for each, tally in fresh._tallies.items():
                want.consider(each, tally, self._capacity)
            if not _same_sums(audience.by_key, want.by_key):
                found.append(f"the sums of terms that select pods labelled {label_set} are off")
        return found

    def _sums(self, info: PodInfo, namespace_labels: Mapping[str, str], required_weight: int) -> Mapping[str, Sums]:
        if not self._tallies:
            return {}
        key = info.label_set, frozenset(namespace_labels.items()), required_weight
        audience = self._audiences.get(key)
        if audience is not None:
            self._audiences.move_to_end(key)
            return audience.by_key
        metadata = info.pod.metadata
        audience = _Audience(metadata.namespace, metadata.labels, namespace_labels, required_weight)
        self._audiences[key] = audience
        for carried in self._index.candidates(audience.namespace, audience.labels):
            audience.consider(carried, self._tallies[carried], self._capacity)
        if len(self._audiences) > _AUDIENCES:
            self._drop_oldest()
        return audience.by_key

    def _found(self, carried: CarriedTerm) -> Tally:
        tally = self._tallies[carried] = Tally()
        self._index.add(carried, _named_only(carried), carried.term.selector)
        for audience in self._audiences.values():
            audience.consider(carried, tally, self._capacity)
        return tally

    def _rows(self, carried: CarriedTerm) -> dict[int, int]:
        tally = self._tallies.get(carried)
        return {} if tally is None else tally.rows

    def _drop_oldest(self) -> None:
        _, audience = self._audiences.popitem(last=False)
        for carried in self._index.candidates(audience.namespace, audience.labels):
            tally = self._tallies[carried]
            for sums in audience.by_key.values():
                tally.leave(sums.many)
                tally.leave(sums.weighted)


def _named_only(carried: CarriedTerm) -> frozenset[str] | None:
    """The namespaces of the pods that a term may select; None if that depends on the labels of namespaces."""
    return carried.term.namespaces if carried.term.namespace_selector.requirements is None else None


def _same_sums(mine: Mapping[str, Sums], theirs: Mapping[str, Sums]) -> bool:
    return all(_same_sum(mine.get(key), theirs.get(key)) for key in mine.keys() | theirs.keys())


def _same_sum(mine: Sums | None, theirs: Sums | None) -> bool:
    if mine is None or theirs is None:
        left = mine or theirs
        return left is None or not (left.many.counts.any() or left.weighted.counts.any())
    return np.array_equal(mine.many.counts, theirs.many.counts) and np.array_equal(
        mine.weighted.counts, theirs.weighted.counts
    )
