"""The proxy does to requests and watches what its plan says, and nothing else."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import pytest
from tests.chaos.faults import FaultPlan, Rates
from tests.chaos.proxy import Asked, ChaosProxy, asked
from tests.integration.objects import a_node, a_pod
from tests.support.client import NODES, PODS, ApiClient, ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.clusters import Cluster, EmbeddedCluster

QUICK_S = 10.0


@contextmanager
def through(cluster: Cluster, rates: Rates, *, tls: bool = False) -> Iterator[tuple[ApiClient, ChaosProxy]]:
    with ChaosProxy(cluster.api.server, FaultPlan(1, rates), tls=tls) as proxy:
        yield ApiClient(proxy.url, cluster.api.token, timeout_s=QUICK_S), proxy


class Watch:
    """A watch of nodes from now on; a context manager."""

    def __init__(self, client: ApiClient) -> None:
        version = client.get(NODES)["metadata"]["resourceVersion"]
        address = urlsplit(client.server)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=QUICK_S)
        path = f"{NODES}?watch=1&resourceVersion={version}"
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {client.token}"})
        self.answer = self._connection.getresponse()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.answer.close()
        self._connection.close()

    def names(self, count: int) -> list[str]:
        """Those of the next *count* events; ConnectionError if the stream ends before."""
        lines = [self.answer.readline() for _ in range(count)]
        if not all(lines):
            raise ConnectionError("the watch ended")
        return [json.loads(line)["object"]["metadata"]["name"] for line in lines]


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/api/v1/pods", Asked("list", "pods")),
        ("GET", "/api/v1/namespaces/default/pods/web", Asked("get", "pods")),
        ("POST", "/api/v1/namespaces/default/pods/web/binding", Asked("create", "pods/binding")),
        ("PATCH", "/api/v1/namespaces/default/pods/web/status", Asked("patch", "pods/status")),
        ("GET", "/api/v1/namespaces/default", Asked("get", "namespaces")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", Asked("update", "leases")),
        ("GET", "/apis/storage.k8s.io/v1/csinodes", Asked("list", "csinodes")),
        ("GET", "/version", Asked("get", "/version")),
        ("GET", "/apis/storage.k8s.io/v1", Asked("get", "/apis/storage.k8s.io/v1")),
    ],
)
def test_it_makes_out_what_a_request_wants(method: str, path: str, wanted: Asked) -> None:
    assert asked(method, path, watch=False) == wanted


def test_without_faults_it_is_not_noticed_over_https(cluster: Cluster) -> None:
    with through(cluster, Rates(), tls=True) as (api, _):
        api.create(a_node("node-a"))
        api.create(a_pod("web"))
        assert cluster.api.get(f"{PODS}/web")["metadata"]["uid"] == api.get(f"{PODS}/web")["metadata"]["uid"]
        with pytest.raises(ApiError, match="NotFound"):
            api.get(f"{PODS}/other")


def test_a_kubeconfig_is_all_that_a_client_needs(embedded: EmbeddedCluster, tmp_path: Path) -> None:
    with ChaosProxy(embedded.api.server, FaultPlan(1)) as proxy:
        text = proxy.kubeconfig(tmp_path / "config", "secret").read_text(encoding="utf-8")
        assert proxy.url in text
        assert "certificate-authority-data" in text
        assert "secret" in text


def test_a_refused_write_does_not_reach_the_server(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates(refuse=1.0)) as (api, proxy):
        with pytest.raises(ApiError) as refused:
            api.create(a_node("node-a"))
        assert refused.value.status in {409, 429, 500}
        assert embedded.api.items(NODES) == []
        assert proxy.plan.counts.total() == 1


def test_a_write_that_times_out_after_commit_was_carried_out(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates(after_commit=1.0)) as (api, _):
        with pytest.raises(ApiError) as late:
            api.create(a_node("node-a"))
        assert late.value.status == 504
        assert len(embedded.api.items(NODES)) == 1


@pytest.mark.parametrize(("rates", "carried_out"), [(Rates(cut=1.0), 0), (Rates(cut_after=1.0), 1)])
def test_a_cut_connection_leaves_the_client_without_an_answer(
    embedded: EmbeddedCluster, rates: Rates, carried_out: int
) -> None:
    with through(embedded, rates) as (api, _):
        with pytest.raises((OSError, http.client.HTTPException)):
            api.create(a_node("node-a"))
        assert len(embedded.api.items(NODES)) == carried_out


def test_a_duplicated_event_comes_twice(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates(duplicate=1.0)) as (api, _), Watch(api) as watch:
        embedded.api.create(a_node("node-a"))
        assert watch.names(2) == ["node-a", "node-a"]


def test_after_lost_events_the_watch_breaks_and_the_next_one_is_told_to_list(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates(lose=1.0)) as (api, _):
        with Watch(api) as watch:
            embedded.api.create(a_node("node-a"))
            with pytest.raises((OSError, http.client.HTTPException)):
                watch.names(1)
        with Watch(api) as told:
            assert told.answer.status == 410


def test_a_watch_breaks_off_in_the_middle(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates(end=1.0)) as (api, _), Watch(api) as watch:
        embedded.api.create(a_node("node-a"))
        embedded.api.create(a_node("node-b"))
        with pytest.raises((OSError, http.client.HTTPException)):
            watch.names(2)


def test_a_stalled_watch_delivers_when_it_is_released(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates()) as (api, proxy), Watch(api) as watch:
        proxy.plan.stalled = frozenset({"nodes"})
        embedded.api.create(a_node("node-a"))
        found: list[Any] = []
        reader = threading.Thread(target=lambda: found.extend(watch.names(1)))
        reader.start()
        reader.join(0.1)
        assert found == []
        proxy.plan.heal()
        reader.join()
        assert found == ["node-a"]


def test_who_is_cut_off_gets_no_answer_until_it_heals(embedded: EmbeddedCluster) -> None:
    with through(embedded, Rates()) as (api, proxy), Watch(api) as watch:
        proxy.isolate()
        with pytest.raises((OSError, http.client.HTTPException)):
            watch.names(1)
        with pytest.raises((OSError, http.client.HTTPException)):
            api.get(NODES)
        proxy.plan.heal()
        assert api.items(NODES) == []


def test_a_server_that_is_away_looks_like_a_broken_connection() -> None:
    with ChaosProxy("http://127.0.0.1:9", FaultPlan(1), tls=False) as proxy:
        with pytest.raises((OSError, http.client.HTTPException)):
            ApiClient(proxy.url, timeout_s=QUICK_S).get(NODES)
        assert proxy.plan.counts.total() == 0


def test_delays_hold_requests_up(embedded: EmbeddedCluster) -> None:
    rates = Rates(delay=1.0, longest_delay_s=0.02)
    with through(embedded, rates) as (api, proxy):
        before_s = time.monotonic()
        api.get(NODES)
        assert proxy.plan.counts["delay"] == 1
        assert proxy.plan.last_fault_s >= before_s
