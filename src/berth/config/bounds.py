"""Ranges of numbers in the configuration, stated once as data: checks, messages and test values come from here.

Source: k8s pkg/scheduler/apis/config/validation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from berth.api.pod import TopologySpreadConstraint
from berth.config.faults import Fault, invalid
from berth.config.types import ClientConnection, KubeSchedulerConfiguration, Profile
from berth.framework.plugin_args import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

if TYPE_CHECKING:
    import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A whole number between two limits, either of which may be missing. None is always allowed: it means absent."""

    attribute: str
    key: str
    least: int | None = None
    most: int | None = None
    detail: str

    def holds(self, value: int) -> bool:
        """Whether *value* lies within."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


_PERCENTAGE = Bounds(
    attribute="percentage_of_nodes_to_score",
    key="percentageOfNodesToScore",
    least=0,
    most=100,
    detail="not in valid range [0-100]",
)

BOUNDS: dict[type[msgspec.Struct], tuple[Bounds, ...]] = {
    KubeSchedulerConfiguration: (
        Bounds(attribute="parallelism", key="parallelism", least=1, detail="must be greater than 0"),
        _PERCENTAGE,
        Bounds(
            attribute="pod_initial_backoff_seconds",
            key="podInitialBackoffSeconds",
            least=1,
            detail="must be greater than 0",
        ),
    ),
    ClientConnection: (Bounds(attribute="burst", key="burst", least=0, detail="must be non-negative"),),
    Profile: (_PERCENTAGE,),
    DefaultPreemptionArgs: (
        Bounds(
            attribute="min_candidate_nodes_percentage",
            key="minCandidateNodesPercentage",
            least=0,
            most=100,
            detail="not in valid range [0, 100]",
        ),
        Bounds(
            attribute="min_candidate_nodes_absolute",
            key="minCandidateNodesAbsolute",
            least=0,
            detail="not in valid range [0, inf)",
        ),
    ),
    InterPodAffinityArgs: (
        Bounds(
            attribute="hard_pod_affinity_weight",
            key="hardPodAffinityWeight",
            least=0,
            most=100,
            detail="not in valid range [0, 100]",
        ),
    ),
    TopologySpreadConstraint: (
        Bounds(attribute="max_skew", key="maxSkew", least=1, detail="not in valid range (0, inf)"),
    ),
    UtilizationShapePoint: (
        Bounds(attribute="utilization", key="utilization", least=0, most=100, detail="not in valid range [0, 100]"),
        Bounds(attribute="score", key="score", least=0, most=10, detail="not in valid range [0, 10]"),
    ),
    VolumeBindingArgs: (
        Bounds(
            attribute="bind_timeout_seconds",
            key="bindTimeoutSeconds",
            least=0,
            detail="invalid BindTimeoutSeconds, should not be a negative value",
        ),
    ),
}
"""The limits of each struct's fields."""


def out_of_bounds(struct: msgspec.Struct, path: str) -> list[Fault]:
    """The fields of *struct* that lie outside their limits; *path* is where it stands, empty at the top."""
    faults = []
    for bounds in BOUNDS[type(struct)]:
        value = getattr(struct, bounds.attribute)
        if value is not None and not bounds.holds(value):
            faults.append(invalid(f"{path}.{bounds.key}" if path else bounds.key, value, bounds.detail))
    return faults
