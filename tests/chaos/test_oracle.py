"""The oracle sees what an API server shows, in order, and finds what should not be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.liveness import check_liveness, waiting_in_vain
from tests.chaos.oracle import Judge, Oracle
from tests.chaos.world import Change, JsonObject, World
from tests.integration.objects import a_node, a_pod, a_taint
from tests.support.client import NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.clusters import Cluster


@pytest.fixture
def oracle(cluster: Cluster) -> Iterator[Oracle]:
    with Oracle(cluster.api, grace_s=0.0) as oracle:
        yield oracle


def bind(cluster: Cluster, pod: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    cluster.api.request("POST", f"{PODS}/{pod}/binding", body)


def test_a_binding_without_room_is_seen(cluster: Cluster, oracle: Oracle) -> None:
    cluster.api.create(a_node("node", cpu="1"))
    for name in ("first", "second"):
        cluster.api.create(a_pod(name, cpu="600m"))
        bind(cluster, name, "node")
    oracle.settle()
    assert oracle.judge.bindings == 2
    (violation,) = oracle.violations
    assert violation.startswith("pod second (")
    assert violation.endswith(" on node: room: cpu: 1.200 of 1")


def test_room_that_was_made_before_counts(cluster: Cluster, oracle: Oracle) -> None:
    cluster.api.create(a_node("node", cpu="1"))
    for name in ("first", "second"):
        cluster.api.create(a_pod(name, cpu="600m"))
    bind(cluster, "first", "node")
    cluster.api.delete(f"{PODS}/first")
    bind(cluster, "second", "node")
    oracle.settle()
    assert (oracle.judge.bindings, oracle.violations) == (2, [])


def test_what_happened_while_the_server_was_away_is_caught_up_with(cluster: Cluster, oracle: Oracle) -> None:
    cluster.api.create(a_node("node", cpu="1"))
    oracle.settle()
    cluster.restart()
    cluster.compact()
    cluster.api.create(a_pod("web", nodeSelector={"zone": "a"}))
    bind(cluster, "web", "node")
    oracle.settle()
    (violation,) = oracle.violations
    assert violation.endswith("wishes: the node selector does not match")


def test_a_pod_that_would_fit_is_waiting_in_vain(cluster: Cluster, oracle: Oracle) -> None:
    cluster.api.create(a_node("full", cpu="1"))
    cluster.api.create(a_node("tainted", taints=[a_taint("dedicated")]))
    cluster.api.create(a_pod("large", cpu="2"))
    assert check_liveness(oracle, bound_s=0.0).waiting == []
    cluster.api.create(a_pod("small", cpu="1"))
    assert check_liveness(oracle, bound_s=0.0).waiting == ["pod small would fit on full"]
    bind(cluster, "small", "full")
    assert check_liveness(oracle, bound_s=0.0).waiting == []
    cluster.api.patch(f"{NODES}/tainted", {"spec": {"taints": None}})
    assert check_liveness(oracle, bound_s=0.0).waiting == ["pod large would fit on tainted"]


def versioned(kind: str, obj: JsonObject, version: int, *, deleted: bool = False, seen_s: float = 0.0) -> Change:
    obj["metadata"].setdefault("uid", f"uid of {obj['metadata']['name']}")
    return Change(kind, obj, deleted, version, seen_s)


def bound(pod: JsonObject, node: str) -> JsonObject:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


def told(*changes: Change, grace_s: float = 2.0) -> list[str]:
    judge = Judge(grace_s)
    for change in changes:
        judge.take(change)
    return judge.violations


def test_a_pod_that_moves_to_another_node_is_seen() -> None:
    nodes = [versioned("nodes", a_node(name), i) for i, name in enumerate("ab")]
    pods = [versioned("pods", bound(a_pod("web"), name), 5 + i) for i, name in enumerate("ab")]
    assert told(*nodes, *pods) == ["pod web (uid of w) went from a to b"]


def test_a_pod_of_the_same_name_may_go_elsewhere() -> None:
    nodes = [versioned("nodes", a_node(name), i) for i, name in enumerate("ab")]
    second = bound(a_pod("web"), "b")
    second["metadata"]["uid"] = "another"
    assert told(*nodes, versioned("pods", bound(a_pod("web"), "a"), 5), versioned("pods", second, 6)) == []


def test_a_node_that_nobody_knows_is_seen() -> None:
    assert told(versioned("pods", bound(a_pod("web"), "a"), 1)) == [
        "pod web (uid of w) on a: node: there is no such node"
    ]


@pytest.mark.parametrize(("later_s", "blamed"), [(1.0, False), (3.0, True)])
def test_nobody_is_blamed_for_what_has_just_changed(later_s: float, blamed: bool) -> None:
    changes = [
        versioned("nodes", a_node("a"), 1),
        versioned("nodes", a_node("a", taints=[a_taint("new")]), 2),
        versioned("pods", bound(a_pod("web"), "a"), 3, seen_s=later_s),
    ]
    assert bool(told(*changes)) is blamed


@pytest.mark.parametrize(("later_s", "blamed"), [(1.0, False), (3.0, True)])
def test_nobody_is_blamed_for_a_pod_that_has_just_gone(later_s: float, blamed: bool) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    database = bound(a_pod("db", labels={"app": "db"}), "a")
    changes = [
        versioned("nodes", a_node("a"), 1),
        versioned("pods", database, 2),
        versioned("pods", database, 3, deleted=True),
        versioned("pods", bound(a_pod("web", affinity=near), "a"), 4, seen_s=later_s),
    ]
    judge = Judge()
    for change in changes:
        judge.take(change)
    judge.wait_no_longer(float("inf"))
    assert bool(judge.violations) is blamed


@pytest.mark.parametrize(("comes_at_s", "blamed"), [(3.0, False), (9.0, True)])
def test_one_that_comes_before_the_other_on_which_it_relies_is_given_time(comes_at_s: float, blamed: bool) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    judge = Judge()
    judge.take(versioned("nodes", a_node("a"), 1))
    judge.take(versioned("pods", bound(a_pod("web", affinity=near), "a"), 2, seen_s=1.0))
    judge.wait_no_longer(comes_at_s)
    judge.take(versioned("pods", bound(a_pod("db", labels={"app": "db"}), "a"), 3, seen_s=comes_at_s))
    judge.wait_no_longer(float("inf"))
    assert bool(judge.violations) is blamed


def test_what_the_scheduler_itself_has_just_bound_is_never_excused() -> None:
    changes = [versioned("nodes", a_node("a", cpu="1"), 1)]
    changes += [versioned("pods", bound(a_pod(name, cpu="1"), "a"), 2, seen_s=0.1) for name in ("one", "two")]
    assert told(*changes) == ["pod two (uid of t) on a: room: cpu: 2 of 1"]


@pytest.mark.parametrize(
    "left_out",
    [
        a_pod("gated", schedulingGates=[{"name": "wait"}]),
        a_pod("foreign", schedulerName="other"),
        a_pod("claims", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]),
        {**a_pod("ending"), "metadata": {"name": "ending", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    ],
    ids=lambda pod: pod["metadata"]["name"],
)
def test_pods_that_the_rules_do_not_cover_are_left_out(left_out: JsonObject) -> None:
    world = World()
    for kind, obj in (("nodes", a_node("a")), ("pods", left_out)):
        world.apply(kind, versioned(kind, obj, 1).obj)
    assert waiting_in_vain(world) == []
