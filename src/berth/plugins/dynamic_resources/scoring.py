"""How well a node meets requests that name alternatives: the earlier the alternative, the better.

Source: k8s pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go, ``computeScore``; KEP-4816.
"""

from collections.abc import Iterable
from typing import Final

from berth.api.dra import MAX_SUBREQUESTS, AllocationResult, ResourceClaim
from berth.plugins.dynamic_resources.attempt import Attempt

_BEST: Final = MAX_SUBREQUESTS


def has_alternatives(attempt: Attempt) -> bool:
    """Whether some claim of the pod names alternatives."""
    requests = (request for each in attempt.claims for request in each.claim.spec.devices.requests)
    return any(request.first_available for request in requests)


def score_of_allocated(attempt: Attempt) -> int:
    """What the claims that have their devices add to the raw score of every node."""
    allocated = ((each.claim, each.claim.status.allocation) for each in attempt.claims)
    return sum(_score_of_claim(claim, allocation) for claim, allocation in allocated if allocation is not None)


def score_of_alternatives(met: Iterable[tuple[int, int, int]]) -> int:
    """What a node adds for the alternatives that are met there: numbers of claim, request and alternative."""
    return sum(_BEST - place for _, _, place in met)


def _score_of_claim(claim: ResourceClaim, allocation: AllocationResult) -> int:
    met = {result.request for result in allocation.devices.results}
    return sum(
        _BEST - place
        for request in claim.spec.devices.requests
        for place, way in enumerate(request.first_available)
        if f"{request.name}/{way.name}" in met
    )
