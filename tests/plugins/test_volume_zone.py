"""VolumeZone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered
from tests.storage import IMMEDIATE, WAIT, a_claim, a_class, a_pod_with, a_volume, claim, ephemeral, gce, with_objects

from berth.framework.cycle_state import CycleState
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, Resource
from berth.framework.status import SKIP, SUCCESS, PluginError, unresolvable
from berth.plugins.volume_zone import VolumeZone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ELSEWHERE = unresolvable("node(s) had no available volume zone")

PLACES: Mapping[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "a node without any of the labels": ({ZONE: "z1"}, {"disk": "ssd"}, True),
    "its zone": ({ZONE: "z1"}, {ZONE: "z1"}, True),
    "another zone": ({ZONE: "z1"}, {ZONE: "z2"}, False),
    "its zone, by the old name": ({OLD_ZONE: "z1"}, {OLD_ZONE: "z1"}, True),
    "another zone, by the old name": ({OLD_ZONE: "z1"}, {OLD_ZONE: "z2"}, False),
    "its region": ({REGION: "r1"}, {REGION: "r1"}, True),
    "another region": ({REGION: "r1"}, {REGION: "r2"}, False),
    "another region, by the old name": ({OLD_REGION: "r1"}, {OLD_REGION: "r2"}, False),
    "a node that does not say its region": ({ZONE: "z1", REGION: "r1"}, {ZONE: "z1"}, False),
    "old name wanted, new name there": ({OLD_ZONE: "z1"}, {ZONE: "z1"}, True),
    "old name wanted, new name elsewhere": ({OLD_ZONE: "z1"}, {ZONE: "z2"}, False),
    "old name wanted, both there, the old one decides": ({OLD_ZONE: "z1"}, {OLD_ZONE: "z2", ZONE: "z1"}, False),
    "new name wanted, only the old there": ({ZONE: "z1"}, {OLD_ZONE: "z1"}, False),
    "one of several zones": ({ZONE: "z1__z2"}, {ZONE: "z2"}, True),
    "none of several zones": ({ZONE: "z1__z2"}, {ZONE: "z3"}, False),
    "zones with spaces": ({ZONE: "z1 __ z2"}, {ZONE: "z2"}, True),
    "a label with an empty zone says nothing": ({ZONE: "z1__", REGION: "r1"}, {REGION: "r1"}, True),
}


@pytest.mark.parametrize("others", [0, 30])
@pytest.mark.parametrize(("volume", "node", "fits"), PLACES.values(), ids=PLACES.keys())
def test_a_pod_goes_where_its_volume_is(volume: dict[str, str], node: dict[str, str], fits: bool, others: int) -> None:
    nodes = [a_node("n0", labels=node), *(a_node(f"bare-{i}") for i in range(others))]
    cluster = with_objects(a_cluster(nodes), a_claim("data", volume="pv"), a_volume("pv", labels=volume))
    got = judged(VolumeZone(a_handle(cluster)), cluster, a_pod_with(claim("data")))
    assert got == [SUCCESS if fits else ELSEWHERE, *([SUCCESS] * others)]


CLAIMS: Mapping[str, tuple[PersistentVolumeClaim | None, str]] = {
    "missing": (None, 'persistentvolumeclaim "data" not found'),
    "bound to a volume that is missing": (a_claim(volume="gone"), 'persistentvolume "gone" not found'),
    "unbound, without a class": (a_claim(), "PersistentVolumeClaim had no pv name and storageClass name"),
    "unbound, of a class that is missing": (
        a_claim(class_name="gone"),
        'storageclass.storage.k8s.io "gone" not found',
    ),
    "unbound, of a class without a mode": (
        a_claim(class_name="modeless"),
        'VolumeBindingMode not set for StorageClass "modeless"',
    ),
    "unbound, of a class that binds at once": (a_claim(class_name="now"), "PersistentVolume had no name"),
    "unbound, of a class that an old annotation names": (
        a_claim(class_name="later", annotations={"volume.beta.kubernetes.io/storage-class": "now"}),
        "PersistentVolume had no name",
    ),
}


@pytest.mark.parametrize(("own", "reason"), CLAIMS.values(), ids=CLAIMS.keys())
def test_a_claim_without_a_volume_ends_the_attempt(own: PersistentVolumeClaim | None, reason: str) -> None:
    classes = [a_class("later", mode=WAIT), a_class("now", mode=IMMEDIATE), a_class("modeless", mode=None)]
    cluster = with_objects(a_cluster([a_node()]), *classes, *([own] if own else []))
    status, _ = pre_filtered(VolumeZone(a_handle(cluster)), cluster, a_pod_with(claim("data")))
    assert status == unresolvable(reason)


def test_a_claim_without_a_name_ends_the_attempt() -> None:
    cluster = a_cluster([a_node()])
    status, _ = pre_filtered(VolumeZone(a_handle(cluster)), cluster, a_pod_with(claim("")))
    assert status == unresolvable("PersistentVolumeClaim had no name")


def test_it_has_nothing_to_say_where_no_bound_volume_names_a_place() -> None:
    objects = [a_class("later"), a_claim("waits", class_name="later"), a_claim("free", volume="pv"), a_volume("pv")]
    cluster = with_objects(a_cluster([a_node()]), *objects)
    for volumes in ([], [claim("waits")], [claim("free")], [gce("disk")], [ephemeral("scratch")]):
        assert pre_filtered(VolumeZone(a_handle(cluster)), cluster, a_pod_with(*volumes))[0] == SKIP


def test_filter_out_of_turn_is_an_error() -> None:
    cluster = a_cluster([a_node()])
    with pytest.raises(PluginError, match="PreFilterVolumeZone"):
        VolumeZone(a_handle(cluster)).filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


VOLUME_HINTS: Mapping[str, tuple[PersistentVolume | None, PersistentVolume, Hint]] = {
    "a new volume": (None, a_volume(), Hint.QUEUE),
    "a zone is added": (a_volume(), a_volume(labels={ZONE: "z1"}), Hint.QUEUE),
    "a zone changes": (a_volume(labels={ZONE: "z1"}), a_volume(labels={ZONE: "z2"}), Hint.QUEUE),
    "zones in another order": (a_volume(labels={ZONE: "z1__z2"}), a_volume(labels={ZONE: "z2__z1"}), Hint.SKIP),
    "another label changes": (a_volume(labels={"tier": "a"}), a_volume(labels={"tier": "b"}), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "hint"), VOLUME_HINTS.values(), ids=VOLUME_HINTS.keys())
def test_hint_for_volumes(old: PersistentVolume | None, new: PersistentVolume, hint: Hint) -> None:
    cluster = a_cluster()
    event = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD if old is None else Action.UPDATE)
    assert hinted(VolumeZone(a_handle(cluster)), event, cluster, a_pod(), old, new) == hint


CLASS_HINTS: Mapping[str, tuple[StorageClass, Hint]] = {
    "one that waits": (a_class(mode=WAIT), Hint.QUEUE),
    "one that binds at once": (a_class(mode=IMMEDIATE), Hint.SKIP),
    "one without a mode": (a_class(mode=None), Hint.SKIP),
}


@pytest.mark.parametrize(("new", "hint"), CLASS_HINTS.values(), ids=CLASS_HINTS.keys())
def test_hint_for_classes(new: StorageClass, hint: Hint) -> None:
    cluster = a_cluster()
    event = ClusterEvent(Resource.STORAGE_CLASS, Action.ADD)
    assert hinted(VolumeZone(a_handle(cluster)), event, cluster, a_pod(), None, new) == hint


def test_hint_for_claims_looks_at_claims_that_the_pod_names() -> None:
    cluster = a_cluster()
    plugin, pod = VolumeZone(a_handle(cluster)), a_pod_with(claim("data"), ephemeral("scratch"))
    event = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.UPDATE)
    assert hinted(plugin, event, cluster, pod, a_claim("data"), a_claim("data")) == Hint.QUEUE
    assert hinted(plugin, event, cluster, pod, a_claim("web-scratch"), a_claim("web-scratch")) == Hint.SKIP


def test_any_new_node_wakes_it() -> None:
    cluster = a_cluster()
    assert hinted(VolumeZone(a_handle(cluster)), NODE_ADD, cluster, a_pod(), None, a_node()) == Hint.QUEUE


def test_any_node_with_other_labels_wakes_it() -> None:
    cluster = a_cluster()
    event = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
    assert hinted(VolumeZone(a_handle(cluster)), event, cluster, a_pod(), a_node(), a_node()) == Hint.QUEUE
