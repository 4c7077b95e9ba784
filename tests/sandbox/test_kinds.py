"""Kinds that come and go: custom resources, and namespaces with all that is in them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.client import Client, Refused, pod

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/gang.example.com/v1/namespaces/default/groups"
NAMESPACES = "/api/v1/namespaces"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def definition(**changes: Any) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": "Members", "type": "integer", "jsonPath": ".spec.minMember"},
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Seen", "type": "date", "jsonPath": ".metadata.creationTimestamp", "priority": 1},
        ],
        **changes,
    }
    names = {"kind": "Group", "plural": "groups", "singular": "group", "listKind": "GroupList", "shortNames": ["gr"]}
    spec = {"group": "gang.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "groups.gang.example.com"}, "spec": spec}


async def test_a_defined_kind_is_served_at_once_and_reported_as_established(api: Client) -> None:
    await api.post(DEFINITIONS, definition())
    status = (await api.get(f"{DEFINITIONS}/groups.gang.example.com"))["status"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert status["storedVersions"] == ["v1"]
    made = await api.post(GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 3, "extra": None}})
    assert (made["kind"], made["apiVersion"], made["spec"]) == ("Group", "gang.example.com/v1", {"minMember": 3})
    listed = await api.get(GROUPS)
    assert (listed["kind"], listed["items"][0]["kind"]) == ("GroupList", "Group")


async def test_a_defined_kind_is_found_by_discovery(api: Client) -> None:
    await api.post(DEFINITIONS, definition())
    groups = await api.get("/apis")
    assert "gang.example.com" in [group["name"] for group in groups["groups"]]
    (kind, status) = (await api.get("/apis/gang.example.com/v1"))["resources"]
    assert (kind["name"], kind["shortNames"], status["name"]) == ("groups", ["gr"], "groups/status")


async def test_its_status_is_apart_and_its_changes_are_counted(api: Client) -> None:
    await api.post(DEFINITIONS, definition())
    await api.post(GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 3}, "status": {"phase": "X"}})
    made = await api.get(f"{GROUPS}/g")
    assert "status" not in made
    await api.patch(f"{GROUPS}/g/status", {"status": {"phase": "Running"}, "spec": {"minMember": 9}}, "merge")
    changed = await api.patch(f"{GROUPS}/g", {"spec": {"minMember": 4}}, "merge")
    assert (changed["spec"], changed["status"]) == ({"minMember": 4}, {"phase": "Running"})
    assert changed["metadata"]["generation"] == 2


async def test_it_may_be_called_like_a_built_in_kind_and_is_none(api: Client) -> None:
    named = definition()
    named["metadata"]["name"] = "pods.gang.example.com"
    named["spec"]["names"] = {"kind": "Pod", "plural": "pods"}
    await api.post(DEFINITIONS, named)
    path = "/apis/gang.example.com/v1/namespaces/default/pods"
    made = await api.post(path, {"metadata": {"name": "p"}, "spec": {"size": 3}})
    assert made["spec"] == {"size": 3}
    await api.delete(f"{path}/p")
    assert await api.names(path) == []


async def test_it_knows_no_strategic_merge_and_no_update_without_a_version(api: Client) -> None:
    await api.post(DEFINITIONS, definition())
    await api.post(GROUPS, {"metadata": {"name": "g"}})
    with pytest.raises(Refused) as refused:
        await api.patch(f"{GROUPS}/g", {"spec": {}})
    assert refused.value.code == 415
    with pytest.raises(Refused, match="must be specified for an update"):
        await api.put(f"{GROUPS}/g", {"metadata": {"name": "g"}})


async def test_its_columns_are_those_of_its_definition(api: Client) -> None:
    await api.post(DEFINITIONS, definition())
    await api.post(GROUPS, {"metadata": {"name": "g"}, "spec": {"minMember": 3}})
    status = {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}
    await api.patch(f"{GROUPS}/g/status", {"status": status}, "merge")
    table = await api.get(GROUPS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Members", "Ready", "Seen"]
    assert table["rows"][0]["cells"][:3] == ["g", 3, "True"]


async def test_with_its_definition_the_kind_and_its_objects_go(api: Client) -> None:
    await api.post(DEFINITIONS, definition())
    await api.post(GROUPS, {"metadata": {"name": "g"}})
    await api.delete(f"{DEFINITIONS}/groups.gang.example.com")
    async with api.session.get(api.url + GROUPS) as response:
        assert (response.status, await response.text()) == (404, "404 page not found\n")
    await api.post(DEFINITIONS, definition())
    assert await api.names(GROUPS) == []


async def test_a_changed_definition_keeps_the_objects(api: Client) -> None:
    made = await api.post(DEFINITIONS, definition())
    await api.post(GROUPS, {"metadata": {"name": "g"}})
    current = await api.get(f"{DEFINITIONS}/groups.gang.example.com")
    spec = {**made["spec"], "versions": [*made["spec"]["versions"], {**made["spec"]["versions"][0], "name": "v2"}]}
    await api.put(f"{DEFINITIONS}/groups.gang.example.com", {**current, "spec": spec})
    seen = await api.get(GROUPS.replace("/v1/", "/v2/"))
    assert [item["apiVersion"] for item in seen["items"]] == ["gang.example.com/v2"]


async def test_a_new_namespace_is_active_and_labelled_with_its_name(api: Client) -> None:
    made = await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}


async def test_the_namespaces_of_the_system_are_there_and_stay(api: Client) -> None:
    assert await api.names(NAMESPACES) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    with pytest.raises(Refused, match="this namespace may not be deleted"):
        await api.delete(f"{NAMESPACES}/default")


async def test_a_deleted_namespace_takes_everything_in_it_along(api: Client) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    await api.post(f"{NAMESPACES}/team/pods", pod("web"))
    await api.post(f"{NAMESPACES}/team/configmaps", {"metadata": {"name": "m"}})
    watch = await api.watch(NAMESPACES, fieldSelector="metadata.name=team")
    answer = await api.delete(f"{NAMESPACES}/team")
    assert answer["status"]["phase"] == "Terminating"
    assert await watch.take(3) == [("ADDED", "team"), ("MODIFIED", "team"), ("DELETED", "team")]
    assert await api.names(f"{NAMESPACES}/team/configmaps") == []
    assert await api.names("/api/v1/pods") == []


async def test_a_namespace_waits_for_objects_with_finalizers_and_lets_nothing_new_in(api: Client) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "team"}})
    await api.post(f"{NAMESPACES}/team/configmaps", {"metadata": {"name": "m", "finalizers": ["example.com/hold"]}})
    await api.delete(f"{NAMESPACES}/team")
    assert (await api.get(f"{NAMESPACES}/team"))["status"]["phase"] == "Terminating"
    with pytest.raises(Refused) as refused:
        await api.post(f"{NAMESPACES}/team/pods", pod("web"))
    assert refused.value.code == 403
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"
    await api.patch(f"{NAMESPACES}/team/configmaps/m", {"metadata": {"finalizers": None}}, "merge")
    assert "team" not in await api.names(NAMESPACES)
