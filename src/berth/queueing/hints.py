"""Which plugin waits for which event, and whether an event is worth another attempt at a pod.

A profile's registrations are collected once into a `HintMap`; a `HintBook` holds those of all profiles and remembers,
per event, whom to ask.  The queue asks it about every event and every pod that might have waited for it, so what does
not depend on the pod is worked out only once.

Source: k8s pkg/scheduler/backend/queue/scheduling_queue.go, ``isPodWorthRequeuing``; pkg/scheduler/scheduler.go,
``buildQueueingHintMap``; KEP-4247.
"""

from __future__ import annotations

import enum
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from berth.api.pod import Pod
from berth.framework.events import Action, ClusterEvent, Hint, HintError, HintFn, Registration, Resource
from berth.framework.interface import (
    EnqueueExtensions,
    FilterPlugin,
    FurtherEvents,
    PermitPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from berth.api.meta import PodUid
    from berth.framework.features import Behaviours
    from berth.framework.interface import Plugin
    from berth.queueing.entries import QueuedPodInfo
    from berth.queueing.observer import QueueObserver

EXTENDER: Final = "Extender"
"""Name under which all extenders together wait."""

_LOG: Final = logging.getLogger(__name__)
_OUTCOMES: Final = {hint: hint.value for hint in Hint}  # the attribute is slow, and the hot loop needs it
_REJECTING: Final = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)
_DEFAULT_RESOURCES: Final = (
    Resource.POD,
    Resource.NODE,
    Resource.PERSISTENT_VOLUME,
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.CSI_NODE,
    Resource.CSI_DRIVER,
    Resource.CSI_STORAGE_CAPACITY,
    Resource.STORAGE_CLASS,
    Resource.RESOURCE_CLAIM,
    Resource.DEVICE_CLASS,
)


class Strategy(enum.Enum):
    """What to do with a waiting pod because of an event."""

    SKIP = enum.auto()  # let it wait
    AFTER_BACKOFF = enum.auto()  # try it again once its pause is over
    IMMEDIATELY = enum.auto()  # try it again, pause or not


# Members as plain names: looking them up in their class costs more than the rest of the hot loop.
_SKIP, _AFTER_BACKOFF, _IMMEDIATELY = Strategy.SKIP, Strategy.AFTER_BACKOFF, Strategy.IMMEDIATELY
_HINT_QUEUE, _HINT_SKIP = Hint.QUEUE, Hint.SKIP


class Waiter(NamedTuple):
    """A plugin that waits for an event; without a hint, every such event counts."""

    plugin: str
    event: ClusterEvent
    hint: HintFn | None
    by_likeness: bool = False
    by_spec: bool = False


_NOT_SHARED: Final = Waiter("", ClusterEvent(Resource.WILDCARD, Action.ALL), None)


class HintMap:
    """What the plugins of one profile wait for."""

    def __init__(self, waiters: Iterable[Waiter]) -> None:
        self.waiters = tuple(waiters)
        self._asked: dict[tuple[str, Action], tuple[Waiter, ...]] = {}

    def waiters_for(self, event: ClusterEvent) -> tuple[Waiter, ...]:
        """Whom to ask about *event*, in the order of their registrations."""
        key = (event.resource, event.action)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = tuple(waiter for waiter in self.waiters if waiter.event.matches(event))
        return asked


def build_hint_map(
    plugins: Iterable[Plugin],
    behaviours: Behaviours,
    *,
    extenders: bool = False,
    pod_groups: bool = False,
    further: bool = True,
) -> HintMap:
    """Collect what the plugins of a profile wait for.

    Only plugins that can reject a pod are asked.  One that does not say what it waits for waits for almost anything.

    Args:
        plugins: all plugins of the profile, in order.
        behaviours: how this version of Kubernetes goes about things.
        extenders: whether extenders are configured; they wait for almost anything, too.
        pod_groups: whether pod groups exist (gate GenericWorkload).
        further: whether plugins are also woken by what the reference overlooks.

    Source: k8s pkg/scheduler/scheduler.go, ``buildQueueingHintMap``.
    """
    waiters: list[Waiter] = []
    for plugin in plugins:
        if not isinstance(plugin, _REJECTING):
            continue
        if isinstance(plugin, EnqueueExtensions):
            registrations = plugin.events_to_register()
        else:
            registrations = default_registrations(pod_groups=pod_groups)
        waiters.extend(_waiters_of(plugin.name, registrations, behaviours))
        if further and isinstance(plugin, FurtherEvents):
            waiters.extend(_waiters(plugin.name, plugin.further_events()))
    if extenders:
        waiters.extend(_waiters_of(EXTENDER, default_registrations(pod_groups=pod_groups), behaviours))
    return HintMap(waiters)


