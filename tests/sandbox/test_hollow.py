"""The hollow kubelet: bound pods run, deleted pods go."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, pod

from berth.sandbox.nodes.access import DirectAccess, HttpAccess
from berth.sandbox.nodes.hollow import HollowKubelet, HollowNode, Pace, offer, zoned_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from berth.sandbox.nodes.hollow import Access
    from berth.sandbox.serving.server import EmbeddedApiServer


@pytest.fixture(params=["in the same process", "over HTTP"])
async def access(request: pytest.FixtureRequest, server: EmbeddedApiServer) -> AsyncIterator[Access]:
    if request.param == "in the same process":
        yield DirectAccess(server.registry)
        return
    async with aiohttp.ClientSession(base_url=server.url) as session:
        yield HttpAccess(session)


@asynccontextmanager
async def running(kubelet: HollowKubelet) -> AsyncIterator[None]:
    task = asyncio.create_task(kubelet.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_nodes_are_dealt_out_over_the_zones() -> None:
    nodes = zoned_nodes(11)
    assert [node.zone for node in nodes[:4]] == ["zone-a", "zone-b", "zone-c", "zone-a"]
    assert [nodes[0].name, nodes[10].name] == ["node-00", "node-10"]


async def test_registered_nodes_are_ready_and_carry_what_was_asked_for(api: Client, access: Access) -> None:
    gpu = HollowNode(
        name="gpu-1",
        zone="zone-c",
        resources={"cpu": "64", "memory": "256Gi", "pods": "110", "example.com/gpu": "8"},
        labels={"pool": "gpu"},
        taints=({"key": "gpu", "value": "yes", "effect": "NoSchedule"},),
    )
    await HollowKubelet(access).register([gpu])
    node = await api.get(f"{NODES}/gpu-1")
    assert node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-c"
    assert node["metadata"]["labels"]["pool"] == "gpu"
    assert node["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert node["status"]["allocatable"]["example.com/gpu"] == "8"
    assert {c["type"]: c["status"] for c in node["status"]["conditions"]}["Ready"] == "True"


async def test_registering_a_node_twice_leaves_it_as_it_is(api: Client, access: Access) -> None:
    await HollowKubelet(access).register(zoned_nodes(1))
    before = await api.get(f"{NODES}/node-0")
    await HollowKubelet(access).register(zoned_nodes(1))
    assert await api.get(f"{NODES}/node-0") == before


async def test_a_bound_pod_runs_and_a_deleted_one_goes(api: Client, access: Access) -> None:
    kubelet = HollowKubelet(access)
    await kubelet.register(zoned_nodes(1))
    async with running(kubelet):
        await api.post(PODS, pod("web"))
        watch = await api.watch(PODS, fieldSelector="metadata.name=web,status.phase=Running")
        await api.bind("web", "node-0")
        status = (await watch.next())["object"]["status"]
        assert {c["type"] for c in status["conditions"] if c["status"] == "True"} == {
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        }
        assert status["podIP"]
        assert status["startTime"]
        assert status["containerStatuses"][0]["ready"] is True
        marked = await api.delete(f"{PODS}/web")
        assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
        events = await watch.take(3)
        assert [kind for kind, _ in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    with pytest.raises(Refused, match="not found"):
        await api.get(f"{PODS}/web")


async def test_pods_that_were_bound_before_the_kubelet_came_run_too(api: Client, access: Access) -> None:
    await api.post(PODS, pod("early", nodeName="node-0"))
    watch = await api.watch(PODS, fieldSelector="status.phase=Running")
    async with running(HollowKubelet(access)):
        assert await watch.take(1) == [("ADDED", "early")]


STOPS = {
    "a stopping pod never outlasts its grace": (Pace(stop_s=3600), None, (5, 7)),
    "a pod without a hook stops as fast as the kubelet": (Pace(stop_s=1), None, (1, 1)),
    "a preStop hook that sleeps keeps the pod for as long": (Pace(stop_s=1), 3, (4, 4)),
    "a hook that outsleeps the grace is cut off with it": (Pace(), 3600, (5, 7)),
}


@pytest.mark.parametrize(("pace", "hook_s", "want"), STOPS.values(), ids=STOPS.keys())
async def test_how_long_a_pod_takes_to_stop(
    api: Client, server: EmbeddedApiServer, pace: Pace, hook_s: int | None, want: tuple[float, float]
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    kubelet = HollowKubelet(DirectAccess(server.registry), pace=pace, sleep=sleep)
    container: dict[str, object] = {"name": "main", "image": "pause"}
    if hook_s is not None:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": hook_s}}}
    spec = {"nodeName": "node-0", "terminationGracePeriodSeconds": 7, "containers": [container]}
    await api.post(PODS, pod("web", **spec))
    async with running(kubelet):
        watch = await api.watch(PODS, fieldSelector="status.phase=Running")
        await watch.next()
        await api.delete(f"{PODS}/web")
        await watch.take(2)
    at_least_s, at_most_s = want
    assert at_least_s <= waits[-1] <= at_most_s


async def test_pods_of_jobs_succeed_and_others_run_on(api: Client, access: Access) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "1", "controller": True}
    await api.post(PODS, pod("sum", metadata={"ownerReferences": [job]}, nodeName="node-0", restartPolicy="Never"))
    watch = await api.watch(PODS, fieldSelector="status.phase=Succeeded")
    async with running(HollowKubelet(access, pace=Pace(job_s=0.0))):
        await api.post(PODS, pod("web", nodeName="node-0"))
        status = (await watch.next())["object"]["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "False"
    (container,) = status["containerStatuses"]
    assert container["ready"] is False
    assert container["state"]["terminated"]["exitCode"] == 0
    assert "running" not in container["state"]
    assert (await api.get(f"{PODS}/web"))["status"]["phase"] != "Succeeded"


OFFERS = {
    "what capacity and allocatable agree on stays": ({"cpu": "8"}, {"cpu": "8"}, {}),
    "a resource added to the capacity can be allocated": ({"cpu": "8", "a.b/c": "5"}, {"cpu": "8"}, {"a.b/c": "5"}),
    "a resource taken out of the capacity cannot": ({"cpu": "8"}, {"cpu": "8", "a.b/c": "5"}, {"a.b/c": None}),
    "what is held back from the capacity stays held back": ({"cpu": "8"}, {"cpu": "7"}, {}),
}


@pytest.mark.parametrize(("capacity", "allocatable", "want"), OFFERS.values(), ids=OFFERS.keys())
def test_what_a_node_offers(capacity: dict[str, str], allocatable: dict[str, str], want: dict[str, str | None]) -> None:
    assert offer({"capacity": capacity, "allocatable": allocatable}) == want


async def test_heartbeats_offer_what_was_added_to_a_nodes_capacity(api: Client, access: Access) -> None:
    kubelet = HollowKubelet(access, pace=Pace(heartbeat_s=0.001))
    await kubelet.register(zoned_nodes(1))
    watch = await api.watch(NODES)
    await watch.next()
    await access.request("PATCH", f"{NODES}/node-0/status", {"status": {"capacity": {"example.com/gpu": "3"}}})
    await watch.next()
    async with running(kubelet):
        status = (await watch.next())["object"]["status"]
    assert status["allocatable"] == status["capacity"]
    assert status["allocatable"]["example.com/gpu"] == "3"


async def test_heartbeats_renew_a_lease_per_node(api: Client, server: EmbeddedApiServer) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    kubelet = HollowKubelet(DirectAccess(server.registry), pace=Pace(heartbeat_s=0.001))
    await kubelet.register(zoned_nodes(2))
    watch = await api.watch(leases)
    async with running(kubelet):
        events = await watch.take(4)
    assert sorted(events) == [("ADDED", "node-0"), ("ADDED", "node-1"), ("MODIFIED", "node-0"), ("MODIFIED", "node-1")]
    assert (await api.get(f"{leases}/node-0"))["spec"]["holderIdentity"] == "node-0"
