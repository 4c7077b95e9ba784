"""Pods of several ranks, some of which do not go when told to, and a controller that replaces those that go."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Self

from tests.integration.objects import a_pod
from tests.support.client import PODS, ApiError

if TYPE_CHECKING:
    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene
    from tests.support.client import ApiClient

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES = {"test-low": 10, "test-mid": 100, "test-high": 1000, "test-patient": 1000}
LOOK_EVERY_S = 0.01


def create_ranks(scene: Scene) -> None:
    """Four classes of importance; who is patient preempts nobody."""
    for name, value in PRIORITIES.items():
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        policy = "Never" if name == "test-patient" else "PreemptLowerPriority"
        scene.create({**kind, "metadata": {"name": name}, "value": value, "preemptionPolicy": policy})


def delete_ranks(scene: Scene) -> None:
    for name in PRIORITIES:
        scene.api.delete(f"{CLASSES}/{name}")


def pod(name: str, rank: str, *, cpu: str = "1", **spec: Any) -> JsonObject:
    return a_pod(name, cpu=cpu, priorityClassName=f"test-{rank}", terminationGracePeriodSeconds=0, **spec)


def held(manifest: JsonObject) -> JsonObject:
    """The pod stays, when it is deleted, until `let_go`."""
    return {**manifest, "metadata": {**manifest["metadata"], "finalizers": ["test.example/hold"]}}


def let_go(scene: Scene, name: str) -> None:
    scene.api.patch(f"{PODS}/{name}", {"metadata": {"finalizers": None}})


def nominated(scene: Scene, name: str, node: str) -> None:
    scene.until(f"{name} is promised {node}", lambda: scene.pod(name)["status"].get("nominatedNodeName", "") == node)


def is_going(scene: Scene, name: str) -> None:
    scene.until(f"{name} is told to go", lambda: "deletionTimestamp" in scene.pod(name)["metadata"])


class Replicas(threading.Thread):
    """As many pods of a kind as there should be: whoever goes is replaced at once; a context manager.

    Attributes:
        gone: how many went.
    """

    def __init__(self, api: ApiClient, template: JsonObject, count: int) -> None:
        super().__init__(name="replicas")
        self._api, self._template, self._count = api, template, count
        self._label = f"replicas={template['metadata']['name']}"
        self._made = 0
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self.join()

    @property
    def gone(self) -> int:
        return max(0, self._made - self._count)

    def run(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            with suppress(ApiError, OSError, HTTPException):  # what could not be done is done the next time
                there = self._api.items(PODS, {"labelSelector": self._label})
                for _ in range(self._count - len(there)):
                    self._create()

    def _create(self) -> None:
        name = self._template["metadata"]["name"]
        labels = {**self._template["metadata"]["labels"], "replicas": name}
        self._api.create(
            {**self._template, "metadata": {"name": f"{name}-{self._made}", "namespace": "default", "labels": labels}}
        )
        self._made += 1
