"""Builders for the queue's tests: pods, plugins that do as they are told, and a queue under a virtual clock."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from berth.api.meta import ObjectMeta, PodKey
from berth.api.pod import Container, Pod, PodSchedulingGate, PodSpec, PodStatus, ResourceRequirements, Toleration
from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Hint, HintFn, Registration, Resource
from berth.framework.features import Behaviours
from berth.framework.interface import PreEnqueuePlugin
from berth.framework.status import SUCCESS, Status, unresolvable
from berth.queueing.entries import QueuedPodInfo
from berth.queueing.hints import HintMap, Waiter
from berth.queueing.queue import SchedulingQueue
from berth.queueing.settings import QueueProfile, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from berth.api.meta import PodUid
    from berth.framework.status import Code

NEWEST = Behaviours()
OLDEST = Behaviours(
    own_pod_event_resource="UnschedulablePod",
    unscheduled_pod_event_resource="UnschedulablePod",
    pod_scale_up_event=False,
    implied_node_taint_event=True,
    leftover_flush_retries_gated_pods=False,
    unschedulable_gauge_drops_on_any_delete=False,
    resize_footprint_is_max_of_totals=False,
)
BOTH = {"1.36": OLDEST, "1.37": NEWEST}

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
POD_ADD = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
PV_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD)
PV_UPDATE = ClusterEvent(Resource.PERSISTENT_VOLUME, Action.UPDATE)
PVC_ADD = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)
CSI_NODE_UPDATE = ClusterEvent(Resource.CSI_NODE, Action.UPDATE)
ANY = ClusterEvent(Resource.WILDCARD, Action.ALL)


def make_pod(
    name: str = "p",
    *,
    namespace: str = "default",
    uid: str = "",
    priority: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node_name: str = "",
    nominated: str = "",
    gates: Iterable[str] = (),
    tolerations: int = 0,
    requests: Mapping[str, str] | None = None,
    scheduler_name: str = "default-scheduler",
    status: PodStatus | None = None,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
        ),
        spec=PodSpec(
            node_name=node_name,
            priority=priority,
            scheduler_name=scheduler_name,
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
            tolerations=tuple(Toleration(key=f"k{i}") for i in range(tolerations)),
            containers=(Container(name="c", resources=ResourceRequirements(requests=dict(requests or {}))),),
        ),
        status=status or PodStatus(nominated_node_name=nominated),
    )


def make_entry(pod: Pod | None = None, **fields: Any) -> QueuedPodInfo:
    return QueuedPodInfo(PodInfo(pod or make_pod()), **{"timestamp_s": 0.0, **fields})


def by_priority(info: PodInfo, timestamp_s: float) -> tuple[int, float]:
    return (-info.priority, timestamp_s)


@dataclass
class ManualClock:
    """Wall clock that moves when it is told to."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds


@dataclass
class ScriptedHint:
    """A hint that answers as it is told and counts how often it was asked."""

    answer: Hint | Exception = Hint.QUEUE
    calls: int = 0

    def __call__(self, _pod: PodInfo, _old: Any, _new: Any) -> Hint:
        self.calls += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class GatePlugin:
    """Holds back the pods that it is told to hold back."""

    def __init__(self, name: str, held: Iterable[str] = (), status: Status | None = None) -> None:
        self.name = name
        self.held = set(held)
        self.status = status or unresolvable("held back")
        self.calls = 0

    def pre_enqueue(self, pod: PodInfo) -> Status:
        self.calls += 1
        return self.status if pod.pod.metadata.name in self.held else SUCCESS


class LabelGatePlugin:
    """Holds back pods with a certain label, as long as they have it."""

    def __init__(self, name: str, label: str) -> None:
        self.name = name
        self._label = label

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable("held back") if self._label in pod.pod.metadata.labels else SUCCESS


class HoldingGatePlugin:
    """Holds back the pods that it is told to hold back, and tells which."""

    def __init__(self, name: str, held: AbstractSet[PodUid]) -> None:
        self.name = name
        self._held = held

    def pre_enqueue(self, pod: PodInfo) -> Status:
        return unresolvable("held back") if pod.uid in self._held else SUCCESS

    def held_back(self, about: object) -> AbstractSet[PodUid]:
        del about
        return self._held


