"""`FitBoard`: what many nodes would lack for a pod if pods came or went there.

Made by NodeResourcesFit for questions about preemption; the rules are those of its filter.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final, Self

import numpy as np

from berth.cluster.columns import Amounts, Mask
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import Rejections
from berth.framework.what_if import Guests, Indices, Shifts
from berth.plugins.noderesources.shortages import NOTHING, Shortages

TOO_MANY_PODS: Final = "Too many pods"


class FitBoard:
    """Resources by place.

    Args:
        table: the nodes.
        guests: who comes and goes.
        wanted: what the pod asks for, in the order in which it is checked.
        backed: those resources that devices stand for where the node has none.
        shortages: gives combinations of missing resources their numbers.
    """

    def __init__(
        self,
        table: NodeTable,
        guests: Guests,
        wanted: Sequence[tuple[str, int]],
        backed: Collection[str],
        shortages: Shortages,
    ) -> None:
        rows = guests.rows
        self._shortages = shortages
        self._allowed_pods = table.allowed_pods[rows]
        self._pods = Shifts(guests.places, guests.weights(lambda _: 1), table.pod_count[rows])
        self._resources: list[_Resource] = []
        for name, many in wanted:
            index = table.resource_index(name)
            nothing = np.zeros(len(rows), dtype=np.int64)
            offered = nothing if index is None else table.allocatable[index][rows]
            taken = nothing if index is None else table.requested[index][rows]
            weights = guests.weights(partial(_taken, name))
            shifts = Shifts(guests.places, weights, taken)
            self._resources.append(_Resource(name, many, offered, shifts, is_backed=name in backed))

    def copy(self) -> Self:
        """A board that goes its own way from here."""
        twin = object.__new__(type(self))
        twin._shortages, twin._allowed_pods = self._shortages, self._allowed_pods
        twin._pods = self._pods.copy()
        twin._resources = [resource.copy() for resource in self._resources]
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come or go."""
        self._pods.move(guests, by)
        for resource in self._resources:
            resource.taken.move(guests, by)

    def judge(self, places: Indices) -> Rejections:
        """The number of the combination of what is missing."""
        missing = np.full(len(places), NOTHING, dtype=np.int16)
        full: Mask = self._pods.sums[places] >= self._allowed_pods[places]
        if np.count_nonzero(full):
            self._shortages.add(missing, full, np.zeros_like(full), TOO_MANY_PODS)
        for resource in self._resources:
            offered = resource.offered[places]
            short = resource.many > offered - resource.taken.sums[places]
            if resource.is_backed:
                short &= offered > 0
            if np.count_nonzero(short):
                self._shortages.add(missing, short, resource.many > offered, f"Insufficient {resource.name}")
        return missing


def _taken(name: str, guest: PodInfo) -> int:
    return guest.taken.get(name, 0)


class _Resource:
    __slots__ = ("is_backed", "many", "name", "offered", "taken")

    def __init__(self, name: str, many: int, offered: Amounts, taken: Shifts, *, is_backed: bool) -> None:
        self.name, self.many, self.offered, self.taken, self.is_backed = name, many, offered, taken, is_backed

    def copy(self) -> "_Resource":
        return _Resource(self.name, self.many, self.offered, self.taken.copy(), is_backed=self.is_backed)
