"""What becomes of an attempt that failed: where the pod goes, who has to go for it, and what is told.

Source: k8s pkg/scheduler/schedule_one.go, ``handleSchedulingFailure``.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from berth.api.meta import PodKey
from berth.api.pod import Pod
from berth.framework.interface import Eviction
from berth.queueing.entries import QueuedPodInfo
from berth.queueing.queue import QueueError, SchedulingQueue
from berth.scheduling.cycle import Failure
from berth.scheduling.diagnosis import FitError
from berth.scheduling.instructions import Drop, Evict, Instruction, Report
from berth.scheduling.nominations import Nominations

_log = logging.getLogger(__name__)

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"


class Failures:
    """Takes pods back after attempts that failed.

    Args:
        queue: where they wait.
        nominations: which rooms are promised to whom.
        lister: a pod by its key as the API server last showed it; None if it does not.
        evicts_beside: whether evictions are carried out beside other cycles, and are no part of the attempt.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        nominations: Nominations,
        lister: Callable[[PodKey], Pod | None],
        *,
        evicts_beside: bool,
    ) -> None:
        self._queue, self._nominations, self._lister = queue, nominations, lister
        self._evicts_beside = evicts_beside

    def still_wanted(self, evict: Evict) -> bool:
        """Whether the pod that victims have to go for is there, and waits for a node."""
        preemptor = evict.eviction.preemptor.pod
        now = self._lister(preemptor.key)
        return now is not None and now.uid == preemptor.uid and not now.spec.node_name

    def eviction_ended(self, evict: Evict, *, ok: bool) -> None:
        """The victims have been told to go.

        If that failed for some, the pod is tried again at once; also if something has happened meanwhile that helps it,
        for which it was held back: that will not happen again.
        """
        evict.eviction.progress.ended()
        self._nominations.victims_told(evict.eviction)
        preemptor = evict.eviction.preemptor.pod
        if evict.in_flight is not None:
            self._return(evict.in_flight, evict, ok=ok)
        entry = self._queue.get_pod(preemptor.key)
        if not ok or (entry is not None and entry.gated):
            self._queue.activate([preemptor])

    def _return(self, queued: QueuedPodInfo, evict: Evict, *, ok: bool) -> None:
        """The attempt at a pod, of which its evictions were a part, is over; if they failed, promises are as before."""
        now = self._lister(queued.key)
        if now is None or now.uid != queued.uid or now.spec.node_name:
            self._queue.done(queued.uid)
        else:
            queued.info = queued.info.next(now)
            self._requeue(queued)
        if not ok:
            for pod in (queued.pod, *evict.displaced):
                self._hope_as_shown(pod)

    def _hope_as_shown(self, pod: Pod) -> None:
        """Let a pod that waits hope for the node that the API server shows it to be promised."""
        entry, now = self._queue.get_pod(pod.key), self._lister(pod.key)
        if entry is not None and now is not None and entry.uid == now.uid:
            entry.info = entry.info.next(now)
            self._queue.nominator.add(entry.info)

    def returned(self, queued: QueuedPodInfo, failure: Failure) -> Instruction:
        """Have a pod wait after an attempt that failed; returns what is to be done and told."""
        pod = queued.info.pod
        queued.unschedulable_plugins = set()
        queued.pending_plugins = set()
        if failure.fit_error is not None:
            queued.unschedulable_plugins |= failure.fit_error.unschedulable_plugins
            queued.pending_plugins |= failure.fit_error.pending_plugins
        now = self._lister(pod.key)
        evict = None
        if now is not None and now.uid != pod.uid:
            self._queue.done(pod.uid)
            return Drop(pod)
        if now is None or now.spec.node_name:
            self._queue.done(pod.uid)
        else:
            queued.info = queued.info.next(now)
            evict = self._prepare_eviction(failure.eviction, queued)
            if failure.awaited is not None:
                self._nominations.victims_go(failure.awaited)
            if evict is None or evict.in_flight is None:
                self._requeue(queued)
            self._queue.nominator.add(queued.info, failure.nominated_node_name)
        return Report(
            pod=now or pod,
            controller=pod.spec.scheduler_name,
            reason=UNSCHEDULABLE if failure.status.rejected else SCHEDULER_ERROR,
            message=failure.status.message,
            nominated_node_name=failure.nominated_node_name,
            evict=evict,
            victims=None if failure.eviction is None else len(failure.eviction.victims),
            after_failure=None if evict is None else partial(_without_room, failure.fit_error),
        )

    def _prepare_eviction(self, eviction: Eviction | None, queued: QueuedPodInfo) -> Evict | None:
        """From now on the pod is held back, and less important pods have no claim to the node any more."""
        if eviction is None:
            return None
        live = tuple(victim for victim in eviction.victims if victim.pod.metadata.deletion_timestamp is None)
        if not live:
            self._nominations.victims_go(eviction)
            return None
        eviction.progress.started()
        displaced = self._nominations.displaced_by(eviction.preemptor, eviction.node_name)
        in_flight = None if self._evicts_beside else queued
        return Evict(eviction=eviction, live=live, displaced=displaced, in_flight=in_flight)

    def _requeue(self, queued: QueuedPodInfo) -> None:
        try:
            self._queue.add_unschedulable_if_not_present(queued)
        except QueueError as fault:  # it was given up while it was bound, and has changed since
            _log.warning("an attempt failed: %s", fault)


def _without_room(fit_error: FitError | None, why: str) -> str:
    """The text of a failure, in which no room could be made because of *why*."""
    told = f"preemption: {why}"
    return told if fit_error is None else fit_error.with_post_filter_message(told).message
