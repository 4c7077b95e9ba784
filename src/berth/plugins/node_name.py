"""NodeName: a pod that names its node goes there or nowhere.

Points: Filter, and PreFilter where the version has it.  Rejects as unresolvable.  Woken by any new node.  Takes no
arguments.

Source: k8s pkg/scheduler/framework/plugins/nodename/node_name.go.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.events import NODE_ADD, Registration
from berth.framework.handle import Handle
from berth.framework.interface import PreFilterResult, Rejections, Scope
from berth.framework.status import Status, unresolvable

REASON = "node(s) didn't match the requested node name"
_NO_ROW = -1


class NodeName:
    """Compares ``spec.nodeName`` with the names of the nodes."""

    name = "NodeName"
    scope = Scope.ROW
    ignores_pods: Final = True

    def __init__(self, handle: Handle) -> None:
        self._table = handle.cluster.table
        self._rejected = unresolvable(REASON)

    def events_to_register(self) -> Sequence[Registration]:
        """Any new node."""
        return (Registration(NODE_ADD),)

    def sign(self, pod: PodInfo) -> Hashable:
        """The node that the pod names."""
        return pod.pod.spec.node_name

    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> Rejections:
        """1 for every node but the one named."""
        del state
        wanted = pod.pod.spec.node_name
        if not wanted:
            return np.zeros(len(rows), dtype=np.int16)
        row = self._table.row_of(wanted)
        rejected: Rejections = (rows != (_NO_ROW if row is None else row)).astype(np.int16)
        return rejected

    def rejection(self, code: int) -> Status:
        """The one rejection there is."""
        del code
        return self._rejected


class NodeNameWithPreFilter(NodeName):
    """Besides, spares the other plugins all nodes but the one named."""

    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Narrows to the node that the pod names."""
        del state
        wanted = pod.pod.spec.node_name
        return PreFilterResult(node_names=frozenset((wanted,)) if wanted else None)


def make_node_name(handle: Handle) -> NodeName:
    """The plugin in the form that this version of Kubernetes has."""
    kind = NodeNameWithPreFilter if handle.behaviours.node_plugins_run_prefilter else NodeName
    return kind(handle)
