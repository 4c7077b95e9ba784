"""One scenario at work: a cluster, the schedulers that run against it, and what a user can see of their doings.

Everything is read from the API server. Nothing sleeps for a fixed time: what is waited for has a deadline, and a
scheduler that ended meanwhile is reported at once, with its log.
"""

from __future__ import annotations

import time
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from tests.integration.history import journeys
from tests.support.client import NODES, PODS
from tests.support.scheduler import DEADLINE_S, SchedulerError, SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.integration.clusters import Cluster
    from tests.integration.objects import JsonObject

T = TypeVar("T")

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
POLL_S = 0.05
FAST = {"qps": 2000, "burst": 2000}  # a clientConnection that does not slow a scenario down
ALONE: Mapping[str, Any] = {"leaderElection": {"leaderElect": False}}
_UNITS = {
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "Ki": Fraction(1 << 10),
    "Mi": Fraction(1 << 20),
    "Gi": Fraction(1 << 30),
}


class Scene:
    """What a scenario does and sees.

    Args:
        cluster: where.
        folder: for the schedulers' logs and configurations.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.api = cluster.api
        self.schedulers: list[SchedulerProcess] = []
        self._watched: SchedulerProcess | None = None  # has to run while something is waited for

    def start_scheduler(
        self,
        *flags: str,
        config: Mapping[str, Any] = ALONE,
        connection: Mapping[str, Any] = FAST,
        kubeconfig: Path | None = None,
    ) -> SchedulerProcess:
        """Start one more scheduler; it is killed when the scenario ends."""
        connection = {**connection, "kubeconfig": str(kubeconfig or self.cluster.kubeconfig)}
        return self.launch("--secure-port=0", *flags, config={"clientConnection": connection, **config})

    def launch(self, *flags: str, config: Mapping[str, Any] | None) -> SchedulerProcess:
        """As `start_scheduler`, with nothing added to flags and configuration."""
        name = f"berth-{len(self.schedulers)}"
        scheduler = SchedulerProcess(self.folder, *flags, config=config, name=name).start()
        self.schedulers.append(scheduler)
        self._watched = scheduler
        return scheduler

    def watch_over(self, scheduler: SchedulerProcess) -> None:
        """Show the log of a scheduler that somebody else has started and will end."""
        self._watched = scheduler

    def close(self) -> None:
        """Kill the schedulers that were started here."""
        for scheduler in self.schedulers:
            scheduler.kill()

    def until(self, what: str, probe: Callable[[], T | None], deadline_s: float = DEADLINE_S) -> T:
        """What *probe* gives, as soon as that is something true.

        Raises:
            SchedulerError: a scheduler that should run has ended, or the time was up.
        """
        until = time.monotonic() + deadline_s
        while True:
            asked_s = time.monotonic()
            if found := probe():
                return found
            if time.monotonic() > until:
                raise SchedulerError(f"not within {deadline_s:g} s: {what}\n{self._logs()}")
            if self._watched is not None:
                self._watched.check()
            # What takes long to read is read less often: the servers share the machine with us.
            time.sleep(max(POLL_S, 3 * (time.monotonic() - asked_s)))

    def _logs(self) -> str:
        known = dict.fromkeys([*self.schedulers, *([self._watched] if self._watched else [])])
        return "\n".join(scheduler.log_tail() for scheduler in known)

    # -- pods -----------------------------------------------------------------------------------------------------

    def create(self, *objects: JsonObject) -> list[JsonObject]:
        return [self.api.create(each) for each in objects]

    def pod(self, name: str) -> JsonObject:
        return self.api.get(f"{PODS}/{name}")

    def delete_pod(self, name: str) -> None:
        self.api.delete(f"{PODS}/{name}")

    def placements(self) -> dict[str, str]:
        """The node of each pod that has one, by the pod's name."""
        pods = self.api.items(PODS)
        return {pod["metadata"]["name"]: node for pod in pods if (node := pod["spec"].get("nodeName"))}

    def pending(self) -> set[str]:
        """The names of the pods that have no node."""
        return {pod["metadata"]["name"] for pod in self.api.items(PODS, {"fieldSelector": "spec.nodeName="})}

    def bound(self, *names: str, deadline_s: float = DEADLINE_S) -> dict[str, str]:
        """Wait until the pods of these names have nodes; returns the nodes of all pods."""

        wanted = set(names)

        def all_bound() -> dict[str, str] | None:
            if wanted & self.pending():  # the shorter list to read again and again
                return None
            placements = self.placements()
            return placements if placements.keys() >= wanted else None

        return self.until(f"bound: {', '.join(names[:8])}", all_bound, deadline_s)

    def unschedulable(self, name: str, message: str) -> JsonObject:
        """Wait for the condition that says why a pod has no node, with a text that begins with *message*."""

        def told() -> JsonObject | None:
            condition = condition_of(self.pod(name), "PodScheduled")
            return condition if condition and condition.get("message", "").startswith(message) else None

        return self.until(f"pod {name} is told {message!r}", told)

    # -- events ---------------------------------------------------------------------------------------------------

    def events(self, reason: str = "", pod: Mapping[str, Any] | None = None) -> list[JsonObject]:
        """The events with this reason, about this very pod."""
        return [
            event
            for event in self.api.items(EVENTS)
            if (not reason or event["reason"] == reason)
            and (pod is None or event["regarding"]["uid"] == pod["metadata"]["uid"])
        ]

    def event(self, reason: str, pod: Mapping[str, Any]) -> JsonObject:
        """Wait for the one event with this reason about this very pod."""
        name = pod["metadata"]["name"]
        (event,) = self.until(f"event {reason} about pod {name}", lambda: self.events(reason, pod))
        return event

    def can_resume(self, version: str) -> bool:
        """Whether the server still knows what happened to pods after *version*, so that a watch can go on."""
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "1"}
        return '"reason":"Expired"' not in self.api.request("GET", PODS, params=query)

    # -- the cluster as a whole -----------------------------------------------------------------------------------

    def overcommitted(self) -> list[str]:
        """What would make a kubelet refuse a pod: one line for each node and resource of which too much was given."""
        used: Counter[tuple[str, str]] = Counter()
        ports: Counter[tuple[str, int]] = Counter()
        for pod in self.api.items(PODS):
            node = pod["spec"].get("nodeName")
            if node:
                used.update({(node, resource): amount for resource, amount in _requests(pod).items()})
                ports.update((node, port) for port in _host_ports(pod))
        room = {
            (node["metadata"]["name"], resource): quantity(amount)
            for node in self.api.items(NODES)
            for resource, amount in node["status"]["allocatable"].items()
        }
        too_much = [
            f"{node}: {float(amount)} of {float(room.get((node, resource), 0))} {resource}"
            for (node, resource), amount in used.items()
            if amount > room.get((node, resource), 0)
        ]
        clashes = [f"{node}: port {port} given {count} times" for (node, port), count in ports.items() if count > 1]
        return sorted(too_much + clashes)

    def assert_bound_once(self, since: int) -> None:
        """See in the history that no pod changed its node, and in the present that every pod has one."""
        wanderers = {
            pod: journey
            for pod, journey in journeys(self.cluster.written("pods", since)).items()
            if len([node for node in journey if node]) != 1
        }
        assert wanderers == {}
        assert [pod["metadata"]["name"] for pod in self.api.items(PODS) if not pod["spec"].get("nodeName")] == []

    def assert_each_scheduled_once(self, pods: Iterable[Mapping[str, Any]]) -> None:
        """Wait until each pod has its event, and see that none has two."""
        wanted = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in pods}

        def all_told() -> Counter[str] | None:
            told = Counter(event["regarding"]["uid"] for event in self.events("Scheduled"))
            return told if told.keys() >= wanted.keys() else None

        told = self.until(f"{len(wanted)} pods have the event Scheduled", all_told)
        assert {name: told[uid] for uid, name in wanted.items() if told[uid] != 1} == {}


def condition_of(pod: Mapping[str, Any], kind: str) -> JsonObject | None:
    """The condition of a type, None where there is none."""
    return next((each for each in pod["status"].get("conditions", []) if each["type"] == kind), None)


def path_of(name: str) -> str:
    return f"{PODS}/{name}"


def quantity(text: str) -> Fraction:
    """An amount as the API writes it."""
    digits = text.rstrip("mKiMG")
    return Fraction(digits) * _UNITS[text[len(digits) :]]


def _requests(pod: Mapping[str, Any]) -> dict[str, Fraction]:
    total = {"pods": Fraction(1)}
    for container in pod["spec"]["containers"]:
        for resource, amount in container["resources"].get("requests", {}).items():
            total[resource] = total.get(resource, Fraction(0)) + quantity(amount)
    return total


def _host_ports(pod: Mapping[str, Any]) -> list[int]:
    return [
        port["hostPort"]
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if "hostPort" in port
    ]
