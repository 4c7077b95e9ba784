"""Claims and volumes as JSON, and whoever binds them: a volume controller and a storage driver in one thread.

The controller does no more than a scenario needs: it binds a claim to the volume that was promised to it, and has a
volume made, some time after a node was selected, for a claim of a class that the driver serves, or some time after it
came, for a claim that waits for no pod.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self

from tests.integration.objects import a_pod
from tests.support.client import ApiError

if TYPE_CHECKING:
    from tests.integration.objects import JsonObject
    from tests.support.client import ApiClient

DRIVER = "disks.example.com"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
POLL_S = 0.02


def a_class(name: str, *, mode: str = "WaitForFirstConsumer", provisioner: str = DRIVER) -> JsonObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def a_claim(name: str, class_name: str, *, size: str = "1Gi") -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": class_name,
        },
    }


def a_volume(name: str, class_name: str, node: str, *, size: str = "1Gi", **spec: Any) -> JsonObject:
    """A volume that can be reached from one node only."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class_name,
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            **spec,
        },
    }


def a_pod_with(name: str, *claims: str, **spec: Any) -> JsonObject:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return a_pod(name, volumes=volumes, **spec)


class VolumeController:
    """Binds claims until it is stopped; a context manager.

    Args:
        api: of the cluster.
        takes_s: how long it takes to make a volume for a claim, by the claim's name.
        place: the node for which a claim gets its volume without waiting for a pod, by the claim's name; empty for one
            that waits.
        binds: False where a real controller does the binding, so that only volumes are to be made.

    Attributes:
        refusals: for how many more nodes no volume can be made; whoever selected one has to select again.
        refused: the nodes that were refused.
        paused: set as long as nothing is done.
    """

    def __init__(
        self,
        api: ApiClient,
        takes_s: Callable[[str], float] = lambda _: 0.0,
        place: Callable[[str], str] = lambda _: "",
        *,
        binds: bool = True,
    ) -> None:
        self.refusals = 0
        self.refused: list[str] = []
        self.paused = threading.Event()
        self.fault: BaseException | None = None
        self._api, self._takes_s, self._place, self._binds = api, takes_s, place, binds
        self._seen_s: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="volume-controller")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        try:
            while not self._stop.wait(POLL_S):
                if not self.paused.is_set():
                    self._look()
        except BaseException as fault:  # noqa: BLE001 - told to the test, in its own thread
            self.fault = fault

    def _look(self) -> None:
        claims = [claim for claim in self._api.items(CLAIMS) if not claim["spec"].get("volumeName")]
        if not claims:
            return
        promised = {
            reference["uid"]: volume["metadata"]["name"]
            for volume in self._api.items(VOLUMES)
            if "uid" in (reference := volume["spec"].get("claimRef", {}))
        }
        for claim in claims:
            uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
            node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE) or self._place(name)
            if uid in promised:
                if self._binds:
                    self.bind(claim, promised[uid])
            elif node and self.refusals:
                self.refusals -= 1
                self.refused.append(node)
                self._api.patch(f"{CLAIMS}/{name}", {"metadata": {"annotations": {SELECTED_NODE: None}}})
            elif node and time.monotonic() > self._seen_s.setdefault(uid, time.monotonic()) + self._takes_s(name):
                self._make(claim, node)

    def _make(self, claim: JsonObject, node: str) -> None:
        meta = claim["metadata"]
        reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default"}
        reference |= {"name": meta["name"], "uid": meta["uid"]}
        volume = f"made-for-{meta['name']}"
        try:
            self._api.create(a_volume(volume, claim["spec"]["storageClassName"], node, claimRef=reference))
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        if self._binds:
            self.bind(claim, volume)

    def bind(self, claim: JsonObject, volume: str) -> None:
        """Bind a claim to a volume for good."""
        name = claim["metadata"]["name"]
        self._api.patch(f"{VOLUMES}/{volume}/status", {"status": {"phase": "Bound"}})
        change = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume}}
        self._api.patch(f"{CLAIMS}/{name}", change)
        self._api.patch(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})


def claims_of(pod: JsonObject) -> list[str]:
    """The names of the claims that a pod names."""
    volumes = pod["spec"].get("volumes", [])
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]


def is_ready(claim: JsonObject) -> bool:
    """Whether a claim is bound for good."""
    return bool(claim["spec"].get("volumeName")) and BOUND.keys() <= claim["metadata"].get("annotations", {}).keys()


def host_of(volume: JsonObject) -> str:
    """The one node from which a volume can be reached."""
    [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    host: str = term["matchExpressions"][0]["values"][0]
    return host


def create_volumes(api: ApiClient, *volumes: JsonObject) -> None:
    """Create volumes that are there to be had."""
    for volume in volumes:
        api.create(volume)
        api.patch(f"{VOLUMES}/{volume['metadata']['name']}/status", {"status": {"phase": "Available"}})
