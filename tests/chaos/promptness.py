"""How promptly waiting pods are served, and what they cost while nothing happens that concerns them.

Figures in which kube-scheduler was seen to be weak: how long pods in a cluster without nodes take no notice of the
first one, how long a nomination to a deleted node stays, and the CPU that many waiting pods cost while events come that
are of no use to them; besides, what refused writes do to throughput. `python -m tests.chaos.promptness` prints them,
and with `--scheduler kube-scheduler` those of the reference.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench.usage import usage_of
from tests.chaos.clusters import cluster_named
from tests.chaos.faults import CALM, FaultPlan, Rates
from tests.chaos.proxy import ChaosProxy
from tests.integration.objects import a_node, a_pod
from tests.integration.scene import Scene
from tests.requeue.steps import allocatable, heartbeat, label
from tests.support.client import PODS
from tests.support.controlplane import find_assets
from tests.support.scheduler import SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

POLL_S = 0.01
WAITING = 1000
EVENTS_PER_S = 20
KUBERNETES = "1.37"
REFERENCE_STARTS_S = 4.0
WRITE_ERRORS = Rates(refuse=0.05, reads=False)


def seconds_until(is_so: Callable[[], bool], at_most_s: float = 30.0) -> float:
    """How long it takes.

    Raises:
        TimeoutError: longer than *at_most_s*.
    """
    began_s = time.monotonic()
    while not is_so():
        if time.monotonic() - began_s > at_most_s:
            raise TimeoutError(f"not within {at_most_s:g} s")
        time.sleep(POLL_S)
    return time.monotonic() - began_s


def first_node_s(scene: Scene, waited_s: float) -> float:
    """From the first node to the binding of a pod that has waited for a node for so long."""
    scene.start_scheduler().wait_synced()
    scene.create(a_pod("web"))
    scene.unschedulable("web", "no nodes available to schedule pods")
    time.sleep(waited_s)
    scene.create(a_node("first"))
    return seconds_until(lambda: bool(scene.pod("web")["spec"].get("nodeName")))


def nomination_s(scene: Scene) -> float:
    """From the end of a node to the end of the nomination to it."""
    scene.create(a_node("gone", cpu="1"))
    scene.start_scheduler().wait_synced()
    scene.create(a_pod("web", cpu="2"))
    scene.unschedulable("web", "0/1 nodes are available: 1 Insufficient cpu.")
    scene.api.patch(f"{PODS}/web/status", {"status": {"nominatedNodeName": "gone"}})
    scene.create(a_node("other", cpu="1"))
    time.sleep(0.3)
    scene.api.delete("/api/v1/nodes/gone")
    return seconds_until(lambda: not scene.pod("web")["status"].get("nominatedNodeName"))


def waiting_share(scene: Scene, seconds: float, *, own_labels: bool = False) -> float:
    """The share of a core that waiting pods cost, with events that concern none of them.

    Args:
        scene: an empty cluster.
        seconds: for how long events come.
        own_labels: whether each pod has a label of its own, as those of a StatefulSet do.
    """
    nodes = [a_node(f"node-{i}", cpu="1") for i in range(10)]
    scene.create(*nodes)
    scheduler = scene.start_scheduler().wait_synced()
    labels = [{"pod": str(i)} if own_labels else {} for i in range(WAITING)]
    scene.create(*(a_pod(f"web-{i}", cpu="2", labels=labels[i]) for i in range(WAITING)))
    scene.unschedulable(f"web-{WAITING - 1}", "0/10 nodes are available: 10 Insufficient cpu.")
    time.sleep(3.0)
    before_s, began_s = usage_of(scheduler.pid).cpu_s, time.monotonic()
    for number in range(int(seconds * EVENTS_PER_S)):
        node = nodes[number % len(nodes)]
        step = (label(node, step=str(number)), heartbeat(node), allocatable(node, memory=f"{8 + number % 7}Gi"))[
            number % 3
        ]
        step.do(scene.api)
        time.sleep(max(0.0, began_s + (number + 1) / EVENTS_PER_S - time.monotonic()))
    return (usage_of(scheduler.pid).cpu_s - before_s) / (time.monotonic() - began_s)


def share_under_errors(scene: Scene, count: int, rates: Rates = WRITE_ERRORS) -> float:
    """The throughput while some of the writes are refused, as a share of that while none is."""
    scene.create(*(a_node(f"node-{i}", cpu="64", pods=1000) for i in range(20)))
    calm_s, rough_s = _drain_s(scene, count, CALM), _drain_s(scene, count, rates)
    return calm_s / rough_s


def _drain_s(scene: Scene, count: int, rates: Rates) -> float:
    """How long a scheduler takes from when it has read all until so many pods are bound."""
    scene.create(*(a_pod(f"web-{i}", cpu="10m") for i in range(count)))
    with ChaosProxy(scene.api.server, FaultPlan(1, rates)) as proxy:
        kubeconfig = proxy.kubeconfig(scene.folder / "proxy", scene.api.token)
        scheduler = scene.start_scheduler(kubeconfig=kubeconfig).wait_synced()
        took_s = seconds_until(lambda: not scene.pending(), at_most_s=120.0)
        scheduler.kill()
    scene.api.delete(PODS)
    return took_s


class Reference(SchedulerProcess):
    """kube-scheduler, which does not say when it has read all."""

    def wait_synced(self, deadline_s: float = REFERENCE_STARTS_S) -> Self:
        time.sleep(deadline_s)
        return self


class ReferenceScene(Scene):
    """A scene in which kube-scheduler is started."""

    def launch(self, *flags: str, config: Mapping[str, Any] | None) -> SchedulerProcess:
        assets = find_assets(KUBERNETES)
        assert assets is not None
        name = f"reference-{len(self.schedulers)}"
        command = (str(assets / "kube-scheduler"),)
        self.schedulers.append(Reference(self.folder, *flags, config=config, name=name, command=command).start())
        return self.schedulers[-1]


def _in_words(measure: Callable[[Scene], float], scene: Scene) -> str:
    try:
        return f"{measure(scene):.3f}"
    except TimeoutError as too_long:
        return str(too_long)


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures, on the real API server."""
    parser = argparse.ArgumentParser(prog="promptness")
    parser.add_argument("--scheduler", choices=("berth", "kube-scheduler"), default="berth")
    is_reference = parser.parse_args(words).scheduler == "kube-scheduler"
    with (
        tempfile.TemporaryDirectory(prefix="berth-prompt-") as path,
        cluster_named("real", Path(path), KUBERNETES) as cluster,
    ):
        measures: dict[str, Callable[[Scene], float]] = {
            "first node noticed after": lambda scene: first_node_s(scene, 6.0),
            "nomination to a deleted node cleared after": nomination_s,
            "share of a core for 1000 waiting pods": lambda scene: waiting_share(scene, 10.0),
            "the same, with labels of their own": lambda scene: waiting_share(scene, 10.0, own_labels=True),
            "throughput with one write in twenty refused, as a share": lambda scene: share_under_errors(scene, 1000),
        }
        for number, (what, measure) in enumerate(measures.items()):
            folder = Path(path, str(number))
            folder.mkdir()
            scene = (ReferenceScene if is_reference else Scene)(cluster, folder)
            print(f"{what}: {_in_words(measure, scene)}", flush=True)
            scene.close()
            scene.api.wipe()
    return 0


if __name__ == "__main__":
    sys.exit(main())
