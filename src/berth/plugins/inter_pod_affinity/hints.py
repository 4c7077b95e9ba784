"""What may let a pod in that InterPodAffinity rejected: pods that it wants come, pods in its way go, domains change.

Only pods that have a node or were promised one matter, and the pod itself.  Namespace selectors are not looked up here:
they are held against no labels at all.

Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, ``isSchedulableAfterPodChange`` and
``isSchedulableAfterNodeChange``.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.pod_affinity import (
    AffinityTerm,
    PodAffinityTerms,
    TermKind,
    matches_all,
    matches_any,
    pod_affinity_terms,
)
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Registration, Resource
from berth.framework.features import Behaviours
from berth.plugins.hints import before_and_after, optional, required


class AffinityHints:
    """The hints of the plugin.

    Args:
        behaviours: which events there are, and which pods stand in the way of an anti-affinity.
    """

    def __init__(self, behaviours: Behaviours) -> None:
        self._tell_own = behaviours.pod_hints_tell_own_from_others
        self._in_the_way: Callable[[Iterable[AffinityTerm], Pod], bool] = (
            _any_selects if behaviours.anti_affinity_hint_any_term else _all_select
        )

    def registrations(self) -> Sequence[Registration]:
        """Pods that come, go or change their labels, and nodes that come or change theirs."""
        others = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        pods = (
            (ClusterEvent(Resource.ASSIGNED_POD, others), ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL))
            if self._tell_own
            else (ClusterEvent(Resource.POD, others),)
        )
        return (
            *(Registration(event, self._for_pod, by_likeness=True) for event in pods),
            Registration(
                ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self._for_node, by_likeness=True
            ),
        )

    def _for_pod(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = optional(Pod, old), optional(Pod, new)
        only = after if after is not None else required(Pod, old)
        if before is not None and after is not None and after.uid == pod.uid:
            return Hint.QUEUE
        if not all(_is_placed(each) for each in (before, after) if each is not None):
            return Hint.SKIP
        wanted, unwanted = _wanted(pod), _unwanted(pod.key, pod.affinity_terms)
        if before is not None and after is not None:
            came = not _all_select(wanted, before) and _all_select(wanted, after)
            return _queue_if(came or (self._in_the_way(unwanted, before) and not self._in_the_way(unwanted, after)))
        if after is not None:
            return _queue_if(_all_select(wanted, after))
        theirs = pod_affinity_terms(only.spec.affinity, only.metadata.namespace)
        if self._in_the_way(unwanted, only):
            return Hint.QUEUE
        return _queue_if(self._in_the_way(_unwanted(only.key, theirs), pod.pod))

    def _for_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = before_and_after(Node, old, new)
        was = {} if before is None else before.metadata.labels
        labels = after.metadata.labels
        if any(key in labels and was.get(key) != labels[key] for key in _keys(_wanted(pod))):
            return Hint.QUEUE
        unwanted = _keys(_unwanted(pod.key, pod.affinity_terms))
        if before is None:
            return _queue_if(bool(unwanted))
        return _queue_if(any(key in was and was[key] != labels.get(key) for key in unwanted))


def _wanted(pod: PodInfo) -> tuple[AffinityTerm, ...]:
    """The required affinity terms of *pod*.

    Raises:
        HintError: one cannot be parsed.
    """
    _refuse(pod.key, pod.affinity_terms, TermKind.REQUIRED_AFFINITY)
    return pod.affinity_terms.required


def _unwanted(key: str, terms: PodAffinityTerms) -> tuple[AffinityTerm, ...]:
    """The required anti-affinity terms of the pod *key*.

    Raises:
        HintError: one cannot be parsed.
    """
    _refuse(key, terms, TermKind.REQUIRED_ANTI_AFFINITY)
    return terms.required_anti


def _refuse(key: str, terms: PodAffinityTerms, kind: TermKind) -> None:
    for faulty, fault in terms.faults:
        if faulty is kind:
            raise HintError(f"pod {key}: {kind.value}: {fault}")


def _keys(terms: Iterable[AffinityTerm]) -> set[str]:
    return {term.topology_key for term in terms}


def _is_placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def _all_select(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    return matches_all(terms, pod.metadata.namespace, pod.metadata.labels)


def _any_selects(terms: Iterable[AffinityTerm], pod: Pod) -> bool:
    return matches_any(terms, pod.metadata.namespace, pod.metadata.labels)


def _queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP
