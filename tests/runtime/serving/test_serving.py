"""The HTTPS server over real TLS on the loopback: who gets which page."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import trustme
import yaml
from tests.runtime.doubles import ACCESS_REVIEWS, CONFIG_MAP, FakeApi, pace

from berth.config.options import RunOptions
from berth.kube.errors import ServerError
from berth.runtime.logs import LogControl
from berth.runtime.metrics.exposition import Exposer
from berth.runtime.metrics.instruments import Registry
from berth.runtime.serving import server as serving
from berth.runtime.serving.authentication import Authenticator
from berth.runtime.serving.authorization import Authorizer
from berth.runtime.serving.certificates import TlsKeeper
from berth.runtime.serving.health import HealthMetrics, scheduler_endpoints
from berth.runtime.serving.pages import Shown, Status, scheduler_pages
from berth.runtime.serving.server import ListenError, SecureServer, open_listener
from berth.runtime.serving.trust import TrustKeeper

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

AUTHORITY = trustme.CA()
ISSUED = AUTHORITY.issue_cert("localhost")


@dataclass
class Running:
    """A server, and what one needs to ask it."""

    url: str
    api: FakeApi
    registry: Registry
    log: LogControl
    synced: list[bool] = field(default_factory=lambda: [True])

    async def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        bearer: str = "",
        certificate: trustme.LeafCert | None = None,
        data: str | None = None,
        version: ssl.TLSVersion | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, str, dict[str, str]]:
        context = ssl.create_default_context()
        AUTHORITY.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        if version is not None:
            context.minimum_version = context.maximum_version = version
        sent = dict(headers or {})
        if bearer:
            sent["Authorization"] = f"Bearer {bearer}"
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
            session.request(method, self.url + path, headers=sent, data=data) as answer,
        ):
            return answer.status, await answer.text(), dict(answer.headers)


def pages_of(registry: Registry, control: LogControl, synced: list[bool], **changes: Any) -> Shown:
    slis = Registry()
    health = scheduler_endpoints(
        synced=lambda: synced[0], stopping=lambda: False, election=lambda: None, metrics=HealthMetrics(slis)
    )
    status = Status(binary_version="1.37", emulation_version="1.36", started_s=1000.5, now_s=lambda: 1000.5 + 3725)
    return Shown(
        **{
            "health": health,
            "metrics": Exposer(registry),
            "slis": Exposer(slis),
            "config": lambda: {"kind": "KubeSchedulerConfiguration"},
            "status": status,
            "flags": {"v": "2", "config": "/etc/c.yaml"},
            "log": control,
            **changes,
        }
    )


@asynccontextmanager
async def running(
    tmp_path: Path, options: RunOptions | None = None, api: FakeApi | None = None, **changes: Any
) -> AsyncIterator[Running]:
    """A server with a certificate of `AUTHORITY`; *api* answers its reviews."""
    ISSUED.private_key_pem.write_to_path(tmp_path / "tls.key")
    ISSUED.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    options = options or RunOptions(
        tls_cert_file=str(tmp_path / "tls.crt"), tls_private_key_file=str(tmp_path / "tls.key")
    )
    api = api or FakeApi()
    trust = TrustKeeper(options, api)
    await trust.open()
    tls = TlsKeeper(options, trust)
    await tls.open()
    registry, log, synced = Registry(), LogControl(0), [True]
    authenticator = Authenticator(api, pace(), trust, token_ttl_s=10.0)
    authorizer = Authorizer(
        api, pace(), always_allow=options.authorization_always_allow_paths, allowed_ttl_s=10.0, denied_ttl_s=10.0
    )
    listener = socket.create_server(("127.0.0.1", 0))
    pages = scheduler_pages(pages_of(registry, log, synced, **changes))
    server = SecureServer(listener, tls, authenticator, authorizer, pages)
    await server.start()
    try:
        yield Running(f"https://localhost:{server.address[1]}", api, registry, log, synced)
    finally:
        await server.close()


def monitored_api() -> FakeApi:
    api = FakeApi()
    api.knows_tokens(prometheus={"username": "prometheus"}, stranger={"username": "stranger"})
    api.allows("prometheus", reason="said the test")
    return api


async def test_probes_are_answered_without_asking_who_it_is(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        for path in ("/healthz", "/livez", "/readyz"):
            status, text, headers = await server.ask(path)
            assert (status, text) == (200, "ok")
            assert headers["Content-Type"] == "text/plain; charset=utf-8"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Cache-Control"] == "no-cache, private"
        assert ACCESS_REVIEWS not in server.api.asked


async def test_readiness_takes_its_switches_from_the_query(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        server.synced[0] = False
        status, text, _ = await server.ask("/readyz")
        assert (status, text.splitlines()[-1]) == (500, "readyz check failed")
        assert "[-]sched-handler-sync failed: reason withheld" in text
        status, text, _ = await server.ask("/readyz?verbose&exclude=sched-handler-sync")
        assert status == 200
        assert text.splitlines() == [
            "[+]leaderElection ok",
            "[+]shutdown ok",
            "[+]sched-handler-sync excluded: ok",
            "readyz check passed",
        ]


async def test_a_probe_may_ask_for_the_head_only(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        assert (await server.ask("/livez", "HEAD"))[:2] == (200, "")


async def test_a_single_check_is_not_for_everybody(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        assert (await server.ask("/readyz/shutdown"))[0] == 403
        assert (await server.ask("/readyz/shutdown", bearer="prometheus"))[:2] == (200, "ok")
        server.synced[0] = False
        status, text, _ = await server.ask("/readyz/sched-handler-sync", bearer="prometheus")
        assert (status, text) == (500, "internal server error: waiting for handlers to sync\n")
        assert (await server.ask("/readyz/other", bearer="prometheus"))[0] == 404


async def test_metrics_are_for_those_whom_the_api_server_allows(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        server.registry.counter("a_total", "A.")[()].inc()
        status, text, headers = await server.ask("/metrics", bearer="prometheus")
        assert status == 200
        assert "a_total 1" in text
        assert headers["Process-Start-Time-Unix"] == "1000"
        asked = server.api.asked[ACCESS_REVIEWS][-1]["spec"]
        assert asked["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


async def test_a_stranger_is_refused_in_the_words_of_kubernetes(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        status, text, headers = await server.ask("/metrics", bearer="stranger")
        assert (status, headers["Content-Type"]) == (403, "application/json")
        body = json.loads(text)
        assert (body["kind"], body["code"], body["reason"]) == ("Status", 403, "Forbidden")
        assert body["message"] == 'forbidden: User "stranger" cannot get path "/metrics": said the test'
        _, text, _ = await server.ask("/metrics")
        assert 'User "system:anonymous"' in json.loads(text)["message"]


async def test_a_token_nobody_knows_gets_401_even_where_all_are_welcome(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        for path in ("/metrics", "/healthz"):
            status, text, _ = await server.ask(path, bearer="forged")
            assert (status, json.loads(text)["message"]) == (401, "Unauthorized")


async def test_without_an_answer_from_the_api_server_nothing_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("berth.runtime.serving.delegation._TRIES", 1)
    api = monitored_api()

    def away(_: Any) -> Any:
        raise ServerError(503, "ServiceUnavailable")

    api.answers[ACCESS_REVIEWS] = away
    async with running(tmp_path, api=api) as server:
        assert (await server.ask("/metrics", bearer="prometheus"))[0] == 500
        assert (await server.ask("/healthz"))[0] == 200


async def test_what_does_not_exist_is_told_only_to_those_who_may_ask(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        assert (await server.ask("/nothing"))[0] == 403
        assert (await server.ask("/nothing", bearer="prometheus"))[0] == 404


async def test_a_path_that_only_looks_like_an_open_one_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        for path in ("/healthz/", "//healthz", "/healthz%2Fping", "/metrics?x=/healthz"):
            assert (await server.ask(path))[0] == 403


async def test_methods_that_a_page_does_not_know_are_refused(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        status, _, headers = await server.ask("/healthz", "POST")
        assert (status, headers["Allow"]) == (405, "GET")
        assert (await server.ask("/metrics", "PUT", bearer="prometheus"))[0] == 405


async def test_metrics_can_be_reset(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        server.registry.counter("a_total", "A.")[()].inc()
        assert (await server.ask("/metrics", "DELETE", bearer="prometheus"))[:2] == (200, "metrics reset\n")
        assert "a_total 0" in (await server.ask("/metrics", bearer="prometheus"))[1]


async def test_checks_have_a_metrics_page_of_their_own(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        await server.ask("/livez")
        _, text, _ = await server.ask("/metrics/slis", bearer="prometheus")
        assert 'kubernetes_healthcheck{name="ping",type="livez"} 1' in text


async def test_the_configuration_in_use_is_shown(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        _, text, _ = await server.ask("/configz", bearer="prometheus")
        assert json.loads(text) == {"componentconfig": {"kind": "KubeSchedulerConfiguration"}}


async def test_flags_are_shown_to_people_and_as_an_object(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        _, text, _ = await server.ask("/flagz", bearer="prometheus")
        lines = text.splitlines()
        assert lines[:2] == ["", "kube-scheduler flagz"]
        assert lines[-2:] == ["config=/etc/c.yaml", "v=2"]
        wanted = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
        _, text, headers = await server.ask("/flagz", bearer="prometheus", headers={"Accept": wanted})
        assert json.loads(text) == {
            "kind": "Flagz",
            "apiVersion": "config.k8s.io/v1beta1",
            "metadata": {"name": "kube-scheduler"},
            "flags": {"config": "/etc/c.yaml", "v": "2"},
        }
        assert "Warning" not in headers


async def test_status_is_shown_to_people_and_as_an_object(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        _, text, _ = await server.ask("/statusz", bearer="prometheus")
        assert "Up: 1 hr 02 min 05 sec" in text
        assert "Started: Thu, 01 Jan 1970 00:16:40 GMT" in text
        wanted = "application/yaml;v=v1alpha1;g=config.k8s.io;as=Statusz"
        _, text, headers = await server.ask("/statusz", bearer="prometheus", headers={"Accept": wanted})
        status = yaml.safe_load(text)
        assert (status["uptimeSeconds"], status["emulationVersion"]) == (3725, "1.36")
        assert status["paths"] == ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"]
        assert "v1alpha1" in headers["Warning"]


UNACCEPTABLE = (
    "application/json",
    "application/json;v=v1beta1;g=config.k8s.io;as=Statusz",
    "application/json;v=v9;g=config.k8s.io;as=Flagz",
    "application/cbor;v=v1beta1;g=config.k8s.io;as=Flagz",
)


@pytest.mark.parametrize("accept", UNACCEPTABLE)
async def test_other_forms_are_not_to_be_had(tmp_path: Path, accept: str) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        assert (await server.ask("/flagz", bearer="prometheus", headers={"Accept": accept}))[0] == 406


async def test_pages_can_be_left_out(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api(), flagz=False, statusz=False, log=None) as server:
        for path in ("/flagz", "/statusz", "/debug/flags/v"):
            assert (await server.ask(path, bearer="prometheus"))[0] == 404


async def test_verbosity_is_turned_by_a_put(tmp_path: Path) -> None:
    async with running(tmp_path, api=monitored_api()) as server:
        assert (await server.ask("/debug/flags/v", "PUT", bearer="prometheus", data="4"))[0] == 200
        assert server.log.verbosity == 4
        assert (await server.ask("/debug/flags/v", "PUT", bearer="prometheus", data="much"))[0] == 400
        assert (await server.ask("/debug/flags/v", bearer="prometheus"))[0] == 406
        assert server.log.verbosity == 4
        await server.ask("/debug/flags/v", "PUT", bearer="prometheus", data="0")


CLIENTS, PROXIES = trustme.CA(), trustme.CA()


def cluster_config_map(_: Any) -> Any:
    """What kube-apiserver publishes for servers like ours."""
    return {
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {
            "client-ca-file": CLIENTS.cert_pem.bytes().decode(),
            "requestheader-client-ca-file": PROXIES.cert_pem.bytes().decode(),
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        },
    }


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_certificates_of_the_clusters_authority_count(tmp_path: Path, version: ssl.TLSVersion) -> None:
    api = monitored_api()
    api.answers[CONFIG_MAP] = cluster_config_map
    admin = CLIENTS.issue_cert("admin.example", common_name="admin", organization_name="system:masters")
    async with running(tmp_path, api=api) as server:
        for _ in range(2):
            assert (await server.ask("/configz", certificate=admin, version=version))[0] == 200
        assert ACCESS_REVIEWS not in api.asked, "administrators are not asked about"
        assert (await server.ask("/healthz"))[0] == 200, "a certificate is not asked of everybody"


async def test_a_certificate_of_the_proxies_authority_makes_nobody_an_administrator(tmp_path: Path) -> None:
    api = monitored_api()
    api.answers[CONFIG_MAP] = cluster_config_map
    posing = PROXIES.issue_cert("x.example", common_name="front-proxy-client", organization_name="system:masters")
    async with running(tmp_path, api=api) as server:
        assert (await server.ask("/configz", certificate=posing))[0] == 401
        said = {"X-Remote-User": "prometheus", "X-Remote-Group": "mon"}
        assert (await server.ask("/configz", certificate=posing, headers=said))[0] == 200
        assert api.asked[ACCESS_REVIEWS][-1]["spec"]["groups"] == ["mon", "system:authenticated"]


async def test_a_certificate_of_an_unknown_authority_does_not_get_through(tmp_path: Path) -> None:
    api = monitored_api()
    api.answers[CONFIG_MAP] = cluster_config_map
    stranger = trustme.CA().issue_cert("x.example", common_name="admin", organization_name="system:masters")
    async with running(tmp_path, api=api) as server:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await server.ask("/configz", certificate=stranger)


async def test_a_connection_that_stays_silent_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_READ_HEADER_S", 0.2)
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    async with running(tmp_path) as server:
        port = int(server.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
        try:
            said = await reader.read()
        except ConnectionError:
            said = b""  # a reset is as good as an end
        assert said == b""
        writer.close()


async def test_port_zero_serves_nothing() -> None:
    assert open_listener(RunOptions(secure_port=0)) is None


async def test_a_port_in_use_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"127.0.0.1:{port}: Address already in use"):
            open_listener(RunOptions(secure_port=port, bind_address="127.0.0.1"))


async def test_ports_can_be_shared_on_request() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as taken:
        port = taken.getsockname()[1]
        shared = open_listener(RunOptions(secure_port=port, bind_address="127.0.0.1", permit_port_sharing=True))
        assert shared is not None
        shared.close()
