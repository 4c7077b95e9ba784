"""Waiting pods are served promptly and cost little; the bounds leave room for a machine that has other things to do."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.chaos.faults import FaultPlan, Rates
from tests.chaos.promptness import first_node_s, nomination_s, waiting_share
from tests.chaos.proxy import ChaosProxy
from tests.integration.objects import a_node, a_pod
from tests.integration.scene import Scene
from tests.requeue.steps import heartbeat, label

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.clusters import EmbeddedCluster


POSTS_OF_A_BINDING = 5
ATTEMPTS_IN_8_S = 5  # at once, and after pauses of one, two and four seconds; one more for pauses that end early


@pytest.fixture
def scene(embedded: EmbeddedCluster, tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(embedded, tmp_path)
    yield scene
    scene.close()


def test_the_first_node_is_noticed_by_pods_that_have_paused_long(scene: Scene) -> None:
    assert first_node_s(scene, waited_s=7.0) < 2.0  # the pause would have gone on for three seconds or more


def test_a_nomination_to_a_deleted_node_is_cleared(scene: Scene) -> None:
    assert nomination_s(scene) < 2.0


def test_a_thousand_waiting_pods_cost_next_to_nothing(scene: Scene) -> None:
    assert waiting_share(scene, seconds=4.0) < 0.1


def test_nothing_is_written_while_nothing_happens_that_concerns_a_waiting_pod(scene: Scene) -> None:
    (node,) = scene.create(a_node("node", cpu="1"))
    with ChaosProxy(scene.api.server, FaultPlan(1)) as proxy, ExitStack() as stack:
        stack.callback(scene.close)  # before the proxy
        scene.start_scheduler(kubeconfig=proxy.kubeconfig(scene.folder / "proxy", scene.api.token)).wait_synced()
        scene.create(*(a_pod(f"web-{i}", cpu="2") for i in range(20)))
        for i in range(20):
            scene.unschedulable(f"web-{i}", "0/1 nodes are available: 1 Insufficient cpu.")
        written_until_quiet(proxy)
        before = len(proxy.forwarded)
        for number in range(20):
            heartbeat(node).do(scene.api)
            label(node, step=str(number)).do(scene.api)
            time.sleep(0.1)
        assert [asked for _, asked in proxy.forwarded[before:]] == []


def test_a_pod_whose_binding_is_refused_again_and_again_is_tried_ever_more_seldom(scene: Scene) -> None:
    scene.create(a_node("node"))
    plan = FaultPlan(1, special={("create", "pods/binding"): Rates(refuse=1.0)})
    with ChaosProxy(scene.api.server, plan) as proxy, ExitStack() as stack:
        stack.callback(scene.close)  # before the proxy
        scene.start_scheduler(kubeconfig=proxy.kubeconfig(scene.folder / "proxy", scene.api.token)).wait_synced()
        scene.create(a_pod("web"))
        time.sleep(8.0)
        assert 2 <= plan.counts.total() <= POSTS_OF_A_BINDING * ATTEMPTS_IN_8_S
        plan.heal()
        scene.bound("web")


def written_until_quiet(proxy: ChaosProxy) -> None:
    """Wait until a second goes by in which nothing is written."""
    before = -1
    while len(proxy.forwarded) > before:
        before = len(proxy.forwarded)
        time.sleep(1.0)
