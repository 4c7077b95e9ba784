"""NodeUnschedulable: a cordoned node takes only pods that tolerate the taint which stands for the cordon.

Points: Filter, and PreFilter where the version has it.  Rejects as unresolvable.  Woken by a node that can be scheduled
to and could not before, and by tolerations of the pod that help.  Takes no arguments.

Source: k8s pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from berth.api.node import Node, Taint
from berth.api.pod import Pod
from berth.api.tolerations import NO_SCHEDULE, tolerates
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import Status, unresolvable
from berth.plugins.hints import before_and_after, own_pod

REASON: Final = "node(s) were unschedulable"
CORDON: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable:
    """Looks at ``spec.unschedulable`` of nodes."""

    name = "NodeUnschedulable"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._own_pod = own_pod(handle.behaviours)
        self._comparison_operators = handle.gates.enabled("TaintTolerationComparisonOperators")
        self._rejected = unresolvable(REASON)

    def events_to_register(self) -> Sequence[Registration]:
        """Nodes that come or are uncordoned, and new tolerations of the pod."""
        node = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        return (
            Registration(node, self._hint_for_node, by_spec=True),
            Registration(ClusterEvent(self._own_pod, Action.UPDATE_POD_TOLERATION), self._hint_for_toleration),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The tolerations."""
        return pod.pod.spec.tolerations

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 for cordoned nodes, unless the pod tolerates the cordon."""
        del state
        cordoned = self._table.unschedulable[rows].astype(np.int16)
        if np.count_nonzero(cordoned) and self._tolerates_cordon(pod.pod):
            cordoned[:] = 0
        return cordoned

    def rejection(self, code: int) -> Status:
        """The one rejection there is."""
        del code
        return self._rejected

    def _tolerates_cordon(self, pod: Pod) -> bool:
        operators = self._comparison_operators
        return any(tolerates(t, CORDON, comparison_operators=operators) for t in pod.spec.tolerations)

    def _hint_for_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        del pod
        before, after = before_and_after(Node, old, new)
        was_closed = before is None or before.spec.unschedulable
        return Hint.QUEUE if was_closed and not after.spec.unschedulable else Hint.SKIP

    def _hint_for_toleration(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        _, changed = before_and_after(Pod, old, new)
        return Hint.QUEUE if changed.uid == pod.uid and self._tolerates_cordon(changed) else Hint.SKIP


class NodeUnschedulableWithPreFilter(NodeUnschedulable):
    """Besides, takes part in PreFilter."""

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Nothing to prepare, nothing to narrow."""
        del state, pod
        return PreFilterResult()


def make_node_unschedulable(handle: Handle) -> NodeUnschedulable:
    """The plugin in the form that this version of Kubernetes has."""
    kind = NodeUnschedulableWithPreFilter if handle.behaviours.node_plugins_run_prefilter else NodeUnschedulable
    return kind(handle)
