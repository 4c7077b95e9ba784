"""Random clusters and pods for the property tests: few names and values, so that things meet often.

Nodes and pods come from pools that are made once, from a fixed seed; Hypothesis chooses among them, and so finds the
few that matter when something differs.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from hypothesis import strategies as st
from tests.builders import a_cluster, a_container, a_node, a_pod, a_port, a_term
from tests.plugins.twins import NodeView

from berth.api.node import Node, Taint
from berth.api.pod import ContainerRestartRule, ImageVolumeSource, Pod, ResourceRequirements, Toleration, Volume

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.api.affinity import NodeSelectorTerm
    from berth.api.pod import Container
    from berth.cluster.cache import Cluster

KEYS = ("zone", "disk", "size")
VALUES = ("a", "b", "3", "07", "-5")  # the last is no label value, so that a term with it is faulty
IMAGES = ("nginx", "nginx:1", "host:5000/app", "host:5000/app:latest", "db@sha256:0")
REPORTED = ("nginx:latest", "nginx:1", "host:5000/app:latest", "db@sha256:0")
ANY = "0.0.0.0"  # noqa: S104 - the wildcard of host ports
MIB = 2**20
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Unheard")
GPU, DONGLE, HUGE = "example.com/gpu", "vendor.io/dongle", "hugepages-2Mi"


class World(NamedTuple):
    """A cluster, a pod that is to be judged, and the nodes to judge it on, in some order."""

    cluster: Cluster
    pod: Pod
    names: list[str]

    def views(self) -> list[NodeView]:
        """What the twins look at, for each of the nodes to judge."""
        table = self.cluster.table
        nodes = tuple(table.node(row) for row in table.live_rows().tolist())
        rows = [table.row_of(name) for name in self.names]
        return [NodeView(table.node(row), tuple(table.pods(row).values()), nodes) for row in rows if row is not None]


CPUS = ("0", "100m", "1", "1500m", "3", "64")
AMOUNTS = ("0", "1", "128Mi", "1Gi", "7Gi", "90P", "5E", "1e30")
COUNTS = ("0", "1", "2", "8")
NODE_NAMES = tuple(f"n{i}" for i in range(16))


class Maker:
    """Makes things up."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def some(self, most: int, choices: Sequence[Any]) -> list[Any]:
        return [self._random.choice(choices) for _ in range(self._random.randint(0, most))]

    def amounts(self, *always: str) -> dict[str, str]:
        choices = {
            "cpu": CPUS,
            "memory": AMOUNTS,
            "ephemeral-storage": AMOUNTS,
            GPU: COUNTS,
            DONGLE: COUNTS,
            HUGE: COUNTS,
        }
        often = self._random.random()
        named = [name for name in choices if name in always or self._random.random() < often]
        return {name: self.one(*choices[name]) for name in named}

    def term(self) -> NodeSelectorTerm:
        operators = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")
        labels = [(self.one(*KEYS), self.one(*operators), self.some(2, VALUES)) for _ in range(self.one(0, 1, 1, 2))]
        fields = [
            (self.one("metadata.name", "metadata.uid"), self.one("In", "NotIn"), [self.one(*NODE_NAMES)])
            for _ in range(self.one(0, 0, 1))
        ]
        return a_term(*labels, fields=fields)

    def valid_term(self) -> NodeSelectorTerm:
        valid = VALUES[:-1]
        labels = [
            (self.one(*KEYS), self.one("In", "NotIn"), [self.one(*valid), *self.some(2, valid)])
            for _ in range(self.one(1, 2))
        ]
        return a_term(*labels)

    def toleration(self) -> Toleration:
        return Toleration(
            key=self.one("", "team", "node.kubernetes.io/unschedulable"),
            operator=self.one("", "Equal", "Exists", "Gt"),
            value=self.one("", "a", "5"),
            effect=self.one("", "NoSchedule", "NoExecute", "PreferNoSchedule"),
        )

    def container(self, name: str, *, init: bool = False) -> Container:
        ports = [
            a_port(self.one(80, 443), ip=self.one("", ANY, "10.0.0.1", "::"), protocol=self.one("TCP", "UDP"))
            for _ in range(self.one(0, 0, 1, 2))
        ]
        container = a_container(
            name, image=self.one(*IMAGES), requests=self.amounts(), ports=ports, sidecar=init and self.one(True, False)
        )
        rules = tuple(map(ContainerRestartRule, self.some(1, ("Restart", "RestartAllContainers"))))
        return msgspec.structs.replace(container, restart_policy_rules=rules)

    def pod(self, name: str) -> Pod:
        wishes = [(self.one(0, 1, 50, 100), self.valid_term()) for _ in range(self.one(0, 1, 3))]
        volume = Volume(name="v", image=ImageVolumeSource(reference=self.one(*IMAGES)))
        at_pod_level = ResourceRequirements(requests=self.amounts())
        return a_pod(
            name,
            containers=[self.container(f"c{i}") for i in range(self.one(1, 2))],
            init_containers=[self.container(f"i{i}", init=True) for i in range(self.one(0, 0, 1, 2))],
            node_selector=self.one(None, None, {}, {self.one(*KEYS): self.one(*VALUES)}),
            required=self.one(None, [self.term() for _ in range(self.one(0, 1, 2))]),
            preferred=self.one(None, wishes),
            tolerations=[self.toleration() for _ in range(self.one(0, 1, 3))],
            spec={
                "resources": self.one(None, None, at_pod_level),
                "volumes": self.one((), (volume,)),
                "host_network": self.one(True, False),
                "host_users": self.one(None, True, False),
            },
        )

    def node(self, name: str) -> Node:
        effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
        keys = ("team", "node.kubernetes.io/unschedulable")
        return a_node(
            name,
            allocatable={**self.amounts("cpu", "memory"), "pods": self.one("0", "1", "2", "110")},
            labels={self.one(*KEYS): self.one(*VALUES) for _ in range(self.one(0, 1, 3))},
            taints=[
                Taint(key=self.one(*keys), value=self.one("", "a", "7"), effect=self.one(*effects))
                for _ in range(self.one(0, 1, 2))
            ],
            unschedulable=self.one(True, False),
            images=[
                ([self.one(*REPORTED), *self.some(1, REPORTED)], self.one(0, 10 * MIB, 300 * MIB, 5000 * MIB))
                for _ in range(self.one(0, 1, 3))
            ],
            status={"declared_features": tuple(self.some(3, FEATURES))},
        )


_MAKER = Maker(seed=20)
TERM_POOL = [_MAKER.valid_term() for _ in range(40)]
POD_POOL = [_MAKER.pod("judged") for _ in range(300)]
NODE_POOL = [_MAKER.node("n0") for _ in range(200)]

terms = st.sampled_from(TERM_POOL)
pods = st.sampled_from(POD_POOL)


def _placed(pod: Pod, number: int, node_name: str) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, name=f"placed-{number}", uid=f"uid-{number}")
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


def _named(node: Node, name: str) -> Node:
    return msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, name=name))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Up to sixteen nodes with a few pods on them; some or all are to be judged, in any order."""
    chosen = draw(st.lists(st.sampled_from(NODE_POOL), min_size=1, max_size=len(NODE_NAMES)))
    names = NODE_NAMES[: len(chosen)]
    cluster = a_cluster([_named(node, name) for node, name in zip(chosen, names, strict=True)])
    for number, (pod, name) in enumerate(draw(st.lists(st.tuples(pods, st.sampled_from(names)), max_size=6))):
        cluster.add_pod(_placed(pod, number, name))
    order = draw(st.permutations(names))
    return World(cluster, draw(pods), order[: draw(st.integers(0, len(order)))])
