"""What lets a pod in that InterPodAffinity rejected, and is overlooked by the reference's hints.

Pods for which such an event comes wait there until they are flushed, for five minutes.  A node that comes, or moves to
another domain, helps a pod that was kept away by terms of others only; and pods of namespaces that a term selects by
their labels are wanted, or in the way, like any others.

Asked besides `berth.plugins.inter_pod_affinity.hints`; see `berth.framework.interface.FurtherEvents`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_affinity import AffinityTerm, pod_affinity_terms
from berth.cluster.nodes import NodeTable
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from berth.plugins.hints import before_and_after, optional
from berth.plugins.inter_pod_affinity.namespaces import Namespaces


class OverlookedEvents:
    """Hints that know what there is.

    Args:
        table: the pods on nodes, and their terms.
        namespaces: the labels of namespaces.
    """

    def __init__(self, table: NodeTable, namespaces: Namespaces) -> None:
        self._table, self._namespaces = table, namespaces

    def registrations(self) -> Sequence[Registration]:
        """Pods on nodes that come, go or change their labels, and nodes that come or change theirs."""
        pods = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE)
        nodes = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return Registration(pods, self._for_pod, by_likeness=True), Registration(
            nodes, self._for_node, by_likeness=True
        )

    def _for_pod(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = optional(Pod, old), optional(Pod, new)
        terms = pod.affinity_terms
        came = (
            after is not None and self._is_wanted(terms.required, after) and not self._is_wanted(terms.required, before)
        )
        left = self._is_in_the_way(terms.required_anti, before) and not self._is_in_the_way(terms.required_anti, after)
        return Hint.QUEUE if came or left or (after is None and self._kept_away(pod, before)) else Hint.SKIP

    def _is_wanted(self, terms: Sequence[AffinityTerm], other: Pod | None) -> bool:
        return bool(terms) and other is not None and all(self._selects(term, other) for term in terms)

    def _is_in_the_way(self, terms: Iterable[AffinityTerm], other: Pod | None) -> bool:
        return other is not None and any(self._selects(term, other) for term in terms)

    def _kept_away(self, pod: PodInfo, other: Pod | None) -> bool:
        """Whether terms of another pod select this one."""
        if other is None or other.spec.affinity is None:
            return False
        theirs = pod_affinity_terms(other.spec.affinity, other.metadata.namespace)
        return any(self._selects(term, pod.pod) for term in theirs.required_anti)

    def _selects(self, term: AffinityTerm, other: Pod) -> bool:
        meta = other.metadata
        return term.matches(meta.namespace, meta.labels, self._namespaces.labels(meta.namespace))

    def _for_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        namespace_labels = self._namespaces.labels(pod.pod.metadata.namespace)
        keys = self._table.carried_terms.repelling(pod, namespace_labels).keys()
        before, after = before_and_after(Node, old, new)
        if before is None:
            return Hint.QUEUE if keys else Hint.SKIP
        was, labels = before.metadata.labels, after.metadata.labels
        return Hint.QUEUE if any(key in was and was[key] != labels.get(key) for key in keys) else Hint.SKIP
