"""The serving side against a real API server: its tokens, its RBAC, its ConfigMap."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import trustme
from aiohttp import web

from berth.api.durations import Duration
from berth.config.options import RunOptions
from berth.runtime.serving.endpoints import Endpoints
from berth.runtime.serving.server import Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.client import ApiClient
    from tests.support.controlplane import ControlPlane

CLIENTS = trustme.CA()
NEVER = Duration(0)


@dataclass
class Asked:
    """A server, and how to ask it for its one page that is not open to all."""

    port: int

    async def metrics(self, token: str = "", certificate: trustme.LeafCert | None = None) -> int:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            certificate.configure_cert(context)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.get(f"https://127.0.0.1:{self.port}/metrics", headers=headers) as answer,
        ):
            return answer.status


async def hello(_: web.BaseRequest) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def serving(control_plane: ControlPlane) -> AsyncIterator[Asked]:
    """A server that asks the API server with the scheduler's own rights, and forgets every answer."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    kubeconfig = str(control_plane.kubeconfig_for("system:kube-scheduler"))
    endpoints = await Endpoints.open(
        RunOptions(
            secure_port=port,
            bind_address="127.0.0.1",
            authentication_kubeconfig=kubeconfig,
            authorization_kubeconfig=kubeconfig,
            authentication_token_webhook_cache_ttl=NEVER,
            authorization_webhook_cache_authorized_ttl=NEVER,
            authorization_webhook_cache_unauthorized_ttl=NEVER,
        ),
        {},
    )
    assert endpoints is not None
    await endpoints.start({"/metrics": Page(hello)})
    following = asyncio.create_task(endpoints.run())
    try:
        yield Asked(port)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await endpoints.close()


def allow(name: str, subject: dict[str, Any]) -> list[dict[str, Any]]:
    """A role to read ``/metrics``, given to *subject*."""
    group = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [subject],
        },
    ]


async def until(status: int, ask: Any) -> None:
    """Ask until the answer is *status*: the API server's own caches take a moment."""
    async with asyncio.timeout(30):
        while (got := await ask()) != status:
            assert got in (200, 401, 403)
            await asyncio.sleep(0.1)


async def test_tokens_and_rights_are_those_of_the_cluster(control_plane: ControlPlane, real_api: ApiClient) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus", "namespace": "default"}}
    real_api.create(account)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = real_api.post("/api/v1/namespaces/default/serviceaccounts/prometheus/token", request)["status"]["token"]
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}
    async with serving(control_plane) as server:
        assert await server.metrics(control_plane.token_of("admin")) == 200
        assert await server.metrics(token) == 403
        assert await server.metrics(token + "x") == 401
        assert await server.metrics() == 403
        for item in allow("berth-test-monitoring", subject):
            real_api.create(item)
        try:
            await until(200, lambda: server.metrics(token))
        finally:
            for item in allow("berth-test-monitoring", subject):
                real_api.delete(
                    f"/apis/rbac.authorization.k8s.io/v1/{item['kind'].lower()}s/{item['metadata']['name']}"
                )


async def test_authorities_come_from_the_cluster_and_are_followed(
    control_plane: ControlPlane, real_api: ApiClient
) -> None:
    name, namespace = "extension-apiserver-authentication", "kube-system"
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    admin = CLIENTS.issue_cert("a.example", common_name="admin", organization_name="system:masters")
    other, ours = trustme.CA().cert_pem.bytes().decode(), CLIENTS.cert_pem.bytes().decode()
    metadata = {"name": name, "namespace": namespace}
    real_api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"client-ca-file": other}})
    try:
        async with serving(control_plane) as server:

            async def ask() -> int:
                try:
                    return await server.metrics(certificate=admin)
                except (aiohttp.ClientError, ConnectionError):
                    return 401  # not trusted, and turned away in the handshake

            assert await ask() == 401
            real_api.patch(path, {"data": {"client-ca-file": other + ours}})
            await until(200, ask)
            real_api.patch(path, {"data": {"client-ca-file": other}})
            await until(401, ask)
    finally:
        real_api.delete(path)
