"""What a transport does when connections fail: exactly one request, and a word on whether it may have arrived."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from tests.kube.builders import until
from tests.kube.fake_server import keeper_for

from berth.kube import curl_transport
from berth.kube import session as session_module
from berth.kube.errors import TooManyRequestsError, TransportError
from berth.kube.session import ApiSession

FINE = b"HTTP/1.1 201 Created\r\nContent-Length: 4\r\n\r\nfine"


@pytest.fixture(params=["aiohttp", "curl"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "aiohttp":
        monkeypatch.setattr(session_module, "cheapest_transport", lambda: None)
    return str(request.param)


class RawServer:
    """Answers requests with scripted bytes, and notes on which connection each came.

    `None` closes the connection without an answer, an empty answer keeps silent until the server ends or the client
    hangs up, one that says `Connection: close` is the connection's last; after the script all is fine.
    """

    def __init__(self, *script: bytes | None) -> None:
        self.seen: list[tuple[int, str]] = []  # the connection's number and the request's first word
        self.bodies: list[bytes] = []
        self.url = ""
        self.connections = 0
        self.lost = 0
        self._script = deque(script)
        self._ending = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._read(reader, number)
                answer = self._script.popleft() if self._script else FINE
                if answer is None:
                    break
                if not answer:
                    await self._wait_for_end(reader)
                    break
                writer.write(answer)
                if b"Connection: close" in answer:
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self.lost += 1

    async def _read(self, reader: asyncio.StreamReader, number: int) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        self.bodies.append(await reader.readexactly(length))
        self.seen.append((number, head.split(b" ")[0].decode()))

    async def _wait_for_end(self, reader: asyncio.StreamReader) -> None:
        """Until the server ends or the client hangs up."""
        waits = [asyncio.create_task(self._ending.wait()), asyncio.create_task(reader.read(1))]
        _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ApiSession]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            async with ApiSession(keeper_for(self.url)) as session:
                yield session
            await until(lambda: self.lost == self.connections)
        finally:
            self._ending.set()
            server.close()
            await server.wait_closed()


async def post(session: ApiSession, body: bytes | None = b"{}", timeout_s: float | None = None) -> bytes:
    return await session.request("POST", "/x", body, timeout_s=timeout_s)


@pytest.mark.usefixtures("transport")
async def test_one_connection_serves_one_request_after_the_other() -> None:
    server = RawServer()
    async with server.session() as session:
        for number in range(3):
            assert await post(session, b"%d" % number) == b"fine"
    assert (server.connections, server.bodies) == (1, [b"0", b"1", b"2"])


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("body", [b"{}", None], ids=["with a body", "without one"])
async def test_a_write_is_not_repeated_when_its_kept_connection_breaks(body: bytes | None) -> None:
    server = RawServer(FINE, None)
    async with server.session() as session:
        await post(session, body)
        with pytest.raises(TransportError) as caught:
            await post(session, body)
        assert len(server.seen) == 2
        assert caught.value.may_be_applied
        assert await post(session, body) == b"fine", "the next one finds another connection"


@pytest.mark.usefixtures("transport")
async def test_a_read_is_repeated_when_its_kept_connection_breaks() -> None:
    server = RawServer(FINE, None)
    async with server.session() as session:
        for _ in range(2):
            assert await session.request("GET", "/x") == b"fine"
    assert server.seen == [(1, "GET"), (1, "GET"), (2, "GET")]


@pytest.mark.usefixtures("transport")
async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    server = RawServer(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    async with server.session() as session:
        assert await post(session) == b""
        assert await post(session) == b"fine"
    assert server.connections == 2


CUT_SHORT: dict[str, bytes] = {
    "in the middle of the body": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nfin",
    "in the middle of a chunk": b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfin",
    "by another protocol": b"220 mail.example.org ESMTP\r\nConnection: close\r\n\r\n",
}


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("answer", CUT_SHORT.values(), ids=CUT_SHORT.keys())
async def test_a_write_may_have_been_carried_out_when_its_answer_is_cut(answer: bytes) -> None:
    server = RawServer(answer)
    async with server.session() as session:
        with pytest.raises(TransportError) as caught:
            await post(session)
    assert caught.value.may_be_applied
    assert len(server.seen) == 1


@pytest.mark.usefixtures("transport")
async def test_a_long_answer_in_chunks_arrives_whole() -> None:
    piece = b"x" * 70_000
    chunk = b"%x\r\n%b\r\n" % (len(piece), piece)
    server = RawServer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 30 + b"0\r\n\r\n")
    async with server.session() as session:
        assert await session.request("GET", "/x") == piece * 30
        assert await session.request("GET", "/x") == b"fine"


@pytest.mark.usefixtures("transport")
async def test_a_long_body_arrives_whole() -> None:
    server = RawServer()
    body = b"0123456789" * 50_000
    async with server.session() as session:
        await post(session, body)
    assert server.bodies == [body]


@pytest.mark.usefixtures("transport")
async def test_the_time_to_come_back_is_told() -> None:
    server = RawServer(b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n")
    async with server.session() as session:
        with pytest.raises(TooManyRequestsError) as caught:
            await post(session)
    assert caught.value.retry_after_s == 7.0


@pytest.mark.usefixtures("transport")
async def test_a_request_that_is_cancelled_leaves_its_connection_to_nobody() -> None:
    server = RawServer(b"")
    async with server.session() as session:
        task = asyncio.create_task(post(session))
        await until(lambda: len(server.seen) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await post(session) == b"fine"
    assert [number for number, _ in server.seen] == [1, 2]


@pytest.mark.usefixtures("transport")
async def test_after_silence_others_get_a_new_connection() -> None:
    server = RawServer(b"")
    async with server.session() as session:
        with pytest.raises(TransportError) as caught:
            await post(session, timeout_s=0.05)
        assert caught.value.may_be_applied
        assert await post(session) == b"fine"
    assert [number for number, _ in server.seen] == [1, 2]


async def test_closing_a_session_ends_its_requests_with_an_error_of_ours() -> None:
    server = RawServer(b"", b"")
    async with server.session() as session:
        tasks = [asyncio.create_task(post(session)) for _ in range(2)]
        await until(lambda: len(server.seen) == 2)
        await session.close()
        for task in tasks:
            with pytest.raises(TransportError, match="POST /x: the session was closed") as caught:
                await task
            assert caught.value.may_be_applied


async def test_a_task_that_is_cancelled_while_its_session_closes_is_cancelled() -> None:
    server = RawServer(b"")
    async with server.session() as session:
        task = asyncio.create_task(post(session))
        await until(lambda: len(server.seen) == 1)
        task.cancel()
        await session.close()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_requests_under_way_outlive_the_silence_of_another() -> None:
    server = RawServer(b"", b"")
    async with server.session() as session:
        patient = asyncio.create_task(post(session))
        await until(lambda: len(server.seen) == 1)
        with pytest.raises(TransportError):
            await post(session, timeout_s=0.05)
        assert not patient.done()
        server._ending.set()
        with pytest.raises(TransportError, match=r"lost before an answer|Empty reply"):
            await patient


async def test_no_more_connections_are_made_than_allowed_and_waiting_counts_as_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curl_transport, "_MAX_CONNECTIONS", 2)
    server = RawServer(b"", b"")
    async with server.session() as session:
        tasks = [asyncio.create_task(post(session)) for _ in range(2)]
        await until(lambda: len(server.seen) == 2)
        with pytest.raises(TransportError) as caught:
            await post(session, timeout_s=0.05)
        assert not caught.value.may_be_applied
        assert server.connections == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await post(session) == b"fine"


@pytest.fixture
def without_pycurl(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "pycurl", None)
    monkeypatch.delitem(sys.modules, curl_transport.__name__)
    session_module.cheapest_transport.cache_clear()
    yield
    session_module.cheapest_transport.cache_clear()


@pytest.mark.usefixtures("without_pycurl")
async def test_where_there_is_no_pycurl_aiohttp_serves_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = RawServer()
    with caplog.at_level(logging.INFO - 2, logger=session_module.__name__):
        async with server.session() as session:
            assert await post(session) == b"fine"
            async with ApiSession(keeper_for(server.url)) as another:
                assert await post(another) == b"fine"
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "requests go over aiohttp, at several times the CPU"
    ]
