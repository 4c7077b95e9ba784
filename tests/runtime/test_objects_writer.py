"""Writing volumes and claims, and waiting in between, over an API in memory and in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.kube.scripted_api import ScriptedApi, answers
from tests.kube.virtual_time import in_virtual_time, loop_clock
from tests.storage import a_claim, a_volume

from berth.framework.handle import WriteError
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ConflictError, ServerError, TransportError
from berth.runtime.objects_writer import ApiObjectWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

CONFLICT = ConflictError(409, "Conflict", "the object has been modified")


class Rest:
    """How many wait at the moment, and how often somebody has begun to."""

    def __init__(self) -> None:
        self.now = self.times = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.now, self.times = self.now + 1, self.times + 1
        try:
            yield
        finally:
            self.now -= 1


def a_writer(api: ScriptedApi, *, leads: bool = True, rest: Rest | None = None) -> ApiObjectWriter:
    clock = loop_clock()
    return ApiObjectWriter(Dispatcher(api, qps=-1, burst=0, clock=clock), clock, lambda: leads, rest or Rest())


def annotated(obj: Any, **annotations: str) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=annotations))


def manifest(obj: Any) -> Any:
    """As the API server answers, with fields that nobody here knows."""
    return {**msgspec.to_builtins(obj), "unheardOf": {"a": 1}}


@in_virtual_time
async def test_only_what_differs_of_a_volume_is_written_and_only_to_the_version_that_is_known() -> None:
    before = annotated(a_volume("pv", version="7"), a="1")
    after = annotated(a_volume("pv", version="7", claimed_by=a_claim()), a="1", b="2")
    api = ScriptedApi(answers(manifest(a_volume("pv", version="8"))))
    new = await a_writer(api).update_persistent_volume(before, after)
    assert new == a_volume("pv", version="8")
    [sent] = api.sent
    assert (sent.method, sent.path) == ("PATCH", "/api/v1/persistentvolumes/pv")
    assert sent.content_type == "application/merge-patch+json"
    reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": "default", "name": "data"}
    assert sent.body == {
        "metadata": {"uid": "uid-of-volume-pv", "resourceVersion": "7", "annotations": {"b": "2"}},
        "spec": {"claimRef": {**reference, "uid": "uid-of-claim-default-data"}},
    }


@in_virtual_time
async def test_of_a_claim_the_annotations_are_written() -> None:
    before = annotated(a_claim(version="7"), gone="1", kept="2")
    after = annotated(a_claim(version="7"), kept="2", new="3")
    api = ScriptedApi(answers(manifest(a_claim(version="8"))))
    assert await a_writer(api).update_persistent_volume_claim(before, after) == a_claim(version="8")
    [sent] = api.sent
    assert sent.path == "/api/v1/namespaces/default/persistentvolumeclaims/data"
    assert sent.body == {
        "metadata": {
            "uid": "uid-of-claim-default-data",
            "resourceVersion": "7",
            "annotations": {"gone": None, "new": "3"},
        }
    }


@in_virtual_time
async def test_a_change_is_not_written_over_that_of_somebody_else() -> None:
    api = ScriptedApi(answers(CONFLICT))
    with pytest.raises(WriteError, match="the object has been modified"):
        await a_writer(api).update_persistent_volume(a_volume(), a_volume(claimed_by=a_claim()))
    assert len(api.sent) == 1


@in_virtual_time
async def test_a_server_that_stumbles_is_asked_again() -> None:
    api = ScriptedApi(answers(ServerError(500, "", "stumbled"), manifest(a_volume(version="2"))))
    assert await a_writer(api).update_persistent_volume(a_volume(), a_volume()) == a_volume(version="2")


@in_virtual_time
async def test_a_server_that_cannot_be_reached_is_a_write_that_was_not_taken() -> None:
    api = ScriptedApi(lambda _: TransportError("no route", may_be_applied=False))
    with pytest.raises(WriteError, match="no route"):
        await a_writer(api).update_persistent_volume(a_volume(), a_volume())


@in_virtual_time
async def test_who_does_not_lead_any_more_writes_nothing() -> None:
    api = ScriptedApi()
    with pytest.raises(WriteError, match="no longer the leader"):
        await a_writer(api, leads=False).update_persistent_volume_claim(a_claim(), a_claim())
    assert api.sent == []


@in_virtual_time
async def test_a_turn_ends_when_it_is_woken_or_after_its_time() -> None:
    loop = asyncio.get_running_loop()
    wait = a_writer(ScriptedApi()).wait(10)
    start_s = loop.time()
    assert await wait.turn(1)
    assert loop.time() - start_s == 1
    loop.call_later(0.25, wait.wake)
    assert await wait.turn(1)
    assert loop.time() - start_s == 1.25


@in_virtual_time
async def test_who_was_woken_before_the_turn_does_not_wait() -> None:
    loop = asyncio.get_running_loop()
    wait = a_writer(ScriptedApi()).wait(10)
    wait.wake()
    start_s = loop.time()
    assert await wait.turn(1)
    assert loop.time() == start_s
    assert await wait.turn(1)
    assert loop.time() - start_s == 1


@in_virtual_time
async def test_all_turns_together_take_no_longer_than_allowed() -> None:
    loop = asyncio.get_running_loop()
    wait = a_writer(ScriptedApi()).wait(2.5)
    start_s = loop.time()
    assert [await wait.turn(1) for _ in range(3)] == [True, True, False]
    assert loop.time() - start_s == 2.5
    assert not await wait.turn(1)
    assert loop.time() - start_s == 2.5


@in_virtual_time
async def test_without_any_time_there_is_no_turn() -> None:
    wait = a_writer(ScriptedApi()).wait(0)
    wait.wake()
    assert not await wait.turn(1)


@in_virtual_time
async def test_others_may_start_while_somebody_waits() -> None:
    rest = Rest()
    wait = a_writer(ScriptedApi(), rest=rest).wait(10)
    turn = asyncio.ensure_future(wait.turn(5))
    await asyncio.sleep(1)
    assert (rest.now, rest.times) == (1, 1)
    wait.wake()
    await turn
    assert (rest.now, rest.times) == (0, 1)
    turn = asyncio.ensure_future(wait.turn(5))
    await asyncio.sleep(1)
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    assert (rest.now, rest.times) == (0, 2)
