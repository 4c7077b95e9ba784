"""Created, updated, deleted: what the server keeps for itself and what it lets writers do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, node, pod

if TYPE_CHECKING:
    from berth.sandbox.serving.server import EmbeddedApiServer

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MAPS = "/api/v1/namespaces/default/configmaps"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


async def test_the_server_fills_in_its_own_metadata_and_ignores_what_it_is_sent_of_it(api: Client) -> None:
    forged = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9, "resourceVersion": "7"}
    made = await api.post(PODS, pod("web", metadata=forged))
    metadata = made["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] > "2020"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"] != "7"
    assert metadata["namespace"] == "default"


async def test_a_generated_name_is_the_base_and_five_letters(api: Client) -> None:
    body = pod("x")
    body["metadata"] = {"generateName": "job-"}
    names = {(await api.post(PODS, body))["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == len("job-") + 5 for name in names)


async def test_a_generated_name_never_gets_too_long(api: Client) -> None:
    body = pod("x")
    body["metadata"] = {"generateName": "a" * 80}
    assert len((await api.post(PODS, body))["metadata"]["name"]) == 63


async def test_a_taken_name_is_refused(api: Client) -> None:
    await api.post(NODES, node("n"))
    with pytest.raises(Refused) as refused:
        await api.post(NODES, node("n"))
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    assert refused.value.message == 'nodes "n" already exists'


async def test_a_writer_that_did_not_see_the_newest_version_conflicts(api: Client) -> None:
    made = await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    await api.put(f"{MAPS}/m", {**made, "data": {"a": "2"}})
    with pytest.raises(Refused) as refused:
        await api.put(f"{MAPS}/m", {**made, "data": {"a": "3"}})
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Operation cannot be fulfilled on configmaps "m": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_the_version_in_a_patch_is_a_condition_too(api: Client) -> None:
    made = await api.post(MAPS, {"metadata": {"name": "m"}})
    old = made["metadata"]["resourceVersion"]
    await api.patch(f"{MAPS}/m", {"data": {"a": "1"}}, "merge")
    with pytest.raises(Refused, match="the object has been modified"):
        await api.patch(f"{MAPS}/m", {"metadata": {"resourceVersion": old}, "data": {"a": "2"}}, "merge")


async def test_a_lease_is_created_by_put_and_not_updated_without_a_version(api: Client) -> None:
    made = await api.put(f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})
    renewed = await api.put(f"{LEASES}/l", {**made, "spec": {"holderIdentity": "b"}})
    assert renewed["spec"] == {"holderIdentity": "b"}
    with pytest.raises(Refused) as refused:
        await api.put(f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "c"}})
    assert refused.value.code == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in refused.value.message


async def test_an_update_without_a_change_writes_nothing(api: Client, server: EmbeddedApiServer) -> None:
    made = await api.post(PODS, pod("web"))
    version = server.registry.store.version
    again = await api.put(f"{PODS}/web", made)
    await api.patch(f"{PODS}/web", {"metadata": {"labels": None}}, "merge")
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert server.registry.store.version == version


async def test_status_and_the_rest_are_written_apart(api: Client) -> None:
    await api.post(NODES, node("n"))
    await api.patch(f"{NODES}/n", {"status": {"phase": "Terminated"}, "spec": {"unschedulable": True}})
    after_main = await api.get(f"{NODES}/n")
    assert after_main["spec"]["unschedulable"] is True
    assert "phase" not in after_main["status"]
    await api.patch(f"{NODES}/n/status", {"status": {"phase": "Running"}, "spec": {"unschedulable": False}})
    after_status = await api.get(f"{NODES}/n")
    assert after_status["spec"]["unschedulable"] is True
    assert after_status["status"]["phase"] == "Running"


async def test_generation_counts_changes_of_the_specification_only(api: Client) -> None:
    await api.post(PODS, pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    labelled = await api.patch(f"{PODS}/web", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    opened = await api.patch(f"{PODS}/web", {"spec": {"schedulingGates": []}}, "merge")
    assert opened["metadata"]["generation"] == 2
    told = await api.patch(f"{PODS}/web/status", {"status": {"message": "hello"}})
    assert told["metadata"]["generation"] == 2


async def test_an_unbound_pod_goes_at_once_marked_then_gone(api: Client) -> None:
    await api.post(PODS, pod("web"))
    watch = await api.watch(PODS, resourceVersion=(await api.get(PODS))["metadata"]["resourceVersion"])
    gone = await api.delete(f"{PODS}/web")
    assert gone["kind"] == "Pod"
    marked, deleted = await watch.next(), await watch.next()
    assert (marked["type"], deleted["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in (marked, deleted)]
    assert versions[1] == versions[0] + 1


async def test_a_bound_pod_waits_for_its_grace(api: Client) -> None:
    await api.post(PODS, pod("web", nodeName="n", terminationGracePeriodSeconds=20))
    marked = await api.delete(f"{PODS}/web")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 20
    assert marked["metadata"]["deletionTimestamp"] > marked["metadata"]["creationTimestamp"]
    again = await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 60})
    assert again["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    shorter = await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(f"{PODS}/web", {"gracePeriodSeconds": 0})
    with pytest.raises(Refused, match="not found"):
        await api.get(f"{PODS}/web")


async def test_a_finished_pod_needs_no_grace(api: Client) -> None:
    await api.post(PODS, pod("web", nodeName="n"))
    await api.patch(f"{PODS}/web/status", {"status": {"phase": "Succeeded"}})
    await api.delete(f"{PODS}/web")
    assert await api.names(PODS) == []


async def test_finalizers_hold_an_object_until_the_last_is_removed(api: Client) -> None:
    await api.post(MAPS, {"metadata": {"name": "m", "finalizers": ["example.com/a", "example.com/b"]}})
    marked = await api.delete(f"{MAPS}/m")
    assert "deletionTimestamp" in marked["metadata"]
    await api.patch(f"{MAPS}/m", {"metadata": {"finalizers": ["example.com/b"]}}, "merge")
    assert await api.names(MAPS) == ["m"]
    with pytest.raises(Refused, match="object is being deleted: configmaps"):
        await api.post(MAPS, {"metadata": {"name": "m"}})
    await api.patch(f"{MAPS}/m", {"metadata": {"finalizers": None}}, "merge")
    assert await api.names(MAPS) == []


@pytest.mark.parametrize(
    ("preconditions", "told"),
    [
        ({"uid": "other"}, "the UID in the precondition (other) does not match the UID in record"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match"),
    ],
    ids=["another object", "an older version"],
)
async def test_a_deletion_that_meant_something_else_conflicts(
    api: Client, preconditions: dict[str, str], told: str
) -> None:
    await api.post(MAPS, {"metadata": {"name": "m"}})
    with pytest.raises(Refused) as refused:
        await api.delete(f"{MAPS}/m", {"preconditions": preconditions})
    assert refused.value.reason == "Conflict"
    assert told in refused.value.message
    assert await api.names(MAPS) == ["m"]


async def test_a_deleted_object_without_finalizers_is_answered_by_a_status(api: Client) -> None:
    made = await api.post(NODES, node("n"))
    answer = await api.delete(f"{NODES}/n")
    assert answer["status"] == "Success"
    assert answer["details"] == {"name": "n", "kind": "nodes", "uid": made["metadata"]["uid"]}


async def test_a_collection_is_deleted_by_selector(api: Client) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.post(PODS, pod(name, metadata={"labels": {"app": label}}))
    answer = await api.delete(f"{PODS}?labelSelector=app=x")
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    assert await api.names(PODS) == ["b"]


async def test_dry_runs_show_and_keep_nothing(api: Client, server: EmbeddedApiServer) -> None:
    await api.post(MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})
    version = server.registry.store.version
    assert (await api.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "new"}}))["metadata"]["uid"]
    shown = await api.call("PATCH", f"{MAPS}/m?dryRun=All", {"data": {"a": "2"}}, kind="application/merge-patch+json")
    assert shown["data"] == {"a": "2"}
    await api.delete(f"{MAPS}/m?dryRun=All")
    assert await api.names(MAPS) == ["m"]
    assert server.registry.store.version == version


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (f"{MAPS}/m", {"metadata": {"name": "other"}}, "the name of the object (other) does not match the name on the"),
        (f"{MAPS}/m", {"metadata": {"namespace": "other"}}, "the namespace of the provided object does not match"),
        (
            f"{MAPS}/m",
            {"kind": "Secret", "apiVersion": "v1"},
            'Secret in version "v1" cannot be handled as a ConfigMap',
        ),
        (f"{MAPS}/m", {"kind": "ConfigMap", "apiVersion": "v2"}, 'no kind "ConfigMap" is registered for version "v2"'),
    ],
    ids=["another name", "another namespace", "another kind", "another version"],
)
async def test_a_body_that_contradicts_its_path_is_refused(
    api: Client, path: str, body: dict[str, object], told: str
) -> None:
    await api.post(MAPS, {"metadata": {"name": "m"}})
    with pytest.raises(Refused) as refused:
        await api.put(path, body)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert told in refused.value.message


async def test_resizing_changes_the_resources_of_containers_and_nothing_else(api: Client) -> None:
    await api.post(PODS, pod("web"))
    wanted = {"spec": {"containers": [{"name": "main", "image": "other", "resources": {"requests": {"cpu": "2000m"}}}]}}
    resized = await api.patch(f"{PODS}/web/resize", wanted)
    (container,) = resized["spec"]["containers"]
    assert container["resources"] == {"requests": {"cpu": "2"}}
    assert container["image"] == "registry.example/pause:1"
    assert resized["metadata"]["generation"] == 2
