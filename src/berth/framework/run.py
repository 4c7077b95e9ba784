"""Running the plugins of a profile, point by point: which answer is allowed where, and what becomes of it.

A plugin that raises an exception has answered `Code.ERROR`; so has one that gives a code which its point does not
know.  Filters and scores are run over rows by `berth.scheduling`, which keeps verdicts between attempts.

Source: k8s pkg/scheduler/framework/runtime/framework.go.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, ParamSpec

from berth.api.quantity import QuantityError
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateNotFoundError
from berth.framework.interface import Eviction, NodeStatuses, PostFilterResult, PreFilterResult
from berth.framework.profile import Profile
from berth.framework.status import SUCCESS, Code, PluginError, Status, error, unresolvable, unschedulable

A = ParamSpec("A")

_log = logging.getLogger(__name__)

MAX_PERMIT_WAIT_S: Final = 15 * 60.0

EXPECTED_FAULTS: Final = (PluginError, StateNotFoundError, QuantityError)
"""What a plugin may raise instead of an answer: it cannot tell, it was asked out of turn, some object is malformed."""

FAULTS: Final = (Exception,)
"""What is taken for an answer when a plugin raises it: anything. A mistake in a plugin must not stop other pods."""


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """What all PreFilter plugins together found.

    Attributes:
        status: success, or why no node is looked at.
        node_names: the only nodes worth looking at; None for all.
        rejectors: plugins that narrowed the nodes or rejected the pod.
    """

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    rejectors: frozenset[str] = frozenset()


def guarded(method: Callable[A, Status], *args: A.args, **kwargs: A.kwargs) -> Status:
    """The answer of a plugin's method; an error where it raised one."""
    try:
        return method(*args, **kwargs)
    except FAULTS as fault:
        return error(fault_text(fault))


def fault_text(fault: Exception) -> str:
    """What a plugin's exception says; what it is, and with a traceback in the log, if it is a mistake in the plugin."""
    if not isinstance(fault, EXPECTED_FAULTS):
        _log.error("a plugin broke off", exc_info=fault)
        return f"{type(fault).__name__}: {fault}"
    return str(fault.args[0]) if fault.args else type(fault).__name__  # str() would put KeyErrors in quotes


def run_pre_filter(profile: Profile, state: CycleState, pod: PodInfo) -> PreFilterOutcome:
    """Let each PreFilter plugin work out what its filter needs, and narrow the nodes."""
    names: frozenset[str] | None = None
    narrowing: list[str] = []
    rejection: Status | None = None
    for plugin in profile.pre_filter:
        try:
            result = plugin.pre_filter(state, pod)
        except FAULTS as fault:
            result = PreFilterResult(error(fault_text(fault)))
        status = result.status
        if status.skipped:
            state.skip_filter.add(plugin.name)
            continue
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFilterOutcome(status.by(plugin.name), rejectors=frozenset((plugin.name,)))
        if status.code is Code.UNSCHEDULABLE:
            rejection = status.by(plugin.name)
            continue
        if not status.ok:
            return PreFilterOutcome(error(f'running PreFilter plugin "{plugin.name}": {status.message}'))
        if result.node_names is not None:
            narrowing.append(plugin.name)
            names = result.node_names if names is None else names & result.node_names
            if not names:
                return PreFilterOutcome(_no_common_node(narrowing), frozenset(), frozenset(narrowing))
    if rejection is not None:
        return PreFilterOutcome(rejection, rejectors=frozenset((*narrowing, rejection.plugin)))
    return PreFilterOutcome(SUCCESS, names, frozenset(narrowing))


def _no_common_node(narrowing: list[str]) -> Status:
    if len(narrowing) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {narrowing[0]}")
    together = " ".join(sorted(narrowing))
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{together}] simultaneously")


