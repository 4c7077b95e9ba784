"""`World`: the cluster of one vector, and what each pod leaves behind in it.

Built from the manifests of a scenario or hint document on the core's own structures.  Objects of kinds that the core
does not know are left out.

A pod goes where the reference put it, never where we would, so that one difference does not spoil the rest.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from tests.conformance.records import Outcome

from berth.api.dra import EXTENDED_RESOURCE_CLAIM, ResourceClaim, ResourceClaimStatus
from berth.api.meta import PodKey
from berth.api.node import Node
from berth.api.pod import Pod
from berth.cluster import kinds
from berth.cluster.cache import Cluster
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.features import Features
from berth.queueing.nominator import Nominator
from berth.runtime.assembly import request_rules

POD: Final = msgspec.json.Decoder(Pod)

_KINDS: Final[dict[str, Kind[Any]]] = {kind.name: kind for kind in kinds.ALL}
_TYPED: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "Pod": POD,
    "Node": msgspec.json.Decoder(Node),
    **{kind.name: msgspec.json.Decoder(kind.type) for kind in kinds.ALL},
}
_OTHER: Final = msgspec.json.Decoder(dict[str, Any])

_DEALLOCATED: Final = "deallocation of ResourceClaim completed"
_DELETED: Final = "deletion of ResourceClaim completed"


class _Meta(msgspec.Struct):
    name: str
    namespace: str = ""


class _Head(msgspec.Struct):
    kind: str
    metadata: _Meta


_HEAD: Final = msgspec.json.Decoder(_Head)


def decoded(kind: str, raw: msgspec.Raw) -> Any:
    """A manifest as the core knows its kind, which may have its group in front; as plain JSON where it does not."""
    return _TYPED.get(kind.rpartition("/")[2], _OTHER).decode(raw)


class World:
    """A cluster as one vector describes it.

    Attributes:
        cluster: its nodes, and the pods on them.
        nominator: the waiting pods that were promised a node.
    """

    def __init__(self, objects: Iterable[msgspec.Raw], own: Features) -> None:
        self.cluster = Cluster(request_rules(own))
        self._pods: dict[PodKey, Pod] = {}
        self.nominator = Nominator(self._pods.get)
        headed = [(_HEAD.decode(raw), raw) for raw in objects]
        headed.sort(key=lambda pair: (pair[0].metadata.namespace, pair[0].metadata.name))
        for head, raw in headed:
            self._add(head, raw)

    def arrive(self, pod: Pod) -> PodInfo:
        """A pod without a node is there, and asks for one."""
        info = self.cluster.info(pod)
        self._pods[pod.key] = pod
        self.nominator.add(info)
        return info

    def follow(self, info: PodInfo, recorded: Outcome) -> None:
        """Let happen to the pod, and because of it, what happened in the reference.

        Raises:
            ValueError: a claim was given up, and it is not clear which.
        """
        if recorded.chosen:
            self._place(info.pod, recorded.chosen)
        if recorded.nominated_node:
            self._displace_nominations(recorded.nominated_node, info.priority)
        reasons = recorded.post_filter.reasons if recorded.post_filter else ()
        if _DEALLOCATED in reasons:
            self._deallocate(info.pod)
        if _DELETED in reasons:
            self._delete_special_claim(info.pod)

    def _add(self, head: _Head, raw: msgspec.Raw) -> None:
        thing = decoded(head.kind, raw)
        if isinstance(thing, Node):
            self.cluster.set_node(thing)
        elif isinstance(thing, Pod):
            self._add_pod(thing)
        elif head.kind in _KINDS:
            self.cluster.objects.put(_KINDS[head.kind], thing)

    def _add_pod(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._pods[pod.key] = pod
            self.cluster.add_pod(pod)
        else:
            self.arrive(pod)

    def _place(self, pod: Pod, node_name: str) -> None:
        self.nominator.delete(pod.uid)
        spec, status = replace(pod.spec, node_name=node_name), replace(pod.status, phase="Running")
        self._add_pod(replace(pod, spec=spec, status=status))

    def _displace_nominations(self, node_name: str, priority: int) -> None:
        """Who is less important than the pod that preempts on a node loses the promise of it."""
        for other in self.nominator.pods_on(node_name):
            if other.priority < priority:
                self.nominator.delete(other.uid)
                pod = self._pods[other.key]
                self._pods[other.key] = replace(pod, status=replace(pod.status, nominated_node_name=""))

    def _deallocate(self, pod: Pod) -> None:
        objects, namespace = self.cluster.objects, pod.metadata.namespace
        names = (entry.resource_claim_name or "" for entry in pod.spec.resource_claims)
        mine = [claim for name in names if (claim := objects.get(kinds.RESOURCE_CLAIM, name, namespace)) is not None]
        allocated = [claim for claim in mine if claim.status.allocation is not None]
        if len(allocated) != 1:
            raise ValueError(f"pod {pod.key} gave up one of {len(allocated)} allocated claims, and which is unknown")
        objects.put(kinds.RESOURCE_CLAIM, replace(allocated[0], status=ResourceClaimStatus()))

    def _delete_special_claim(self, pod: Pod) -> None:
        objects, namespace = self.cluster.objects, pod.metadata.namespace
        special = [each for each in objects.list(kinds.RESOURCE_CLAIM, namespace) if _is_special_claim_of(each, pod)]
        if len(special) != 1:
            raise ValueError(f"pod {pod.key} gave up one of {len(special)} special claims, and which is unknown")
        objects.remove(kinds.RESOURCE_CLAIM, special[0].metadata.name, namespace)


def _is_special_claim_of(claim: ResourceClaim, pod: Pod) -> bool:
    owners = (owner.uid for owner in claim.metadata.owner_references)
    return claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true" and pod.uid in owners
