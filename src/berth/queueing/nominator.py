"""`Nominator`: which node a waiting pod hopes for, because pods are making room for it there.

A nomination comes from the pod's status, or from a preemption of ours before the API server has heard of it.  The
queue keeps the book up to date; the cycles ask it which pods to reckon with on a node.

Source: k8s pkg/scheduler/backend/queue/nominator.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from berth.api.meta import NodeName

if TYPE_CHECKING:
    from collections.abc import Callable, KeysView

    from berth.api.meta import PodKey, PodUid
    from berth.api.pod import Pod
    from berth.cluster.pods import PodInfo

_LONGEST_LOG: Final = 8192


class Nominator:
    """At most one node per pod; the pods of a node in the order of their nominations."""

    def __init__(self, lister: Callable[[PodKey], Pod | None]) -> None:
        self._lister = lister
        self._node_of: dict[PodUid, NodeName] = {}
        self._on_node: dict[NodeName, dict[PodUid, PodInfo]] = {}
        self._log: list[NodeName] = []  # the nodes of the latest changes
        self._trimmed = 0  # how many changes before them are not in the log any more

    def __len__(self) -> int:
        """How many pods are nominated."""
        return len(self._node_of)

    def add(self, info: PodInfo, nominated_node_name: str | None = None) -> None:
        """Note where a pod hopes to go, in place of what was noted before.

        Pods that the API server no longer shows, or shows with a node, are not noted.

        Args:
            info: the pod.
            nominated_node_name: the node; empty for none, None for what the pod's status says.
        """
        self.delete(info.uid)
        name = info.pod.status.nominated_node_name if nominated_node_name is None else nominated_node_name
        if not name:
            return
        listed = self._lister(info.key)
        if listed is None or listed.spec.node_name:
            return
        node_name = NodeName(name)
        self._node_of[info.uid] = node_name
        self._on_node.setdefault(node_name, {})[info.uid] = info
        self._touch(node_name)

    def update(self, old: Pod | None, info: PodInfo) -> None:
        """Follow an update of a waiting pod; a nomination that only we know of stays."""
        before = old.status.nominated_node_name if old is not None else ""
        kept = None
        if not before and not info.pod.status.nominated_node_name:
            kept = self._node_of.get(old.uid if old is not None else info.uid)
        if old is not None:
            self.delete(old.uid)
        self.add(info, kept)

    def delete(self, uid: PodUid) -> None:
        """Forget the nomination of a pod, if there is one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._on_node[node_name]
        del pods[uid]
        if not pods:
            del self._on_node[node_name]
        self._touch(node_name)

    @property
    def version(self) -> int:
        """Grows with every change, so that whoever derives something from the book knows when to look again."""
        return self._trimmed + len(self._log)

    def touched_since(self, version: int) -> frozenset[NodeName] | None:
        """The nodes that pods began or ceased to hope for since then; None if that is too long ago to tell."""
        start = version - self._trimmed
        return None if start < 0 else frozenset(self._log[start:])

    def node_of(self, uid: PodUid) -> NodeName | None:
        """Where a pod hopes to go."""
        return self._node_of.get(uid)

    def nodes(self) -> KeysView[NodeName]:
        """The nodes that some pod hopes for."""
        return self._on_node.keys()

    def pods(self) -> list[PodInfo]:
        """All pods that hope for a node, node by node."""
        return [info for on_node in self._on_node.values() for info in on_node.values()]

    def pods_on(self, node_name: str) -> list[PodInfo]:
        """The pods that hope for a node, in the order of their nominations; also those in flight."""
        return list(self._on_node.get(NodeName(node_name), {}).values())

    def _touch(self, node_name: NodeName) -> None:
        self._log.append(node_name)
        if len(self._log) > _LONGEST_LOG:
            cut = len(self._log) // 2
            del self._log[:cut]
            self._trimmed += cut
