"""What a user sees of the scheduler: where pods go, and what those are told that go nowhere."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.integration.objects import (
    REQUIRED,
    a_node,
    a_pod,
    a_taint,
    affinity_term,
    keep_apart_from,
    required_node_affinity,
)
from tests.integration.scene import condition_of, path_of
from tests.support.client import NODES, PODS

if TYPE_CHECKING:
    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)


def test_a_pod_is_bound_and_told_so(served: Scene) -> None:
    served.create(a_node("node-a"))
    (pod,) = served.create(a_pod("web", cpu="100m"))

    assert served.bound("web") == {"web": "node-a"}
    scheduled = condition_of(served.pod("web"), "PodScheduled")
    assert scheduled is not None
    assert scheduled["status"] == "True"
    event = served.event("Scheduled", pod)
    assert event["note"] == "Successfully assigned default/web to node-a"
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert event["reportingController"] == "default-scheduler"
    assert event["reportingInstance"].startswith("default-scheduler-")


def test_a_pod_without_a_place_is_told_why_and_bound_when_a_node_appears(served: Scene) -> None:
    (pod,) = served.create(a_pod("web"))
    condition = served.unschedulable("web", "no nodes available to schedule pods")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert condition["observedGeneration"] == served.pod("web")["metadata"]["generation"]

    served.create(a_node("small", cpu="1"), a_node("other", taints=[a_taint("dedicated", "gpu")]))
    assert served.bound("web") == {"web": "small"}
    assert served.event("FailedScheduling", pod)["note"].startswith("no nodes available to schedule pods")
    assert served.event("Scheduled", pod)["note"] == "Successfully assigned default/web to small"


def test_each_node_is_counted_under_the_reason_for_which_it_was_refused(served: Scene) -> None:
    gpu = a_taint("dedicated", "gpu")
    served.create(a_node("small", cpu="1"), a_node("tiny", cpu="500m"), a_node("pool", cpu="8", taints=[gpu]))
    (pod,) = served.create(a_pod("big", cpu="2"))
    why = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
    served.unschedulable("big", why)
    event = served.event("FailedScheduling", pod)
    assert event["note"].startswith(why)
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["reportingController"] == "default-scheduler"


def test_a_taint_keeps_pods_away_until_it_is_taken_off(served: Scene) -> None:
    served.create(a_node("pool", taints=[a_taint("dedicated", "gpu")]))
    toleration = {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    served.create(a_pod("plain"), a_pod("welcome", tolerations=[toleration]))
    assert served.bound("welcome") == {"welcome": "pool"}
    served.unschedulable("plain", "0/1 nodes are available: 1 node(s) had untolerated taint(s).")

    served.api.patch(f"{NODES}/pool", {"spec": {"taints": None}})
    served.bound("plain")


def test_node_affinity_and_selectors_are_met(served: Scene) -> None:
    served.create(a_node("node-a", labels={"zone": "a"}), a_node("node-b", labels={"zone": "b", "disk": "ssd"}))
    served.create(
        a_pod("in-a", affinity=required_node_affinity("zone", "a", "c")),
        a_pod("on-ssd", nodeSelector={"disk": "ssd"}),
        a_pod("nowhere", affinity=required_node_affinity("zone", "c")),
    )
    assert served.bound("in-a", "on-ssd") == {"in-a": "node-a", "on-ssd": "node-b"}
    served.unschedulable("nowhere", "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")

    served.api.patch(f"{NODES}/node-b", {"metadata": {"labels": {"zone": "c"}}})
    assert served.bound("nowhere")["nowhere"] == "node-b"


def test_pods_that_keep_apart_share_no_node_and_use_the_one_that_becomes_free(served: Scene) -> None:
    served.create(a_node("node-a"), a_node("node-b"))
    apart = keep_apart_from("web", "kubernetes.io/hostname")
    served.create(*(a_pod(f"web-{i}", labels={"app": "web"}, affinity=apart) for i in range(2)))
    placements = served.bound("web-0", "web-1")
    assert set(placements.values()) == {"node-a", "node-b"}
    served.create(a_pod("web-2", labels={"app": "web"}, affinity=apart))
    why = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    served.unschedulable("web-2", why)

    served.delete_pod("web-0")
    assert served.bound("web-2")["web-2"] == placements["web-0"]


def test_a_pod_waits_for_the_company_that_it_wants(served: Scene) -> None:
    served.create(a_node("node-a", labels={"zone": "a"}), a_node("node-b", labels={"zone": "b"}))
    served.create(a_pod("web", affinity={"podAffinity": {REQUIRED: [affinity_term("cache", "zone")]}}))
    served.unschedulable("web", "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
    served.create(a_pod("cache", labels={"app": "cache"}, nodeSelector={"zone": "b"}))
    assert served.bound("web", "cache") == {"cache": "node-b", "web": "node-b"}


def test_pods_are_spread_over_zones_and_wait_where_that_cannot_be(served: Scene) -> None:
    served.create(a_node("node-a", cpu="1", labels={"zone": "a"}), a_node("node-b", labels={"zone": "b"}))
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pods = [a_pod(f"web-{i}", cpu="400m", labels={"app": "web"}, topologySpreadConstraints=[spread]) for i in range(6)]
    for pod in pods:  # one by one, so that it is known which of them finds no place
        served.create(pod)
        if pod is not pods[-1]:
            served.bound(pod["metadata"]["name"])
    zones = Counter(served.placements().values())
    assert zones == {"node-a": 2, "node-b": 3}
    served.unschedulable(
        "web-5",
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match pod topology spread constraints.",
    )
    served.create(a_node("node-a2", labels={"zone": "a"}))
    assert served.bound("web-5")["web-5"] == "node-a2"


def test_a_port_of_a_node_is_given_once_and_given_again_when_it_is_free(served: Scene) -> None:
    served.create(a_node("node-a"))
    served.create(a_pod("first", host_port=8080))
    served.bound("first")
    served.create(a_pod("second", host_port=8080), a_pod("elsewhere", host_port=8081))
    served.bound("elsewhere")
    why = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    served.unschedulable("second", why)

    served.delete_pod("first")
    served.bound("second")
    assert served.overcommitted() == []


def test_room_that_a_deleted_pod_leaves_is_used(served: Scene) -> None:
    served.create(a_node("node-a", cpu="2", memory="4Gi"))
    served.create(a_pod("first", cpu="1500m", memory="1Gi"))
    served.bound("first")
    served.create(a_pod("second", cpu="1", memory="3584Mi"))
    served.unschedulable("second", "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory.")

    served.delete_pod("first")
    assert served.bound("second") == {"second": "node-a"}


def test_a_node_takes_no_more_pods_than_it_allows(served: Scene) -> None:
    served.create(a_node("node-a", pods=2))
    served.create(*(a_pod(f"web-{i}") for i in range(3)))
    (left,) = served.until(
        "two pods are bound and one is told why not",
        lambda: [
            pod
            for pod in served.api.items(PODS)
            if (condition_of(pod, "PodScheduled") or {})
            .get("message", "")
            .startswith("0/1 nodes are available: 1 Too many pods.")
        ],
    )
    assert len(served.placements()) == 2
    (bound, _) = served.placements()
    served.delete_pod(bound)
    served.bound(left["metadata"]["name"])


def test_an_unschedulable_node_is_left_out_until_it_is_uncordoned(served: Scene) -> None:
    served.create(a_node("node-a"))
    served.api.patch(f"{NODES}/node-a", {"spec": {"unschedulable": True}})
    served.create(a_pod("web"))
    served.unschedulable("web", "0/1 nodes are available: 1 node(s) were unschedulable.")
    served.api.patch(f"{NODES}/node-a", {"spec": {"unschedulable": None}})
    served.bound("web")


def test_a_gated_pod_waits_until_its_gates_are_gone(served: Scene) -> None:
    served.create(a_node("node-a"))
    (gated,) = served.create(a_pod("gated", schedulingGates=[{"name": "example.com/quota"}]))
    served.create(a_pod("free"))
    served.bound("free")
    waiting = condition_of(served.pod("gated"), "PodScheduled")
    assert waiting is not None
    assert waiting["reason"] == "SchedulingGated"
    assert served.events(pod=gated) == []

    served.api.patch(path_of("gated"), {"spec": {"schedulingGates": None}})
    served.bound("gated")


def test_a_pod_of_another_scheduler_is_left_alone(served: Scene) -> None:
    served.create(a_node("node-a"))
    (foreign,) = served.create(a_pod("foreign", schedulerName="somebody-else"))
    served.create(a_pod("ours"))  # created later, so it is decided on later
    assert served.bound("ours") == {"ours": "node-a"}
    assert condition_of(served.pod("foreign"), "PodScheduled") is None
    assert served.events(pod=foreign) == []


def test_pods_that_others_have_placed_take_their_room(served: Scene) -> None:
    served.create(a_node("node-a", cpu="2"), a_node("node-b", cpu="1"))
    served.create(a_pod("static", cpu="1500m", nodeName="node-a"))
    served.create(a_pod("web", cpu="900m"))
    assert served.bound("web")["web"] == "node-b"


def test_a_pod_deleted_while_it_waits_is_forgotten(served: Scene) -> None:
    served.create(a_node("node-a", cpu="1"))
    (old,) = served.create(a_pod("web", cpu="2"))
    served.unschedulable("web", "0/1 nodes are available: 1 Insufficient cpu.")
    served.delete_pod("web")
    (new,) = served.create(a_pod("web", cpu="500m"))  # the same name, another pod
    served.bound("web")
    served.event("Scheduled", new)
    assert served.events("Scheduled", old) == []


def test_the_highest_priority_is_served_first_when_room_appears(served: Scene) -> None:
    served.create(a_pod("low", cpu="1"), a_pod("high", cpu="1", priorityClassName="system-cluster-critical"))
    served.unschedulable("low", "no nodes available")
    served.unschedulable("high", "no nodes available")
    served.create(a_node("node-a", cpu="1"))
    assert served.bound("high") == {"high": "node-a"}
