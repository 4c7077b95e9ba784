"""Writing claims of devices, over an API in memory and in virtual time."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.builders import a_pod
from tests.devices import a_device_claim, a_result, an_allocation
from tests.kube.scripted_api import ScriptedApi, answers
from tests.kube.virtual_time import in_virtual_time, loop_clock

from berth.api.dra import FINALIZER, ResourceClaimStatus
from berth.api.pod import ExtendedResourceRequest, PodExtendedResourceClaimStatus
from berth.framework.handle import WriteConflictError, WriteError
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ConflictError, ForbiddenError, NotFoundError, TransportError
from berth.runtime.claims_writer import ApiClaimWriter

if TYPE_CHECKING:
    from berth.api.dra import ResourceClaim

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
POD = a_pod("web")


class Recorder:
    """Keeps what users are told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def event(self, regarding: Any, *words: str, controller: str) -> None:
        self.heard.append((regarding.name, *words, controller))


def a_writer(api: ScriptedApi, *, leads: bool = True, recorder: Any = None) -> ApiClaimWriter:
    clock = loop_clock()
    told: Any = recorder or Recorder()
    return ApiClaimWriter(Dispatcher(api, qps=-1, burst=0, clock=clock), told, clock, lambda: leads, nullcontext)


def manifest(claim: ResourceClaim) -> Any:
    """As the API server answers, with fields that nobody here knows."""
    return {**msgspec.to_builtins(claim), "unheardOf": {"a": 1}}


def marked(claim: ResourceClaim, *finalizers: str) -> ResourceClaim:
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, finalizers=finalizers))


@in_virtual_time
async def test_finalizers_are_written_to_the_version_that_is_known() -> None:
    before = marked(a_device_claim(version="7"), "theirs")
    api = ScriptedApi(answers(manifest(a_device_claim(version="8"))))
    assert await a_writer(api).update_finalizers(before, marked(before, "theirs", FINALIZER)) == a_device_claim(
        version="8"
    )
    [sent] = api.sent
    assert (sent.method, sent.path, sent.content_type) == ("PATCH", f"{CLAIMS}/claim", MERGE)
    version = {"uid": "uid-of-default-claim", "resourceVersion": "7"}
    assert sent.body == {"metadata": {**version, "finalizers": ["theirs", FINALIZER]}}


@in_virtual_time
async def test_only_what_differs_of_a_status_is_written() -> None:
    before = a_device_claim(version="7", reserved_for=[a_pod("other")])
    after = a_device_claim(version="7", reserved_for=[a_pod("other")], allocation=an_allocation(a_result("gpu-0")))
    api = ScriptedApi(answers(manifest(a_device_claim(version="8"))))
    await a_writer(api).update_status(before, after)
    [sent] = api.sent
    assert (sent.path, sent.content_type) == (f"{CLAIMS}/claim/status", MERGE)
    result = {"request": "req", "driver": "gpu.example.com", "pool": "pool", "device": "gpu-0"}
    assert sent.body["status"] == {"allocation": {"devices": {"results": [result]}}}
    assert sent.body["metadata"] == {"uid": "uid-of-default-claim", "resourceVersion": "7"}


@in_virtual_time
async def test_what_a_claim_gives_up_is_written_as_nothing() -> None:
    before = a_device_claim(reserved_for=[POD], allocation=an_allocation(a_result("gpu-0")))
    api = ScriptedApi(answers(manifest(a_device_claim())))
    await a_writer(api).update_status(before, msgspec.structs.replace(before, status=ResourceClaimStatus()))
    assert api.sent[0].body["status"] == {"allocation": None, "reservedFor": None}


