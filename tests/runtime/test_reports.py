"""What users are told of a pod: the events and the status patches, to the letter."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_pod
from tests.kube.scripted_api import ScriptedApi
from tests.kube.virtual_time import in_virtual_time, loop_clock, run_in_virtual_time
from tests.scheduling.builders import with_metadata

from berth.api.meta import Condition, NodeName
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ForbiddenError
from berth.kube.events import EventRecorder
from berth.runtime.reports import Reporter, reference
from berth.scheduling.instructions import Report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from berth.api.pod import Pod

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
STATUS = "/api/v1/namespaces/default/pods/web/status"
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."


@dataclass
class Desk:
    """A reporter, and the API server that it writes to."""

    reporter: Reporter
    api: ScriptedApi

    async def events(self) -> list[Any]:
        """The events that were posted or patched so far."""
        await asyncio.sleep(1)
        return [sent.body for sent in self.api.sent if sent.path.startswith(EVENTS)]

    async def patches(self) -> list[Any]:
        """The statuses that were patched so far."""
        await asyncio.sleep(1)
        return [sent.body["status"] for sent in self.api.sent if sent.path == STATUS]


@asynccontextmanager
async def a_desk() -> AsyncIterator[Desk]:
    api, clock = ScriptedApi(), loop_clock()
    recorder = EventRecorder(api, hostname="here", qps=-1, burst=0, clock=clock)
    task = asyncio.create_task(recorder.run())
    try:
        yield Desk(Reporter(recorder, Dispatcher(api, qps=-1, burst=0, clock=clock)), api)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def a_report(
    pod: Pod | None = None, *, message: str = NO_ROOM, nominated: str | None = None, update_status: bool = True
) -> Report:
    return Report(
        pod=pod or a_pod(metadata={"generation": 3, "resource_version": "17"}),
        controller="my-scheduler",
        reason="Unschedulable",
        message=message,
        nominated_node_name=nominated,
        update_status=update_status,
    )


@in_virtual_time
async def test_a_binding_is_told_as_an_event() -> None:
    async with a_desk() as desk:
        desk.reporter.bound(a_pod(metadata={"resource_version": "17"}), "my-scheduler", NodeName("n1"))
        (event,) = await desk.events()
    assert event.pop("metadata")["namespace"] == "default"
    assert event.pop("eventTime") == "2023-11-14T22:13:20.000000Z"
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned default/web to n1",
        "reportingController": "my-scheduler",
        "reportingInstance": "my-scheduler-here",
        "regarding": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": "default",
            "name": "web",
            "uid": "uid-of-default-web",
            "resourceVersion": "17",
        },
    }


@in_virtual_time
async def test_a_failure_is_told_as_an_event_and_as_a_condition() -> None:
    async with a_desk() as desk:
        desk.reporter.report(a_report())
        (event,) = await desk.events()
        (status,) = await desk.patches()
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "FailedScheduling", "Scheduling")
    assert (event["note"], event["reportingController"]) == (NO_ROOM, "my-scheduler")
    assert status == {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": NO_ROOM,
                "lastTransitionTime": "2023-11-14T22:13:20Z",
                "observedGeneration": 3,
            }
        ]
    }


@in_virtual_time
async def test_a_long_message_is_cut_in_the_event_and_whole_in_the_condition() -> None:
    async with a_desk() as desk:
        desk.reporter.report(a_report(message="x" * 1100))
        (event,) = await desk.events()
        (status,) = await desk.patches()
    assert event["note"] == "x" * 1020 + " ..."
    assert status["conditions"][0]["message"] == "x" * 1100


# which nomination the pod has, what becomes of it; what the patch says of it
NOMINATIONS: dict[str, tuple[str, str | None, dict[str, Any]]] = {
    "one that stays is not mentioned": ("n1", None, {}),
    "one that is given up is removed": ("n1", "", {"nominatedNodeName": None}),
    "one that is given up and never was is not mentioned": ("", "", {}),
    "a new one is set": ("", "n2", {"nominatedNodeName": "n2"}),
    "another one replaces it": ("n1", "n2", {"nominatedNodeName": "n2"}),
    "the same one is not mentioned": ("n1", "n1", {}),
}


@pytest.mark.parametrize(("before", "nominated", "expected"), NOMINATIONS.values(), ids=NOMINATIONS)
def test_a_failure_decides_about_the_nomination(before: str, nominated: str | None, expected: dict[str, Any]) -> None:
    async def main() -> None:
        async with a_desk() as desk:
            desk.reporter.report(a_report(a_pod(nominated=before), nominated=nominated))
            (status,) = await desk.patches()
        status.pop("conditions")
        assert status == expected

    run_in_virtual_time(main())


@in_virtual_time
async def test_a_condition_that_is_known_is_not_written_again() -> None:
    known = Condition(
        type="PodScheduled",
        status="False",
        reason="Unschedulable",
        message=NO_ROOM,
        last_transition_time="2023-01-01T00:00:00Z",
        observed_generation=2,
    )
    async with a_desk() as desk:
        desk.reporter.report(a_report(with_metadata(a_pod(status={"conditions": (known,)}), generation=3)))
        assert await desk.patches() == []
        assert len(await desk.events()) == 1


@in_virtual_time
async def test_a_pod_that_is_going_away_is_told_of_by_an_event_alone() -> None:
    async with a_desk() as desk:
        desk.reporter.report(a_report(message="skip schedule deleting pod: default/web", update_status=False))
        (event,) = await desk.events()
        assert event["note"] == "skip schedule deleting pod: default/web"
        assert await desk.patches() == []


@in_virtual_time
async def test_a_failure_that_repeats_becomes_a_series() -> None:
    async with a_desk() as desk:
        pod = a_pod()
        desk.reporter.report(a_report(pod))
        await asyncio.sleep(1)
        desk.reporter.report(a_report(pod))
        first, second = await desk.events()
    assert "series" not in first
    assert second["series"]["count"] == 2


@in_virtual_time
async def test_nothing_is_remembered_of_a_binding() -> None:
    async with a_desk() as desk:
        for _ in range(2):
            desk.reporter.bound(a_pod(), "my-scheduler", NodeName("n1"))
            await asyncio.sleep(1)
        assert ["series" in event for event in await desk.events()] == [False, False]


@in_virtual_time
async def test_a_nomination_leaves_the_conditions_alone() -> None:
    async with a_desk() as desk:
        desk.reporter.nominate(a_pod(), NodeName("n1"))
        assert await desk.patches() == [{"nominatedNodeName": "n1"}]
        assert await desk.events() == []


@in_virtual_time
async def test_a_status_that_cannot_be_written_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with a_desk() as desk:
        desk.api.answer = lambda sent: ForbiddenError(403, "Forbidden", "no") if sent.path == STATUS else None
        desk.reporter.report(a_report())
        await desk.patches()
    assert caplog.messages == ["status of pod default/web: 403 Forbidden: no"]


def test_an_event_refers_to_the_pod_in_its_version() -> None:
    ref = reference(a_pod(namespace="prod", metadata={"resource_version": "8"}))
    assert (ref.api_version, ref.kind, ref.namespace, ref.name) == ("v1", "Pod", "prod", "web")
    assert (ref.uid, ref.resource_version) == ("uid-of-prod-web", "8")
