"""Telling users what became of a pod: events and the ``PodScheduled`` condition.

Performs `berth.scheduling.instructions.Report`; never waits, since both recorder and dispatcher work in the background.

Source: k8s pkg/scheduler/schedule_one.go, ``handleSchedulingFailure`` and ``updatePod``.
"""

import asyncio
import logging
from typing import Final

from berth.api.meta import Condition, NodeName, PodKey
from berth.api.pod import Pod
from berth.framework.interface import Eviction
from berth.kube.dispatcher import Dispatcher, PatchOutcome, PatchResult
from berth.kube.events import EventRecorder, ObjectRef
from berth.kube.status_patch import KnownStatus, StatusChange
from berth.plugins.default_preemption.plugin import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from berth.scheduling.instructions import GiveUp, Report

_log = logging.getLogger(__name__)

POD_SCHEDULED: Final = "PodScheduled"


class Reporter:
    """Writes events and conditions.

    Args:
        recorder: posts events.
        dispatcher: patches statuses.
    """

    def __init__(self, recorder: EventRecorder, dispatcher: Dispatcher) -> None:
        self._recorder = recorder
        self._dispatcher = dispatcher

    def bound(self, pod: Pod, controller: str, node_name: NodeName) -> None:
        """The pod is bound."""
        self._recorder.event(
            reference(pod),
            "Normal",
            "Scheduled",
            "Binding",
            f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {node_name}",
            controller=controller,
            may_repeat=False,
        )

    def report(self, report: Report) -> asyncio.Future[PatchOutcome] | None:
        """An attempt failed; returns when that is written into the status, None if it is not to be."""
        self._recorder.event(
            reference(report.pod),
            "Warning",
            "FailedScheduling",
            "Scheduling",
            report.message,
            controller=report.controller,
        )
        if not report.update_status:
            return None
        condition = Condition(
            type=POD_SCHEDULED,
            status="False",
            reason=report.reason,
            message=report.message,
            observed_generation=report.pod.metadata.generation,
        )
        change = StatusChange(conditions=(condition,), nominated_node_name=report.nominated_node_name)
        return self._patch(report.pod, change)

    def nominate(self, pod: Pod, node_name: NodeName) -> None:
        """The pod will be bound to a node once what PreBind or Permit wait for has happened."""
        self._patch(pod, StatusChange(nominated_node_name=node_name))

    def preempted(self, victim: Pod, eviction: Eviction, *, in_memory: bool) -> None:
        """The pod has to go, and has been told so; or it was not bound yet, and is not going to be."""
        preemptor = eviction.preemptor.pod
        note = f"Preempted by pod {preemptor.metadata.uid} on node {eviction.node_name}"
        self._recorder.event(
            reference(victim),
            "Normal",
            "Preempted",
            "Preempting",
            note + (" (in kube-scheduler memory)." if in_memory else ""),
            controller=preemptor.spec.scheduler_name,
            related=reference(preemptor),
            may_repeat=False,
        )

    def mark_victim(self, victim: Pod, eviction: Eviction) -> asyncio.Future[PatchOutcome]:
        """The pod is about to be told to go, and why."""
        scheduler_name = eviction.preemptor.pod.spec.scheduler_name
        condition = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTION_BY_SCHEDULER,
            message=f"{scheduler_name}: preempting to accommodate a higher priority pod",
            observed_generation=victim.metadata.generation,
        )
        return self._patch(victim, StatusChange(conditions=(condition,)))

    def gave_up(self, given_up: GiveUp) -> None:
        """The pod was promised a node, and cannot have it."""
        self._recorder.event(
            reference(given_up.pod),
            "Warning",
            "NominationGivenUp",
            "Preempting",
            given_up.note,
            controller=given_up.controller,
        )
        self.clear_nomination(given_up.pod)

    def clear_nomination(self, pod: Pod) -> asyncio.Future[PatchOutcome]:
        """The pod may not hope for its node any more."""
        return self._patch(pod, StatusChange(nominated_node_name=""))

    def _patch(self, pod: Pod, change: StatusChange) -> asyncio.Future[PatchOutcome]:
        known = KnownStatus(conditions=pod.status.conditions, nominated_node_name=pod.status.nominated_node_name)
        meta = pod.metadata
        written = self._dispatcher.patch_status(meta.namespace, meta.name, meta.uid, known, change)
        written.add_done_callback(lambda done: _log_failure(pod.key, done))
        return written


def _log_failure(pod: PodKey, written: asyncio.Future[PatchOutcome]) -> None:
    if not written.cancelled() and written.result().result is PatchResult.FAILED:
        _log.warning("status of pod %s: %s", pod, written.result().error)


def reference(pod: Pod) -> ObjectRef:
    """How an event refers to *pod*."""
    meta = pod.metadata
    return ObjectRef(
        kind="Pod",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version="v1",
        resource_version=meta.resource_version,
    )
