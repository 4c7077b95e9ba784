"""The sandbox as a whole: API server, nodes and kubeconfig, here and in a process of its own."""

from __future__ import annotations

import asyncio
import socket
import ssl
import stat
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import yaml
from tests.sandbox.client import NODES, PODS, Client, pod

from berth.sandbox.kubeconfig import kubeconfig
from berth.sandbox.nodes.hollow import zoned_nodes
from berth.sandbox.sandbox import Endpoint, SandboxError, SandboxOptions, SandboxProcess, serve
from berth.sandbox.serving.server import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path


async def test_it_serves_nodes_on_which_pods_run_until_it_is_cancelled(tmp_path: Path) -> None:
    ready: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
    options = SandboxOptions(nodes=tuple(zoned_nodes(3)), kubeconfig=tmp_path / "config")
    task = asyncio.create_task(serve(options, ready.set_result))
    endpoint = await ready
    async with Client(endpoint.url) as api:
        assert await api.names(NODES) == ["node-0", "node-1", "node-2"]
        await api.post(PODS, pod("web", nodeName="node-0"))
        watch = await api.watch(PODS, fieldSelector="status.phase=Running")
        assert await watch.take(1) == [("ADDED", "web")]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    config = yaml.safe_load((tmp_path / "config").read_text())
    assert config["clusters"][0]["cluster"] == {"server": endpoint.url}
    assert config["contexts"][0]["name"] == config["current-context"]


def test_a_kubeconfig_carries_token_and_authority() -> None:
    token = uuid4().hex
    config = kubeconfig("https://localhost:1", token=token, ca_pem=b"pem")
    assert config["users"][0]["user"] == {"token": token}
    assert config["clusters"][0]["cluster"]["certificate-authority-data"] == "cGVt"


async def test_in_a_process_of_its_own_it_serves_tls_and_asks_for_the_token(tmp_path: Path) -> None:
    path, token = tmp_path / "config", uuid4().hex
    served = ServerOptions(token=token)
    options = SandboxOptions(server=served, nodes=tuple(zoned_nodes(1)), kubeconfig=path, tls=True)
    sandbox = SandboxProcess(options)
    await asyncio.to_thread(sandbox.start)
    try:
        assert sandbox.pid is not None
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert sandbox.endpoint.ca_pem is not None
        trusted = ssl.create_default_context(cadata=sandbox.endpoint.ca_pem.decode())
        async with (
            Client(sandbox.endpoint.url, {"Authorization": f"Bearer {token}"}) as api,
            api.session.get(f"{api.url}{NODES}/node-0", ssl=trusted) as response,
        ):
            assert response.status == 200
    finally:
        await asyncio.to_thread(sandbox.stop)
    assert sandbox.pid is None


def test_a_process_that_cannot_listen_says_why() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = SandboxOptions(server=ServerOptions(port=taken.getsockname()[1]))
        with pytest.raises(SandboxError, match="Address already in use"):
            SandboxProcess(options).start()
