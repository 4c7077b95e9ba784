"""Random clusters and pods for rules between pods: few labels, namespaces and topologies, so that things meet often.

As in `tests.plugins.worlds`, nodes and pods come from pools that are made once.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_cluster, a_node, a_pod, a_term
from tests.plugins.relation_twins import HOSTNAME, Everything, Place
from tests.plugins.worlds import Maker

from berth.api.affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from berth.api.meta import ObjectMeta
from berth.api.node import Node, Taint
from berth.api.pod import Pod, Toleration, TopologySpreadConstraint
from berth.api.selectors import LabelSelector, SelectorRequirement
from berth.api.workloads import Namespace, PlainSelectorSpec, Service
from berth.cluster.kinds import NAMESPACE, SERVICE

if TYPE_CHECKING:
    from berth.cluster.cache import Cluster

NAMES = tuple(f"n{i}" for i in range(8))
NAMESPACES = {"default": {"team": "a"}, "blue": {"team": "b"}, "bare": {}}  # pods may also be of one that is not there
KEYS = ("topology.kubernetes.io/zone", HOSTNAME, "rack")
APPS = ("web", "web", "web", "db")
TIERS = ("x", "x", "y")


class RelationMaker(Maker):
    """Makes up pods that look at each other."""

    def selector(self) -> LabelSelector | None:
        expression = SelectorRequirement(
            key=self.one("app", "tier"), operator=self.one("In", "In", "NotIn"), values=(self.one(*APPS, *TIERS),)
        )
        presence = SelectorRequirement(
            key=self.one("app", "tier"), operator=self.one("Exists", "Exists", "DoesNotExist")
        )
        selectors = (
            None,
            LabelSelector(),
            *(LabelSelector(match_labels={"app": self.one(*APPS)}) for _ in range(9)),
            LabelSelector(match_labels={"app": self.one(*APPS), "tier": self.one(*TIERS)}),
            LabelSelector(match_expressions=(self.one(expression, presence),)),
        )
        chosen: LabelSelector | None = self.one(*selectors)
        return chosen

    def namespace_selector(self) -> LabelSelector | None:
        condition = SelectorRequirement(key="team", operator=self.one("In", "NotIn"), values=(self.one("a", "b"),))
        absent = SelectorRequirement(key="team", operator="DoesNotExist")
        by_labels = LabelSelector(match_expressions=(self.one(condition, absent),))
        chosen: LabelSelector | None = self.one(None, None, None, LabelSelector(), by_labels)
        return chosen

    def affinity_term(self) -> PodAffinityTerm:
        return PodAffinityTerm(
            label_selector=self.selector(),
            topology_key=self.one(*KEYS),
            namespaces=tuple(self.some(1, ("default", "blue"))) if self.one(True, False) else (),
            namespace_selector=self.namespace_selector(),
        )

    def pod_affinity(self) -> PodAffinity | None:
        if self.one(True, False):
            return None
        return PodAffinity(
            required_during_scheduling_ignored_during_execution=tuple(
                self.affinity_term() for _ in range(self.one(0, 1, 1, 2))
            ),
            preferred_during_scheduling_ignored_during_execution=tuple(
                WeightedPodAffinityTerm(weight=self.one(1, 10, 100), pod_affinity_term=self.affinity_term())
                for _ in range(self.one(0, 1, 2))
            ),
        )

    def constraint(self) -> TopologySpreadConstraint:
        return TopologySpreadConstraint(
            max_skew=self.one(1, 1, 1, 1, 2, 3),
            topology_key=self.one(*KEYS),
            when_unsatisfiable=self.one("DoNotSchedule", "ScheduleAnyway"),
            label_selector=self.selector(),
            min_domains=self.one(None, None, None, 1, 3),
            node_affinity_policy=self.one(None, "Honor", "Ignore"),
            node_taints_policy=self.one(None, "Honor", "Ignore"),
            match_label_keys=self.one(*[()] * 6, ("tier",), ("tier", "absent")),
        )

    def related_pod(self, *, spreads: bool, has_affinity: bool) -> Pod:
        labels = {
            key: self.one(*values) for key, values in (("app", APPS), ("tier", TIERS)) if self.one(*[True] * 7, False)
        }
        affinity = Affinity(
            node_affinity=self.one(
                *[None] * 9,
                NodeAffinity(
                    required_during_scheduling_ignored_during_execution=NodeSelector(
                        node_selector_terms=(a_term((self.one(*KEYS), "In", [self.one("1", "2", "n1")])),)
                    )
                ),
            ),
            pod_affinity=self.pod_affinity() if has_affinity else None,
            pod_anti_affinity=self.pod_affinity() if has_affinity else None,
        )
        return a_pod(
            "related",
            namespace=self.one(*["default"] * 9, "blue", "bare", "gone"),
            labels=labels,
            tolerations=[Toleration(key="team", operator="Exists")] if self.one(True, False) else [],
            metadata={"deletion_timestamp": self.one(*[None] * 9, "2020-01-01T00:00:00Z")},
            spec={
                "affinity": affinity,
                "topology_spread_constraints": tuple(
                    self.constraint() for _ in range(self.one(1, 1, 2, 3) if spreads else 0)
                ),
            },
        )

    def place(self) -> Node:
        present = [key for key in KEYS if key != HOSTNAME and self.one(*[True] * 11, False)]
        labels = {key: self.one("1", "2", "3") for key in present}
        if self.one(*[False] * 9, True):
            labels[self.one("rack", KEYS[0])] = ""
        return a_node(
            "n",
            labels=labels,
            taints=[Taint(key="team", effect=self.one("NoSchedule", "PreferNoSchedule"))] if self.one(0, 0, 1) else [],
        )


_MAKER = RelationMaker(seed=3)
PODS = [_MAKER.related_pod(spreads=True, has_affinity=True) for _ in range(400)]
SPREADING = [_MAKER.related_pod(spreads=True, has_affinity=False) for _ in range(400)]
PLAIN = [_MAKER.related_pod(spreads=False, has_affinity=False) for _ in range(60)]
NODES = [_MAKER.place() for _ in range(150)]


class RelationWorld(NamedTuple):
    """A cluster, the same as the twins see it, a pod that is to be judged, and nodes to judge it on, in some order."""

    cluster: Cluster
    everything: Everything
    pod: Pod
    names: list[str]


def everything_in(cluster: Cluster) -> Everything:
    table, objects = cluster.table, cluster.objects
    places: dict[str, Place] = {
        table.name(row): Place(table.node(row), tuple(info.pod for info in table.pods(row).values()))
        for row in table.live_rows().tolist()
    }
    return Everything(
        places,
        {each.metadata.name: each.metadata.labels for each in objects.list(NAMESPACE)},
        tuple((each.metadata.namespace, each.spec.selector or {}) for each in objects.list(SERVICE)),
    )


def placed(pod: Pod, number: int, node_name: str) -> Pod:
    """A pod of the pools as one of those that run."""
    metadata = replace(pod.metadata, name=f"placed-{number}", uid=f"uid-{number}")
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=node_name))


def _named(node: Node, name: str, *, with_hostname: bool) -> Node:
    labels = {**node.metadata.labels, **({HOSTNAME: name} if with_hostname else {})}
    return replace(node, metadata=replace(node.metadata, name=name, uid=f"uid-of-{name}", labels=labels))


@st.composite
def relation_worlds(draw: st.DrawFn, pool: list[Pod]) -> RelationWorld:
    """Up to eight nodes with up to 30 pods, some of which may be on a node that is not there.

    All follows from one number: left to choose by itself, Hypothesis prefers clusters in which nothing meets.
    """
    chance = random.Random(draw(st.integers(0, 2**32)))
    names = NAMES[: chance.choice((1, 3, 5, 8, 8))]
    many = chance.choice((0, 5, 15, 20, 30))
    nameless = chance.randrange(12)
    cluster = a_cluster(_named(chance.choice(NODES), name, with_hostname=i != nameless) for i, name in enumerate(names))
    for name, labels in NAMESPACES.items():
        cluster.objects.put(NAMESPACE, Namespace(metadata=ObjectMeta(name=name, labels=labels)))
    for i in range(chance.choice((0, 1, 1, 2))):
        selector = chance.choice(({"app": "web"}, {"app": "web"}, {"app": "web"}, {"tier": "x"}, {}))
        metadata = ObjectMeta(name=f"s{i}", namespace="default")
        cluster.objects.put(SERVICE, Service(metadata=metadata, spec=PlainSelectorSpec(selector=selector)))
    for number in range(many):
        cluster.add_pod(placed(chance.choice(pool), number, chance.choice((*names, *names, "unknown"))))
    pod = chance.choice(pool)
    waiting = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=None))
    order = chance.sample(names, chance.randint(1, len(names)))
    return RelationWorld(cluster, everything_in(cluster), waiting, order)
