"""The `scheduler_*` families: what is measured of attempts, the queue, plugins, preemption and groups.

`SchedulerMetrics` has a method for each thing that happens; whoever makes it happen calls it with times it has measured
itself. It is also the queue's observer. Sizes (pending pods, the cache) are asked for when somebody scrapes.
`families` declares what exists under which version and gates.

Source: k8s pkg/scheduler/metrics/metrics.go.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from berth.runtime.metrics.families import GroupFamilies, PluginFamilies, QueueFamilies, SchedulerFamilies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from berth.config.versions import VersionRow
    from berth.framework.features import FeatureGates
    from berth.framework.status import Code
    from berth.runtime.metrics.instruments import Gauge, Registry

SAMPLED_SHARE: Final = 0.1
"""Of the cycles, how many have their plugins timed one by one."""

_MANY_ATTEMPTS: Final = 15
_ATTEMPTS: Final = tuple(str(attempts) for attempts in range(_MANY_ATTEMPTS))


class SchedulerMetrics:
    """What the scheduler measures of its work.

    Args:
        row: names and labels of the emulated version.
        gates: families of features that are off do not exist.
        registry: where the families are shown.
        chance: the next number in [0, 1), for sampling.
    """

    def __init__(
        self,
        row: VersionRow,
        gates: FeatureGates,
        registry: Registry,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._registry = registry
        self._chance = chance
        self._cycle = SchedulerFamilies(registry, row, gates)
        self._queue = QueueFamilies(registry, row, gates)
        self._plugins = PluginFamilies(registry, row)
        self._groups = GroupFamilies(registry) if gates.enabled("GenericWorkload") else None

    # -- attempts -------------------------------------------------------------------------------------------------

    def pod_scheduled(
        self, profile: str, attempts: int, sli_s: float, attempt_s: float, *, after_flush: bool = False
    ) -> None:
        """A pod was bound.

        Args:
            profile: its scheduler name.
            attempts: how many it took, this one included.
            sli_s: seconds since it first was ready to be tried.
            attempt_s: seconds from the start of the cycle to the end of the binding.
            after_flush: whether only the flush of long-waiting pods brought it back.
        """
        self.attempt_finished("scheduled", profile, attempt_s)
        cycle = self._cycle
        label = _ATTEMPTS[attempts] if attempts < _MANY_ATTEMPTS else "15+"
        cycle.sli[label,].observe(sli_s)
        cycle.attempts_per_pod[()].observe(attempts)
        if after_flush:
            cycle.after_flush[()].inc()

    def attempt_finished(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended as ``unschedulable`` or ``error``, *seconds* after its cycle began."""
        self._cycle.attempts[result, profile].inc()
        self._cycle.attempt_duration[result, profile].observe(seconds)

    def algorithm_finished(self, seconds: float) -> None:
        """A search for a node ended, found or not; *seconds* are those of filters, scores and PostFilter."""
        self._cycle.algorithm_duration[()].observe(seconds)

    def audited(self) -> None:
        """A self-audit ended."""
        self._cycle.audits[()].inc()

    def audit_found(self, kind: str) -> None:
        """A self-audit found that belief and informer differ."""
        self._cycle.audit_differences[kind,].inc()

    def event_handled(self, event: str, seconds: float) -> None:
        """An event (by its label) has been taken in."""
        self._cycle.event_duration[event,].observe(seconds)

    def work(self, operation: str) -> Gauge:
        """How many of *operation* (such as ``binding``) go on at once; to be raised and lowered around each."""
        return self._cycle.work[operation,]

    def watch_cache(self, sizes: Callable[[], Mapping[str, int]]) -> None:
        """Ask *sizes* for the number of ``nodes``, ``pods`` and ``assumed_pods`` at each scrape."""
        self._registry.on_scrape(lambda: _set_all(self._cycle.cache_size, sizes()))

    # -- extension points and plugins -----------------------------------------------------------------------------

    def sampled(self) -> bool:
        """Whether the cycle that begins is one of those whose plugins are timed one by one."""
        return self._chance() < SAMPLED_SHARE

    def extension_point_ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of a *point* (such as ``PreFilter``) ran for one pod; *status* is their common `Code.label`."""
        self._plugins.point_duration[point, status, profile].observe(seconds)

    def plugin_ran(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin ran in a cycle that was `sampled`."""
        self._plugins.duration[plugin, point, status].observe(seconds)

    def plugins_known(self, profile: str, names: Mapping[str, Iterable[str]]) -> None:
        """Show the evaluations of these plugins, by point, as 0 from now on."""
        for point, plugins in names.items():
            for plugin in plugins:
                _ = self._plugins.evaluations[plugin, point, profile]

    def plugins_evaluated(self, profile: str, point: str, names: Iterable[str]) -> None:
        """These plugins judged one pod at *point* and did not skip it."""
        evaluations = self._plugins.evaluations
        for name in names:
            evaluations[name, point, profile].value += 1

    def permit_waited(self, status: str, seconds: float) -> None:
        """A pod that was made to wait on permit got its answer."""
        self._plugins.permit_wait[status,].observe(seconds)

    def volume_stage_failed(self, operation: str) -> None:
        """Volume binding failed at ``predicate``, ``assume`` or ``bind``."""
        self._plugins.volume_errors[operation,].inc()

    # -- preemption -----------------------------------------------------------------------------------------------

    def preemption_attempted(self) -> None:
        """Preemption was tried for a pod, whether or not it can help."""
        self._cycle.preemption_attempts[()].inc()

    def preemption_chosen(self, victims: int) -> None:
        """A node was chosen on which that many pods make room."""
        self._cycle.preemption_victims[()].observe(victims)

    def preemption_executed(self, ok: bool, seconds: float) -> None:
        """The victims of one preemption were removed beside the cycle, or could not be."""
        if self._cycle.preemption_executions is not None and self._cycle.preemption_duration is not None:
            result = "success" if ok else "error"
            self._cycle.preemption_executions[result,].inc()
            self._cycle.preemption_duration[result,].observe(seconds)

    # -- groups ---------------------------------------------------------------------------------------------------

    def group_attempt_finished(self, result: str, profile: str, seconds: float) -> None:
        """A pod group's attempt ended: ``scheduled``, ``unschedulable``, ``waiting_on_preemption`` or ``error``."""
        if self._groups is not None:
            self._groups.attempts[result, profile].inc()
            self._groups.attempt_duration[result, profile].observe(seconds)

    def group_algorithm_finished(self, seconds: float) -> None:
        """A search for nodes for a whole group ended."""
        if self._groups is not None:
            self._groups.algorithm_duration[()].observe(seconds)

    # -- the queue ------------------------------------------------------------------------------------------------

    def watch_queue(self, pending: Callable[[], Mapping[str, int]]) -> None:
        """Ask *pending* for the number of pods in each queue at each scrape; gated pods count in ``gated`` only."""
        self._registry.on_scrape(lambda: self._set_pending(pending()))

    def pod_queued(self, queue: str, event: str) -> None:
        """A pod entered ``active``, ``backoff`` or ``unschedulable`` because of *event* (a label)."""
        self._queue.incoming[queue, event].value += 1
        entities = self._queue.incoming_entities
        if entities is not None and queue == "active":
            entities[queue, event, "pod"].value += 1

    def unschedulable_changed(self, plugin: str, profile: str, delta: int) -> None:
        """So many more, or fewer, waiting pods of *profile* are rejected by *plugin*."""
        self._queue.unschedulable[plugin, profile].value += delta

    def in_flight_changed(self, event: str, delta: int) -> None:
        """So many more, or fewer, records of *event* are kept."""
        self._queue.in_flight[event,].value += delta

    def hint_ran(self, plugin: str, event: str, hint: str, duration_s: float) -> None:
        """A hint was asked; *hint* is ``Queue``, ``QueueSkip`` or ``Error``."""
        self._queue.hint_duration[plugin, event, hint].observe(duration_s)

    def pre_enqueue_plugin_ran(self, profile: str, plugin: str, code: Code, duration_s: float) -> None:
        """One plugin judged whether a pod may enter; a sample of these is kept."""
        _ = profile
        if self.sampled():
            self.plugin_ran(plugin, "PreEnqueue", code.label, duration_s)

    def pre_enqueue_ran(self, profile: str, duration_s: float) -> None:
        """All plugins, or all up to the first refusal, judged whether a pod may enter."""
        self.extension_point_ran("PreEnqueue", "Success", profile, duration_s)

    def _set_pending(self, counts: Mapping[str, int]) -> None:
        _set_all(self._queue.pending, counts)
        entities = self._queue.queued_entities
        if entities is not None and self._groups is None:
            for queue in ("active", "backoff", "unschedulable", "gated"):
                entities[queue, "pod"].set(counts.get(queue, 0))


def _set_all(gauges: Mapping[tuple[str, ...], Gauge], values: Mapping[str, int]) -> None:
    for label, value in values.items():
        gauges[label,].set(value)
