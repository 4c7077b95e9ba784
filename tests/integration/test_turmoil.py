"""Many pods, and servers and schedulers that go away in the middle: nothing is lost, nothing is done twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.objects import a_node, a_pod
from tests.integration.scene import condition_of
from tests.integration.turmoil import Creation, a_crowd, a_landscape, misplaced, names
from tests.support.client import NODES, PODS

if TYPE_CHECKING:
    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)

SLOW = {"qps": 10, "burst": 30}  # slow enough to be caught in the middle


def test_a_crowd_is_placed_without_giving_anything_twice(scene: Scene) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(60))
    scene.start_scheduler().wait_synced()
    pods = scene.create(*a_crowd(400))

    scene.bound(*names(pods))
    scene.assert_bound_once(since)
    scene.assert_each_scheduled_once(pods)
    assert scene.overcommitted() == []
    assert misplaced(scene) == []


def test_a_crowd_that_does_not_fit_fills_the_cluster_and_the_rest_is_told(scene: Scene) -> None:
    scene.create(*(a_node(f"node-{i}", cpu="1") for i in range(5)))
    scene.start_scheduler().wait_synced()
    scene.create(*(a_pod(f"pod-{i:02}", cpu="300m") for i in range(20)))
    full = "0/5 nodes are available: 5 Insufficient cpu."

    def all_answered() -> bool:
        found = scene.api.items(PODS)
        told = [pod for pod in found if (condition_of(pod, "PodScheduled") or {}).get("message", "").startswith(full)]
        return len(told) == 5 and len(scene.placements()) == 15

    scene.until("15 pods are bound and 5 are told why not", all_answered)
    assert scene.overcommitted() == []
    scene.create(a_node("node-5", cpu="2"))
    scene.bound(*(f"pod-{i:02}" for i in range(20)))
    assert scene.overcommitted() == []


def test_a_killed_scheduler_leaves_nothing_that_the_next_one_cannot_finish(scene: Scene) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(24))
    pods = scene.create(*a_crowd(120))
    first = scene.start_scheduler(connection=SLOW)
    scene.until("some pods are bound", lambda: len(scene.placements()) >= 30)
    first.kill()
    assert len(scene.placements()) < len(pods)

    scene.start_scheduler()
    scene.bound(*names(pods))
    scene.assert_bound_once(since)
    assert scene.overcommitted() == []
    assert misplaced(scene) == []


def test_a_scheduler_that_is_asked_to_stop_first_tells_what_it_has_done(scene: Scene) -> None:
    scene.create(*a_landscape(24))
    pods = scene.create(*a_crowd(60))
    first = scene.start_scheduler(connection=SLOW)
    scene.until("some pods are bound", lambda: len(scene.placements()) >= 20)
    first.terminate()
    done = scene.placements().keys()
    told = {event["regarding"]["name"] for event in scene.events("Scheduled")}
    assert told == done

    scene.start_scheduler()
    scene.bound(*names(pods))
    scene.assert_each_scheduled_once(pods)
    assert scene.overcommitted() == []


def test_a_server_that_dies_under_load_costs_no_pod(scene: Scene) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(30))
    scheduler = scene.start_scheduler().wait_synced()
    crowd = a_crowd(160)
    with Creation(scene.api, crowd) as creation:
        scene.until("some pods are bound", lambda: len(scene.placements()) >= 40)
        scene.cluster.restart()
    scene.bound(*names(crowd), deadline_s=120)
    scheduler.check()
    assert len(creation.created) == len(crowd)
    scene.assert_bound_once(since)
    assert scene.overcommitted() == []
    assert misplaced(scene) == []


def test_what_happened_while_the_scheduler_was_blind_is_caught_up_with(scene: Scene) -> None:
    scene.create(a_node("stays", cpu="2"), a_node("goes", cpu="2"))
    scheduler = scene.start_scheduler().wait_synced()
    scene.create(a_pod("old", cpu="1500m"), a_pod("lost", cpu="1500m"))
    scene.bound("old", "lost")
    scene.create(a_pod("waits", cpu="1500m"), a_pod("renewed", cpu="3"))
    scene.unschedulable("waits", "0/2 nodes are available: 2 Insufficient cpu.")
    scene.unschedulable("renewed", "0/2 nodes are available: 2 Insufficient cpu.")
    seen = scene.pod("renewed")["metadata"]["resourceVersion"]
    on_stays = "old" if scene.placements()["old"] == "stays" else "lost"

    scheduler.pause()
    scene.cluster.restart()
    scene.api.delete(f"{NODES}/goes")
    scene.delete_pod(on_stays)
    scene.create(a_node("comes", cpu="1200m"))
    scene.delete_pod("renewed")
    there = {"kubernetes.io/hostname": "comes"}
    (renewed, _) = scene.create(
        a_pod("renewed", cpu="600m", nodeSelector=there), a_pod("new", cpu="600m", nodeSelector=there)
    )
    scene.cluster.compact()
    assert not scene.can_resume(seen)
    scheduler.resume()

    placements = scene.bound("waits", "renewed", "new")
    assert placements["waits"] == "stays"  # there is room only for who knows that the pod there is gone
    assert (placements["renewed"], placements["new"]) == ("comes", "comes")
    scene.event("Scheduled", renewed)
    scene.create(a_pod("late", nodeSelector={"kubernetes.io/hostname": "goes"}))
    scene.unschedulable("late", "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
    assert scene.overcommitted() == ["goes: 1.0 of 0.0 pods", "goes: 1.5 of 0.0 cpu"]  # nobody collects its pod here