class Ledger:
    """An observer that adds everything up."""

    def __init__(self) -> None:
        self.queued: Counter[tuple[str, str]] = Counter()
        self.unschedulable: Counter[tuple[str, str]] = Counter()
        self.in_flight: Counter[str] = Counter()
        self.hints: list[tuple[str, str, str]] = []
        self.pre_enqueue: list[tuple[str, str, str]] = []

    def pod_queued(self, queue: str, event: str) -> None:
        self.queued[str(queue), event] += 1

    def unschedulable_changed(self, plugin: str, profile: str, delta: int) -> None:
        self.unschedulable[plugin, profile] += delta

    def in_flight_changed(self, event: str, delta: int) -> None:
        self.in_flight[event] += delta

    def hint_ran(self, plugin: str, event: str, hint: str, duration_s: float) -> None:
        assert duration_s >= 0
        self.hints.append((plugin, event, hint))

    def pre_enqueue_plugin_ran(self, profile: str, plugin: str, code: Code, duration_s: float) -> None:
        assert duration_s >= 0
        self.pre_enqueue.append((profile, plugin, code.label))

    def pre_enqueue_ran(self, profile: str, duration_s: float) -> None:
        assert profile
        assert duration_s >= 0

    def rejected(self, plugin: str) -> int:
        return sum(count for (name, _), count in self.unschedulable.items() if name == plugin)


def waiter(plugin: str, event: ClusterEvent, hint: HintFn | None = None) -> Waiter:
    return Waiter(plugin, event, hint)


def registration(event: ClusterEvent, hint: HintFn | None = None) -> Registration:
    return Registration(event, hint)


@dataclass
class World:
    """A queue, its clock, what the API server shows, and what the queue told."""

    queue: SchedulingQueue
    clock: ManualClock
    ledger: Ledger
    listed: dict[PodKey, Pod] = field(default_factory=dict)
    wakes: list[float] = field(default_factory=list)

    def add(self, *pods: Pod) -> None:
        for pod in pods:
            self.listed[pod.key] = pod
            self.queue.add(PodInfo(pod))

    def update(self, old: Pod, new: Pod) -> None:
        self.listed[new.key] = new
        self.queue.update(old, PodInfo(new))

    def pop(self) -> QueuedPodInfo:
        entry = self.queue.pop()
        assert entry is not None
        return entry

    def popped(self) -> list[str]:
        names = []
        while (entry := self.queue.pop()) is not None:
            names.append(entry.pod.metadata.name)
        return names

    def fail(self, entry: QueuedPodInfo, *unschedulable: str, pending: Iterable[str] = ()) -> None:
        entry.unschedulable_plugins = set(unschedulable)
        entry.pending_plugins = set(pending)
        self.queue.add_unschedulable_if_not_present(entry)

    def reject(self, pod: Pod, *unschedulable: str, pending: Iterable[str] = ()) -> QueuedPodInfo:
        """Add, pop and reject *pod*, which must be the next one."""
        self.add(pod)
        entry = self.pop()
        assert entry.uid == pod.uid
        self.fail(entry, *unschedulable, pending=pending)
        return entry

    def place(self, pod: Pod) -> str:
        """Where a pod is: A, B (after a rejection), E (after an error), U, F, or nothing."""
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
        assert len(found) < 2, f"{pod.key} is in {found}"
        return found[0] if found else ""


def make_world(
    *waiters: Waiter,
    pre_enqueue: Iterable[PreEnqueuePlugin] = (),
    profiles: Mapping[str, QueueProfile] | None = None,
    behaviours: Behaviours = NEWEST,
    settings: QueueSettings | None = None,
    start_s: float = 1000.0,
    make_queue: Callable[..., SchedulingQueue] = SchedulingQueue,
) -> World:
    clock, ledger = ManualClock(start_s), Ledger()
    listed: dict[PodKey, Pod] = {}
    profile = QueueProfile(hints=HintMap(waiters), sort_key=by_priority, pre_enqueue=tuple(pre_enqueue))
    queue = make_queue(
        profiles or {"default-scheduler": profile},
        clock=clock,
        behaviours=behaviours,
        lister=listed.get,
        settings=settings or QueueSettings(),
        observer=ledger,
    )
    world = World(queue, clock, ledger, listed)
    queue.on_activity = lambda: world.wakes.append(clock.now_s)
    return world
