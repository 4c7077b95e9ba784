"""`SpreadBoard`: hard spread constraints on many nodes, each in a world where other pods came or went there.

Made by PodTopologySpread for questions about preemption.  A guest changes the sum of one domain, its node's, in the
world of that node alone; the emptiest domain is then this one or the emptiest of the others, as they are.

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/filtering.go.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Amounts, Mask
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import Rejections
from berth.framework.what_if import Guests, Indices, Shifts
from berth.plugins.pod_topology_spread.constraints import Constraint
from berth.plugins.pod_topology_spread.domains import ABSENT
from berth.plugins.pod_topology_spread.filtering import MISSING_LABEL, NO_DOMAIN, HardState


@dataclass(frozen=True, slots=True, eq=False)
class _Constrained:
    """One constraint.

    Attributes:
        most: how many matching pods a domain may hold above the emptiest one.
        too_few: whether the emptiest counts as holding none.
        codes: shape (places,): the domain of each node.
        others: shape (places,): the least of all domains but that one.
        counts: bool, shape (places,): whether that domain is one of those that count.
        sums: by place, the matching pods in its domain.
    """

    most: int
    too_few: bool
    codes: NDArray[np.int32]
    others: Amounts
    counts: Mask
    sums: Shifts

    def judge(self, places: Indices) -> Rejections:
        sums = self.sums.sums[places]
        if self.too_few:
            least = np.zeros(len(places), dtype=np.int64)
        else:
            others = self.others[places]
            least = np.where(self.counts[places], np.minimum(others, sums), others)
        verdicts = (sums > self.most + least).astype(np.int16)  # UNEVEN is 1
        verdicts[self.codes[places] == ABSENT] = MISSING_LABEL
        return verdicts


class SpreadBoard:
    """The hard constraints of a pod, by place.

    Args:
        table: the nodes.
        guests: who comes and goes.
        state: what PreFilter found.
        pod: the pod.
    """

    def __init__(self, table: NodeTable, guests: Guests, state: HardState, pod: PodInfo) -> None:
        self._constraints = [
            _constrained(table, guests, pod, constraint, state, i) for i, constraint in enumerate(state.constraints)
        ]

    def copy(self) -> Self:
        """A board that goes its own way from here."""
        twin = object.__new__(type(self))
        twin._constraints = [replace(each, sums=each.sums.copy()) for each in self._constraints]
        return twin

    def move(self, guests: Indices, by: int) -> None:
        """These guests come or go."""
        for each in self._constraints:
            each.sums.move(guests, by)

    def judge(self, places: Indices) -> Rejections:
        """By the first constraint that a node breaks."""
        found: Rejections = np.zeros(len(places), dtype=np.int16)
        for each in self._constraints:
            found = np.where(found == 0, each.judge(places), found)
        return found


def _constrained(
    table: NodeTable, guests: Guests, pod: PodInfo, constraint: Constraint, state: HardState, index: int
) -> _Constrained:
    domains, by_domain = state.domains[index], state.sums[index]
    codes = table.label(constraint.topology_key).codes[guests.rows]
    weights = guests.weights(_match(pod, constraint)) * domains.here[guests.rows[guests.places]]
    counts = np.zeros(domains.size, dtype=np.bool_)
    counts[domains.present] = True
    itself = int(constraint.selector.matches(pod.pod.metadata.labels))
    return _Constrained(
        most=constraint.max_skew - itself,
        too_few=len(domains.present) < constraint.min_domains,
        codes=codes,
        others=_least_of_others(by_domain, domains.present)[codes],
        counts=counts[codes],
        sums=Shifts(guests.places, weights, by_domain[codes]),
    )


def _match(pod: PodInfo, constraint: Constraint) -> Callable[[PodInfo], int]:
    namespace = pod.pod.metadata.namespace

    def match(guest: PodInfo) -> int:
        theirs = guest.pod.metadata
        return int(theirs.namespace == namespace and constraint.selector.matches(theirs.labels))

    return match


def _least_of_others(by_domain: Amounts, present: NDArray[np.intp]) -> Amounts:
    """int64, shape (domains,): for each domain, the least sum of those of *present* that are another one."""
    sums = by_domain[present]
    least = int(sums.min(initial=NO_DOMAIN))
    found = np.full(len(by_domain), least, dtype=np.int64)
    if np.count_nonzero(sums == least) == 1:
        at = int(sums.argmin())
        found[present[at]] = int(np.delete(sums, at).min(initial=NO_DOMAIN))
    return found
