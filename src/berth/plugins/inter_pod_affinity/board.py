"""`AffinityBoard`: required terms on many nodes, each in a world where other pods came or went there.

Made by InterPodAffinity for questions about preemption.  A guest changes the sums of the domains of its node, in the
world of that node alone.

Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""

from collections.abc import Callable, Iterable
from typing import Self

import numpy as np

from berth.cluster.columns import Amounts, Mask
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import Rejections
from berth.framework.what_if import Guests, Indices, Shifts
from berth.plugins.inter_pod_affinity.domains import ABSENT
from berth.plugins.inter_pod_affinity.filtering import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    RequiredState,
    selects,
)


class AffinityBoard:
    """The required terms that concern a pod, by place.

    Args:
        table: the nodes.
        guests: who comes and goes.
        state: what PreFilter found.
        pod: the pod.
    """

    def __init__(self, table: NodeTable, guests: Guests, state: RequiredState, pod: PodInfo) -> None:
        own = pod.pod.metadata
        by_key = _Sums(table, guests)
        self._repelling = [
            by_key.of(key, _carried(state, pod, key), state.repelling.get(key))
            for key in state.repelling.keys() | _repelling_keys(guests.samples, state, pod)
        ]
        keys = {key for key, _ in state.required_anti}
        self._apart = [by_key.of(key, _apart(state, key), state.apart.get(key)) for key in sorted(keys)]
        self._near = [by_key.of(key, _near(state), sums) for key, sums in state.near.items()]
        self._is_labelled = [by_key.labelled(key) for key in state.near]
        total = sum(int(sums.sum()) for sums in state.near.values())
        weights = guests.weights(_near(state)) * sum(mask[guests.places] for mask in self._is_labelled)
        self._anybody = Shifts(guests.places, weights, np.full(len(guests.rows), total, dtype=np.int64))
        self._may_be_first = all(selects(term, own.namespace, own.labels) for term in state.required)

    def copy(self) -> Self:
        """A board that goes its own way from here."""
        twin = object.__new__(type(self))
        twin._repelling = [sums.copy() for sums in self._repelling]
        twin._apart = [sums.copy() for sums in self._apart]
        twin._near = [sums.copy() for sums in self._near]
        twin._anybody = self._anybody.copy()
        twin._is_labelled, twin._may_be_first = self._is_labelled, self._may_be_first
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come or go."""
        for sums in (*self._repelling, *self._apart, *self._near, self._anybody):
            sums.move(guests, by)

    def judge(self, places: Indices) -> Rejections:
        """The first rule that a node breaks."""
        found: Rejections = np.zeros(len(places), dtype=np.int16)
        for kind, code in ((self._repelling, EXISTING_ANTI_AFFINITY), (self._apart, ANTI_AFFINITY)):
            for sums in kind:
                found[sums.sums[places] > 0] = code
        if self._near:
            found[~self._near_enough(places)] = AFFINITY
        return found

    def _near_enough(self, places: Indices) -> Mask:
        first = (self._anybody.sums[places] == 0) & self._may_be_first
        mask: Mask = np.ones(len(places), dtype=np.bool_)
        for sums, labelled in zip(self._near, self._is_labelled, strict=True):
            mask &= labelled[places] & (first | (sums.sums[places] > 0))
        return mask


class _Sums:
    """Makes sums by place out of sums by domain."""

    def __init__(self, table: NodeTable, guests: Guests) -> None:
        self._table, self._guests = table, guests

    def labelled(self, key: str) -> Mask:
        """bool, shape (places,): which nodes are in a domain."""
        labelled: Mask = self._table.label(key).codes[self._guests.rows] != ABSENT
        return labelled

    def of(self, key: str, weigh: Callable[[PodInfo], int], by_domain: Amounts | None) -> Shifts:
        guests = self._guests
        codes = self._table.label(key).codes[guests.rows]
        sums = np.zeros(len(codes), dtype=np.int64) if by_domain is None else by_domain[codes]
        weights = guests.weights(weigh) * (codes != ABSENT)[guests.places]
        return Shifts(guests.places, weights, sums)


def _repelling_keys(samples: Iterable[PodInfo], state: RequiredState, pod: PodInfo) -> set[str]:
    return {key for sample in samples for key in state.repelled_by(sample, pod)}


def _carried(state: RequiredState, pod: PodInfo, key: str) -> Callable[[PodInfo], int]:
    return lambda guest: state.repelled_by(guest, pod).count(key)


def _apart(state: RequiredState, key: str) -> Callable[[PodInfo], int]:
    def weigh(guest: PodInfo) -> int:
        theirs = guest.pod.metadata
        terms = (term for term in state.required_anti if term[0] == key)
        return sum(selects(term, theirs.namespace, theirs.labels) for term in terms)

    return weigh


def _near(state: RequiredState) -> Callable[[PodInfo], int]:
    def weigh(guest: PodInfo) -> int:
        theirs = guest.pod.metadata
        return int(all(selects(term, theirs.namespace, theirs.labels) for term in state.required))

    return weigh
