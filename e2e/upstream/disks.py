"""The cluster's default storage class, and whoever makes its disks: a thread that plays an external provisioner.

A disk is made where the scheduler decided that the claim's first pod goes (``WaitForFirstConsumer``), is reachable from
there only, and is taken away when its claim is gone. The binding itself is left to kube-controller-manager.
"""

from __future__ import annotations

import threading
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from tests.support.client import ApiError

if TYPE_CHECKING:
    from tests.support.client import ApiClient

JsonObject = dict[str, Any]

CLASS = "disks"
PROVISIONER = "disks.example.com"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
POLL_S = 0.25


class Disks:
    """The class and its provisioner, from ``with`` on.

    Args:
        api: the administrator's client.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._stop = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="disks", daemon=True)

    def __enter__(self) -> Self:
        self._api.post(CLASSES, default_class())
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()

    def check(self) -> None:
        """Raises what ended the provisioner, if it has ended."""
        if self._fault is not None:
            raise self._fault

    def _run(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                self._look()
        except BaseException as fault:  # noqa: BLE001 - told by `check`, in the caller's thread
            self._fault = fault

    def _look(self) -> None:
        volumes = {volume["metadata"]["name"]: volume for volume in self._api.items(VOLUMES)}
        for claim in self._api.items(CLAIMS):
            if is_waiting(claim) and volume_name(claim) not in volumes:
                self._do("POST", VOLUMES, volume_for(claim))
        for name, volume in volumes.items():
            if is_left_over(volume):
                self._do("DELETE", f"{VOLUMES}/{name}")

    def _do(self, method: str, path: str, body: JsonObject | None = None) -> None:
        try:
            self._api.request(method, path, body)
        except ApiError as error:
            if error.status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):  # what was listed is past
                raise


def default_class() -> JsonObject:
    """The StorageClass."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def is_waiting(claim: JsonObject) -> bool:
    """Whether a disk has to be made for the claim, which the scheduler sent to a node."""
    spec, metadata = claim["spec"], claim["metadata"]
    ours = spec.get("storageClassName") == CLASS and not spec.get("volumeName")
    return ours and "deletionTimestamp" not in metadata and SELECTED_NODE in metadata.get("annotations", {})


def is_left_over(volume: JsonObject) -> bool:
    """Whether the volume is one of ours whose claim is gone."""
    metadata = volume["metadata"]
    ours = metadata.get("annotations", {}).get(PROVISIONED_BY) == PROVISIONER
    return ours and volume["status"].get("phase") == "Released" and "deletionTimestamp" not in metadata


def volume_name(claim: JsonObject) -> str:
    """The name of the claim's volume, as provisioners form it."""
    return f"pvc-{claim['metadata']['uid']}"


def volume_for(claim: JsonObject) -> JsonObject:
    """The volume that the claim gets, on the node that was selected."""
    metadata, spec = claim["metadata"], claim["spec"]
    node = metadata["annotations"][SELECTED_NODE]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    reference = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": f"/disks/{volume_name(claim)}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **reference},
        },
    }
