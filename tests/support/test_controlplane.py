"""The harness of the real control plane keeps its promises: objects survive, users are held to their rights."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.client import NODES, PODS, ApiClient, ApiError, object_path
from tests.support.controlplane import ControlPlane, ControlPlaneError

if TYPE_CHECKING:
    from collections.abc import Iterator


def a_node(name: str) -> dict[str, Any]:
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    status = {"capacity": resources, "allocatable": resources}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers} | spec}


@pytest.fixture(scope="module")
def own_control_plane(envtest_assets: Path) -> Iterator[ControlPlane]:
    """A control plane that the tests of this module may kill."""
    plane = ControlPlane(envtest_assets)
    plane.add_user("operator", ["operators"])
    with plane:
        yield plane


@pytest.fixture
def own(own_control_plane: ControlPlane) -> Iterator[ApiClient]:
    client = own_control_plane.client()
    yield client
    client.wipe()


def test_objects_outlive_a_kill_of_the_api_server(own_control_plane: ControlPlane, own: ApiClient) -> None:
    own.create(a_node("node-a"))
    before = own.create(a_pod("web"))
    first_pid = own_control_plane.pids["kube-apiserver"]

    own_control_plane.kill_apiserver()
    with pytest.raises(ConnectionRefusedError):
        own.get(NODES)
    own_control_plane.start_apiserver()

    assert own_control_plane.pids["kube-apiserver"] != first_pid
    assert own.get(object_path(before))["metadata"]["uid"] == before["metadata"]["uid"]
    assert [node["metadata"]["name"] for node in own.items(NODES)] == ["node-a"]


def test_a_pod_is_bound_through_its_binding_subresource(own: ApiClient) -> None:
    own.create(a_node("node-a"))
    pod = own.create(a_pod("web"))
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-a"}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": target}
    own.post(f"{PODS}/web/binding", binding)
    bound = own.wait_for(object_path(pod), lambda seen: "nodeName" in seen["spec"])
    assert bound["spec"]["nodeName"] == "node-a"


def test_a_user_without_rights_is_refused(own_control_plane: ControlPlane) -> None:
    with pytest.raises(ApiError, match='User "berth" cannot list resource "nodes"') as refused:
        own_control_plane.client("berth").get(NODES)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")


def test_a_user_added_before_the_start_has_its_groups(own_control_plane: ControlPlane) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = own_control_plane.client("operator").post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert answer["status"]["userInfo"]["username"] == "operator"
    assert "operators" in answer["status"]["userInfo"]["groups"]


def test_a_compacted_version_is_gone_after_a_restart(own_control_plane: ControlPlane, own: ApiClient) -> None:
    version = own.create(a_node("node-a"))["metadata"]["resourceVersion"]
    own.create(a_node("node-b"))
    oldest = own_control_plane.compact_etcd()
    own_control_plane.restart_apiserver()
    assert oldest > int(version)
    with pytest.raises(ApiError) as gone:
        own.get(NODES, {"resourceVersion": version, "resourceVersionMatch": "Exact"})
    assert gone.value.status == 410


def test_a_paused_api_server_accepts_and_does_not_answer(own_control_plane: ControlPlane, own: ApiClient) -> None:
    hasty = ApiClient(own_control_plane.server, own.token, ca_file=own_control_plane.ca_file, timeout_s=0.1)
    own_control_plane.process("kube-apiserver").pause()
    try:
        with pytest.raises(TimeoutError):
            hasty.get(NODES)
    finally:
        own_control_plane.process("kube-apiserver").resume()
    assert own.items(NODES) == []


def test_the_controller_manager_gives_a_namespace_its_service_account(
    own_control_plane: ControlPlane, own: ApiClient
) -> None:
    own_control_plane.start_controller_manager()
    account = own.wait_for("/api/v1/namespaces/default/serviceaccounts/default", lambda _: True)
    assert account["metadata"]["name"] == "default"
    assert set(own_control_plane.pids) == {"etcd", "kube-apiserver", "kube-controller-manager"}
    own_control_plane.process("kube-controller-manager").terminate()


def test_wipe_removes_what_a_finalizer_would_hold(own: ApiClient) -> None:
    held = a_pod("held")
    held["metadata"]["finalizers"] = ["example.com/held"]
    own.create(held)
    own.wipe()
    assert own.items(PODS) == []


def test_a_failed_start_shows_the_log_and_leaves_nothing(envtest_assets: Path) -> None:
    plane = ControlPlane(envtest_assets, apiserver_flags=["--no-such-flag"])
    with pytest.raises(ControlPlaneError, match="unknown flag: --no-such-flag"):
        plane.start()
    assert plane.pids == {}


def test_a_killed_test_run_leaves_no_server_behind(envtest_assets: Path) -> None:
    program = (
        "import pathlib, sys, time\n"
        "from tests.support.controlplane import ControlPlane\n"
        "plane = ControlPlane(pathlib.Path(sys.argv[1]))\n"
        "plane.start()\n"
        "print(plane.folder, *plane.pids.values(), flush=True)\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", program, str(envtest_assets)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        folder, *pids = run.stdout.readline().split()
        assert all(Path("/proc", pid, "exe").exists() for pid in pids)
        run.kill()
    left = [Path(folder), *(Path("/proc", pid, "exe") for pid in pids)]
    for _ in range(500):
        left = [path for path in left if path.exists()]
        if not left:
            break
        time.sleep(0.01)
    assert len(pids) == 2
    assert left == []
