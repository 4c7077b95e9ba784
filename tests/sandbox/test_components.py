"""Kubernetes' own components and client library against the embedded API server, and hollow nodes on a real one."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from kubernetes import client as kubernetes_client
from kubernetes import config as kubernetes_config
from kubernetes import watch as kubernetes_watch
from tests.sandbox.client import NODES, PODS, Client, pod

from berth.sandbox.kubeconfig import write_kubeconfig
from berth.sandbox.nodes.access import DirectAccess, HttpAccess
from berth.sandbox.nodes.hollow import HollowKubelet, Pace, zoned_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.support.client import ApiClient

    from berth.sandbox.serving.server import EmbeddedApiServer

JsonObject = dict[str, Any]

START_TIMEOUT_S = 90.0
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture
def config(server: EmbeddedApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "config"
    write_kubeconfig(path, server.url)
    return path


@asynccontextmanager
async def component(program: Path, config: Path, *flags: str) -> AsyncIterator[None]:
    """One of Kubernetes' programs, working on the cluster of a kubeconfig."""
    log = config.with_name(f"{program.name}.log")
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--secure-port=0",
            *flags,
            stdout=output,
            stderr=output,
        )
        try:
            yield
            assert process.returncode is None, log.read_text()[-3000:]
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@asynccontextmanager
async def kubelet_on(access: DirectAccess | HttpAccess, count: int) -> AsyncIterator[None]:
    kubelet = HollowKubelet(access, pace=Pace(stop_s=0.01))
    await kubelet.register(zoned_nodes(count, resources={"cpu": "2", "memory": "4Gi", "pods": "10"}))
    task = asyncio.create_task(kubelet.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def running(api: Client, *names: str) -> dict[str, str]:
    """Wait until all *names* run; returns the node of each."""
    found: dict[str, str] = {}
    watch = await api.watch(PODS, fieldSelector="status.phase=Running")
    while not set(names) <= set(found):
        event = await watch.next(START_TIMEOUT_S)
        if event["type"] != "DELETED":
            found[event["object"]["metadata"]["name"]] = event["object"]["spec"]["nodeName"]
    return found


async def test_the_reference_scheduler_binds_and_preempts(
    api: Client, server: EmbeddedApiServer, config: Path, envtest_assets: Path
) -> None:
    await api.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    requests = {"resources": {"requests": {"cpu": "1500m"}}}
    low, high = pod("low"), pod("high", priorityClassName="high", terminationGracePeriodSeconds=5)
    for body in (low, high):
        body["spec"]["containers"][0] |= requests
    async with (
        kubelet_on(DirectAccess(server.registry), 1),
        component(envtest_assets / "kube-scheduler", config, "--leader-elect=true"),
    ):
        await api.post(PODS, low)
        assert (await running(api, "low"))["low"] == "node-0"
        await api.post(PODS, high)
        assert (await running(api, "high"))["high"] == "node-0"
    assert await api.names(PODS) == ["high"]
    events = (await api.get("/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    assert {"Scheduled", "Preempted"} <= {event["reason"] for event in events}
    lease = await api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
    assert lease["spec"]["holderIdentity"]


async def test_the_reference_controllers_make_pods_from_a_deployment(
    api: Client, config: Path, envtest_assets: Path
) -> None:
    flags = ["--leader-elect=false", "--controllers=deployment-controller,replicaset-controller,disruption-controller"]
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x")["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    async with component(envtest_assets / "kube-controller-manager", config, *flags):
        await api.post("/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "web"}, "spec": spec})
        watch = await api.watch(PODS)
        made: list[JsonObject] = []
        while len(made) < 3:
            event = await watch.next(START_TIMEOUT_S)
            if event["type"] == "ADDED":
                made.append(event["object"])
    assert all(each["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet" for each in made)
    assert all(each["metadata"]["generateName"].startswith("web-") for each in made)


def use_the_client_library(config: Path) -> list[str]:
    """What a program written against the official library does."""
    # Its types say that nearly everything may be missing, where they say anything.
    library: Any = kubernetes_client
    configuration: Any = kubernetes_config
    watching: Any = kubernetes_watch
    api_client = configuration.new_client_from_config(str(config))
    core, leases = library.CoreV1Api(api_client), library.CoordinationV1Api(api_client)
    container = library.V1Container(name="main", image="nginx")
    metadata = library.V1ObjectMeta(name="web", labels={"app": "web"})
    core.create_namespaced_pod(
        "default", library.V1Pod(metadata=metadata, spec=library.V1PodSpec(containers=[container]))
    )
    core.patch_namespaced_pod("web", "default", {"metadata": {"labels": {"tier": "front"}}})
    seen = []
    for event in watching.Watch().stream(core.list_namespaced_pod, "default", timeout_seconds=5):
        seen.append(f"{event['type']} {event['object'].metadata.labels}")
        if event["type"] == "ADDED":
            core.delete_namespaced_pod("web", "default")
        if event["type"] == "DELETED":
            break
    spec = library.V1LeaseSpec(holder_identity="me")
    made = leases.create_namespaced_lease(
        "default", library.V1Lease(metadata=library.V1ObjectMeta(name="l"), spec=spec)
    )
    made.spec.holder_identity = "you"
    seen.append(leases.replace_namespaced_lease("l", "default", made).spec.holder_identity)
    api_client.close()
    return seen


async def test_the_python_client_library_works(config: Path) -> None:
    labels = {"app": "web", "tier": "front"}
    seen = await asyncio.to_thread(use_the_client_library, config)
    assert seen == [f"ADDED {labels}", f"MODIFIED {labels}", f"DELETED {labels}", "you"]


async def test_hollow_nodes_serve_a_real_api_server_too(real_api: ApiClient) -> None:
    headers = {"Authorization": f"Bearer {real_api.token}"}
    async with (
        aiohttp.ClientSession(real_api.server, headers=headers, connector=aiohttp.TCPConnector(ssl=False)) as session,
        kubelet_on(HttpAccess(session), 2),
    ):
        access = HttpAccess(session)
        nodes = (await access.request("GET", NODES))["items"]
        assert {"node-0", "node-1"} <= {each["metadata"]["name"] for each in nodes}
        await access.request("POST", PODS, pod("web", nodeName="node-0", terminationGracePeriodSeconds=5))
        await until(access, lambda found: found is not None and found["status"]["phase"] == "Running")
        await access.request("DELETE", f"{PODS}/web", {})
        await until(access, lambda found: found is None)


async def until(access: HttpAccess, condition: Callable[[JsonObject | None], bool]) -> None:
    """Wait until the pod `web`, or its absence, satisfies *condition*."""
    for _ in range(500):
        listed = await access.request("GET", f"{PODS}?fieldSelector=metadata.name%3Dweb")
        if condition(listed["items"][0] if listed["items"] else None):
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not happen")
