"""Binding a pod, and every reason to refuse it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, node, pod

if TYPE_CHECKING:
    from berth.sandbox.serving.server import EmbeddedApiServer


async def test_a_bound_pod_has_its_node_and_a_true_condition(api: Client) -> None:
    await api.post(PODS, pod("web"))
    answer = await api.bind("web", "node-1")
    assert answer == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    bound = await api.get(f"{PODS}/web")
    assert bound["spec"]["nodeName"] == "node-1"
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert bound["metadata"]["generation"] == 1


async def test_a_second_binding_conflicts_and_names_the_node(api: Client) -> None:
    await api.post(PODS, pod("web"))
    await api.bind("web", "node-1")
    with pytest.raises(Refused) as refused:
        await api.bind("web", "node-2")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert refused.value.message == (
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "node-1"'
    )
    assert refused.value.details == {"name": "web", "kind": "pods/binding"}


async def test_a_pod_with_gates_is_not_bound(api: Client) -> None:
    await api.post(PODS, pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    with pytest.raises(Refused, match=r"pod web has non-empty \.spec\.schedulingGates"):
        await api.bind("web", "node-1")


async def test_a_pod_that_is_being_deleted_is_not_bound(api: Client) -> None:
    await api.post(PODS, pod("web", metadata={"finalizers": ["example.com/hold"]}))
    await api.delete(f"{PODS}/web")
    with pytest.raises(Refused, match="pod web is being deleted, cannot be assigned to a host"):
        await api.bind("web", "node-1")


async def test_a_missing_pod_is_not_found(api: Client) -> None:
    with pytest.raises(Refused) as refused:
        await api.bind("web", "node-1")
    assert (refused.value.code, refused.value.message) == (404, 'pods "web" not found')


async def test_a_binding_of_an_earlier_pod_of_that_name_conflicts(api: Client) -> None:
    await api.post(PODS, pod("web"))
    with pytest.raises(Refused) as refused:
        await api.bind("web", "node-1", uid="00000000-0000-0000-0000-000000000000")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in refused.value.message


async def test_the_form_without_a_pod_in_the_path_binds_too(api: Client) -> None:
    await api.post(PODS, pod("web"))
    body = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-1"}}
    await api.post("/api/v1/namespaces/default/bindings", body)
    assert (await api.get(f"{PODS}/web"))["spec"]["nodeName"] == "node-1"


async def test_a_dry_run_binds_nothing(api: Client) -> None:
    await api.post(PODS, pod("web"))
    body = {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "node-1"}}
    await api.post(f"{PODS}/web/binding?dryRun=All", body)
    assert "nodeName" not in (await api.get(f"{PODS}/web"))["spec"]


async def test_binding_gives_the_pod_the_topology_of_its_node_and_ends_its_nomination(api: Client) -> None:
    labels = {"topology.kubernetes.io/zone": "zone-a", "disk": "ssd"}
    await api.post(NODES, node("node-1", labels=labels))
    await api.post(PODS, pod("web", metadata={"labels": {"app": "web"}}))
    await api.patch(f"{PODS}/web/status", {"status": {"nominatedNodeName": "node-1"}})
    await api.bind("web", "node-1")
    bound = await api.get(f"{PODS}/web")
    assert bound["metadata"]["labels"] == {"app": "web", "topology.kubernetes.io/zone": "zone-a"}
    assert "nominatedNodeName" not in bound["status"]


async def test_binding_does_not_touch_the_versions_that_others_hold(api: Client, server: EmbeddedApiServer) -> None:
    await api.post(PODS, pod("web"))
    pods = server.registry.table.served("", "v1", "pods")
    before = server.registry.get(pods, ("default", "web"))
    raw = before.raw
    await api.bind("web", "node-1")
    after = server.registry.get(pods, ("default", "web"))
    assert "nodeName" not in before.obj["spec"]
    assert before.raw == raw
    assert after.obj["spec"]["containers"] is before.obj["spec"]["containers"]
