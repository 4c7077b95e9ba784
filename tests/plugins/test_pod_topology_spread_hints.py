"""What may let a pod in that PodTopologySpread rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace
from tests.builders import a_cluster, a_handle, a_node, a_pod
from tests.plugins.judging import hinted
from tests.plugins.spread_builders import BAR, FAULTY, RACK, ZONE, a_waiting_pod, evenly

from berth.api.node import Taint
from berth.api.pod import Toleration
from berth.framework.events import Action, ClusterEvent, Hint, HintError, Resource
from berth.plugins.pod_topology_spread.plugin import PodTopologySpread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster


def spreading(cluster: Cluster, minor: str = "1.37") -> PodTopologySpread:
    return PodTopologySpread(None, a_handle(cluster, minor=minor))


ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
RELABEL = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
OWN_LABEL = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL)
OWN_TOLERATION = ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)
NODE = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
TAINTED = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)

WAITING = a_waiting_pod(evenly(), evenly(RACK))
HONORING = a_waiting_pod(evenly(node_taints_policy="Honor"), evenly(RACK))
SELECTING = a_waiting_pod(evenly(), evenly(RACK, selector=BAR))
MATCHING, OTHER = a_pod("m", on="a", labels={"foo": "1"}), a_pod("m", on="a", labels={"baz": ""})
BOTH = a_node("n", labels={ZONE: "z1", RACK: "1"})
TOLERANT = Toleration(key="team", operator="Exists")


def own(pod: Pod, labels: Mapping[str, str] | None = None, *, tolerant: bool = False) -> Pod:
    metadata = pod.metadata if labels is None else replace(pod.metadata, labels=dict(labels))
    return replace(pod, metadata=metadata, spec=replace(pod.spec, tolerations=(TOLERANT,) if tolerant else ()))


HINTS: Mapping[str, tuple[Pod, ClusterEvent, Any, Any, Hint]] = {
    "a matching pod came": (WAITING, ADD, None, MATCHING, Hint.QUEUE),
    "a pod came that one of two constraints selects": (SELECTING, ADD, None, MATCHING, Hint.QUEUE),
    "another pod came": (WAITING, ADD, None, OTHER, Hint.SKIP),
    "a matching pod without a node came": (WAITING, ADD, None, a_pod("m", labels={"foo": ""}), Hint.SKIP),
    "a matching pod of another namespace came": (
        WAITING, ADD, None, a_pod("m", on="a", namespace="other", labels={"foo": ""}), Hint.SKIP,
    ),
    "a matching pod went": (WAITING, DELETE, MATCHING, None, Hint.QUEUE),
    "a matching pod went that was promised a node": (
        WAITING, DELETE, a_pod("m", nominated="a", labels={"foo": ""}), None, Hint.QUEUE,
    ),
    "another pod went": (WAITING, DELETE, OTHER, None, Hint.SKIP),
    "a pod began to match": (WAITING, RELABEL, OTHER, MATCHING, Hint.QUEUE),
    "a pod began to match one of two constraints": (SELECTING, RELABEL, OTHER, MATCHING, Hint.QUEUE),
    "a pod began to match as it got a node": (WAITING, RELABEL, a_pod("m"), MATCHING, Hint.SKIP),
    "a pod ceased to match": (WAITING, RELABEL, MATCHING, OTHER, Hint.QUEUE),
    "a pod matches in another way": (
        WAITING, RELABEL, MATCHING, a_pod("m", on="a", labels={"foo": "2"}), Hint.SKIP,
    ),
    "the pod itself matches no more": (WAITING, OWN_LABEL, WAITING, own(WAITING, {"baz": ""}), Hint.QUEUE),
    "the pod itself has another label": (WAITING, OWN_LABEL, WAITING, own(WAITING, {"foo": "", "x": ""}), Hint.SKIP),
    "the pod itself tolerates more, and taints are honored": (
        HONORING, OWN_TOLERATION, HONORING, own(HONORING, tolerant=True), Hint.QUEUE,
    ),
    "the pod itself has another label, and taints are honored": (
        HONORING, OWN_LABEL, HONORING, own(HONORING, {"foo": "", "x": ""}), Hint.SKIP,
    ),
    "the pod itself tolerates more, and taints are ignored": (
        WAITING, OWN_TOLERATION, WAITING, own(WAITING, tolerant=True), Hint.SKIP,
    ),
    "a node with all labels came": (WAITING, NODE_ADD, None, BOTH, Hint.QUEUE),
    "a node with some labels came": (WAITING, NODE_ADD, None, a_node("n", labels={ZONE: "z1"}), Hint.SKIP),
    "a node with all labels went": (WAITING, NODE_DELETE, BOTH, None, Hint.QUEUE),
    "a node with some labels went": (WAITING, NODE_DELETE, a_node("n", labels={RACK: "1"}), None, Hint.SKIP),
    "a node got the last label": (WAITING, NODE, a_node("n", labels={ZONE: "z1"}), BOTH, Hint.QUEUE),
    "a node lost a label": (WAITING, NODE, BOTH, a_node("n", labels={ZONE: "z1"}), Hint.QUEUE),
    "a node moved": (WAITING, NODE, BOTH, a_node("n", labels={ZONE: "z2", RACK: "1"}), Hint.QUEUE),
    "a node has another label": (WAITING, NODE, BOTH, a_node("n", labels={ZONE: "z1", RACK: "1", "x": ""}), Hint.SKIP),
    "a node moved that lacks a label": (
        WAITING, NODE, a_node("n", labels={ZONE: "z1"}), a_node("n", labels={ZONE: "z2"}), Hint.SKIP,
    ),
    "a node with all labels has other taints": (
        WAITING, TAINTED, BOTH, replace(BOTH, spec=replace(BOTH.spec, taints=(Taint(key="x"),))), Hint.QUEUE,
    ),
    "a node with some labels has other taints": (
        WAITING, TAINTED, a_node("n", labels={ZONE: "z1"}), a_node("n", labels={ZONE: "z1"}, taints=[Taint(key="x")]),
        Hint.SKIP,
    ),
    "for a pod without constraints, any node came": (a_waiting_pod(), NODE_ADD, None, a_node("n"), Hint.QUEUE),
}  # fmt: skip


@pytest.mark.parametrize(("pod", "event", "old", "new", "want"), HINTS.values(), ids=HINTS.keys())
def test_what_may_help_a_rejected_pod(pod: Pod, event: ClusterEvent, old: Any, new: Any, want: Hint) -> None:
    cluster = a_cluster()
    assert hinted(spreading(cluster), event, cluster, pod, old, new) is want


def test_tolerations_of_assigned_pods_are_told_in_older_versions_only() -> None:
    event, cluster = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_TOLERATION), a_cluster()
    for waiting in (WAITING, HONORING):
        arguments = cluster, waiting, MATCHING, own(MATCHING, tolerant=True)
        assert hinted(spreading(cluster, minor="1.36"), event, *arguments) is Hint.SKIP
        assert hinted(spreading(cluster), event, *arguments) is None


def test_pods_that_come_and_go_and_the_pod_itself_are_told_in_older_versions_too() -> None:
    own_label = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL)
    for event, old, new in ((ADD, None, MATCHING), (DELETE, MATCHING, None), (own_label, WAITING, own(WAITING, {}))):
        cluster = a_cluster()
        assert hinted(spreading(cluster, minor="1.36"), event, cluster, WAITING, old, new) is Hint.QUEUE


def test_a_hint_about_a_faulty_selector_cannot_tell() -> None:
    cluster = a_cluster()
    with pytest.raises(HintError, match="topology spread constraints"):
        hinted(spreading(cluster), ADD, cluster, a_waiting_pod(evenly(selector=FAULTY)), None, MATCHING)
