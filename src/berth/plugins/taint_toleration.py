"""TaintToleration: keeps pods off nodes whose hard taints they do not tolerate, and prefers nodes with few soft ones.

Points: Filter, PreScore, Score (normalized, few is good), and PreFilter where the version has it.  Rejects as
unresolvable: evicting pods never removes a taint.  Woken by a node whose hard taints have become tolerable, and by any
change of the pod's tolerations.  Takes no arguments.

Source: k8s pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from berth.api.node import Node, Taint
from berth.api.pod import Pod, Toleration
from berth.api.tolerations import DO_NOT_SCHEDULE, PREFER_NO_SCHEDULE, tolerates
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope, Scores
from berth.framework.status import SUCCESS, PluginError, Status, unresolvable
from berth.plugins.hints import before_and_after, own_pod
from berth.plugins.normalize import scale

REASON: Final = "node(s) had untolerated taint(s)"
_SOFT_TOLERATIONS: Final = StateKey[tuple[Toleration, ...]]("PreScoreTaintToleration")


class TaintToleration:
    """Looks at the taints of nodes, once per distinct set of them."""

    name = "TaintToleration"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._own_pod = own_pod(handle.behaviours)
        self._comparison_operators = handle.gates.enabled("TaintTolerationComparisonOperators")
        self._rejected = unresolvable(REASON)

    def events_to_register(self) -> Sequence[Registration]:
        """Nodes that come or lose taints, and new tolerations of the pod."""
        node = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT)
        return (
            Registration(node, self._hint_for_node, by_spec=True),
            Registration(ClusterEvent(self._own_pod, Action.UPDATE_POD_TOLERATION), self._hint_for_toleration),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The tolerations."""
        return pod.pod.spec.tolerations

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 where some hard taint of the node is not tolerated."""
        del state
        tolerations = pod.pod.spec.tolerations
        return self._table.taints.mask(lambda taints: self._repels(tolerations, taints), rows).astype(np.int16)

    def rejection(self, code: int) -> Status:
        """The one rejection there is."""
        del code
        return self._rejected

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Picks the tolerations that soft taints can be covered by; never sits out."""
        del rows
        soft = tuple(t for t in pod.pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        state.write(_SOFT_TOLERATIONS, soft)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """How many soft taints of each node are not tolerated.

        Raises:
            PluginError: PreScore was not run.
        """
        del pod
        try:
            soft = state.read(_SOFT_TOLERATIONS)
        except StateNotFoundError as error:
            raise PluginError(error.args[0]) from error
        return self._table.taints.numbers(lambda taints: self._soft_count(soft, taints), rows)

    def normalize(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        """100 for the nodes with the fewest, unless all have some; 0 for those with the most."""
        del state, pod
        return scale(scores, reverse=True)

    def _tolerated(self, tolerations: Sequence[Toleration], taint: Taint) -> bool:
        operators = self._comparison_operators
        return any(tolerates(t, taint, comparison_operators=operators) for t in tolerations)

    def _repels(self, tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> bool:
        return any(taint.effect in DO_NOT_SCHEDULE and not self._tolerated(tolerations, taint) for taint in taints)

    def _soft_count(self, tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> int:
        return sum(taint.effect == PREFER_NO_SCHEDULE and not self._tolerated(tolerations, taint) for taint in taints)

    def _hint_for_node(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        before, after = before_and_after(Node, old, new)
        tolerations = pod.pod.spec.tolerations
        was_repelled = before is None or self._repels(tolerations, before.spec.taints)
        return Hint.QUEUE if was_repelled and not self._repels(tolerations, after.spec.taints) else Hint.SKIP

    def _hint_for_toleration(self, pod: PodInfo, old: Any, new: Any) -> Hint:
        _, changed = before_and_after(Pod, old, new)
        return Hint.QUEUE if changed.uid == pod.uid else Hint.SKIP


class TaintTolerationWithPreFilter(TaintToleration):
    """Besides, takes part in PreFilter."""

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Nothing to prepare, nothing to narrow."""
        del state, pod
        return PreFilterResult()


def make_taint_toleration(handle: Handle) -> TaintToleration:
    """The plugin in the form that this version of Kubernetes has."""
    kind = TaintTolerationWithPreFilter if handle.behaviours.node_plugins_run_prefilter else TaintToleration
    return kind(handle)
