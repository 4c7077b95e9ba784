"""kubectl against the embedded API server: what a newcomer types."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from berth.sandbox.kubeconfig import write_kubeconfig
from berth.sandbox.nodes.access import DirectAccess
from berth.sandbox.nodes.hollow import HollowKubelet, Pace, zoned_nodes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.sandbox.client import Client

    from berth.sandbox.serving.server import EmbeddedApiServer

COMMAND_TIMEOUT_S = 30.0
BUILT = Path.home() / ".cache" / "berth" / "envtest"

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: nginx:1
    resources: {requests: {cpu: 0.5, memory: 64Mi}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: dep}
spec:
  replicas: 2
  selector: {matchLabels: {app: dep}}
  template:
    metadata: {labels: {app: dep}}
    spec:
      containers: [{name: c, image: nginx}]
"""


def find_kubectl() -> str | None:
    """The one that was built with the real control plane, else the one on the path."""
    built = sorted(BUILT.glob("*/kubectl"))
    return str(built[-1]) if built else shutil.which("kubectl")


class Kubectl:
    """Runs kubectl; a refusal is an `AssertionError` with what it said."""

    def __init__(self, program: str, config: Path) -> None:
        self._program = program
        self._environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(config.parent)}

    async def run(self, *arguments: str, text: str = "") -> tuple[int, str]:
        """Exit code and everything it printed."""
        process = await asyncio.create_subprocess_exec(
            self._program,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            output, _ = await process.communicate(text.encode())
        return process.returncode or 0, output.decode()

    async def __call__(self, *arguments: str, text: str = "") -> str:
        code, output = await self.run(*arguments, text=text)
        assert code == 0, output
        return output

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self(*arguments, "-o", "json"))

    async def rows(self, *arguments: str) -> list[list[str]]:
        return [line.split() for line in (await self(*arguments)).splitlines()]


@pytest.fixture
async def kubectl(server: EmbeddedApiServer, tmp_path: Path) -> Kubectl:
    program = find_kubectl()
    if program is None:
        reason = f"no kubectl on the path or below {BUILT}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    config = tmp_path / "config"
    write_kubeconfig(config, server.url)
    return Kubectl(program, config)


