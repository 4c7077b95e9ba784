"""Random clusters with storage, and random changes of them: few names, so that things meet often.

Everything follows from one number, so that a case can be told by it.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from tests.builders import a_cluster, a_node, a_term
from tests.storage import (
    KIND_OF,
    a_capacity,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod_with,
    a_volume,
    an_attachment,
    claim,
    ebs,
    ephemeral,
    gce,
)

from berth.api.pod import Pod
from berth.api.selectors import LabelSelector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth.api.affinity import NodeSelectorTerm
    from berth.api.node import Node
    from berth.api.pod import Volume
    from berth.api.storage import (
        CsiDriver,
        CsiNode,
        CsiStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        VolumeAttachment,
    )
    from berth.cluster.cache import Cluster

NODES = ("n0", "n1", "n2", "n3")
CLAIMS = ("c0", "c1", "c2", "c3", "asker-scratch", "p0-scratch")
VOLUMES = ("v0", "v1", "v2", "v3")
FREE = ("f0", "f1", "f2", "f3", "f4", "f5")
CLASSES = ("s0", "s1", "s2")
DRIVERS = ("disks.example.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io")
PROVISIONERS = (DRIVERS[0], "kubernetes.io/aws-ebs", "kubernetes.io/no-provisioner")
KEYS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "disk",
)

seeds = st.integers(0, 2**32 - 1)


class Maker:
    """Makes things up."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def one(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def rarely(self, *choices: Any) -> Any:
        """One of the choices, seldom; None else."""
        return self.one(*choices) if self._random.random() < 0.15 else None

    def labels(self, *values: str) -> dict[str, str]:
        return {key: self.one(*values) for key in self._random.sample(KEYS, self.one(0, 1, 2))}

    def node(self, name: str = "") -> Node:
        return a_node(name or self.one(*NODES), labels=self.labels("a", "b"))

    def volumes(self) -> list[Volume]:
        found: dict[str, Volume] = {}
        for _ in range(self.one(0, 1, 1, 2, 3)):
            volume = self.one(
                claim(self.one(*CLAIMS[:4])),
                claim(self.one(*CLAIMS[:4])),
                claim(self.one(*CLAIMS)),
                ephemeral("scratch"),
                gce(self.one("a", "b"), read_only=self.one(True, False)),
                ebs(self.one("a", "b")),
            )
            found.setdefault(volume.name, volume)
        return list(found.values())

    def asker(self) -> Pod:
        return a_pod_with(*self.volumes(), name="asker")

    def asker_for_claims(self) -> Pod:
        names = self._random.sample(CLAIMS[:4], self.one(1, 1, 2, 3))
        return a_pod_with(*map(claim, names), *self.one([], [], [ephemeral("scratch")]), name="asker")

    def pod(self) -> Pod:
        return a_pod_with(*self.volumes(), name=self.one("p0", "p1", "p2", "p3", "p4", "p5"), on=self.one(*NODES))

    def claim(self, name: str = "", *, unbound: bool = False) -> PersistentVolumeClaim:
        name = name or self.one(*CLAIMS)
        maker = name.removesuffix("-scratch")
        owner = a_pod_with(name=maker) if maker != name and self.one(True, True, True, False) else None
        return a_claim(
            name,
            volume="" if unbound else self.one("", *VOLUMES, *VOLUMES, "gone"),
            class_name=self.one(*CLASSES) if unbound else self.one(None, *CLASSES, *CLASSES, "gone"),
            modes=self.one(["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteOncePod"]),
            size=self.one(None, "1Gi", "2Gi", "3Gi"),
            selector=self.rarely(LabelSelector(match_labels={"disk": "a"})),
            volume_mode=self.rarely("Filesystem", "Block"),
            attributes_class=self.rarely("", "fast"),
            selected_node=(self.rarely(*NODES) or "") if unbound else "",
            owner=owner,
        )

    def term(self) -> NodeSelectorTerm:
        return a_term((self.one(*KEYS), self.one("In", "In", "In", "NotIn", "Exists"), [self.one("a", "b")]))

    def free_volume(self, name: str = "") -> PersistentVolume:
        """A volume that a claim could have; volumes of different names have different sizes."""
        name = name or self.one(*FREE)
        claimed_by = self.rarely(a_claim(self.one(*CLAIMS)))
        return a_volume(
            name,
            size=f"{1000 * self.one(1, 2, 3) + FREE.index(name)}Mi",
            class_name=self.one(*CLASSES),
            labels=self.labels("a", "b"),
            on=self.one(None, [self.term()], [self.term(), self.term()]),
            modes=self.one(["ReadWriteOnce"], ["ReadWriteOnce", "ReadWriteOncePod"]),
            volume_mode=self.rarely("Filesystem", "Block"),
            attributes_class=self.rarely("", "fast"),
            claimed_by=claimed_by,
            claim_uid=self.one(None, "", "another"),
            phase=self.rarely("Released") or "Available",
            deleting=self.rarely(True) is not None,
        )

    def capacity(self) -> CsiStorageCapacity:
        """A capacity that is always of the same class."""
        number = self.one(0, 1, 2, 3)
        return a_capacity(
            f"room-{number}",
            class_name=CLASSES[number % 2],
            capacity=self.one(None, "500Mi", "2Gi", "10Gi", "100Gi"),
            maximum=self.one(None, None, "500Mi", "5Gi"),
            topology=self.one(
                None, LabelSelector(), *(LabelSelector(match_labels={key: value}) for key in KEYS for value in "ab")
            ),
        )

    def waiting_class(self, name: str = "") -> StorageClass:
        topologies = self.one((), (), (), [{self.one(*KEYS): ["a"]}], [{self.one(*KEYS): ["a", "b"]}, {}])
        provisioner = self.one(DRIVERS[0], DRIVERS[0], DRIVERS[1], "kubernetes.io/no-provisioner")
        return a_class(name or self.one(*CLASSES), provisioner=provisioner, topologies=topologies)

    def volume(self, name: str = "") -> PersistentVolume:
        by_driver = {"driver": self.one(*DRIVERS), "handle": self.one("h0", "h1", "h2")}
        amazon = {"source": {"aws_elastic_block_store": ebs("a").aws_elastic_block_store}}
        google = {"source": {"gce_persistent_disk": gce("a").gce_persistent_disk}}
        source = self.one(by_driver, by_driver, by_driver, amazon, google, {})
        return a_volume(name or self.one(*VOLUMES), labels=self.labels("a", "b", "a__b", "a__"), **source)

    def storage_class(self, name: str = "") -> StorageClass:
        return a_class(name or self.one(*CLASSES), provisioner=self.one(*PROVISIONERS))

    def csi_node(self, name: str = "") -> CsiNode:
        limits = {driver: self.one(None, 0, 1, 1, 2, 3) for driver in self._random.sample(DRIVERS, self.one(1, 2, 3))}
        return a_csi_node(name or self.one(*NODES), limits, migrated=self.one(None, None, "kubernetes.io/aws-ebs"))

    def csi_driver(self, name: str = "") -> CsiDriver:
        name = name or self.one(*DRIVERS)
        return a_csi_driver(name, prevents=self.one(None, False, True), capacity=self.one(None, False, True, True))

    def attachment(self) -> VolumeAttachment:
        volume = self.one(None, *VOLUMES, "gone")
        return an_attachment(
            self.one("a0", "a1", "a2"), node=self.one(*NODES), attacher=self.one(*DRIVERS), volume=volume
        )

    def thing(self) -> Any:
        makers = (self.node, self.pod, self.pod, self.pod, self.claim, self.claim, self.volume, self.volume)
        rare = (self.storage_class, self.csi_node, self.csi_driver, self.attachment)
        return self.one(*makers, *rare)()

    def world(self) -> Cluster:
        """A cluster that has almost everything."""
        cluster = a_cluster([self.node(name) for name in NODES])
        for thing in self._all_things():
            if self._random.random() < 0.9:
                take(cluster, thing, goes=False)
        return cluster

    def changes(self, cluster: Cluster) -> Iterator[None]:
        """What happens to the cluster, one thing after the other."""
        for _ in range(self.one(0, 3, 8)):
            take(cluster, self.thing(), goes=self.one(True, False, False))
            yield

    def world_of_waiting_claims(self) -> Cluster:
        """A cluster with claims that wait for their first pod, and what they may get."""
        cluster = a_cluster([self.node(name) for name in NODES])
        things = [
            *map(self.waiting_class, CLASSES),
            *(self.claim(name, unbound=self.one(True, True, False)) for name in CLAIMS),
            *map(self.volume, VOLUMES),
            *map(self.free_volume, FREE),
            *(self.capacity() for _ in range(5)),
            *map(self.csi_driver, DRIVERS),
            *map(self.csi_node, NODES),
        ]
        for thing in things:
            take(cluster, thing, goes=False)
        return cluster

    def changes_of_waiting_claims(self, cluster: Cluster) -> Iterator[None]:
        """As `changes`, in such a cluster."""
        makers = (
            self.node,
            lambda: self.claim(unbound=True),
            self.free_volume,
            self.free_volume,
            self.capacity,
            self.waiting_class,
            self.csi_driver,
            self.csi_node,
        )
        for _ in range(self.one(0, 3, 8)):
            take(cluster, self.one(*makers)(), goes=self.one(True, False, False, False))
            yield

    def _all_things(self) -> Iterator[Any]:
        yield from map(self.claim, CLAIMS)
        yield from map(self.volume, VOLUMES)
        yield from map(self.storage_class, CLASSES)
        yield from map(self.csi_node, NODES)
        yield from map(self.csi_driver, DRIVERS)
        yield from (self.attachment() for _ in range(3))
        yield from (self.pod() for _ in range(6))


def take(cluster: Cluster, thing: Any, *, goes: bool) -> None:
    """A thing comes, changes, or goes if it is there."""
    if isinstance(thing, Pod):
        placed = cluster.placed(thing.uid)
        if goes and placed is not None:
            cluster.remove_pod(thing)
        elif not goes:
            (cluster.add_pod if placed is None else cluster.update_pod)(thing)
        return
    kind = KIND_OF.get(type(thing))
    if kind is not None:
        if goes:
            cluster.objects.remove(kind, thing.metadata.name, thing.metadata.namespace)
        else:
            cluster.objects.put(kind, thing)
        return
    there = cluster.table.row_of(thing.metadata.name) is not None
    if goes and there and len(cluster.table) > 1:
        cluster.remove_node(thing.metadata.name)
    elif not goes:
        cluster.set_node(thing)
