"""Order, merging, pacing and retries of writes, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kube.scripted_api import ScriptedApi, answers
from tests.kube.virtual_time import in_virtual_time, loop_clock, run_in_virtual_time

from berth.api.meta import Condition
from berth.kube.binding import BindResult
from berth.kube.dispatcher import Dispatcher, PatchOutcome, PatchResult
from berth.kube.errors import (
    ApiError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from berth.kube.session import STRATEGIC_MERGE_PATCH
from berth.kube.status_patch import KnownStatus, StatusChange

POD = "/api/v1/namespaces/ns/pods/web"
LOST = TransportError("cut", may_be_applied=True)


def a_dispatcher(api: ScriptedApi, *, qps: float = -1, burst: int = 0) -> Dispatcher:
    return Dispatcher(api, qps=qps, burst=burst, clock=loop_clock())


def a_change(message: str = "0/1", node: str | None = None) -> StatusChange:
    condition = Condition(type="PodScheduled", status="False", reason="Unschedulable", message=message)
    return StatusChange(conditions=(condition,), nominated_node_name=node)


def patch(it: Dispatcher, change: StatusChange, *, uid: str = "u1", name: str = "web") -> asyncio.Future[PatchOutcome]:
    return it.patch_status("ns", name, uid, KnownStatus(), change)


def messages(api: ScriptedApi) -> list[Any]:
    return [condition.get("message") for sent in api.sent for condition in sent.body["status"].get("conditions", [{}])]


@in_virtual_time
async def test_a_patch_is_a_strategic_merge_of_the_status() -> None:
    api = ScriptedApi()
    outcome = await patch(a_dispatcher(api), a_change(node="n1"))
    assert outcome == PatchOutcome(PatchResult.WRITTEN)
    (sent,) = api.sent
    assert (sent.method, sent.path, sent.content_type) == ("PATCH", POD + "/status", STRATEGIC_MERGE_PATCH)
    assert sent.body["status"]["nominatedNodeName"] == "n1"
    assert sent.body["status"]["conditions"][0]["lastTransitionTime"] == "2023-11-14T22:13:20Z"


@in_virtual_time
async def test_a_patch_that_would_change_nothing_is_not_sent() -> None:
    api = ScriptedApi()
    outcome = await patch(a_dispatcher(api), StatusChange(nominated_node_name=""))
    assert outcome.result is PatchResult.NO_EFFECT
    assert api.sent == []


@in_virtual_time
async def test_patches_of_one_pod_that_wait_become_one() -> None:
    api = ScriptedApi()
    it = a_dispatcher(api)
    first = patch(it, a_change("one"))
    await asyncio.sleep(0.0005)  # the first is under way
    later = [patch(it, a_change("two", node="n1")), patch(it, a_change("three")), patch(it, a_change("four"))]
    outcomes = [outcome.result for outcome in await asyncio.gather(first, *later)]
    assert outcomes == [PatchResult.WRITTEN, PatchResult.SUPERSEDED, PatchResult.SUPERSEDED, PatchResult.WRITTEN]
    assert messages(api) == ["one", "four"]
    assert api.sent[1].body["status"]["nominatedNodeName"] == "n1"
    assert api.most_in_flight == 1


@in_virtual_time
async def test_a_patch_that_waited_is_the_difference_to_what_was_written_before_it() -> None:
    api = ScriptedApi(takes_s=5)
    it = a_dispatcher(api)
    first = patch(it, a_change("one"))
    await asyncio.sleep(1)
    second = patch(it, a_change("two"))
    await asyncio.gather(first, second)
    assert api.sent[1].body["status"]["conditions"] == [{"type": "PodScheduled", "message": "two"}]


@in_virtual_time
async def test_repeating_a_patch_under_way_sends_nothing_more() -> None:
    api = ScriptedApi()
    it = a_dispatcher(api)
    first = patch(it, a_change())
    await asyncio.sleep(0.0005)
    assert (await patch(it, a_change())).result is PatchResult.NO_EFFECT
    assert (await first).result is PatchResult.WRITTEN
    assert len(api.sent) == 1


@in_virtual_time
async def test_patches_of_many_pods_go_out_side_by_side_but_not_all_at_once() -> None:
    api = ScriptedApi()
    it = a_dispatcher(api)
    await asyncio.gather(*[patch(it, a_change(), uid=f"u{n}", name=f"p{n}") for n in range(100)])
    assert len(api.sent) == 100
    assert api.most_in_flight == 16
    assert it._lanes == {}


@in_virtual_time
async def test_a_binding_takes_the_place_of_a_patch_that_waits() -> None:
    api = ScriptedApi()
    it = a_dispatcher(api)
    first = patch(it, a_change("one"))
    await asyncio.sleep(0.0005)
    second = patch(it, a_change("two"))
    outcome = await it.bind_pod("ns", "web", "u1", "n1")
    assert outcome.result is BindResult.BOUND
    assert [sent.method for sent in api.sent] == ["PATCH", "POST"]
    assert api.most_in_flight == 1, "the binding waits for the patch that is under way"
    assert (await first).result is PatchResult.WRITTEN
    assert (await second).result is PatchResult.SUPERSEDED
    assert it._lanes == {}


@in_virtual_time
async def test_a_binding_does_not_queue_behind_the_patches_of_other_pods() -> None:
    api = ScriptedApi(takes_s=100)
    it = a_dispatcher(api)
    for n in range(17):
        patch(it, a_change(), uid=f"u{n}", name=f"p{n}")
    await asyncio.sleep(1)
    binding = asyncio.create_task(it.bind_pod("ns", "p16", "u16", "n1"))
    await asyncio.sleep(1)
    assert api.sent[-1].path.endswith("/p16/binding")
    binding.cancel()
    await asyncio.gather(binding, return_exceptions=True)
    await it.close()


@in_virtual_time
async def test_a_patch_of_a_pod_that_is_being_bound_is_skipped() -> None:
    api = ScriptedApi()
    it = a_dispatcher(api)
    binding = asyncio.create_task(it.bind_pod("ns", "web", "u1", "n1"))
    await asyncio.sleep(0.0005)
    assert (await patch(it, a_change())).result is PatchResult.SKIPPED
    await binding
    assert (await patch(it, a_change())).result is PatchResult.WRITTEN


@in_virtual_time
async def test_all_writes_share_one_pace() -> None:
    api = ScriptedApi()
    it = a_dispatcher(api, qps=10, burst=2)
    await asyncio.gather(
        it.bind_pod("ns", "a", "ua", "n1"),
        it.delete_pod("ns", "b", "ub"),
        it.write("PATCH", "/x", b"{}"),
        patch(it, a_change()),
    )
    assert [round(sent.at_s, 3) for sent in api.sent] == [0.0, 0.0, 0.1, 0.2]


REFUSALS: dict[str, tuple[list[object], PatchResult, int]] = {
    "a lost answer is repeated": ([LOST, {}], PatchResult.WRITTEN, 2),
    "a server error is repeated": ([ServerError(500), {}], PatchResult.WRITTEN, 2),
    "a conflict is repeated": ([ConflictError(409), {}], PatchResult.WRITTEN, 2),
    "four tries are enough": ([ServerError(503)], PatchResult.FAILED, 4),
    "a pod that is gone is no failure": ([NotFoundError(404)], PatchResult.GONE, 1),
    "a missing right is final": ([ForbiddenError(403)], PatchResult.FAILED, 1),
}


@pytest.mark.parametrize(("script", "want", "tries"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_becomes_of_a_patch(script: list[object], want: PatchResult, tries: int) -> None:
    async def check() -> None:
        api = ScriptedApi(answers(*script))
        outcome = await patch(a_dispatcher(api), a_change())
        assert (outcome.result, len(api.sent)) == (want, tries)
        assert (outcome.error is None) == (want is PatchResult.WRITTEN)

    run_in_virtual_time(check())


@in_virtual_time
async def test_tries_are_spaced_out_and_retry_after_is_honoured() -> None:
    api = ScriptedApi(answers(LOST, LOST, TooManyRequestsError(429, retry_after_s=7), {}), takes_s=0)
    await a_dispatcher(api).write("PATCH", "/x", b"{}")
    pauses = [round(after.at_s - before.at_s, 4) for before, after in zip(api.sent, api.sent[1:], strict=False)]
    assert pauses == [0.0105, 0.0525, 7.0]


@in_virtual_time
async def test_a_conflict_is_final_where_a_version_was_named() -> None:
    api = ScriptedApi(answers(ConflictError(409)))
    with pytest.raises(ConflictError):
        await a_dispatcher(api).write("PUT", "/x", b"{}")
    assert len(api.sent) == 1


DELETIONS: dict[str, tuple[list[object], bool]] = {
    "a pod that is there": ([{}], True),
    "a pod that is gone": ([NotFoundError(404)], False),
    "a name that belongs to another pod": ([ConflictError(409), {"metadata": {"uid": "u2"}}], False),
    "a name that belongs to nobody any more": ([ConflictError(409), NotFoundError(404)], False),
}


@pytest.mark.parametrize(("script", "want"), DELETIONS.values(), ids=DELETIONS.keys())
def test_deleting(script: list[object], want: bool) -> None:
    async def check() -> None:
        api = ScriptedApi(answers(*script))
        assert await a_dispatcher(api).delete_pod("ns", "web", "u1") is want
        assert (api.sent[0].method, api.sent[0].path) == ("DELETE", POD)
        assert api.sent[0].body["preconditions"] == {"uid": "u1"}

    run_in_virtual_time(check())


@in_virtual_time
async def test_a_deletion_that_is_refused_raises() -> None:
    api = ScriptedApi(answers(ForbiddenError(403)))
    with pytest.raises(ApiError):
        await a_dispatcher(api).delete_pod("ns", "web", "u1")


@in_virtual_time
async def test_a_conflict_over_a_pod_that_is_there_is_no_deletion() -> None:
    api = ScriptedApi(answers(ConflictError(409), {"metadata": {"uid": "u1"}}))
    with pytest.raises(ConflictError):
        await a_dispatcher(api).delete_pod("ns", "web", "u1")
    assert [sent.method for sent in api.sent] == ["DELETE", "GET"]


@in_virtual_time
async def test_closing_cancels_what_is_queued_and_under_way() -> None:
    api = ScriptedApi(takes_s=1000)
    it = a_dispatcher(api)
    first = patch(it, a_change("one"))
    await asyncio.sleep(1)
    second = patch(it, a_change("two"))
    await it.close()
    assert first.cancelled()
    assert second.cancelled()
    assert it._lanes == {}


@in_virtual_time
async def test_an_outcome_may_be_dropped() -> None:
    api = ScriptedApi(answers(ForbiddenError(403)))
    it = a_dispatcher(api)
    patch(it, a_change()).cancel()
    await asyncio.sleep(1)
    assert len(api.sent) == 1
    assert it._lanes == {}