@pytest.fixture
async def nodes(server: EmbeddedApiServer) -> AsyncIterator[None]:
    kubelet = HollowKubelet(DirectAccess(server.registry), pace=Pace(stop_s=0.01))
    await kubelet.register(zoned_nodes(2))
    task = asyncio.create_task(kubelet.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("nodes")
async def test_get_shows_the_columns_that_people_know(kubectl: Kubectl) -> None:
    rows = await kubectl.rows("get", "nodes")
    assert rows[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row[:3] for row in rows[1:]] == [["node-0", "Ready", "<none>"], ["node-1", "Ready", "<none>"]]
    wide = await kubectl("get", "nodes", "-o", "wide")
    assert "CONTAINER-RUNTIME" in wide
    assert "Hollow Linux" in wide
    namespaces = await kubectl.rows("get", "ns", "--no-headers")
    assert ["default", "Active"] in [row[:2] for row in namespaces]


async def test_version_and_resources_are_told(kubectl: Kubectl) -> None:
    assert "Server Version: v1.37.0" in await kubectl("version")
    resources = await kubectl("api-resources")
    for line in ("pods po v1 true Pod", "leases coordination.k8s.io/v1 true Lease", "nodes no v1 false Node"):
        assert line.split() in [row.split() for row in resources.splitlines()]
    assert "scheduling.k8s.io/v1beta1" in await kubectl("api-versions")


async def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", text=POD) == "pod/web created\n"
    again = await kubectl("apply", "-f", "-", text=POD.replace("app: web}", "app: web, tier: front}"))
    assert again == "pod/web configured\n"
    made = await kubectl.json("get", "pod", "web")
    assert made["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert made["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "500m"
    assert await kubectl("apply", "-f", "-", text=DEPLOYMENT) == "deployment.apps/dep created\n"
    assert await kubectl("apply", "-f", "-", text=DEPLOYMENT) == "deployment.apps/dep unchanged\n"
    more = DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    assert await kubectl("apply", "-f", "-", text=more) == "deployment.apps/dep configured\n"
    assert (await kubectl.rows("get", "deploy", "dep"))[1][:2] == ["dep", "0/3"]


async def test_apply_removes_what_was_taken_out(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=POD.replace("app: web}", "app: web, tier: front}"))
    await kubectl("apply", "-f", "-", text=POD)
    assert (await kubectl.json("get", "pod", "web"))["metadata"]["labels"] == {"app": "web"}


async def test_apply_on_the_server_side(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "--server-side", "-f", "-", text=POD) == "pod/web serverside-applied\n"
    assert await kubectl("apply", "--server-side", "-f", "-", text=POD) == "pod/web serverside-applied\n"


async def test_a_misspelt_field_is_refused(kubectl: Kubectl) -> None:
    code, output = await kubectl.run("apply", "-f", "-", text=POD.replace("image:", "imagee:"))
    assert code == 1
    assert 'strict decoding error: unknown field "spec.containers[0].imagee"' in output


async def test_an_invalid_object_is_refused_with_the_reason(kubectl: Kubectl) -> None:
    code, output = await kubectl.run("create", "-f", "-", text=POD.replace("name: main", "name: Main"))
    assert code == 1
    assert 'The Pod "web" is invalid: spec.containers[0].name: Invalid value: "Main"' in output


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "namespace", "team"),
        ("create", "configmap", "c", "--from-literal=a=b"),
        ("create", "secret", "generic", "s", "--from-literal=a=b"),
        ("create", "deployment", "d", "--image=nginx"),
        ("create", "job", "j", "--image=nginx"),
        ("create", "service", "clusterip", "s", "--tcp=80:80"),
        ("create", "serviceaccount", "a"),
        ("create", "priorityclass", "p", "--value=5"),
        ("create", "poddisruptionbudget", "b", "--selector=a=b", "--min-available=1"),
        ("create", "quota", "q", "--hard=cpu=1"),
        ("create", "role", "r", "--verb=get", "--resource=pods"),
        ("run", "web", "--image=nginx"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
async def test_create(kubectl: Kubectl, arguments: tuple[str, ...]) -> None:
    assert (await kubectl(*arguments)).endswith(" created\n")


async def test_label_annotate_patch_and_replace(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    await kubectl("label", "pod", "web", "tier=front")
    await kubectl("annotate", "pod", "web", "note=hello")
    await kubectl("label", "pod", "web", "app-")
    await kubectl("patch", "pod", "web", "-p", '{"metadata":{"labels":{"x":"y"}}}')
    metadata = (await kubectl.json("get", "pod", "web"))["metadata"]
    assert metadata["labels"] == {"tier": "front", "x": "y"}
    assert metadata["annotations"] == {"note": "hello"}
    assert "web" in await kubectl("get", "pods", "-l", "tier=front", "--show-labels")
    assert await kubectl("get", "pods", "-l", "tier=back") == "No resources found in default namespace.\n"
    assert "web" in await kubectl("get", "pods", "--field-selector", "status.phase=Pending")
    await kubectl("replace", "-f", "-", text=POD)
    assert (await kubectl.json("get", "pod", "web"))["metadata"]["labels"] == {"app": "web"}


async def test_describe_shows_a_pod_with_its_events(kubectl: Kubectl, api: Client) -> None:
    await kubectl("create", "-f", "-", text=POD)
    made = await kubectl.json("get", "pod", "web")
    event = {
        "metadata": {"name": "web.1"},
        "regarding": {"kind": "Pod", "name": "web", "namespace": "default", "uid": made["metadata"]["uid"]},
        "type": "Warning",
        "reason": "FailedScheduling",
        "action": "Scheduling",
        "note": "0/0 nodes are available.",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "eventTime": made["metadata"]["creationTimestamp"].replace("Z", ".000000Z"),
    }
    await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)
    described = await kubectl("describe", "pod", "web")
    assert "Status:       Pending" in described
    assert "Warning  FailedScheduling" in described
    assert "default-scheduler  0/0 nodes are available." in described
    listed = await kubectl("get", "events")
    assert "pod/web" in listed
    assert "FailedScheduling" in listed


@pytest.mark.usefixtures("nodes")
async def test_describe_shows_a_node_with_its_pods(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD.replace("spec:", "spec:\n  nodeName: node-0", 1))
    described = await kubectl("describe", "node", "node-0")
    assert "topology.kubernetes.io/zone=zone-a" in described
    assert "Non-terminated Pods:          (1 in total)" in described
    assert "cpu                500m (6%)" in described


@pytest.mark.usefixtures("nodes")
async def test_cordon_taint_and_drain(kubectl: Kubectl) -> None:
    await kubectl("cordon", "node-0")
    assert (await kubectl.rows("get", "node", "node-0"))[1][1] == "Ready,SchedulingDisabled"
    await kubectl("uncordon", "node-0")
    await kubectl("taint", "node", "node-1", "key=value:NoSchedule")
    node = await kubectl.json("get", "node", "node-1")
    assert node["spec"]["taints"] == [{"key": "key", "value": "value", "effect": "NoSchedule"}]
    await kubectl("create", "-f", "-", text=POD.replace("spec:", "spec:\n  nodeName: node-0", 1))
    drained = await kubectl("drain", "node-0", "--force", "--grace-period=1")
    assert "pod/web evicted" in drained
    assert await kubectl("get", "pods") == "No resources found in default namespace.\n"


async def test_delete_waits_until_the_object_is_gone(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", text=POD)
    assert 'pod "web" deleted' in await kubectl("delete", "pod", "web")
    await kubectl("create", "namespace", "team")
    await kubectl("create", "configmap", "c", "-n", "team")
    assert 'namespace "team" deleted' in await kubectl("delete", "namespace", "team")
    code, output = await kubectl.run("get", "pod", "web")
    assert (code, output) == (1, 'Error from server (NotFound): pods "web" not found\n')
    await kubectl("create", "-f", "-", text=POD)
    assert 'pod "web" deleted' in await kubectl("delete", "pods", "--all")


@pytest.mark.usefixtures("nodes")
async def test_watch_and_wait_follow_a_pod(kubectl: Kubectl, server: EmbeddedApiServer) -> None:
    await kubectl("create", "-f", "-", text=POD)
    waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s"))
    program = await asyncio.create_subprocess_exec(
        kubectl._program,
        "get",
        "pods",
        "--watch",
        "--output-watch-events",
        stdout=asyncio.subprocess.PIPE,
        env=kubectl._environment,
    )
    assert program.stdout is not None
    async with asyncio.timeout(COMMAND_TIMEOUT_S):
        heading, first = await program.stdout.readline(), await program.stdout.readline()
        assert heading.split()[:2] == [b"EVENT", b"NAME"]
        assert first.split()[:4] == [b"ADDED", b"web", b"0/1", b"Pending"]
        pods = server.registry.table.served("", "v1", "pods")
        kept = server.registry.get(pods, ("default", "web")).obj
        server.registry.replace(pods, ("default", "web"), {**kept, "spec": {**kept["spec"], "nodeName": "node-0"}})
        rows = [(await program.stdout.readline()).split() for _ in range(2)]
    assert rows[1][:4] == [b"MODIFIED", b"web", b"1/1", b"Running"]
    assert await waiting == "pod/web condition met\n"
    program.terminate()
    await program.wait()


async def test_explain_names_the_fields_of_a_kind(kubectl: Kubectl) -> None:
    explained = await kubectl("explain", "pod.spec.tolerations")
    assert "KIND:       Pod" in explained
    assert "tolerationSeconds\t<integer>" in explained
    assert "containers\t<[]Container> -required-" in await kubectl("explain", "deployment.spec.template.spec")


async def test_permissions_and_identity(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "sandbox-admin" in await kubectl("auth", "whoami")


async def test_diff_shows_what_apply_would_change(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=DEPLOYMENT)
    code, output = await kubectl.run("diff", "-f", "-", text=DEPLOYMENT.replace("replicas: 2", "replicas: 5"))
    assert code == 1
    assert "+  replicas: 5" in output


async def test_a_custom_kind_can_be_defined_and_used(kubectl: Kubectl) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "groups.gang.example.com"},
        "spec": {
            "group": "gang.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Group", "plural": "groups", "shortNames": ["gr"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    "additionalPrinterColumns": [{"name": "Min", "type": "integer", "jsonPath": ".spec.min"}],
                }
            ],
        },
    }
    await kubectl("apply", "-f", "-", text=json.dumps(definition))
    await kubectl("wait", "--for=condition=Established", "crd/groups.gang.example.com", "--timeout=10s")
    group = "{apiVersion: gang.example.com/v1, kind: Group, metadata: {name: g}, spec: {min: 3}}"
    assert await kubectl("apply", "-f", "-", text=group) == "group.gang.example.com/g created\n"
    changed = await kubectl("apply", "-f", "-", text=group.replace("min: 3", "min: 4"))
    assert changed == "group.gang.example.com/g configured\n"
    assert (await kubectl.rows("get", "gr")) == [["NAME", "MIN"], ["g", "4"]]
