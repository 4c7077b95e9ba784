"""The scores of NodeResourcesFit and NodeResourcesBalancedAllocation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.builders import a_cluster, a_container, a_handle, a_node, a_pod
from tests.devices import a_device_claim, a_device_class, a_result, a_slice, an_allocation
from tests.plugins.judging import raw_scores
from tests.storage import with_objects

from berth.api.pod import ResourceRequirements
from berth.framework.plugin_args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from berth.plugins.noderesources.balanced_allocation import NodeResourcesBalancedAllocation
from berth.plugins.noderesources.fit import NodeResourcesFit
from berth.plugins.noderesources.strategies import broken_line, make_strategy, quotient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster

Amounts = tuple[int, int]
"""CPU in thousandths, memory in bytes."""
GPU = "example.com/gpu"
RISING, FALLING = {0: 0, 100: 10}, {0: 10, 100: 0}


def shape(points: dict[int, int]) -> tuple[UtilizationShapePoint, ...]:
    return tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in points.items())


def fit_args(
    kind: str, weights: dict[str, int] | None = None, points: dict[int, int] | None = None
) -> NodeResourcesFitArgs:
    resources = weights or {"cpu": 1, "memory": 1}
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type=kind,
            resources=tuple(ResourceSpec(name=name, weight=weight) for name, weight in resources.items()),
            requested_to_capacity_ratio=RequestedToCapacityRatioParam(shape=shape(points)) if points else None,
        )
    )


def a_pod_of(amounts: Amounts, name: str = "judged", *, on: str = "") -> Pod:
    cpu_milli, memory_bytes = amounts
    return a_pod(name, on=on, cpu=f"{cpu_milli}m", memory=str(memory_bytes))


def a_cluster_of(*nodes: tuple[Amounts, Amounts | None]) -> Cluster:
    """Nodes as (what each offers, what a pod on it takes)."""
    made = [a_node(f"n{i}", cpu=f"{each[0]}m", memory=str(each[1])) for i, (each, _) in enumerate(nodes)]
    placed = [a_pod_of(taken, f"there-{i}", on=f"n{i}") for i, (_, taken) in enumerate(nodes) if taken is not None]
    return a_cluster(made, placed)


SMALL, LARGE = (4000, 10000), (6000, 10000)
EMPTY = a_cluster_of((SMALL, None), (LARGE, None))
USED = a_cluster_of((SMALL, (2000, 4000)), (LARGE, (1000, 2000)))
FIT: Mapping[str, tuple[NodeResourcesFitArgs, Cluster, Pod, list[int]]] = {
    "a falling shape": (
        fit_args("RequestedToCapacityRatio", points=FALLING),
        USED,
        a_pod_of((3000, 5000)),
        [10, 32],
    ),
    "a rising shape": (fit_args("RequestedToCapacityRatio", points=RISING), USED, a_pod_of((3000, 5000)), [95, 68]),
    "most allocated": (fit_args("MostAllocated"), USED, a_pod_of((1000, 2000)), [67, 36]),
    "least allocated": (fit_args("LeastAllocated"), USED, a_pod_of((1000, 2000)), [32, 63]),
    "least allocated of empty nodes": (fit_args("LeastAllocated"), EMPTY, a_pod_of((3000, 5000)), [37, 50]),
    "weights": (fit_args("LeastAllocated", {"memory": 2, "cpu": 1}), EMPTY, a_pod_of((3000, 5000)), [41, 50]),
    "a pod without containers": (fit_args("LeastAllocated"), EMPTY, a_pod(containers=[]), [100, 100]),
    "more than there is counts as nothing left": (
        fit_args("LeastAllocated"),
        a_cluster_of((SMALL, (3000, 0))),
        a_pod_of((3000, 0)),
        [50],
    ),
    "a node that offers nothing": (fit_args("LeastAllocated"), a_cluster_of(((0, 0), None)), a_pod_of((1, 1)), [0]),
}


@pytest.mark.parametrize(("args", "cluster", "pod", "want"), FIT.values(), ids=FIT.keys())
def test_fit(args: NodeResourcesFitArgs, cluster: Cluster, pod: Pod, want: list[int]) -> None:
    assert raw_scores(NodeResourcesFit(args, a_handle(cluster)), cluster, pod) == want


@pytest.mark.parametrize("weight", [1, 3, 100])
@pytest.mark.parametrize("kind", ["LeastAllocated", "MostAllocated"])
def test_amounts_beyond_64_bits_give_one_node_the_score_that_many_have(kind: str, weight: int) -> None:
    strategy = make_strategy(fit_args(kind, {"memory": weight}).scoring_strategy)
    offered, taken = 7, -(2**63) + 5  # what is taken has wrapped round, as it does in the reference
    [among_many] = strategy.of_nodes(np.array([[offered]]), np.array([[taken]]), [weight]).tolist()
    assert strategy.of_node([offered], [taken], [weight]) == among_many


def test_default_amounts_count_for_containers_that_ask_for_nothing() -> None:
    node = a_node(cpu="250m", memory=str(1000 * 2**20))
    busy = a_cluster([node], [a_pod(f"p{i}", on="n1") for i in range(2)])
    idle = a_cluster([node])
    most = fit_args("MostAllocated")
    assert raw_scores(NodeResourcesFit(most, a_handle(busy)), busy, a_pod()) == [80]
    assert raw_scores(NodeResourcesFit(most, a_handle(idle)), idle, a_pod()) == [30]


SIDECARS: Mapping[str, list[int]] = {"MostAllocated": [67, 45], "LeastAllocated": [32, 55]}


@pytest.mark.parametrize(("kind", "want"), SIDECARS.items())
def test_sidecars_count(kind: str, want: list[int]) -> None:
    sidecar = a_container("s", cpu="1000m", memory="2000", sidecar=True)
    nodes = [a_node(f"n{i}", cpu="4000m", memory="10000") for i in range(2)]
    cluster = a_cluster(nodes, [a_pod("there", on="n0", containers=[], init_containers=[sidecar])])
    pod = a_pod(cpu="1000m", memory="2000", init_containers=[sidecar])
    assert raw_scores(NodeResourcesFit(fit_args(kind), a_handle(cluster)), cluster, pod) == want


def test_what_the_pod_asks_for_as_a_whole_does_not_score() -> None:
    cluster = a_cluster([a_node(cpu="1", memory=str(1000 * 2**20))])
    pod = a_pod(spec={"resources": ResourceRequirements(requests={"cpu": "1", "memory": "1000Mi"})})
    assert raw_scores(NodeResourcesFit(fit_args("MostAllocated"), a_handle(cluster)), cluster, pod) == [15]


def gpu_nodes(*gpus: str, cpu: str = "4", memory: str = "10000", pods: tuple[Pod, ...] = ()) -> Cluster:
    offered = [{"cpu": cpu, "memory": memory, "pods": "110", GPU: many} for many in gpus]
    return a_cluster([a_node(f"n{i}", allocatable=each) for i, each in enumerate(offered)], pods)


WITH_GPU = {"cpu": 1, "memory": 1, GPU: 1}
GPUS: Mapping[str, tuple[NodeResourcesFitArgs, str, list[int]]] = {
    "an extended resource that is not asked for does not count": (fit_args("LeastAllocated", WITH_GPU), "0", [37, 37]),
    "one that is asked for counts": (fit_args("LeastAllocated", WITH_GPU), "2", [41, 51]),
    "the most allocated of one": (fit_args("MostAllocated", {GPU: 1}), "2", [50, 20]),
    "none asked for and no other resource": (fit_args("MostAllocated", {GPU: 1}), "0", [0, 0]),
}


@pytest.mark.parametrize(("args", "asked", "want"), GPUS.values(), ids=GPUS.keys())
def test_extended_resources_score_if_asked_for(args: NodeResourcesFitArgs, asked: str, want: list[int]) -> None:
    cluster = gpu_nodes("4", "10")
    pod = a_pod(cpu="3", memory="5000", requests={GPU: asked})
    assert raw_scores(NodeResourcesFit(args, a_handle(cluster)), cluster, pod) == want


BINS: Mapping[str, tuple[str, str, list[int]]] = {
    "two of eight and four": ("2", "0", [2, 5]),
    "two more where two are taken": ("2", "2", [2, 10]),
    "four of eight and four": ("4", "0", [5, 10]),
    "none": ("0", "0", [0, 0]),
}


@pytest.mark.parametrize(("asked", "taken", "want"), BINS.values(), ids=BINS.keys())
def test_bin_packing_of_an_extended_resource(asked: str, taken: str, want: list[int]) -> None:
    cluster = gpu_nodes("8", "4", pods=(a_pod("there", on="n1", requests={GPU: taken}),))
    args = fit_args("RequestedToCapacityRatio", {GPU: 1}, {0: 0, 100: 1})
    pod = a_pod(requests={GPU: asked})
    assert raw_scores(NodeResourcesFit(args, a_handle(cluster)), cluster, pod) == want


LINES: Mapping[str, tuple[dict[int, int], dict[int, int]]] = {
    "between two points": ({10: 1, 90: 9}, {0: 10, 10: 10, 15: 15, 20: 20, 89: 89, 90: 90, 100: 90}),
    "up and down": ({0: 2, 40: 10, 100: 0}, {0: 20, 30: 80, 40: 100, 70: 50, 99: 2, 100: 0}),
    "falling, toward zero": ({0: 10, 100: 0}, {0: 100, 1: 99, 33: 67, 100: 0}),
    "a single point": ({50: 4}, {0: 40, 50: 40, 100: 40}),
}


@pytest.mark.parametrize(("points", "want"), LINES.values(), ids=LINES.keys())
def test_broken_lines(points: dict[int, int], want: dict[int, int]) -> None:
    assert {x: broken_line(shape(points), x) for x in want} == want


QUOTIENTS = {(7, 2): 3, (-7, 2): -3, (7, -2): -3, (-7, -2): 3, (-6, 2): -3, (0, 5): 0}


@pytest.mark.parametrize(("numbers", "want"), QUOTIENTS.items())
def test_quotients_lose_their_fraction(numbers: tuple[int, int], want: int) -> None:
    assert quotient(*numbers) == want


BALANCED: Mapping[str, tuple[Cluster, Pod, list[int] | None]] = {
    "nothing asked for": (EMPTY, a_pod_of((0, 0)), None),
    "different nodes": (EMPTY, a_pod_of((3000, 5000)), [68, 75]),
    "different use": (
        a_cluster_of(((10000, 20000), (3000, 0)), ((10000, 20000), (3000, 5000))),
        a_pod_of((3000, 5000)),
        [73, 74],
    ),
    "different use of different nodes": (
        a_cluster_of(((10000, 20000), (3000, 0)), ((10000, 50000), (3000, 5000))),
        a_pod_of((3000, 5000)),
        [73, 70],
    ),
    "one resource asked for": (
        a_cluster_of(((3000, 5000), (3000, 0)), ((3000, 5000), None)),
        a_pod_of((0, 5000)),
        [100, 50],
    ),
    "the pod evens out what is there": (
        a_cluster_of(((6000, 10000), (3000, 0)), ((6000, 10000), (3000, 5000))),
        a_pod_of((3000, 0)),
        [62, 62],
    ),
    "one resource is not offered": (a_cluster_of(((4000, 0), None)), a_pod_of((3000, 5000)), [75]),
}


@pytest.mark.parametrize(("cluster", "pod", "want"), BALANCED.values(), ids=BALANCED.keys())
def test_balanced_allocation(cluster: Cluster, pod: Pod, want: list[int] | None) -> None:
    assert raw_scores(NodeResourcesBalancedAllocation(None, a_handle(cluster)), cluster, pod) == want


def test_balanced_allocation_of_an_extended_resource() -> None:
    args = NodeResourcesBalancedAllocationArgs(
        resources=tuple(ResourceSpec(name=name, weight=1) for name in ("cpu", "memory", GPU))
    )
    there = tuple(
        a_pod(f"p{i}", on=f"n{i}", cpu="3", memory="5000", requests={GPU: many}) for i, many in enumerate(("3", "0"))
    )
    cluster = gpu_nodes("8", "8", cpu="3500m", memory="40000", pods=there)
    plugin = NodeResourcesBalancedAllocation(args, a_handle(cluster))
    assert raw_scores(plugin, cluster, a_pod(requests={GPU: "1"})) == [75, 76]
    one, other = raw_scores(plugin, cluster, a_pod(cpu="1")) or [0, 1]
    assert one == other, "a resource that is not asked for is left out"


# -- devices that stand for a resource --------------------------------------------------------------------------------


def with_devices(many: int, *devices: int, taken: int = 0) -> tuple[Cluster, Pod]:
    """Nodes with so many devices each, of which the first node's are partly *taken*; and a pod that asks for *many*."""
    cluster = a_cluster(a_node(f"n{i}", cpu="4", memory="8Gi") for i in range(len(devices)))
    slices = (a_slice(f"s{i}", *(f"d{j}" for j in range(n)), on=f"n{i}", pool=f"n{i}") for i, n in enumerate(devices))
    held = an_allocation(*(a_result(f"d{j}", pool="n0") for j in range(taken)))
    with_objects(cluster, a_device_class("gpu", resource=GPU), *slices, a_device_claim(allocation=held))
    return cluster, a_pod("judged", requests={GPU: str(many)})


