"""Pods that wait for their volumes: claims, classes, reach, single users, limits, zones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.integration.objects import a_node, a_pod, a_taint
from tests.integration.storage import BOUND, DRIVER, a_claim, a_class, a_pod_with, a_volume
from tests.requeue.steps import (
    WEB,
    Scenario,
    Step,
    allocatable,
    annotate,
    change,
    create,
    delete,
    finish,
    label,
    on,
    taint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.objects import JsonObject

CLASS: Final = "disks"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
NODE: Final = a_node("node")
OTHER: Final = a_node("other-node")
USER: Final = a_pod_with(WEB, "data")
UNREACHABLE, NO_VOLUME = "didn't match PersistentVolume's node affinity", "available persistent volumes to bind"
HOG: Final = a_pod("hog")


def bound_claim(name: str = "data", volume: str = "", mode: str = "ReadWriteOnce") -> JsonObject:
    claim = a_claim(name, CLASS)
    claim["metadata"]["annotations"] = dict(BOUND)
    claim["spec"] |= {"volumeName": volume or f"volume-of-{name}", "accessModes": [mode]}
    return claim


def volume_of(name: str = "data", node: str = "node", mode: str = "ReadWriteOnce", **spec: Any) -> JsonObject:
    return a_volume(f"volume-of-{name}", CLASS, node, accessModes=[mode], **spec)


def bind_claim(name: str) -> Step:
    """What a volume controller does when it has found a volume for a claim."""
    return change(
        a_claim(name, CLASS),
        {"metadata": {"annotations": BOUND}, "spec": {"volumeName": f"volume-of-{name}"}},
    )


def csi_node(name: str, limit: int) -> JsonObject:
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": limit}}
    api = "storage.k8s.io/v1"
    return {"apiVersion": api, "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": [driver]}}


def zonal(name: str, zone: str) -> JsonObject:
    """A volume that says its zone by a label, as old ones do."""
    volume = a_volume(f"volume-of-{name}", CLASS, "node", nodeAffinity=None)
    volume["metadata"]["labels"] = {ZONE_LABEL: zone}
    return volume


def in_zone(name: str, zone: str) -> JsonObject:
    return a_node(name, labels={ZONE_LABEL: zone})


IMMEDIATE: Final = a_class(CLASS, mode="Immediate")
LATER: Final = a_class(CLASS, provisioner="kubernetes.io/no-provisioner")
LIMITED: Final = [
    NODE,
    csi_node("node", 1),
    a_class(CLASS),
    volume_of("first"),
    bound_claim("first"),
    volume_of(),
    bound_claim(),
]

VOLUMES_TABLE: Mapping[str, Scenario] = {
    "no claim; the claim wakes it; another claim must not": Scenario(
        pod=USER,
        because='persistentvolumeclaim "data" not found',
        world=[NODE, a_class(CLASS), volume_of()],
        must_not=[create(bound_claim("other"))],
        wakes=[create(bound_claim())],
    ),
    "no claim; the claim wakes it; room, labels and pods must not": Scenario(
        pod=USER,
        because='persistentvolumeclaim "data" not found',
        world=[NODE, a_class(CLASS), volume_of(), on(HOG)],
        must_not=[allocatable(NODE, cpu="64"), label(HOG, app="x"), taint(NODE)],
        wakes=[create(bound_claim())],
    ),
    "a claim that is not bound; its volume wakes it; a change of another claim must not": Scenario(
        pod=USER,
        because="unbound immediate PersistentVolumeClaims",
        world=[NODE, IMMEDIATE, volume_of(), a_claim("data", CLASS), a_claim("other", CLASS)],
        must_not=[annotate(a_claim("other", CLASS), note="x"), allocatable(NODE, cpu="64")],
        wakes=[bind_claim("data")],
    ),
    "a claim that is not bound; its volume wakes it; pods must not": Scenario(
        pod=USER,
        because="unbound immediate PersistentVolumeClaims",
        world=[NODE, IMMEDIATE, volume_of(), a_claim("data", CLASS), on(HOG)],
        must_not=[label(HOG, app="x"), delete(HOG)],
        wakes=[bind_claim("data")],
    ),
    "no volume for a claim; a volume wakes it; room and pods must not": Scenario(
        pod=USER,
        because=NO_VOLUME,
        world=[NODE, LATER, a_claim("data", CLASS), on(HOG)],
        must_not=[allocatable(NODE, cpu="64"), delete(HOG)],
        wakes=[create(volume_of())],
        binds=False,
    ),
    "no class for a claim; the class wakes it; room must not": Scenario(
        pod=USER,
        because="unbound immediate PersistentVolumeClaims",
        world=[NODE, a_claim("data", CLASS)],
        must_not=[allocatable(NODE, cpu="64"), create(on(HOG))],
        wakes=[create(a_class(CLASS))],
        binds=False,
    ),
    "a volume out of reach; the node that reaches it wakes it; taints must not": Scenario(
        pod=USER,
        because=UNREACHABLE,
        world=[OTHER, a_class(CLASS), volume_of(), bound_claim()],
        must_not=[taint(OTHER, a_taint("x", effect="PreferNoSchedule")), allocatable(OTHER, cpu="64")],
        wakes=[create(NODE)],
    ),
    "a volume out of reach; the label that it asks for wakes it; a pod must not": Scenario(
        pod=USER,
        because=UNREACHABLE,
        world=[OTHER, a_class(CLASS), volume_of(), bound_claim()],
        must_not=[create(on(HOG, "other-node")), annotate(OTHER, note="x")],
        wakes=[label(OTHER, **{"kubernetes.io/hostname": "node"})],
    ),
    "a claim for a single pod; the end of its user wakes it; the end of another must not": Scenario(
        pod=USER,
        because="ReadWriteOncePod access mode",
        world=[
            *(NODE, a_class(CLASS), volume_of(mode="ReadWriteOncePod"), bound_claim(mode="ReadWriteOncePod")),
            *(on(a_pod_with("hog", "data")), on(a_pod("other"))),
        ],
        must_not=[delete(a_pod("other"))],
        wakes=[delete(HOG)],
    ),
    "a claim for a single pod; its user finishes; labels and room must not wake it": Scenario(
        pod=USER,
        because="ReadWriteOncePod access mode",
        world=[
            *(NODE, a_class(CLASS), volume_of(mode="ReadWriteOncePod"), bound_claim(mode="ReadWriteOncePod")),
            on(a_pod_with("hog", "data")),
        ],
        must_not=[label(HOG, app="x"), allocatable(NODE, cpu="64"), label(NODE, zone="a")],
        wakes=[finish(HOG)],
    ),
    "too many volumes; a higher limit wakes it; labels and room must not": Scenario(
        pod=USER,
        because="exceed max volume count",
        world=[*LIMITED, on(a_pod_with("hog", "first"))],
        must_not=[label(NODE, zone="a"), allocatable(NODE, cpu="64")],
        wakes=[change(csi_node("node", 1), {"spec": csi_node("node", 2)["spec"]})],
    ),
    "too many volumes; the end of a pod with one wakes it; the end of one without must not": Scenario(
        pod=USER,
        because="exceed max volume count",
        world=[*LIMITED, on(a_pod_with("hog", "first")), on(a_pod("other"))],
        must_not=[delete(a_pod("other"))],
        wakes=[delete(HOG)],
    ),
    "too many volumes; a pod with one finishes; a taint must not wake it": Scenario(
        pod=USER,
        because="exceed max volume count",
        world=[*LIMITED, on(a_pod_with("hog", "first"))],
        must_not=[taint(NODE, a_taint("x", effect="PreferNoSchedule"))],
        wakes=[finish(HOG)],
    ),
    "a volume in another zone; a node there wakes it; room must not": Scenario(
        pod=USER,
        because="no available volume zone",
        world=[in_zone("node", "a"), a_class(CLASS), zonal("data", "b"), bound_claim()],
        must_not=[allocatable(NODE, cpu="64"), create(on(HOG))],
        wakes=[create(in_zone("other-node", "b"))],
    ),
    "a volume in another zone; a node that moves there wakes it; a taint must not": Scenario(
        pod=USER,
        because="no available volume zone",
        world=[in_zone("node", "a"), a_class(CLASS), zonal("data", "b"), bound_claim()],
        must_not=[taint(NODE, a_taint("x", effect="PreferNoSchedule"))],
        wakes=[label(NODE, **{ZONE_LABEL: "b"})],
    ),
    "a volume in another zone; a volume that moves here wakes it; a pod must not": Scenario(
        pod=USER,
        because="no available volume zone",
        world=[in_zone("node", "a"), a_class(CLASS), zonal("data", "b"), bound_claim(), on(HOG)],
        must_not=[delete(HOG)],
        wakes=[label(zonal("data", "b"), **{ZONE_LABEL: "a"})],
    ),
}
