"""The liveness check: when all is well, no pod waits that some node would take.

It asks the oracle's rules, so it knows nothing of the scheduler either. A pod is left out where the rules do not tell:
one that is held back by a gate, is being deleted, belongs to another scheduler, or needs a volume that is not bound.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from tests.chaos.rules import claim_names, claims_of, objections
from tests.chaos.world import FINISHED, JsonObject, World, node_of

if TYPE_CHECKING:
    from tests.chaos.oracle import Oracle

SCHEDULER = "default-scheduler"
POLL_S = 0.2


class Verdict(NamedTuple):
    """How it went: the pods that wait although they fit, and seconds until there was none."""

    waiting: list[str]
    took_s: float


def is_judged(world: World, pod: JsonObject) -> bool:
    """Whether the rules tell all there is to say about a waiting pod."""
    spec, meta = pod["spec"], pod["metadata"]
    if node_of(pod) or spec.get("schedulingGates") or "deletionTimestamp" in meta or spec.get("resourceClaims"):
        return False
    if pod.get("status", {}).get("phase") in FINISHED or spec.get("schedulerName", SCHEDULER) != SCHEDULER:
        return False
    claims = claims_of(world, pod)
    return len(claims) == len(claim_names(pod)) and all(claim["spec"].get("volumeName") for claim in claims)


def waiting_in_vain(world: World) -> list[str]:
    """The pods without a node that some node would take, with one such node each."""
    found = []
    for pod in world.all("pods"):
        if not is_judged(world, pod):
            continue
        for node in world.all("nodes"):
            if not objections(world, pod, node):
                found.append(f"pod {pod['metadata']['name']} would fit on {node['metadata']['name']}")
                break
    return found


def check_liveness(oracle: Oracle, bound_s: float) -> Verdict:
    """Wait until no pod waits in vain, for at most *bound_s* from now on."""
    began_s = time.monotonic()
    while True:
        waiting = waiting_in_vain(oracle.settle())
        took_s = time.monotonic() - began_s
        if not waiting or took_s > bound_s:
            return Verdict(waiting, took_s)
        time.sleep(POLL_S)
