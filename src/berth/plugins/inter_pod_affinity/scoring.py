"""Preferred terms: what the pod would like, and what pods that are there would like of it.

PreScore adds the weights up by domain, Score adds up for each node what its domains hold.  Required affinity terms of
others count with a weight of the configuration, so that pods are drawn to those that depend on them.

Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/scoring.go.
"""

from dataclasses import dataclass

import numpy as np

from berth.cluster.columns import Amounts, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.interface import MAX_NODE_SCORE, Scores
from berth.plugins.inter_pod_affinity.domains import domain_sums
from berth.plugins.inter_pod_affinity.namespaces import Namespaces


@dataclass(slots=True)
class PreferredState:
    """What PreScore found.

    Attributes:
        sums: topology key -> int64, by code of the label's column: the weights in each domain.
    """

    sums: dict[str, Amounts]

    def add(self, topology_key: str, sums: Amounts) -> None:
        """Add weights by domain."""
        before = self.sums.get(topology_key)
        self.sums[topology_key] = sums if before is None else before + sums


def preferred_state(
    table: NodeTable, namespaces: Namespaces, pod: PodInfo, required_weight: int
) -> PreferredState | None:
    """Add up what *pod* prefers, and what others prefer about it; None if no pod counts anywhere."""
    terms = pod.affinity_terms
    state = PreferredState({})
    for sign, wishes in ((1, terms.preferred), (-1, terms.preferred_anti)):
        for weight, term in wishes:
            column = table.pod_counts.column(namespaces.selection(term))
            if column.total:
                sums = domain_sums(table, term.topology_key, column)
                if np.count_nonzero(sums):
                    state.add(term.topology_key, sign * weight * sums)
    labels = namespaces.labels(pod.pod.metadata.namespace)
    for key, carried in table.carried_terms.attracting(pod, labels, required_weight).items():
        # Weights may cancel out; the terms are there all the same, and the plugin then scores all nodes alike.
        if carried.many.total and np.count_nonzero(domain_sums(table, key, carried.many)):
            state.add(key, domain_sums(table, key, carried.weighted))
    return state if state.sums else None


def raw_scores(state: PreferredState, rows: Rows, table: NodeTable) -> Scores:
    """int64, shape (len(rows),): the weights in the domains of each node; may be negative."""
    total: Scores = np.zeros(len(rows), dtype=np.int64)
    for key, sums in state.sums.items():
        total += sums.take(table.label(key).codes_of(rows))
    return total


def stretched(scores: Scores) -> Scores:
    """int64, same shape: the lowest becomes 0 and the highest 100, in proportion; 0 where all are equal."""
    if not len(scores):
        return scores
    lowest, highest = int(scores.min()), int(scores.max())
    if lowest == highest:
        return np.zeros_like(scores)
    shares = (scores - lowest).astype(np.float64) / float(highest - lowest)
    return (float(MAX_NODE_SCORE) * shares).astype(np.int64)
