"""The chaos suites: what is done to a scheduler, and to whom it talks, while pods come and go.

A suite only stirs things up. What has to hold, whatever it does, is judged by `Stage.finish`.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.chaos.contended import devices_under_errors, evictions_fail
from tests.chaos.crowd import a_large_node, some_nodes, some_pods
from tests.chaos.faults import CALM, ROUGH, FaultPlan, Rates
from tests.chaos.stage import Stage, path_of_node, path_of_pod
from tests.integration.clusters import REPLICAS, RealCluster
from tests.support.scheduler import LEADING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tests.integration.clusters import Cluster
    from tests.support.scheduler import SchedulerProcess

QUICK = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"}


def rough_network(stage: Stage) -> None:
    """Requests are refused, cut, delayed and answered wrongly; watches lose, repeat and break off."""
    stage.furnish()
    stage.start().wait_synced()
    stage.plan.rates = ROUGH
    with _coming(stage, some_pods(stage.chance, "rough", 120), every_s=0.02):
        stage.insist([a_large_node("large")])
    _come_and_go(stage, 20)


def killed_while_binding(stage: Stage) -> None:
    """The scheduler is killed at any moment, and started again as a kubelet does."""
    stage.furnish()
    stage.plan.rates = Rates(delay=0.5, longest_delay_s=0.1, after_commit=0.05, cut_after=0.05)
    with _coming(stage, some_pods(stage.chance, "killed", 150, relying=False), every_s=0.05):
        for _ in range(4):
            scheduler = stage.start_until_synced()
            time.sleep(stage.chance.uniform(0.05, 1.0))
            scheduler.kill()
            stage.plan.note("killed")
        stage.start_until_synced()


def server_restarted(stage: Stage) -> None:
    """The API server is killed and started again in the middle of binding."""
    stage.furnish()
    stage.start().wait_synced()
    with _coming(stage, some_pods(stage.chance, "restart", 100), every_s=0.02):
        for _ in range(2):
            stage.wait_bound(0.1)
            time.sleep(stage.chance.uniform(0.0, 0.3))
            stage.cluster.restart()
            stage.plan.note("restart")


def forgotten_past(stage: Stage) -> None:
    """The store is compacted while the scheduler is cut off, with nodes and pods replaced under their names."""
    stage.furnish()
    stage.start().wait_synced()
    stage.insist(some_pods(stage.chance, "before", 40))
    stage.wait_bound(0.8)
    stage.proxy.isolate()
    for number in range(3):
        stage.delete(path_of_node(f"node-{number:02}"))
    stage.insist(some_nodes(2))
    for path in [path for path in stage.created if path.endswith(("7", "8"))]:
        stage.delete(path)
    again = some_pods(stage.chance, "before", 40)
    stage.insist(pod for pod in again if pod["metadata"]["name"].endswith(("7", "8")))
    stage.cluster.restart()
    stage.cluster.compact()
    stage.plan.heal()
    stage.insist(some_pods(stage.chance, "after", 30))


def blind_in_one_eye(stage: Stage) -> None:
    """The watch of one resource stalls without being cut, while the others go on."""
    stage.furnish()
    stage.start().wait_synced()
    for resource in ("pods", "nodes"):
        stage.plan.stalled = frozenset({resource})
        stage.plan.note("stalled")
        stage.insist(some_pods(stage.chance, f"blind-to-{resource}", 40), every_s=0.01)
        stage.insist([a_large_node(f"large-while-blind-to-{resource}")])
        time.sleep(stage.chance.uniform(0.2, 1.0))
        stage.plan.heal()
    _come_and_go(stage, 10)


def leader_cut_off(stage: Stage) -> None:
    """Of two replicas the leader is cut off; the other takes over, and the deposed one binds nothing any more."""
    _deposed(stage, lambda plan: setattr(plan, "isolated", True))


def leader_cannot_renew(stage: Stage) -> None:
    """The leader can do everything but renew its lease: it has to stop binding of its own accord."""
    _deposed(stage, lambda plan: setattr(plan, "severed", frozenset({"leases"})))


def clock_steps(stage: Stage) -> None:
    """The wall clock of the scheduler's machine jumps by hours, back and forth."""
    stage.furnish()
    clock = stage.folder / "clock"
    set_clock(clock, 0)
    stage.start(command=(sys.executable, "-m", "tests.chaos.stepped", str(clock))).wait_synced()
    stage.plan.rates = Rates(refuse=0.1)
    with _coming(stage, some_pods(stage.chance, "clock", 90), every_s=0.05):
        for hours in (1, -2, 0, 24):
            set_clock(clock, hours * 3600 + stage.chance.uniform(-5, 5))
            stage.plan.note("clock step")
            time.sleep(stage.chance.uniform(0.5, 1.5))
    stage.plan.heal()
    stage.wait_bound(0.9)
    stage.plan.rates = Rates(refuse=0.95, reads=False)  # so that many pods pause after an error
    stage.insist(some_pods(stage.chance, "pausing", 40, relying=False))
    time.sleep(3.0)
    set_clock(clock, -3600)
    stage.plan.heal()
    stage.insist([a_large_node("large")])


