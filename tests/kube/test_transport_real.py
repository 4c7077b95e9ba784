"""Requests over HTTP/2 against a real API server that sends its clients away, dies, or stops answering."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.controlplane import ControlPlane

from berth.kube.credentials import CredentialKeeper, Kubeconfig
from berth.kube.curl_transport import CurlTransport
from berth.kube.errors import AlreadyExistsError, TransportError
from berth.kube.session import ApiSession

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def a_config_map(name: str) -> bytes:
    return b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%b"}}' % name.encode()


@pytest.fixture(scope="module")
def own_plane(envtest_assets: Path) -> Iterator[ControlPlane]:
    """A control plane that sends one client in fifty away, and that the tests may kill and pause."""
    with ControlPlane(envtest_assets, apiserver_flags=["--goaway-chance=0.02"]) as plane:
        yield plane


async def a_session(plane: ControlPlane) -> ApiSession:
    return ApiSession(await CredentialKeeper.open(Kubeconfig(str(plane.admin_kubeconfig))))


async def test_a_server_that_sends_us_to_another_connection_costs_doubt_at_worst(own_plane: ControlPlane) -> None:
    names = [f"moved-{number}" for number in range(300)]
    left = iter(names)
    async with await a_session(own_plane) as session:

        async def create(name: str) -> None:
            for _ in range(10):  # each may cross a farewell again
                with contextlib.suppress(TransportError):  # refused by the farewell, which libcurl does not tell
                    await session.request("POST", CONFIG_MAPS, a_config_map(name))
                    return
            pytest.fail(f"{name}: in doubt ten times")

        async def create_all() -> None:
            for name in left:
                with contextlib.suppress(AlreadyExistsError):  # what was in doubt had been made
                    await create(name)

        await asyncio.gather(*(create_all() for _ in range(32)))
        assert isinstance(session._pool.requests, CurlTransport)
        assert session._pool.requests._may_multiplex, "this is about HTTP/2"
    made = {item["metadata"]["name"] for item in own_plane.client().items(CONFIG_MAPS)}
    assert made >= set(names)


async def test_silence_moves_requests_to_a_connection_of_their_own(own_plane: ControlPlane) -> None:
    server = own_plane.process("kube-apiserver")
    async with await a_session(own_plane) as session:
        await session.request("GET", "/version")
        server.pause()
        try:
            with pytest.raises(TransportError) as caught:
                await session.request("POST", CONFIG_MAPS, a_config_map("late"), timeout_s=0.2)
        finally:
            server.resume()
        assert caught.value.may_be_applied
        await session.request("GET", "/version")


async def test_a_server_that_dies_leaves_writes_in_doubt_and_is_found_again(own_plane: ControlPlane) -> None:
    server = own_plane.process("kube-apiserver")
    async with await a_session(own_plane) as session:
        await session.request("GET", "/version")
        server.pause()
        writes = [
            asyncio.create_task(session.request("POST", CONFIG_MAPS, a_config_map(f"lost-{number}")))
            for number in range(8)
        ]
        await asyncio.sleep(0.01)
        own_plane.kill_apiserver()
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            assert isinstance(outcome, TransportError)
            assert outcome.may_be_applied
        with pytest.raises(TransportError) as caught:
            await session.request("POST", CONFIG_MAPS, a_config_map("refused"))
        assert not caught.value.may_be_applied
        await asyncio.to_thread(own_plane.start_apiserver)
        await session.request("POST", CONFIG_MAPS, a_config_map("refused"))
