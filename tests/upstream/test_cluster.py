"""The cluster of the reference's suite: Berth stands in the scheduler's place there, with no more than its rights."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from e2e.upstream.cluster import BERTH, LEASE, USER, UpstreamCluster
from e2e.upstream.disks import VOLUMES
from tests.support.client import PODS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import ApiClient

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICAS = 3

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("upstream")


@pytest.fixture(scope="module")
def cluster(envtest_assets: Path, folder: Path) -> Iterator[UpstreamCluster]:
    with UpstreamCluster(envtest_assets, BERTH, folder) as cluster:
        yield cluster
        cluster.check()


@pytest.fixture
def api(cluster: UpstreamCluster) -> ApiClient:
    return cluster.plane.client()


def test_the_scheduler_is_who_the_bootstrap_policy_knows(
    cluster: UpstreamCluster, folder: Path, envtest_assets: Path
) -> None:
    kubectl = [str(envtest_assets / "kubectl"), f"--kubeconfig={folder / 'scheduler.kubeconfig'}"]
    output = "-o=jsonpath={.status.userInfo.username} {.status.userInfo.groups}"
    done = subprocess.run([*kubectl, "auth", "whoami", output], capture_output=True, text=True, check=True)
    assert done.stdout == f'{USER} ["system:authenticated"]'
    assert cluster.plane.client().get(LEASE)["spec"]["holderIdentity"]


def test_a_deployment_runs_and_goes_as_on_real_nodes(api: ApiClient) -> None:
    """Through every part: controllers, admission, the scheduler, and nodes that start and end pods."""
    labels = {"app": "web"}
    container = {"name": "web", "image": "registry.example/web:1"}
    spec: dict[str, Any] = {
        "replicas": REPLICAS,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    api.post(DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    api.wait_for(f"{DEPLOYMENTS}/web", lambda it: it.get("status", {}).get("readyReplicas") == REPLICAS, deadline_s=60)
    api.patch(f"{DEPLOYMENTS}/web", {"spec": {"replicas": 0}})
    api.wait_for(f"{DEPLOYMENTS}/web", lambda it: not it["status"].get("replicas"), deadline_s=60)
    api.wait_for(PODS, lambda it: not it["items"], deadline_s=60)


def test_a_disk_comes_and_goes_with_its_claim(api: ApiClient) -> None:
    """By the scheduler's choice of a node, the provisioner and the volume controller, one after the other."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    api.post(claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {"containers": [{"name": "db", "image": "registry.example/db:1"}], "volumes": [volume]}
    api.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db"}, "spec": spec})
    pod = api.wait_for(f"{PODS}/db", lambda it: it["status"].get("phase") == "Running", deadline_s=60)
    bound = api.get(f"{claims}/data")
    disk = api.get(f"{VOLUMES}/{bound['spec']['volumeName']}")
    [term] = disk["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == [pod["spec"]["nodeName"]]
    api.delete(f"{PODS}/db")
    api.delete(f"{claims}/data")
    api.wait_for(VOLUMES, lambda it: not it["items"], deadline_s=60)
