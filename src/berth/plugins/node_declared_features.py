"""NodeDeclaredFeatures: what a pod needs of its kubelet must be among the features that the node declares.

Points: PreFilter (sits out for pods that need none), Filter.  Rejects as unresolvable.  Woken by new nodes, by nodes
whose features change, and by a change of what the pod itself needs.  Takes no arguments; without the gate
NodeDeclaredFeatures it has nothing to say.

What a pod needs follows from its spec alone.  Of the features that nodes may declare, two can be needed by a pod that
is to be placed; the others matter to a pod that is resized where it runs.

Source: k8s pkg/scheduler/framework/plugins/nodedeclaredfeatures/nodedeclaredfeatures.go and
component-helpers/nodedeclaredfeatures; KEP-5328.
"""

from collections.abc import Hashable, Sequence
from typing import Any, Final

import numpy as np

from berth.api.node import Node
from berth.api.pod import Pod
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.events import Action, ClusterEvent, Hint, Registration, Resource
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import SKIP, PluginError, Status, unresolvable
from berth.plugins.hints import before_and_after, own_pod, required

REASON: Final = "node(s) didn't match Pod's required features"
RESTART_ALL: Final = "RestartAllContainersOnContainerExits"
HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"

_RESTART_ALL_CONTAINERS: Final = "RestartAllContainers"
_SITS_OUT: Final = PreFilterResult(SKIP)
_GOES_ON: Final = PreFilterResult()
_NEEDED: Final = StateKey[frozenset[str]]("PreFilterNodeDeclaredFeatures")
_NOTHING: Final = frozenset[str]()


def needed_features(pod: Pod) -> frozenset[str]:
    """The features without which a kubelet cannot run *pod*.

    Source:
        k8s component-helpers/nodedeclaredfeatures/features.
    """
    spec = pod.spec
    needed = _NOTHING
    if spec.host_network and spec.host_users is False:
        needed |= {HOST_NETWORK}
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            rules = container.restart_policy_rules
            if rules and any(rule.action == _RESTART_ALL_CONTAINERS for rule in rules):
                return needed | {RESTART_ALL}
    return needed


class NodeDeclaredFeatures:
    """Compares the features that nodes declare with those that the pod needs."""

    name = "NodeDeclaredFeatures"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._enabled = handle.gates.enabled("NodeDeclaredFeatures")
        self._own_pod = own_pod(handle.behaviours)
        self._rejected = unresolvable(REASON)

    def events_to_register(self) -> Sequence[Registration]:
        """Nodes that come or declare other features, and changes of the pod itself."""
        if not self._enabled:
            return ()
        node_event = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE)
        return (
            Registration(node_event, _hint_for_node),
            Registration(ClusterEvent(self._own_pod, Action.UPDATE), _hint_for_pod),
        )

    def sign(self, pod: PodInfo) -> Hashable:
        """The features that it needs."""
        return needed_features(pod.pod)

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Skip if the pod needs no feature."""
        needed = needed_features(pod.pod) if self._enabled else _NOTHING
        if not needed:
            return _SITS_OUT
        state.write(_NEEDED, needed)
        return _GOES_ON

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 where the node lacks a feature.

        Raises:
            PluginError: PreFilter was not run.
        """
        del pod
        if not self._enabled:
            return np.zeros(len(rows), dtype=np.int16)
        try:
            needed = state.read(_NEEDED)
        except StateNotFoundError as error:
            raise PluginError(error.args[0]) from error
        declared = (self._table.node(row).status.declared_features for row in rows.tolist())
        return np.fromiter((not needed.issubset(features) for features in declared), dtype=np.int16, count=len(rows))

    def rejection(self, code: int) -> Status:
        """The one rejection there is."""
        del code
        return self._rejected


def _hint_for_node(pod: PodInfo, old: Any, new: Any) -> Hint:
    del pod
    before, after = before_and_after(Node, old, new)
    unchanged = before is not None and before.status.declared_features == after.status.declared_features
    return Hint.SKIP if unchanged else Hint.QUEUE


def _hint_for_pod(pod: PodInfo, old: Any, new: Any) -> Hint:
    before, after = required(Pod, old), required(Pod, new)
    if after.uid != pod.uid:
        return Hint.SKIP
    return Hint.SKIP if needed_features(before) == needed_features(after) else Hint.QUEUE
