"""Requests, streams, errors, TLS and renewed credentials, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
import trustme
import yaml
from tests.kube.builders import until
from tests.kube.fake_server import Answer, FakeServer, keeper_for, status_answer

from berth.kube import session as session_module
from berth.kube.credentials import CredentialKeeper, Credentials, InCluster, Kubeconfig
from berth.kube.errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
    UnauthorizedError,
)
from berth.kube.session import MERGE_PATCH, ApiSession

OK = Answer(body={"fine": True})


@pytest.fixture(params=["aiohttp", "curl"], autouse=True)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test of this module runs over both transports."""
    if request.param == "aiohttp":
        monkeypatch.setattr(session_module, "cheapest_transport", lambda: None)


@asynccontextmanager
async def talking(*answers: Answer, **options: Any) -> AsyncIterator[tuple[FakeServer, ApiSession]]:
    server = FakeServer()
    server.on("GET", "/x", *answers)
    async with server.running(), ApiSession(keeper_for(server.url), **options) as session:
        yield server, session


async def test_a_request_carries_what_the_server_wants_to_know() -> None:
    server = FakeServer()
    server.on("PATCH", "/x", OK)
    async with (
        server.running(),
        ApiSession(keeper_for(server.url, authorization="Bearer t"), user_agent="kube-scheduler/v1.37.0") as session,
    ):
        body = await session.request("PATCH", "/x?a=b%2Cc", b'{"n": 1}', content_type=MERGE_PATCH)
    assert json.loads(body) == {"fine": True}
    (seen,) = server.seen
    assert (seen.query, seen.body) == ({"a": "b,c"}, {"n": 1})
    wanted = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": "Bearer t",
        "Content-Type": MERGE_PATCH,
        "User-Agent": "kube-scheduler/v1.37.0",
    }
    assert {name: seen.headers[name] for name in wanted} == wanted


async def test_the_default_user_agent_names_the_product() -> None:
    async with talking(OK) as (server, session):
        await session.request("GET", "/x")
    assert server.seen[0].headers["User-Agent"].startswith("berth/")
    assert "Authorization" not in server.seen[0].headers


async def test_another_server_can_be_named() -> None:
    server = FakeServer()
    server.on("GET", "/x", OK)
    async with server.running(), ApiSession(keeper_for("http://nowhere"), server=server.url + "/") as session:
        await session.request("GET", "/x", accept="application/yaml")
        assert session.server == server.url
    assert server.seen[0].headers["Accept"] == "application/yaml"


ERRORS: dict[str, tuple[Answer, type[ApiError], str]] = {
    "400": (status_answer(400, "BadRequest", "no"), BadRequestError, "no"),
    "401": (status_answer(401, "Unauthorized"), UnauthorizedError, "told to answer 401"),
    "403": (status_answer(403, "Forbidden"), ForbiddenError, "told to answer 403"),
    "404": (status_answer(404, "NotFound"), NotFoundError, "told to answer 404"),
    "409": (status_answer(409, "Conflict"), ConflictError, "told to answer 409"),
    "409 AlreadyExists": (status_answer(409, "AlreadyExists"), AlreadyExistsError, "told to answer 409"),
    "410": (status_answer(410, "Expired"), GoneError, "told to answer 410"),
    "422": (status_answer(422, "Invalid"), InvalidError, "told to answer 422"),
    "429": (status_answer(429, "TooManyRequests"), TooManyRequestsError, "told to answer 429"),
    "500": (status_answer(500, "InternalError"), ServerError, "told to answer 500"),
    "418": (status_answer(418), ApiError, "told to answer 418"),
    "502 by a proxy": (Answer(502, "<html>Bad gateway</html>"), ServerError, "<html>Bad gateway</html>"),
    "a redirect": (Answer(302, "", {"Location": "/y"}), ApiError, ""),
}


@pytest.mark.parametrize(("answer", "want", "message"), ERRORS.values(), ids=ERRORS.keys())
async def test_an_error_is_raised_for(answer: Answer, want: type[ApiError], message: str) -> None:
    async with talking(answer) as (_, session):
        with pytest.raises(ApiError) as caught:
            await session.request("GET", "/x")
    assert type(caught.value) is want
    assert (caught.value.status, caught.value.message) == (answer.status, message)


