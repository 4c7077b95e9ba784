"""From what happens in the shell to the metrics: how long attempts took, how many there are of what.

Source: k8s pkg/scheduler/schedule_one.go and pkg/scheduler/metrics/metric_recorder.go.
"""

import time
from collections.abc import Callable
from typing import Final

from berth.api.meta import PodUid
from berth.config.versions import VersionRow
from berth.framework.features import Features
from berth.plugins.default_preemption.plugin import DefaultPreemption
from berth.runtime.metrics.client import ClientMetrics
from berth.runtime.metrics.instruments import Registry
from berth.runtime.metrics.process import register_build, register_registrations, register_tasks
from berth.runtime.metrics.scheduler import SchedulerMetrics
from berth.scheduling.engine import Engine
from berth.scheduling.failures import UNSCHEDULABLE
from berth.scheduling.instructions import Bind, Instruction, Report

BINDING: Final = "binding"
POST_FILTER: Final = "PostFilter"


class Measured(SchedulerMetrics):
    """The scheduler's metrics, with the memory that durations across several steps need.

    Args:
        row: names and labels of the emulated version.
        features: gates of the emulated version.
        registry: where metrics are shown.
        stopwatch: seconds from an arbitrary start.
        wall: seconds since 1970, as the queue counts them.

    Attributes:
        stopwatch: as given.
        client: what is measured of requests and of the election.
    """

    def __init__(
        self,
        row: VersionRow,
        features: Features,
        registry: Registry,
        *,
        stopwatch: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(row, features.gates, registry)
        self.stopwatch, self._wall = stopwatch, wall
        self.client = ClientMetrics(registry)
        self._started: dict[PodUid, float] = {}
        self._preempting_profiles: frozenset[str] = frozenset()
        self._registry = registry
        self._bindings = self.work(BINDING)
        register_build(registry, row, features.gates)
        register_tasks(registry)
        register_registrations(registry)

    def watch(self, engine: Engine) -> None:
        """Ask *engine* for sizes at each scrape, and show its plugins."""
        self.watch_queue(engine.queue.counts)
        self.watch_cache(engine.cluster.counts)
        self._preempting_profiles = frozenset(
            name
            for name, profile in engine.profiles.items()
            if any(plugin.name == DefaultPreemption.name for plugin in profile.post_filter)
        )
        for name, profile in engine.profiles.items():
            points = {
                "PreFilter": profile.pre_filter,
                "Filter": profile.filter,
                "PreScore": profile.pre_score,
                "Score": profile.score,
            }
            self.plugins_known(name, {point: [p.name for p in plugins] for point, plugins in points.items()})

    def watch_election(self, slow_renewals: Callable[[], int]) -> None:
        """Show that this replica does not lead yet, and ask for the number of slow renewals at each scrape."""
        self.client.leading(False)
        told = 0

        def count() -> None:
            nonlocal told
            while told < slow_renewals():
                told += 1
                self.client.renewed_slowly()

        self._registry.on_scrape(count)

    def decided(self, instruction: Instruction, duration_s: float) -> None:
        """A cycle ended."""
        if isinstance(instruction, Bind):
            self.algorithm_finished(duration_s)
            self._started[instruction.info.uid] = self.stopwatch() - duration_s
            self._bindings.inc()
        elif isinstance(instruction, Report) and instruction.update_status:
            self.algorithm_finished(duration_s)
            if instruction.victims is not None and instruction.evict is not None:
                self.preemption_chosen(instruction.victims)
            result = "unschedulable" if instruction.reason == UNSCHEDULABLE else "error"
            self.attempt_finished(result, instruction.controller, duration_s)

    def extension_point_ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of *point* ran for one pod."""
        super().extension_point_ran(point, status, profile, seconds)
        if point == POST_FILTER and profile in self._preempting_profiles:
            self.preemption_attempted()

    def bound(self, bind: Bind) -> None:
        """A placement was carried through."""
        first_s = bind.queued.initial_attempt_timestamp_s
        self.pod_scheduled(
            bind.profile.scheduler_name,
            bind.queued.attempts,
            sli_s=max(0.0, self._wall() - first_s) if first_s is not None else 0.0,
            attempt_s=self._took(bind),
            after_flush=bind.queued.was_flushed_from_unschedulable,
        )

    def failed(self, bind: Bind, *, rejected: bool) -> None:
        """A placement could not be carried through."""
        self.attempt_finished("unschedulable" if rejected else "error", bind.profile.scheduler_name, self._took(bind))

    def _took(self, bind: Bind) -> float:
        self._bindings.dec()
        now_s = self.stopwatch()
        return now_s - self._started.pop(bind.info.uid, now_s)
