"""Disruption budgets, as far as preemption looks at them.

Source: k8s staging/src/k8s.io/api/policy/v1/types.go.
"""

import msgspec

from berth.api.meta import ApiStruct, ObjectMeta
from berth.api.selectors import LabelSelector


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """Which pods a budget is for."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    """How many of them may go now.

    Attributes:
        disruptions_allowed: how many.
        disrupted_pods: names of those whose going is already counted, and since when.
    """

    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str | None] = {}


class PodDisruptionBudget(ApiStruct, frozen=True):
    """How many of a set of pods must stay."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)
