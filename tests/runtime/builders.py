"""The shell around an engine, over an API in memory and in virtual time: placements, and what users are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from tests.builders import a_cluster, a_node
from tests.framework.fakes import Answer, profile_of, said
from tests.kube.scripted_api import ScriptedApi
from tests.kube.virtual_time import loop_clock

from berth.config.gates import features_of
from berth.config.versions import row_of
from berth.framework.status import SUCCESS, Status
from berth.kube.dispatcher import Dispatcher
from berth.kube.events import EventRecorder, ObjectRef
from berth.queueing.hints import build_hint_map
from berth.queueing.queue import SchedulingQueue
from berth.queueing.settings import QueueProfile
from berth.runtime.binding import BindingTasks
from berth.runtime.evictions import Evictions
from berth.runtime.reports import Reporter
from berth.scheduling.engine import Engine
from berth.scheduling.instructions import Bind, Instruction

if TYPE_CHECKING:
    from berth.api.meta import PodKey
    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.cluster.pods import PodInfo
    from berth.framework.cycle_state import CycleState
    from berth.framework.interface import Plugin


class Step:
    """A plugin that takes part in all that follows a decision, and writes down what it is asked to do.

    Args:
        name: its name.
        diary: where it writes; may be shared with others.
        ahead: what it says when it is asked whether PreBind has work to do.
        pre_bind: what it says at PreBind.
        bind: what it says at Bind.
        takes_s: how long it takes at PreBind.
        room: how many bindings it lets through; None for any number.
    """

    def __init__(
        self,
        name: str = "Step",
        diary: list[str] | None = None,
        *,
        ahead: Answer = SUCCESS,
        pre_bind: Answer = SUCCESS,
        bind: Answer = SUCCESS,
        takes_s: float = 0.0,
        room: asyncio.Semaphore | None = None,
    ) -> None:
        self.name, self.diary = name, [] if diary is None else diary
        self.ahead, self.at_pre_bind, self.at_bind = ahead, pre_bind, bind
        self.takes_s, self.room = takes_s, room

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, pod, node_name
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state, pod, node_name
        self.diary.append(f"{self.name} unreserves")

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, pod, node_name
        self.diary.append(f"{self.name} looks ahead")
        return said(self.ahead)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state, pod, node_name
        await asyncio.sleep(self.takes_s)
        self.diary.append(f"{self.name} prepares")
        return said(self.at_pre_bind)

    async def bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state
        if self.room is not None:
            await self.room.acquire()
        self.diary.append(f"{self.name} binds {pod.key} to {node_name}")
        return said(self.at_bind)

    def post_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state, pod, node_name
        self.diary.append(f"{self.name} hears of it")


class HeardEvents(EventRecorder):
    """Keeps events instead of posting them."""

    def __init__(self) -> None:
        super().__init__(ScriptedApi(), hostname="here", qps=-1, burst=0)
        self.heard: list[tuple[str, str, str, str]] = []  # type, reason, action, note

    def event(
        self,
        regarding: ObjectRef,
        event_type: str,
        reason: str,
        action: str,
        note: str,
        *,
        controller: str,
        related: ObjectRef | None = None,
        may_repeat: bool = True,
    ) -> None:
        del regarding, controller, related, may_repeat
        self.heard.append((event_type, reason, action, note))


@dataclass
class Notes:
    """What an observer of cycles, decisions and placements is told."""

    stopwatch: Any = field(default_factory=lambda: asyncio.get_running_loop().time)
    ran: list[tuple[str, str]] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    waits: list[tuple[str, float]] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    decisions: list[tuple[Instruction, float]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    settled: int = 0
    on_settled: Callable[[], None] = lambda: None
    on_bound: Callable[[Bind], None] = lambda _: None

    def extension_point_ran(self, point: str, status: str, profile: str, seconds: float) -> None:
        assert profile == "default-scheduler"
        self.ran.append((point, status))
        self.seconds[point] = seconds

    def plugins_evaluated(self, profile: str, point: str, names: Iterable[str]) -> None:
        """No concern of these tests."""

    def event_handled(self, event: str, seconds: float) -> None:
        assert seconds >= 0
        self.events.append(event)

    def permit_waited(self, status: str, seconds: float) -> None:
        self.waits.append((status, seconds))

    def bound(self, bind: Bind) -> None:
        self.on_bound(bind)
        self.ends.append(f"{bind.info.key} bound")

    def failed(self, bind: Bind, *, rejected: bool) -> None:
        self.ends.append(f"{bind.info.key} {'rejected' if rejected else 'failed'}")

    def preemption_executed(self, ok: bool, seconds: float) -> None:
        assert seconds >= 0
        self.ends.append("evicted" if ok else "not evicted")

    def decided(self, instruction: Instruction, duration_s: float) -> None:
        self.decisions.append((instruction, duration_s))

    def settle(self) -> None:
        """A placement has ended, however it did."""
        self.settled += 1
        self.on_settled()


@dataclass
class Shell:
    """An engine, its binding tasks, and the world as they see it."""

    engine: Engine
    bindings: BindingTasks
    evictions: Evictions
    reporter: Reporter
    recorder: HeardEvents
    api: ScriptedApi
    notes: Notes
    shown: dict[PodKey, Pod]

    def add(self, *pods: Pod) -> None:
        """Show new pods."""
        for pod in pods:
            self.shown[pod.key] = pod
            self.engine.pod_added(pod)

    def delete(self, pod: Pod) -> None:
        """Show no more of a pod."""
        del self.shown[pod.key]
        self.engine.pod_deleted(pod)

    def mark(self, pod: Pod) -> None:
        """Show a pod marked for deletion."""
        marked = msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata, deletion_timestamp="2030-01-01T00:00:00Z", resource_version="later"
            ),
        )
        self.shown[pod.key] = marked
        self.engine.pod_updated(pod, marked)

    def placed(self, pod: Pod) -> Bind:
        """The placement of a new pod, which must be the next decision."""
        self.add(pod)
        instruction = self.engine.next_instruction()
        assert isinstance(instruction, Bind), instruction
        return instruction

    async def carry_through(self, pod: Pod) -> Bind:
        """Place a new pod, and see its placement to its end."""
        bind = self.placed(pod)
        self.bindings.start(bind)
        await self.bindings.finish()
        return bind

    async def patches(self) -> list[Any]:
        """The statuses that were patched, once all patches are through."""
        await asyncio.sleep(1)
        return [sent.body["status"] for sent in self.api.sent if sent.method == "PATCH"]

    def break_with(self, *bugs: Exception) -> None:
        """Let carrying placements through go wrong, one after the other, where no plugin is to blame."""
        left = list(bugs)

        def bound(_: Bind) -> None:
            raise left.pop(0)

        self.notes.on_bound = bound

    @property
    def last_note(self) -> str:
        """What the last event says."""
        return self.recorder.heard[-1][3]


def a_shell(
    *plugins: Plugin,
    cluster: Cluster | None = None,
    nominate: bool = True,
    minor: str = "1.37",
    gates: Mapping[str, bool] = MappingProxyType({}),
) -> Shell:
    """A shell around an engine with these plugins, to be made on a running loop.

    Args:
        plugins: each takes part wherever it can; pods are sorted, and bound if none of these binds.
        cluster: the nodes; one with ample room if None.
        nominate: as `BindingTasks` takes it.
        minor: the version whose rules apply.
        gates: those that are not at their default.
    """
    clock, notes, shown, recorder = loop_clock(), Notes(), dict[Any, Any](), HeardEvents()
    features = features_of(row_of(minor), gates)
    profile = profile_of(*plugins)
    hints = build_hint_map(profile.plugins.values(), features.behaviours, pod_groups=False)
    queue = SchedulingQueue(
        {
            profile.scheduler_name: QueueProfile(
                hints=hints, sort_key=profile.queue_sort.sort_key, pre_enqueue=profile.pre_enqueue
            )
        },
        clock=lambda: clock.wall_ns() / 1e9,
        behaviours=features.behaviours,
        lister=shown.get,
    )
    cluster = a_cluster([a_node()]) if cluster is None else cluster
    engine = Engine({profile.scheduler_name: profile}, cluster, queue, features, shown.get, observer=notes)
    api = ScriptedApi()
    dispatcher = Dispatcher(api, qps=-1, burst=0, clock=clock)
    reporter = Reporter(recorder, dispatcher)
    bindings = BindingTasks(engine, reporter, notes, nominate=nominate, on_settled=notes.settle)
    evictions = Evictions(engine, bindings, reporter, dispatcher, notes, clock=clock)
    return Shell(engine, bindings, evictions, reporter, recorder, api, notes, shown)