def nodes_come_back(stage: Stage) -> None:
    """Nodes are taken away and brought back under their names, with the pods still on them, on a rough network."""
    stage.furnish()
    stage.start().wait_synced()
    stage.plan.rates = ROUGH
    with _coming(stage, some_pods(stage.chance, "homeless", 100), every_s=0.03):
        nodes = {node["metadata"]["name"]: node for node in some_nodes(15)}
        for name in stage.chance.sample(sorted(nodes), 8):
            stage.delete(path_of_node(name))
            time.sleep(stage.chance.uniform(0.0, 0.3))
            stage.insist([nodes[name]])
    stage.insist([a_large_node("large")])


SUITES: Mapping[str, Callable[[Stage], None]] = {
    suite.__name__: suite
    for suite in (
        rough_network,
        killed_while_binding,
        server_restarted,
        forgotten_past,
        blind_in_one_eye,
        leader_cut_off,
        leader_cannot_renew,
        clock_steps,
        nodes_come_back,
        evictions_fail,
        devices_under_errors,
    )
}


def set_clock(path: Path, wrong_by_s: float) -> None:
    """Set the clock of a process that was started by `stepped`."""
    fresh = path.with_suffix(".new")
    fresh.write_text(str(wrong_by_s), encoding="utf-8")
    fresh.replace(path)


def _deposed(stage: Stage, depose: Callable[[FaultPlan], None]) -> None:
    stage.furnish()
    others = FaultPlan(stage.seed + 1)
    election = {"leaderElect": True, "resourceName": f"chaos-{stage.seed}-{time.time_ns()}", **QUICK}
    config: dict[str, Any] = {"leaderElection": election}
    first, second = _tokens(stage.cluster)
    leader = stage.start(config=config, token=first).wait_log(LEADING).wait_synced()
    standby = stage.start(proxy=stage.add_proxy(others), config=config, token=second).wait_synced()
    stage.plan.rates = others.rates = Rates(delay=0.2, longest_delay_s=0.05)
    with _coming(stage, some_pods(stage.chance, "deposed", 150, relying=False), every_s=0.06):
        stage.wait_bound(0.3)
        depose(stage.plan)
        stage.plan.note("deposed")
        if stage.plan.isolated:
            stage.proxy.isolate()
        standby.wait_log(LEADING)
        took_over_s = time.monotonic()
        stage.plan.isolated, stage.plan.rates = False, CALM  # what it still had in hand could get through now
    _blame_late_bindings(stage, leader, took_over_s)


def _blame_late_bindings(stage: Stage, leader: SchedulerProcess, took_over_s: float) -> None:
    late = [at_s for at_s, what in stage.proxy.forwarded if what.resource == "pods/binding" and at_s > took_over_s]
    if late:
        stage.broken.append(f"{leader.name} bound {len(late)} pods up to {late[-1] - took_over_s:.2f} s too late")
    if leader.is_running and leader.wait_ended() == 0:
        stage.broken.append(f"{leader.name} was deposed and ended as if all were well")


def _tokens(cluster: Cluster) -> tuple[str | None, str | None]:
    if isinstance(cluster, RealCluster):
        first, second = REPLICAS
        return cluster.plane.token_of(first), cluster.plane.token_of(second)
    return None, None


@contextmanager
def _coming(stage: Stage, pods: list[Any], every_s: float) -> Iterator[None]:
    """Pods are created one after the other while the block runs; all are there when it ends."""
    creation = threading.Thread(target=stage.insist, args=(pods, every_s), name="creation")
    creation.start()
    try:
        yield
    finally:
        creation.join()


def _come_and_go(stage: Stage, count: int) -> None:
    """Pods are deleted while they wait or just have been bound, and come back under their names."""
    for i in range(count):
        (pod,) = some_pods(stage.chance, f"fleeting-{i}", 1)
        del pod["spec"]["containers"][0]["ports"]
        name = pod["metadata"]["name"]
        stage.insist([pod])
        time.sleep(stage.chance.uniform(0.0, 0.1))
        stage.delete(path_of_pod(name))
        if stage.chance.random() < 0.7:
            stage.insist([pod])
