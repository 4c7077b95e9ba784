"""Every filter and score answers for rows, in any order, what its plain twin answers node by node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_handle, a_node_affinity
from tests.plugins import twins, worlds
from tests.plugins.judging import judged, pre_filtered, raw_scores, scored
from tests.plugins.worlds import DONGLE, GPU, World

from berth.api.node_affinity import compile_node_selector, compile_preferred
from berth.framework.plugin_args import (
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from berth.framework.status import SKIP
from berth.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from berth.api.affinity import NodeSelectorTerm
    from berth.framework.interface import Plugin

EXAMPLES = settings(max_examples=60, deadline=None)
resource_lists = st.lists(
    st.tuples(st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU, DONGLE]), st.integers(1, 100)),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each[0],
)
shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda each: each[0]
).map(sorted)


def plugin(name: str, world: World, args: object = None, *, minor: str = "1.37") -> Plugin:
    return IN_TREE[name](args, a_handle(world.cluster, minor=minor))


def specs(resources: list[tuple[str, int]]) -> tuple[ResourceSpec, ...]:
    return tuple(ResourceSpec(name=name, weight=weight) for name, weight in resources)


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("NodeDeclaredFeatures", twins.node_declared_features),
        ("NodeName", twins.node_name),
        ("NodeUnschedulable", twins.node_unschedulable),
        ("TaintToleration", twins.taint_toleration),
    ],
)
@given(world=worlds.worlds(), on=st.sampled_from(["", "n0", "n3", "nowhere"]))
@EXAMPLES
def test_filters_of_what_nodes_say(name: str, twin: object, world: World, on: str) -> None:
    assert callable(twin)
    pod = msgspec.structs.replace(world.pod, spec=msgspec.structs.replace(world.pod.spec, node_name=on))
    assert judged(plugin(name, world), world.cluster, pod, world.names) == [twin(pod, view) for view in world.views()]


@given(world=worlds.worlds(), added=st.none() | st.lists(worlds.terms, max_size=2))
@EXAMPLES
def test_node_affinity_filters_as_its_twin(world: World, added: list[NodeSelectorTerm] | None) -> None:
    args = NodeAffinityArgs(added_affinity=None if added is None else a_node_affinity(added))
    required = a_node_affinity(added).required_during_scheduling_ignored_during_execution
    selector = None if required is None else compile_node_selector(required)
    affinity = plugin("NodeAffinity", world, args)
    info = world.cluster.info(world.pod)
    got = judged(affinity, world.cluster, world.pod, world.names)
    if got and got[0].reasons == ("pod affinity terms conflict",):
        assert not any(info.required_node_affinity.matches(view.node) for view in world.views())
    else:
        assert got == [twins.node_affinity(info, view, selector) for view in world.views()]


@given(world=worlds.worlds())
@EXAMPLES
def test_node_affinity_narrows_to_no_fewer_nodes_than_fit(world: World) -> None:
    info = world.cluster.info(world.pod)
    status, names = pre_filtered(plugin("NodeAffinity", world), world.cluster, world.pod)
    fitting = {view.node.metadata.name for view in world.views() if twins.node_affinity(info, view).ok}
    if names is not None:
        assert fitting <= names
    assert status.ok or status == SKIP or not fitting


@given(world=worlds.worlds())
@EXAMPLES
def test_node_affinity_scores_as_its_twin(world: World) -> None:
    affinity = world.pod.spec.affinity
    own = affinity.node_affinity if affinity else None
    wishes = own.preferred_during_scheduling_ignored_during_execution if own else None
    got = scored(plugin("NodeAffinity", world), world.cluster, world.pod, world.names)
    if wishes is None:
        assert got is None
    else:
        raw = [twins.preferred_weight(compile_preferred(wishes), view) for view in world.views()]
        assert got == twins.default_normalize(raw)


@given(world=worlds.worlds())
@EXAMPLES
def test_node_ports_filters_as_its_twin(world: World) -> None:
    info = world.cluster.info(world.pod)
    want = [twins.node_ports(info, view) for view in world.views()]
    assert judged(plugin("NodePorts", world), world.cluster, world.pod, world.names) == want


@given(world=worlds.worlds(), ignored=st.sampled_from([(), (GPU,)]), groups=st.sampled_from([(), ("vendor.io",)]))
@settings(max_examples=150, deadline=None)
def test_fit_filters_as_its_twin(world: World, ignored: tuple[str, ...], groups: tuple[str, ...]) -> None:
    args = NodeResourcesFitArgs(ignored_resources=ignored, ignored_resource_groups=groups)
    info = world.cluster.info(world.pod)
    want = [twins.node_resources_fit(info, view, ignored, groups) for view in world.views()]
    assert judged(plugin("NodeResourcesFit", world, args), world.cluster, world.pod, world.names) == want


@given(world=worlds.worlds())
@EXAMPLES
def test_taint_toleration_scores_as_its_twin(world: World) -> None:
    raw = [twins.untolerated_soft_taints(world.pod, view) for view in world.views()]
    taints = plugin("TaintToleration", world)
    assert scored(taints, world.cluster, world.pod, world.names) == twins.default_normalize(raw, reverse=True)


@pytest.mark.parametrize(("minor", "volumes_count"), [("1.36", False), ("1.37", True)])
@given(world=worlds.worlds())
@EXAMPLES
def test_image_locality_scores_as_its_twin(minor: str, volumes_count: bool, world: World) -> None:
    want = [twins.image_locality(world.pod, view, volumes_count=volumes_count) for view in world.views()]
    assert raw_scores(plugin("ImageLocality", world, minor=minor), world.cluster, world.pod, world.names) == want


@pytest.mark.parametrize(
    ("strategy", "twin"), [("LeastAllocated", twins.least_allocated), ("MostAllocated", twins.most_allocated)]
)
@given(world=worlds.worlds(), resources=resource_lists)
@EXAMPLES
def test_fit_scores_as_its_twins(strategy: str, twin: object, world: World, resources: list[tuple[str, int]]) -> None:
    assert callable(twin)
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type=strategy, resources=specs(resources)))
    info = world.cluster.info(world.pod)
    want = [twin(info, view, resources) for view in world.views()]
    assert raw_scores(plugin("NodeResourcesFit", world, args), world.cluster, world.pod, world.names) == want


@given(world=worlds.worlds(), resources=resource_lists, shape=shapes)
@EXAMPLES
def test_fit_scores_by_a_shape_as_its_twin(
    world: World, resources: list[tuple[str, int]], shape: list[tuple[int, int]]
) -> None:
    points = tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in shape)
    strategy = ScoringStrategy(
        type="RequestedToCapacityRatio",
        resources=specs(resources),
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(shape=points),
    )
    info = world.cluster.info(world.pod)
    want = [twins.requested_to_capacity_ratio(info, view, resources, shape) for view in world.views()]
    fit = plugin("NodeResourcesFit", world, NodeResourcesFitArgs(scoring_strategy=strategy))
    assert raw_scores(fit, world.cluster, world.pod, world.names) == want


@given(world=worlds.worlds(), resources=resource_lists)
@settings(max_examples=150, deadline=None)
def test_balanced_allocation_scores_as_its_twin(world: World, resources: list[tuple[str, int]]) -> None:
    info = world.cluster.info(world.pod)
    args = NodeResourcesBalancedAllocationArgs(resources=specs(resources))
    got = raw_scores(plugin("NodeResourcesBalancedAllocation", world, args), world.cluster, world.pod, world.names)
    if any(info.taken.get(name) for name, _ in resources):
        assert got == [twins.balanced_allocation(info, view, resources) for view in world.views()]
    else:
        assert got is None
