"""Watch streams: where they begin, what they show, how they end."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, eventually, node, pod

from berth.sandbox.serving.server import EmbeddedApiServer, ServerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ALL_PODS = "/api/v1/pods"
WATCH_LIST = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}


@pytest.fixture
async def hasty() -> AsyncIterator[EmbeddedApiServer]:
    """A server that sends bookmarks all the time."""
    embedded = EmbeddedApiServer(ServerOptions(bookmark_every_s=0.001))
    await embedded.start()
    yield embedded
    await embedded.stop()


async def version_of(api: Client, path: str) -> str:
    version: str = (await api.get(path))["metadata"]["resourceVersion"]
    return version


@pytest.mark.parametrize("query", [{}, {"resourceVersion": "0"}], ids=["no version", "version 0"])
async def test_without_a_version_the_current_objects_come_first(api: Client, query: dict[str, str]) -> None:
    await api.post(NODES, node("a"))
    watch = await api.watch(NODES, **query)
    await api.post(NODES, node("b"))
    assert await watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]


async def test_from_a_version_only_what_came_after_it_is_shown(api: Client) -> None:
    await api.post(NODES, node("a"))
    seen = await version_of(api, NODES)
    await api.post(NODES, node("b"))
    await api.patch(f"{NODES}/a", {"metadata": {"labels": {"x": "y"}}})
    await api.delete(f"{NODES}/b")
    watch = await api.watch(NODES, resourceVersion=seen)
    assert await watch.take(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_events_carry_the_whole_object_with_its_type(api: Client) -> None:
    made = await api.post(NODES, node("a"))
    watch = await api.watch(NODES)
    assert await watch.next() == {"type": "ADDED", "object": made}


async def test_a_deleted_object_is_shown_under_the_version_of_its_deletion(api: Client) -> None:
    made = await api.post(NODES, node("a"))
    watch = await api.watch(NODES, resourceVersion=made["metadata"]["resourceVersion"])
    await api.delete(f"{NODES}/a")
    deleted = (await watch.next())["object"]["metadata"]
    assert int(deleted["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    assert deleted["uid"] == made["metadata"]["uid"]


async def test_a_watch_of_one_namespace_does_not_see_the_others(api: Client) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
    watch = await api.watch(PODS)
    await api.post("/api/v1/namespaces/other/pods", pod("far"))
    await api.post(PODS, pod("near"))
    assert await watch.take(1) == [("ADDED", "near")]


async def test_an_object_that_begins_or_stops_to_match_is_added_or_deleted(api: Client) -> None:
    await api.post(PODS, pod("web", nodeName="n"))
    seen = await version_of(api, PODS)
    watch = await api.watch(
        ALL_PODS, fieldSelector="status.phase!=Succeeded,status.phase!=Failed", resourceVersion=seen
    )
    labels = await api.watch(ALL_PODS, labelSelector="tier=front", resourceVersion=seen)
    await api.patch(f"{PODS}/web", {"metadata": {"labels": {"tier": "front"}}})
    done = await api.patch(f"{PODS}/web/status", {"status": {"phase": "Succeeded"}})
    await api.patch(f"{PODS}/web", {"metadata": {"labels": {"tier": "back"}}})
    assert [kind for kind, _ in await watch.take(1)] == ["MODIFIED"]
    left = await watch.next()
    assert left["type"] == "DELETED"
    assert left["object"]["status"]["phase"] == "Pending", "the state that still matched"
    assert left["object"]["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]
    assert [kind for kind, _ in await labels.take(3)] == ["ADDED", "MODIFIED", "DELETED"]


async def test_a_list_by_watch_ends_its_first_part_with_a_bookmark(api: Client) -> None:
    await api.post(NODES, node("a"))
    watch = await api.watch(NODES, **WATCH_LIST)
    assert await watch.take(1) == [("ADDED", "a")]
    bookmark = await watch.next()
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["kind"] == "Node"
    assert bookmark["object"]["metadata"] == {
        "resourceVersion": await version_of(api, NODES),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
    await api.post(NODES, node("b"))
    assert await watch.take(1) == [("ADDED", "b")]


async def test_a_list_by_watch_has_to_say_which_version_will_do(api: Client) -> None:
    with pytest.raises(Refused) as refused:
        await api.get(f"{NODES}?watch=true&sendInitialEvents=true")
    assert refused.value.code == 422
    assert "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan" in refused.value.message


async def test_bookmarks_tell_versions_without_changes(hasty: EmbeddedApiServer) -> None:
    async with Client(hasty.url) as api:
        watch = await api.watch(NODES, allowWatchBookmarks="true", resourceVersion=await version_of(api, NODES))
        made = await api.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
        event = await watch.next()
        while event["object"]["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]:
            event = await watch.next()
        assert event["type"] == "BOOKMARK"


async def test_a_version_that_is_no_longer_kept_is_answered_by_an_error_event(
    api: Client, server: EmbeddedApiServer
) -> None:
    made = await api.post(NODES, node("a"))
    seen = int(made["metadata"]["resourceVersion"]) - 1
    await api.post(NODES, node("b"))
    server.registry.store.compact()
    watch = await api.watch(NODES, resourceVersion=str(seen))
    event = await watch.next()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"] == f"too old resource version: {seen} ({seen + 2})"
    assert await watch.ended()


async def test_a_reader_that_falls_behind_loses_its_stream() -> None:
    embedded = EmbeddedApiServer(ServerOptions(history=50))
    await embedded.start()
    async with Client(embedded.url) as api:
        watch = await api.watch(NODES)
        # Far more than sockets hold, so that the server waits for the reader in the middle.
        labels = {f"label-{i}": "x" * 60 for i in range(200)}
        await api.post(NODES, node("a", labels=labels))
        nodes = embedded.registry.table.served("", "v1", "nodes")
        kept = embedded.registry.get(nodes, ("", "a")).obj
        for _ in range(60):
            for _ in range(60):
                embedded.registry.replace(nodes, ("", "a"), kept)
            await asyncio.sleep(0)
        count = 0
        async with asyncio.timeout(5):
            while await watch._response.content.readline():
                count += 1
        assert 0 < count < 3600
    await embedded.stop()


async def test_a_stream_ends_when_its_time_is_up(api: Client) -> None:
    watch = await api.watch(NODES, timeoutSeconds="1")
    assert await watch.ended()


async def test_dropped_watches_end_and_can_resume(api: Client, server: EmbeddedApiServer) -> None:
    watch = await api.watch(NODES)
    await api.post(NODES, node("a"))
    first = await watch.next()
    server.drop_watches()
    assert await watch.ended()
    await api.post(NODES, node("b"))
    again = await api.watch(NODES, resourceVersion=first["object"]["metadata"]["resourceVersion"])
    assert await again.take(1) == [("ADDED", "b")]


async def test_a_reader_that_goes_away_is_forgotten(api: Client, server: EmbeddedApiServer) -> None:
    watch = await api.watch(NODES)
    await api.post(NODES, node("a"))
    await watch.next()
    assert len(server._watchers) == 1
    watch.close()
    await eventually(lambda: not server._watchers)


async def test_many_watchers_see_the_same_order(api: Client) -> None:
    watches = [await api.watch(ALL_PODS) for _ in range(5)]
    for index in range(20):
        await api.post(PODS, pod(f"p-{index:02d}"))
    seen = [await watch.take(20) for watch in watches]
    assert seen == [[("ADDED", f"p-{index:02d}") for index in range(20)]] * 5


async def test_a_table_watch_tells_its_columns_once(api: Client) -> None:
    await api.post(NODES, node("a"))
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    async with api.session.get(f"{api.url}{NODES}?watch=1", headers=accept) as response:
        first = json.loads(await response.content.readline())
        await api.post(NODES, node("b"))
        second = json.loads(await response.content.readline())
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Status", "Roles"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"


async def test_a_metadata_watch_shows_only_metadata(api: Client) -> None:
    await api.post(NODES, node("a"))
    accept = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"}
    async with api.session.get(f"{api.url}{NODES}?watch=1", headers=accept) as response:
        event = json.loads(await response.content.readline())
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert set(event["object"]) == {"kind", "apiVersion", "metadata"}


async def test_a_stream_is_chunked_json_without_an_end_in_sight(api: Client) -> None:
    timeout = aiohttp.ClientTimeout(total=5)
    async with api.session.get(f"{api.url}{NODES}?watch=1", timeout=timeout) as response:
        assert response.headers["Content-Type"] == "application/json"
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert "Content-Length" not in response.headers
