"""An engine, the API server as its informers show it, and a clock that moves when it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace
from tests.builders import a_node
from tests.framework.fakes import Filter, profile_of

from berth.api.node import Node
from berth.api.pod import Pod
from berth.cluster.cache import Cluster
from berth.config.gates import features_of
from berth.config.versions import row_of
from berth.queueing.hints import build_hint_map
from berth.queueing.queue import SchedulingQueue
from berth.queueing.settings import QueueProfile, QueueSettings
from berth.scheduling.engine import Engine, EngineSettings
from berth.scheduling.instructions import Bind, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from berth.api.meta import PodKey
    from berth.cluster.pods import PodInfo
    from berth.framework.events import ClusterEvent
    from berth.framework.interface import Plugin
    from berth.framework.profile import Profile
    from berth.scheduling.instructions import Instruction

DEFAULT = "default-scheduler"
GONE = "2030-01-01T00:00:00Z"


class Move(NamedTuple):
    """That waiting pods were told of an event."""

    label: str
    old: str
    new: str


class ListeningQueue(SchedulingQueue):
    """A queue that writes down what it is told of."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.moves: list[Move] = []
        self.on_move: Callable[[], object] = lambda: None

    def move_all_to_active_or_backoff_queue(
        self, event: ClusterEvent, old: Any, new: Any, pre_check: Callable[[PodInfo], bool] | None = None
    ) -> None:
        self.moves.append(Move(event.label, _name(old), _name(new)))
        self.on_move()
        super().move_all_to_active_or_backoff_queue(event, old, new, pre_check)


def _name(thing: Any) -> str:
    return thing.metadata.name if isinstance(thing, Pod | Node) else ""


@dataclass
class World:
    """An engine and its surroundings."""

    engine: Engine
    cluster: Cluster
    queue: ListeningQueue
    closed: set[str] = field(default_factory=set)
    listed: dict[PodKey, Pod] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    now_s: float = 1000.0
    versions: int = 0

    # -- what the API server does ---------------------------------------------------------------------------------

    def add(self, *pods: Pod) -> World:
        """Show new pods."""
        for pod in pods:
            self.listed[pod.key] = pod
            self.engine.pod_added(pod)
        return self

    def update(self, new: Pod) -> Pod:
        """Show another version of a pod; returns it with its resource version."""
        self.versions += 1
        new = replace(new, metadata=replace(new.metadata, resource_version=str(self.versions)))
        old, self.listed[new.key] = self.listed[new.key], new
        self.engine.pod_updated(old, new)
        return new

    def bind(self, pod: Pod, node_name: str) -> Pod:
        """Show a pod bound."""
        return self.update(replace(pod, spec=replace(pod.spec, node_name=node_name)))

    def terminate(self, pod: Pod) -> Pod:
        """Show a pod marked for deletion."""
        return self.update(replace(pod, metadata=replace(pod.metadata, deletion_timestamp=GONE)))

    def show_again(self, pod: Pod) -> World:
        """Show a pod in the version in which it was shown already, as a list does."""
        self.engine.pod_updated(self.listed[pod.key], pod)
        return self

    def delete(self, pod: Pod, *, final_state_unknown: bool = False) -> World:
        """Show no more of a pod; what is known of it may be old if it was missed in a list."""
        self.listed.pop(pod.key, None)
        self.engine.pod_deleted(pod, final_state_unknown=final_state_unknown)
        return self

    def set_node(self, node: Node) -> None:
        name = node.metadata.name
        old, self.nodes[name] = self.nodes.get(name), node
        if old is None:
            self.engine.node_added(node)
        else:
            self.engine.node_updated(old, node)

    def remove_node(self, name: str) -> None:
        self.engine.node_deleted(self.nodes.pop(name))

    # -- what the shell does --------------------------------------------------------------------------------------

    def next(self) -> Instruction | None:
        return self.engine.next_instruction()

    def bound(self) -> Bind:
        """The next instruction, which must be to bind."""
        instruction = self.next()
        assert isinstance(instruction, Bind), instruction
        return instruction

    def assumed(self, pod: Pod) -> Bind:
        """Show a new pod, and have it placed."""
        bind = self.add(pod).bound()
        assert bind.info.uid == pod.uid
        return bind

    def placed(self, pod: Pod) -> World:
        """The same, where nobody asks for the instruction."""
        self.assumed(pod)
        return self

    def rejected(self, *pods: Pod) -> None:
        """Show new pods that fit nowhere, and have them wait for an event."""
        before, everywhere = set(self.closed), set(self.nodes)
        self.close(everywhere)
        for pod in pods:
            self.add(pod).reported()
            assert self.place(pod) == "U"
        self.close(before)
        self.quiet()

    def reported(self) -> Report:
        """The next instruction, which must be to report."""
        instruction = self.next()
        assert isinstance(instruction, Report), instruction
        return instruction

    def close(self, names: Iterable[str]) -> None:
        """Let these nodes, and no others, fit no pod."""
        names = set(names)
        for name in names ^ self.closed:
            self.cluster.set_node(self.nodes[name])  # what was judged before no longer holds
        self.closed.clear()
        self.closed.update(names)

    # -- where things are -----------------------------------------------------------------------------------------

    def place(self, pod: Pod) -> str:
        """Where a pod is: A, B (after a rejection), E (after an error), U, F (in flight), or nothing; then + where
        it counts: assumed or bound."""
        places = self.queue._places
        found = [
            name
            for name, place in (
                ("A", places.active),
                ("B", places.backoff._rejected),
                ("E", places.backoff._failed),
                ("U", places.unschedulable),
            )
            if pod.key in place
        ]
        if pod.uid in self.queue._in_flight:
            found.append("F")
        placed = self.cluster.placed(pod.uid)
        if placed is not None:
            found.append(f"{'assumed' if placed.assumed else 'bound'} on {placed.node_name}")
        self.cluster.validate()
        return ", ".join(found)

    def quiet(self) -> World:
        """Forget what waiting pods were told so far."""
        self.queue.moves = []
        return self

    def labels(self) -> list[str]:
        """The events told of since the last call."""
        labels, self.queue.moves = [move.label for move in self.queue.moves], []
        return labels


