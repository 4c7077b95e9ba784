"""Chaos suites about what is scarce: nodes that are full of less important pods, and devices.

What the oracle and the liveness check do not know, that a pod may have others go for it and how long that may take, is
judged here.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from tests.chaos.faults import Rates
from tests.chaos.stage import path_of_node, path_of_pod
from tests.integration.devices import CLAIMS, a_device_claim, a_device_class, a_pod_with, a_slice, given_twice
from tests.integration.objects import a_node, a_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.chaos.stage import Stage
    from tests.chaos.world import JsonObject

ENDS_WITHIN_S: Final = (
    4.0  # after the last fault; two seconds, and as much again for a machine that has other things to do
)
NODES: Final = 6
CPUS: Final = 4  # of each node, each taken by one pod that may go
NO_DELETES: Final[Mapping[tuple[str, str], Rates]] = {("delete", "pods"): Rates(refuse=1.0)}
LATE_EVENTS: Final[Mapping[tuple[str, str], Rates]] = {("line", "pods"): Rates(delay=1.0, longest_delay_s=1.0)}
DEVICES: Final = 3  # of each node
ROUGH_WRITES: Final = Rates(
    delay=0.2, longest_delay_s=0.1, refuse=0.1, after_commit=0.05, cut=0.03, cut_after=0.05, reads=False
)


def evictions_fail(stage: Stage) -> None:
    """Important pods come to a full cluster while deletions fail, are shown late, or are no longer wanted."""
    _fill(stage)
    stage.start().wait_synced()
    _for_a_while(stage, LATE_EVENTS, "late events", 3)
    _for_a_while(stage, NO_DELETES, "refused deletions", 2)
    wasted = _preemptor_gone(stage)
    wasted += _node_gone(stage)
    _blame_needless_evictions(stage, wasted)


def devices_under_errors(stage: Stage) -> None:
    """Pods with claims of devices come, go and come back while writes fail or are answered wrongly."""
    stage.insist(a_node(f"node-{i}") for i in range(NODES))
    stage.insist([a_device_class()])
    stage.insist(a_slice(f"node-{i}", *(f"gpu-{j}" for j in range(DEVICES))) for i in range(NODES))
    stage.start().wait_synced()
    stage.plan.rates = ROUGH_WRITES
    names = [f"with-device-{i:02}" for i in range(NODES * DEVICES)]
    stage.insist(map(a_device_claim, names), every_s=0.02)
    stage.insist((a_pod_with(name, name) for name in names), every_s=0.02)
    for name in stage.chance.sample(names, len(names) // 2):
        stage.delete(path_of_pod(name))
        _give_back(stage, name)
        stage.insist([a_pod_with(name, name)], every_s=0.05)
        if doubled := given_twice(stage.scene):
            stage.broken.append(f"given twice: {doubled}")
    stage.plan.heal()
    _ends_soon(stage, "every pod has its device", lambda: not stage.scene.pending(), within_s=4 * ENDS_WITHIN_S)
    if doubled := given_twice(stage.scene):
        stage.broken.append(f"given twice: {doubled}")


def _fill(stage: Stage) -> None:
    for name, value in (("chaos-low", 10), ("chaos-high", 1000)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        stage.insist([{**kind, "metadata": {"name": name}, "value": value}])
    stage.insist(a_node(f"node-{i}", cpu=str(CPUS)) for i in range(NODES))
    stage.insist(_ranked(f"low-{i}-{j}", "low", "1", nodeName=f"node-{i}") for i in range(NODES) for j in range(CPUS))


def _ranked(name: str, rank: str, cpu: str, **spec: Any) -> JsonObject:
    return a_pod(name, cpu=cpu, priorityClassName=f"chaos-{rank}", terminationGracePeriodSeconds=0, **spec)


def _high(stage: Stage, name: str, count: int) -> list[str]:
    names = [f"{name}-{i}" for i in range(count)]
    stage.insist(_ranked(each, "high", "2") for each in names)
    return names


def _for_a_while(stage: Stage, faults: Mapping[tuple[str, str], Rates], what: str, count: int) -> None:
    """Important pods come, and *faults* keep them from their nodes for a second or two."""
    stage.plan.special = faults
    names = _high(stage, what.replace(" ", "-"), count)
    time.sleep(stage.chance.uniform(0.5, 2.5))
    stage.plan.heal()
    _ends_soon(stage, f"bound after {what}", lambda: _are_bound(stage, names))


def _preemptor_gone(stage: Stage) -> int:
    """The pod that others were to go for is deleted; who comes after it gets what it needs."""
    stage.plan.special = NO_DELETES
    (doomed,) = _high(stage, "doomed", 1)
    _nominated(stage, doomed)
    stage.delete(path_of_pod(doomed))
    stage.plan.heal()
    names = _high(stage, "heir", 1)
    _ends_soon(stage, "bound after the end of a pod that others were to go for", lambda: _are_bound(stage, names))
    return 2


def _node_gone(stage: Stage) -> int:
    """The node is deleted that a pod was promised."""
    stage.plan.special = NO_DELETES
    names = _high(stage, "moved", 1)
    node = _nominated(stage, names[0])
    stage.delete(path_of_node(node))
    stage.plan.heal()
    _ends_soon(stage, "bound after the end of a promised node", lambda: _are_bound(stage, names))
    return 2


def _blame_needless_evictions(stage: Stage, wasted: int) -> None:
    placed = stage.scene.placements()
    gone = NODES * CPUS - sum(name.startswith("low-") for name in placed)
    needed = 2 * sum(not name.startswith("low-") for name in placed)
    if gone > needed + wasted:
        stage.broken.append(f"{gone} pods went for what {needed} would have made room for")


def _nominated(stage: Stage, name: str) -> str:
    node: str = stage.scene.until(
        f"{name} is promised a node", lambda: stage.scene.pod(name)["status"].get("nominatedNodeName")
    )
    return node


def _are_bound(stage: Stage, names: list[str]) -> bool:
    return not set(names) & stage.scene.pending()


def _give_back(stage: Stage, name: str) -> None:
    """What the claim controller does once nobody uses a claim any more."""
    stage.api.patch(f"{CLAIMS}/{name}/status", {"status": {"allocation": None, "reservedFor": None}})


def _ends_soon(stage: Stage, what: str, is_so: Callable[[], bool], within_s: float = ENDS_WITHIN_S) -> None:
    """Wait for something that has to happen soon after the last fault, and remember how long it took."""
    began_s = time.monotonic()
    stage.scene.until(what, is_so)
    took_s = time.monotonic() - began_s
    stage.took[what] = took_s
    if took_s > within_s:
        stage.broken.append(f"{what}: after {took_s:.1f} s, at most {within_s:g} s")
