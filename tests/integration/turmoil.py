"""A crowd of pods, a landscape of nodes they fit on, and somebody who creates pods while other things happen."""

from __future__ import annotations

import random
import threading
import time
from http.client import HTTPException
from typing import TYPE_CHECKING, Self

from tests.integration.objects import a_node, a_pod, a_taint, required_node_affinity
from tests.support.client import NODES, PODS, ApiError, object_path

if TYPE_CHECKING:
    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene
    from tests.support.client import ApiClient


def a_crowd(count: int, seed: int = 7) -> list[JsonObject]:
    """Pods of many sizes and with all kinds of wishes, which fit on `a_landscape` together."""
    chance = random.Random(seed)
    pods = []
    for i in range(count):
        pod = a_pod(f"pod-{i:03}", cpu=f"{chance.choice((50, 100, 250, 400))}m", memory=f"{chance.randint(16, 512)}Mi")
        wish = i % 8
        if wish == 0:
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 9000 + chance.randrange(4)}]
        elif wish == 1:
            pod["spec"]["affinity"] = required_node_affinity("zone", chance.choice("abc"))
        elif wish == 2:
            pod["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        pods.append(pod)
    return pods


def a_landscape(count: int) -> list[JsonObject]:
    """Nodes in three zones, every sixth of them tainted."""
    return [
        a_node(
            f"node-{i:02}",
            cpu="2",
            memory="4Gi",
            pods=20,
            labels={"zone": "abc"[i % 3]},
            taints=[a_taint("dedicated", "batch")] if i % 6 == 5 else (),
        )
        for i in range(count)
    ]


class Creation(threading.Thread):
    """Creates pods one after the other while other things happen, and goes on after every failure."""

    def __init__(self, api: ApiClient, pods: list[JsonObject]) -> None:
        super().__init__(name="creation")
        self._api, self._pods = api, pods
        self.created: list[JsonObject] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.join()

    def run(self) -> None:
        for pod in self._pods:
            while not self._create(pod):
                time.sleep(0.05)

    def _create(self, pod: JsonObject) -> bool:
        try:
            self.created.append(self._api.create(pod))
        except ApiError as refused:
            if refused.reason != "AlreadyExists":  # the answer to an earlier try was lost
                return False
            self.created.append(self._api.get(object_path(pod)))
        except (OSError, HTTPException):
            return False
        return True


def names(pods: list[JsonObject]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def misplaced(scene: Scene) -> list[str]:
    """The pods of `a_crowd` on a node that they may not be on: another zone, or a taint that they do not tolerate."""
    nodes = {node["metadata"]["name"]: node for node in scene.api.items(NODES)}
    wrong = []
    for pod in scene.api.items(PODS):
        node = nodes[pod["spec"]["nodeName"]]
        affinity = pod["spec"].get("affinity")
        zone = node["metadata"]["labels"]["zone"]
        tolerated = any(each.get("key") == "dedicated" for each in pod["spec"].get("tolerations", []))
        if affinity and affinity != required_node_affinity("zone", zone):
            wrong.append(f"{pod['metadata']['name']}: in zone {zone}")
        if node["spec"].get("taints") and not tolerated:
            wrong.append(f"{pod['metadata']['name']}: on the tainted {node['metadata']['name']}")
    return wrong
