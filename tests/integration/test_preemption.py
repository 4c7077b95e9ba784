"""Pods that go for more important ones, from the decision to the binding, and promises that cannot be kept."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.integration.objects import a_node
from tests.integration.ranks import held, is_going, let_go, nominated, pod
from tests.integration.scene import condition_of
from tests.support.client import NODES

if TYPE_CHECKING:
    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
SOON_S = 2.0  # how long after the end of a fault a pod may be bound at the latest


def test_just_enough_pods_go_and_the_important_one_is_bound_in_their_place(ranked: Scene) -> None:
    ranked.create(a_node("node-a", cpu="4"), a_node("node-b", cpu="4"))
    low = ranked.create(*(pod(f"low-{i}", "low", nodeName="node-a") for i in range(4)))
    ranked.create(*(pod(f"mid-{i}", "mid", nodeName="node-b") for i in range(4)))
    (high,) = ranked.create(pod("high", "high", cpu="2"))
    assert ranked.bound("high")["high"] == "node-a"
    left = ranked.placements()
    assert len(left) == 7
    gone = [each for each in low if each["metadata"]["name"] not in left]
    for victim in gone:
        event = ranked.event("Preempted", victim)
        assert event["note"] == f"Preempted by pod {high['metadata']['uid']} on node node-a"
        assert (event["type"], event["action"], event["related"]["name"]) == ("Normal", "Preempting", "high")
    assert ranked.overcommitted() == []


def test_while_a_victim_goes_the_pod_waits_for_its_room_and_nobody_else_goes(ranked: Scene) -> None:
    ranked.create(a_node("node-a", cpu="1"))
    ranked.create(held(pod("low", "low", nodeName="node-a")))
    ranked.create(pod("high", "high"))
    nominated(ranked, "high", "node-a")
    is_going(ranked, "low")
    target = condition_of(ranked.pod("low"), "DisruptionTarget")
    assert target is not None
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    ranked.create(pod("mid", "mid"))
    ranked.unschedulable("mid", "0/1 nodes are available: 1 Insufficient cpu.")
    let_go(ranked, "low")
    ranked.bound("high", deadline_s=10 * SOON_S)
    assert ranked.placements() == {"high": "node-a"}


def test_a_budget_sends_somebody_else(ranked: Scene) -> None:
    ranked.create(a_node("node-a", cpu="1"), a_node("node-b", cpu="1"))
    low = pod("low", "low", nodeName="node-a")
    low["metadata"]["labels"] = {"app": "kept"}
    budget: JsonObject = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    budget |= {"metadata": {"name": "kept", "namespace": "default"}}
    budget |= {"spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "kept"}}}}
    ranked.create(budget, low, pod("mid", "mid", nodeName="node-b"))
    try:
        ranked.create(pod("high", "high"))
        assert ranked.bound("high") == {"low": "node-a", "high": "node-b"}
    finally:
        ranked.api.delete(f"{BUDGETS}/kept")


def test_a_pod_that_never_preempts_says_so(ranked: Scene) -> None:
    ranked.create(a_node("node-a", cpu="1"), pod("low", "low", nodeName="node-a"))
    ranked.create(pod("high", "patient"))
    # In 1.36 the plugin for devices says, too, that it can do nothing about it.
    devices = "no new claims to deallocate, " if ranked.api.get("/version")["minor"] == "36" else ""
    ranked.unschedulable(
        "high",
        f"0/1 nodes are available: 1 Insufficient cpu. {devices}preemption: "
        "not eligible due to preemptionPolicy=Never.",
    )
    assert ranked.placements() == {"low": "node-a"}


# -- faults -----------------------------------------------------------------------------------------------------------


def test_who_waited_behind_a_pod_that_is_gone_has_its_room(ranked: Scene) -> None:
    ranked.create(a_node("node-a", cpu="1"))
    ranked.create(held(pod("low", "low", nodeName="node-a")))
    ranked.create(pod("high", "high"))
    nominated(ranked, "high", "node-a")
    is_going(ranked, "low")
    ranked.create(pod("mid", "mid"))
    ranked.unschedulable("mid", "0/1 nodes are available: 1 Insufficient cpu.")
    ranked.delete_pod("high")
    let_go(ranked, "low")
    since_s = time.monotonic()
    ranked.bound("mid")
    assert time.monotonic() - since_s < 5 * SOON_S


def test_a_pod_whose_promised_node_is_gone_is_tried_elsewhere_at_once_and_told_so(ranked: Scene) -> None:
    ranked.create(a_node("node-a", cpu="1"), a_node("node-b", cpu="1"))
    ranked.create(held(pod("low", "low", nodeName="node-a")), held(pod("mid", "mid", nodeName="node-b")))
    (high,) = ranked.create(pod("high", "high"))
    nominated(ranked, "high", "node-a")
    ranked.api.delete(f"{NODES}/node-a")
    nominated(ranked, "high", "node-b")
    event = ranked.event("NominationGivenUp", high)
    assert event["note"] == "Nomination for node node-a given up: node node-a is gone"
    let_go(ranked, "mid")
    let_go(ranked, "low")
    assert ranked.bound("high")["high"] == "node-b"
