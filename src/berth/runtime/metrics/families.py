"""Which `scheduler_*` families exist, under which version and gates, with names, labels and buckets.

Nothing is declared here that nothing feeds.

Source: k8s pkg/scheduler/metrics/metrics.go, ``InitMetrics`` and ``RegisterMetrics``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.runtime.metrics import buckets
from berth.runtime.metrics.instruments import Stability

if TYPE_CHECKING:
    from berth.config.versions import VersionRow
    from berth.framework.features import FeatureGates
    from berth.runtime.metrics.instruments import Counter, Family, Histogram, Registry

_ALPHA, _BETA, _STABLE = Stability.ALPHA, Stability.BETA, Stability.STABLE


class SchedulerFamilies:
    """Attempts, searches, events, preemption, and the cache."""

    def __init__(self, registry: Registry, row: VersionRow, gates: FeatureGates) -> None:
        self._attempts(registry, row)
        self._preemption(registry, row, gates)
        self.event_duration = registry.histogram(
            "scheduler_event_handling_duration_seconds",
            "Time in seconds that taking in an event takes, by the event.",
            buckets.EXTENSION_POINT,
            ("event",),
        )
        self.work = registry.gauge(
            "scheduler_goroutines", "Pieces of work that go on at once, by their kind.", ("operation",), _BETA
        )
        self.audits = registry.counter("berth_self_audits_total", "Comparisons of what is believed with the informers.")
        self.audit_differences = registry.counter(
            "berth_self_audit_differences_total",
            "Differences between what is believed and the informers, found and mended, by their kind.",
            ("kind",),
        )
        self.cache_size = registry.gauge(
            "scheduler_cache_size", "Nodes, pods and assumed pods that the scheduler knows of.", ("type",)
        )

    def _attempts(self, registry: Registry, row: VersionRow) -> None:
        self.attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by how they ended.",
            ("result", "profile"),
            _STABLE,
        )
        self.attempt_duration = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time in seconds of an attempt, from the start of its cycle to the binding or the failure.",
            buckets.ATTEMPT,
            ("result", "profile"),
            _STABLE,
        )
        name = "scheduler_scheduling_algorithm_duration_seconds"
        self.algorithm_duration = registry.histogram(
            name,
            "Time in seconds of the search for a node.",
            buckets.ATTEMPT,
            stability=_BETA if name in row.metrics.beta else _ALPHA,
        )
        self.sli = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time in seconds from when a pod could first be tried until it was bound, by the number of attempts.",
            buckets.SLI,
            ("attempts",),
            _BETA,
        )
        self.attempts_per_pod = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that it took to bind a pod.",
            buckets.ATTEMPTS,
            stability=_STABLE,
        )
        self.after_flush = registry.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods bound after they had been brought back only because they had waited for too long.",
        )

    def _preemption(self, registry: Registry, row: VersionRow, gates: FeatureGates) -> None:
        self.preemption_victims = registry.histogram(
            "scheduler_preemption_victims",
            "Pods that have to go per chosen preemption.",
            buckets.VICTIMS,
            stability=_STABLE,
        )
        self.preemption_attempts = registry.counter(
            "scheduler_preemption_attempts_total",
            "Pods for which preemption was tried.",
            stability=_STABLE,
        )
        self.preemption_executions: Family[Counter] | None = None
        self.preemption_duration: Family[Histogram] | None = None
        if not gates.enabled("SchedulerAsyncPreemption"):
            return
        self.preemption_executions = registry.counter(
            "scheduler_preemption_goroutines_execution_total",
            "Preemptions carried out beside the scheduling cycle, by how they ended.",
            ("result",),
        )
        name = "scheduler_preemption_goroutines_duration_seconds"
        self.preemption_duration = registry.histogram(
            name,
            "Time in seconds of a preemption carried out beside the scheduling cycle.",
            buckets.SLI,
            ("result",),
            hidden=name in row.metrics.hidden,
        )


class QueueFamilies:
    """Who waits where, what brought them there, and what woke them."""

    def __init__(self, registry: Registry, row: VersionRow, gates: FeatureGates) -> None:
        forms = row.metrics
        self.pending = registry.gauge(
            "scheduler_pending_pods", "Pods that wait to be scheduled, by where they wait.", ("queue",), _STABLE
        )
        for queue in forms.pending_pods_queues:
            _ = self.pending[queue,]
        self.incoming = registry.counter(
            "scheduler_queue_incoming_pods_total",
            "Pods that entered a queue, by the queue and the event that brought them.",
            ("queue", "event"),
            _STABLE,
        )
        self.unschedulable = registry.gauge(
            "scheduler_unschedulable_pods",
            "Waiting pods that a plugin has rejected; a pod counts for each plugin that did.",
            ("plugin", "profile"),
            _BETA,
        )
        self.queued_entities = self.incoming_entities = None
        if forms.queued_entities:
            self.queued_entities = registry.gauge(
                "scheduler_queued_entities", "Pods and groups in the queue, each counting once.", ("queue", "type")
            )
            self.incoming_entities = registry.counter(
                "scheduler_queue_incoming_entities_total",
                "Pods and groups that entered a queue, by the queue and the event that brought them.",
                ("queue", "event", "type"),
            )
        self._hints(registry, shown=gates.enabled("SchedulerQueueingHints"))

    def _hints(self, registry: Registry, *, shown: bool) -> None:
        self.hint_duration = registry.histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time in seconds to ask a plugin whether an event helps a waiting pod.",
            buckets.PLUGIN,
            ("plugin", "event", "hint"),
            hidden=not shown,
        )
        self.in_flight = registry.gauge(
            "scheduler_inflight_events",
            "Events kept because a pod that is being scheduled may have missed them.",
            ("event",),
            hidden=not shown,
        )


class PluginFamilies:
    """How often and how long extension points and plugins run, and what they wait for."""

    def __init__(self, registry: Registry, row: VersionRow) -> None:
        self.point_duration = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time in seconds of all plugins of an extension point for one pod.",
            buckets.EXTENSION_POINT,
            ("extension_point", "status", "profile"),
            _STABLE,
        )
        name = "scheduler_plugin_execution_duration_seconds"
        self.duration = registry.histogram(
            name,
            "Time in seconds of one plugin at one extension point, from a sample of the cycles.",
            buckets.PLUGIN,
            ("plugin", "extension_point", "status"),
            _BETA if name in row.metrics.beta else _ALPHA,
        )
        self.evaluations = registry.counter(
            "scheduler_plugin_evaluation_total",
            "Pods that a plugin had something to say about.",
            ("plugin", "extension_point", "profile"),
            _BETA,
        )
        self.permit_wait = registry.histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time in seconds that pods waited for permission, by the answer.",
            buckets.ATTEMPT,
            ("result",),
            _BETA,
        )
        self.volume_errors = registry.counter(
            "scheduler_volume_scheduling_stage_error_total",
            "Failures of volume binding, by its stage.",
            ("operation",),
        )


class GroupFamilies:
    """Attempts at whole pod groups."""

    def __init__(self, registry: Registry) -> None:
        self.attempts = registry.counter(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to schedule pod groups, by how they ended.",
            ("result", "profile"),
        )
        self.attempt_duration = registry.histogram(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time in seconds of an attempt to schedule a pod group.",
            buckets.ATTEMPT,
            ("result", "profile"),
        )
        self.algorithm_duration = registry.histogram(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Time in seconds of the search for nodes for a pod group.",
            buckets.ATTEMPT,
        )
