"""The server as such: discovery, paths, credentials, TLS, restarts."""

from __future__ import annotations

import contextlib
import io
import socket
import ssl
from datetime import UTC, datetime
from uuid import uuid4

import aiohttp
import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, node

from berth.sandbox.certificates import make_identity
from berth.sandbox.kinds.catalogue import built_in
from berth.sandbox.serving.server import EmbeddedApiServer, ServerOptions

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
REVIEWS = "/apis/authorization.k8s.io/v1"


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
async def test_it_is_the_version_that_was_asked_for(minor: str) -> None:
    server = EmbeddedApiServer(ServerOptions(minor=minor))
    await server.start()
    async with Client(server.url) as api:
        version = await api.get("/version")
        assert f"{version['major']}.{version['minor']}" == minor
        assert version["gitVersion"] == f"v{minor}.0"
    await server.stop()


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"speaks 1\.36 and 1\.37, not '1\.12'"):
        built_in("1.12")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/readyz?verbose"])
async def test_it_is_healthy(api: Client, path: str) -> None:
    async with api.session.get(api.url + path) as response:
        assert (response.status, await response.text()) == (200, "ok")


async def test_discovery_names_groups_versions_and_resources(api: Client) -> None:
    assert (await api.get("/api"))["versions"] == ["v1"]
    groups = {group["name"]: group for group in (await api.get("/apis"))["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    scheduling = [version["version"] for version in groups["scheduling.k8s.io"]["versions"]]
    assert scheduling == ["v1", "v1beta1", "v1alpha3"]
    assert (await api.get("/apis/apps"))["name"] == "apps"
    resources = {each["name"]: each for each in (await api.get("/api/v1"))["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods"]["namespaced"] is True
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["nodes/status"]["verbs"] == ["get", "patch", "update"]


async def test_discovery_comes_in_one_piece_on_request(api: Client) -> None:
    headers = {"Accept": AGGREGATED}
    async with api.session.get(f"{api.url}/apis", headers=headers) as response:
        assert response.headers["Content-Type"] == (
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        )
        found = await response.json(content_type=None)
    versions = {item["metadata"]["name"]: [v["version"] for v in item["versions"]] for item in found["items"]}
    assert versions["coordination.k8s.io"] == ["v1"]
    core = await api.get("/api", accept=AGGREGATED)
    pods = next(each for each in core["items"][0]["versions"][0]["resources"] if each["resource"] == "pods")
    assert pods["responseKind"]["kind"] == "Pod"
    assert {each["subresource"] for each in pods["subresources"]} == {"binding", "eviction", "resize", "status"}


async def test_openapi_says_that_fields_are_validated(api: Client) -> None:
    paths = (await api.get("/openapi/v3"))["paths"]
    assert {"api/v1", "apis/apps/v1"} <= set(paths)
    document = await api.get(paths["apis/apps/v1"]["serverRelativeURL"])
    operation = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert operation["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]
    schemas = document["components"]["schemas"]
    spec = schemas["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"]["items"] == {"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"}
    assert spec["properties"]["nodeSelector"] == {"type": "object", "additionalProperties": {"type": "string"}}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/nothing", "404 page not found\n"),
        ("/apis/none.example.com", "404 page not found\n"),
        ("/apis/none.example.com/v1/things", "404 page not found\n"),
        ("/openapi/v3/apis/none/v1", "404 page not found\n"),
    ],
)
async def test_an_unknown_path_is_not_found_in_plain_text(api: Client, path: str, text: str) -> None:
    async with api.session.get(api.url + path) as response:
        assert (response.status, response.content_type, await response.text()) == (404, "text/plain", text)


@pytest.mark.parametrize("path", ["/api/v1/things", "/apis/apps/v1/things", f"{PODS}/web/nothing"])
async def test_an_unknown_resource_of_a_known_group_is_not_found_as_a_status(api: Client, path: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.get(path)
    assert refused.value.code == 404
    assert refused.value.message == "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{PODS}/web"),
        ("PUT", PODS),
        ("PATCH", PODS),
        ("POST", "/api/v1/pods"),
        ("DELETE", "/api/v1/namespaces"),
        ("DELETE", f"{PODS}/web/status"),
    ],
)
async def test_a_verb_that_makes_no_sense_is_not_allowed(api: Client, method: str, path: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.call(method, path, {})
    assert (refused.value.code, refused.value.reason) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [(b"{", "application/json", 400), (b"[1]", "application/json", 400), (b"x", "text/plain", 415)],
)
async def test_a_body_that_cannot_be_read_is_refused(api: Client, body: bytes, kind: str, code: int) -> None:
    async with api.session.post(api.url + PODS, data=body, headers={"Content-Type": kind}) as response:
        assert response.status == code
        assert (await response.json())["kind"] == "Status"