def a_world(
    *plugins: Plugin,
    nodes: Iterable[str | Node] = ("n1",),
    closed: Iterable[str] = (),
    others: Mapping[str, Profile] | None = None,
    minor: str = "1.37",
    settings: EngineSettings | None = None,
    cluster: Cluster | None = None,
) -> World:
    """A world with one profile of *plugins*, each wherever it can take part, and of a filter ``F`` that closes nodes.

    Args:
        plugins: the plugins.
        nodes: the nodes that are there at first, or their names.
        closed: names of nodes that no pod fits.
        others: further profiles by scheduler name.
        minor: of Kubernetes.
        settings: how the engine decides.
        cluster: the cluster, where a plugin has to know it before there is a world.
    """
    features = features_of(row_of(minor))
    cluster = Cluster() if cluster is None else cluster
    shut = set(closed)
    profiles = {DEFAULT: profile_of(*plugins, Filter("F", cluster, lambda name, _pod: name in shut)), **(others or {})}
    listed: dict[PodKey, Pod] = {}
    queue = ListeningQueue(
        {
            name: QueueProfile(
                hints=build_hint_map(profile.plugins.values(), features.behaviours),
                sort_key=profile.queue_sort.sort_key,
                pre_enqueue=profile.pre_enqueue,
            )
            for name, profile in profiles.items()
        },
        clock=lambda: world.now_s,
        behaviours=features.behaviours,
        lister=listed.get,
        settings=QueueSettings(pop_from_backoff_q=False),
    )
    engine = Engine(profiles, cluster, queue, features, listed.get, settings)
    world: World = World(engine, cluster, queue, shut, listed)
    for node in nodes:
        world.set_node(a_node(node) if isinstance(node, str) else node)
    return world.quiet()
