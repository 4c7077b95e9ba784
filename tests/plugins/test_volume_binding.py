"""VolumeBinding: what it finds, how it scores, and what wakes its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod, a_term, rows_of
from tests.plugins.judging import hinted, judged, pre_filtered, raw_scores
from tests.storage import (
    IMMEDIATE,
    a_capacity,
    a_claim,
    a_class,
    a_csi_driver,
    a_csi_node,
    a_pod_with,
    a_volume,
    claim,
    ebs,
    ephemeral,
    gce,
    inline_csi,
    with_objects,
)

from berth.api.selectors import LabelSelector
from berth.framework.cycle_state import CycleState, StateNotFoundError
from berth.framework.events import NODE_ADD, Action, ClusterEvent, Hint, HintError, Resource
from berth.framework.plugin_args import UtilizationShapePoint, VolumeBindingArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, unresolvable
from berth.plugins.volume_binding.plugin import VolumeBinding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod, Volume
    from berth.cluster.cache import Cluster

OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DRIVER = "disks.example.com"
MANUAL = "kubernetes.io/no-provisioner"


def a_world(*objects: Any, minor: str = "1.37") -> Cluster:
    """Two nodes, each in a zone of its own, and these objects."""
    nodes = [a_node(name, labels={HOST: name, ZONE: zone}) for name, zone in (("n1", "a"), ("n2", "b"))]
    return with_objects(a_cluster(nodes, minor=minor), *objects)


def answers(cluster: Cluster, *volumes: Volume) -> list[Status]:
    return judged(VolumeBinding(None, a_handle(cluster)), cluster, a_pod_with(*volumes))


def says(*reasons: str) -> Status:
    return unresolvable(*reasons) if reasons else SUCCESS


# -- before any node is looked at --------------------------------------------------------------------------------------

REFUSED: Mapping[str, tuple[list[Any], Volume, str]] = {
    "a claim that is missing": ([], claim("data"), 'persistentvolumeclaim "data" not found'),
    "a claim that is to be made for the pod": (
        [],
        ephemeral("scratch"),
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-scratch"',
    ),
    "a claim that was made for another pod": (
        [a_claim("web-scratch")],
        ephemeral("scratch"),
        "PVC default/web-scratch was not created for pod default/web (pod is not owner)",
    ),
    "a claim that lost its volume": (
        [a_claim(volume="pv", phase="Lost")],
        claim("data"),
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
    ),
    "a claim that is going away": (
        [a_claim(deleting=True)],
        claim("data"),
        'persistentvolumeclaim "data" is being deleted',
    ),
    "a claim of no class": ([a_claim()], claim("data"), "pod has unbound immediate PersistentVolumeClaims"),
    "a claim of a class that is missing": (
        [a_claim(class_name="gone")],
        claim("data"),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "a claim that is to be bound at once": (
        [a_class(mode=IMMEDIATE), a_claim(class_name="standard")],
        claim("data"),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
    "a claim that names its volume and is not bound yet": (
        [a_class(), a_claim(class_name="standard", volume="pv", bound=False)],
        claim("data"),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
}


@pytest.mark.parametrize(("objects", "volume", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_a_pod_is_refused_before_any_node_is_looked_at(objects: list[Any], volume: Volume, reason: str) -> None:
    cluster = a_world(*objects)
    status, _ = pre_filtered(VolumeBinding(None, a_handle(cluster)), cluster, a_pod_with(volume))
    assert status == unresolvable(reason)


def test_the_first_claim_that_is_wrong_is_told() -> None:
    cluster = a_world(a_claim("one"))
    status, _ = pre_filtered(VolumeBinding(None, a_handle(cluster)), cluster, a_pod_with(claim("one"), claim("two")))
    assert status == unresolvable('persistentvolumeclaim "two" not found')


def test_it_has_nothing_to_say_about_pods_without_claims() -> None:
    cluster = a_world()
    for volumes in ([], [gce("disk")], [inline_csi(DRIVER)]):
        assert pre_filtered(VolumeBinding(None, a_handle(cluster)), cluster, a_pod_with(*volumes))[0] == SKIP


ERRORS: Mapping[str, tuple[list[Any], str]] = {
    "a class without a mode": (
        [a_class(mode=None), a_claim(class_name="standard")],
        'VolumeBindingMode not set for StorageClass "standard"',
    ),
    "a selector that cannot be parsed": (
        [
            a_class(),
            a_volume(class_name="standard"),
            a_claim(class_name="standard", selector=LabelSelector(match_labels={"a b": "c"})),
        ],
        "selector of persistentvolumeclaim default/data",
    ),
    "a size that is none": (
        [a_class(), a_claim(class_name="standard", size="much")],
        r"persistentvolumeclaim default/data: spec.resources.requests: .*'much'",
    ),
}


@pytest.mark.parametrize(("objects", "words"), ERRORS.values(), ids=ERRORS.keys())
def test_a_pod_that_cannot_be_made_sense_of_is_told_so(objects: list[Any], words: str) -> None:
    cluster = a_world(*objects)
    with pytest.raises(PluginError, match=words):
        pre_filtered(VolumeBinding(None, a_handle(cluster)), cluster, a_pod_with(claim("data")))


def test_filter_out_of_turn_is_an_error() -> None:
    cluster = a_world()
    with pytest.raises(StateNotFoundError, match="VolumeBinding"):
        VolumeBinding(None, a_handle(cluster)).filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


# -- what becomes of the claims ----------------------------------------------------------------------------------------


def local(name: str, on: str, **fields: Any) -> Any:
    return a_volume(name, on=on, class_name="manual", **fields)


BY_HAND = a_class("manual", provisioner=MANUAL)
WANTS = a_claim(class_name="manual")

FOUND: Mapping[str, tuple[list[Any], tuple[Status, Status]]] = {
    "bound, reached from everywhere": (
        [a_claim(volume="pv"), a_volume("pv")],
        (says(), says()),
    ),
    "bound, reached from one node": (
        [a_claim(volume="pv"), a_volume("pv", on="n1")],
        (says(), says(OUT_OF_REACH)),
    ),
    "bound to a volume that is gone": (
        [a_claim(volume="pv")],
        (says(VOLUME_GONE), says(VOLUME_GONE)),
    ),
    "bound to a volume whose affinity cannot be parsed": (
        [a_claim(volume="pv"), a_volume("pv", on=[a_term((HOST, "Like", ["n1"]))])],
        (says(OUT_OF_REACH), says(OUT_OF_REACH)),
    ),
    "bound to a volume that names a node: only labels are looked at": (
        [
            a_claim(volume="pv"),
            a_volume("pv", on=[a_term((ZONE, "Exists", []), fields=[("metadata.name", "In", ["n1"])])]),
        ],
        (says(), says()),
    ),
    "waiting, a volume on one node": ([BY_HAND, WANTS, local("pv", "n1")], (says(), says(NO_VOLUME))),
    "waiting, no volume": ([BY_HAND, WANTS], (says(NO_VOLUME), says(NO_VOLUME))),
    "waiting, the volume is too small": (
        [BY_HAND, WANTS, local("pv", "n1", size="1Mi")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume belongs to another claim": (
        [BY_HAND, WANTS, local("pv", "n1", claimed_by=a_claim("other"))],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume belonged to a claim of that name": (
        [BY_HAND, WANTS, local("pv", "n1", claimed_by=WANTS, claim_uid="before")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume is meant for it": (
        [BY_HAND, WANTS, local("pv", "n1", claimed_by=WANTS, claim_uid="")],
        (says(), says(NO_VOLUME)),
    ),
    "waiting, the volume meant for it goes before a free one": (
        [BY_HAND, WANTS, local("pv", "n1", claimed_by=WANTS), local("free", "n2")],
        (says(), says(NO_VOLUME)),
    ),
    "waiting, the volume is not free": (
        [BY_HAND, WANTS, local("pv", "n1", phase="Released")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume is going away": (
        [BY_HAND, WANTS, local("pv", "n1", deleting=True)],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume is of another class": (
        [BY_HAND, WANTS, a_volume("pv", on="n1", class_name="other")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume can be used in another way only": (
        [BY_HAND, WANTS, local("pv", "n1", modes=["ReadOnlyMany"])],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, the volume is no file system": (
        [BY_HAND, WANTS, local("pv", "n1", volume_mode="Block")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, a file system is what nobody has to name": (
        [BY_HAND, WANTS, local("pv", "n1", volume_mode="Filesystem")],
        (says(), says(NO_VOLUME)),
    ),
    "waiting, the volume has other attributes": (
        [BY_HAND, WANTS, local("pv", "n1", attributes_class="fast")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, volumes with a label are wanted": (
        [
            BY_HAND,
            a_claim(class_name="manual", selector=LabelSelector(match_labels={"tier": "gold"})),
            local("pv", "n1"),
            local("gold", "n2", labels={"tier": "gold"}),
        ],
        (says(NO_VOLUME), says()),
    ),
    "waiting, one is being made for a node": (
        [a_class(), a_claim(class_name="standard", selected_node="n1"), a_volume(class_name="standard")],
        (says(), says(NO_VOLUME)),
    ),
    "waiting, one can be made": ([a_class(), a_claim(class_name="standard")], (says(), says())),
    "waiting, one can be made in one zone": (
        [a_class(topologies=[{ZONE: ["b", "c"]}]), a_claim(class_name="standard")],
        (says(NO_VOLUME), says()),
    ),
    "waiting, one can be made where all labels are right": (
        [
            a_class(topologies=[{ZONE: ["a"], HOST: ["n2"]}, {ZONE: ["b"], HOST: ["n2"]}]),
            a_claim(class_name="standard"),
        ],
        (says(NO_VOLUME), says()),
    ),
    "waiting, a term without conditions allows nothing": (
        [a_class(topologies=[{}]), a_claim(class_name="standard")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
    "waiting, of a class without a provisioner": (
        [a_class(provisioner=""), a_claim(class_name="standard")],
        (says(NO_VOLUME), says(NO_VOLUME)),
    ),
}


@pytest.mark.parametrize(("objects", "want"), FOUND.values(), ids=FOUND.keys())
def test_what_becomes_of_a_claim(objects: list[Any], want: tuple[Status, Status]) -> None:
    assert answers(a_world(*objects), claim("data")) == list(want)


def test_reasons_come_in_the_order_of_the_reference() -> None:
    objects = [a_claim("bound", volume="far"), a_volume("far", on="elsewhere"), BY_HAND, WANTS]
    assert answers(a_world(*objects), claim("data"), claim("bound")) == [unresolvable(OUT_OF_REACH, NO_VOLUME)] * 2
    objects = [a_claim("bound", volume="gone"), BY_HAND, WANTS]
    assert answers(a_world(*objects), claim("data"), claim("bound")) == [unresolvable(NO_VOLUME, VOLUME_GONE)] * 2


def test_of_claims_that_are_bound_the_first_that_is_wrong_is_told() -> None:
    objects = [a_claim("one", volume="far"), a_volume("far", on="n1"), a_claim("two", volume="gone")]
    got = answers(a_world(*objects), claim("one"), claim("two"))
    assert got == [unresolvable(VOLUME_GONE), unresolvable(OUT_OF_REACH)]


def test_two_claims_need_two_volumes() -> None:
    both = [a_claim(name, class_name="manual") for name in ("one", "two")]
    cluster = a_world(BY_HAND, *both, local("a", "n1"), local("b", "n2"), local("c", "n2"))
    assert answers(cluster, claim("one"), claim("two")) == [unresolvable(NO_VOLUME), SUCCESS]


def test_the_smaller_claim_gets_the_smaller_volume() -> None:
    small, large = a_claim("small", class_name="manual", size="1Gi"), a_claim("large", class_name="manual", size="5Gi")
    cluster = a_world(BY_HAND, small, large, local("a", "n1", size="6Gi"), local("b", "n1", size="2Gi"))
    assert answers(cluster, claim("large"), claim("small"))[0] == SUCCESS


def test_a_claim_that_finds_no_volume_gets_a_new_one_where_that_is_possible() -> None:
    both = [a_claim(name, class_name="standard") for name in ("one", "two")]
    assert answers(a_world(a_class(), *both, a_volume(class_name="standard")), claim("one"), claim("two")) == [
        SUCCESS,
        SUCCESS,
    ]


def test_claims_that_are_made_for_the_pod_are_bound_like_others() -> None:
    pod = a_pod_with(ephemeral("scratch"))
    cluster = a_world(BY_HAND, a_claim("web-scratch", class_name="manual", owner=pod), local("pv", "n2"))
    assert judged(VolumeBinding(None, a_handle(cluster)), cluster, pod) == [unresolvable(NO_VOLUME), SUCCESS]


CAPACITIES: Mapping[str, tuple[list[Any], tuple[bool, bool]]] = {
    "the driver does not report any": ([a_csi_driver(capacity=False)], (True, True)),
    "the driver does not say": ([a_csi_driver()], (True, True)),
    "the driver is not known": ([], (True, True)),
    "none is reported": ([a_csi_driver(capacity=True)], (False, False)),
    "enough everywhere": ([a_csi_driver(capacity=True), a_capacity(topology=LabelSelector())], (True, True)),
    "enough in one zone": (
        [a_csi_driver(capacity=True), a_capacity(topology=LabelSelector(match_labels={ZONE: "b"}))],
        (False, True),
    ),
    "enough nowhere in particular": ([a_csi_driver(capacity=True), a_capacity(topology=None)], (False, False)),
    "not enough": (
        [a_csi_driver(capacity=True), a_capacity(capacity="1Mi", topology=LabelSelector())],
        (False, False),
    ),
    "enough, but not in one piece": (
        [a_csi_driver(capacity=True), a_capacity(capacity="1Ti", maximum="1Mi", topology=LabelSelector())],
        (False, False),
    ),
    "enough in one piece, whatever there is": (
        [a_csi_driver(capacity=True), a_capacity(capacity=None, maximum="1Ti", topology=LabelSelector())],
        (True, True),
    ),
    "nobody knows how much": (
        [a_csi_driver(capacity=True), a_capacity(capacity=None, topology=LabelSelector())],
        (False, False),
    ),
    "enough, for another class": (
        [a_csi_driver(capacity=True), a_capacity(class_name="other", topology=LabelSelector())],
        (False, False),
    ),
    "nobody knows where": (
        [a_csi_driver(capacity=True), a_capacity(topology=LabelSelector(match_labels={"a b": "c"}))],
        (False, False),
    ),
}


@pytest.mark.parametrize(("objects", "fits"), CAPACITIES.values(), ids=CAPACITIES.keys())
def test_there_has_to_be_room_for_new_volumes(objects: list[Any], fits: tuple[bool, bool]) -> None:
    cluster = a_world(a_class(), a_claim(class_name="standard", size="1Gi"), *objects)
    assert answers(cluster, claim("data")) == [SUCCESS if fit else unresolvable(NO_ROOM) for fit in fits]


def test_a_claim_that_asks_for_no_size_needs_no_room() -> None:
    cluster = a_world(a_class(), a_claim(class_name="standard", size=None), a_csi_driver(capacity=True))
    assert answers(cluster, claim("data")) == [SUCCESS, SUCCESS]


def test_a_capacity_that_is_taken_back_counts_no_more() -> None:
    everywhere, elsewhere = LabelSelector(), LabelSelector(match_labels={ZONE: "b"})
    cluster = a_world(a_class(), a_claim(class_name="standard"), a_csi_driver(capacity=True))
    plugin, pod = VolumeBinding(None, a_handle(cluster)), a_pod_with(claim("data"))
    for room, fits in (
        (a_capacity(topology=everywhere), (True, True)),
        (a_capacity(topology=elsewhere), (False, True)),
        (a_capacity(class_name="other", topology=everywhere), (False, False)),
        (a_capacity(capacity="plenty", topology=everywhere), (False, False)),
        (a_capacity(topology=everywhere), (True, True)),
    ):
        with_objects(cluster, room)
        assert [answer.ok for answer in judged(plugin, cluster, pod)] == list(fits)


def test_a_volume_of_no_size_is_nobody_s() -> None:
    cluster = a_world(BY_HAND, a_claim(class_name="manual", size=None), local("pv", "n1", size="huge"))
    assert answers(cluster, claim("data")) == [unresolvable(NO_VOLUME)] * 2


SUCCESSORS: Mapping[str, tuple[list[Any], tuple[Status, Status]]] = {
    "the successor is in charge on one node": (
        [a_csi_node("n1", migrated="kubernetes.io/aws-ebs"), a_csi_node("n2", migrated="kubernetes.io/gce-pd")],
        (says(OUT_OF_REACH), says()),
    ),
    "the successor is in charge nowhere": ([a_csi_node("n1")], (says(), says())),
}


@pytest.mark.parametrize(("objects", "want"), SUCCESSORS.values(), ids=SUCCESSORS.keys())
def test_where_a_successor_is_in_charge_its_labels_decide(objects: list[Any], want: tuple[Status, Status]) -> None:
    disk = a_volume(
        "pv",
        on=[a_term((ZONE, "In", ["a", "b"]))],
        source={"aws_elastic_block_store": ebs("vol-1").aws_elastic_block_store},
    )
    assert answers(a_world(a_claim(volume="pv"), disk, *objects), claim("data")) == list(want)


def test_a_disk_that_the_successor_cannot_be_told_of_is_an_error() -> None:
    odd = a_volume("pv", source={"aws_elastic_block_store": ebs("aws://zone/odd").aws_elastic_block_store})
    cluster = a_world(a_claim(volume="pv"), odd, a_csi_node("n1", migrated="kubernetes.io/aws-ebs"))
    with pytest.raises(PluginError, match="could not translate pv"):
        answers(cluster, claim("data"))


def test_nodes_that_come_and_change_their_labels_are_seen() -> None:
    cluster = a_world(a_claim(volume="pv"), a_volume("pv", on=[a_term((ZONE, "In", ["a"]))]))
    plugin, pod = VolumeBinding(None, a_handle(cluster)), a_pod_with(claim("data"))
    assert [answer.ok for answer in judged(plugin, cluster, pod)] == [True, False]
    cluster.set_node(a_node("n2", labels={ZONE: "a"}))
    cluster.set_node(a_node("n3", labels={ZONE: "a"}))
    cluster.set_node(a_node("n1", labels={ZONE: "b"}))
    assert [answer.ok for answer in judged(plugin, cluster, pod)] == [False, True, True]
    assert [answer.ok for answer in judged(plugin, cluster, pod, ["n3"])] == [True]


# -- scores ------------------------------------------------------------------------------------------------------------


def a_shape(*points: tuple[int, int]) -> VolumeBindingArgs:
    return VolumeBindingArgs(shape=tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in points))


FULLER_IS_BETTER = a_shape((0, 0), (100, 10))


def rooms(**sizes: str) -> list[Any]:
    """What is reported for each node."""
    return [
        a_class(),
        a_csi_driver(capacity=True),
        *(
            a_capacity(f"of-{host}", capacity=size, topology=LabelSelector(match_labels={HOST: host}))
            for host, size in sizes.items()
        ),
    ]


SCORES: Mapping[str, tuple[VolumeBindingArgs | None, list[Any], tuple[Volume, ...], list[int]]] = {
    "nothing to bind": (FULLER_IS_BETTER, [], (), [0, 0]),
    "claims that are bound": (
        FULLER_IS_BETTER,
        [a_claim(volume="pv"), a_volume("pv")],
        (claim("data"),),
        [0, 0],
    ),
    "volumes that are there": (
        FULLER_IS_BETTER,
        [
            BY_HAND,
            a_claim(class_name="manual", size="50Gi"),
            local("a", "n1", size="200Gi"),
            local("b", "n2", size="100Gi"),
        ],
        (claim("data"),),
        [25, 50],
    ),
    "volumes that are there, by a bent line": (
        a_shape((0, 0), (50, 3), (100, 5)),
        [
            BY_HAND,
            a_claim(class_name="manual", size="50Gi"),
            local("a", "n1", size="200Gi"),
            local("b", "n2", size="100Gi"),
        ],
        (claim("data"),),
        [15, 30],
    ),
    "new volumes": (
        FULLER_IS_BETTER,
        [*rooms(n1="100Gi", n2="50Gi"), a_claim(class_name="standard", size="10Gi")],
        (claim("data"),),
        [10, 20],
    ),
    "new volumes, by the default line": (
        None,
        [*rooms(n1="100Gi", n2="20Gi"), a_claim(class_name="standard", size="10Gi")],
        (claim("data"),),
        [90, 50],
    ),
    "two new volumes draw on the same room": (
        FULLER_IS_BETTER,
        [
            *rooms(n1="100Gi", n2="20Gi"),
            *(a_claim(name, class_name="standard", size="10Gi") for name in ("one", "two")),
        ],
        (claim("one"), claim("two")),
        [20, 100],
    ),
    "nobody says how much room there is": (
        FULLER_IS_BETTER,
        [
            a_class(),
            a_csi_driver(capacity=True),
            a_capacity(capacity=None, maximum="1Ti", topology=LabelSelector()),
            a_claim(class_name="standard"),
        ],
        (claim("data"),),
        [0, 0],
    ),
    "nobody asks for room": (FULLER_IS_BETTER, [a_class(), a_claim(class_name="standard")], (claim("data"),), [0, 0]),
    "a volume that is there goes before new ones": (
        FULLER_IS_BETTER,
        [
            *rooms(n1="10Gi", n2="20Gi"),
            a_claim("new", class_name="standard", size="10Gi"),
            a_claim("old", class_name="manual", size="50Gi"),
            BY_HAND,
            local("a", "n1", size="100Gi"),
            local("b", "n2", size="100Gi"),
        ],
        (claim("new"), claim("old")),
        [50, 50],
    ),
    "each class counts the same, and half a point is rounded up": (
        FULLER_IS_BETTER,
        [
            BY_HAND,
            a_class("manual-2", provisioner=MANUAL),
            a_claim("one", class_name="manual", size="10Gi"),
            a_claim("two", class_name="manual-2", size="25Gi"),
            local("a", "n1", size="100Gi"),
            local("b", "n2", size="10Gi"),
            a_volume("c", class_name="manual-2", size="100Gi"),
        ],
        (claim("one"), claim("two")),
        [18, 63],
    ),
}


@pytest.mark.parametrize(("args", "objects", "volumes", "want"), SCORES.values(), ids=SCORES.keys())
def test_scores(
    args: VolumeBindingArgs | None, objects: list[Any], volumes: tuple[Volume, ...], want: list[int]
) -> None:
    cluster, pod = a_world(*objects), a_pod_with(*volumes)
    plugin, info, state, rows = (
        VolumeBinding(args, a_handle(cluster)),
        cluster.info(pod),
        CycleState(),
        rows_of(cluster),
    )
    if plugin.pre_filter(state, info).status == SKIP:
        state.skip_filter.add(plugin.name)
    assert plugin.pre_score(state, info, rows) == SUCCESS
    assert plugin.score(state, info, rows).tolist() == want


def test_without_the_gate_it_scores_nothing() -> None:
    cluster = a_world(minor="1.36")
    plugin = VolumeBinding(None, a_handle(cluster, minor="1.36"))
    assert raw_scores(plugin, cluster, a_pod()) is None
    on = VolumeBinding(None, a_handle(cluster, minor="1.36", gates={"StorageCapacityScoring": True}))
    assert raw_scores(on, cluster, a_pod()) == [0, 0]


# -- hints -------------------------------------------------------------------------------------------------------------


def hint(resource: Resource, old: Any, new: Any, pod: Pod | None = None) -> Hint | None:
    cluster = a_cluster()
    event = ClusterEvent(resource, Action.ADD if old is None else Action.UPDATE)
    return hinted(VolumeBinding(None, a_handle(cluster)), event, cluster, pod or a_pod(), old, new)


HINTS: Mapping[str, tuple[Resource, Any, Any, bool]] = {
    "a new class": (Resource.STORAGE_CLASS, None, a_class(), True),
    "a class allows more": (Resource.STORAGE_CLASS, a_class(), a_class(topologies=[{ZONE: ["a"]}]), True),
    "a class allows the same": (Resource.STORAGE_CLASS, a_class(), a_class(mode=IMMEDIATE), False),
    "a new volume": (Resource.PERSISTENT_VOLUME, None, a_volume(), True),
    "any change of a volume": (Resource.PERSISTENT_VOLUME, a_volume(), a_volume(), True),
    "a node tells of its drivers": (Resource.CSI_NODE, None, a_csi_node(), True),
    "a successor takes charge": (Resource.CSI_NODE, a_csi_node(), a_csi_node(migrated="kubernetes.io/aws-ebs"), True),
    "another driver": (Resource.CSI_NODE, a_csi_node(), a_csi_node(drivers={DRIVER: 1}), False),
    "a new capacity": (Resource.CSI_STORAGE_CAPACITY, None, a_capacity(), True),
    "more capacity": (Resource.CSI_STORAGE_CAPACITY, a_capacity(capacity="1Gi"), a_capacity(capacity="2Gi"), True),
    "less capacity": (Resource.CSI_STORAGE_CAPACITY, a_capacity(capacity="2Gi"), a_capacity(capacity="1Gi"), False),
    "as much capacity": (
        Resource.CSI_STORAGE_CAPACITY,
        a_capacity(capacity="1Gi"),
        a_capacity(capacity="1024Mi"),
        False,
    ),
    "a capacity for the first time": (
        Resource.CSI_STORAGE_CAPACITY,
        a_capacity(capacity=None),
        a_capacity(capacity="1Gi"),
        True,
    ),
    "a capacity no more": (Resource.CSI_STORAGE_CAPACITY, a_capacity(), a_capacity(capacity=None), False),
    "larger volumes are possible": (
        Resource.CSI_STORAGE_CAPACITY,
        a_capacity(maximum="1Gi"),
        a_capacity(maximum="2Gi"),
        True,
    ),
}


@pytest.mark.parametrize(("resource", "old", "new", "queue"), HINTS.values(), ids=HINTS.keys())
def test_hints(resource: Resource, old: Any, new: Any, queue: bool) -> None:
    assert hint(resource, old, new) == (Hint.QUEUE if queue else Hint.SKIP)


def test_a_driver_that_stops_to_report_capacity_wakes_pods_that_name_it() -> None:
    mine, other = a_pod_with(claim("data"), inline_csi(DRIVER)), a_pod_with(inline_csi("other.example.com"))
    reports, silent, unknown = a_csi_driver(capacity=True), a_csi_driver(capacity=False), a_csi_driver()
    changes = [(reports, silent), (reports, unknown), (silent, reports), (unknown, silent), (reports, reports)]
    queued = [hint(Resource.CSI_DRIVER, old, new, mine) == Hint.QUEUE for old, new in changes]
    assert queued == [True, True, False, False, False]
    assert hint(Resource.CSI_DRIVER, reports, silent, other) == Hint.SKIP


def test_claims_of_its_own_wake_a_pod() -> None:
    pod = a_pod_with(claim("data"), ephemeral("scratch"))
    mine = [hint(Resource.PERSISTENT_VOLUME_CLAIM, None, a_claim(name), pod) for name in ("data", "web-scratch", "x")]
    assert mine == [Hint.QUEUE, Hint.QUEUE, Hint.SKIP]
    assert hint(Resource.PERSISTENT_VOLUME_CLAIM, None, a_claim("data", namespace="other"), pod) == Hint.SKIP


def test_any_new_node_wakes_it() -> None:
    cluster = a_cluster()
    assert hinted(VolumeBinding(None, a_handle(cluster)), NODE_ADD, cluster, a_pod(), None, a_node()) == Hint.QUEUE


def test_any_node_with_other_labels_wakes_it() -> None:
    cluster = a_cluster()
    event = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
    assert hinted(VolumeBinding(None, a_handle(cluster)), event, cluster, a_pod(), a_node(), a_node()) == Hint.QUEUE


def test_the_hint_for_a_capacity_that_is_none_cannot_tell() -> None:
    with pytest.raises(HintError, match="csistoragecapacity room"):
        hint(Resource.CSI_STORAGE_CAPACITY, a_capacity(), a_capacity(capacity="plenty"))
