"""The serving side as a whole, as a process opens it from its flags."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from tests.kube.fake_server import Answer, FakeServer, keeper_for
from tests.runtime.doubles import ACCESS_REVIEWS, CONFIG_MAP, TOKEN_REVIEWS

from berth.config.options import RunOptions
from berth.kube.credentials import CredentialKeeper, CredentialSource, Kubeconfig
from berth.runtime.faults import ServingError
from berth.runtime.metrics.access import AccessMetrics
from berth.runtime.metrics.instruments import Registry
from berth.runtime.serving.endpoints import Delegates, Endpoints
from berth.runtime.serving.server import Page

if TYPE_CHECKING:
    from pathlib import Path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


async def hello(_: web.BaseRequest) -> web.Response:
    return web.Response(text="hello")


async def ask(port: int, path: str, **headers: str) -> tuple[int, str]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(f"https://127.0.0.1:{port}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_port_zero_opens_nothing() -> None:
    assert await Endpoints.open(RunOptions(secure_port=0), {}) is None


async def test_with_nobody_to_ask_only_open_pages_are_shown() -> None:
    port = free_port()
    endpoints = await Endpoints.open(RunOptions(secure_port=port, bind_address="127.0.0.1"), {})
    assert endpoints is not None
    assert endpoints.address == ("127.0.0.1", port)
    await endpoints.start({"/healthz": Page(hello), "/metrics": Page(hello)})
    try:
        assert await ask(port, "/healthz") == (200, "hello")
        assert (await ask(port, "/metrics", Authorization="Bearer t1"))[0] == 403
    finally:
        await endpoints.close()


async def test_reviews_go_to_the_api_server_with_the_credentials_that_are_there_already() -> None:
    api = FakeServer()
    api.on("POST", TOKEN_REVIEWS, Answer(201, {"status": {"authenticated": True, "user": {"username": "prometheus"}}}))
    api.on("POST", ACCESS_REVIEWS, Answer(201, {"status": {"allowed": True}}))
    api.on("GET", CONFIG_MAP, Answer(200, {"metadata": {"name": "x"}, "data": {}}))
    port, registry = free_port(), Registry()
    options = RunOptions(
        secure_port=port,
        bind_address="127.0.0.1",
        authentication_kubeconfig="/etc/kubernetes/scheduler.conf",
        authorization_kubeconfig="/etc/kubernetes/scheduler.conf",
    )
    async with api.running():
        keepers: dict[CredentialSource, CredentialKeeper] = {
            Kubeconfig("/etc/kubernetes/scheduler.conf"): keeper_for(api.url)
        }
        endpoints = await Endpoints.open(options, keepers, metrics=AccessMetrics(registry))
        assert endpoints is not None
        await endpoints.start({"/metrics": Page(hello)})
        following = asyncio.create_task(endpoints.run())
        try:
            assert await ask(port, "/metrics", Authorization="Bearer t1") == (200, "hello")
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await endpoints.close()
    assert api.asked("POST", ACCESS_REVIEWS)[0].body["spec"]["user"] == "prometheus"
    shown = {metric.name for metric in registry.collect()}
    assert {"apiserver_delegated_authn_request", "authorization_attempts"} <= shown


async def test_what_fails_while_opening_gives_the_port_back(tmp_path: Path) -> None:
    port = free_port()
    options = RunOptions(secure_port=port, bind_address="127.0.0.1", tls_cert_file="/no", tls_private_key_file="/no")
    with pytest.raises(ServingError, match="/no: No such file"):
        await Endpoints.open(options, {})
    with socket.create_server(("127.0.0.1", port)):
        pass
    missing = str(tmp_path / "none.conf")
    with pytest.raises(ServingError, match=r"none\.conf: no such file"):
        await Endpoints.open(RunOptions(secure_port=port, authentication_kubeconfig=missing), {})


async def test_one_session_serves_both_questions() -> None:
    keepers: dict[CredentialSource, CredentialKeeper] = {
        Kubeconfig(name): keeper_for("http://127.0.0.1:1") for name in ("a", "b")
    }
    delegates = Delegates(keepers)
    first = await delegates.session("a")
    assert first is await delegates.session("a")
    assert first is not await delegates.session("b")
    assert await delegates.session("") is None, "the tests do not run in a cluster"
    await delegates.close()
