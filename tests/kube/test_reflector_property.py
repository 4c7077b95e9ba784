"""A reflector ends up equal to the server, whatever happened on the way: any changes, cuts, errors and amnesia."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.builders import Thing, a_bookmark, a_line, a_list, a_thing
from tests.kube.fake_server import status_body
from tests.kube.virtual_time import loop_clock, run_in_virtual_time

from berth.kube.errors import GoneError, TransportError
from berth.kube.reflector import Reflector, Resource
from berth.kube.session import JSON

CUT = object()


class ModelServer:
    """A collection with a history that can be forgotten, and streams that can be tampered with."""

    def __init__(self) -> None:
        self.version = 1
        self.things: dict[str, dict[str, Any]] = {}
        self.history: list[tuple[int, bytes]] = []
        self.forgotten = 0  # versions up to this one cannot be watched from any more
        self.down = False
        self.piece = 1_000_000  # bytes sent in one go
        self._streams: list[asyncio.Queue[Any]] = []
        self._uids = 0

    # -- what happens in the cluster

    def put(self, name: str, *, size: Any = 0) -> None:
        self.version += 1
        old = self.things.get(name)
        uid = old["metadata"]["uid"] if old else self._new_uid()
        self.things[name] = a_thing(name, version=self.version, uid=uid, size=size)
        self._tell("MODIFIED" if old else "ADDED", self.things[name])

    def delete(self, name: str) -> None:
        old = self.things.pop(name, None)
        if old is not None:
            self.version += 1
            old["metadata"]["resourceVersion"] = str(self.version)
            self._tell("DELETED", old)

    def _new_uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _tell(self, event: str, thing: dict[str, Any]) -> None:
        line = a_line(event, thing)
        self.history.append((self.version, line))
        for at in range(0, len(line), self.piece):
            self.send(line[at : at + self.piece])

    def forget(self) -> None:
        self.forgotten = self.version
        self.history.clear()

    # -- what happens to the streams

    def send(self, chunk: Any) -> None:
        for stream in self._streams:
            stream.put_nowait(chunk)

    def replay_last(self) -> None:
        if self.history:
            self.send(self.history[-1][1])

    # -- the API

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = "",
        timeout_s: float | None = None,
    ) -> bytes:
        assert (method, body, content_type, accept) == ("GET", None, JSON, "")
        assert timeout_s is not None
        query = parse_qs(path.partition("?")[2])
        await asyncio.sleep(0.01)
        if self.down:
            raise TransportError("down", may_be_applied=False)
        version, after = self.version, ""
        if "continue" in query:
            token_version, after = query["continue"][0].split("/")
            if int(token_version) < self.forgotten:
                raise GoneError(410, "Expired")
            version = int(token_version)
        # The pages of this server are not one snapshot, as those of a real one are; then what changed between two
        # pages comes again with the watch, which starts from the version of the first.
        names = [name for name in sorted(self.things) if name > after]
        limit = int(query.get("limit", ["1000"])[0])
        page, rest = names[:limit], names[limit:]
        token = f"{version}/{page[-1]}" if rest else ""
        return json.dumps(a_list(*(self.things[name] for name in page), version=version, next_page=token)).encode()

    @asynccontextmanager
    async def stream(self, path: str, *, idle_timeout_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        assert idle_timeout_s > 0
        await asyncio.sleep(0.01)
        if self.down:
            raise TransportError("down", may_be_applied=False)
        since = int(parse_qs(path.partition("?")[2])["resourceVersion"][0])
        if since < self.forgotten:
            raise GoneError(410, "Expired")
        queue: asyncio.Queue[Any] = asyncio.Queue()
        for version, line in self.history:
            if version > since:
                queue.put_nowait(line)
        self._streams.append(queue)
        try:
            yield self._read(queue)
        finally:
            self._streams.remove(queue)

    async def _read(self, queue: asyncio.Queue[Any]) -> AsyncIterator[bytes]:
        while True:
            item = await queue.get()
            if item is CUT:
                raise TransportError("cut", may_be_applied=False)
            if item is None:
                return
            yield item


class Mirror:
    """What a handler knows from being told alone."""

    def __init__(self) -> None:
        self.things: dict[str, Thing] = {}

    def on_add(self, obj: Thing, is_initial: bool) -> None:
        assert isinstance(is_initial, bool)
        assert obj.metadata.name not in self.things
        self.things[obj.metadata.name] = obj

    def on_update(self, old: Thing, new: Thing) -> None:
        assert self.things[new.metadata.name] is old
        assert old.metadata.uid == new.metadata.uid
        self.things[new.metadata.name] = new

    def on_delete(self, obj: Thing, final_state_unknown: bool) -> None:
        held = self.things.pop(obj.metadata.name)
        assert held.metadata.uid == obj.metadata.uid
        assert held is obj or not final_state_unknown


def malform(server: ModelServer, name: str) -> None:
    """An object that cannot be read for a while; in the end it can, or nobody could converge to it."""
    server.put(name, size="large")
    server.put(name)


def cut_in_a_line(server: ModelServer, _: str) -> None:
    server.send(a_bookmark(server.version)[:11])
    server.send(CUT)


def recreate_unseen(server: ModelServer, name: str) -> None:
    server.send(CUT)
    server.delete(name)
    server.put(name)
    server.forget()


def set_down(down: bool) -> Callable[[ModelServer, str], None]:
    return lambda server, _: setattr(server, "down", down)


STEPS: dict[str, Callable[[ModelServer, str], None]] = {
    "put": ModelServer.put,
    "delete": ModelServer.delete,
    "recreate unseen": recreate_unseen,
    "malform": malform,
    "wait": lambda *_: None,
    "cut": lambda server, _: server.send(CUT),
    "cut in a line": cut_in_a_line,
    "end": lambda server, _: server.send(None),
    "small pieces": lambda server, _: setattr(server, "piece", 7),
    "large pieces": lambda server, _: setattr(server, "piece", 1_000_000),
    "replay": lambda server, _: server.replay_last(),
    "forget": lambda server, _: server.forget(),
    "down": set_down(True),
    "up": set_down(False),
    "gone": lambda server, _: server.send(a_line("ERROR", status_body(410, "Expired"))),
    "error": lambda server, _: server.send(a_line("ERROR", status_body(500, "InternalError"))),
    "junk": lambda server, _: server.send(b"{]\n"),
}
SCRIPTS = st.lists(
    st.tuples(
        st.sampled_from([*STEPS, "put", "put", "delete"]),
        st.sampled_from("ab"),
        st.sampled_from([0.0, 0.001, 0.01, 0.5, 5.0]),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(script=SCRIPTS, page_limit=st.sampled_from([1, 2, 500]))
def test_a_reflector_converges_to_the_server(script: list[tuple[str, str, float]], page_limit: int) -> None:
    async def play() -> None:
        server, mirror = ModelServer(), Mirror()
        reflector = Reflector(
            server,
            Resource(path="/things", kind=Thing),
            [mirror],
            clock=loop_clock(),
            page_limit=page_limit,
            on_malformed=lambda *_: None,
            on_problem=lambda *_: None,
        )
        task = asyncio.create_task(reflector.run())
        for step, name, pause_s in script:
            STEPS[step](server, name)
            await asyncio.sleep(pause_s)
        server.down = False
        await asyncio.sleep(120)
        assert not task.done()
        assert reflector.has_synced
        want = {name: thing["metadata"]["resourceVersion"] for name, thing in server.things.items()}
        assert {key[1]: thing.metadata.resource_version for key, thing in reflector.store.items()} == want
        assert mirror.things == {key[1]: thing for key, thing in reflector.store.items()}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_in_virtual_time(play())
