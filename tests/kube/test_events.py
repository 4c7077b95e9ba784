"""Events, series, sweeps and retries, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.kube.scripted_api import ScriptedApi, Sent, answers
from tests.kube.virtual_time import EPOCH_NS, in_virtual_time, loop_clock, run_in_virtual_time

from berth.kube.errors import (
    AlreadyExistsError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from berth.kube.events import PILED_UP, QUEUE_LIMIT, EventRecorder, ObjectRef, cut_note, event_name
from berth.kube.session import STRATEGIC_MERGE_PATCH

EVENTS = "/apis/events.k8s.io/v1/namespaces/ns/events"
WEB = ObjectRef(kind="Pod", namespace="ns", name="web", uid="u1", api_version="v1", resource_version="7")
LOST = TransportError("cut", may_be_applied=True)


@asynccontextmanager
async def recording(
    api: ScriptedApi, *, qps: float = -1, busy: Callable[[], bool] = lambda: False
) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(api, hostname="host", qps=qps, burst=1, clock=loop_clock(), busy=busy)
    task = asyncio.create_task(recorder.run())
    await asyncio.sleep(0)
    try:
        yield recorder
    finally:
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def fail_scheduling(recorder: EventRecorder, note: str = "0/1 nodes", regarding: ObjectRef = WEB) -> None:
    recorder.event(regarding, "Warning", "FailedScheduling", "Scheduling", note, controller="default-scheduler")


@in_virtual_time
async def test_an_event_says_what_the_reference_says() -> None:
    api = ScriptedApi()
    victim = ObjectRef(kind="Pod", namespace="ns", name="victim", uid="u2")
    async with recording(api) as recorder:
        recorder.event(victim, "Normal", "Preempted", "Preempting", "gone", controller="mine", related=WEB)
        await recorder.drain()
    (sent,) = api.sent
    assert (sent.method, sent.path) == ("POST", EVENTS)
    assert sent.body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"victim.{EPOCH_NS:x}", "namespace": "ns"},
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reportingController": "mine",
        "reportingInstance": "mine-host",
        "action": "Preempting",
        "reason": "Preempted",
        "regarding": {"kind": "Pod", "namespace": "ns", "name": "victim", "uid": "u2"},
        "related": {
            "kind": "Pod",
            "namespace": "ns",
            "name": "web",
            "uid": "u1",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "gone",
        "type": "Normal",
    }
    assert recorder.posted == 1


@in_virtual_time
async def test_an_event_about_a_cluster_wide_object_lives_in_default() -> None:
    api = ScriptedApi()
    async with recording(api) as recorder:
        fail_scheduling(recorder, regarding=ObjectRef(kind="Node", name="n1"))
        await recorder.drain()
    assert api.sent[0].path == "/apis/events.k8s.io/v1/namespaces/default/events"


@in_virtual_time
async def test_repetitions_become_a_series_that_is_sent_once_and_then_only_counted() -> None:
    api = ScriptedApi()
    async with recording(api) as recorder:
        for second in range(5):
            fail_scheduling(recorder, note=f"try {second}")
            await asyncio.sleep(1)
    post, patch = api.sent
    assert (post.method, patch.method) == ("POST", "PATCH")
    assert (patch.path, patch.content_type) == (f"{EVENTS}/{post.body['metadata']['name']}", STRATEGIC_MERGE_PATCH)
    assert patch.body == {"series": {"count": 2, "lastObservedTime": "2023-11-14T22:13:21.000000Z"}}


CHANGES: dict[str, dict[str, Any]] = {
    "another version of the object": {"resource_version": "8"},
    "another object of the same name": {"uid": "u9"},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES.keys())
def test_no_series_is_made_of(changes: dict[str, Any]) -> None:
    async def check() -> None:
        api = ScriptedApi()
        other = ObjectRef(**({"kind": "Pod", "namespace": "ns", "name": "web", "uid": "u1"} | changes))
        async with recording(api) as recorder:
            fail_scheduling(recorder)
            await asyncio.sleep(1)
            fail_scheduling(recorder, regarding=other)
            await recorder.drain()
        assert [sent.method for sent in api.sent] == ["POST", "POST"]

    run_in_virtual_time(check())


@in_virtual_time
async def test_what_cannot_repeat_is_not_remembered() -> None:
    api = ScriptedApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Scheduled", "Binding", "ok", controller="c", may_repeat=False)
        await recorder.drain()
        assert recorder._known == {}


@in_virtual_time
async def test_a_series_whose_event_is_gone_is_posted_anew() -> None:
    api = ScriptedApi(lambda sent: NotFoundError(404) if sent.method == "PATCH" else {})
    async with recording(api) as recorder:
        fail_scheduling(recorder)
        await asyncio.sleep(1)
        fail_scheduling(recorder)
        await recorder.drain()
    assert [sent.method for sent in api.sent] == ["POST", "PATCH", "POST"]
    assert api.sent[2].body["series"]["count"] == 2


@in_virtual_time
async def test_running_series_are_sent_again_every_half_hour() -> None:
    api = ScriptedApi()
    async with recording(api) as recorder:
        for _ in range(30):
            fail_scheduling(recorder)
            await asyncio.sleep(60)
        await asyncio.sleep(1)
    assert [sent.body.get("series", {}).get("count") for sent in api.sent] == [None, 2, 30]


@in_virtual_time
async def test_an_idle_series_is_sent_a_last_time_and_forgotten() -> None:
    api = ScriptedApi()
    async with recording(api) as recorder:
        for _ in range(3):
            fail_scheduling(recorder)
            await asyncio.sleep(1)
        await asyncio.sleep(13 * 60)
        assert [sent.body.get("series", {}).get("count") for sent in api.sent] == [None, 2, 3]
        assert recorder._known == {}
        fail_scheduling(recorder)
        await recorder.drain()
        assert api.sent[-1].method == "POST"


@in_virtual_time
async def test_a_single_event_that_stays_single_is_forgotten_without_a_word() -> None:
    api = ScriptedApi()
    async with recording(api) as recorder:
        fail_scheduling(recorder)
        await asyncio.sleep(13 * 60)
        assert recorder._known == {}
        assert len(api.sent) == 1


@in_virtual_time
async def test_an_event_is_tried_twelve_times_some_ten_seconds_apart() -> None:
    api = ScriptedApi(answers(ServerError(503)), takes_s=0)
    async with recording(api) as recorder:
        fail_scheduling(recorder)
        await asyncio.sleep(600)
        assert recorder.failed == 1
    assert [sent.at_s for sent in api.sent] == [n * 11.25 for n in range(12)]


RETRIED: dict[str, tuple[list[object], int, int]] = {
    "a lost answer": ([LOST, {}], 2, 0),
    "a lost answer to a post that was carried out": ([LOST, AlreadyExistsError(409, "AlreadyExists")], 2, 0),
    "a request too many": ([TooManyRequestsError(429, retry_after_s=1), {}], 2, 0),
    "a missing right": ([ForbiddenError(403)], 1, 1),
}


@pytest.mark.parametrize(("script", "tries", "failed"), RETRIED.values(), ids=RETRIED.keys())
def test_how_often_is_tried_after(script: list[object], tries: int, failed: int) -> None:
    async def check() -> None:
        api = ScriptedApi(answers(*script))
        async with recording(api) as recorder:
            fail_scheduling(recorder)
            await asyncio.sleep(300)
            assert (len(api.sent), recorder.failed) == (tries, failed)

    run_in_virtual_time(check())


@in_virtual_time
async def test_nothing_is_left_behind_when_recording_ends() -> None:
    api = ScriptedApi(answers(LOST))
    async with recording(api) as recorder:
        fail_scheduling(recorder)
        await asyncio.sleep(1)
        assert len(recorder._retries) == 1
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_a_server_that_wants_a_longer_rest_gets_it() -> None:
    api = ScriptedApi(answers(TooManyRequestsError(429, retry_after_s=60), {}), takes_s=0)
    async with recording(api) as recorder:
        fail_scheduling(recorder)
        await asyncio.sleep(100)
    assert [sent.at_s for sent in api.sent] == [0, 60]


@in_virtual_time
async def test_an_event_that_waits_for_another_try_holds_up_no_other() -> None:
    def refuse_first(sent: Sent) -> object:
        return LOST if "first" in sent.body["metadata"]["name"] else {}

    api = ScriptedApi(refuse_first)
    async with recording(api) as recorder:
        for n in range(8):  # as many as there are workers
            fail_scheduling(recorder, regarding=ObjectRef(name=f"first{n}"))
        fail_scheduling(recorder)
        await asyncio.sleep(1)
        assert recorder.posted == 1


@in_virtual_time
async def test_the_queue_holds_a_thousand_and_drops_the_rest() -> None:
    api = ScriptedApi(takes_s=1e6)
    async with recording(api) as recorder:
        for n in range(QUEUE_LIMIT + 100):
            fail_scheduling(recorder, regarding=ObjectRef(name=f"p{n}"))
        assert recorder.dropped == 100


@in_virtual_time
async def test_while_there_is_more_urgent_work_one_event_at_a_time_is_posted_and_none_waits_for_long() -> None:
    urgent = True
    api = ScriptedApi(takes_s=0.3)
    async with recording(api, busy=lambda: urgent) as recorder:
        for n in range(12):
            fail_scheduling(recorder, regarding=ObjectRef(name=f"p{n}"))
        await asyncio.sleep(0.9)
        assert api.most_in_flight == 1
        await asyncio.sleep(1)
        assert api.most_in_flight == 8
        urgent = False
        await recorder.drain()
    assert recorder.posted == 12


@in_virtual_time
async def test_events_that_pile_up_do_not_wait() -> None:
    api = ScriptedApi(takes_s=0.3)
    async with recording(api, busy=lambda: True) as recorder:
        for n in range(PILED_UP + 100):
            fail_scheduling(recorder, regarding=ObjectRef(name=f"p{n}"))
        await asyncio.sleep(0.1)
        assert api.most_in_flight == 8


@in_virtual_time
async def test_events_have_a_pace_of_their_own() -> None:
    api = ScriptedApi(takes_s=0)
    async with recording(api, qps=10) as recorder:
        for n in range(3):
            fail_scheduling(recorder, regarding=ObjectRef(name=f"p{n}"))
        await recorder.drain()
    assert [round(sent.at_s, 3) for sent in api.sent] == [0.0, 0.1, 0.2]


@in_virtual_time
async def test_a_core_event_has_the_older_form() -> None:
    api = ScriptedApi()
    lease = ObjectRef(kind="Lease", namespace="kube-system", name="kube-scheduler")
    async with recording(api) as recorder:
        recorder.core_event(lease, "Normal", "LeaderElection", "me became leader", component="default-scheduler")
        await recorder.drain()
    (sent,) = api.sent
    assert sent.path == "/api/v1/namespaces/kube-system/events"
    assert sent.body["involvedObject"] == {"kind": "Lease", "namespace": "kube-system", "name": "kube-scheduler"}
    assert sent.body["message"] == "me became leader"
    assert (sent.body["firstTimestamp"], sent.body["count"]) == ("2023-11-14T22:13:20Z", 1)


NOTES = {
    "a short note stays": ("short", "short"),
    "1024 bytes stay": ("x" * 1024, "x" * 1024),
    "1100 bytes become 1024": ("x" * 1100, "x" * 1020 + " ..."),
    "a character is never cut in two": ("é" * 509 + "x€€€€", "é" * 509 + "x ..."),
}


@pytest.mark.parametrize(("note", "want"), NOTES.values(), ids=NOTES.keys())
def test_how_notes_are_cut(note: str, want: str) -> None:
    assert cut_note(note) == want
    assert len(want.encode()) <= 1024


def test_the_name_of_an_event_is_its_objects_and_the_time_in_hexadecimal() -> None:
    assert event_name("web", 255) == "web.ff"
    assert len(event_name("w" * 250, EPOCH_NS)) == 36