@pytest.mark.parametrize("nodes", [2, 12], ids=["few nodes", "many nodes"])
def test_devices_are_scored_where_the_node_has_nothing_itself(nodes: int) -> None:
    cluster, pod = with_devices(1, 3, 2, *([0] * (nodes - 2)))
    plugin = NodeResourcesFit(fit_args("LeastAllocated", {GPU: 1}), a_handle(cluster))
    assert raw_scores(plugin, cluster, pod) == [66, 50, *([0] * (nodes - 2))]


def test_devices_that_are_given_count_as_taken() -> None:
    cluster, pod = with_devices(1, 4, 4, taken=2)
    plugin = NodeResourcesFit(fit_args("MostAllocated", {GPU: 1}), a_handle(cluster))
    assert raw_scores(plugin, cluster, pod) == [75, 25]


def test_what_the_node_offers_itself_counts_before_devices() -> None:
    cluster, pod = with_devices(1, 4)
    cluster.set_node(a_node("n0", allocatable={"cpu": "4", "memory": "8Gi", "pods": "9", GPU: "2"}))
    plugin = NodeResourcesFit(fit_args("LeastAllocated", {GPU: 1}), a_handle(cluster))
    assert raw_scores(plugin, cluster, pod) == [50]


@pytest.mark.parametrize("nodes", [2, 12], ids=["few nodes", "many nodes"])
def test_devices_are_balanced_like_other_resources(nodes: int) -> None:
    cluster, _ = with_devices(1, 8, *([0] * (nodes - 1)))
    pod = a_pod("judged", cpu="1", memory="2Gi", requests={GPU: "1"})
    resources = tuple(ResourceSpec(name=name, weight=1) for name in ("cpu", "memory", GPU))
    plugin = NodeResourcesBalancedAllocation(
        NodeResourcesBalancedAllocationArgs(resources=resources), a_handle(cluster)
    )
    assert raw_scores(plugin, cluster, pod) == [72, *([75] * (nodes - 1))]


def test_devices_are_watched_only_where_they_are_scored() -> None:
    plain, scored = (
        NodeResourcesFit(None, a_handle()),
        NodeResourcesFit(fit_args("MostAllocated", {GPU: 1}), a_handle()),
    )
    assert [kind.name for kind in plain.kinds()] == ["DeviceClass"]
    expected = {"DeviceClass", "ResourceClaim", "ResourceSlice", "DeviceTaintRule"}
    assert {kind.name for kind in scored.kinds()} == expected
