"""How well a node meets requests that name alternatives: the earlier the alternative, the better.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``computeScore``; KEP-4816.
"""

from typing import Final

from berth.api.dra import MAX_SUBREQUESTS, AllocationResult, ResourceClaim
from berth.plugins.dynamic_resources.attempt import Attempt, NodeResult

_BEST: Final = MAX_SUBREQUESTS


def has_alternatives(attempt: Attempt) -> bool:
    """Whether some claim of the pod names alternatives."""
    requests = (request for each in attempt.claims for request in each.claim.spec.devices.requests)
    return any(request.first_available for request in requests)


def score_of(attempt: Attempt, result: NodeResult) -> int:
    """The raw score of a node on which this was found."""
    found = iter(result.allocations)
    total = 0
    for each in attempt.claims:
        allocation = each.claim.status.allocation or next(found)
        total += _score_of_claim(each.claim, allocation)
    return total


def _score_of_claim(claim: ResourceClaim, allocation: AllocationResult) -> int:
    met = {result.request for result in allocation.devices.results}
    return sum(
        _BEST - place
        for request in claim.spec.devices.requests
        for place, way in enumerate(request.first_available)
        if f"{request.name}/{way.name}" in met
    )