async def test_an_error_tells_reason_details_and_when_to_come_back() -> None:
    details = {"name": "web", "kind": "pods", "retryAfterSeconds": 3, "causes": [{"field": "spec", "message": "bad"}]}
    body = {"kind": "Status", "reason": "Timeout", "message": "slow", "code": 504, "details": details}
    async with talking(Answer(504, body), Answer(504, body, {"Retry-After": "9"})) as (_, session):
        for want_s in (3.0, 9.0):
            with pytest.raises(ServerError, match="504 Timeout: slow") as caught:
                await session.request("GET", "/x")
            assert caught.value.retry_after_s == want_s
        assert caught.value.details is not None
        assert (caught.value.details.name, caught.value.details.causes[0].field) == ("web", "spec")


async def test_a_refused_connection_carried_nothing() -> None:
    async with talking(OK) as (server, session):
        pass
    async with ApiSession(keeper_for(server.url)) as session:
        with pytest.raises(TransportError, match="GET /x") as caught:
            await session.request("GET", "/x?secret=1")
    assert not caught.value.may_be_applied
    assert "secret" not in str(caught.value)


UNCERTAIN = {"a dropped connection": Answer(drop=True), "silence": Answer(hang=True)}


@pytest.mark.parametrize("answer", UNCERTAIN.values(), ids=UNCERTAIN.keys())
async def test_a_write_may_have_been_carried_out_after(answer: Answer) -> None:
    server = FakeServer()
    server.on("POST", "/x", answer)
    async with server.running(), ApiSession(keeper_for(server.url)) as session:
        with pytest.raises(TransportError) as caught:
            await session.request("POST", "/x", b"{}", timeout_s=0.05)
    assert caught.value.may_be_applied
    assert len(server.seen) == 1, "a write is never repeated by the session"


async def test_a_stream_gives_chunks_and_ends_when_the_server_ends_it() -> None:
    async with (
        talking(Answer(chunks=[b"one\n", b"two\n"])) as (_, session),
        session.stream("/x", idle_timeout_s=5) as chunks,
    ):
        assert b"".join([chunk async for chunk in chunks]) == b"one\ntwo\n"


async def read_all(session: ApiSession, path: str = "/x", idle_timeout_s: float = 5) -> bytes:
    async with session.stream(path, idle_timeout_s=idle_timeout_s) as chunks:
        return b"".join([chunk async for chunk in chunks])


STREAM_FAULTS: dict[str, tuple[Answer, type[Exception]]] = {
    "a stream that is refused": (status_answer(410, "Expired"), GoneError),
    "a stream that is cut": (Answer(chunks=[b"one\n"], cut=True), TransportError),
    "a stream that falls silent": (Answer(chunks=[b"one\n"], stay=True), TransportError),
}


@pytest.mark.parametrize(("answer", "want"), STREAM_FAULTS.values(), ids=STREAM_FAULTS.keys())
async def test_an_error_ends(answer: Answer, want: type[Exception]) -> None:
    async with talking(answer) as (_, session):
        with pytest.raises(want):
            await read_all(session, idle_timeout_s=0.05)


# -- credentials that change --------------------------------------------------------------------------------------


def a_keeper(url: str, *tokens: str) -> CredentialKeeper:
    """A keeper that has the first token and can get the others."""
    left = [Credentials(server=url, authorization=token) for token in tokens]

    async def load(_: object) -> Credentials:
        return left.pop(0) if len(left) > 1 else left[0]

    return CredentialKeeper(InCluster(), left.pop(0), load=load)


async def test_a_401_is_answered_with_new_credentials_once() -> None:
    server = FakeServer()
    server.on("POST", "/x", status_answer(401), OK)
    async with server.running(), ApiSession(a_keeper(server.url, "Bearer one", "Bearer two")) as session:
        await session.request("POST", "/x", b"{}")
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]


