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
    PermitPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    ReservePlugin,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from berth.framework.features import Behaviours
    from berth.framework.interface import Plugin
    from berth.queueing.entries import QueuedPodInfo
    from berth.queueing.observer import QueueObserver

EXTENDER: Final = "Extender"
"""Name under which all extenders together wait."""

_LOG: Final = logging.getLogger(__name__)
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


class Waiter(NamedTuple):
    """A plugin that waits for an event; without a hint, every such event counts."""

    plugin: str
    event: ClusterEvent
    hint: HintFn | None


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
    plugins: Iterable[Plugin], behaviours: Behaviours, *, extenders: bool = False, pod_groups: bool = False
) -> HintMap:
    """Collect what the plugins of a profile wait for.

    Only plugins that can reject a pod are asked.  One that does not say what it waits for waits for almost anything.

    Args:
        plugins: all plugins of the profile, in order.
        behaviours: how this version of Kubernetes goes about things.
        extenders: whether extenders are configured; they wait for almost anything, too.
        pod_groups: whether pod groups exist (gate GenericWorkload).

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
    if extenders:
        waiters.extend(_waiters_of(EXTENDER, default_registrations(pod_groups=pod_groups), behaviours))
    return HintMap(waiters)


def default_registrations(*, pod_groups: bool) -> list[Registration]:
    """What a plugin waits for that does not say so itself.

    Source: k8s pkg/scheduler/framework/events.go, ``UnrollWildCardResource``.
    """
    resources = (*_DEFAULT_RESOURCES, Resource.POD_GROUP) if pod_groups else _DEFAULT_RESOURCES
    return [Registration(ClusterEvent(resource, Action.ALL)) for resource in resources]


def _waiters_of(plugin: str, registrations: Sequence[Registration], behaviours: Behaviours) -> list[Waiter]:
    waiters = [Waiter(plugin, registration.event, registration.hint) for registration in registrations]
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
        self._hint_maps = dict(hint_maps)
        self._observer = observer
        self._stopwatch = stopwatch
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
        return event.is_wildcard or any(hint_map.waiters_for(event) for hint_map in self._hint_maps.values())

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

    def as_seen_by(self, entry: QueuedPodInfo, event: ClusterEvent, new: Any) -> ClusterEvent:
        """The event under the name that it has for a pod: an update of the pod itself is another event to others."""
        if (
            self._target != self._stranger
            and event.resource == self._target
            and not (isinstance(new, Pod) and new.uid == entry.uid)
        ):
            return replace(event, resource=Resource(self._stranger))
        return event

    def judge(self, entry: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Whether *event* is worth another attempt at a pod, as the plugins that rejected it see it."""
        if not (entry.unschedulable_plugins or entry.pending_plugins):
            return Strategy.AFTER_BACKOFF
        if event.is_wildcard:
            meant = new is None or (isinstance(new, Pod) and new.uid == entry.uid)
            return Strategy.AFTER_BACKOFF if meant else Strategy.SKIP
        hint_map = self._hint_maps.get(entry.profile)
        if hint_map is None:
            _LOG.error("No queueing hints are known for profile %s of pod %s", entry.profile, entry.key)
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        for waiter in hint_map.waiters_for(event):
            pending = waiter.plugin in entry.pending_plugins
            if not pending and waiter.plugin not in entry.unschedulable_plugins:
                continue
            if self._ask(waiter, entry, event, old, new) is Hint.SKIP:
                continue
            if pending:
                return Strategy.IMMEDIATELY
            if not entry.pending_plugins:
                return Strategy.AFTER_BACKOFF
            strategy = Strategy.AFTER_BACKOFF
        return strategy

    def _ask(self, waiter: Waiter, entry: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Hint:
        start_s = self._stopwatch()
        hint, label = Hint.QUEUE, "Error"
        try:
            if waiter.hint is not None:
                hint = waiter.hint(entry.info, old, new)
            label = hint.value
        except HintError as error:
            _LOG.warning(
                "The hint of %s for %s failed, pod %s is tried: %s", waiter.plugin, event.label, entry.key, error
            )
        except Exception:  # noqa: BLE001 - logged; a plugin's fault must not lose its pods
            _LOG.exception("The hint of %s for %s broke off, pod %s is tried", waiter.plugin, event.label, entry.key)
        self._observer.hint_ran(waiter.plugin, event.label, label, self._stopwatch() - start_s)
        return hint
