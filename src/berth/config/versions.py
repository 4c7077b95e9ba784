"""One row per served Kubernetes minor: gates, default plugins, behaviours, metric and message forms.

`resolve_version` picks the row: ``--emulated-version`` if given, else the API server's own minor. Everything that
depends on a version is read from the row here, once, at start; the core then sees only gates and behaviours. A third
version is a new row and a new column of ``gate_table``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from berth.config.faults import ConfigError, other
from berth.config.gate_table import gates_of
from berth.framework.features import Behaviours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.framework.features import FeatureGates, GateSpec


@dataclass(frozen=True, slots=True)
class DefaultPlugin:
    """An entry of the default multiPoint list; weight 0 means none is given. With a gate, present only if it is on."""

    name: str
    weight: int = 0
    gate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricForms:
    """Names, labels and label values of metrics that are not the same in every version."""

    resourceclaim_creates: str
    """Full name of the counter of claims made for extended resources."""
    resourceclaim_creates_labels: tuple[str, ...]
    pending_pods_queues: tuple[str, ...]
    """Values of ``queue`` that ``scheduler_pending_pods`` shows from the start."""
    batch_flush_reasons: tuple[str, ...]
    """Values of ``reason`` of ``scheduler_batch_cache_flushed_total``."""
    queued_entities: bool
    """``scheduler_queued_entities`` and ``scheduler_queue_incoming_entities_total`` exist."""
    batch_rescores: bool
    """``scheduler_batch_rescore_attempts_total`` and ``scheduler_batch_rescore_duration_seconds`` exist."""
    group_preemption: bool
    """With GenericWorkload, preemption metrics by ``preemptor`` and the ``workload_preemption`` ones exist."""
    placements: bool
    """With TopologyAwareWorkloadScheduling, metrics of generated and evaluated placements exist."""
    informer_series: bool
    """The ``informer_*`` metrics have series per resource."""
    beta: frozenset[str]
    """Names whose HELP says BETA here and ALPHA elsewhere."""
    hidden: frozenset[str]
    """Deprecated names that show only with ``--show-hidden-metrics-for-version``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """All that depends on the emulated minor version."""

    minor: str
    reference: str
    """Release of the reference whose decisions this row follows; what ``--version`` reports."""
    gates: Mapping[str, GateSpec]
    behaviours: Behaviours
    extension_points: tuple[str, ...]
    """Keys of ``plugins`` in a profile, in the order of the API type."""
    multi_point: tuple[DefaultPlugin, ...]
    metrics: MetricForms
    previous_minor: str
    """What ``--show-hidden-metrics-for-version`` accepts."""

    def __repr__(self) -> str:
        """Short, because the row holds hundreds of gates."""
        return f"VersionRow({self.minor})"

    def default_multi_point(self, gates: FeatureGates) -> tuple[tuple[str, int], ...]:
        """Default plugins in order as (name, weight), weight 0 where none is given, under *gates*."""
        return tuple(
            (plugin.name, plugin.weight)
            for plugin in self.multi_point
            if plugin.gate is None or gates.enabled(plugin.gate)
        )


_POINTS_1_36 = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
)

_HEAD_1_36 = ("SchedulingGates", "PrioritySort", "NodeUnschedulable", "NodeName")
_HEAD_1_37 = ("SchedulingGates", "PrioritySort", "NodeName", "NodeUnschedulable")


def _multi_point(head: tuple[str, ...], *, gang_gate: str, resize_gate: str | None) -> tuple[DefaultPlugin, ...]:
    """The default list; the versions differ in its head, in the gate of the gang plugin, and in one insertion."""
    deferred = (DefaultPlugin("DeferredPodScheduling", gate=resize_gate),) if resize_gate else ()
    return (
        *(DefaultPlugin(name) for name in head),
        DefaultPlugin("TaintToleration", 3),
        DefaultPlugin("NodeAffinity", 2),
        DefaultPlugin("NodePorts"),
        *deferred,
        DefaultPlugin("NodeResourcesFit", 1),
        DefaultPlugin("VolumeRestrictions"),
        DefaultPlugin("NodeVolumeLimits"),
        DefaultPlugin("VolumeBinding"),
        DefaultPlugin("VolumeZone"),
        DefaultPlugin("PodTopologySpread", 2),
        DefaultPlugin("InterPodAffinity", 2),
        DefaultPlugin("DynamicResources", 2, gate="DynamicResourceAllocation"),
        DefaultPlugin("DefaultPreemption"),
        DefaultPlugin("NodeResourcesBalancedAllocation", 1),
        DefaultPlugin("ImageLocality", 1),
        DefaultPlugin("DefaultBinder"),
        DefaultPlugin("NodeDeclaredFeatures", gate="NodeDeclaredFeatures"),
        DefaultPlugin("GangScheduling", gate=gang_gate),
        DefaultPlugin("TopologyPlacementGenerator", gate="TopologyAwareWorkloadScheduling"),
        DefaultPlugin("PodGroupPodsCount", 1, gate="TopologyAwareWorkloadScheduling"),
    )


