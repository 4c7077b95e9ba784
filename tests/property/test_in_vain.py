"""Whatever happens, no pod waits for an event that has come: each that some node would take is tried again.

The plugins of a default profile, all but preemption.  Nothing is flushed for having waited long.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pytest
from msgspec.structs import replace
from tests.builders import a_handle
from tests.property.wishes import (
    DEVICE_CLAIMS,
    NODES,
    TEAMS,
    VOLUME_CLAIMS,
    metadata,
    some_node,
    some_pod,
)
from tests.scheduling.worlds import DEFAULT, a_world

from berth.cluster import kinds
from berth.cluster.cache import Cluster
from berth.framework.cycle_state import CycleState
from berth.framework.status import error
from berth.plugins.registry import IN_TREE
from berth.scheduling.algorithm import Algorithm, Found
from berth.scheduling.instructions import Bind

if TYPE_CHECKING:
    from berth.api.dra import ResourceClaim
    from berth.api.pod import Pod
    from berth.cluster.objects import Kind

STEPS: Final = 40
LONGEST_BACKOFF_S: Final = 11
FAILS: Final = 0.2  # of the bindings
PLUGINS: Final = (
    *("SchedulingGates", "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts"),
    *("NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    *("PodTopologySpread", "InterPodAffinity", "DynamicResources", "NodeDeclaredFeatures"),
)


class Walk:
    """A scheduler, and an API server at which anything happens; everything comes from the seed."""

    def __init__(self, seed: int, minor: str) -> None:
        self.chance = random.Random(seed)
        self.cluster = Cluster()
        handle = a_handle(self.cluster, minor=minor)
        made = [IN_TREE[name](None, handle) for name in PLUGINS]
        self.world = a_world(*made, nodes=(), cluster=self.cluster, minor=minor)
        self.objects: dict[tuple[str, str, str], Any] = {}
        self.bindings: list[Bind] = []
        self.versions = itertools.count(1)
        for namespace, team in TEAMS.items():
            self.put(kinds.NAMESPACE, self.metadata(namespace, labels={"team": team}))
        self.put(kinds.STORAGE_CLASS, self.metadata("sc"), provisioner="x", volumeBindingMode="Immediate")
        self.put(kinds.DEVICE_CLASS, self.metadata("gpu"), spec={})

    # -- objects ----------------------------------------------------------------------------------------------------

    def put(self, kind: Kind[Any], meta: dict[str, Any], **fields: Any) -> None:
        """Create or replace an object."""
        new = msgspec.convert({"metadata": meta, **fields}, kind.type)
        key = (kind.name, meta["namespace"], meta["name"])
        old, self.objects[key] = self.objects.get(key), new
        if old is None:
            self.world.engine.object_added(kind, new)
        else:
            self.world.engine.object_updated(kind, old, new)

    def metadata(self, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
        return metadata(next(self.versions), name, namespace, **more)

    def remove(self, kind: Kind[Any], name: str, namespace: str = "") -> None:
        if (old := self.objects.pop((kind.name, namespace, name), None)) is not None:
            self.world.engine.object_deleted(kind, old)

    def put_claim(self, name: str) -> None:
        bound = self.chance.random() < 0.7
        marks = {"pv.kubernetes.io/bind-completed": "yes"} if bound else {}
        mode = "ReadWriteOncePod" if name == VOLUME_CLAIMS[0] else "ReadWriteOnce"
        spec = {"storageClassName": "sc", "accessModes": [mode], "resources": {"requests": {"storage": "1"}}}
        meta = self.metadata(name, "default", annotations=marks)
        self.put(kinds.PERSISTENT_VOLUME_CLAIM, meta, spec={**spec, "volumeName": f"v{name}" if bound else ""})

    def put_volume(self, name: str) -> None:
        zone = self.chance.choice("xy")
        expression = {"key": "zone", "operator": "In", "values": [zone]}
        terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        spec = {
            "storageClassName": "sc",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1"},
            "csi": {"driver": "driver", "volumeHandle": name},
            "claimRef": {"name": name, "namespace": "default", "uid": f"uid-of-default-{name}"},
            **({"nodeAffinity": terms} if self.chance.random() < 0.7 else {}),
        }
        labels = {"topology.kubernetes.io/zone": zone} if self.chance.random() < 0.3 else {}
        self.put(kinds.PERSISTENT_VOLUME, self.metadata(f"v{name}", labels=labels), spec=spec)

    def put_device_claim(self, name: str, allocation: Any = None, users: tuple[Any, ...] = ()) -> None:
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1 + (name == DEVICE_CLAIMS[0])}
        spec = {"devices": {"requests": [{"name": "req", "exactly": exactly}]}}
        status = {"reservedFor": users, **({"allocation": allocation} if allocation else {})}
        self.put(kinds.RESOURCE_CLAIM, self.metadata(name, "default"), spec=spec, status=status)

    def put_slice(self, node: str) -> None:
        devices = [{"name": f"gpu-{number}"} for number in range(self.chance.randrange(3))]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "driver", "pool": pool, "nodeName": node, "devices": devices}
        self.put(kinds.RESOURCE_SLICE, self.metadata(f"of-{node}"), spec=spec)

    def put_csi_node(self, node: str) -> None:
        driver = {"name": "driver", "nodeID": node, "allocatable": {"count": self.chance.choice((1, 2))}}
        self.put(kinds.CSI_NODE, self.metadata(node), spec={"drivers": [driver]})

    # -- what happens -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Something happens."""
        chance, node = self.chance, self.chance.choice(NODES)
        what = chance.randrange(16)
        if what < 5:
            self.world.add(some_pod(chance, next(self.versions)))
        elif what < 8:
            self.change_a_pod()
        elif what < 11:
            self.world.set_node(some_node(chance, node))
        elif what == 11:
            self.remove_node(node)
        elif what == 12:
            chance.choice((self.put_claim, self.put_volume))(chance.choice(VOLUME_CLAIMS))
        elif what == 13:
            name = chance.choice(VOLUME_CLAIMS)
            self.remove(kinds.PERSISTENT_VOLUME_CLAIM, name, "default")
        elif what == 14:
            chance.choice((self.put_slice, self.put_csi_node))(node)
        elif ("ResourceClaim", "default", name := chance.choice(DEVICE_CLAIMS)) not in self.objects:
            self.put_device_claim(name)

    def change_a_pod(self) -> None:
        if not self.world.listed:
            return
        pod = self.world.listed[self.chance.choice(sorted(self.world.listed))]
        if self.chance.random() < 0.7:
            self.delete(pod)
        else:
            labels = {"app": self.chance.choice("ab")}
            self.world.update(replace(pod, metadata=replace(pod.metadata, labels=labels)))

    def delete(self, pod: Pod) -> None:
        """A pod is gone, and its devices with it."""
        self.world.delete(pod, final_state_unknown=self.chance.random() < 0.2)
        for used in pod.spec.resource_claims:
            claim = self.objects.get(("ResourceClaim", "default", str(used.resource_claim_name)))
            if claim is not None and any(user.uid == pod.uid for user in claim.status.reserved_for):
                self.put_device_claim(claim.metadata.name)

    def remove_node(self, name: str) -> None:
        """A node is gone, and then its pods."""
        if name in self.world.nodes:
            self.world.remove_node(name)
            for pod in [pod for pod in self.world.listed.values() if pod.spec.node_name == name]:
                self.delete(pod)

    # -- the scheduler ------------------------------------------------------------------------------------------------

    def decide(self) -> None:
        while (instruction := self.world.next()) is not None:
            if isinstance(instruction, Bind):
                self.bindings.append(instruction)

    def carry_out(self) -> None:
        """See all bindings to their ends."""
        while self.bindings:
            bind = self.bindings.pop(self.chance.randrange(len(self.bindings)))
            now = self.world.listed.get(bind.info.key)
            self.world.engine.binding_permitted(bind)
            if now is None or now.uid != bind.info.uid or self.chance.random() < FAILS:
                self.world.engine.binding_failed(bind, error("the API server refused"))
                continue
            self.write_claims(bind)
            self.world.bind(now, bind.node_name)
            self.world.engine.binding_succeeded(bind)

    def write_claims(self, bind: Bind) -> None:
        """What PreBind does, with the events before the answers."""
        for used in bind.info.pod.spec.resource_claims:
            claim = self.promised(str(used.resource_claim_name))
            me = {"resource": "pods", "name": bind.info.pod.metadata.name, "uid": bind.info.uid}
            users = (*map(msgspec.to_builtins, claim.status.reserved_for), me)
            self.put_device_claim(claim.metadata.name, msgspec.to_builtins(claim.status.allocation), users)
            self.cluster.device_claims.withdraw(claim.metadata.uid)

    def promised(self, name: str) -> ResourceClaim:
        claims = self.cluster.device_claims
        claim = claims.get(name, "default")
        assert claim is not None
        return claims.promised(claim.metadata.uid) or claim

    def come_to_rest(self) -> None:
        for _ in range(4):
            self.decide()
            self.carry_out()
            self.world.now_s += LONGEST_BACKOFF_S
            self.world.queue.flush_backoff_completed()

    def in_vain(self) -> list[str]:
        """The pods that wait for an event although a node would take them now."""
        profile = self.world.engine.profiles[DEFAULT]
        found = []
        for entry in self.world.queue._places.unschedulable:
            fresh = Algorithm(profile, self.cluster, lambda _: [], nominated_nodes=list)
            if not entry.gated and isinstance(fresh.schedule(CycleState(), self.cluster.info(entry.pod), 1), Found):
                found.append(f"{entry.key}, which {sorted(entry.rejectors)} rejected")
        return found


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize("seed", range(16))
def test_no_pod_waits_in_vain(seed: int, minor: str) -> None:
    walk = Walk(seed, minor)
    for number in range(STEPS):
        walk.step()
        if walk.chance.random() < 0.7:
            walk.decide()
            walk.carry_out()
        if number % 2:
            walk.come_to_rest()
            assert walk.in_vain() == [], f"after step {number}"
