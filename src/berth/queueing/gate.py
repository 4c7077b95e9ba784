"""`Gate`: the PreEnqueue plugins, which hold pods back from being tried.

Source: k8s pkg/scheduler/backend/queue/scheduling_queue.go, ``runPreEnqueuePlugins``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from berth.framework.interface import HoldingPlugin, PreEnqueuePlugin
from berth.framework.status import Code, PluginError, Status, error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from berth.api.meta import PodUid
    from berth.queueing.entries import QueuedPodInfo
    from berth.queueing.hints import HintBook
    from berth.queueing.observer import QueueObserver
    from berth.queueing.unschedulable import Rejector

_LOG: Final = logging.getLogger(__name__)


class Gate:
    """Lets pods in or marks them as gated; each pod is judged by the plugins of its profile."""

    def __init__(
        self,
        plugins: Mapping[str, tuple[PreEnqueuePlugin, ...]],
        hints: HintBook,
        observer: QueueObserver,
        stopwatch: Callable[[], float],
    ) -> None:
        self._plugins = dict(plugins)
        self._holders = {
            (profile, plugin.name): plugin
            for profile, row in plugins.items()
            for plugin in row
            if isinstance(plugin, HoldingPlugin)
        }
        self._hints = hints
        self._observer = observer
        self._stopwatch = stopwatch

    def judge(self, entry: QueuedPodInfo) -> None:
        """Set or clear the gate of a pod; the plugin that held it back so far is asked first."""
        start_s = self._stopwatch()
        for plugin in self._in_order(entry):
            if not self._lets_in(plugin, entry):
                break
        else:
            entry.gating_plugin, entry.gating_plugin_events = "", ()
        self._observer.pre_enqueue_ran(entry.profile, self._stopwatch() - start_s)

    def is_holder(self, profile: str, plugin: str) -> bool:
        """Whether a plugin may hold many pods back, and can tell which."""
        return (profile, plugin) in self._holders

    def held_back(self, about: Any) -> dict[Rejector, AbstractSet[PodUid]]:
        """The pods that each such plugin keeps out, after something happened to the object *about*."""
        return {rejector: holder.held_back(about) for rejector, holder in self._holders.items()}

    def stays_shut(self, entry: QueuedPodInfo) -> bool:
        """Whether the plugin that keeps a gated pod out is known to do so still; nothing is set or told of."""
        holder = self._holders.get((entry.profile, entry.gating_plugin))
        return holder is not None and entry.uid in holder.held_back(None)

    def _in_order(self, entry: QueuedPodInfo) -> Sequence[PreEnqueuePlugin]:
        plugins = self._plugins.get(entry.profile, ())
        held_by = entry.gating_plugin
        return sorted(plugins, key=lambda plugin: plugin.name != held_by) if held_by else plugins

    def _lets_in(self, plugin: PreEnqueuePlugin, entry: QueuedPodInfo) -> bool:
        start_s = self._stopwatch()
        status = _ask(plugin, entry)
        self._observer.pre_enqueue_plugin_ran(entry.profile, plugin.name, status.code, self._stopwatch() - start_s)
        if status.ok:
            return True
        if status.code is Code.ERROR:
            _LOG.error("%s could not judge whether pod %s may enter: %s", plugin.name, entry.key, status.message)
        if plugin.name not in entry.unschedulable_plugins and plugin.name not in entry.pending_plugins:
            self._observer.unschedulable_changed(plugin.name, entry.profile, 1)
        entry.unschedulable_plugins.add(plugin.name)
        entry.gating_plugin = plugin.name
        entry.gating_plugin_events = self._hints.events_of(plugin.name)
        return False


def _ask(plugin: PreEnqueuePlugin, entry: QueuedPodInfo) -> Status:
    try:
        return plugin.pre_enqueue(entry.info)
    except PluginError as fault:
        return error(str(fault))
    except Exception as fault:  # noqa: BLE001 - logged; a plugin's fault must not lose its pods
        _LOG.exception("%s broke off while judging whether pod %s may enter", plugin.name, entry.key)
        return error(str(fault))
