"""`QueuedPodInfo`: a waiting pod and what the queue remembers about its attempts.

One such record accompanies a pod from the moment it is queued, through all its attempts, until it is bound or deleted.
The queue owns the fields; the failure handler of the cycle replaces ``info`` and the two sets of rejectors while the
pod is in flight, and nobody else writes.

Source: k8s pkg/scheduler/framework/types.go, ``QueuedPodInfo``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from berth.api.meta import PodKey, PodUid
    from berth.api.pod import Pod
    from berth.cluster.pods import PodInfo
    from berth.framework.events import ClusterEvent

NO_BACKOFF: Final = -math.inf
"""Expiration of a backoff that never was."""


@dataclass(slots=True, eq=False)
class QueuedPodInfo:
    """A pod in the queue, or taken from it for an attempt.

    Attributes:
        info: the pod and what follows from it.
        timestamp_s: when it was queued, or last came back from an attempt; wall clock.
        attempts: how often it was popped.
        backoff_expiration_s: until when it backs off, wall clock; `NO_BACKOFF` until that is worked out.
        unschedulable_count: attempts that ended with a rejection by a plugin.
        consecutive_errors_count: attempts in a row that ended without one.
        initial_attempt_timestamp_s: when it first reached the active queue; None before.
        unschedulable_plugins: plugins that rejected it in its last attempt, or hold it back.
        pending_plugins: plugins that said Pending; once one of them is content, the pod skips its backoff.
        gating_plugin: the plugin whose PreEnqueue holds it back; empty for none.
        gating_plugin_events: the events which that plugin waits for.
        was_flushed_from_unschedulable: whether it came back only because it had waited long.
        flushed_at_s: when that was last tried, wall clock; None for never.
        kept_likeness: see `likeness`; empty until somebody asks, and emptied with every change of what it rests on.
        kept_likeness_of_spec: the same for `likeness_of_spec`.
    """

    info: PodInfo
    timestamp_s: float
    attempts: int = 0
    backoff_expiration_s: float = NO_BACKOFF
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    initial_attempt_timestamp_s: float | None = None
    unschedulable_plugins: set[str] = field(default_factory=set)
    pending_plugins: set[str] = field(default_factory=set)
    gating_plugin: str = ""
    gating_plugin_events: tuple[ClusterEvent, ...] = ()
    was_flushed_from_unschedulable: bool = False
    flushed_at_s: float | None = None
    kept_likeness: bytes = b""
    kept_likeness_of_spec: bytes = b""

    def forget_likeness(self) -> None:
        """What likeness rests on has changed."""
        self.kept_likeness = self.kept_likeness_of_spec = b""

    def likeness(self) -> bytes:
        """Equal for pods that are alike and were rejected by the same plugins, so that the same events help them."""
        if not self.kept_likeness:
            self.kept_likeness = self._digest(self.info.template)
        return self.kept_likeness

    def likeness_of_spec(self) -> bytes:
        """Equal for more pods: those whose specs are alike, whatever else they are."""
        if not self.kept_likeness_of_spec:
            self.kept_likeness_of_spec = self._digest(b"", self.info.spec_template)
        return self.kept_likeness_of_spec

    def _digest(self, *parts: bytes) -> bytes:
        rejectors = (*sorted(self.unschedulable_plugins), "", *sorted(self.pending_plugins))
        whole = b"\0".join((*(name.encode() for name in rejectors), *parts))
        return blake2b(whole, digest_size=16).digest()  # compared for thousands of pods at a time

    @property
    def pod(self) -> Pod:
        """The pod as the API server last showed it to the queue."""
        return self.info.pod

    @property
    def key(self) -> PodKey:
        """``namespace/name``."""
        return self.info.key

    @property
    def uid(self) -> PodUid:
        """The identity of the pod."""
        return self.info.uid

    @property
    def profile(self) -> str:
        """The profile that schedules it."""
        return self.info.pod.spec.scheduler_name

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin holds it back."""
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> set[str]:
        """All plugins that keep the pod waiting; empty after an error."""
        return self.unschedulable_plugins | self.pending_plugins
