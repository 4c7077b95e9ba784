"""Required terms: where the pod must be, may not be, and where pods that are there do not let it.

PreFilter adds up by domain: the pods that match all of the pod's affinity terms, those that match one of its
anti-affinity terms, and the anti-affinity terms of others that match the pod.  Filter looks at the sums of a node's
domains.  While a what-if is asked, AddPod and RemovePod change the sums of that one cycle; arrays are replaced and
never written to, so that a cloned state goes its own way.

Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/filtering.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.api.pod_affinity import TermKind
from berth.api.selectors import NOTHING, Selector
from berth.cluster.columns import Amounts, Mask, Rows
from berth.cluster.nodes import NodeTable
from berth.cluster.podcounts import PodSelection
from berth.cluster.pods import PodInfo
from berth.framework.interface import Rejections
from berth.plugins.inter_pod_affinity.domains import ABSENT, domain_sums, moved
from berth.plugins.inter_pod_affinity.namespaces import Namespaces

# Where a node breaks several rules, the highest is given.
EXISTING_ANTI_AFFINITY: Final = 1
ANTI_AFFINITY: Final = 2
AFFINITY: Final = 3

_Own = tuple[str, PodSelection]  # a term of the waiting pod: its topology key, and the pods that it selects
_Sums = dict[str, Amounts]  # topology key -> int64, by code of the label's column


@dataclass(slots=True)
class RequiredState:
    """What PreFilter found.

    Attributes:
        required: the pod's affinity terms.
        required_anti: the pod's anti-affinity terms.
        namespace_labels: the labels of the pod's namespace.
        near: pods that match all of ``required``, by domain.
        apart: pods that match each of ``required_anti``, by domain.
        repelling: anti-affinity terms of other pods that match the pod, by domain; only keys with any.
    """

    required: tuple[_Own, ...]
    required_anti: tuple[_Own, ...]
    namespace_labels: Mapping[str, str]
    near: _Sums
    apart: _Sums
    repelling: _Sums

    def move(self, pod: PodInfo, other: PodInfo, row: int, by: int, table: NodeTable) -> None:
        """Let *other* count *by* times more on the node of *row*."""
        theirs = other.pod.metadata
        for key in self.repelled_by(other, pod):
            self.repelling = moved(table, self.repelling, key, row, by)
        if all(selects(term, theirs.namespace, theirs.labels) for term in self.required):
            for key in {key for key, _ in self.required}:
                self.near = moved(table, self.near, key, row, by)
        for term in self.required_anti:
            if selects(term, theirs.namespace, theirs.labels):
                self.apart = moved(table, self.apart, term[0], row, by)

    def repelled_by(self, other: PodInfo, pod: PodInfo) -> list[str]:
        """The topology keys of those anti-affinity terms of *other* that match *pod*, whose state this is."""
        mine = pod.pod.metadata
        return [
            carried.term.topology_key
            for carried in other.affinity_terms.carried
            if carried.kind is TermKind.REQUIRED_ANTI_AFFINITY
            and carried.term.matches(mine.namespace, mine.labels, self.namespace_labels)
        ]


def required_state(table: NodeTable, namespaces: Namespaces, pod: PodInfo) -> RequiredState | None:
    """Add up what the required terms of *pod* and of others say; None if they say nothing."""
    terms = pod.affinity_terms
    repelling: _Sums = {}
    labels: Mapping[str, str] = namespaces.labels(pod.pod.metadata.namespace)
    for key, carried in table.carried_terms.repelling(pod, labels).items():
        if carried.many.total:
            sums = domain_sums(table, key, carried.many)
            if np.count_nonzero(sums):
                repelling[key] = sums
    if not repelling and not terms.required and not terms.required_anti:
        return None
    required = tuple((term.topology_key, namespaces.selection(term)) for term in terms.required)
    required_anti = tuple((term.topology_key, namespaces.selection(term)) for term in terms.required_anti)
    near: _Sums = {}
    if required:
        column = table.pod_counts.column(reduce(_both, (selected for _, selected in required)))
        near = {key: domain_sums(table, key, column) for key, _ in required}
    apart: _Sums = {}
    for key, selected in required_anti:
        column = table.pod_counts.column(selected)
        if column.total:
            sums = domain_sums(table, key, column)
            apart[key] = apart[key] + sums if key in apart else sums
    return RequiredState(required, required_anti, labels, near, apart, repelling)


def selects(term: _Own, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a term of the waiting pod selects a pod with these labels."""
    return term[1].selects(namespace, labels, terminating=False)


def _both(one: PodSelection, other: PodSelection) -> PodSelection:
    """The pods that two selections have in common."""
    if one.namespaces is None or other.namespaces is None:
        namespaces = other.namespaces if one.namespaces is None else one.namespaces
    else:
        namespaces = one.namespaces & other.namespaces
    if one.selector.requirements is None or other.selector.requirements is None:
        return PodSelection(namespaces, NOTHING, terminating=True)
    selector = Selector((*one.selector.requirements, *other.selector.requirements))
    return PodSelection(namespaces, selector, terminating=True)


def judge_rows(state: RequiredState, pod: PodInfo, rows: Rows, table: NodeTable) -> Rejections:
    """int16, shape (len(rows),): the first rule that a node breaks, else 0."""
    found = np.zeros(len(rows), dtype=np.int8)
    for key in {**state.repelling, **state.apart}:
        # Settled by domain before it is looked up by node: the passes over all nodes are most of what a cycle costs.
        broken = _broken(state.repelling.get(key), state.apart.get(key))
        np.maximum(found, broken.take(table.label(key).codes_of(rows)), out=found)
    if state.required:
        found[~_near_enough(state, pod, rows, table)] = AFFINITY
    return found.astype(np.int16)


def _broken(repelling: Amounts | None, apart: Amounts | None) -> NDArray[np.int8]:
    """int8, by domain: which of the two rules that keep pods apart is broken there."""
    by_rule = [
        (sums > 0).view(np.int8) * np.int8(code)
        for sums, code in ((repelling, EXISTING_ANTI_AFFINITY), (apart, ANTI_AFFINITY))
        if sums is not None
    ]
    return reduce(np.maximum, by_rule)


def _near_enough(state: RequiredState, pod: PodInfo, rows: Rows, table: NodeTable) -> Mask:
    """bool, shape (len(rows),): where all affinity terms are met.

    The first of a group of pods that want to be near each other finds none, and may go anywhere.
    """
    own = pod.pod.metadata
    nobody_yet = not any(np.count_nonzero(sums) for sums in state.near.values())
    first = nobody_yet and all(selects(term, own.namespace, own.labels) for term in state.required)
    mask: Mask = np.ones(len(rows), dtype=np.bool_)
    for key, sums in state.near.items():
        met = np.ones(len(sums), dtype=np.bool_) if first else sums > 0
        met[ABSENT] = False
        mask &= met.take(table.label(key).codes_of(rows))
    return mask
