"""The plugins about storage answer at every moment what their plain twins answer node by node.

The plugins keep what they need as things come, change and go; the twins look at everything anew.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from tests.builders import a_handle
from tests.plugins import storage_twins, storage_worlds
from tests.plugins.judging import judged, pre_filtered
from tests.plugins.storage_twins import View
from tests.plugins.storage_worlds import Maker

from berth.framework.status import PluginError
from berth.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Callable

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
