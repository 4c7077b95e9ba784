"""From what the API server shows to events of the engine.

Source: k8s pkg/scheduler/eventhandlers.go, ``addAllEventHandlers``.
"""

from collections.abc import Callable
from typing import Final

from berth.api.meta import PodKey
from berth.api.node import Node
from berth.api.pod import Pod
from berth.kube.reflector import Reflector, Resource
from berth.scheduling.engine import Engine

PODS: Final = Resource(path="/api/v1/pods", kind=Pod, field_selector="status.phase!=Succeeded,status.phase!=Failed")
NODES: Final = Resource(path="/api/v1/nodes", kind=Node)


class PodHandler:
    """Tells the engine of pods."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def on_add(self, obj: Pod, is_initial: bool) -> None:  # noqa: ARG002 - the engine treats all alike
        """A pod appeared."""
        self._engine().pod_added(obj)

    def on_update(self, old: Pod, new: Pod) -> None:
        """A pod changed."""
        self._engine().pod_updated(old, new)

    def on_delete(self, obj: Pod, final_state_unknown: bool) -> None:
        """A pod is gone."""
        self._engine().pod_deleted(obj, final_state_unknown=final_state_unknown)


class NodeHandler:
    """Tells the engine of nodes."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    def on_add(self, obj: Node, is_initial: bool) -> None:  # noqa: ARG002 - the engine treats all alike
        """A node appeared."""
        self._engine().node_added(obj)

    def on_update(self, old: Node, new: Node) -> None:
        """A node changed."""
        self._engine().node_updated(old, new)

    def on_delete(self, obj: Node, final_state_unknown: bool) -> None:  # noqa: ARG002 - a node is known by name
        """A node is gone."""
        self._engine().node_deleted(obj)


def lister(pods: Reflector[Pod]) -> Callable[[PodKey], Pod | None]:
    """Looks a pod up as the API server last showed it."""

    def look_up(key: PodKey) -> Pod | None:
        namespace, _, name = key.partition("/")
        return pods.store.get((namespace, name))

    return look_up
