"""Which nodes count for a spread constraint, and in which domain each lies.

That depends on the labels and taints of the nodes, which rarely change, and on what the pod says about nodes, which
the pods of a workload share; so it is worked out once and kept until the nodes change.  Called by the filter and the
score of PodTopologySpread.

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/common.go, ``matchNodeInclusionPolicies``.
"""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.api.tolerations import DO_NOT_SCHEDULE, tolerates_all
from berth.cluster.columns import Amounts, Codes, Mask, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.podcounts import PodSelection
from berth.cluster.pods import PodInfo
from berth.plugins.node_selection import required_mask
from berth.plugins.pod_topology_spread.constraints import Constraint

_REMEMBERED: Final = 64
ABSENT: Final = 0  # the code of nodes that lack a label


@dataclass(frozen=True, slots=True, eq=False)
class Domains:
    """The nodes that count for one constraint.

    Attributes:
        rows: their rows.
        codes: intp, shape (len(rows),): their domains, as codes of the label's column.
        present: the distinct ones of these codes.
        size: one more than the largest code of the column.
        here: bool, shape (capacity,): whether a row is one of ``rows``.
    """

    rows: Rows
    codes: NDArray[np.intp]
    present: NDArray[np.intp]
    size: int
    here: Mask

    def sums(self, counts: Amounts) -> Amounts:
        """int64, shape (size,): per domain, the sum of *counts*, which are per row."""
        return np.bincount(self.codes, weights=counts[self.rows], minlength=self.size).astype(np.int64)

    def none(self) -> Amounts:
        """int64, shape (size,): zeros."""
        return np.zeros(self.size, dtype=np.int64)


class DomainFinder:
    """Finds the domains that count for pods.

    Args:
        table: the nodes.
        comparison_operators: whether tolerations may compare with ``Gt`` and ``Lt``.
    """

    def __init__(self, table: NodeTable, *, comparison_operators: bool) -> None:
        self._table = table
        self._comparison_operators = comparison_operators
        self._layout = -1
        self._kept: OrderedDict[Hashable, tuple[Domains, ...]] = OrderedDict()

    def of(self, pod: PodInfo, constraints: tuple[Constraint, ...], *, need_all: bool) -> tuple[Domains, ...]:
        """The domains of each of *constraints*.

        Args:
            pod: the pod whose constraints they are.
            constraints: the constraints.
            need_all: whether nodes count only if they have the labels of all constraints.
        """
        if self._layout != self._table.layout:
            self._kept.clear()
            self._layout = self._table.layout
        key = _key(pod, constraints), need_all
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._find(pod, constraints, need_all=need_all)
            if len(self._kept) > _REMEMBERED:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        return kept

    def _find(self, pod: PodInfo, constraints: tuple[Constraint, ...], *, need_all: bool) -> tuple[Domains, ...]:
        rows = self._table.live_rows()
        eligible: Mask = np.ones(len(rows), dtype=np.bool_)
        if need_all:
            for constraint in constraints:
                eligible &= self._table.label(constraint.topology_key).codes_of(rows) != ABSENT
        return tuple(self._domains(pod, constraint, rows, eligible) for constraint in constraints)

    def _domains(self, pod: PodInfo, constraint: Constraint, rows: Rows, eligible: Mask) -> Domains:
        mask = eligible
        if constraint.honors_affinity:
            mask = mask & required_mask(self._table, pod.required_node_affinity, rows)
        if constraint.honors_taints:
            mask = mask & self._tolerated(pod, rows)
        counting = rows[mask]
        codes = domain_codes(self._table, constraint.topology_key, counting).astype(np.intp)
        here: Mask = np.zeros(len(self._table.live), dtype=np.bool_)
        here[counting] = True
        size = len(self._table.label(constraint.topology_key).values)
        return Domains(counting, codes, np.flatnonzero(np.bincount(codes, minlength=size)), size, here)

    def _tolerated(self, pod: PodInfo, rows: Rows) -> Mask:
        tolerations, operators = pod.pod.spec.tolerations, self._comparison_operators
        return self._table.taints.mask(
            lambda taints: tolerates_all(
                tolerations,
                (taint for taint in taints if taint.effect in DO_NOT_SCHEDULE),
                comparison_operators=operators,
            ),
            rows,
        )


def domain_codes(table: NodeTable, topology_key: str, rows: Rows) -> Codes:
    """int32, shape (len(rows),): the domains of *rows*; nodes without the label are in that of the empty value."""
    column = table.label(topology_key)
    codes = column.codes_of(rows)
    empty = column.code_of("")
    return codes if empty is None else np.where(codes == ABSENT, np.int32(empty), codes)


def selection(pod: PodInfo, constraint: Constraint) -> PodSelection | None:
    """The pods that count for a constraint of *pod*; None if none do, as for a selector without conditions.

    Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/common.go, ``countPodsMatchSelector``.
    """
    if not constraint.selector.requirements:
        return None
    return PodSelection(frozenset((pod.pod.metadata.namespace,)), constraint.selector, terminating=False)


def _key(pod: PodInfo, constraints: Sequence[Constraint]) -> Hashable:
    """What of a pod and its constraints the domains depend on."""
    shapes = tuple((each.topology_key, each.honors_affinity, each.honors_taints) for each in constraints)
    affinity = pod.required_node_affinity if any(each.honors_affinity for each in constraints) else None
    tolerations = pod.pod.spec.tolerations if any(each.honors_taints for each in constraints) else None
    return shapes, affinity, tolerations
