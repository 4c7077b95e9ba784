"""`Cluster`: nodes and pods as the scheduler believes them to be, with its own placements assumed until confirmed.

The engine writes here as events arrive and decisions are made; while a cycle runs nothing changes, so this live state
is the cycle's snapshot.  A pod that was placed by us is *assumed* until the API server shows it bound; a binding that
failed is *forgotten*.  There is no expiry: an assumed pod stays until it is confirmed, forgotten or deleted.

Source: k8s pkg/scheduler/backend/cache/cache.go.
"""

from dataclasses import dataclass

from berth.api.meta import NodeName, PodUid
from berth.api.node import Node
from berth.api.pod import Pod
from berth.api.requests import RequestRules
from berth.cluster.assumed import AssumeCache
from berth.cluster.device_claims import DeviceClaims
from berth.cluster.device_classes import DeviceClasses
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from berth.cluster.nodes import NodeTable
from berth.cluster.objects import Objects
from berth.cluster.pods import DEFAULT_RULES, PodInfo


class CacheError(Exception):
    """A change that contradicts what is believed: a fault of ours or an event out of order, never the user's."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod that counts on a node.

    Attributes:
        info: the pod as last stored.
        node_name: where it counts.
        assumed: whether only we believe it to be there, for now.
    """

    info: PodInfo
    node_name: NodeName
    assumed: bool


