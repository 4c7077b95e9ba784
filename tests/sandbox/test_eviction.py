"""Evicting pods under disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.client import PODS, Client, Refused, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LABELS = {"metadata": {"labels": {"app": "web"}}}


async def running_pod(api: Client, name: str = "web", *, ready: bool = True) -> None:
    await api.post(PODS, pod(name, nodeName="n", **LABELS))
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    await api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [condition]}})


async def budget(api: Client, name: str = "b", **status: Any) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    if status:
        await api.patch(f"{BUDGETS}/{name}/status", {"status": {"observedGeneration": 1, **status}}, "merge")


async def evict(api: Client, name: str = "web", **fields: Any) -> dict[str, Any]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **fields}
    return await api.post(f"{PODS}/{name}/eviction", body)


async def test_an_evicted_pod_is_marked_and_deleted_with_its_grace(api: Client) -> None:
    await running_pod(api)
    answer = await evict(api)
    assert (answer["status"], answer["code"]) == ("Success", 201)
    marked = await api.get(f"{PODS}/web")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    (condition,) = [each for each in marked["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")


async def test_the_grace_of_the_request_counts(api: Client) -> None:
    await running_pod(api)
    await evict(api, deleteOptions={"gracePeriodSeconds": 3})
    assert (await api.get(f"{PODS}/web"))["metadata"]["deletionGracePeriodSeconds"] == 3


async def test_a_budget_is_used_up_one_by_one(api: Client) -> None:
    await running_pod(api, "a")
    await running_pod(api, "b")
    await budget(api, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await evict(api, "a")
    with pytest.raises(Refused) as refused:
        await evict(api, "b")
    assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
    assert refused.value.message == "Cannot evict pod as it would violate the pod's disruption budget."
    status = (await api.get(f"{BUDGETS}/b"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert list(status["disruptedPods"]) == ["a"]


async def test_a_budget_without_room_says_how_many_are_healthy(api: Client) -> None:
    await running_pod(api)
    await budget(api, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    with pytest.raises(Refused) as refused:
        await evict(api)
    (cause,) = refused.value.details["causes"]
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"


async def test_a_budget_that_nobody_looked_at_is_to_be_asked_again(api: Client) -> None:
    await running_pod(api)
    await budget(api)
    with pytest.raises(Refused) as refused:
        await evict(api)
    assert refused.value.details["retryAfterSeconds"] == 10


async def test_two_budgets_are_too_many(api: Client) -> None:
    await running_pod(api)
    await budget(api, "b1", disruptionsAllowed=1)
    await budget(api, "b2", disruptionsAllowed=1)
    with pytest.raises(Refused, match="more than one PodDisruptionBudget") as refused:
        await evict(api)
    assert refused.value.code == 500


async def test_a_pod_that_does_not_run_needs_no_budget(api: Client) -> None:
    await api.post(PODS, pod("web", **LABELS))
    await budget(api, disruptionsAllowed=0)
    await evict(api)
    assert await api.names(PODS) == []


async def test_an_unhealthy_pod_goes_where_enough_are_healthy(api: Client) -> None:
    await running_pod(api, ready=False)
    await budget(api, disruptionsAllowed=0, currentHealthy=1, desiredHealthy=1)
    await evict(api)
    assert "deletionTimestamp" in (await api.get(f"{PODS}/web"))["metadata"]


async def test_a_dry_run_evicts_nothing_and_leaves_the_budget_alone(api: Client) -> None:
    await running_pod(api)
    await budget(api, disruptionsAllowed=1)
    await evict(api, deleteOptions={"dryRun": ["All"]})
    assert "deletionTimestamp" not in (await api.get(f"{PODS}/web"))["metadata"]
    assert (await api.get(f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 1


async def test_an_eviction_of_another_pod_than_its_path_says_is_refused(api: Client) -> None:
    await running_pod(api)
    with pytest.raises(Refused, match="name in URL does not match name in Eviction object"):
        await api.post(f"{PODS}/web/eviction", {"metadata": {"name": "other"}})


async def test_preconditions_hold_for_evictions_too(api: Client) -> None:
    await running_pod(api)
    with pytest.raises(Refused, match="does not match the UID in record"):
        await evict(api, deleteOptions={"preconditions": {"uid": "other"}})