def default_registrations(*, pod_groups: bool) -> list[Registration]:
    """What a plugin waits for that does not say so itself.

    Source: k8s pkg/scheduler/framework/events.go, ``UnrollWildCardResource``.
    """
    resources = (*_DEFAULT_RESOURCES, Resource.POD_GROUP) if pod_groups else _DEFAULT_RESOURCES
    return [Registration(ClusterEvent(resource, Action.ALL)) for resource in resources]


def _waiters(plugin: str, registrations: Iterable[Registration]) -> list[Waiter]:
    return [Waiter(plugin, each.event, each.hint, each.by_likeness, each.by_spec) for each in registrations]


def _waiters_of(plugin: str, registrations: Sequence[Registration], behaviours: Behaviours) -> list[Waiter]:
    waiters = _waiters(plugin, registrations)
    node_actions = Action(0)
    for registration in registrations:
        if registration.event.resource == Resource.NODE:
            node_actions |= registration.event.action
    if (
        behaviours.implied_node_taint_event
        and node_actions & Action.ADD
        and not node_actions & Action.UPDATE_NODE_TAINT
    ):
        waiters.append(Waiter(plugin, ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT), None))
    return waiters


def union_of_actions(hint_maps: Iterable[HintMap]) -> dict[str, Action]:
    """What somebody waits for, by resource: which objects to watch, and which changes of them to tell the queue.

    Source: k8s pkg/scheduler/scheduler.go, ``unionedGVKs``.
    """
    union: dict[str, Action] = {}
    for hint_map in hint_maps:
        for waiter in hint_map.waiters:
            resource = waiter.event.resource
            union[resource] = union.get(resource, Action(0)) | waiter.event.action
    return union


