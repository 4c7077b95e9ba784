"""List, watch, resume and relist, against scripted answers over real HTTP."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.kube.builders import SkippedTime, Story, Thing, a_bookmark, a_line, a_list, a_thing, until
from tests.kube.fake_server import Answer, FakeServer, keeper_for, status_answer, status_body

from berth.kube.errors import GoneError, KubeError
from berth.kube.reflector import LineSplitter, Reflector, Resource
from berth.kube.session import ApiSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PATH = "/apis/test/v1/things"
STAY = Answer(chunks=[], stay=True)


class Scene:
    """A reflector at work on a fake server."""

    def __init__(self, server: FakeServer, reflector: Reflector[Thing], story: Story, time: SkippedTime) -> None:
        self.server = server
        self.reflector = reflector
        self.told = story.told
        self.time = time
        self.malformed: list[bytes] = []
        self.problems: list[tuple[str, KubeError]] = []

    def watches(self) -> list[str]:
        """The resourceVersion that each watch started from."""
        return [
            seen.query["resourceVersion"] for seen in self.server.asked("GET", PATH) if seen.query.get("watch") == "1"
        ]

    def lists(self) -> int:
        return sum("watch" not in seen.query for seen in self.server.asked("GET", PATH))

    def names(self) -> dict[str, str]:
        return {key[1]: thing.metadata.resource_version for key, thing in self.reflector.store.items()}


@asynccontextmanager
async def scene(*answers: Answer, page_limit: int = 500, **options: Any) -> AsyncIterator[Scene]:
    """Run a reflector against these answers, in this order."""
    server, story, time = FakeServer(), Story(), SkippedTime()
    server.on("GET", PATH, *answers)
    async with server.running(), ApiSession(keeper_for(server.url)) as session:
        resource = Resource(path=PATH, kind=Thing, **options)
        reflector = Reflector(session, resource, [story], clock=time.clock, page_limit=page_limit)
        it = Scene(server, reflector, story, time)
        reflector._on_malformed = lambda raw, _: it.malformed.append(raw)
        reflector._on_problem = lambda what, error: it.problems.append((what, error))
        task = asyncio.create_task(reflector.run())
        try:
            yield it
            assert not task.done(), "a reflector never gives up"
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_first_list_is_delivered_as_initial_adds_and_then_it_has_synced() -> None:
    async with scene(Answer(body=a_list(a_thing("a"), a_thing("b"), version=7)), STAY) as it:
        assert not it.reflector.has_synced
        await it.reflector.wait_synced()
        assert it.told == [("add", "a", "1", True), ("add", "b", "1", True)]
        await until(lambda: it.watches() == ["7"])


async def test_pages_are_read_to_the_end_before_it_has_synced() -> None:
    pages = Answer(body=a_list(a_thing("a"), version=7, next_page="t+1")), Answer(body=a_list(a_thing("b"), version=7))
    async with scene(*pages, STAY, page_limit=1) as it:
        await it.reflector.wait_synced()
        first, second = it.server.asked("GET", PATH)[:2]
        assert (first.query, second.query) == ({"limit": "1"}, {"limit": "1", "continue": "t+1"})
        assert set(it.names()) == {"a", "b"}


async def test_selectors_go_with_lists_and_watches() -> None:
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    async with scene(Answer(body=a_list()), STAY, field_selector=selector) as it:
        await until(lambda: len(it.server.seen) == 2)
        assert [seen.query["fieldSelector"] for seen in it.server.seen] == [selector, selector]
        assert it.server.seen[1].query["allowWatchBookmarks"] == "true"


async def test_watch_events_become_adds_updates_and_deletes() -> None:
    lines = [
        a_line("ADDED", a_thing("b", version=2)),
        a_line("MODIFIED", a_thing("a", version=3)),
        a_line("DELETED", a_thing("b", version=4)),
    ]
    async with scene(Answer(body=a_list(a_thing("a"))), Answer(chunks=lines, stay=True)) as it:
        await until(lambda: len(it.told) == 4)
        assert it.told[1:] == [("add", "b", "2", False), ("update", "a", "1", "3"), ("delete", "b", "4", False)]
        assert it.names() == {"a": "3"}


async def test_objects_are_transformed_before_anybody_sees_them() -> None:
    def double(thing: Thing) -> Thing:
        return msgspec.structs.replace(thing, size=thing.size * 2)

    line = a_line("ADDED", a_thing("b", version=2, size=5))
    listed = Answer(body=a_list(a_thing("a", size=1)))
    async with scene(listed, Answer(chunks=[line], stay=True), transform=double) as it:
        await until(lambda: len(it.told) == 2)
        assert sorted(thing.size for thing in it.reflector.store.values()) == [2, 10]


async def test_a_cut_watch_resumes_from_the_last_event_without_a_list() -> None:
    line = a_line("ADDED", a_thing("a", version=5))
    async with scene(Answer(body=a_list()), Answer(chunks=[line], cut=True), STAY) as it:
        await until(lambda: it.watches() == ["1", "5"])
        assert it.lists() == 1


async def test_a_line_cut_in_the_middle_is_asked_for_again() -> None:
    line = a_line("ADDED", a_thing("a", version=5))
    async with scene(
        Answer(body=a_list()),
        Answer(chunks=[line[:20]], cut=True),
        Answer(chunks=[line[:9], line[9:30], line[30:]], stay=True),
    ) as it:
        await until(lambda: it.names() == {"a": "5"})
        assert it.watches() == ["1", "1"]
        assert it.malformed == []


async def test_bookmarks_move_the_place_to_resume_from() -> None:
    async with scene(Answer(body=a_list()), Answer(chunks=[a_bookmark(40)], cut=True), STAY) as it:
        await until(lambda: it.watches() == ["1", "40"])
        assert it.told == []


async def test_a_bookmark_from_before_our_position_means_a_new_list() -> None:
    async with scene(
        Answer(body=a_list(version=50)),
        Answer(chunks=[a_bookmark(40)], stay=True),
        Answer(body=a_list(version=40)),
        STAY,
    ) as it:
        await until(lambda: it.watches() == ["50", "40"])
        assert it.lists() == 2


GONE = {
    "as the answer to the watch": status_answer(410, "Expired"),
    "as an ERROR event": Answer(chunks=[a_line("ERROR", status_body(410, "Expired"))], stay=True),
    "as an ERROR event with only a reason": Answer(chunks=[a_line("ERROR", status_body(0, "Expired"))], stay=True),
}


@pytest.mark.parametrize("gone", GONE.values(), ids=GONE.keys())
async def test_after_410_only_the_difference_is_delivered(gone: Answer) -> None:
    before = a_list(a_thing("same"), a_thing("new-version"), a_thing("gone"), a_thing("recreated"))
    after = a_list(
        a_thing("same"),
        a_thing("new-version", version=8),
        a_thing("recreated", version=9, uid="another"),
        a_thing("new", version=7),
        version=10,
    )
    async with scene(Answer(body=before), gone, Answer(body=after), STAY) as it:
        await until(lambda: it.watches()[-1:] == ["10"])
        assert it.told[4:] == [
            ("update", "new-version", "1", "8"),
            ("delete", "recreated", "1", True),
            ("add", "recreated", "9", False),
            ("add", "new", "7", False),
            ("delete", "gone", "1", True),
        ]
        assert isinstance(it.problems[0][1], GoneError)


async def test_pages_that_expire_are_read_again_in_one_piece() -> None:
    async with scene(
        Answer(body=a_list(a_thing("a"), a_thing("left"), next_page="t")),
        status_answer(410, "Expired"),
        Answer(body=a_list(a_thing("a"), a_thing("b"), version=9)),
        STAY,
        page_limit=1,
    ) as it:
        await it.reflector.wait_synced()
        assert it.server.asked("GET", PATH)[2].query == {}
        assert it.names() == {"a": "1", "b": "1"}
        assert ("delete", "left", "1", True) in it.told


async def test_a_malformed_event_is_reported_and_the_stream_goes_on() -> None:
    lines = [
        b"{no json\n",
        a_line("MODIFIED", a_thing("a", version=2, size="large")),
        a_line("ADDED", a_thing("b", version=3)),
        a_line("SPOKEN", a_thing("b", version=4)),
    ]
    async with scene(Answer(body=a_list(a_thing("a"))), Answer(chunks=lines, cut=True), STAY) as it:
        await until(lambda: it.watches() == ["1", "4"])
        assert len(it.malformed) == 3
        assert it.names() == {"a": "1", "b": "3"}


async def test_a_deletion_whose_object_is_malformed_still_deletes() -> None:
    line = a_line("DELETED", a_thing("a", version=2, size="large"))
    async with scene(Answer(body=a_list(a_thing("a"))), Answer(chunks=[line], stay=True)) as it:
        await until(lambda: it.told[-1:] == [("delete", "a", "1", True)])
        assert it.names() == {}


async def test_a_malformed_object_in_a_list_is_left_out_or_keeps_its_last_state() -> None:
    after = a_list(a_thing("known", version=5, size="large"), a_thing("b", version=6), a_thing("c", size={}), version=9)
    async with scene(
        Answer(body=a_list(a_thing("known"))), status_answer(410, "Expired"), Answer(body=after), STAY
    ) as it:
        await until(lambda: it.watches()[-1:] == ["9"])
        assert it.names() == {"known": "1", "b": "6"}
        assert len(it.malformed) == 2


async def test_a_replayed_event_is_no_update() -> None:
    lines = [a_line("ADDED", a_thing("a")), a_line("MODIFIED", a_thing("a", version=1)), a_bookmark(3)]
    async with scene(Answer(body=a_list(a_thing("a"))), Answer(chunks=lines, cut=True), STAY) as it:
        await until(lambda: it.watches() == ["1", "3"])
        assert it.told == [("add", "a", "1", True)]


async def test_a_late_deletion_of_an_earlier_object_of_the_same_name_is_ignored() -> None:
    lines = [a_line("DELETED", a_thing("a", version=2, uid="earlier")), a_bookmark(3)]
    async with scene(Answer(body=a_list(a_thing("a"))), Answer(chunks=lines, cut=True), STAY) as it:
        await until(lambda: it.watches() == ["1", "3"])
        assert it.names() == {"a": "1"}


async def test_a_server_that_starts_slowly_is_asked_until_it_lists() -> None:
    async with scene(
        status_answer(503, "ServiceUnavailable"),
        Answer(drop=True),
        Answer(drop=True),  # a GET on a dropped connection is repeated once by the HTTP library
        Answer(body="<html>"),
        Answer(body=a_list()),
        STAY,
    ) as it:
        await it.reflector.wait_synced()
        assert it.time.slept_s[0] < it.time.slept_s[1] < it.time.slept_s[2]
        assert len(it.problems) == 3


async def test_retry_after_is_honoured() -> None:
    async with scene(status_answer(429, "TooManyRequests", Retry_After="17"), Answer(body=a_list()), STAY) as it:
        await it.reflector.wait_synced()
        assert it.time.slept_s == [17.0]


async def test_a_server_that_ends_every_watch_at_once_is_not_hammered() -> None:
    ended = Answer(chunks=[])
    async with scene(Answer(body=a_list()), *[ended] * 6, STAY) as it:
        await until(lambda: len(it.watches()) == 7)
        assert it.time.slept_s == [0.4, 0.8, 1.6, 3.2, 6.4, 10.0]


async def test_lists_that_work_do_not_end_the_backoff_while_every_watch_is_refused() -> None:
    gone = status_answer(410, "Expired")
    listed = Answer(body=a_list())
    async with scene(listed, gone, listed, gone, listed, gone, listed, STAY) as it:
        await until(lambda: len(it.watches()) == 4)
        assert it.time.slept_s == [0.4, 0.8, 1.6]


async def test_a_server_that_forgot_while_it_was_away_is_listed_soon_after_it_is_back() -> None:
    gone, away = status_answer(410, "Expired"), status_answer(503, "ServiceUnavailable")
    listed = Answer(body=a_list())
    async with scene(listed, away, away, away, gone, listed, gone, listed, STAY) as it:
        await until(lambda: len(it.watches()) == 6)
        assert it.time.slept_s == [0.4, 0.8, 1.6, 0.4, 0.8]


REFUSALS = {
    "a server error keeps the position": (status_answer(500, "InternalError"), 1),
    "a missing right keeps the position": (status_answer(403, "Forbidden"), 1),
    "a resourceVersion that makes no sense does not": (status_answer(400, "BadRequest"), 2),
}


@pytest.mark.parametrize(("refusal", "want_lists"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_what_a_refused_watch_does_to_the_position(refusal: Answer, want_lists: int) -> None:
    listed = Answer(body=a_list())
    rest = [STAY] if want_lists == 1 else [listed, STAY]
    async with scene(listed, refusal, *rest) as it:
        await until(lambda: len(it.watches()) == 2)
        assert it.lists() == want_lists


async def test_a_line_longer_than_any_buffer_arrives_whole() -> None:
    thing = a_thing("a", version=2)
    thing["padding"] = "x" * 5_000_000
    async with scene(Answer(body=a_list()), Answer(chunks=[a_line("ADDED", thing)], stay=True)) as it:
        await until(lambda: it.names() == {"a": "2"})


async def test_an_exception_from_a_handler_ends_the_run() -> None:
    class Broken(Story):
        def on_add(self, obj: Thing, is_initial: bool) -> None:
            raise RuntimeError(f"no room for {obj.metadata.name} {is_initial}")

    server = FakeServer()
    server.on("GET", PATH, Answer(body=a_list(a_thing("a"))))
    async with server.running(), ApiSession(keeper_for(server.url)) as session:
        reflector = Reflector(session, Resource(path=PATH, kind=Thing), [Broken()])
        with pytest.raises(RuntimeError, match="no room for a True"):
            await reflector.run()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_survive_any_chunking(size: int) -> None:
    text = b"one\n\ntwo and a half\nthree\nunfinished"
    splitter = LineSplitter()
    lines = [line for at in range(0, len(text), size) for line in splitter.feed(text[at : at + size])]
    assert lines == [b"one", b"two and a half", b"three"]
