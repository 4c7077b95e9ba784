"""NodeResourcesFit: the filter and what wakes the pods that it rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_container, a_handle, a_node, a_pod, rows_of
from tests.devices import a_device_class
from tests.plugins.judging import hinted, judged

from berth.api.pod import ResourceRequirements
from berth.cluster.kinds import DEVICE_CLASS
from berth.framework.cycle_state import CycleState
from berth.framework.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
    Hint,
    HintError,
    Resource,
)
from berth.framework.plugin_args import NodeResourcesFitArgs, ScoringStrategy
from berth.framework.status import SUCCESS, PluginError, Status, unresolvable, unschedulable
from berth.plugins.noderesources.fit import NodeResourcesFit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.dra import DeviceClass
    from berth.api.node import Node
    from berth.api.pod import Pod

A, B, KUBERNETES = "example.com/aaa", "example.com/bbb", "kubernetes.io/something"
HUGE, STORAGE = "hugepages-2Mi", "ephemeral-storage"
OFFERED = {"cpu": "10m", "memory": "20", "pods": "32", A: "5", STORAGE: "20", HUGE: "5"}
SCALE_DOWN, NODE_GREW = Action.UPDATE_POD_SCALE_DOWN, ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
CLASS_ADD = ClusterEvent(Resource.DEVICE_CLASS, Action.ADD)
CLASS_UPDATE = ClusterEvent(Resource.DEVICE_CLASS, Action.UPDATE)


def asks(cpu: str | None = None, memory: str | None = None, **more: Any) -> Pod:
    return a_pod("asking", cpu=cpu, memory=memory, **more)


def asks_for(name: str, amount: str) -> Pod:
    return asks(requests={name: amount})


def takes(cpu: str = "0", memory: str = "0", **more: str) -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, **more}


def starts(*init: str, main: str = "1m") -> Pod:
    """A pod whose plain init containers ask for these amounts of CPU."""
    return asks(main, "1", init_containers=[a_container(f"i{i}", cpu=cpu) for i, cpu in enumerate(init)])


def insufficient(*names: str) -> Status:
    return unschedulable(*(f"Insufficient {name}" for name in names))


def impossible(*names: str) -> Status:
    return unresolvable(*(f"Insufficient {name}" for name in names))


FILTERS: Mapping[str, tuple[Pod, dict[str, str], Status]] = {
    "nothing asked of a full node": (asks(), takes("10m", "20"), SUCCESS),
    "both taken": (asks("1m", "1"), takes("10m", "20"), insufficient("cpu", "memory")),
    "the start-up needs more than the run": (starts("3m"), takes("8m", "19"), insufficient("cpu")),
    "the largest of two init containers counts": (starts("3m", "2m"), takes("8m", "19"), insufficient("cpu")),
    "start-up and run are not added": (starts("1m"), takes("9m", "19"), SUCCESS),
    "all that is free": (asks("5m", "1"), takes("5m", "19"), SUCCESS),
    "one more than is free": (asks("6m", "1"), takes("5m", "19"), insufficient("cpu")),
    "more than there is": (asks("11m", "1"), takes(), impossible("cpu")),
    "one impossible, one short": (asks("11m", "1"), takes("0", "20"), impossible("cpu", "memory")),
    "an extended resource beyond what there is": (asks_for(A, "10"), takes(), impossible(A)),
    "an extended resource that is taken": (asks_for(A, "1"), takes(**{A: "5"}), insufficient(A)),
    "an extended resource of two containers": (
        asks(containers=[a_container(f"c{i}", requests={A: "3"}) for i in range(2)]),
        takes(**{A: "2"}),
        impossible(A),
    ),
    "an extended resource of two init containers": (
        asks(init_containers=[a_container(f"i{i}", requests={A: "3"}) for i in range(2)]),
        takes(**{A: "2"}),
        SUCCESS,
    ),
    "a resource that nobody offers": (asks_for(B, "1"), takes(), impossible(B)),
    "a native resource that nobody offers": (asks_for(KUBERNETES, "10"), takes(), impossible(KUBERNETES)),
    "huge pages beyond what there is": (asks_for(HUGE, "10"), takes(), impossible(HUGE)),
    "huge pages that are taken": (asks_for(HUGE, "4"), takes(**{HUGE: "2"}), insufficient(HUGE)),
    "nothing of an overbooked resource": (asks_for(A, "0"), takes(**{A: "6"}), SUCCESS),
    "a name that is not counted": (asks_for("storage", "100"), takes(), SUCCESS),
    "storage beyond what there is": (asks_for(STORAGE, "25"), takes(), impossible(STORAGE)),
    "storage that is there": (asks_for(STORAGE, "10"), takes(**{STORAGE: "2"}), SUCCESS),
    "storage that is taken": (asks_for(STORAGE, "5"), takes(**{STORAGE: "16"}), insufficient(STORAGE)),
    "overhead that fits": (
        asks("1m", "1", spec={"overhead": {"cpu": "3m", "memory": "13"}}),
        takes("5m", "5"),
        SUCCESS,
    ),
    "overhead that does not": (
        asks("1m", "1", spec={"overhead": {"cpu": "1m", "memory": "15"}}),
        takes("5m", "5"),
        insufficient("memory"),
    ),
    "the pod as a whole asks for more": (
        asks("1m", "1", spec={"resources": ResourceRequirements(requests={"cpu": "7m"})}),
        takes("5m", "1"),
        insufficient("cpu"),
    ),
    "the pod as a whole asks for huge pages": (
        asks(spec={"resources": ResourceRequirements(requests={HUGE: "10"})}),
        takes(),
        impossible(HUGE),
    ),
    "a sidecar is added to the container": (
        asks("6m", init_containers=[a_container("s", cpu="5m", sidecar=True)]),
        takes(),
        impossible("cpu"),
    ),
    "reasons stand in order": (
        asks("5m", "5", requests={HUGE: "5", A: "5", STORAGE: "5"}),
        takes("6m", "16", **{HUGE: "1", A: "1", STORAGE: "16"}),
        insufficient("cpu", "memory", STORAGE, A, HUGE),
    ),
}


@pytest.mark.parametrize("many", [1, 10])
@pytest.mark.parametrize(("pod", "taken", "want"), FILTERS.values(), ids=FILTERS.keys())
def test_filter(pod: Pod, taken: dict[str, str], want: Status, many: int) -> None:
    nodes = [a_node(f"n{i}", allocatable=OFFERED) for i in range(many)]
    cluster = a_cluster(nodes, [a_pod(f"there-{i}", on=f"n{i}", requests=taken) for i in range(many)])
    assert judged(NodeResourcesFit(None, a_handle(cluster)), cluster, pod) == [want] * many


def test_a_node_holds_no_more_pods_than_it_may() -> None:
    cluster = a_cluster([a_node(pods="1")], [a_pod("there", on="n1")])
    plugin = NodeResourcesFit(None, a_handle(cluster))
    assert judged(plugin, cluster, asks()) == [unschedulable("Too many pods")]
    assert judged(plugin, cluster, asks("65")) == [unresolvable("Too many pods", "Insufficient cpu")]


IGNORED: Mapping[str, tuple[NodeResourcesFitArgs, dict[str, str], Status]] = {
    "a resource by name": (NodeResourcesFitArgs(ignored_resources=(B,)), {B: "1"}, SUCCESS),
    "only that": (NodeResourcesFitArgs(ignored_resources=(B,)), {B: "1", A: "6"}, impossible(A)),
    "a group": (
        NodeResourcesFitArgs(ignored_resource_groups=("example.com",)),
        {B: "1", A: "6", KUBERNETES: "1"},
        impossible(KUBERNETES),
    ),
    "never a native resource": (
        NodeResourcesFitArgs(ignored_resources=(KUBERNETES, "cpu"), ignored_resource_groups=("kubernetes.io",)),
        {KUBERNETES: "1", "cpu": "1"},
        impossible("cpu", KUBERNETES),
    ),
}


@pytest.mark.parametrize(("args", "requests", "want"), IGNORED.values(), ids=IGNORED.keys())
def test_extended_resources_can_be_ignored(args: NodeResourcesFitArgs, requests: dict[str, str], want: Status) -> None:
    cluster = a_cluster([a_node(allocatable=OFFERED)])
    assert judged(NodeResourcesFit(args, a_handle(cluster)), cluster, asks(requests=requests)) == [want]


def test_filter_needs_prefilter() -> None:
    cluster = a_cluster([a_node()])
    with pytest.raises(PluginError, match='error reading "PreFilterNodeResourcesFit" from cycleState: not found'):
        NodeResourcesFit(None, a_handle(cluster)).filter(CycleState(), cluster.info(a_pod()), rows_of(cluster))


def test_a_malformed_amount_is_refused_in_prefilter() -> None:
    cluster = a_cluster([a_node()])
    with pytest.raises(PluginError, match=r"requests of pod default/asking: want a quantity .*, got 'lots'"):
        judged(NodeResourcesFit(None, a_handle(cluster)), cluster, asks("lots"))


@pytest.mark.parametrize(
    "strategy", [ScoringStrategy(type="Balanced"), ScoringStrategy(type="RequestedToCapacityRatio")]
)
def test_an_impossible_strategy_is_refused_at_once(strategy: ScoringStrategy) -> None:
    with pytest.raises(ValueError, match=f"scoring strategy {strategy.type}"):
        NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy), a_handle())


def test_codes_stay_valid_and_are_shared_by_like_answers() -> None:
    cluster = a_cluster([a_node(f"n{i}", cpu=str(i)) for i in range(8)])
    plugin, rows = NodeResourcesFit(None, a_handle(cluster)), rows_of(cluster)
    met: dict[int, Status] = {}
    for cpu in ("1", "4", "8", "4"):
        state, info = CycleState(), cluster.info(asks(cpu))
        plugin.pre_filter(state, info)
        for code in plugin.filter(state, info, rows).tolist():
            met.setdefault(code, plugin.rejection(code))
            assert plugin.rejection(code) == met[code]
    assert set(met.values()) == {SUCCESS, impossible("cpu")}


GONE: Mapping[str, tuple[Pod, Hint]] = {
    "a pod that ran": (a_pod("gone", on="n1", cpu="1"), Hint.QUEUE),
    "a pod that was nowhere": (a_pod("gone", cpu="1"), Hint.SKIP),
    "a pod that was promised a node": (a_pod("gone", nominated="n1"), Hint.QUEUE),
}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize(("gone", "want"), GONE.values(), ids=GONE.keys())
def test_a_pod_that_goes_away_wakes(gone: Pod, want: Hint, minor: str) -> None:
    plugin = NodeResourcesFit(None, a_handle(minor=minor))
    assert hinted(plugin, ASSIGNED_POD_DELETE, a_cluster(), asks("1"), gone, None) is want


LESS: Mapping[str, tuple[Pod, Pod, Pod, Hint]] = {
    "less of something else": (
        asks("1"),
        a_pod("other", on="n1", memory="2"),
        a_pod("other", on="n1", memory="1"),
        Hint.SKIP,
    ),
    "less of what is asked for": (
        asks("1"),
        a_pod("other", on="n1", cpu="2"),
        a_pod("other", on="n1", cpu="1"),
        Hint.QUEUE,
    ),
    "less of one thing that is asked for": (
        a_pod(cpu="1", memory="1"),
        a_pod("other", on="n1", cpu="2", memory="1"),
        a_pod("other", on="n1", cpu="1", memory="1"),
        Hint.QUEUE,
    ),
    "less of what nobody counts": (
        asks_for("storage", "1"),
        a_pod("other", on="n1", requests={"storage": "2"}),
        a_pod("other", on="n1", requests={"storage": "1"}),
        Hint.SKIP,
    ),
    "more of what is asked for": (
        asks("1"),
        a_pod("other", on="n1", cpu="1"),
        a_pod("other", on="n1", cpu="2"),
        Hint.SKIP,
    ),
    "less of an extended resource": (
        asks_for(A, "1"),
        a_pod("other", on="n1", requests={A: "2"}),
        a_pod("other", on="n1", requests={A: "1"}),
        Hint.QUEUE,
    ),
    "less, but not running": (asks("1"), a_pod("other", cpu="2"), a_pod("other", cpu="1"), Hint.SKIP),
    "less of what is asked for nothing of": (
        asks("0"),
        a_pod("other", on="n1", cpu="2"),
        a_pod("other", on="n1", cpu="1"),
        Hint.SKIP,
    ),
    "less than a unit": (
        asks("1"),
        a_pod("other", on="n1", cpu="1100u"),
        a_pod("other", on="n1", cpu="1010u"),
        Hint.SKIP,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), LESS.values(), ids=LESS.keys())
def test_a_pod_that_asks_for_less_wakes(pod: Pod, old: Pod, new: Pod, want: Hint) -> None:
    event = ClusterEvent(Resource.ASSIGNED_POD, SCALE_DOWN)
    assert hinted(NodeResourcesFit(None, a_handle()), event, a_cluster(), pod, old, new) is want


@pytest.mark.parametrize(("minor", "resource"), [("1.36", Resource.UNSCHEDULABLE_POD), ("1.37", Resource.TARGET_POD)])
def test_the_pod_itself_asking_for_less_wakes_it(minor: str, resource: Resource) -> None:
    plugin, event = NodeResourcesFit(None, a_handle(minor=minor)), ClusterEvent(resource, SCALE_DOWN)
    assert hinted(plugin, event, a_cluster(), asks("1"), asks("2"), asks("1")) is Hint.QUEUE


SMALL, LARGE = {"cpu": "1", "pods": "1"}, {"cpu": "4", "pods": "1"}
NODES: Mapping[str, tuple[Pod, Node | None, Node, Hint]] = {
    "a new node too small": (asks("2"), None, a_node(allocatable=SMALL), Hint.SKIP),
    "a new node large enough": (asks("2"), None, a_node(allocatable=LARGE), Hint.QUEUE),
    "a new node without what nobody counts": (asks_for("storage", "1"), None, a_node(allocatable=LARGE), Hint.QUEUE),
    "more of what is asked for nothing of": (
        asks("0"),
        a_node(allocatable=SMALL),
        a_node(allocatable=LARGE),
        Hint.SKIP,
    ),
    "a new node without room for pods": (asks(), None, a_node(allocatable={"cpu": "1"}), Hint.SKIP),
    "a new node without the resource": (asks_for(A, "1"), None, a_node(allocatable=LARGE), Hint.SKIP),
    "more of what is asked for, but too little": (
        asks("5"),
        a_node(allocatable=SMALL),
        a_node(allocatable=LARGE),
        Hint.SKIP,
    ),
    "more of what is asked for": (asks("1"), a_node(allocatable=SMALL), a_node(allocatable=LARGE), Hint.QUEUE),
    "less of it": (asks("1"), a_node(allocatable=LARGE), a_node(allocatable=SMALL), Hint.SKIP),
    "more of something else": (
        asks("1"),
        a_node(allocatable=SMALL),
        a_node(allocatable={**SMALL, "memory": "1"}),
        Hint.SKIP,
    ),
    "more pods": (asks("1"), a_node(allocatable=SMALL), a_node(allocatable={**SMALL, "pods": "2"}), Hint.QUEUE),
    "more cpu for a pod that asks for nothing": (
        asks(),
        a_node(allocatable=SMALL),
        a_node(allocatable=LARGE),
        Hint.SKIP,
    ),
    "more pods for a pod that asks for nothing": (
        asks(),
        a_node(allocatable=SMALL),
        a_node(allocatable={**SMALL, "pods": "2"}),
        Hint.QUEUE,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), NODES.values(), ids=NODES.keys())
def test_nodes_that_offer_more_wake(pod: Pod, old: Node | None, new: Node, want: Hint) -> None:
    event = NODE_ADD if old is None else NODE_GREW
    assert hinted(NodeResourcesFit(None, a_handle()), event, a_cluster(), pod, old, new) is want


def test_ignored_resources_are_looked_at_by_the_hint() -> None:
    plugin = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=(A,)), a_handle())
    assert hinted(plugin, NODE_ADD, a_cluster(), asks_for(A, "1"), None, a_node()) is Hint.SKIP


IMPLIED = "deviceclass.resource.kubernetes.io/gpu"
CLASSES: Mapping[str, tuple[Pod, DeviceClass | None, DeviceClass, Hint]] = {
    "a new class that the pod names": (asks_for(IMPLIED, "1"), None, a_device_class("gpu"), Hint.QUEUE),
    "a new class of another name": (asks_for(IMPLIED, "1"), None, a_device_class("fpga"), Hint.SKIP),
    "a new class for the resource": (asks_for(A, "1"), None, a_device_class("gpu", resource=A), Hint.QUEUE),
    "a class comes to stand for the resource": (
        asks_for(A, "1"),
        a_device_class("gpu"),
        a_device_class("gpu", resource=A),
        Hint.QUEUE,
    ),
    "a class stands for another resource": (
        asks_for(A, "1"),
        a_device_class("gpu"),
        a_device_class("gpu", resource=B),
        Hint.SKIP,
    ),
    "a class that the pod names is changed": (
        asks_for(IMPLIED, "1"),
        a_device_class("gpu"),
        a_device_class("gpu", resource=B),
        Hint.SKIP,
    ),
    "a class stands for the same as before": (
        asks_for(A, "1"),
        a_device_class("gpu", resource=A),
        a_device_class("gpu", resource=A),
        Hint.SKIP,
    ),
    "nothing and the empty name are the same": (
        asks_for(A, "1"),
        a_device_class("gpu", resource=""),
        a_device_class("gpu"),
        Hint.SKIP,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), CLASSES.values(), ids=CLASSES.keys())
def test_device_classes_wake(pod: Pod, old: DeviceClass | None, new: DeviceClass, want: Hint) -> None:
    event = CLASS_ADD if old is None else CLASS_UPDATE
    assert hinted(NodeResourcesFit(None, a_handle()), event, a_cluster(), pod, old, new) is want


def test_device_classes_are_waited_for_only_with_their_gate() -> None:
    plugin = NodeResourcesFit(None, a_handle(minor="1.36", gates={"DRAExtendedResource": False}))
    assert hinted(plugin, CLASS_ADD, a_cluster(), asks_for(A, "1"), None, a_device_class("gpu", resource=A)) is None


IMPLIED_FPGA = "deviceclass.resource.kubernetes.io/fpga"
BACKED: Mapping[str, tuple[dict[str, str], dict[str, str], Status]] = {
    "devices stand behind what the node does not know": ({B: "3"}, {}, SUCCESS),
    "devices stand behind what the node has none of": ({B: "3"}, {B: "0"}, SUCCESS),
    "a node with its own answers for itself": ({B: "3"}, {B: "2"}, impossible(B)),
    "a class that goes by its own name": ({IMPLIED: "3"}, {}, SUCCESS),
    "a class that does not exist": ({IMPLIED_FPGA: "3"}, {}, impossible(IMPLIED_FPGA)),
    "nothing stands behind the other resource": ({A: "1", B: "3"}, {}, impossible(A)),
    "all else counts as ever": ({"cpu": "2", B: "3"}, {"cpu": "1"}, impossible("cpu")),
}


@pytest.mark.parametrize("many", [1, 20], ids=["one node", "many nodes"])
@pytest.mark.parametrize(("wanted", "offered", "want"), BACKED.values(), ids=BACKED.keys())
def test_what_devices_stand_behind_is_left_to_dynamic_resources(
    wanted: dict[str, str], offered: dict[str, str], want: Status, many: int
) -> None:
    plenty = {"cpu": "8", "memory": "8Gi", "pods": "9"}
    cluster = a_cluster(a_node(f"n{i}", allocatable={**plenty, **offered}) for i in range(many))
    cluster.objects.put(DEVICE_CLASS, a_device_class("gpu", resource=B))
    plugin = NodeResourcesFit(None, a_handle(cluster))
    assert judged(plugin, cluster, asks(requests=wanted)) == [want] * many


def test_devices_stand_behind_nothing_without_their_gate() -> None:
    cluster = a_cluster([a_node("n1")])
    cluster.objects.put(DEVICE_CLASS, a_device_class("gpu", resource=B))
    plugin = NodeResourcesFit(None, a_handle(cluster, minor="1.36", gates={"DRAExtendedResource": False}))
    assert judged(plugin, cluster, asks_for(B, "1")) == [impossible(B)]
    assert list(plugin.kinds()) == []


def test_a_pod_that_devices_stand_behind_is_like_no_other() -> None:
    cluster = a_cluster([a_node("n1")])
    cluster.objects.put(DEVICE_CLASS, a_device_class("gpu", resource=B))
    plugin = NodeResourcesFit(None, a_handle(cluster))
    assert plugin.sign(cluster.info(asks_for(B, "1"))) is None
    assert plugin.sign(cluster.info(asks_for(A, "1"))) == plugin.sign(cluster.info(asks_for(A, "1"))) is not None


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, a_node(allocatable={"cpu": "1", "pods": "1"}), Hint.QUEUE),
        (None, a_node(allocatable={"cpu": "1", "pods": "1", B: "1"}), Hint.SKIP),
        (a_node(allocatable={"cpu": "1", "pods": "1"}), a_node(allocatable={"cpu": "1", "pods": "1"}), Hint.QUEUE),
        (None, a_node(allocatable={"cpu": "0", "pods": "1"}), Hint.SKIP),
    ],
    ids=["devices may be there", "the node has too few itself", "an update of such a node", "no room for the rest"],
)
def test_nodes_on_which_devices_may_meet_a_request_wake(old: Node | None, new: Node, want: Hint) -> None:
    cluster = a_cluster()
    cluster.objects.put(DEVICE_CLASS, a_device_class("gpu", resource=B))
    event = NODE_ADD if old is None else NODE_GREW
    pod = asks("1", requests={B: "2"})
    assert hinted(NodeResourcesFit(None, a_handle(cluster)), event, cluster, pod, old, new) is want


HINTS_OVER_MALFORMED: Mapping[str, tuple[ClusterEvent, Any, Any]] = {
    "a node": (NODE_ADD, None, a_node()),
    "a device class": (CLASS_ADD, None, a_device_class("gpu", resource=A)),
    "another pod": (
        ClusterEvent(Resource.ASSIGNED_POD, SCALE_DOWN),
        a_pod("other", on="n1", cpu="2"),
        a_pod("other", on="n1", cpu="1"),
    ),
}


@pytest.mark.parametrize(("event", "old", "new"), HINTS_OVER_MALFORMED.values(), ids=HINTS_OVER_MALFORMED.keys())
def test_hints_cannot_tell_for_a_pod_with_a_malformed_amount(event: ClusterEvent, old: Any, new: Any) -> None:
    with pytest.raises(HintError, match="got 'lots'"):
        hinted(NodeResourcesFit(None, a_handle()), event, a_cluster(), asks("lots"), old, new)
