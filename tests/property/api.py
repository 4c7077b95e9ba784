"""An API server as small as it can be: pods and nodes, and a watch whose events arrive when they are let through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from tests.property.pool import KINDS, named

from berth.api.meta import PodKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.scheduling.worlds import World

    from berth.api.node import Node
    from berth.api.pod import Pod

GOING = "2030-01-01T00:00:00Z"


class Api:
    """The truth, and what of it the scheduler has not been shown yet.

    Args:
        world: the scheduler that is shown it.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.pods: dict[PodKey, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self._outbox: list[Callable[[], None]] = []
        self._version = 0
        self._births = 0

    # -- what happens ---------------------------------------------------------------------------------------------

    def create_pod(self, kind: str, name: str, **fields: Any) -> None:
        """Nothing happens if there is a pod of that name."""
        key = PodKey(f"default/{name}")
        if key not in self.pods:
            self._births += 1
            pod = self._stored(named(KINDS[kind], name, f"uid-{self._births}", **fields))
            self._outbox.append(lambda: self._show_added(pod))

    def change_pod(self, key: PodKey, change: Callable[[Pod], Pod]) -> None:
        """Nothing happens if there is no pod of that name."""
        if key in self.pods:
            pod = self._stored(change(self.pods[key]))
            self._outbox.append(lambda: self._show_changed(pod))

    def mark_for_deletion(self, key: PodKey) -> None:
        """A finalizer, or its kubelet, still holds the pod."""
        if key in self.pods and self.pods[key].metadata.deletion_timestamp is None:
            self.change_pod(key, lambda pod: replace(pod, metadata=replace(pod.metadata, deletion_timestamp=GOING)))

    def delete_pod(self, key: PodKey) -> None:
        """Nothing holds the pod, or its name is free for another one at once."""
        pod = self.pods.pop(key, None)
        if pod is not None:
            self._outbox.append(lambda: self._show_deleted(pod))

    def bind(self, pod: Pod, node_name: str) -> bool:
        """The binding subresource; returns whether the pod was there to be bound."""
        stored = self.pods.get(pod.key)
        if stored is None or stored.uid != pod.uid or stored.spec.node_name or stored.metadata.deletion_timestamp:
            return False
        self.change_pod(pod.key, lambda old: _on(old, node_name))
        return True

    def nominate(self, pod: Pod, node_name: str) -> None:
        """The status subresource."""
        stored = self.pods.get(pod.key)
        if stored is not None and stored.uid == pod.uid and stored.status.nominated_node_name != node_name:
            self.change_pod(
                pod.key, lambda old: replace(old, status=replace(old.status, nominated_node_name=node_name))
            )

    def set_node(self, node: Node) -> None:
        self.nodes[node.metadata.name] = node
        self._outbox.append(lambda: self._world.set_node(node))

    def remove_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._outbox.append(lambda: self._world.remove_node(name))

    # -- what is shown --------------------------------------------------------------------------------------------

    def let_through(self, many: int | None = None) -> None:
        """Show the next changes; all of them if None."""
        many = len(self._outbox) if many is None else many
        now, self._outbox = self._outbox[:many], self._outbox[many:]
        for show in now:
            show()

    def list_anew(self) -> None:
        """Instead of the changes, show what has come of them; what was missed in between is never shown."""
        self._outbox.clear()
        world = self._world
        for key in [key for key in world.listed if key not in self.pods]:
            world.delete(world.listed[key], final_state_unknown=True)
        for key, pod in self.pods.items():
            if key in world.listed:
                self._show_changed(pod)
            else:
                self._show_added(pod)
        for name in [name for name in world.nodes if name not in self.nodes]:
            world.remove_node(name)
        for node in self.nodes.values():
            if world.nodes.get(node.metadata.name) != node:
                world.set_node(node)

    def _show_added(self, pod: Pod) -> None:
        self._world.add(pod)

    def _show_changed(self, pod: Pod) -> None:
        old, self._world.listed[pod.key] = self._world.listed[pod.key], pod
        self._world.engine.pod_updated(old, pod)

    def _show_deleted(self, pod: Pod) -> None:
        self._world.delete(pod)

    def _stored(self, pod: Pod) -> Pod:
        self._version += 1
        pod = replace(pod, metadata=replace(pod.metadata, resource_version=str(self._version)))
        self.pods[pod.key] = pod
        return pod


def _on(pod: Pod, node_name: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node_name))