@in_virtual_time
async def test_a_claim_is_created_under_a_name_that_is_made_up_for_it() -> None:
    claim = a_device_claim("", uid=" ", version="", owner=POD, special=True, metadata={"generate_name": "web-"})
    claim = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, uid=""))
    api = ScriptedApi(answers(manifest(a_device_claim("web-x"))))
    assert (await a_writer(api).create(claim)).metadata.name == "web-x"
    [sent] = api.sent
    assert (sent.method, sent.path) == ("POST", CLAIMS)
    assert (sent.body["apiVersion"], sent.body["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-default-web", "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    expected = {"generateName": "web-", "namespace": "default", "annotations": annotations, "ownerReferences": [owner]}
    assert sent.body["metadata"] == expected


@in_virtual_time
async def test_a_pod_is_taken_off_the_list_whatever_the_version() -> None:
    api = ScriptedApi(answers(manifest(a_device_claim())))
    await a_writer(api).release(a_device_claim(), POD)
    [sent] = api.sent
    assert (sent.path, sent.content_type) == (f"{CLAIMS}/claim/status", STRATEGIC)
    assert sent.body == {
        "metadata": {"uid": "uid-of-default-claim"},
        "status": {"reservedFor": [{"$patch": "delete", "uid": "uid-of-default-web"}]},
    }


@in_virtual_time
async def test_a_claim_is_deleted_if_it_is_still_that_one() -> None:
    api = ScriptedApi(answers({}))
    await a_writer(api).delete(a_device_claim())
    [sent] = api.sent
    assert (sent.method, sent.path) == ("DELETE", f"{CLAIMS}/claim")
    assert sent.body["preconditions"] == {"uid": "uid-of-default-claim"}
    await a_writer(ScriptedApi(answers(NotFoundError(404, "NotFound", "gone")))).delete(a_device_claim())
    with pytest.raises(WriteError, match="not yours"):
        await a_writer(ScriptedApi(answers(ForbiddenError(403, "Forbidden", "not yours")))).delete(a_device_claim())


@in_virtual_time
async def test_the_pod_is_told_of_the_claim_behind_its_resources() -> None:
    mapping = ExtendedResourceRequest(container_name="main", resource_name="a/b", request_name="r")
    api = ScriptedApi(answers({}))
    status = PodExtendedResourceClaimStatus(request_mappings=(mapping,), resource_claim_name="web-x")
    await a_writer(api).write_special_claim(POD, status)
    [sent] = api.sent
    assert (sent.path, sent.content_type) == ("/api/v1/namespaces/default/pods/web/status", STRATEGIC)
    told = {"containerName": "main", "resourceName": "a/b", "requestName": "r"}
    assert sent.body == {
        "metadata": {"uid": "uid-of-default-web"},
        "status": {"extendedResourceClaimStatus": {"requestMappings": [told], "resourceClaimName": "web-x"}},
    }


@in_virtual_time
async def test_a_conflict_can_be_told_from_other_refusals() -> None:
    api = ScriptedApi(answers(ConflictError(409, "Conflict", "the object has been modified")))
    with pytest.raises(WriteConflictError, match="the object has been modified"):
        await a_writer(api).update_status(a_device_claim(), a_device_claim(reserved_for=[POD]))
    away = ScriptedApi(lambda _: TransportError("no route", may_be_applied=False))
    with pytest.raises(WriteError, match="no route"):
        await a_writer(away).update_status(a_device_claim(), a_device_claim(reserved_for=[POD]))


@in_virtual_time
async def test_who_does_not_lead_any_more_writes_nothing() -> None:
    api = ScriptedApi()
    with pytest.raises(WriteError, match="no longer the leader"):
        await a_writer(api, leads=False).create(a_device_claim())
    assert api.sent == []


@in_virtual_time
async def test_what_is_put_off_is_written_beside_everything_else_and_its_failure_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = ScriptedApi(answers(manifest(a_device_claim()), ForbiddenError(403, "Forbidden", "not yours")))
    writer = a_writer(api)
    with caplog.at_level(logging.WARNING):
        for name in ("one", "two"):
            writer.later(partial(writer.release, a_device_claim(name), POD))
        assert api.sent == []
        await asyncio.sleep(1)
    assert [sent.path for sent in api.sent] == [f"{CLAIMS}/{name}/status" for name in ("one", "two")]
    assert caplog.messages == ["a claim of devices was not changed: not yours"]
    await writer.close()


@in_virtual_time
async def test_what_was_put_off_ends_with_the_writer() -> None:
    api = ScriptedApi(answers(manifest(a_device_claim())))
    writer = a_writer(api)
    writer.later(partial(writer.release, a_device_claim(), POD))
    await writer.close()
    assert api.sent == []


@in_virtual_time
async def test_users_are_told_in_the_name_of_the_profile() -> None:
    recorder = Recorder()
    a_writer(ScriptedApi(), recorder=recorder).tell(POD, "Pending", "Scheduling", "wait")
    assert recorder.heard == [("web", "Normal", "Pending", "Scheduling", "wait", "default-scheduler")]
