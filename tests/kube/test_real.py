"""The client against a real API server: what it accepts, and how it behaves when it is killed or forgets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.kube.builders import until
from tests.support.client import PODS, ApiClient
from tests.support.controlplane import ControlPlane

from berth.api.meta import Condition
from berth.api.pod import Pod
from berth.kube.binding import BindResult
from berth.kube.credentials import CredentialKeeper, Kubeconfig
from berth.kube.discovery import discover, server_version
from berth.kube.dispatcher import Dispatcher, PatchResult
from berth.kube.events import EventRecorder, ObjectRef
from berth.kube.leases import ElectionConfig, LeaderElector
from berth.kube.reflector import Reflector, Resource
from berth.kube.session import ApiSession
from berth.kube.status_patch import KnownStatus, StatusChange

ACTIVE_PODS = Resource(path="/api/v1/pods", kind=Pod, field_selector="status.phase!=Succeeded,status.phase!=Failed")


@asynccontextmanager
async def a_session(plane: ControlPlane) -> AsyncIterator[ApiSession]:
    async with ApiSession(await CredentialKeeper.open(Kubeconfig(str(plane.admin_kubeconfig)))) as session:
        yield session


@pytest.fixture(autouse=True)
def cluster(real_api: ApiClient) -> ApiClient:
    return real_api


def a_pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "none"}]},
    }


def uid_of(item: dict[str, Any]) -> str:
    return str(item["metadata"]["uid"])


class Names:
    """Which pods there are, and where, as told by a reflector."""

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}

    def on_add(self, obj: Pod, is_initial: bool) -> None:  # noqa: ARG002  the protocol of handlers
        self.nodes[obj.metadata.name] = obj.spec.node_name

    def on_update(self, old: Pod, new: Pod) -> None:  # noqa: ARG002  the protocol of handlers
        self.nodes[new.metadata.name] = new.spec.node_name

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:  # noqa: ARG002  the protocol of handlers
        del self.nodes[obj.metadata.name]


@asynccontextmanager
async def reflecting(session: ApiSession, names: Names, page_limit: int = 500) -> AsyncIterator[Reflector[Pod]]:
    reflector = Reflector(session, ACTIVE_PODS, [names], page_limit=page_limit)
    task = asyncio.create_task(reflector.run())
    try:
        await reflector.wait_synced()
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_server_says_what_it_is_and_serves(control_plane: ControlPlane) -> None:
    async with a_session(control_plane) as session:
        version = await server_version(session)
        served = await discover(session, ["v1", "events.k8s.io/v1", "no.such.group/v1"])
    assert version.git_version == control_plane.version
    assert served.serves("v1", "pods/binding")
    assert served.serves("events.k8s.io/v1", "events")
    assert not served.serves("no.such.group/v1", "things")


async def test_pods_are_listed_in_pages_and_watched_until_they_end(
    control_plane: ControlPlane, cluster: ApiClient
) -> None:
    for n in range(5):
        cluster.create(a_pod(f"p{n}"))
    async with a_session(control_plane) as session:
        names = Names()
        async with reflecting(session, names, page_limit=2):
            assert set(names.nodes) == {f"p{n}" for n in range(5)}
            cluster.create(a_pod("late"))
            cluster.patch(f"{PODS}/p0/status", {"status": {"phase": "Succeeded"}})
            cluster.delete(f"{PODS}/p1")
            await until(lambda: set(names.nodes) == {"p2", "p3", "p4", "late"})


async def test_a_pod_is_bound_once_and_every_other_outcome_is_told_apart(
    control_plane: ControlPlane, cluster: ApiClient
) -> None:
    uid = uid_of(cluster.create(a_pod("web")))
    async with a_session(control_plane) as session:
        writes = Dispatcher(session, qps=-1, burst=0)
        names = Names()
        async with reflecting(session, names):
            outcomes = [
                await writes.bind_pod("default", "web", uid, "n1"),
                await writes.bind_pod("default", "web", uid, "n1"),
                await writes.bind_pod("default", "web", uid, "n2"),
                await writes.bind_pod("default", "web", "another", "n1"),
                await writes.bind_pod("default", "none", uid, "n1"),
            ]
            await until(lambda: names.nodes == {"web": "n1"})
    assert [outcome.result for outcome in outcomes] == [
        BindResult.BOUND,
        BindResult.BOUND,
        BindResult.CONFLICT,
        BindResult.CONFLICT,
        BindResult.GONE,
    ]
    assert outcomes[2].node == "n1"


async def test_status_patches_leave_the_conditions_of_others_alone(
    control_plane: ControlPlane, cluster: ApiClient
) -> None:
    uid = uid_of(cluster.create(a_pod("web")))
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    cluster.patch(f"{PODS}/web/status", {"status": {"conditions": [ready]}})
    refused = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="no room")
    async with a_session(control_plane) as session:
        writes = Dispatcher(session, qps=-1, burst=0)
        before = KnownStatus()
        change = StatusChange(conditions=(refused,), nominated_node_name="n1")
        assert (await writes.patch_status("default", "web", uid, before, change)).result is PatchResult.WRITTEN
        status = cluster.get(f"{PODS}/web")["status"]
        messages = {condition["type"]: condition.get("message") for condition in status["conditions"]}
        assert (messages, status["nominatedNodeName"]) == ({"Ready": None, "PodScheduled": "no room"}, "n1")
        nominated = KnownStatus(conditions=(refused,), nominated_node_name="n1")
        clear = StatusChange(nominated_node_name="")
        assert (await writes.patch_status("default", "web", uid, nominated, clear)).result is PatchResult.WRITTEN
        assert "nominatedNodeName" not in cluster.get(f"{PODS}/web")["status"]
        assert (await writes.patch_status("default", "none", "u", before, change)).result is PatchResult.GONE
        assert await writes.delete_pod("default", "web", "another") is False
        assert await writes.delete_pod("default", "web", uid) is True


async def test_events_and_series_are_accepted(control_plane: ControlPlane, cluster: ApiClient) -> None:
    pod = cluster.create(a_pod("web"))
    regarding = ObjectRef(kind="Pod", namespace="default", name="web", uid=uid_of(pod), api_version="v1")
    async with a_session(control_plane) as session:
        recorder = EventRecorder(session, hostname="host", qps=-1, burst=0)
        task = asyncio.create_task(recorder.run())
        for _ in range(2):
            recorder.event(regarding, "Warning", "FailedScheduling", "Scheduling", "x" * 2000, controller="mine")
            await recorder.drain()
        recorder.core_event(regarding, "Normal", "LeaderElection", "me became leader", component="mine")
        await recorder.drain()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (recorder.failed, recorder.dropped) == (0, 0)
    by_reason = {item["reason"]: item for item in cluster.items("/apis/events.k8s.io/v1/namespaces/default/events")}
    assert by_reason["FailedScheduling"]["series"]["count"] == 2
    assert by_reason["FailedScheduling"]["reportingInstance"] == "mine-host"
    assert by_reason["LeaderElection"]["note"] == "me became leader"


async def test_a_lease_is_taken_and_released(control_plane: ControlPlane, cluster: ApiClient) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/election"
    leading = asyncio.Event()

    async def work() -> None:
        leading.set()
        await asyncio.Event().wait()

    async with a_session(control_plane) as session:
        elector = LeaderElector(
            session,
            ElectionConfig(namespace="default", name="election"),
            "me",
            on_started_leading=work,
            on_stopped_leading=lambda: None,
        )
        task = asyncio.create_task(elector.run())
        async with asyncio.timeout(10):
            await leading.wait()
        assert cluster.get(path)["spec"]["holderIdentity"] == "me"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert cluster.get(path)["spec"].get("holderIdentity", "") == ""
    cluster.delete(path)


@pytest.fixture
def own_plane(envtest_assets: Any) -> Iterator[ControlPlane]:
    """A control plane that a test may kill."""
    with ControlPlane(envtest_assets) as plane:
        yield plane


async def test_a_restart_that_forgets_the_past_is_caught_up_with(own_plane: ControlPlane) -> None:
    cluster = own_plane.client()
    for name in ("stays", "goes"):
        cluster.create(a_pod(name))
    async with a_session(own_plane) as session:
        names = Names()
        async with reflecting(session, names):
            own_plane.compact_etcd()
            await asyncio.to_thread(own_plane.restart_apiserver)
            await asyncio.to_thread(cluster.delete, f"{PODS}/goes")
            await asyncio.to_thread(cluster.create, a_pod("comes"))
            async with asyncio.timeout(60):
                while set(names.nodes) != {"stays", "comes"}:  # noqa: ASYNC110  the reflector fills it on its own
                    await asyncio.sleep(0.05)
