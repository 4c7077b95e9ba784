"""Devices and claims of devices as JSON, and what a cluster does with them without drivers."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.integration.objects import a_pod
from tests.support.client import PODS, ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene
    from tests.support.client import ApiClient

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
KINDS = ("resourceslices", "deviceclasses", "devicetaintrules")
DRIVER = "gpu.example.com"
GPU = "example.com/gpu"
FINALIZER = "resource.kubernetes.io/delete-protection"


def a_device_class(name: str = "gpu", *, resource: str = "", expression: str = "") -> JsonObject:
    """The devices of the driver, or those that *expression* says."""
    cel = {"expression": expression or f'device.driver == "{DRIVER}"'}
    spec: JsonObject = {"selectors": [{"cel": cel}]}
    if resource:
        spec["extendedResourceName"] = resource
    return _object("DeviceClass", name, spec)


def a_slice(node: str, *devices: str, **fields: Any) -> JsonObject:
    """All devices of a node; *fields* go into each."""
    made = [{"name": name, **fields} for name in devices]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return _object("ResourceSlice", f"of-{node}", {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": made})


def a_device_claim(name: str, *, count: int = 1, device_class: str = "gpu", **exactly: Any) -> JsonObject:
    asked = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **exactly}
    claim = _object("ResourceClaim", name, {"devices": {"requests": [{"name": "req", "exactly": asked}]}})
    claim["metadata"]["namespace"] = "default"
    return claim


def special_claim(pod: JsonObject, name: str) -> JsonObject:
    """A claim that was made for the extended resources of a pod."""
    meta = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"], "controller": True}
    claim = a_device_claim(name)
    claim["metadata"]["ownerReferences"] = [owner]
    claim["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return claim


def a_pod_with(name: str, *claims: str, **spec: Any) -> JsonObject:
    """A pod whose container uses claims of these names."""
    pod = a_pod(name, resourceClaims=[{"name": claim, "resourceClaimName": claim} for claim in claims], **spec)
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": claim} for claim in claims]
    return pod


def a_pod_asking(name: str, many: int, resource: str = GPU, **spec: Any) -> JsonObject:
    """A pod that asks for an extended resource."""
    pod = a_pod(name, **spec)
    amounts = {resource: str(many)}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return pod


@contextmanager
def devices(scene: Scene, *objects: JsonObject) -> Iterator[None]:
    """These classes and slices; with them go all pods and claims that are there at the end."""
    scene.create(*objects)
    try:
        yield
    finally:
        wipe(scene.api)


def wipe(api: ApiClient) -> None:
    """Delete all pods, slices, classes and claims, in this order, so that no pod gets what another gave up."""
    api.wipe([PODS])
    for kind in KINDS:
        try:
            found = api.items(f"{API}/{kind}")
        except ApiError:  # 1.36 does not serve rules
            continue
        for each in found:
            _delete(api, f"{API}/{kind}/{each['metadata']['name']}")
    api.wipe([CLAIMS])


def claims(scene: Scene) -> dict[str, JsonObject]:
    """The claims by name."""
    return {claim["metadata"]["name"]: claim for claim in scene.api.items(CLAIMS)}


def given(claim: Mapping[str, Any]) -> list[str]:
    """The devices of a claim, as ``pool/device``."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return [f"{result['pool']}/{result['device']}" for result in results]


def users(claim: Mapping[str, Any]) -> list[str]:
    """The pods that may use a claim."""
    return sorted(consumer["name"] for consumer in claim.get("status", {}).get("reservedFor", []))


def given_twice(scene: Scene) -> list[str]:
    """The devices that more than one claim has."""
    times = Counter(device for claim in claims(scene).values() for device in given(claim))
    return [device for device, many in times.items() if many > 1]


def _delete(api: ApiClient, path: str) -> None:
    try:
        api.delete(path)
    except ApiError as error:
        if error.reason != "NotFound":
            raise


def _object(kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
