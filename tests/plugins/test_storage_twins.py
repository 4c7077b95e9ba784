"""The plugins about storage answer at every moment what their plain twins answer node by node.

The plugins keep what they need as things come, change and go; the twins look at everything anew.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from tests.builders import a_handle, rows_of
from tests.plugins import storage_twins, storage_worlds
from tests.plugins.judging import judged, pre_filtered
from tests.plugins.storage_twins import View
from tests.plugins.storage_worlds import Maker

from berth.framework.cycle_state import CycleState
from berth.framework.status import PluginError
from berth.plugins.registry import IN_TREE
from berth.plugins.volume_binding.plugin import VolumeBinding

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.framework.status import Status

EXAMPLES = settings(max_examples=100, deadline=None)


def views(cluster: Cluster) -> list[View]:
    table = cluster.table
    return [View(cluster, table.node(row)) for row in table.live_rows().tolist()]


def answers(judge: Callable[[], list[Status]]) -> list[Status] | str:
    """What was answered; of pods that cannot be made sense of, the first that is met is told, whichever it is."""
    try:
        return judge()
    except PluginError as error:
        return str(error).partition(" (")[2]


def alone(plugin: object, cluster: Cluster, pod: Pod) -> list[Status]:
    """The answers for each node, asked one by one."""
    names = [view.node.metadata.name for view in views(cluster)]
    return [judged(plugin, cluster, pod, [name])[0] for name in names]


@given(seed=storage_worlds.seeds)
@EXAMPLES
def test_volume_restrictions(seed: int) -> None:
    maker = Maker(seed)
    cluster, pod = maker.world(), maker.asker()
    plugin = IN_TREE["VolumeRestrictions"](None, a_handle(cluster))
    for _ in chain((None,), maker.changes(cluster)):
        if pre_filtered(plugin, cluster, pod)[0].rejected:
            named = storage_twins.named_claims(pod)
            assert any(views(cluster)[0].claim("default", name) is None for name in named)
        else:
            want = [storage_twins.volume_restrictions(pod, view) for view in views(cluster)]
            assert judged(plugin, cluster, pod) == want
            assert alone(plugin, cluster, pod) == want


@given(seed=storage_worlds.seeds)
@EXAMPLES
def test_volume_zone(seed: int) -> None:
    maker = Maker(seed)
    cluster, pod = maker.world(), maker.asker()
    plugin = IN_TREE["VolumeZone"](None, a_handle(cluster))
    for _ in chain((None,), maker.changes(cluster)):
        if not pre_filtered(plugin, cluster, pod)[0].rejected:
            want = [storage_twins.volume_zone(pod, view) for view in views(cluster)]
            assert judged(plugin, cluster, pod) == want
            assert alone(plugin, cluster, pod) == want


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@given(seed=storage_worlds.seeds)
@EXAMPLES
def test_node_volume_limits(minor: str, seed: int) -> None:
    maker = Maker(seed)
    cluster, pod = maker.world(), maker.asker()
    plugin = IN_TREE["NodeVolumeLimits"](None, a_handle(cluster, minor=minor))

    def twins() -> list[Status]:
        heeds = minor == "1.37"
        return [storage_twins.node_volume_limits(pod, view, heeds_missing_drivers=heeds) for view in views(cluster)]

    for _ in chain((None,), maker.changes(cluster)):
        want = answers(twins)
        assert answers(lambda: judged(plugin, cluster, pod)) == want
        built_late = IN_TREE["NodeVolumeLimits"](None, a_handle(cluster, minor=minor))
        assert answers(lambda: judged(built_late, cluster, pod)) == want  # noqa: B023 - called at once
        if not isinstance(want, str):
            assert alone(plugin, cluster, pod) == want


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@given(seed=storage_worlds.seeds)
@settings(max_examples=120, deadline=None)
def test_volume_binding(minor: str, seed: int) -> None:
    maker = Maker(seed)
    cluster = maker.world_of_waiting_claims()
    plugin = IN_TREE["VolumeBinding"](None, a_handle(cluster, minor=minor))
    assert isinstance(plugin, VolumeBinding)
    for _ in chain((None,), maker.changes_of_waiting_claims(cluster)):
        pod = maker.asker_for_claims()
        info, state = cluster.info(pod), CycleState()
        result = plugin.pre_filter(state, info).status
        if not result.ok:
            continue
        rows = rows_of(cluster)
        want = [storage_twins.volume_binding(pod, view) for view in views(cluster)]
        codes = plugin.filter(state, info, rows).tolist()
        assert [list(plugin.rejection(code).reasons) for code in codes] == [outcome.reasons for outcome in want]
        assert [plugin.filter(state, info, rows[i : i + 1]).item(0) for i in range(len(rows))] == codes
        fitting = [i for i, code in enumerate(codes) if not code]
        found = [cluster.assumed_claims.get(name, "default") for name in dict.fromkeys(storage_twins.all_claims(pod))]
        claims = [claim for claim in found if claim is not None]
        scored = minor == "1.37" and plugin.pre_score(state, info, rows).ok
        for i in fitting if scored else ():
            score = plugin.score(state, info, rows[i : i + 1]).item(0)
            assert score == storage_twins.storage_score(want[i], claims, lambda share: 100 - share)
        if fitting:
            node = cluster.table.name(rows.item(maker.one(*fitting)))
            assert plugin.reserve(state, info, node).ok
            compare_promises(cluster, node, want[[cluster.table.name(row) for row in rows.tolist()].index(node)])
            if maker.one(True, False):
                plugin.unreserve(state, info, node)
                assert_nothing_is_promised(cluster, want)


def compare_promises(cluster: Cluster, node: str, outcome: storage_twins.Outcome) -> None:
    for key, volume in outcome.bound.items():
        promised = cluster.assumed_volumes.get(volume.metadata.name)
        assert promised is not None
        assert promised.spec.claim_ref is not None
        assert f"{promised.spec.claim_ref.namespace}/{promised.spec.claim_ref.name}" == key
    for key in outcome.made:
        claim = cluster.assumed_claims.get(key.partition("/")[2], "default")
        assert claim is not None
        assert claim.metadata.annotations["volume.kubernetes.io/selected-node"] == node


def assert_nothing_is_promised(cluster: Cluster, outcomes: list[storage_twins.Outcome]) -> None:
    for outcome in outcomes:
        for volume in outcome.bound.values():
            name = volume.metadata.name
            assert cluster.assumed_volumes.get(name) == volume
