"""The four forms of a patch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sandbox.client import PODS, Client, Refused, pod

from berth.sandbox.kinds.fields import message
from berth.sandbox.storage import patches, strategic

POD = message("core.Pod")
DOCUMENT = {"a": {"b": [1, 2, 3]}, "c": "x", "d/e": {"f~g": 0}}

JSON_PATCHES: dict[str, tuple[list[dict[str, Any]], Any]] = {
    "add a member": ([{"op": "add", "path": "/n", "value": 1}], {**DOCUMENT, "n": 1}),
    "add into a list": ([{"op": "add", "path": "/a/b/1", "value": 9}], {**DOCUMENT, "a": {"b": [1, 9, 2, 3]}}),
    "add to the end of a list": ([{"op": "add", "path": "/a/b/-", "value": 9}], {**DOCUMENT, "a": {"b": [1, 2, 3, 9]}}),
    "replace": ([{"op": "replace", "path": "/c", "value": "y"}], {**DOCUMENT, "c": "y"}),
    "remove": ([{"op": "remove", "path": "/a/b/0"}], {**DOCUMENT, "a": {"b": [2, 3]}}),
    "move": ([{"op": "move", "from": "/c", "path": "/a/c"}], {"a": {"b": [1, 2, 3], "c": "x"}, "d/e": {"f~g": 0}}),
    "copy": ([{"op": "copy", "from": "/c", "path": "/n"}], {**DOCUMENT, "n": "x"}),
    "escaped names": ([{"op": "replace", "path": "/d~1e/f~0g", "value": 5}], {**DOCUMENT, "d/e": {"f~g": 5}}),
    "a test that holds": (
        [{"op": "test", "path": "/c", "value": "x"}, {"op": "remove", "path": "/c"}],
        {"a": {"b": [1, 2, 3]}, "d/e": {"f~g": 0}},
    ),
}
BAD_JSON_PATCHES = {
    "a test that fails": [{"op": "test", "path": "/c", "value": "z"}],
    "nothing to replace": [{"op": "replace", "path": "/n", "value": 1}],
    "nothing to remove": [{"op": "remove", "path": "/a/x"}],
    "beyond the end": [{"op": "add", "path": "/a/b/9", "value": 1}],
    "below a plain value": [{"op": "add", "path": "/c/x", "value": 1}],
    "no such operation": [{"op": "rub", "path": "/c"}],
    "no path": [{"op": "remove"}],
    "a path without its slash": [{"op": "remove", "path": "c"}],
    "the whole document": [{"op": "remove", "path": ""}],
}


@pytest.mark.parametrize(("patch", "want"), JSON_PATCHES.values(), ids=JSON_PATCHES)
def test_json_patch(patch: list[dict[str, Any]], want: Any) -> None:
    before = json.dumps(DOCUMENT)
    assert patches.json_patch(DOCUMENT, patch) == want
    assert json.dumps(DOCUMENT) == before


@pytest.mark.parametrize("patch", BAD_JSON_PATCHES.values(), ids=BAD_JSON_PATCHES)
def test_a_json_patch_that_does_not_fit_is_an_error(patch: list[dict[str, Any]]) -> None:
    with pytest.raises(patches.JsonPatchError):
        patches.json_patch(DOCUMENT, patch)


MERGES: dict[str, tuple[Any, Any, Any]] = {
    "objects merge": ({"a": {"b": 1}}, {"a": {"c": 2}}, {"a": {"b": 1, "c": 2}}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    "an object replaces a value": ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    "removing nothing is fine": ({}, {"a": None}, {}),
}


@pytest.mark.parametrize(("original", "patch", "want"), MERGES.values(), ids=MERGES)
def test_merge_patch(original: Any, patch: Any, want: Any) -> None:
    assert patches.merge_patch(original, patch) == want


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(_json, _json)
def test_a_merge_patch_applied_twice_changes_nothing_more(original: Any, patch: Any) -> None:
    once = patches.merge_patch(original, patch)
    assert patches.merge_patch(once, patch) == once


def named(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name in names]


STRATEGIC: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "containers merge by name": (
        {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}},
        {"spec": {"containers": [{"name": "b", "image": "2"}]}},
        {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]}},
    ),
    "variables merge by name, inside containers": (
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}},
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y"}]}]}},
        {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "2"}, {"name": "Y"}]}]}},
    ),
    "ports merge by number": (
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}},
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]}},
        {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "http"}]}]}},
    ),
    "conditions merge by type": (
        {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]}},
    ),
    "new items come first": (
        {"spec": {"volumes": named("a")}},
        {"spec": {"volumes": named("b")}},
        {"spec": {"volumes": named("b", "a")}},
    ),
    "the order is as the patch says, the others keep their place": (
        {"spec": {"volumes": named("a", "b", "c")}},
        {"spec": {"$setElementOrder/volumes": named("c", "d", "a"), "volumes": named("d")}},
        {"spec": {"volumes": named("b", "c", "d", "a")}},
    ),
    "only the order changes": (
        {"spec": {"volumes": named("a", "b")}},
        {"spec": {"$setElementOrder/volumes": named("b", "a")}},
        {"spec": {"volumes": named("b", "a")}},
    ),
    "an item is deleted": (
        {"spec": {"volumes": named("a", "b")}},
        {"spec": {"volumes": [{"name": "a", "$patch": "delete"}]}},
        {"spec": {"volumes": named("b")}},
    ),
    "a list is replaced on request": (
        {"spec": {"volumes": named("a", "b")}},
        {"spec": {"volumes": [{"$patch": "replace"}, {"name": "c"}]}},
        {"spec": {"volumes": named("c")}},
    ),
    "an object is replaced on request": (
        {"spec": {"nodeSelector": {"a": "1", "b": "2"}}},
        {"spec": {"nodeSelector": {"$patch": "replace", "c": "3"}}},
        {"spec": {"nodeSelector": {"c": "3"}}},
    ),
    "an object is emptied on request": (
        {"spec": {"nodeSelector": {"a": "1"}}},
        {"spec": {"nodeSelector": {"$patch": "delete"}}},
        {"spec": {"nodeSelector": {}}},
    ),
    "only some members are kept on request": (
        {"spec": {"volumes": [{"name": "a", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "a", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}},
        {"spec": {"volumes": [{"name": "a", "secret": {"secretName": "s"}}]}},
    ),
    "tolerations are one value": (
        {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "c"}]}},
        {"spec": {"tolerations": [{"key": "c"}]}},
    ),
    "finalizers are a set": (
        {"metadata": {"finalizers": ["a/a", "b/b"]}},
        {"metadata": {"finalizers": ["b/b", "c/c"]}},
        {"metadata": {"finalizers": ["a/a", "b/b", "c/c"]}},
    ),
    "finalizers are removed one by one": (
        {"metadata": {"finalizers": ["a/a", "b/b"]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/a"]}},
        {"metadata": {"finalizers": ["b/b"]}},
    ),
    "owners merge by uid": (
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}},
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}]}},
        {"metadata": {"ownerReferences": [{"uid": "1", "name": "b"}]}},
    ),
    "null removes": (
        {"status": {"nominatedNodeName": "n", "phase": "Pending"}},
        {"status": {"nominatedNodeName": None}},
        {"status": {"phase": "Pending"}},
    ),
    "labels merge": (
        {"metadata": {"labels": {"a": "1", "b": "2"}}},
        {"metadata": {"labels": {"a": None, "c": "3"}}},
        {"metadata": {"labels": {"b": "2", "c": "3"}}},
    ),
}


@pytest.mark.parametrize(("original", "patch", "want"), STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_merge(original: dict[str, Any], patch: dict[str, Any], want: dict[str, Any]) -> None:
    before = json.dumps(original)
    assert strategic.merge(original, patch, POD) == want
    assert json.dumps(original) == before


def test_service_ports_and_budget_selectors_follow_their_own_types() -> None:
    service = strategic.merge(
        {"spec": {"ports": [{"port": 80, "name": "a"}]}},
        {"spec": {"ports": [{"port": 80, "name": "b"}]}},
        message("core.Service"),
    )
    assert service == {"spec": {"ports": [{"port": 80, "name": "b"}]}}
    budget = strategic.merge(
        {"spec": {"selector": {"matchLabels": {"a": "1"}}}},
        {"spec": {"selector": {"matchLabels": {"b": "2"}}}},
        message("policy.PodDisruptionBudget"),
    )
    assert budget == {"spec": {"selector": {"matchLabels": {"b": "2"}}}}


@pytest.mark.parametrize(
    "patch",
    [{"spec": {"$patch": "rub"}}, {"spec": {"volumes": [{"emptyDir": {}}]}}],
    ids=["an unknown directive", "an item without its key"],
)
def test_a_strategic_patch_that_cannot_be_carried_out_is_an_error(patch: dict[str, Any]) -> None:
    with pytest.raises(strategic.StrategicPatchError):
        strategic.merge({"spec": {}}, patch, POD)


def test_what_a_patch_leaves_alone_is_shared() -> None:
    original: dict[str, Any] = {
        "metadata": {"name": "a"},
        "spec": {"containers": named("a"), "nodeSelector": {"x": "y"}},
    }
    merged = strategic.merge(original, {"spec": {"nodeSelector": {"z": "1"}}}, POD)
    assert merged["metadata"] is original["metadata"]
    assert merged["spec"]["containers"] is original["spec"]["containers"]


@pytest.mark.parametrize("form", ["merge", "strategic", "json"])
async def test_over_http_each_form_changes_a_pod(api: Client, form: str) -> None:
    await api.post(PODS, pod("web", metadata={"labels": {"a": "1"}}))
    body: Any = {"metadata": {"labels": {"b": "2"}}}
    if form == "json":
        body = [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]
    assert (await api.patch(f"{PODS}/web", body, form))["metadata"]["labels"] == {"a": "1", "b": "2"}


async def test_apply_creates_then_merges(api: Client) -> None:
    wanted = {"apiVersion": "v1", "kind": "Pod", **pod("web", metadata={"labels": {"a": "1"}})}
    made = await api.patch(f"{PODS}/web?fieldManager=me", wanted, "apply")
    assert made["metadata"]["name"] == "web"
    wanted["metadata"] = {"name": "web", "labels": {"b": "2"}}
    again = await api.patch(f"{PODS}/web?fieldManager=me", wanted, "apply")
    assert again["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert again["metadata"]["uid"] == made["metadata"]["uid"]


async def test_apply_reads_yaml_and_leaves_times_alone(api: Client) -> None:
    text = (
        "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: l}\n"
        "spec: {renewTime: 2026-01-01T00:00:00.000000Z, holderIdentity: me}\n"
    )
    url = f"{api.url}/apis/coordination.k8s.io/v1/namespaces/default/leases/l?fieldManager=me"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    async with api.session.patch(url, data=text, headers=headers) as response:
        assert response.status == 201
        assert (await response.json())["spec"]["renewTime"] == "2026-01-01T00:00:00.000000Z"


@pytest.mark.parametrize(
    ("body", "form", "code"),
    [
        ({"a": 1}, "application/json", 415),
        ([1], "application/merge-patch+json", 400),
        ({"a": 1}, "application/json-patch+json", 400),
        ([{"op": "remove", "path": "/nothing"}], "application/json-patch+json", 422),
        ({"metadata": {"name": "other"}}, "application/merge-patch+json", 400),
        ({"spec": {"$patch": "rub"}}, "application/strategic-merge-patch+json", 422),
    ],
    ids=["no patch", "a list to merge", "an object of operations", "no fit", "another name", "no directive"],
)
async def test_a_patch_that_makes_no_sense_is_refused(api: Client, body: Any, form: str, code: int) -> None:
    await api.post(PODS, pod("web"))
    with pytest.raises(Refused) as refused:
        await api.call("PATCH", f"{PODS}/web", body, kind=form)
    assert refused.value.code == code


async def test_a_missing_object_cannot_be_patched(api: Client) -> None:
    with pytest.raises(Refused) as refused:
        await api.patch(f"{PODS}/web", {"metadata": {"labels": {}}})
    assert refused.value.code == 404
