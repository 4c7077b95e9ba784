"""Random clusters in which an important pod asks what it would take to fit; few names, so that things meet often.

Everything follows from one number, so that a case can be told by it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace
from tests.builders import a_cluster, a_container, a_handle, a_node, a_port
from tests.conformance.settings import configuration
from tests.plugins.relation_worlds import PLAIN, PODS, SPREADING
from tests.plugins.storage_worlds import NODES, Maker

from berth.api.meta import ObjectMeta
from berth.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from berth.api.selectors import LabelSelector
from berth.api.workloads import Namespace
from berth.cluster.kinds import NAMESPACE, POD_DISRUPTION_BUDGET
from berth.config.versions import row_of
from berth.plugins.registry import IN_TREE
from berth.runtime.assembly import build_profiles
from berth.scheduling.algorithm import Algorithm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.cluster.pods import PodInfo

MINOR = "1.37"
PRIORITY = 10
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


@dataclass(frozen=True)
class PreemptionWorld:
    """A cluster, the pods that were promised its nodes, and the important pod."""

    cluster: Cluster
    promised: Mapping[str, Sequence[PodInfo]]
    pod: PodInfo

    def algorithm(self, cluster: Cluster | None = None) -> Algorithm:
        """The search of the default profile in the cluster, or in another one."""
        cluster = cluster or self.cluster
        profiles = build_profiles(configuration(MINOR, None), row_of(MINOR), a_handle(cluster, minor=MINOR), IN_TREE)
        return Algorithm(
            profiles["default-scheduler"],
            cluster,
            lambda name: self.promised.get(name, ()),
            nominated_nodes=self.promised.keys,
        )


def preemption_world(seed: int) -> PreemptionWorld:
    """Up to four nodes with up to 20 pods, some of which have volumes; budgets, and promises of nodes."""
    chance = random.Random(seed)
    maker = Maker(seed)
    cluster = maker.world() if chance.random() < 0.3 else a_cluster([maker.node(name) for name in NODES])
    for row in cluster.table.live_rows().tolist():
        node = cluster.table.node(row)
        labels = {**node.metadata.labels, HOSTNAME: node.metadata.name, ZONE: chance.choice("ab")}
        small = a_node(node.metadata.name, cpu=chance.choice("235"), pods=chance.choice(("3", "6", "9")), labels=labels)
        cluster.set_node(small)
    cluster.objects.put(NAMESPACE, Namespace(metadata=ObjectMeta(name="default", labels={"team": "a"})))
    for number in range(chance.choice((3, 8, 14, 20))):
        cluster.add_pod(
            _named(_pod(chance), f"p-{number}", chance.choice((0, 0, 3, 9, 20)), chance.choice(NODES), chance)
        )
    for number in range(chance.choice((0, 0, 1, 2))):
        cluster.objects.put(POD_DISRUPTION_BUDGET, _budget(chance, number))
    promised = {
        chance.choice(NODES): [
            cluster.info(_named(_plain(chance), f"hope-{i}", chance.choice((5, 10, 30)), "", chance))
        ]
        for i in range(chance.choice((0, 0, 1, 2)))
    }
    asker = _pod(chance)
    if chance.random() < 0.3:
        asker = replace(asker, spec=replace(asker.spec, volumes=maker.asker().spec.volumes))
    return PreemptionWorld(cluster, promised, cluster.info(_named(asker, "asker", PRIORITY, "", chance)))


def _pod(chance: random.Random) -> Pod:
    pool = chance.choice((PODS, SPREADING, PLAIN, PLAIN))
    return replace(
        chance.choice(pool), spec=replace(chance.choice(pool).spec, containers=_plain(chance).spec.containers)
    )


def _plain(chance: random.Random) -> Pod:
    ports = [a_port(chance.choice((80, 443)), ip=chance.choice(("", "10.0.0.1")))] if chance.random() < 0.3 else []
    container = a_container(cpu=chance.choice(("0", "300m", "500m", "1", "2")), ports=ports)
    pod = chance.choice(PLAIN)
    return replace(pod, spec=replace(pod.spec, containers=(container,), affinity=None))


def _named(pod: Pod, name: str, priority: int, node_name: str, chance: random.Random) -> Pod:
    metadata = replace(pod.metadata, name=name, uid=f"uid-{name}", deletion_timestamp=None)
    start = chance.choice((None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"))
    spec = replace(pod.spec, priority=priority, node_name=node_name)
    return replace(pod, metadata=metadata, spec=spec, status=replace(pod.status, start_time=start))


def _budget(chance: random.Random, number: int) -> PodDisruptionBudget:
    labels = chance.choice(({"app": "web"}, {"app": "db"}, {"tier": "x"}, {}))
    disrupted: dict[str, str | None] = {f"p-{chance.randrange(8)}": None} if chance.random() < 0.3 else {}
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=f"b{number}", namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels)),
        status=PodDisruptionBudgetStatus(disruptions_allowed=chance.choice((0, 1, 2)), disrupted_pods=disrupted),
    )
