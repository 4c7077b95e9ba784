"""The rights of the deployed scheduler by what they are for, and the steps in which each of them is used."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.integration.audit import Deed
from tests.integration.deployment import ACCOUNT, SLOW
from tests.integration.devices import (
    CLAIMS,
    DRIVER,
    GPU,
    a_device_claim,
    a_device_class,
    a_pod_asking,
    a_slice,
    devices,
    special_claim,
)
from tests.integration.devices import a_pod_with as a_pod_with_devices
from tests.integration.objects import a_node, a_pod
from tests.integration.scene import EVENTS, condition_of
from tests.integration.storage import (
    CLASSES,
    VolumeController,
    a_claim,
    a_class,
    a_pod_with,
    a_volume,
    create_volumes,
)
from tests.support.client import PODS, ApiClient
from tests.support.scheduler import LEADING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.audit import Audit
    from tests.integration.deployment import Running
    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene

OURS = "berth"
FULL = "0/1 nodes are available: 1 Insufficient cpu."
BIND = Deed("create", "", "pods/binding")
STATUS = Deed("patch", "", "pods/status")
EVENT = Deed("create", "events.k8s.io", "events")
SERIES = Deed("patch", "events.k8s.io", "events")
LEADER_EVENT = Deed("create", "", "events")
PROMISE = Deed("patch", "", "persistentvolumes")
SELECT = Deed("patch", "", "persistentvolumeclaims")
FINALIZE = Deed("patch", "resource.k8s.io", "resourceclaims")
GIVE = Deed("patch", "resource.k8s.io", "resourceclaims/status")
GIVE_FOR_GOOD = Deed("patch", "resource.k8s.io", "resourceclaims/binding")
CLAIM = Deed("create", "resource.k8s.io", "resourceclaims")
UNCLAIM = Deed("delete", "resource.k8s.io", "resourceclaims")
READ_POD = Deed("get", "", "pods")
EVICT = Deed("delete", "", "pods")
WHO = Deed("create", "authentication.k8s.io", "tokenreviews")
MAY = Deed("create", "authorization.k8s.io", "subjectaccessreviews")
NEW_LEASE = Deed("create", "coordination.k8s.io", "leases")
READ_LEASE = Deed("get", "coordination.k8s.io", "leases", "berth")
RENEW_LEASE = Deed("update", "coordination.k8s.io", "leases", "berth")
WATCHED = {  # API group -> what is listed and watched of it
    "": (
        *("pods", "nodes", "namespaces", "services", "replicationcontrollers"),
        *("persistentvolumes", "persistentvolumeclaims"),
    ),
    "apps": ("replicasets", "statefulsets"),
    "policy": ("poddisruptionbudgets",),
    "storage.k8s.io": ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"),
    "resource.k8s.io": ("resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules"),
}
READS = [
    Deed(verb, group, resource)
    for group, resources in WATCHED.items()
    for resource in resources
    for verb in ("list", "watch")
]
LEADING_TAKES = (LEADER_EVENT, NEW_LEASE, READ_LEASE, RENEW_LEASE)
DEVICES_TAKE = (FINALIZE, GIVE, GIVE_FOR_GOOD, CLAIM, UNCLAIM)
ALL = [BIND, STATUS, PROMISE, SELECT, *DEVICES_TAKE, EVENT, SERIES, READ_POD, EVICT, WHO, MAY, *LEADING_TAKES, *READS]
NO_REQUESTS = {GIVE_FOR_GOOD}  # the API server asks for it itself, when a status is patched


def not_used(api: ApiClient) -> set[Deed]:
    """The rights that a scheduler of this cluster's version has no use for: 1.36 does not serve rules about taints."""
    if api.get("/version")["minor"] != "36":
        return set()
    return {deed for deed in READS if deed.resource == "devicetaintrules"}