def run_pre_score(profile: Profile, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
    """Let each PreScore plugin work out what its score needs."""
    for plugin in profile.pre_score:
        status = guarded(plugin.pre_score, state, pod, rows)
        if status.skipped:
            state.skip_score.add(plugin.name)
        elif not status.ok:
            return error(f'running PreScore plugin "{plugin.name}": {status.message}')
    return SUCCESS


def run_post_filter(profile: Profile, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
    """Let the PostFilter plugins try to make room, until one succeeds or knows that none can."""
    reasons: list[str] = []
    rejector = ""
    nominated: str | None = None
    awaited: Eviction | None = None
    for plugin in profile.post_filter:
        try:
            result = plugin.post_filter(state, pod, statuses)
        except FAULTS as fault:
            result = PostFilterResult(error(fault_text(fault)))
        status = result.status
        if status.ok:
            return result
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PostFilterResult(status.by(plugin.name), result.nominated_node_name)
        if not status.rejected:
            return PostFilterResult(error(status.message).by(plugin.name))
        reasons.extend(status.reasons)
        rejector = rejector or plugin.name
        nominated = result.nominated_node_name if result.nominated_node_name is not None else nominated
        awaited = result.awaited or awaited
    return PostFilterResult(unschedulable(*reasons).by(rejector), nominated, awaited=awaited)


def run_reserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Let each Reserve plugin book the placement; the first that cannot ends it."""
    for plugin in profile.reserve:
        status = guarded(plugin.reserve, state, pod, node_name)
        if status.rejected:
            return status.by(plugin.name)
        if not status.ok:
            return error(f'running Reserve plugin "{plugin.name}": {status.message}')
    return SUCCESS


def run_unreserve(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
    """Take all bookings back, last plugin first, also of those that never booked."""
    for plugin in reversed(profile.reserve):
        try:
            plugin.unreserve(state, pod, node_name)
        except FAULTS:
            _log.exception("pod %s on node %s: Unreserve of plugin %s broke off", pod.key, node_name, plugin.name)


@dataclass(frozen=True, slots=True)
class PermitOutcome:
    """What all Permit plugins together say.

    Attributes:
        status: success, wait, or a rejection.
        waits: plugin -> how long it wants to wait at most, in seconds.
    """

    status: Status
    waits: dict[str, float]


def run_permit(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> PermitOutcome:
    """Ask each Permit plugin; a rejection ends it, a wish to wait is remembered."""
    waits: dict[str, float] = {}
    reasons: tuple[str, ...] = ()
    for plugin in profile.permit:
        timeout_s = 0.0
        try:
            status, timeout_s = plugin.permit(state, pod, node_name)
        except FAULTS as fault:
            status = error(fault_text(fault))
        if status.rejected:
            return PermitOutcome(status.by(plugin.name), {})
        if status.code is Code.WAIT:
            waits[plugin.name] = min(timeout_s, MAX_PERMIT_WAIT_S)
            reasons = status.reasons
        elif not status.ok:
            return PermitOutcome(error(f'running Permit plugin "{plugin.name}": {status.message}'), {})
    if waits:
        return PermitOutcome(
            Status(Code.WAIT, (*reasons, "one or more plugins asked to wait and no plugin rejected pod")), waits
        )
    return PermitOutcome(SUCCESS, {})


def run_pre_bind_pre_flight(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Ask which PreBind plugins have work to do: success if any, skip if none."""
    work = False
    for plugin in profile.pre_bind:
        status = guarded(plugin.pre_bind_pre_flight, state, pod, node_name)
        if status.skipped:
            state.skip_pre_bind.add(plugin.name)
        elif status.ok:
            work = True
        elif status.code is Code.ERROR:
            return error(f'running PreBindPreFlight "{plugin.name}": {status.message}')
        else:
            return error(
                f'PreBindPreFlight {plugin.name} returned "{status.code.label}", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status"
            )
    return SUCCESS if work else Status(Code.SKIP)


async def run_pre_bind(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Let the PreBind plugins that have work to do prepare the cluster, one after another."""
    for plugin in profile.pre_bind:
        if plugin.name in state.skip_pre_bind:
            continue
        try:
            status = await plugin.pre_bind(state, pod, node_name)
        except FAULTS as fault:
            status = error(fault_text(fault))
        if status.rejected:
            return status.by(plugin.name)
        if not status.ok:
            return error(f'running PreBind plugin "{plugin.name}": {status.message}')
    return SUCCESS


async def run_bind(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Let the first Bind plugin that feels responsible bind the pod."""
    for plugin in profile.bind:
        try:
            status = await plugin.bind(state, pod, node_name)
        except FAULTS as fault:
            status = error(fault_text(fault))
        if status.skipped:
            continue
        if status.rejected:
            return status.by(plugin.name)
        if not status.ok:
            return error(f'running Bind plugin "{plugin.name}": {status.message}')
        return SUCCESS
    return Status(Code.SKIP)


def run_post_bind(profile: Profile, state: CycleState, pod: PodInfo, node_name: str) -> None:
    """Tell the PostBind plugins that the pod is bound."""
    for plugin in profile.post_bind:
        try:
            plugin.post_bind(state, pod, node_name)
        except FAULTS:
            _log.exception("pod %s on node %s: PostBind of plugin %s broke off", pod.key, node_name, plugin.name)
