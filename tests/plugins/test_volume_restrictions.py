"""VolumeRestrictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered
from tests.storage import a_claim, a_pod_with, azure_share, claim, ebs, ephemeral, gce, iscsi, rbd, with_objects

from berth.framework.cycle_state import CycleState
from berth.framework.events import ASSIGNED_POD_DELETE, NODE_ADD, Action, ClusterEvent, Hint, Resource
from berth.framework.status import SKIP, SUCCESS, PluginError, unresolvable, unschedulable
from berth.plugins.volume_restrictions import VolumeRestrictions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod, Volume
    from berth.api.storage import PersistentVolumeClaim

NO_DISK = unschedulable("node(s) had no available disk")
HELD = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
ALONE = ("ReadWriteOncePod",)
CLAIM_ADDED = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)

DISKS: Mapping[str, tuple[Volume, Volume, bool]] = {
    "one Google disk": (gce("a"), gce("a"), False),
    "one Google disk, one reads only": (gce("a"), gce("a", read_only=True), False),
    "one Google disk, both read only": (gce("a", read_only=True), gce("a", read_only=True), True),
    "two Google disks": (gce("a"), gce("b"), True),
    "one Amazon disk": (ebs("a"), ebs("a"), False),
    "two Amazon disks": (ebs("a"), ebs("b"), True),
    "one iSCSI disk": (iscsi("a"), iscsi("a"), False),
    "one iSCSI disk, both read only": (iscsi("a", read_only=True), iscsi("a", read_only=True), True),
    "two iSCSI disks": (iscsi("a"), iscsi("b"), True),
    "one Ceph image": (rbd(["m1", "m2"]), rbd(["m2", "m3"]), False),
    "one Ceph image, both read only": (rbd(["m1"], read_only=True), rbd(["m1"], read_only=True), True),
    "the same image of two Ceph clusters": (rbd(["m1"]), rbd(["m2"]), True),
    "two images": (rbd(["m1"], "a"), rbd(["m1"], "b"), True),
    "two pools": (rbd(["m1"], pool="a"), rbd(["m1"], pool="b"), True),
    "disks of two kinds": (gce("a"), ebs("a"), True),
    "a disk and a claim": (gce("a"), claim("a"), True),
}


@pytest.mark.parametrize(("wanted", "used", "fits"), DISKS.values(), ids=DISKS.keys())
def test_a_disk_is_used_once_on_a_node(wanted: Volume, used: Volume, fits: bool) -> None:
    nodes = [a_node("free"), a_node("busy")]
    cluster = with_objects(a_cluster(nodes, [a_pod_with(used, name="there", on="busy")]), a_claim("a"))
    got = judged(VolumeRestrictions(a_handle(cluster)), cluster, a_pod_with(wanted))
    assert got == [SUCCESS, SUCCESS if fits else NO_DISK]


def test_it_has_nothing_to_say_about_pods_without_disks_and_without_contested_claims() -> None:
    claims = [a_claim("alone", modes=ALONE), a_claim("shared")]
    users = [
        a_pod_with(claim("shared"), name="there", on="n1"),
        a_pod_with(claim("alone"), name="x", namespace="b", on="n1"),
    ]
    cluster = with_objects(a_cluster([a_node("n1")], users), *claims)
    plugin = VolumeRestrictions(a_handle(cluster))
    for volumes in ([], [azure_share()], [claim("shared")], [claim("alone")], [ephemeral("scratch")]):
        assert pre_filtered(plugin, cluster, a_pod_with(*volumes))[0] == SKIP


def test_a_claim_that_is_missing_ends_the_attempt() -> None:
    cluster = a_cluster([a_node()])
    status, _ = pre_filtered(VolumeRestrictions(a_handle(cluster)), cluster, a_pod_with(claim("data")))
    assert status == unresolvable('persistentvolumeclaim "data" not found')


def test_a_claim_for_one_pod_is_held_wherever_that_pod_is() -> None:
    holder = a_pod_with(claim("data"), name="holder", on="n2")
    cluster = with_objects(a_cluster([a_node("n1"), a_node("n2")], [holder]), a_claim("data", modes=ALONE))
    plugin, pod = VolumeRestrictions(a_handle(cluster)), a_pod_with(claim("data"))
    assert judged(plugin, cluster, pod) == [HELD, HELD]
    cluster.remove_pod(holder)
    assert judged(plugin, cluster, pod) == [SUCCESS, SUCCESS]


def test_a_pod_whose_node_is_gone_holds_nothing() -> None:
    holder = a_pod_with(claim("data"), name="holder", on="n2")
    cluster = with_objects(a_cluster([a_node("n1"), a_node("n2")], [holder]), a_claim("data", modes=ALONE))
    cluster.remove_node("n2")
    assert judged(VolumeRestrictions(a_handle(cluster)), cluster, a_pod_with(claim("data"))) == [SUCCESS]


def test_a_disk_in_use_is_told_before_a_claim_in_use() -> None:
    holder = a_pod_with(claim("data"), gce("a"), name="holder", on="n2")
    cluster = with_objects(a_cluster([a_node("n1"), a_node("n2")], [holder]), a_claim("data", modes=ALONE))
    got = judged(VolumeRestrictions(a_handle(cluster)), cluster, a_pod_with(claim("data"), gce("a")))
    assert got == [HELD, NO_DISK]


def test_pods_that_come_and_go_for_the_sake_of_a_question_count() -> None:
    holder = a_pod_with(claim("data"), name="holder", on="n2")
    cluster = with_objects(a_cluster([a_node("n1"), a_node("n2")], [holder]), a_claim("data", modes=ALONE))
    plugin = VolumeRestrictions(a_handle(cluster))
    state, info, other, rows = (
        CycleState(),
        cluster.info(a_pod_with(claim("data"))),
        cluster.info(holder),
        rows_of(cluster),
    )
    plugin.pre_filter(state, info)
    assert plugin.remove_pod(state.clone(), info, other, 1) == SUCCESS
    assert plugin.filter(state, info, rows).tolist() == [2, 2], "a question about a copy leaves the original alone"
    plugin.remove_pod(state, info, other, 1)
    assert plugin.filter(state, info, rows).tolist() == [0, 0]
    plugin.add_pod(state, info, other, 1)
    plugin.add_pod(state, info, cluster.info(a_pod_with(ephemeral("data"), name="unrelated")), 1)
    plugin.remove_pod(state, info, other, 1)
    assert plugin.filter(state, info, rows).tolist() == [0, 0]


def test_filter_out_of_turn_is_an_error() -> None:
    cluster = a_cluster([a_node()])
    plugin = VolumeRestrictions(a_handle(cluster))
    with pytest.raises(PluginError, match='cannot read "PreFilterVolumeRestrictions" from cycleState'):
        plugin.filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


POD_HINTS: Mapping[str, tuple[Pod, Pod, Hint]] = {
    "its disk is free": (a_pod_with(gce("a")), a_pod_with(gce("a"), name="gone", on="n1"), Hint.QUEUE),
    "another disk is free": (a_pod_with(gce("a")), a_pod_with(gce("b"), name="gone", on="n1"), Hint.SKIP),
    "its claim is free": (a_pod_with(claim("data")), a_pod_with(claim("data"), name="gone", on="n1"), Hint.QUEUE),
    "another claim is free": (a_pod_with(claim("data")), a_pod_with(claim("x"), name="gone", on="n1"), Hint.SKIP),
    "in another namespace": (
        a_pod_with(claim("data"), gce("a")),
        a_pod_with(claim("data"), gce("a"), name="gone", namespace="other", on="n1"),
        Hint.SKIP,
    ),
    "a claim made for the pod that went": (
        a_pod_with(claim("gone-scratch")),
        a_pod_with(ephemeral("scratch"), name="gone", on="n1"),
        Hint.SKIP,
    ),
}


@pytest.mark.parametrize(("pod", "gone", "hint"), POD_HINTS.values(), ids=POD_HINTS.keys())
def test_hint_for_pods_that_go_away(pod: Pod, gone: Pod, hint: Hint) -> None:
    cluster = a_cluster()
    assert hinted(VolumeRestrictions(a_handle(cluster)), ASSIGNED_POD_DELETE, cluster, pod, gone, None) == hint


CLAIM_HINTS: Mapping[str, tuple[PersistentVolumeClaim, Hint]] = {
    "its claim": (a_claim("data"), Hint.QUEUE),
    "another claim": (a_claim("other"), Hint.SKIP),
    "a claim of that name elsewhere": (a_claim("data", namespace="other"), Hint.SKIP),
    "the claim of an ephemeral volume": (a_claim("web-scratch"), Hint.SKIP),
}


@pytest.mark.parametrize(("new", "hint"), CLAIM_HINTS.values(), ids=CLAIM_HINTS.keys())
def test_hint_for_claims(new: PersistentVolumeClaim, hint: Hint) -> None:
    cluster = a_cluster()
    pod = a_pod_with(claim("data"), ephemeral("scratch"))
    assert hinted(VolumeRestrictions(a_handle(cluster)), CLAIM_ADDED, cluster, pod, None, new) == hint


def test_any_new_node_wakes_it() -> None:
    cluster = a_cluster()
    assert hinted(VolumeRestrictions(a_handle(cluster)), NODE_ADD, cluster, a_pod(), None, a_node()) == Hint.QUEUE