async def test_an_object_may_come_as_yaml(api: Client) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {since: '2026-01-01'}\n"
    url = f"{api.url}/api/v1/namespaces/default/configmaps"
    async with api.session.post(url, data=text, headers={"Content-Type": "application/yaml"}) as response:
        assert response.status == 201


async def test_a_body_that_is_too_large_is_refused(api: Client) -> None:
    headers = {"Content-Type": "application/json"}
    for size, code in ((2_000_000, 400), (4_000_000, 413)):
        async with api.session.post(api.url + PODS, data=io.BytesIO(b"x" * size), headers=headers) as response:
            assert response.status == code


async def test_names_with_special_letters_are_found(api: Client) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    await api.post(path, {"metadata": {"name": "system:reader"}})
    assert (await api.get(f"{path}/system%3Areader"))["metadata"]["name"] == "system:reader"


async def test_with_a_token_only_its_bearer_is_let_in() -> None:
    token = uuid4().hex
    server = EmbeddedApiServer(ServerOptions(token=token))
    await server.start()
    async with Client(server.url) as stranger:
        with pytest.raises(Refused) as refused:
            await stranger.get(NODES)
        assert (refused.value.code, refused.value.reason) == (401, "Unauthorized")
        assert (await stranger.get("/version"))["major"] == "1"
    async with Client(server.url, {"Authorization": f"Bearer {token}"}) as bearer:
        assert await bearer.names(NODES) == []
        review = {"spec": {"token": token}}
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        assert (await bearer.post(path, review))["status"]["authenticated"] is True
        assert (await bearer.post(path, {"spec": {"token": "no"}}))["status"]["authenticated"] is False
    await server.stop()


async def test_permissions_are_granted_on_request(api: Client) -> None:
    spec = {"resourceAttributes": {"verb": "create", "resource": "pods"}}
    answer = await api.post(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": spec})
    assert answer["status"] == {"allowed": True}
    assert answer["spec"] == spec
    rules = await api.post(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    assert rules["status"]["incomplete"] is False
    local = f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"
    assert (await api.post(local, {"spec": {}}))["status"]["allowed"] is True
    me = await api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert me["status"]["userInfo"]["username"] == "sandbox-admin"


async def test_it_speaks_tls_with_a_certificate_of_its_own() -> None:
    identity = make_identity(datetime.now(UTC))
    server = EmbeddedApiServer(tls=identity.ssl_context())
    await server.start()
    assert server.url.startswith("https://127.0.0.1:")
    trusted = ssl.create_default_context(cadata=identity.ca_pem.decode())
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/healthz", ssl=trusted) as response:
            assert await response.text() == "ok"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(f"{server.url}/healthz")
    await server.stop()


async def test_after_a_restart_address_objects_and_versions_are_the_same(server: EmbeddedApiServer) -> None:
    url = server.url
    async with Client(url) as api:
        made = await api.post(NODES, node("a"))
    await server.stop()
    async with Client(url) as api:
        with pytest.raises(aiohttp.ClientConnectorError):
            await api.get(NODES)
    await server.start()
    assert server.url == url
    async with Client(url) as api:
        assert await api.get(f"{NODES}/a") == made


async def test_it_serves_the_other_family_of_addresses_too() -> None:
    with contextlib.closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            pytest.skip(f"this machine has no IPv6: {error}")
    server = EmbeddedApiServer(ServerOptions(host="::1"))
    await server.start()
    assert server.url.startswith("http://[::1]:")
    async with Client(server.url) as api:
        assert await api.names(NODES) == []
    await server.stop()


async def test_an_error_of_our_own_is_a_status_too(api: Client, server: EmbeddedApiServer) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("out of order")

    server.registry.get = broken  # type: ignore[assignment,method-assign] # simulates a fault of ours
    with pytest.raises(Refused) as refused:
        await api.get(f"{NODES}/a")
    assert (refused.value.code, refused.value.reason) == (500, "InternalError")
    assert "out of order" in refused.value.message


async def test_system_priorities_exist(api: Client) -> None:
    classes = await api.get("/apis/scheduling.k8s.io/v1/priorityclasses")
    values = {each["metadata"]["name"]: each["value"] for each in classes["items"]}
    assert values == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