class Cluster:
    """The nodes, and the pods on them.

    Attributes:
        table: the nodes as columns.
        objects: everything that is neither pod nor node.
        assumed_volumes: persistent volumes, with what we have promised.
        assumed_claims: claims of persistent volumes, with the nodes that we have selected.
        device_claims: claims of devices, with what we have promised.
        device_classes: which classes of devices stand behind resource names.
        rules: how requests of placed pods are added up.
    """

    def __init__(self, rules: RequestRules = DEFAULT_RULES) -> None:
        self.table = NodeTable()
        self.objects = Objects()
        self.assumed_volumes = AssumeCache(self.objects, PERSISTENT_VOLUME)
        self.assumed_claims = AssumeCache(self.objects, PERSISTENT_VOLUME_CLAIM)
        self.device_claims = DeviceClaims(self.objects)
        self.device_classes = DeviceClasses(self.objects)
        self.rules = rules
        self._placed: dict[PodUid, PlacedPod] = {}
        self._assumed: set[PodUid] = set()

    def info(self, pod: Pod) -> PodInfo:
        """What follows from *pod* under this cluster's rules."""
        return PodInfo(pod, self.rules)

    def placed(self, uid: PodUid) -> PlacedPod | None:
        """The pod, if it counts on some node."""
        return self._placed.get(uid)

    def placed_uids(self) -> list[PodUid]:
        """The pods that count on some node, as of now."""
        return list(self._placed)

    def is_assumed(self, uid: PodUid) -> bool:
        """Whether the pod counts on a node only because we placed it there."""
        return uid in self._assumed

    def counts(self) -> dict[str, int]:
        """How many nodes, pods and assumed pods there are, by the reference's metric labels."""
        return {"nodes": len(self.table), "pods": len(self._placed), "assumed_pods": len(self._assumed)}

    def set_node(self, node: Node) -> None:
        """Record a node, new or changed.

        Raises:
            QuantityError: an allocatable amount is no quantity; nothing is changed then.
        """
        self.table.set_node(node)

    def remove_node(self, name: str) -> None:
        """Record that a node is gone; the pods on it count on, for the day it comes back.

        Raises:
            CacheError: there is no such node.
        """
        try:
            self.table.remove_node(name)
        except KeyError as error:
            raise CacheError(f"node {name} is not found") from error

    def assume(self, info: PodInfo, node_name: str) -> None:
        """Count a pod on the node that it was just placed on.

        Raises:
            CacheError: it counts somewhere already.
            QuantityError: an amount that it asks for is no quantity.
        """
        if info.uid in self._placed:
            raise CacheError(f"pod {_named(info)} is in the cache, so can't be assumed")
        self._place(info, node_name, assumed=True)

    def forget(self, info: PodInfo, node_name: str) -> None:
        """Take back an assumption; nothing happens if the pod counts nowhere.

        Raises:
            CacheError: it counts on another node, or is known to be bound.
        """
        placed = self._placed.get(info.uid)
        if placed is None:
            return
        if placed.node_name != node_name:
            raise CacheError(f"pod {_named(info)} was assumed on {node_name} but assigned to {placed.node_name}")
        if not placed.assumed:
            raise CacheError(f"pod {_named(info)} wasn't assumed so cannot be forgotten")
        self._displace(placed)

    def add_pod(self, pod: Pod) -> None:
        """Record that the API server shows *pod* bound: a new pod, or one of ours confirmed.

        Raises:
            CacheError: it was known to be bound already.
            QuantityError: an amount that it asks for is no quantity.
        """
        placed = self._placed.get(pod.uid)
        info = self.info(pod) if placed is None else placed.info.next(pod)
        if placed is None:
            self._place(info, pod.spec.node_name, assumed=False)
        elif placed.assumed:
            self._replace(placed, info, pod.spec.node_name)
        else:
            raise CacheError(f"pod {_named(info)} was already in added state")

    def update_pod(self, pod: Pod) -> None:
        """Record another version of a bound pod; one that moved counts on its new node.

        Raises:
            CacheError: it is not known to be bound.
            QuantityError: an amount that it asks for is no quantity.
        """
        placed = self._placed.get(pod.uid)
        info = self.info(pod) if placed is None else placed.info.next(pod)
        if placed is None:
            raise CacheError(f"pod {_named(info)} is not added to scheduler cache, so cannot be updated")
        if placed.assumed:
            raise CacheError(f"assumed pod {_named(info)} should not be updated")
        self._replace(placed, info, pod.spec.node_name)

    def remove_pod(self, pod: Pod) -> None:
        """Record that a bound (or assumed) pod is gone.

        Raises:
            CacheError: it counts nowhere.
        """
        placed = self._placed.get(pod.uid)
        if placed is None:
            raise CacheError(
                f"pod {_named(self.info(pod))} is not found in scheduler cache, so cannot be removed from it"
            )
        self._displace(placed)

    def validate(self) -> None:
        """Check that the columns are the sum of the pods; for tests and self-audits.

        Raises:
            CacheError: they are not.
        """
        fresh = NodeTable()
        for placed in self._placed.values():
            fresh.add_pod(placed.info, placed.node_name)
        names = {placed.node_name for placed in self._placed.values()}
        names.update(self.table.name(row) for row in self.table.live_rows().tolist())
        for name in sorted(names):
            mine, theirs = self.table.usage(name), fresh.usage(name)
            if mine != theirs:
                raise CacheError(f"node {name}: counted {mine}, the pods add up to {theirs}")
        if self._assumed != {uid for uid, placed in self._placed.items() if placed.assumed}:
            raise CacheError("the set of assumed pods is not that of the pods marked as assumed")
        total = int(self.table.pod_count.sum())
        if total != len(self._placed):
            raise CacheError(f"{total} pods are counted on nodes, {len(self._placed)} are known")
        if faults := self.table.relation_faults():
            raise CacheError("; ".join(faults))

    def _place(self, info: PodInfo, node_name: str, *, assumed: bool) -> None:
        self.table.add_pod(info, node_name)
        self._placed[info.uid] = PlacedPod(info, NodeName(node_name), assumed)
        if assumed:
            self._assumed.add(info.uid)

    def _replace(self, placed: PlacedPod, info: PodInfo, node_name: str) -> None:
        if placed.node_name == node_name and self.table.swap_pod(info, node_name):
            self._placed[info.uid] = PlacedPod(info, placed.node_name, assumed=False)
            self._assumed.discard(info.uid)
            return
        _ = info.taken, info.taken_non_zero  # a faulty amount is noticed before anything is changed
        self._displace(placed)
        self._place(info, node_name, assumed=False)

    def _displace(self, placed: PlacedPod) -> None:
        self.table.remove_pod(placed.info.uid, placed.node_name)
        del self._placed[placed.info.uid]
        self._assumed.discard(placed.info.uid)


def _named(info: PodInfo) -> str:
    return f"{info.uid}({info.key})"