_BEHAVIOURS_1_36 = Behaviours(
    own_pod_event_resource="UnschedulablePod",
    unscheduled_pod_event_resource="UnschedulablePod",
    pod_hints_tell_own_from_others=False,
    implied_node_taint_event=True,
    pod_scale_up_event=False,
    spread_hint_on_assigned_toleration=True,
    claim_delete_event=False,
    anti_affinity_hint_any_term=False,
    leftover_flush_retries_gated_pods=False,
    unschedulable_gauge_drops_on_any_delete=False,
    group_is_queue_entity=False,
    node_plugins_run_prefilter=False,
    image_volumes_count_in_image_locality=False,
    negative_namespace_selector_matches_all=True,
    resize_footprint_is_max_of_totals=False,
    dra_distinct_attribute_per_device=False,
    dra_allocator_corrected_counters=False,
    dra_detailed_allocator_errors=False,
    dra_post_filter_always_explains=True,
    device_taint_rules_in_v1=False,
    preemption_success_message=False,
    bind_retries_transient_errors=False,
    batching_rescores=False,
    pod_group_api_version="v1alpha2",
    pod_group_condition="PodGroupScheduled",
    disruption_mode_is_union=False,
    placement_feasible_point=False,
    pod_group_post_filter_point=False,
    group_preemption_reprieves_in_place=False,
    group_validated_before_cycle=False,
)

_METRICS_1_36 = MetricForms(
    resourceclaim_creates="scheduler_resourceclaim_creates_total",
    resourceclaim_creates_labels=("status",),
    pending_pods_queues=("active", "backoff", "unschedulable", "gated"),
    batch_flush_reasons=(
        "pod_failed",
        "pod_skipped",
        "node_missing",
        "node_not_full",
        "empty_list",
        "expired",
        "pod_incompatible",
        "pod_not_batchable",
    ),
    queued_entities=False,
    batch_rescores=False,
    group_preemption=False,
    placements=False,
    informer_series=False,
    beta=frozenset(),
    hidden=frozenset(),
)

_METRICS_1_37 = MetricForms(
    resourceclaim_creates="dynamic_resource_allocation_resourceclaim_creates_total",
    resourceclaim_creates_labels=("status", "admin_access", "owner_api_group", "owner_api_kind"),
    pending_pods_queues=("active", "backoff", "unschedulable", "gated", "incomplete", "pending"),
    batch_flush_reasons=(
        "pod_failed",
        "pod_skipped",
        "pod_nominated",
        "node_missing",
        "empty_list",
        "expired",
        "pod_incompatible",
        "pod_not_batchable",
        "prescore_error",
        "rescore_error",
        "normalize_error",
    ),
    queued_entities=True,
    batch_rescores=True,
    group_preemption=True,
    placements=True,
    informer_series=True,
    beta=frozenset({"scheduler_scheduling_algorithm_duration_seconds", "scheduler_plugin_execution_duration_seconds"}),
    hidden=frozenset({"scheduler_preemption_goroutines_duration_seconds"}),
)

ROWS: tuple[VersionRow, ...] = (
    VersionRow(
        minor="1.36",
        reference="v1.36.2",
        gates=gates_of("1.36"),
        behaviours=_BEHAVIOURS_1_36,
        extension_points=_POINTS_1_36,
        multi_point=_multi_point(_HEAD_1_36, gang_gate="GangScheduling", resize_gate=None),
        metrics=_METRICS_1_36,
        previous_minor="1.35",
    ),
    VersionRow(
        minor="1.37",
        reference="v1.37.2",
        gates=gates_of("1.37"),
        behaviours=Behaviours(),
        extension_points=(*_POINTS_1_36, "podGroupPostFilter"),
        multi_point=_multi_point(
            _HEAD_1_37,
            gang_gate="GenericWorkload",
            resize_gate="InPlacePodVerticalScalingSchedulerPreemption",
        ),
        metrics=_METRICS_1_37,
        previous_minor="1.36",
    ),
)
"""The served minors, oldest first."""

OLDEST, NEWEST = ROWS[0], ROWS[-1]
_BY_MINOR = {row.minor: row for row in ROWS}

_VERSION = re.compile(r"v?(\d+)\.(\d+)")


def resolve_version(emulated: str | None, server: str | None) -> tuple[VersionRow, str | None]:
    """The row to decide by, and a line for the log where the choice is not the obvious one.

    Args:
        emulated: what ``--emulated-version`` asks for, as ``1.36``; it decides alone if given.
        server: the API server's version in any usual form (``1.37``, ``v1.37.2``, ``v1.36.5+k3s1``). With neither,
            as for commands that meet no server, the newest row.

    Raises:
        ConfigError: *emulated* is not a version we can emulate.
    """
    if emulated is not None:
        return _emulated_row(emulated), None
    if server is None:
        return NEWEST, None
    minor = _parse(server)
    if minor is None:
        return NEWEST, f"API server reports version {server!r}, which is not understood; acting as {NEWEST.minor}"
    for row in ROWS:
        if _parse(row.minor) == minor:
            return row, None
    row = NEWEST if minor > _minor_of(NEWEST) else OLDEST
    age = "newer" if row is NEWEST else "older"
    return row, f"API server version {server} is {age} than the versions served here; acting as {row.minor}"


def row_of(minor: str) -> VersionRow:
    """The row of *minor*, as ``1.36``.

    Raises:
        KeyError: no row serves *minor*.
    """
    return _BY_MINOR[minor]


def _emulated_row(emulated: str) -> VersionRow:
    asked = _parse(emulated)
    for row in ROWS:
        if _parse(row.minor) == asked:
            return row
    detail = f"emulation version {emulated} is not between [{OLDEST.minor}, {NEWEST.minor}]"
    raise ConfigError([other("--emulated-version", detail)])


def _minor_of(row: VersionRow) -> tuple[int, int]:
    major, minor = row.minor.split(".")
    return int(major), int(minor)


def _parse(version: str) -> tuple[int, int] | None:
    found = _VERSION.match(version.strip())
    return (int(found[1]), int(found[2])) if found else None
