"""Pods that wait for devices or their claims, and for features of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.integration.devices import DRIVER, GPU, a_device_claim, a_device_class, a_pod_asking, a_pod_with, a_slice
from tests.integration.objects import a_node, a_pod, a_taint
from tests.requeue.steps import (
    WEB,
    Scenario,
    Step,
    allocatable,
    annotate,
    change,
    create,
    delete,
    heartbeat,
    label,
    on,
    taint,
)
from tests.support.client import object_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.integration.objects import JsonObject
    from tests.support.client import ApiClient

NODE: Final = a_node("node")
CLASS: Final = a_device_class()
SLICE: Final = a_slice("node", "gpu-0")
CLAIM: Final = a_device_claim("mine")
USER: Final = a_pod_with(WEB, "mine")
OTHER: Final = a_pod("other")
THEIRS: Final = a_device_claim("theirs")
OWNER: Final = on(a_pod_with("owner", "theirs"))
NO_DEVICE: Final = "cannot allocate all claims"
RESTARTS_ALL: Final = "RestartAllContainersOnContainerExits"


def allocated(claim: JsonObject, device: str, node: str = "node") -> Step:
    """What a scheduler writes for a pod that is to have a device."""
    result = {"request": "req", "driver": DRIVER, "pool": node, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    return change(claim, {"status": {"allocation": allocation}}, "status")


def given_back(claim: JsonObject) -> Step:
    """What the claim controller does once nobody uses a claim any more."""
    return change(claim, {"status": {"allocation": None, "reservedFor": None}}, "status")


def templated(name: str) -> JsonObject:
    """A pod whose claim is made from a template, by a controller."""
    pod = a_pod(name, resourceClaims=[{"name": "one", "resourceClaimTemplateName": "template"}])
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "one"}]
    return pod


def made_for(pod: JsonObject, name: str) -> Step:
    """The claim of a pod is made from its template, and the pod told so."""
    claim = a_device_claim(name)

    def do(api: ApiClient) -> object:
        uid = api.get(object_path(pod))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
        api.create({**claim, "metadata": {**claim["metadata"], "ownerReferences": [owner]}})
        statuses = [{"name": "one", "resourceClaimName": name}]
        return api.patch(f"{object_path(pod)}/status", {"status": {"resourceClaimStatuses": statuses}})

    return Step(f"the claim {name} is made", do, (claim,))


def declaring(*features: str) -> Step:
    return change(NODE, {"status": {"declaredFeatures": list(features) or None}}, "status")


def restarting_all() -> JsonObject:
    """A pod that only a kubelet can run which can restart all of its containers together."""
    pod = a_pod(WEB)
    rule: dict[str, Any] = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
    pod["spec"]["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return pod


TAKEN: Final = [NODE, CLASS, SLICE, THEIRS, OWNER, CLAIM, on(OTHER)]

CLAIMS: Mapping[str, Scenario] = {
    "no device; one that is given back wakes it; the end of its user and of another pod must not": Scenario(
        pod=USER,
        because=NO_DEVICE,
        world=TAKEN,
        before=[allocated(THEIRS, "gpu-0")],
        must_not=[delete(OTHER), delete(OWNER), annotate(THEIRS, note="x")],
        wakes=[given_back(THEIRS)],
    ),
    "no device; the end of a claim that has one wakes it; one without must not": Scenario(
        pod=USER,
        because=NO_DEVICE,
        world=[*TAKEN, a_device_claim("idle")],
        before=[allocated(THEIRS, "gpu-0")],
        must_not=[delete(a_device_claim("idle")), create(a_device_claim("late")), label(OTHER, app="x")],
        wakes=[delete(THEIRS)],
    ),
    "no device; a slice wakes it; taints, heartbeats and pods must not": Scenario(
        pod=USER,
        because=NO_DEVICE,
        world=[NODE, CLASS, CLAIM, on(OTHER)],
        must_not=[taint(NODE, a_taint("x", effect="PreferNoSchedule")), heartbeat(NODE), delete(OTHER)],
        wakes=[create(SLICE)],
    ),
    "no device; a slice that grows wakes it; an annotation of a claim must not": Scenario(
        pod=USER,
        because=NO_DEVICE,
        world=[*TAKEN],
        before=[allocated(THEIRS, "gpu-0")],
        must_not=[annotate(CLAIM, note="x"), annotate(NODE, note="x")],
        wakes=[change(SLICE, {"spec": {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}})],
    ),
    "no class of devices; the class wakes it; pods and taints must not": Scenario(
        pod=USER,
        because="gpu does not exist",
        world=[NODE, SLICE, CLAIM, on(OTHER)],
        must_not=[label(OTHER, app="x"), taint(NODE, a_taint("x", effect="PreferNoSchedule"))],
        wakes=[create(CLASS)],
    ),
    "a device on another node; a node with it wakes it; a taint must not": Scenario(
        pod=USER,
        because=NO_DEVICE,
        world=[a_node("other-node"), CLASS, SLICE, CLAIM],
        must_not=[taint(a_node("other-node"), a_taint("x", effect="PreferNoSchedule"))],
        wakes=[create(NODE)],
    ),
    "a claim that is allocated elsewhere; a node there wakes it; heartbeats must not": Scenario(
        pod=USER,
        because="resourceclaim not available on the node",
        world=[a_node("other-node"), CLASS, a_slice("far", "gpu-0"), CLAIM, a_pod("far", nodeName="far")],
        before=[
            allocated(CLAIM, "gpu-0", "far"),
            change(CLAIM, {"status": {"reservedFor": [{"resource": "pods", "name": "far", "uid": "some"}]}}, "status"),
        ],
        must_not=[heartbeat(a_node("other-node"))],
        wakes=[create(a_node("far"))],
    ),
    "no claim; the claim wakes it; another claim must not": Scenario(
        pod=USER,
        because="",
        world=[NODE, CLASS, SLICE],
        must_not=[create(THEIRS), label(NODE, zone="a"), allocatable(NODE, cpu="64")],
        wakes=[create(CLAIM)],
    ),
    "no claim from its template yet; the claim wakes it; another claim must not": Scenario(
        pod=templated(WEB),
        because="",
        world=[NODE, CLASS, SLICE],
        must_not=[create(THEIRS), allocatable(NODE, cpu="64")],
        wakes=[made_for(templated(WEB), "made")],
    ),
    "no device for a resource; a slice wakes it; a deleted pod must not": Scenario(
        pod=a_pod_asking(WEB, 1),
        because=NO_DEVICE,
        world=[NODE, a_device_class(resource=GPU), on(OTHER)],
        must_not=[delete(OTHER), heartbeat(NODE)],
        wakes=[create(SLICE)],
    ),
}

FEATURES: Mapping[str, Scenario] = {
    "a feature that the node does not declare; the feature wakes it; labels and heartbeats must not": Scenario(
        pod=restarting_all(),
        because="didn't match Pod's required features",
        world=[NODE],
        must_not=[label(NODE, zone="a"), allocatable(NODE, cpu="64"), heartbeat(NODE)],
        wakes=[declaring("Another", RESTARTS_ALL)],
    ),
}

DEVICES_TABLE: Mapping[str, Scenario] = {**CLAIMS, **FEATURES}