class HintBook:
    """The hints of all profiles."""

    def __init__(
        self,
        hint_maps: Mapping[str, HintMap],
        behaviours: Behaviours,
        observer: QueueObserver,
        stopwatch: Callable[[], float],
    ) -> None:
        self.observer = observer
        self.stopwatch = stopwatch
        self._hint_maps = dict(hint_maps)
        self._target, self._stranger = behaviours.own_pod_event_resource, behaviours.unscheduled_pod_event_resource
        self._opens: dict[tuple[str, str, Action], bool] = {}
        self._to_ask: dict[tuple[str, Action], frozenset[tuple[str, str]]] = {}
        self._events_of: dict[str, list[ClusterEvent]] = {}
        for hint_map in self._hint_maps.values():
            for waiter in hint_map.waiters:
                self._events_of.setdefault(waiter.plugin, []).append(waiter.event)

    def knows(self, profile: str) -> bool:
        """Whether there is such a profile."""
        return profile in self._hint_maps

    def is_of_interest(self, event: ClusterEvent) -> bool:
        """Whether any plugin waits for *event*."""
        return event.is_wildcard or bool(self.rejectors_to_ask(event))

    def rejectors_to_ask(self, event: ClusterEvent) -> frozenset[tuple[str, str]]:
        """The (profile, plugin) pairs that wait for *event*; pods that none of them rejected need not be looked at."""
        key = (event.resource, event.action)
        to_ask = self._to_ask.get(key)
        if to_ask is None:
            to_ask = self._to_ask[key] = frozenset(
                (profile, waiter.plugin)
                for profile, hint_map in self._hint_maps.items()
                for waiter in hint_map.waiters_for(event)
            )
        return to_ask

    def events_of(self, plugin: str) -> tuple[ClusterEvent, ...]:
        """What a plugin waits for, in any profile."""
        return tuple(self._events_of.get(plugin, ()))

    def may_open_gate(self, entry: QueuedPodInfo, event: ClusterEvent) -> bool:
        """Whether the plugin that holds a gated pod back waits for *event*."""
        key = (entry.gating_plugin, event.resource, event.action)
        opens = self._opens.get(key)
        if opens is None:
            opens = any(awaited.matches(event) for awaited in self.events_of(entry.gating_plugin))
            self._opens[key] = opens
        return opens

    def about(self, event: ClusterEvent, old: Any, new: Any) -> Inquiry:
        """An inquiry about something that happened, for as many pods as may have waited for it."""
        waiters = {profile: hint_map.waiters_for(event) for profile, hint_map in self._hint_maps.items()}
        return Inquiry(self, waiters, event, old, new)

    def about_recorded(self, entry: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Inquiry:
        """An inquiry for one pod about something that happened during its attempt.

        The update of a pod goes by one name for the pod itself and by another for all others.
        """
        if (
            self._target != self._stranger
            and event.resource == self._target
            and not (isinstance(new, Pod) and new.uid == entry.uid)
        ):
            event = replace(event, resource=Resource(self._stranger))
        return self.about(event, old, new)


class Inquiry:
    """One event, and the plugins that wait for it; what does not depend on the pod is worked out beforehand.

    Attributes:
        answers: what `judge_alike` has found so far, by likeness; good for all pods that the event is not about.
    """

    __slots__ = ("_book", "_event", "_is_wildcard", "_label", "_new", "_old", "_told", "_waiters", "answers")

    def __init__(
        self, book: HintBook, waiters: Mapping[str, tuple[Waiter, ...]], event: ClusterEvent, old: Any, new: Any
    ) -> None:
        self._book = book
        self._waiters = waiters
        self._event = event
        self._label = event.label
        self._is_wildcard = event.is_wildcard
        self._old = old
        self._new = new
        self._told: frozenset[PodUid] = frozenset(each.uid for each in (old, new) if isinstance(each, Pod))
        self.answers: dict[bytes, Strategy] = {}

    def judge_alike(self, entry: QueuedPodInfo) -> Strategy:
        """As `judge`, asking only once for all pods that are alike, as far as the hints allow that."""
        narrow, wide = entry.likeness(), entry.likeness_of_spec()
        if entry.uid in self._told:
            return self.judge(entry)
        known = self.answers.get(narrow) or self.answers.get(wide)
        if known is None:
            known = self.judge(entry)
            asked = self._asked(entry)
            if all(waiter.by_spec for waiter in asked):
                self.answers[wide] = known
            elif all(waiter.by_likeness or waiter.by_spec for waiter in asked):
                self.answers[narrow] = known
        return known

    def _asked(self, entry: QueuedPodInfo) -> list[Waiter]:
        """Those hints that `judge` asks about a pod; one that cannot be shared where something else decides."""
        if self._is_wildcard:
            return [_NOT_SHARED]
        rejectors = entry.rejectors
        waiters = self._waiters.get(entry.info.pod.spec.scheduler_name, ())
        return [waiter for waiter in waiters if waiter.hint is not None and waiter.plugin in rejectors]

    def judge(self, entry: QueuedPodInfo) -> Strategy:
        """Whether the event is worth another attempt at a pod, as the plugins that rejected it see it."""
        unschedulable, pending = entry.unschedulable_plugins, entry.pending_plugins
        if not (unschedulable or pending):
            return _AFTER_BACKOFF
        if self._is_wildcard:
            meant = self._new is None or (isinstance(self._new, Pod) and self._new.uid == entry.uid)
            return _AFTER_BACKOFF if meant else _SKIP
        waiters = self._waiters.get(entry.info.pod.spec.scheduler_name)
        if waiters is None:
            _LOG.error("No queueing hints are known for profile %s of pod %s", entry.profile, entry.key)
            return _AFTER_BACKOFF
        strategy = _SKIP
        for plugin, _, hint, _, _ in waiters:
            if plugin not in unschedulable and plugin not in pending:
                continue
            if self._ask(plugin, hint, entry) is _HINT_SKIP:
                continue
            if plugin in pending:
                return _IMMEDIATELY
            if not pending:
                return _AFTER_BACKOFF
            strategy = _AFTER_BACKOFF
        return strategy

    def _ask(self, plugin: str, hint: HintFn | None, entry: QueuedPodInfo) -> Hint:
        stopwatch = self._book.stopwatch
        start_s = stopwatch()
        answer, outcome = _HINT_QUEUE, "Error"
        try:
            if hint is not None:
                answer = hint(entry.info, self._old, self._new)
            outcome = _OUTCOMES[answer]
        except HintError as error:
            _LOG.warning("The hint of %s for %s failed, pod %s is tried: %s", plugin, self._label, entry.key, error)
        except Exception:  # noqa: BLE001 - logged; a plugin's fault must not lose its pods
            _LOG.exception("The hint of %s for %s broke off, pod %s is tried", plugin, self._label, entry.key)
        self._book.observer.hint_ran(plugin, self._label, outcome, stopwatch() - start_s)
        return answer
