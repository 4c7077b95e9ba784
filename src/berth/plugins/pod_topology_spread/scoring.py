"""Soft spread constraints: the fewer matching pods there are in a node's domain, the better.

PreScore adds the matching pods up by domain and weighs each constraint by the number of domains; Score adds up for each
node, and the result is turned round, since little is good.  Nodes that lack a label count as worst; with the built-in
constraints, which say nothing about pods without zones, they only miss that part.

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/scoring.go.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Amounts, Mask, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import MAX_NODE_SCORE, Scores
from berth.plugins.pod_topology_spread.constraints import HOSTNAME, Constraint
from berth.plugins.pod_topology_spread.domains import ABSENT, DomainFinder, Domains, domain_codes, selection

_HALF: Final = 0.5
_Floats = NDArray[np.float64]


@dataclass(slots=True)
class SoftState:
    """What PreScore found.

    Attributes:
        constraints: the soft constraints of the pod.
        weights: of each constraint.
        sums: for each, int64, matching pods: by domain, or by row for the host name.
        ignored: bool, by the rows that PreScore was given: whether the node lacks a label that it needs; None if no
            node needs any.
    """

    constraints: tuple[Constraint, ...]
    weights: tuple[float, ...]
    sums: tuple[Amounts, ...]
    ignored: Mask | None


def soft_state(
    table: NodeTable,
    finder: DomainFinder,
    pod: PodInfo,
    constraints: tuple[Constraint, ...],
    rows: Rows,
    *,
    need_all: bool,
) -> SoftState:
    """Add up the pods that match each of *constraints*.

    Args:
        table: the nodes.
        finder: finds the nodes that count.
        pod: the pod.
        constraints: its soft constraints.
        rows: the nodes that are to be scored.
        need_all: whether nodes that lack the label of some constraint are left out.
    """
    ignored = _lacking(table, constraints, rows) if need_all else None
    scored = rows if ignored is None or not np.count_nonzero(ignored) else rows[~ignored]
    domains = finder.of(pod, constraints, need_all=need_all)
    return SoftState(
        constraints=constraints,
        weights=tuple(_weight(table, each, scored) for each in constraints),
        sums=tuple(_sums(table, pod, each, where) for each, where in zip(constraints, domains, strict=True)),
        ignored=ignored,
    )


def _lacking(table: NodeTable, constraints: tuple[Constraint, ...], rows: Rows) -> Mask:
    """bool, shape (len(rows),): where the label of some constraint is missing."""
    mask: Mask = np.zeros(len(rows), dtype=np.bool_)
    for constraint in constraints:
        mask |= table.label(constraint.topology_key).codes_of(rows) == ABSENT
    return mask


def _weight(table: NodeTable, constraint: Constraint, rows: Rows) -> float:
    """More domains weigh more, so that constraints on few large domains do not drown the others."""
    if constraint.topology_key == HOSTNAME:
        return math.log(len(rows) + 2)
    return math.log(np.count_nonzero(np.bincount(domain_codes(table, constraint.topology_key, rows))) + 2)


def _sums(table: NodeTable, pod: PodInfo, constraint: Constraint, domains: Domains) -> Amounts:
    """The pods by domain; by row for the host name, where every node counts whatever the policies say."""
    chosen = selection(pod, constraint)
    by_row = constraint.topology_key == HOSTNAME
    if chosen is None:
        return np.zeros(len(table.live), dtype=np.int64) if by_row else domains.none()
    column = table.pod_counts.column(chosen)
    if by_row:
        return column.counts
    return domains.sums(column.counts) if column.total else domains.none()


def raw_scores(state: SoftState, rows: Rows, table: NodeTable) -> Scores:
    """int64, shape (len(rows),): weighted pods around each node, little is good; means nothing for nodes left out."""
    total: _Floats = np.zeros(len(rows), dtype=np.float64)
    for constraint, weight, sums in zip(state.constraints, state.weights, state.sums, strict=True):
        codes = table.label(constraint.topology_key).codes_of(rows)
        if constraint.topology_key == HOSTNAME:
            part = sums[rows] * weight + (constraint.max_skew - 1)
            part[codes == ABSENT] = 0.0
        else:
            by_domain = sums * weight + (constraint.max_skew - 1)
            by_domain[ABSENT] = 0.0
            part = by_domain.take(codes)
        total += part
    return _rounded(total)


def _rounded(numbers: _Floats) -> Scores:
    """The nearest integers, halves away from zero, of numbers that are not negative."""
    whole = np.floor(numbers)
    return (whole + (numbers - whole >= _HALF)).astype(np.int64)


def turned_round(state: SoftState, scores: Scores) -> Scores:
    """int64, same shape, 0..100: high where *scores* are low; 0 for nodes that are left out."""
    left_out = state.ignored
    counted = scores if left_out is None else scores[~left_out]
    highest = int(counted.max(initial=0))
    if highest:
        lowest = int(counted.min(initial=highest))
        turned = MAX_NODE_SCORE * (highest + lowest - scores) // highest
    else:
        turned = np.full_like(scores, MAX_NODE_SCORE)
    if left_out is not None:
        turned[left_out] = 0
    return turned
