"""One scenario at work: block the pod, show what must not wake it, then wake it.

How often the pod is woken is counted by the scheduler's own metrics, which also tell when an event has been taken in,
so that nothing is concluded from silence alone.
"""

from __future__ import annotations

import http.client
import re
import ssl
import time
from typing import TYPE_CHECKING

from tests.integration.devices import CLAIMS
from tests.integration.scene import ALONE, Scene, condition_of
from tests.requeue.steps import WEB, Scenario, Step
from tests.support.client import PODS, ApiError, collection_path, object_path
from tests.support.controlplane import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from tests.integration.clusters import Cluster
    from tests.integration.objects import JsonObject
    from tests.support.scheduler import SchedulerProcess

WAKES_WITHIN_S = 15.0
TAKEN_IN_WITHIN_S = 0.4  # an event that is of no interest to anybody leaves no trace
SETTLES_WITHIN_S = 10.0
_QUIET_S = 0.1
_ANSWER_S = 30.0
_POLL_S = 0.02
_SAMPLE = re.compile(r"^(\w+)(?:\{([^}]*)\})? ([0-9.e+]+)$", re.MULTILINE)


class Metrics:
    """What a running scheduler counts."""

    def __init__(self, port: int) -> None:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=_ANSWER_S, context=trusting)

    def close(self) -> None:
        self._connection.close()

    def total(self, name: str, label: str = "") -> float:
        """The sum over all series of a family, or over those with a label."""
        self._connection.request("GET", "/metrics")
        text = self._connection.getresponse().read().decode()
        return sum(float(value) for found, labels, value in _SAMPLE.findall(text) if found == name and label in labels)

    def woken(self) -> float:
        """How often a pod was let into the queue of those that are tried."""
        return self.total("scheduler_queue_incoming_pods_total", 'queue="active"')

    def events(self) -> float:
        return self.total("scheduler_event_handling_duration_seconds_count")

    def known(self) -> tuple[float, float]:
        """How many nodes there are, and how many pods with a node or without."""
        nodes = self.total("scheduler_cache_size", 'type="nodes"')
        return nodes, self.total("scheduler_cache_size", 'type="pods"') + self.total("scheduler_pending_pods")


def _is_known(pod: JsonObject) -> bool:
    """Whether a scheduler counts the pod: it has a node, or is its own to schedule."""
    spec = pod["spec"]
    return "nodeName" in spec or "schedulerName" not in spec


class Stand:
    """A cluster with one scheduler that serves scenario after scenario.

    Args:
        cluster: with nothing in it.
        folder: for logs.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        (port,) = free_ports(1)
        self.scene = Scene(cluster, folder)
        self.api = cluster.api
        self.metrics = Metrics(port)
        self.scheduler: SchedulerProcess = self.scene.launch(
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--authorization-always-allow-paths=/metrics",
            config={
                **ALONE,
                "clientConnection": {"qps": 2000, "burst": 2000, "kubeconfig": str(cluster.kubeconfig)},
            },
        ).wait_synced()

    def close(self) -> None:
        self.metrics.close()
        self.scene.close()

    def run(self, scenario: Scenario) -> None:
        """Run a scenario, and leave the cluster empty.

        Raises:
            AssertionError: something woke the pod that must not, or it was not woken.
        """
        created: list[JsonObject] = [scenario.pod, *scenario.world]
        created += [obj for step in (*scenario.must_not, *scenario.wakes) for obj in step.creates]
        try:
            self._block(scenario)
            for step in scenario.must_not:
                self._leave_asleep(step)
            self._wake(scenario)
        finally:
            self._clear(created)

    def _block(self, scenario: Scenario) -> None:
        for obj in scenario.world:
            self._create(obj)
        nodes = sum(obj["kind"] == "Node" for obj in scenario.world)
        pods = sum(obj["kind"] == "Pod" and _is_known(obj) for obj in scenario.world)
        self._until("the world is known", lambda: self.metrics.known() == (nodes, pods))
        for step in scenario.before:
            step.do(self.api)
        if scenario.before:
            self._be_quiet()
        self._create(scenario.pod)

        def told() -> bool:
            condition = condition_of(self._pod(), "PodScheduled") or {}
            return scenario.because in condition.get("message", "")

        self._until(f"the pod is told {scenario.because!r}", told)
        self._be_quiet()

    def _leave_asleep(self, step: Step) -> None:
        woken, events = self.metrics.woken(), self.metrics.events()
        step.do(self.api)
        until = time.monotonic() + TAKEN_IN_WITHIN_S
        while self.metrics.events() == events and time.monotonic() < until:
            time.sleep(_POLL_S)
        time.sleep(_QUIET_S)
        times = self.metrics.woken() - woken
        assert times == 0, f"{step.what}: woke the pod {times:g} times"
        assert not self._pod()["spec"].get("nodeName"), f"{step.what}: bound the pod"

    def _wake(self, scenario: Scenario) -> None:
        woken = self.metrics.woken()
        for step in scenario.wakes:
            step.do(self.api)
        what = ", ".join(step.what for step in scenario.wakes)
        if scenario.binds:
            self._until(f"{what}: the pod is bound", lambda: bool(self._pod()["spec"].get("nodeName")))
        else:
            self._until(f"{what}: the pod is tried", lambda: self.metrics.woken() > woken)

    def _be_quiet(self) -> None:
        """Wait until what led to the block is over."""
        until = time.monotonic() + SETTLES_WITHIN_S
        before = (-1.0, -1.0)
        while time.monotonic() < until:
            now = self.metrics.woken(), self.metrics.events()
            if now == before:
                return
            before = now
            time.sleep(_QUIET_S)

    def _clear(self, created: Iterable[JsonObject]) -> None:
        self.api.wipe()
        for obj in created:
            try:
                if obj["kind"] == "Namespace":
                    self.api.delete(f"/api/v1/namespaces/{obj['metadata']['name']}/pods")
                else:
                    self.api.delete(object_path(obj))
            except ApiError as refused:
                if refused.reason != "NotFound":
                    raise
        if any(obj["kind"] == "ResourceClaim" for obj in created):
            self.api.wipe([CLAIMS])  # they are protected while somebody may use them
        self._until("the cluster is empty", lambda: self.metrics.known() == (0, 0))

    def _create(self, obj: JsonObject) -> None:
        try:
            self.api.post(collection_path(obj), obj)
        except ApiError as refused:
            if refused.reason != "AlreadyExists" or obj["kind"] != "Namespace":
                raise

    def _pod(self) -> JsonObject:
        return self.api.get(f"{PODS}/{WEB}")

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + WAKES_WITHIN_S
        while not is_so():
            self.scheduler.check()
            if time.monotonic() > until:
                raise AssertionError(f"not within {WAKES_WITHIN_S:g} s: {what}\n{self._told()}")
            time.sleep(_POLL_S)

    def _told(self) -> str:
        try:
            condition = condition_of(self._pod(), "PodScheduled")
        except ApiError as refused:
            return str(refused)
        return f"the pod was told {condition}; known: {self.metrics.known()}"
