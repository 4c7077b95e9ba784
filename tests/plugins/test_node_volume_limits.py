"""NodeVolumeLimits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered
from tests.storage import (
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod_with,
    a_volume,
    an_attachment,
    azure_share,
    claim,
    ebs,
    ephemeral,
    gce,
    inline_csi,
    iscsi,
    with_objects,
)

from berth.framework.cycle_state import CycleState
from berth.framework.events import ASSIGNED_POD_DELETE, Action, ClusterEvent, Hint, HintError, Resource
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable, unschedulable
from berth.plugins.node_volume_limits import NodeVolumeLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod, Volume
    from berth.api.storage import CsiNode
    from berth.cluster.cache import Cluster

DRIVER, AMAZON = "disks.example.com", "ebs.csi.aws.com"
FULL = unschedulable("node(s) exceed max volume count")
DELETED = ClusterEvent(Resource.VOLUME_ATTACHMENT, Action.DELETE)


def bound(name: str, *, driver: str = DRIVER, handle: str | None = None) -> list[Any]:
    """A claim and its volume, which have the same name."""
    mine = a_claim(name, volume=name)
    return [mine, a_volume(name, claimed_by=mine, driver=driver, handle=handle)]


def a_world(*objects: Any, pods: tuple[Pod, ...] = (), limit: int | None = 1, nodes: int = 1) -> Cluster:
    """Nodes on which a driver has a limit, with some pods on the first."""
    names = [f"n{i}" for i in range(1, nodes + 1)]
    drivers = [a_csi_node(name, {DRIVER: limit, AMAZON: limit}) for name in names]
    return with_objects(a_cluster([a_node(name) for name in names], pods), *drivers, *objects)


def answer(cluster: Cluster, *volumes: Volume, minor: str = "1.37") -> list[Status]:
    return judged(NodeVolumeLimits(a_handle(cluster, minor=minor)), cluster, a_pod_with(*volumes))


def user(*volumes: Volume, name: str = "user") -> Pod:
    return a_pod_with(*volumes, name=name, on="n1")


def test_a_node_takes_as_many_volumes_as_the_driver_can_attach() -> None:
    objects = [each for name in "abc" for each in bound(name)]
    cluster = a_world(*objects, pods=(user(claim("a")),), limit=2, nodes=2)
    assert answer(cluster, claim("b")) == [SUCCESS, SUCCESS]
    assert answer(cluster, claim("b"), claim("c")) == [FULL, SUCCESS]


def test_a_volume_counts_once_on_a_node_however_many_pods_use_it() -> None:
    cluster = a_world(*bound("a"), pods=(user(claim("a")), user(claim("a"), name="another")))
    assert answer(cluster, claim("a")) == [SUCCESS]


def test_two_claims_for_one_disk_count_once() -> None:
    cluster = a_world(*bound("a", handle="disk"), *bound("b", handle="disk"), pods=(user(claim("a")),))
    assert answer(cluster, claim("b")) == [SUCCESS]


def test_a_volume_that_is_attached_without_a_pod_counts() -> None:
    cluster = a_world(*bound("a"), *bound("b"), an_attachment(volume="a"), nodes=2)
    assert answer(cluster, claim("b")) == [FULL, SUCCESS]


def test_a_volume_that_is_attached_for_a_pod_counts_once() -> None:
    objects = [*bound("a"), *bound("b"), an_attachment(volume="a")]
    assert answer(a_world(*objects, pods=(user(claim("a")),), limit=2), claim("b")) == [SUCCESS]


ODD_ATTACHMENTS: Mapping[str, Any] = {
    "of no volume": an_attachment(volume=None),
    "of a volume that is gone": an_attachment(volume="gone"),
    "of nobody": an_attachment(attacher="", volume="a"),
    "of another driver": an_attachment(attacher=AMAZON, volume="a"),
    "elsewhere": an_attachment(node="n2", volume="a"),
}


@pytest.mark.parametrize("attachment", ODD_ATTACHMENTS.values(), ids=ODD_ATTACHMENTS.keys())
def test_attachments_that_do_not_count(attachment: Any) -> None:
    assert answer(a_world(*bound("a"), *bound("b"), attachment), claim("b")) == [SUCCESS]


def test_other_drivers_and_drivers_without_a_limit_do_not_count() -> None:
    there = (user(claim("a")),)
    assert answer(a_world(*bound("a"), *bound("b", driver=AMAZON), pods=there), claim("b")) == [SUCCESS]
    assert answer(a_world(*bound("a"), *bound("b"), pods=there, limit=None), claim("b")) == [SUCCESS]


UNBOUND: Mapping[str, tuple[Any, bool]] = {
    "through its class": (a_claim("b", class_name="standard"), True),
    "with a volume that is gone, through its class": (a_claim("b", volume="gone", class_name="standard"), True),
    "of no class": (a_claim("b"), False),
    "of a class that is missing": (a_claim("b", class_name="gone"), False),
    "through the class of a driver with a successor": (a_claim("b", class_name="amazon"), True),
    "through the class of a driver whose successor is not in charge": (a_claim("b", class_name="azure"), False),
}


@pytest.mark.parametrize(("own", "counts"), UNBOUND.values(), ids=UNBOUND.keys())
def test_a_claim_without_a_volume_counts(own: Any, counts: bool) -> None:
    classes = [
        a_class("standard", provisioner=DRIVER),
        a_class("amazon", provisioner="kubernetes.io/aws-ebs"),
        a_class("azure", provisioner="kubernetes.io/azure-file"),
    ]
    assert answer(a_world(own, *classes, limit=0), claim("b")) == [FULL if counts else SUCCESS]


def test_disks_of_drivers_with_a_successor_count_where_the_node_has_told_of_its_drivers() -> None:
    cluster = a_world(limit=0)
    assert answer(cluster, ebs("vol-1")) == [FULL]
    assert answer(cluster, iscsi("iqn")) == [SUCCESS]
    assert answer(cluster, azure_share()) == [SUCCESS]
    assert answer(a_cluster([a_node("n1")]), ebs("vol-1")) == [SUCCESS]


def test_a_persistent_volume_of_a_driver_with_a_successor_counts_as_its_disk() -> None:
    mine = a_claim("b", volume="b")
    disk = a_volume("b", source={"aws_elastic_block_store": ebs("aws://z/vol-1").aws_elastic_block_store})
    assert answer(a_world(mine, disk, limit=0), claim("b")) == [FULL]
    assert answer(a_world(mine, disk, pods=(user(ebs("vol-1")),)), claim("b")) == [SUCCESS]
    odd = a_volume("b", source={"aws_elastic_block_store": ebs("aws://z/odd").aws_elastic_block_store})
    assert answer(a_world(mine, odd, limit=0), claim("b")) == [SUCCESS], "nobody knows the disk"


def test_claims_made_for_pods_count() -> None:
    pod = a_pod_with(ephemeral("scratch"))
    cluster = a_world(a_claim("web-scratch", class_name="standard", owner=pod), a_class(provisioner=DRIVER), limit=0)
    assert judged(NodeVolumeLimits(a_handle(cluster)), cluster, pod) == [FULL]


def test_a_claim_that_is_missing_rejects_every_node() -> None:
    text = 'looking up PVC default/b: persistentvolumeclaim "b" not found'
    assert answer(a_world(nodes=2), claim("b")) == [unresolvable(text), unresolvable(text)]
    assert answer(a_world(*bound("b"), pods=(user(claim("gone")),)), claim("b")) == [SUCCESS], "others may lack theirs"


FAULTS: Mapping[str, tuple[Volume, str]] = {
    "a claim without a name": (claim(""), "PersistentVolumeClaim had no name"),
    "a claim of another pod": (
        ephemeral("scratch"),
        r"PVC default/web-scratch was not created for pod default/web \(pod is not owner\)",
    ),
    "a disk that is none": (ebs("aws://zone/odd"), r"converting volume\(disk\) from inline to csi"),
}


@pytest.mark.parametrize(("volume", "words"), FAULTS.values(), ids=FAULTS.keys())
def test_a_pod_that_cannot_be_made_sense_of_is_told_so(volume: Volume, words: str) -> None:
    cluster = a_world(a_claim("web-scratch"))
    with pytest.raises(PluginError, match=words):
        answer(cluster, volume)


def test_a_pod_on_a_node_that_cannot_be_made_sense_of_stands_in_the_way_only_there() -> None:
    objects = [*bound("a"), *bound("b"), a_claim("user-scratch")]
    cluster = a_world(*objects, pods=(user(ephemeral("scratch")),), nodes=2)
    plugin, info, state = NodeVolumeLimits(a_handle(cluster)), cluster.info(a_pod_with(claim("b"))), CycleState()
    plugin.pre_filter(state, info)
    assert plugin.filter(state, info, rows_of(cluster, ["n2"])).tolist() == [0]
    with pytest.raises(PluginError, match=r"PVC default/user-scratch was not created for pod default/user"):
        plugin.filter(state, info, rows_of(cluster))
    cluster.remove_pod(user(ephemeral("scratch")))
    assert plugin.filter(state, info, rows_of(cluster)).tolist() == [0, 0]


def test_it_has_nothing_to_say_about_pods_whose_volumes_cannot_count() -> None:
    cluster = a_world()
    plugin = NodeVolumeLimits(a_handle(cluster))
    for volumes in ([], [iscsi("iqn")], [inline_csi(DRIVER)]):
        assert pre_filtered(plugin, cluster, a_pod_with(*volumes))[0] == SKIP


def test_filter_out_of_turn_is_an_error() -> None:
    cluster = a_world()
    with pytest.raises(PluginError, match="PreFilterNodeVolumeLimits"):
        NodeVolumeLimits(a_handle(cluster)).filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


MISSING: Mapping[str, tuple[Any, bool]] = {
    "it asks that its pods keep away": (a_csi_driver("other.example.com", prevents=True), True),
    "it does not ask": (a_csi_driver("other.example.com", prevents=False), False),
    "it does not say": (a_csi_driver("other.example.com"), False),
    "it is not known": (a_csi_driver("unrelated.example.com", prevents=True), False),
}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize(("driver", "keeps_away"), MISSING.values(), ids=MISSING.keys())
def test_a_driver_that_is_not_installed(driver: Any, keeps_away: bool, minor: str) -> None:
    cluster = a_world(*bound("b", driver="other.example.com"), driver)
    told = unschedulable("other.example.com CSI driver is not installed on the node")
    assert answer(cluster, claim("b"), minor=minor) == [told if keeps_away and minor == "1.37" else SUCCESS]


def test_a_node_that_has_not_told_of_its_drivers_has_none_installed() -> None:
    nodes = a_cluster([a_node("n1")])
    cluster = with_objects(nodes, *bound("b"), a_csi_driver(DRIVER, prevents=True))
    told = unschedulable(f"{DRIVER} CSI driver is not installed on the node")
    assert answer(cluster, claim("b")) == [told]
    with_objects(cluster, a_csi_driver(AMAZON, prevents=True))
    assert answer(cluster, ebs("vol-1")) == [SUCCESS], "disks of a driver with a successor do not count there"


def test_pods_that_are_there_for_the_sake_of_a_question_count_until_it_is_answered() -> None:
    cluster = a_world(*bound("a"), *bound("b"))
    plugin, info, state = NodeVolumeLimits(a_handle(cluster)), cluster.info(a_pod_with(claim("b"))), CycleState()
    plugin.pre_filter(state, info)
    rows, other = rows_of(cluster), cluster.info(user(claim("a")))
    with cluster.table.restored():
        cluster.table.add_pod(other, "n1")
        assert plugin.filter(state, info, rows).tolist() == [1]
        cluster.table.remove_pod(other.uid, "n1")
    assert plugin.filter(state, info, rows).tolist() == [0]


CSI_NODES: Mapping[str, tuple[CsiNode | None, CsiNode, Hint]] = {
    "a new one": (None, a_csi_node(), Hint.QUEUE),
    "a higher limit": (a_csi_node(drivers={DRIVER: 1}), a_csi_node(drivers={DRIVER: 2}), Hint.QUEUE),
    "a higher limit of one of two drivers": (
        a_csi_node(drivers={"other": 2, DRIVER: 1}),
        a_csi_node(drivers={"other": 1, DRIVER: 2}),
        Hint.QUEUE,
    ),
    "a lower limit": (a_csi_node(drivers={DRIVER: 2}), a_csi_node(drivers={DRIVER: 1}), Hint.SKIP),
    "the same limit": (a_csi_node(drivers={DRIVER: 2}), a_csi_node(drivers={DRIVER: 2}), Hint.SKIP),
    "a new driver": (a_csi_node(), a_csi_node(drivers={DRIVER: 1}), Hint.QUEUE),
    "a new driver without a limit": (a_csi_node(), a_csi_node(drivers={DRIVER: None}), Hint.SKIP),
    "a limit that is gone": (a_csi_node(drivers={DRIVER: 1}), a_csi_node(drivers={DRIVER: None}), Hint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "hint"), CSI_NODES.values(), ids=CSI_NODES.keys())
def test_hint_for_drivers_of_a_node(old: CsiNode | None, new: CsiNode, hint: Hint) -> None:
    cluster = a_cluster()
    event = ClusterEvent(Resource.CSI_NODE, Action.ADD if old is None else Action.UPDATE)
    assert hinted(NodeVolumeLimits(a_handle(cluster)), event, cluster, a_pod(), old, new) == hint


GONE: Mapping[str, tuple[Pod, Hint]] = {
    "no volumes": (a_pod("gone", on="n1"), Hint.SKIP),
    "a claim": (a_pod_with(claim("x"), name="gone", on="n1"), Hint.QUEUE),
    "a claim that was made for it": (a_pod_with(ephemeral("x"), name="gone", on="n1"), Hint.QUEUE),
    "a disk of a driver with a successor": (a_pod_with(gce("x"), name="gone", on="n1"), Hint.QUEUE),
    "another disk": (a_pod_with(iscsi("x"), name="gone", on="n1"), Hint.SKIP),
    "it was nowhere": (a_pod_with(claim("x"), name="gone"), Hint.SKIP),
    "it was promised a node": (a_pod_with(claim("x"), name="gone", nominated="n1"), Hint.QUEUE),
}


@pytest.mark.parametrize(("gone", "hint"), GONE.values(), ids=GONE.keys())
def test_hint_for_pods_that_go_away(gone: Pod, hint: Hint) -> None:
    cluster = a_cluster()
    assert hinted(NodeVolumeLimits(a_handle(cluster)), ASSIGNED_POD_DELETE, cluster, a_pod(), gone, None) == hint


DETACHED: Mapping[str, tuple[tuple[Volume, ...], Hint]] = {
    "no volumes": ((), Hint.SKIP),
    "a claim": ((claim("x"),), Hint.QUEUE),
    "a claim that is made for it": ((ephemeral("x"),), Hint.SKIP),
    "a disk that the driver took over": ((ebs("vol-1"),), Hint.QUEUE),
    "a disk of another driver": ((gce("disk"),), Hint.SKIP),
}


@pytest.mark.parametrize(("volumes", "hint"), DETACHED.values(), ids=DETACHED.keys())
def test_hint_for_volumes_that_are_detached(volumes: tuple[Volume, ...], hint: Hint) -> None:
    cluster = a_cluster()
    gone, plugin = an_attachment(attacher=AMAZON), NodeVolumeLimits(a_handle(cluster))
    assert hinted(plugin, DELETED, cluster, a_pod_with(*volumes), gone, None) == hint


def test_the_hint_for_a_disk_that_is_none_cannot_tell() -> None:
    cluster = a_cluster()
    plugin, pod = NodeVolumeLimits(a_handle(cluster)), a_pod_with(ebs("aws://zone/odd"))
    with pytest.raises(HintError, match="invalid format"):
        hinted(plugin, DELETED, cluster, pod, an_attachment(), None)


def test_hint_for_claims_looks_also_at_claims_made_for_the_pod() -> None:
    cluster = a_cluster()
    plugin, pod = NodeVolumeLimits(a_handle(cluster)), a_pod_with(claim("data"), ephemeral("scratch"))
    event = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
    answers = [hinted(plugin, event, cluster, pod, None, a_claim(name)) for name in ("data", "web-scratch", "other")]
    assert answers == [Hint.QUEUE, Hint.QUEUE, Hint.SKIP]
