"""Telling users what became of a pod: events and the ``PodScheduled`` condition.

Performs `berth.scheduling.instructions.Report`; never waits, since both recorder and dispatcher work in the background.

Source: k8s pkg/scheduler/schedule_one.go, ``handleSchedulingFailure`` and ``updatePod``.
"""

import asyncio
import logging
from typing import Final

from berth.api.meta import Condition, NodeName, PodKey
from berth.api.pod import Pod
from berth.kube.dispatcher import Dispatcher, PatchOutcome, PatchResult
from berth.kube.events import EventRecorder, ObjectRef
from berth.kube.status_patch import KnownStatus, StatusChange
from berth.scheduling.instructions import Report

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

    def report(self, report: Report) -> None:
        """An attempt failed."""
        self._recorder.event(
            reference(report.pod),
            "Warning",
            "FailedScheduling",
            "Scheduling",
            report.message,
            controller=report.controller,
        )
        if report.update_status:
            condition = Condition(
                type=POD_SCHEDULED,
                status="False",
                reason=report.reason,
                message=report.message,
                observed_generation=report.pod.metadata.generation,
            )
            change = StatusChange(conditions=(condition,), nominated_node_name=report.nominated_node_name)
            self._patch(report.pod, change)

    def nominate(self, pod: Pod, node_name: NodeName) -> None:
        """The pod will be bound to a node once what PreBind or Permit wait for has happened."""
        self._patch(pod, StatusChange(nominated_node_name=node_name))

    def denominate(self, pod: Pod) -> None:
        """The node that the pod hoped for is gone."""
        self._patch(pod, StatusChange(nominated_node_name=""))

    def _patch(self, pod: Pod, change: StatusChange) -> None:
        known = KnownStatus(conditions=pod.status.conditions, nominated_node_name=pod.status.nominated_node_name)
        meta = pod.metadata
        written = self._dispatcher.patch_status(meta.namespace, meta.name, meta.uid, known, change)
        written.add_done_callback(lambda done: _log_failure(pod.key, done))


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