def contested_pod(scene: Scene, running: Running) -> JsonObject:
    """Place a pod by hand while the scheduler, which has decided on it, waits for its turn to say so.

    Returns the pod; there are 24 others, which have their turns before.
    """
    scene.create(a_node("by-hand", cpu="100m"))  # too small for the scheduler to choose it
    running.process.pause()
    pods = scene.create(*(a_pod(f"web-{i:02}", cpu="200m", schedulerName=OURS) for i in range(25)))
    running.process.resume()
    scene.until("the first pods had their turns", lambda: len(scene.placements()) > SLOW["burst"])
    target = {"apiVersion": "v1", "kind": "Node", "name": "by-hand"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web-24"}, "target": target}
    scene.api.post(f"{PODS}/web-24/binding", body)
    return pods[24]


def pod_refused_again_and_again(scene: Scene, running: Running) -> JsonObject:
    """Let a pod be refused three times for one and the same reason, which makes a series of its event."""
    scene.watch_over(running.process)
    scene.create(a_node("tiny", cpu="1", labels={"kind": "tiny"}))
    scene.create(*(a_pod(f"small-{i}", cpu="100m", nodeName="tiny") for i in range(3)))
    (pod,) = scene.create(a_pod("big", cpu="2", nodeSelector={"kind": "tiny"}, schedulerName=OURS))
    # The first refusal is told of the pod as it was before that was written into its status; the next ones are alike.
    scene.event("FailedScheduling", pod)
    until_told(scene, "big", "1 Insufficient cpu")
    scene.delete_pod("small-0")
    scene.until("the pod is tried again", lambda: len(scene.events("FailedScheduling", pod)) == 2)
    scene.delete_pod("small-1")
    return pod


def contested_node(scene: Scene) -> tuple[JsonObject, JsonObject]:
    """Let an important pod ask for the one node that a less important one runs on; returns the two, in this order."""
    scene.create(a_node("taken", cpu="1", labels={"kind": "taken"}))
    (low,) = scene.create(a_pod("low", cpu="1", nodeName="taken", terminationGracePeriodSeconds=0))
    (high,) = scene.create(
        a_pod(
            "high",
            cpu="1",
            nodeSelector={"kind": "taken"},
            schedulerName=OURS,
            priorityClassName="system-node-critical",
        )
    )
    return high, low


@contextmanager
def storage(scene: Scene, node: str) -> Iterator[None]:
    """A volume that is there, of the class `there`, for one node; a class `made`; and somebody who binds claims."""
    scene.create(a_class("there", provisioner="kubernetes.io/no-provisioner"), a_class("made"))
    create_volumes(scene.api, a_volume("disk", "there", node))
    try:
        with VolumeController(scene.api):
            yield
    finally:
        for name in ("there", "made"):
            scene.api.delete(f"{CLASSES}/{name}")


def pod_with_claim(scene: Scene, class_name: str) -> JsonObject:
    """A pod with a claim of a class of `storage`; both are named after the class."""
    _, pod = scene.create(a_claim(class_name, class_name), a_pod_with(class_name, class_name, schedulerName=OURS))
    return pod


@contextmanager
def gpus(scene: Scene, node: str) -> Iterator[None]:
    """Four devices on a node, of a class that a resource stands for."""
    with devices(scene, a_device_class("gpu", resource=GPU), a_slice(node, *(f"gpu-{i}" for i in range(4)))):
        yield


def pod_with_device(scene: Scene, name: str) -> JsonObject:
    """A pod with a claim of its name."""
    _, pod = scene.create(a_device_claim(name), a_pod_with_devices(name, name, schedulerName=OURS))
    return pod


def pod_asking_for_device(scene: Scene, name: str) -> JsonObject:
    """A pod that asks for what the class stands for."""
    (pod,) = scene.create(a_pod_asking(name, 1, schedulerName=OURS))
    return pod


def pod_with_left_over_claim(scene: Scene, name: str) -> JsonObject:
    """The same, with a claim that an earlier attempt left, which has a device."""
    (pod,) = scene.create(a_pod_asking(name, 1, schedulerName=OURS, schedulingGates=[{"name": "test/later"}]))
    scene.create(special_claim(pod, "left-over"))
    result = {"request": "req", "driver": DRIVER, "pool": "elsewhere", "device": "gpu-0"}
    scene.api.patch(f"{CLAIMS}/left-over/status", {"status": {"allocation": {"devices": {"results": [result]}}}})
    scene.api.patch(f"{PODS}/{name}", {"spec": {"schedulingGates": None}})
    return pod


def series(scene: Scene, pod: JsonObject) -> list[JsonObject]:
    """What is told of the repetitions."""
    return [event["series"] for event in scene.events("FailedScheduling", pod) if event.get("series")]


def refusal(deed: Deed) -> str:
    """What the log says where the API server may not be asked for a collection."""
    place = f"apis/{deed.group}" if deed.group else "api"
    collection = f"{deed.resource}.{deed.group}" if deed.group else deed.resource
    right = f'{deed.verb} resource "{deed.resource}" in API group "{deed.group}" at the cluster scope'
    return (
        f"{deed.verb} /{place}/v1/{deed.resource}: 403 Forbidden: {collection} is forbidden: "
        f'User "{ACCOUNT}" cannot {right}'
    )


def until_told(scene: Scene, name: str, text: str) -> JsonObject:
    """Wait until a pod's condition says *text*."""

    def told() -> JsonObject | None:
        condition = condition_of(scene.pod(name), "PodScheduled")
        return condition if condition and text in condition.get("message", "") else None

    return scene.until(f"pod {name} is told {text!r}", told)


def until_refused(scene: Scene, audit: Audit, mark: int, deed: Deed) -> None:
    """Wait until the API server has refused just that."""
    nameless = deed._replace(name="")
    scene.until(f"{deed} is refused", lambda: 403 in audit.deeds(by=ACCOUNT, since=mark).get(nameless, set()))


def leader_events(scene: Scene, running: Running) -> list[JsonObject]:
    """The events that tell of this scheduler's leadership."""
    (identity,) = re.findall(f"{LEADING}: (\\S+)", running.process.log_text())
    events = scene.api.items(EVENTS.replace("/default/", "/kube-system/"))
    return [event for event in events if event["reason"] == "LeaderElection" and identity in event["note"]]


def scrape(running: Running, token: str) -> str:
    return ApiClient(f"https://127.0.0.1:{running.port}", token).request("GET", "/metrics")
