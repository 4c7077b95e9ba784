"""From what the API server shows to events of the engine.

Source: k8s pkg/scheduler/eventhandlers.go, ``addAllEventHandlers``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Generic

from berth.api.meta import PodKey
from berth.api.node import Node
from berth.api.pod import Pod
from berth.cluster import kinds
from berth.cluster.objects import K, Kind
from berth.framework.interface import Lookups
from berth.kube.discovery import Discovery
from berth.kube.reflector import Reflector, Resource
from berth.scheduling.engine import Engine

PODS: Final = Resource(path="/api/v1/pods", kind=Pod, field_selector="status.phase!=Succeeded,status.phase!=Failed")
NODES: Final = Resource(path="/api/v1/nodes", kind=Node)

# Kind -> (group version, resource); a group version that the server does not serve is left out, with one log line.
WATCHED: Final[Mapping[str, tuple[str, str]]] = {
    kinds.NAMESPACE.name: ("v1", "namespaces"),
    kinds.SERVICE.name: ("v1", "services"),
    kinds.REPLICATION_CONTROLLER.name: ("v1", "replicationcontrollers"),
    kinds.REPLICA_SET.name: ("apps/v1", "replicasets"),
    kinds.STATEFUL_SET.name: ("apps/v1", "statefulsets"),
    kinds.POD_DISRUPTION_BUDGET.name: ("policy/v1", "poddisruptionbudgets"),
    kinds.PERSISTENT_VOLUME.name: ("v1", "persistentvolumes"),
    kinds.PERSISTENT_VOLUME_CLAIM.name: ("v1", "persistentvolumeclaims"),
    kinds.STORAGE_CLASS.name: ("storage.k8s.io/v1", "storageclasses"),
    kinds.CSI_NODE.name: ("storage.k8s.io/v1", "csinodes"),
    kinds.CSI_DRIVER.name: ("storage.k8s.io/v1", "csidrivers"),
    kinds.CSI_STORAGE_CAPACITY.name: ("storage.k8s.io/v1", "csistoragecapacities"),
    kinds.VOLUME_ATTACHMENT.name: ("storage.k8s.io/v1", "volumeattachments"),
    kinds.RESOURCE_CLAIM.name: ("resource.k8s.io/v1", "resourceclaims"),
    kinds.RESOURCE_SLICE.name: ("resource.k8s.io/v1", "resourceslices"),
    kinds.DEVICE_CLASS.name: ("resource.k8s.io/v1", "deviceclasses"),
    kinds.DEVICE_TAINT_RULE.name: ("resource.k8s.io/v1", "devicetaintrules"),
}


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


class ObjectHandler(Generic[K]):
    """Tells the engine of objects of another kind."""

    def __init__(self, engine: Callable[[], Engine], kind: Kind[K]) -> None:
        self._engine, self._kind = engine, kind

    def on_add(self, obj: K, is_initial: bool) -> None:  # noqa: ARG002 - the engine treats all alike
        """An object appeared."""
        self._engine().object_added(self._kind, obj)

    def on_update(self, old: K, new: K) -> None:
        """An object changed."""
        self._engine().object_updated(self._kind, old, new)

    def on_delete(self, obj: K, final_state_unknown: bool) -> None:  # noqa: ARG002 - an object is known by name
        """An object is gone."""
        self._engine().object_deleted(self._kind, obj)


def looked_up(engine: Engine) -> tuple[Kind[Any], ...]:
    """The kinds that some plugin looks up, besides pods and nodes; each once."""
    plugins = (plugin for profile in engine.profiles.values() for plugin in profile.plugins.values())
    return tuple(
        {kind.name: kind for plugin in plugins if isinstance(plugin, Lookups) for kind in plugin.kinds()}.values()
    )


def group_versions(wanted: Iterable[Kind[Any]]) -> tuple[str, ...]:
    """The group versions in which these kinds are served."""
    return tuple(dict.fromkeys(WATCHED[kind.name][0] for kind in wanted))


def is_served(kind: Kind[Any], discovery: Discovery) -> bool:
    """Whether the API server has objects of this kind."""
    return discovery.serves(*WATCHED[kind.name])


def resource_of(kind: Kind[K]) -> Resource[K]:
    """What to list and watch for a kind."""
    group_version, plural = WATCHED[kind.name]
    root = "api" if "/" not in group_version else "apis"
    return Resource(path=f"/{root}/{group_version}/{plural}", kind=kind.type)


def lister(pods: Reflector[Pod]) -> Callable[[PodKey], Pod | None]:
    """Looks a pod up as the API server last showed it."""

    def look_up(key: PodKey) -> Pod | None:
        namespace, _, name = key.partition("/")
        return pods.store.get((namespace, name))

    return look_up
