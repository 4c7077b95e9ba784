"""Lists: selectors, pages, versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, node, pod

if TYPE_CHECKING:
    from berth.sandbox.serving.server import EmbeddedApiServer

MAPS = "/api/v1/namespaces/default/configmaps"

LABEL_CASES = {
    "equal": ("app=web", ["a", "b"]),
    "equal, written twice": ("app==web", ["a", "b"]),
    "not equal holds without the label too": ("tier!=front", ["b", "c"]),
    "two terms": ("app=web,tier=front", ["a"]),
    "in": ("app in (web, db)", ["a", "b"]),
    "not in holds without the label too": ("app notin (web)", ["c"]),
    "there": ("tier", ["a"]),
    "not there": ("!tier", ["b", "c"]),
    "greater": ("size>5", ["b"]),
    "less": ("size < 5", ["a"]),
    "nothing asked": ("", ["a", "b", "c"]),
}

FIELD_CASES = {
    "by name": ("metadata.name=a", ["a"]),
    "by name, written twice": ("metadata.name==a", ["a"]),
    "by namespace": ("metadata.namespace=default", ["a", "b", "c"]),
    "not bound": ("spec.nodeName=", ["a", "c"]),
    "bound": ("spec.nodeName!=", ["b"]),
    "by scheduler": ("spec.schedulerName=mine", ["c"]),
    "what a scheduler asks for": ("status.phase!=Succeeded,status.phase!=Failed", ["a", "b", "c"]),
    "by a boolean": ("spec.hostNetwork=false", ["a", "b", "c"]),
}


async def some_pods(api: Client) -> None:
    await api.post(PODS, pod("a", metadata={"labels": {"app": "web", "tier": "front", "size": "1"}}))
    await api.post(PODS, pod("b", metadata={"labels": {"app": "web", "size": "10"}}, nodeName="n"))
    await api.post(PODS, pod("c", schedulerName="mine"))


@pytest.mark.parametrize(("selector", "names"), LABEL_CASES.values(), ids=LABEL_CASES)
async def test_labels_select(api: Client, selector: str, names: list[str]) -> None:
    await some_pods(api)
    assert await api.names(f"{PODS}?labelSelector={quote(selector)}") == names


@pytest.mark.parametrize(("selector", "names"), FIELD_CASES.values(), ids=FIELD_CASES)
async def test_fields_select(api: Client, selector: str, names: list[str]) -> None:
    await some_pods(api)
    assert await api.names(f"{PODS}?fieldSelector={quote(selector)}") == names


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("labelSelector=app+foo+x", "unable to parse requirement: found 'foo'"),
        ("labelSelector=size>x", "the value must be an integer"),
        ("fieldSelector=spec.bogus%3Dx", "field label not supported: spec.bogus"),
        ("fieldSelector=spec.nodeName", "can't understand 'spec.nodeName'"),
        ("limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("resourceVersion=x", "invalid resource version"),
        ("continue=nonsense", "continue key is not valid"),
    ],
)
async def test_a_request_that_cannot_be_read_is_refused(api: Client, query: str, told: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.get(f"{PODS}?{query}")
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert told in refused.value.message


EVENT = {
    "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default", "uid": "u-1"},
    "reason": "Scheduled",
    "type": "Normal",
    "source": {"component": "sched"},
}


@pytest.mark.parametrize(
    ("path", "selector"),
    [
        ("/api/v1/namespaces/default/events", "involvedObject.name=web,involvedObject.uid=u-1"),
        ("/api/v1/namespaces/default/events", "involvedObject.kind=Pod,reason=Scheduled,type=Normal,source=sched"),
        ("/apis/events.k8s.io/v1/namespaces/default/events", "regarding.name=web,regarding.namespace=default"),
    ],
)
async def test_events_are_found_by_what_they_are_about(api: Client, path: str, selector: str) -> None:
    await api.post("/api/v1/namespaces/default/events", {"metadata": {"name": "e1"}, **EVENT})
    other = {**EVENT, "involvedObject": {"kind": "Node", "name": "n", "namespace": "default"}, "reason": "X"}
    await api.post("/api/v1/namespaces/default/events", {"metadata": {"name": "e2"}, **other})
    assert await api.names(f"{path}?fieldSelector={quote(selector)}") == ["e1"]


async def pages_of(api: Client, path: str, limit: int) -> list[dict[str, Any]]:
    pages = [await api.get(f"{path}?limit={limit}")]
    while token := pages[-1]["metadata"].get("continue"):
        pages.append(await api.get(f"{path}?limit={limit}&continue={token}"))
    return pages


async def test_pages_together_are_the_list(api: Client) -> None:
    for index in range(7):
        await api.post(MAPS, {"metadata": {"name": f"m-{index}"}})
    pages = await pages_of(api, MAPS, 3)
    assert [len(page["items"]) for page in pages] == [3, 3, 1]
    assert [page["metadata"].get("remainingItemCount") for page in pages] == [4, 1, None]
    names = [item["metadata"]["name"] for page in pages for item in page["items"]]
    assert names == [f"m-{index}" for index in range(7)]


async def test_all_pages_belong_to_one_version(api: Client) -> None:
    for name in "abcd":
        await api.post(MAPS, {"metadata": {"name": name}})
    first = await api.get(f"{MAPS}?limit=2")
    await api.delete(f"{MAPS}/c")
    await api.post(MAPS, {"metadata": {"name": "e"}})
    second = await api.get(f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_a_list_with_a_selector_is_paged_after_selecting_and_does_not_count_the_rest(api: Client) -> None:
    for index in range(6):
        await api.post(MAPS, {"metadata": {"name": f"m-{index}", "labels": {"odd": str(index % 2)}}})
    first = await api.get(f"{MAPS}?labelSelector=odd%3D1&limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["m-1", "m-3"]
    assert "remainingItemCount" not in first["metadata"]
    token = first["metadata"]["continue"]
    assert await api.names(f"{MAPS}?labelSelector=odd%3D1&limit=2&continue={token}") == ["m-5"]


async def test_a_page_of_a_forgotten_list_has_expired(api: Client, server: EmbeddedApiServer) -> None:
    for name in "abc":
        await api.post(MAPS, {"metadata": {"name": name}})
    first = await api.get(f"{MAPS}?limit=1")
    server.compact()
    with pytest.raises(Refused) as refused:
        await api.get(f"{MAPS}?limit=1&continue={first['metadata']['continue']}")
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


async def test_a_version_that_does_not_exist_yet_is_waited_for_in_vain(api: Client) -> None:
    current = int((await api.get(NODES))["metadata"]["resourceVersion"])
    with pytest.raises(Refused) as refused:
        await api.get(f"{NODES}?resourceVersion={current + 5}")
    assert (refused.value.code, refused.value.reason) == (504, "Timeout")
    assert refused.value.message == f"Timeout: Too large resource version: {current + 5}, current: {current}"
    assert refused.value.details["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_an_exact_version_of_the_past_has_expired(api: Client) -> None:
    await api.post(NODES, node("a"))
    with pytest.raises(Refused) as refused:
        await api.get(f"{NODES}?resourceVersion=1&resourceVersionMatch=Exact")
    assert refused.value.code == 410


async def test_items_of_built_in_kinds_do_not_repeat_their_type(api: Client) -> None:
    await api.post(NODES, node("a"))
    listed = await api.get(NODES)
    assert (listed["kind"], listed["apiVersion"]) == ("NodeList", "v1")
    assert "kind" not in listed["items"][0]


async def test_an_empty_list_has_a_version_and_no_items(api: Client) -> None:
    listed = await api.get("/api/v1/persistentvolumes")
    assert listed["items"] == []
    assert int(listed["metadata"]["resourceVersion"]) > 0
