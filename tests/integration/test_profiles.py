"""Several profiles in one scheduler: each pod is placed by the rules of the one that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.objects import a_node, a_pod, a_taint
from tests.integration.scene import ALONE

if TYPE_CHECKING:
    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)

RESOURCES = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]
PACKING = {"scoringStrategy": {"type": "MostAllocated", "resources": RESOURCES}}
CONFIG: dict[str, Any] = {
    **ALONE,
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "packing", "pluginConfig": [{"name": "NodeResourcesFit", "args": PACKING}]},
        {"schedulerName": "careless", "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}},
    ],
}


def test_each_pod_is_placed_by_the_profile_that_it_names(scene: Scene) -> None:
    scene.create(
        a_node("half-full", cpu="4", memory="4Gi"),
        a_node("empty", cpu="4", memory="4Gi"),
        a_node("pool", labels={"pool": "gpu"}, taints=[a_taint("dedicated", "gpu")]),
        a_pod("resident", cpu="2", memory="2Gi", nodeName="half-full"),
    )
    scene.start_scheduler(config=CONFIG).wait_synced()
    pool = {"pool": "gpu"}
    spread, packed, _, careless, foreign = scene.create(
        a_pod("spread", cpu="200m", memory="200Mi"),
        a_pod("packed", schedulerName="packing", cpu="200m", memory="200Mi"),
        a_pod("careful", nodeSelector=pool),
        a_pod("careless", schedulerName="careless", nodeSelector=pool),
        a_pod("foreign", schedulerName="careless-too"),
    )

    placements = scene.bound("spread", "packed", "careless")
    assert {name: placements[name] for name in ("spread", "packed", "careless")} == {
        "spread": "empty",
        "packed": "half-full",
        "careless": "pool",
    }
    scene.unschedulable("careful", "0/3 nodes are available: ")
    controllers = {scene.event("Scheduled", pod)["reportingController"] for pod in (spread, packed, careless)}
    assert controllers == {"default-scheduler", "packing", "careless"}
    assert scene.events(pod=foreign) == []
