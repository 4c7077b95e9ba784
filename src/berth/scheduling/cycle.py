"""The scheduling cycle of one pod, from PreFilter to Permit.

It runs on one thread and never awaits, so the live cluster state is its snapshot.

Source: k8s pkg/scheduler/schedule_one.go, ``schedulingCycle``.
"""

import logging
from dataclasses import dataclass
from typing import Final

from berth.api.meta import NodeName
from berth.cluster.cache import CacheError, Cluster
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import Eviction
from berth.framework.run import PermitOutcome, run_permit, run_post_filter, run_reserve, run_unreserve
from berth.framework.status import SUCCESS, Code, Status, error, unresolvable, unschedulable
from berth.scheduling.algorithm import Algorithm, NoNodes
from berth.scheduling.diagnosis import NO_NODES, FitError, fit_error_of_one_node
from berth.scheduling.verdicts import CycleError

_log = logging.getLogger(__name__)

CLEAR: Final = ""  # gives an earlier nomination up
KEEP: Final = None  # leaves it


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The pod was placed and counts on its node.

    Attributes:
        info: the pod with its node.
        node_name: the node.
        state: what the plugins worked out.
        permit: what the Permit plugins said.
    """

    info: PodInfo
    node_name: NodeName
    state: CycleState
    permit: PermitOutcome


@dataclass(frozen=True, slots=True)
class Failure:
    """The pod was not placed.

    Attributes:
        status: why, as code and text.
        fit_error: who rejected it; None where the attempt broke off.
        nominated_node_name: what becomes of its nomination: a node, `CLEAR` or `KEEP`.
        eviction: who has to go so that it may fit there.
        awaited: who goes for it already.
    """

    status: Status
    fit_error: FitError | None = None
    nominated_node_name: str | None = CLEAR
    eviction: Eviction | None = None
    awaited: Eviction | None = None


def run_cycle(algorithm: Algorithm, cluster: Cluster, pod: PodInfo, attempt: int) -> Placement | Failure:
    """Try to place *pod* once.

    Args:
        algorithm: the search, with the plugins of the pod's profile.
        cluster: where the placement is counted.
        pod: the pod.
        attempt: which attempt this is; settles ties together with the pod's uid.
    """
    state = CycleState()
    try:
        outcome = algorithm.schedule(state, pod, attempt)
    except CycleError as fault:
        return Failure(error(str(fault)))
    if isinstance(outcome, NoNodes):
        return Failure(unresolvable(NO_NODES))
    if isinstance(outcome, FitError):
        return _make_room(algorithm, state, pod, outcome)
    return _place(algorithm, cluster, state, pod, outcome.node_name)


def _make_room(algorithm: Algorithm, state: CycleState, pod: PodInfo, fit_error: FitError) -> Failure:
    profile = algorithm.profile
    if not profile.post_filter:
        return Failure(unschedulable(fit_error.message), fit_error)
    steps = algorithm.steps
    start_s = steps.now()
    result = run_post_filter(profile, state, pod, algorithm.statuses(state, pod, fit_error))
    steps.ran("PostFilter", result.status.code.label, start_s)
    if result.status.code is Code.ERROR:
        _log.error("PostFilter of pod %s failed: %s", pod.key, result.status.message)
    fit_error = fit_error.with_post_filter_message(result.status.message)
    status = unschedulable(fit_error.message)
    return Failure(status, fit_error, result.nominated_node_name, result.eviction, result.awaited)


def _place(
    algorithm: Algorithm, cluster: Cluster, state: CycleState, pod: PodInfo, node_name: str
) -> Placement | Failure:
    profile = algorithm.profile
    assumed = pod.on(node_name)
    try:
        cluster.assume(assumed, node_name)
    except CacheError as fault:
        return Failure(error(str(fault)))
    steps = algorithm.steps
    start_s = steps.now()
    status = run_reserve(profile, state, assumed, node_name)
    start_s = steps.ran("Reserve", status.code.label, start_s)
    permit = PermitOutcome(status, {})
    if status.ok:
        permit = run_permit(profile, state, assumed, node_name)
        status = permit.status
        steps.ran("Permit", status.code.label, start_s)
    if status.ok or status.code is Code.WAIT:
        return Placement(assumed, NodeName(node_name), state, permit)
    start_s = steps.now()
    run_unreserve(profile, state, assumed, node_name)
    steps.ran("Unreserve", SUCCESS.code.label, start_s)
    cluster.forget(assumed, node_name)
    return failure_of_one_node(status)


def failure_of_one_node(status: Status) -> Failure:
    """The failure of a placement that was stopped after its node had been chosen."""
    if not status.rejected:
        return Failure(status)
    fit_error = fit_error_of_one_node(status)
    return Failure(Status(status.code, (fit_error.message,)), fit_error)
