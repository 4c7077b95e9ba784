"""What may let a pod in that PodTopologySpread rejected: matching pods that come or go, and nodes that change domains.

Only pods of the same namespace matter that have a node or were promised one, and the pod itself.

Source: k8s pkg/scheduler/framework/plugins/podtopologyspread/plugin.go, ``isSchedulableAfterPodChange`` and
``isSchedulableAfterNodeChange``.
"""

from collections.abc import Sequence
from typing import Any

from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.selectors import SelectorError
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Registration, Resource
from berth.framework.features import Behaviours
from berth.plugins.hints import optional, required
from berth.plugins.pod_topology_spread.constraints import HARD, Constraint, Constraints


class SpreadHints:
    """The hints of the plugin.

    Args:
        constraints: finds the constraints of pods.
        behaviours: which events there are.
    """

    def __init__(self, constraints: Constraints, behaviours: Behaviours) -> None:
        self._constraints = constraints
        self._behaviours = behaviours

    def registrations(self) -> Sequence[Registration]:
        """Pods that come, go or change their labels, new tolerations, and nodes that come, go or change place."""
        node = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        on_nodes = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        if self._behaviours.spread_hint_on_assigned_toleration:
            on_nodes |= Action.UPDATE_POD_TOLERATION
        own = Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        pods = (
            (ClusterEvent(Resource.ASSIGNED_POD, on_nodes), ClusterEvent(Resource.TARGET_POD, own))
            if self._behaviours.pod_hints_tell_own_from_others
            else (ClusterEvent(Resource.POD, on_nodes | own),)
        )
        return (
            *(Registration(event, self._for_pod, by_likeness=True) for event in pods),
            Registration(ClusterEvent(Resource.NODE, node), self._for_node, by_likeness=True),
        )

    def _hard(self, pod: PodInfo) -> tuple[Constraint, ...]:
        try:
            return self._constraints.of(pod.pod, HARD)
        except SelectorError as error:
            raise HintError(f"pod {pod.key}: topology spread constraints: {error}") from error

    def _for_pod(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = optional(Pod, old), optional(Pod, new)
        only = after if after is not None else required(Pod, old)
        if not all(_involved(each, pod.pod) for each in (before, after) if each is not None):
            return Hint.SKIP
        constraints = self._hard(pod)
        labels = only.metadata.labels
        if before is None or after is None:
            return _queue_if(any(each.selector.matches(labels) for each in constraints))
        tolerates_other = after.uid == pod.uid and before.spec.tolerations != after.spec.tolerations
        if tolerates_other and any(each.honors_taints for each in constraints):
            return Hint.QUEUE
        return _queue_if(any(_differs(each, before.metadata.labels, labels) for each in constraints))

    def _for_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = optional(Node, old), optional(Node, new)
        only = after if after is not None else required(Node, old)
        keys = [each.topology_key for each in self._hard(pod)]
        fits = _has_all(only, keys)
        if before is None or after is None:
            return _queue_if(fits)
        if _has_all(before, keys) != fits:
            return Hint.QUEUE
        moved = any(before.metadata.labels.get(key) != after.metadata.labels.get(key) for key in keys)
        return _queue_if(fits and (moved or before.spec.taints != after.spec.taints))


def _involved(other: Pod, pod: Pod) -> bool:
    if other.uid == pod.uid:
        return True
    placed = other.spec.node_name or other.status.nominated_node_name
    return bool(placed) and other.metadata.namespace == pod.metadata.namespace


def _differs(constraint: Constraint, was: dict[str, str], labels: dict[str, str]) -> bool:
    return constraint.selector.matches(was) != constraint.selector.matches(labels)


def _has_all(node: Node, keys: Sequence[str]) -> bool:
    return all(key in node.metadata.labels for key in keys)


def _queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP
