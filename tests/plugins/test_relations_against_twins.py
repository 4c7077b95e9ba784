"""Spreading and pod affinity answer for rows, in any order, what their plain twins answer by going through all pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import a_handle, rows_of
from tests.plugins import relation_twins as twins
from tests.plugins.judging import judged, scored
from tests.plugins.relation_worlds import (
    NAMES,
    PLAIN,
    PODS,
    SPREADING,
    RelationWorld,
    everything_in,
    placed,
    relation_worlds,
)

from berth.framework.cycle_state import CycleState
from berth.framework.interface import FilterPlugin, PreFilterExtensions, PreFilterPlugin
from berth.framework.plugin_args import InterPodAffinityArgs
from berth.framework.status import SUCCESS
from berth.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from berth.api.pod import Pod
    from berth.framework.interface import Plugin
    from berth.framework.status import Status

EXAMPLES = settings(max_examples=120, deadline=None)
MINORS = ("1.36", "1.37")


def plugin(name: str, world: RelationWorld, args: object = None, *, minor: str = "1.37") -> Plugin:
    return IN_TREE[name](args, a_handle(world.cluster, minor=minor))


@given(world=relation_worlds(SPREADING))
@EXAMPLES
def test_spreading_filters_as_its_twin(world: RelationWorld) -> None:
    want = [twins.spread_filter(world.pod, world.everything, name) for name in world.names]
    assert judged(plugin("PodTopologySpread", world), world.cluster, world.pod, world.names) == want


@given(world=relation_worlds(SPREADING))
@EXAMPLES
def test_spreading_scores_as_its_twin(world: RelationWorld) -> None:
    want = twins.spread_scores(world.pod, world.everything, world.names)
    assert scored(plugin("PodTopologySpread", world), world.cluster, world.pod, world.names) == want


@given(world=relation_worlds(PLAIN))
@EXAMPLES
def test_spreading_by_default_scores_as_its_twin(world: RelationWorld) -> None:
    want = twins.spread_scores(world.pod, world.everything, world.names)
    assert scored(plugin("PodTopologySpread", world), world.cluster, world.pod, world.names) == want


@pytest.mark.parametrize("minor", MINORS)
@given(world=relation_worlds(PODS))
@EXAMPLES
def test_affinity_filters_as_its_twin(minor: str, world: RelationWorld) -> None:
    rules = twins.Affinities(world.pod, world.everything, negative_is_all=minor == "1.36")
    want = [rules.filter(name) for name in world.names]
    assert judged(plugin("InterPodAffinity", world, minor=minor), world.cluster, world.pod, world.names) == want


@pytest.mark.parametrize("minor", MINORS)
@given(world=relation_worlds(PODS), weight=st.sampled_from([0, 1, 50]), ignores_others=st.booleans())
@EXAMPLES
def test_affinity_scores_as_its_twin(minor: str, world: RelationWorld, weight: int, ignores_others: bool) -> None:
    args = InterPodAffinityArgs(hard_pod_affinity_weight=weight, ignore_preferred_terms_of_existing_pods=ignores_others)
    negative_is_all = minor == "1.36"
    rules = twins.Affinities(world.pod, world.everything, negative_is_all=negative_is_all, required_weight=weight)
    want = rules.scores(world.names, ignores_others=ignores_others)
    affinity = plugin("InterPodAffinity", world, args, minor=minor)
    assert scored(affinity, world.cluster, world.pod, world.names) == want


# -- what-ifs ----------------------------------------------------------------------------------------------------------


def filtered(judge: Plugin, state: CycleState, world: RelationWorld) -> list[Status]:
    assert isinstance(judge, FilterPlugin)
    codes = judge.filter(state, world.cluster.info(world.pod), rows_of(world.cluster, world.names))
    return [judge.rejection(code) if code else SUCCESS for code in codes.tolist()]


def after_what_if(judge: Plugin, world: RelationWorld, newcomer: Pod, leavers: int) -> list[Status] | None:
    """The answers once *newcomer* came and some pods went, told by the extensions; None where the plugin sits out."""
    assert isinstance(judge, PreFilterPlugin)
    assert isinstance(judge, PreFilterExtensions)
    info, state, table = world.cluster.info(world.pod), CycleState(), world.cluster.table
    if judge.pre_filter(state, info).status != SUCCESS:
        return None
    before, twin = filtered(judge, state, world), state.clone()
    other = world.cluster.info(newcomer)
    row = table.row_of(newcomer.spec.node_name)
    assert row is not None
    table.add_pod(other, newcomer.spec.node_name)
    assert judge.add_pod(twin, info, other, row) == SUCCESS
    for row in table.live_rows().tolist():
        for leaver in [each for each in table.pods(row).values() if each is not other][:leavers]:
            table.remove_pod(leaver.uid, table.name(row))
            assert judge.remove_pod(twin, info, leaver, row) == SUCCESS
    assert filtered(judge, state, world) == before, "the state that was cloned has changed"
    return filtered(judge, twin, world)


# Told of a pod, the reference does not look whether it is terminating, nor whether the selector is empty.
COUNTED_ALIKE = [
    pod
    for pod in SPREADING
    if pod.metadata.deletion_timestamp is None
    and not any(twins.selects_all(each, pod) for each in pod.spec.topology_spread_constraints)
]


@given(
    world=relation_worlds(COUNTED_ALIKE), newcomer=st.sampled_from(COUNTED_ALIKE), on=st.sampled_from(NAMES),
    leavers=st.integers(0, 3),
)  # fmt: skip
@EXAMPLES
def test_spreading_follows_a_what_if(world: RelationWorld, newcomer: Pod, on: str, leavers: int) -> None:
    assume(on in world.everything.places)
    got = after_what_if(plugin("PodTopologySpread", world), world, placed(newcomer, 99, on), leavers)
    if got is not None:
        everything = everything_in(world.cluster)
        assert got == [twins.spread_filter(world.pod, everything, name) for name in world.names]


@given(
    world=relation_worlds(PODS), newcomer=st.sampled_from(PODS), on=st.sampled_from(NAMES), leavers=st.integers(0, 3)
)
@EXAMPLES
def test_affinity_follows_a_what_if(world: RelationWorld, newcomer: Pod, on: str, leavers: int) -> None:
    assume(on in world.everything.places)
    got = after_what_if(plugin("InterPodAffinity", world), world, placed(newcomer, 99, on), leavers)
    if got is not None:
        rules = twins.Affinities(world.pod, everything_in(world.cluster))
        assert got == [rules.filter(name) for name in world.names]
