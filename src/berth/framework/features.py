"""What the emulated Kubernetes version means for the core: feature gates and named behaviours, as values.

The core never asks for a version. It asks whether a gate is on, or how a behaviour goes. Both values are made by
``config.versions`` from one table, frozen, and handed to plugins, queue and cycles when those are built. Parsing
``--feature-gates``, and the checks that go with it, live in ``config``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


class Stage(enum.Enum):
    """Maturity of a gate; the value is the ``stage`` label of the metric ``kubernetes_feature_enabled``."""

    ALPHA = "ALPHA"
    BETA = "BETA"
    GA = ""
    DEPRECATED = "DEPRECATED"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """One feature gate as one minor version declares it."""

    name: str
    stage: Stage
    default: bool
    locked: bool = False  # True: it can only be set to its default
    needs: tuple[str, ...] = ()  # gates that must be on when this one is


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureGates:
    """Which gates are on.

    ``specs`` holds the gates of the emulated minor. ``values`` answers for these and for the names of every other
    served minor too: a gate that was dropped because its feature became permanent is on, one that has not been born
    yet is off, and one that was merged into another follows that one. So code may ask for either name, on any version.
    """

    specs: Mapping[str, GateSpec]
    values: Mapping[str, bool]

    def enabled(self, name: str) -> bool:
        """Whether the gate *name* is on.

        Raises:
            KeyError: no served version knows *name*; a spelling mistake in our code, never the user's.
        """
        return self.values[name]

    def with_values(self, changes: Mapping[str, bool]) -> FeatureGates:
        """The same gates with some values changed, unchecked: for what-ifs and tests.

        Raises:
            KeyError: a changed name is not known to any served version.
        """
        for name in changes:
            _ = self.values[name]
        return replace(self, values=MappingProxyType({**self.values, **changes}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviours:
    """Where the served versions act differently without a gate to tell them apart.

    Each field names what happens, not when it changed; the defaults are those of the newest version.
    """

    # Events and queueing hints
    own_pod_event_resource: Literal["UnschedulablePod", "TargetPod"] = "TargetPod"
    """Resource part of the label for an update of the queued pod itself, as its hints and queue counters see it."""
    unscheduled_pod_event_resource: Literal["UnschedulablePod", "UnscheduledPod"] = "UnscheduledPod"
    """Resource part of the label for events of pods without a node."""
    pod_hints_tell_own_from_others: bool = True
    """Plugins register for AssignedPod, UnscheduledPod and TargetPod apart; otherwise for any Pod."""
    implied_node_taint_event: bool = False
    """A plugin that registers Node/Add but not Node/UpdateNodeTaint is woken by taint updates too, without its hint."""
    pod_scale_up_event: bool = True
    """Growing requests raise UpdatePodScaleUp; otherwise growth alone is a plain Update."""
    spread_hint_on_assigned_toleration: bool = False
    """PodTopologySpread is also asked about toleration changes of assigned pods."""
    claim_delete_event: bool = True
    """DynamicResources registers ResourceClaim/Delete."""
    anti_affinity_hint_any_term: bool = True
    """A pod concerns an anti-affinity hint if it matches any required term; otherwise it must match all."""
    leftover_flush_retries_gated_pods: bool = True
    """The flush of long-waiting pods runs PreEnqueue again for gated ones."""
    unschedulable_gauge_drops_on_any_delete: bool = True
    """Deleting a pod from activeQ or backoffQ lowers ``unschedulable_pods`` for its rejectors."""
    group_is_queue_entity: bool = True
    """A pod group takes one place in the queue; otherwise its members queue one by one."""

    # Filters and scores
    node_plugins_run_prefilter: bool = True
    """NodeName, NodeUnschedulable and TaintToleration take part in PreFilter."""
    image_volumes_count_in_image_locality: bool = True
    """Image volumes raise the image count that bounds the ImageLocality score."""
    negative_namespace_selector_matches_all: bool = False
    """A namespace selector of NotIn and DoesNotExist only, in the incoming pod's own terms, selects every namespace."""
    resize_footprint_is_max_of_totals: bool = True
    """A resized pod counts the largest of three totals; otherwise one total of per-container maxima."""

    # Dynamic resources
    dra_distinct_attribute_per_device: bool = True
    """``distinctAttribute`` holds between the devices of one request too, not only between requests."""
    dra_allocator_corrected_counters: bool = True
    """Shared counters are charged once per device, given back on backtracking, and kept per driver and pool."""
    dra_detailed_allocator_errors: bool = True
    """A failing selector names its device and gives a hint; too many devices are told with both counts."""
    dra_post_filter_always_explains: bool = False
    """Without a deallocation, PostFilter says ``no new claims to deallocate`` or ``still not schedulable``."""
    device_taint_rules_in_v1: bool = True
    """``devicetaintrules`` are served as resource.k8s.io/v1; otherwise v1beta2 or older only."""

    # Preemption, binding, batching
    preemption_success_message: bool = True
    """A successful preemption says where, and how many victims it takes."""
    bind_retries_transient_errors: bool = True
    """The binding call is repeated on transient API errors."""
    batching_rescores: bool = True
    """A hinted node that still fits is scored again; otherwise the stored result is dropped (``node_not_full``)."""

    # Pod groups
    pod_group_api_version: Literal["v1alpha2", "v1beta1"] = "v1beta1"
    """Version of scheduling.k8s.io that pod groups are watched in."""
    pod_group_condition: Literal["PodGroupScheduled", "PodGroupInitiallyScheduled"] = "PodGroupInitiallyScheduled"
    """Type of the condition written on a PodGroup."""
    disruption_mode_is_union: bool = True
    """``disruptionMode`` is an object with ``single`` or ``all``; otherwise the string ``Pod`` or ``PodGroup``."""
    placement_feasible_point: bool = True
    """Placements are judged by PlacementFeasible; otherwise by Permit inside the group cycle."""
    pod_group_post_filter_point: bool = True
    """Group preemption is the extension point PodGroupPostFilter, and members skip PostFilter."""
    group_preemption_reprieves_in_place: bool = True
    """Victims are given back one by one while placed members still fit; otherwise the group cycle is run again."""
    group_validated_before_cycle: bool = True
    """Members must agree on scheduler name, priority and preemption policy before the group is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Gates and behaviours together: the one handle that the parts of the core are built with."""

    gates: FeatureGates
    behaviours: Behaviours

    def enabled(self, gate: str) -> bool:
        """Whether *gate* is on; see `FeatureGates.enabled`."""
        return self.gates.enabled(gate)
