"""One chaos suite at work: a cluster, a scheduler behind a proxy, and an oracle that looks on past it."""

from __future__ import annotations

import random
import re
import time
from contextlib import ExitStack
from http.client import HTTPException
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from tests.chaos.crowd import some_nodes
from tests.chaos.faults import FaultPlan
from tests.chaos.liveness import check_liveness
from tests.chaos.oracle import Oracle
from tests.chaos.proxy import ChaosProxy
from tests.integration.devices import wipe
from tests.integration.scene import ALONE, FAST, Scene
from tests.support.client import NODES, PODS, ApiError, object_path
from tests.support.scheduler import COMMAND, SYNCED, SchedulerError, SchedulerProcess

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.chaos.world import JsonObject
    from tests.integration.clusters import Cluster

GRACE_S = 30.0  # a watch that was refused again and again is behind by so much
LIVE_WITHIN_S = 25.0  # the longest pause of a pod, and of a watch, with a margin
START_S = 60.0
_PAUSE_S = 0.05
_UNEXPECTED = re.compile(r"Traceback \(most recent call last\)|likely a bug|never awaited|was destroyed")


class Figures(NamedTuple):
    """What a suite did and found."""

    pods: int
    bindings: int
    faults: int
    recovered_s: float
    violations: list[str]
    took: Mapping[str, float] = MappingProxyType({})


class Stage:
    """What a chaos suite does and sees; a context manager.

    Args:
        cluster: with nothing in it.
        folder: for logs and configurations.
        seed: of everything that is left to chance.

    Attributes:
        chance: for the suite's own draws.
        plan: what befalls the scheduler's requests.
        broken: what the suite itself saw going wrong.
        took: how many seconds something took that the suite waited for after a fault.
    """

    def __init__(self, cluster: Cluster, folder: Path, seed: int) -> None:
        self.cluster, self.api, self.folder = cluster, cluster.api, folder
        self.chance = random.Random(seed)
        self.seed = seed
        self.plan = FaultPlan(seed)
        self.scene = Scene(cluster, folder)
        self.created: dict[str, JsonObject] = {}
        self.broken: list[str] = []
        self.took: dict[str, float] = {}
        self._proxies: list[ChaosProxy] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.proxy = self.add_proxy(self.plan)
        self.oracle = self._stack.enter_context(Oracle(self.api, GRACE_S))
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.scene.close()
        self._stack.close()

    def add_proxy(self, plan: FaultPlan) -> ChaosProxy:
        """One more client's network."""
        proxy = self._stack.enter_context(ChaosProxy(self.api.server, plan))
        self._proxies.append(proxy)
        return proxy

    # -- schedulers -----------------------------------------------------------------------------------------------

    def start(
        self,
        *,
        proxy: ChaosProxy | None = None,
        token: str | None = None,
        config: Mapping[str, Any] = ALONE,
        command: Sequence[str] = (),
        flags: Sequence[str] = ("--secure-port=0",),
    ) -> SchedulerProcess:
        """Start a scheduler behind a proxy, by default the first."""
        name = f"berth-{len(self.scene.schedulers)}"
        kubeconfig = (proxy or self.proxy).kubeconfig(self.folder / f"{name}.kubeconfig", token or self.api.token)
        connection = {**FAST, "kubeconfig": str(kubeconfig)}
        scheduler = SchedulerProcess(
            self.folder,
            *flags,
            config={"clientConnection": connection, **config},
            name=name,
            command=command or (str(COMMAND),),
        ).start()
        self.scene.schedulers.append(scheduler)
        return scheduler

    def start_until_synced(self) -> SchedulerProcess:
        """Start a scheduler, again and again as a kubelet does, until one has read all that there is."""
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            scheduler = self.start()
            while scheduler.is_running and time.monotonic() < until:
                if SYNCED in scheduler.log_text():
                    return scheduler
                time.sleep(_PAUSE_S)
        raise SchedulerError(f"no scheduler was in sync within {START_S:g} s\n{scheduler.log_tail()}")

    # -- what users do ----------------------------------------------------------------------------------------------

    def furnish(self, count: int = 15) -> None:
        """Create the nodes."""
        self.insist(some_nodes(count))

    def insist(self, objects: Iterable[JsonObject], every_s: float = 0.0) -> None:
        """Create objects, whatever the server does meanwhile."""
        for obj in objects:
            while not self._create(obj):
                time.sleep(_PAUSE_S)
            time.sleep(every_s)

    def delete(self, path: str) -> None:
        """Delete an object, whatever the server does meanwhile; one that is gone is gone."""
        while True:
            try:
                self.api.delete(path)
            except ApiError as refused:
                if refused.reason == "NotFound":
                    return
            except (OSError, HTTPException):
                time.sleep(_PAUSE_S)
            else:
                return

    def wait_bound(self, share: float, deadline_s: float = 60.0) -> None:
        """Wait until so large a share of the pods that were created has a node."""
        wanted = share * len(self.created)

        def enough() -> bool:
            try:
                return len(self.scene.placements()) >= wanted
            except (OSError, HTTPException, ApiError):
                return False

        self.scene.until(f"{share:.0%} of {len(self.created)} pods are bound", enough, deadline_s)

    def _create(self, obj: JsonObject) -> bool:
        try:
            self.api.create(obj)
        except ApiError as refused:
            if refused.reason != "AlreadyExists":
                return False
        except (OSError, HTTPException):
            return False
        if obj["kind"] == "Pod":
            self.created[object_path(obj)] = obj
        return True

    # -- the end ----------------------------------------------------------------------------------------------------

    def finish(self) -> Figures:
        """Let everything heal, and judge."""
        for proxy in self._proxies:
            proxy.plan.heal()
        if not any(scheduler.is_running for scheduler in self.scene.schedulers):
            self.broken.append(f"no scheduler runs any more\n{self.scene.schedulers[-1].log_tail()}")
        verdict = check_liveness(self.oracle, LIVE_WITHIN_S)
        self.broken += [f"{text} for {verdict.took_s:.1f} s after the last fault" for text in verdict.waiting]
        self.oracle.judge.wait_no_longer(float("inf"))
        for scheduler in self.scene.schedulers:
            self.broken += [f"{scheduler.name} logged {text!r}" for text in _UNEXPECTED.findall(scheduler.log_text())]
        return Figures(
            pods=len(self.created),
            bindings=self.oracle.judge.bindings,
            faults=sum(proxy.plan.counts.total() for proxy in self._proxies),
            recovered_s=verdict.took_s,
            violations=[*self.oracle.violations, *self.broken],
            took=self.took,
        )

    def clear(self) -> None:
        """Leave nothing for the next suite."""
        self.scene.close()
        wipe(self.api)
        self.api.wipe()


def path_of_node(name: str) -> str:
    return f"{NODES}/{name}"


def path_of_pod(name: str) -> str:
    return f"{PODS}/{name}"
