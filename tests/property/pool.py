"""A handful of pods and nodes that get into each other's way in every respect that plugins look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_container, a_node, a_pod, a_port, a_term

from berth.api.meta import ObjectMeta
from berth.api.node import Node, Taint
from berth.api.pod import Toleration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod

NODE_NAMES: Final = tuple(f"n{number:02}" for number in range(12))
FEW_NODES: Final = st.sampled_from(NODE_NAMES[:4])  # so that most steps meet
ANY_NODE: Final = st.sampled_from(NODE_NAMES)
GI: Final = 2**30

_SSD: Final = {"disk": "ssd"}
_HARD: Final = Toleration(key="team", operator="Equal", value="a", effect="NoSchedule")
_ALL: Final = Toleration(operator="Exists")
_IN_ZONE_A: Final = a_term(("zone", "In", ["a"]))
_NAMED: Final = [a_term(fields=[("metadata.name", "In", [name])]) for name in NODE_NAMES]
_FAST: Final = a_term(("speed", "Gt", ["5"]))

# Kinds of pods; those of one kind are alike.
KINDS: Final[Mapping[str, Pod]] = {
    "asks for nothing": a_pod(),
    "small": a_pod(cpu="500m", memory="256Mi"),
    "small, and lonely": a_pod(cpu="500m", memory="256Mi", labels={"lonely": ""}),
    "large": a_pod(cpu="3", memory="3Gi"),
    "larger than any node": a_pod(cpu="99"),
    "with a device": a_pod(requests={"example.com/gpu": "1"}),
    "with a device that nobody has": a_pod(requests={"example.com/none": "1"}),
    "with a start-up": a_pod(cpu="100m", init_containers=[a_container("init", cpu="2")]),
    "with a sidecar": a_pod(
        cpu="100m", init_containers=[a_container("side", cpu="1", ports=[a_port(9)], sidecar=True)]
    ),
    "on port 80": a_pod(ports=[a_port(80)]),
    "on port 80 of one address": a_pod(ports=[a_port(80, ip="10.0.0.1")]),
    "on two ports": a_pod(ports=[a_port(80, protocol="UDP"), a_port(443)]),
    "wants a fast disk": a_pod(node_selector=_SSD),
    "wants a zone or speed": a_pod(required=[_IN_ZONE_A, _FAST]),
    "wants one of two nodes": a_pod(
        required=[a_term(fields=[("metadata.name", "In", [name])]) for name in NODE_NAMES[:2]]
    ),
    "wants any node but one": a_pod(required=[a_term(fields=[("metadata.name", "NotIn", [NODE_NAMES[0]])])]),
    "prefers a zone, and speed": a_pod(preferred=[(10, _IN_ZONE_A), (3, _FAST)]),
    "tolerates a team": a_pod(tolerations=[_HARD]),
    "tolerates everything": a_pod(tolerations=[_ALL], cpu="1"),
    "knows its images": a_pod(containers=[a_container("a", image="db:1"), a_container("b", image="cache")]),
    "has no amounts": a_pod(cpu="much"),
}

kinds = st.sampled_from(sorted(KINDS))
SOUND_KINDS: Final = sorted(set(KINDS) - {"has no amounts"})
sound_kinds = st.sampled_from(SOUND_KINDS)

_TAINTS: Final = (
    Taint(key="team", value="a", effect="NoSchedule"),
    Taint(key="team", value="b", effect="NoExecute"),
    Taint(key="slow", effect="PreferNoSchedule"),
    Taint(key="old", effect="PreferNoSchedule"),
)
_IMAGES: Final = ((("db:1", "db@sha256:0"), GI), (("cache:latest",), GI // 2), (("db:1",), GI), (("other:2",), 1))


@st.composite
def nodes(draw: st.DrawFn, names: st.SearchStrategy[str] = FEW_NODES) -> Node:
    """A node that is ordinary in most respects: large or small, labelled, tainted, cordoned, with images."""
    return named_node(VARIETIES[draw(st.integers(0, len(VARIETIES) - 1))], draw(names))


_LABELS: Final = {"disk": "ssd", "zone": "a", "speed": "9", "topology.kubernetes.io/zone": "east"}
_USUAL: Final = {"cpu": "4", "memory": "4Gi", "pods": "110", "example.com/gpu": "2"}
VARIETIES: Final = (
    a_node(allocatable=_USUAL, labels=_LABELS),
    a_node(allocatable=_USUAL, labels=_LABELS, images=_IMAGES[:2]),
    a_node(allocatable=_USUAL, labels=_LABELS, images=_IMAGES[2:]),
    a_node(allocatable=_USUAL, labels={"disk": "hdd", "zone": "b", "speed": "fast"}),
    a_node(allocatable=_USUAL, labels={"disk": "ssd", "speed": "3", "topology.kubernetes.io/zone": "west"}),
    a_node(allocatable=_USUAL, taints=_TAINTS[:1], labels=_LABELS),
    a_node(allocatable=_USUAL, taints=_TAINTS[1:2]),
    a_node(allocatable=_USUAL, taints=_TAINTS[2:3], labels=_LABELS),
    a_node(allocatable=_USUAL, taints=_TAINTS[2:], labels=_LABELS),
    a_node(allocatable=_USUAL, unschedulable=True),
    a_node(allocatable={**_USUAL, "pods": "2"}, labels=_LABELS),
    a_node(allocatable={**_USUAL, "pods": "0"}),
    a_node(allocatable={"cpu": "1", "memory": "1Gi", "pods": "4"}, labels=_LABELS),
    a_node(allocatable={"cpu": "500m", "memory": "4Gi", "pods": "110"}),
)


def named_node(node: Node, name: str) -> Node:
    """A node of the kind of *node*."""
    return replace(node, metadata=replace(node.metadata, name=name))


def an_ordinary_node(name: str) -> Node:
    """A node that fits many pods of most kinds."""
    return a_node(name, allocatable=_USUAL, labels=_LABELS)


def roomy_node(name: str) -> Node:
    """A node that every sound pod fits which is there alone, whatever it asks for."""
    offered = {"cpu": "200", "memory": "1Ti", "pods": "110", "example.com/gpu": "9", "example.com/none": "9"}
    return a_node(name, allocatable=offered, labels={"disk": "ssd", "zone": "a", "speed": "9"})


def named(pod: Pod, name: str, uid: str, *, priority: int = 0, nominated: str = "", on: str = "") -> Pod:
    """A pod of the kind of *pod*."""
    return replace(
        pod,
        metadata=ObjectMeta(name=name, namespace="default", uid=uid, labels=pod.metadata.labels),
        spec=replace(pod.spec, priority=priority, node_name=on),
        status=replace(pod.status, nominated_node_name=nominated),
    )