class Heard:
    """Writes down what it hears of requests, without the times."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, int | None]] = []

    def request_finished(self, method: str, host: str, code: int | None, seconds: float) -> None:
        assert seconds >= 0
        self.requests.append((method, host, code))


async def test_an_observer_hears_how_every_request_ended() -> None:
    heard = Heard()
    async with talking(OK, Answer(404), OK, Answer(410)) as (server, session):
        session.observe(heard)
        await session.request("GET", "/x")
        with pytest.raises(NotFoundError):
            await session.request("GET", "/x")
        async with session.stream("/x", idle_timeout_s=5):
            pass
        with pytest.raises(GoneError):
            async with session.stream("/x", idle_timeout_s=5):
                pass
        host = server.url.removeprefix("http://")
    assert heard.requests == [("GET", host, 200), ("GET", host, 404), ("GET", host, 200), ("GET", host, 410)]
    async with ApiSession(keeper_for(server.url)) as session:
        session.observe(heard)
        with pytest.raises(TransportError):
            await session.request("POST", "/x", b"{}")
    assert heard.requests[4:] == [("POST", host, None)]


async def test_both_attempts_of_a_request_that_had_to_be_repeated_are_heard_of() -> None:
    server, heard = FakeServer(), Heard()
    server.on("GET", "/x", Answer(401), OK)
    async with server.running(), ApiSession(a_keeper(server.url, "Bearer one", "Bearer two")) as session:
        session.observe(heard)
        await session.request("GET", "/x")
    assert [code for _, _, code in heard.requests] == [401, 200]


async def test_a_401_after_a_renewal_is_final() -> None:
    server = FakeServer()
    server.on("GET", "/x", status_answer(401))
    async with server.running(), ApiSession(a_keeper(server.url, "Bearer one", "Bearer two")) as session:
        with pytest.raises(UnauthorizedError):
            await session.request("GET", "/x")
        assert len(server.seen) == 2
        with pytest.raises(UnauthorizedError):
            await session.request("GET", "/x")
        assert len(server.seen) == 3, "no renewal again so soon"


async def test_a_stream_too_is_opened_again_after_a_401() -> None:
    server = FakeServer()
    server.on("GET", "/x", status_answer(401), Answer(chunks=[b"fine\n"]))
    async with server.running(), ApiSession(a_keeper(server.url, "Bearer one", "Bearer two")) as session:
        assert await read_all(session) == b"fine\n"


async def test_sessions_of_one_keeper_share_its_renewals() -> None:
    server = FakeServer()
    server.on("GET", "/x", status_answer(401), OK)
    async with server.running():
        keeper = a_keeper(server.url, "Bearer one", "Bearer two")
        async with ApiSession(keeper) as one, ApiSession(keeper) as two:
            await one.request("GET", "/x")
            await two.request("GET", "/x")
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two", "Bearer two"]
    assert keeper._subscribers == []


async def test_an_exec_plugin_is_run_again_after_a_401(tmp_path: Path) -> None:
    counter, script = tmp_path / "count", tmp_path / "plugin.py"
    script.write_text(
        "import json, pathlib, sys\n"
        f"count = pathlib.Path({str(counter)!r})\n"
        "count.write_text(count.read_text() + 'x' if count.exists() else 'x')\n"
        "status = {'token': 'token-' + str(len(count.read_text()))}\n"
        "version = 'client.authentication.k8s.io/v1'\n"
        "print(json.dumps({'apiVersion': version, 'kind': 'ExecCredential', 'status': status}))\n"
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(script)]}
    server = FakeServer()
    server.on("GET", "/x", status_answer(401), OK)
    async with server.running():
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": server.url}}],
            "users": [{"name": "u", "user": {"exec": plugin}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        async with ApiSession(await CredentialKeeper.open(Kubeconfig(str(tmp_path / "config")))) as session:
            await session.request("GET", "/x")
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer token-1", "Bearer token-2"]


# -- TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, *names: str, ask_clients: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    if ask_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        authority.configure_trust(context)
    return context


def ca_pem(authority: trustme.CA) -> str:
    return authority.cert_pem.bytes().decode()


TRUST: dict[str, tuple[tuple[str, ...], dict[str, Any], bool]] = {
    "the authority that signed": (("127.0.0.1",), {}, True),
    "a name that the certificate has": (("kubernetes",), {"tls_server_name": "kubernetes"}, True),
    "a name that the certificate has not": (("kubernetes",), {}, False),
    "another authority": (("127.0.0.1",), {"ca_pem": ca_pem(trustme.CA())}, False),
    "anything, when told not to look": (("kubernetes",), {"verify": False, "ca_pem": ""}, True),
}


@pytest.mark.parametrize(("names", "changes", "want"), TRUST.values(), ids=TRUST.keys())
async def test_a_server_is_trusted_for(
    authority: trustme.CA, names: tuple[str, ...], changes: dict[str, Any], want: bool
) -> None:
    server = FakeServer()
    server.on("GET", "/x", OK)
    options = {"ca_pem": ca_pem(authority)} | changes
    async with (
        server.running(server_tls(authority, *names)) as at,
        ApiSession(keeper_for("", **options), server=at.url) as session,
    ):
        if want:
            await session.request("GET", "/x")
        else:
            with pytest.raises(TransportError) as caught:
                await session.request("GET", "/x")
            assert not caught.value.may_be_applied


class Rotation:
    """A keeper whose certificate gets another common name with each renewal."""

    def __init__(self, server: FakeServer, authority: trustme.CA, *names: str) -> None:
        self._server, self._authority, self._names = server, authority, list(names)
        self.keeper = CredentialKeeper(InCluster(), self._next(), load=self._load)

    def _next(self) -> Credentials:
        issued = self._authority.issue_cert("me@example.org", common_name=self._names.pop(0))
        return Credentials(
            server=self._server.url,
            ca_pem=ca_pem(self._authority),
            cert_pem=issued.cert_chain_pems[0].bytes().decode(),
            key_pem=issued.private_key_pem.bytes().decode(),
        )

    async def _load(self, _: object) -> Credentials:
        return self._next()


async def test_a_client_certificate_speaks_for_us_and_a_rotated_one_takes_over(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_STREAMS_RETIRE_AFTER_S", 0.01)
    monkeypatch.setattr(session_module, "_RETIRE_AFTER_S", 0.01)
    server = FakeServer()
    server.on("GET", "/x", OK)
    server.on("GET", "/watch", Answer(chunks=[b"one\n"], stay=True))
    async with server.running(server_tls(authority, "127.0.0.1", ask_clients=True)):
        keeper = Rotation(server, authority, "first", "second").keeper
        async with ApiSession(keeper) as session:
            await session.request("GET", "/x")
            watch = asyncio.create_task(read_all(session, "/watch"))
            await until(lambda: len(server.seen) == 2)
            await keeper.renew(seen_generation=1)
            with pytest.raises(TransportError, match="closed"):
                await watch
            await until(lambda: not session._retiring)
            await session.request("GET", "/x")
    assert server.client_names == ["first", "first", "second"]


async def test_requests_under_way_finish_on_the_connections_they_began_on(authority: trustme.CA) -> None:
    server = FakeServer()
    server.on("GET", "/slow", Answer(chunks=[b"one\n", b"two\n"] * 50))
    async with server.running(server_tls(authority, "127.0.0.1", ask_clients=True)):
        keeper = Rotation(server, authority, "first", "second").keeper
        async with ApiSession(keeper) as session:
            slow = asyncio.create_task(session.request("GET", "/slow"))
            await until(lambda: len(server.seen) == 1)
            await keeper.renew(seen_generation=1)
            assert len((await slow).splitlines()) == 100
            assert len(session._retiring) == 1
    assert server.client_names == ["first"]
    assert not session._retiring


async def test_closing_a_session_ends_its_streams() -> None:
    async with talking(Answer(chunks=[b"one\n"], stay=True)) as (server, session):
        watch = asyncio.create_task(read_all(session))
        await until(lambda: len(server.seen) == 1)
        await session.close()
        with pytest.raises(TransportError):
            await watch


async def test_new_certificates_that_cannot_be_used_leave_the_old_ones_in_use(authority: trustme.CA) -> None:
    server = FakeServer()
    server.on("GET", "/x", OK)
    async with server.running(server_tls(authority, "127.0.0.1", ask_clients=True)):
        keeper = Rotation(server, authority, "first", "second").keeper
        async with ApiSession(keeper) as session:
            with pytest.raises(CredentialsError):
                session._renewed(msgspec.structs.replace(keeper.current, cert_pem="half a certificate"))
            await session.request("GET", "/x")
            await keeper.renew(seen_generation=1)
            await session.request("GET", "/x")
    assert server.client_names == ["first", "second"]


# -- The end of connections ---------------------------------------------------------------------------------------


class Deaf:
    """A TLS server that answers one request with the given bytes, and never agrees to the end of the connection."""

    def __init__(self, context: ssl.SSLContext, answer: bytes) -> None:
        self._context, self._answer = context, answer
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _serve(self) -> None:
        with self._listener:
            raw, _ = self._listener.accept()
        with raw, self._context.wrap_socket(raw, server_side=True) as tls:
            tls.recv(65536)
            self.asked.set()
            tls.sendall(self._answer)
            self._stop.wait()


BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


@pytest.mark.parametrize("answer", [BEGUN, b""], ids=["a stream that was read", "a stream that did not begin"])
async def test_nothing_is_open_after_a_session_whose_server_does_not_let_go(
    authority: trustme.CA, answer: bytes
) -> None:
    async def read(session: ApiSession) -> None:
        async with session.stream("/x", idle_timeout_s=60) as chunks:
            assert await anext(chunks) == b"{}"

    with Deaf(server_tls(authority, "127.0.0.1"), answer) as server:
        async with ApiSession(keeper_for(server.url, ca_pem=ca_pem(authority))) as session:
            sockets = session._pool._sockets
            reading = asyncio.create_task(read(session))
            # A stream that nobody reads any more is cut at once.
            await until(lambda: reading.done() and not sockets.left() if answer else server.asked.is_set())
            reading.cancel()
            await asyncio.wait([reading])
        assert sockets.left() == 0
