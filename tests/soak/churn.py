"""Pods and nodes that come, change and go at an even pace, for as long as it is asked for."""

from __future__ import annotations

from collections import deque
from typing import Final

from tests.chaos.crowd import some_nodes, some_pods
from tests.chaos.stage import Stage, path_of_node, path_of_pod
from tests.support.client import PODS, ApiError

ALIVE: Final = 150
"""So many pods there are at a time."""

_NODE_EVERY, _LABEL_EVERY = 40, 5  # steps


class Churn:
    """One step after the other; what is left to chance comes from the stage."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._alive: deque[str] = deque()
        self._nodes = some_nodes(15)
        self._step = 0

    def begin(self) -> None:
        self._stage.insist(self._nodes)

    def step(self) -> None:
        """A pod comes; the oldest goes; now and then a pod changes, and a node goes and comes back."""
        self._step += 1
        pod = self._stage.chance.choice(some_pods(self._stage.chance, f"soak-{self._step}", 9, relying=False))
        self._stage.insist([pod])
        self._stage.created.clear()  # they are not kept for hours
        self._alive.append(pod["metadata"]["name"])
        if len(self._alive) > ALIVE:
            self._stage.delete(path_of_pod(self._alive.popleft()))
        if self._step % _LABEL_EVERY == 0:
            self._relabel(self._stage.chance.choice(self._alive))
        if self._step % _NODE_EVERY == 0:
            node = self._stage.chance.choice(self._nodes)
            self._stage.delete(path_of_node(node["metadata"]["name"]))
            self._stage.insist([node])

    def _relabel(self, name: str) -> None:
        try:
            self._stage.api.patch(f"{PODS}/{name}", {"metadata": {"labels": {"step": str(self._step)}}})
        except ApiError as refused:
            if refused.reason != "NotFound":
                raise
