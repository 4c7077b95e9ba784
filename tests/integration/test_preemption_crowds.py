"""Many important pods at once take no more than they need, and schedulers that share nodes do not fight over them.

PREEMPTION_NODES in the environment says on how many nodes the crowd meets, for those who doubt that a few tell enough.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.chaos.oracle import Oracle
from tests.integration.objects import a_node
from tests.integration.ranks import Replicas, held, is_going, let_go, nominated, pod
from tests.integration.scene import ALONE, FAST
from tests.support.scheduler import COMMAND, SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(600)

CROWDED = int(os.environ.get("PREEMPTION_NODES", "20"))
IN_TIME_S = max(60.0, 0.5 * CROWDED)
MOST_EVICTIONS = 3
SECOND = "second-scheduler"


def test_a_crowd_of_important_pods_takes_no_more_than_it_needs_and_the_oracle_is_silent(ranked: Scene) -> None:
    nodes = [f"node-{i}" for i in range(CROWDED)]
    ranked.create(*(a_node(name, cpu="4") for name in nodes))
    ranked.create(*(pod(f"low-{i}", "low", cpu="900m", nodeName=nodes[i % CROWDED]) for i in range(4 * CROWDED)))
    names = [f"high-{i}" for i in range(CROWDED)]
    with Oracle(ranked.api) as oracle:
        ranked.create(*(pod(name, "high", cpu="3") for name in names))
        placements = ranked.bound(*names, deadline_s=IN_TIME_S)
        oracle.settle()
    assert oracle.violations == []
    assert oracle.judge.bindings == CROWDED
    assert len({placements[name] for name in names}) == CROWDED
    assert len(placements) == 2 * CROWDED, "three went from each node, and one stayed"
    assert ranked.overcommitted() == []


# -- two schedulers on the same nodes ---------------------------------------------------------------------------------


@contextmanager
def another_scheduler(scene: Scene, folder: Path, command: Path = COMMAND) -> Iterator[None]:
    """A second scheduler with a name of its own."""
    config = {
        **ALONE,
        "clientConnection": {**FAST, "kubeconfig": str(scene.cluster.kubeconfig)},
        "profiles": [{"schedulerName": SECOND}],
    }
    with SchedulerProcess(folder, "--secure-port=0", config=config, name="second", command=(str(command),)):
        yield


def fight(scene: Scene) -> int:
    """One important pod against three replicas of another scheduler, each on a node that it fills; who went."""
    scene.create(*(a_node(f"node-{i}", cpu="1") for i in range(3)))
    with Replicas(scene.api, pod("low", "low", schedulerName=SECOND), 3) as replicas:
        scene.until("the replicas run", lambda: len(scene.placements()) == 3)
        scene.create(pod("high", "high"))
        scene.bound("high")
        scene.until("a replica waits", lambda: len(scene.pending()) == 1)
        assert "high" in scene.placements()
        assert scene.overcommitted() == []
        return replicas.gone


def test_pods_of_another_scheduler_that_come_back_at_once_do_not_take_the_room_again(
    ranked: Scene, tmp_path: Path
) -> None:
    with another_scheduler(ranked, tmp_path):
        assert 1 <= fight(ranked) <= MOST_EVICTIONS


@pytest.mark.parametrize("cluster", [pytest.param("real", marks=pytest.mark.real)], indirect=True, scope="session")
def test_nor_do_those_of_a_scheduler_that_knows_nothing_of_our_promises(
    ranked: Scene, envtest_assets: Path, tmp_path: Path
) -> None:
    with another_scheduler(ranked, tmp_path, envtest_assets / "kube-scheduler"):
        assert 1 <= fight(ranked) <= MOST_EVICTIONS


# -- patience ---------------------------------------------------------------------------------------------------------


def test_a_pod_whose_victim_does_not_go_in_time_is_tried_elsewhere_and_told_so_once(ranked: Scene) -> None:
    profiles = [{"schedulerName": "impatient"}]
    ranked.start_scheduler("--victim-patience=1s", config={**ALONE, "profiles": profiles}).wait_synced()
    ranked.create(a_node("node-a", cpu="1"), a_node("node-b", cpu="1"))
    ranked.create(held(pod("low", "low", nodeName="node-a")), held(pod("mid", "mid", nodeName="node-b")))
    (high,) = ranked.create(pod("high", "high", schedulerName="impatient"))
    nominated(ranked, "high", "node-a")
    nominated(ranked, "high", "node-b")
    is_going(ranked, "mid")
    let_go(ranked, "mid")
    assert ranked.bound("high")["high"] == "node-b"
    event = ranked.event("NominationGivenUp", high)
    assert event["note"] == "Nomination for node node-a given up: pod default/low does not go"
    assert "series" not in event
    let_go(ranked, "low")
