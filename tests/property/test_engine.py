"""Whatever the API server does: no pod is lost, none is placed where it does not fit, and the view converges."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.builders import a_handle
from tests.property.api import Api
from tests.property.pool import (
    FEW_NODES,
    KINDS,
    NODE_NAMES,
    SOUND_KINDS,
    kinds,
    nodes,
    roomy_node,
    sound_kinds,
)
from tests.scheduling.worlds import World, a_world

from berth.api.meta import PodKey
from berth.api.quantity import milli_value, value
from berth.api.requests import CPU, PODS
from berth.cluster.cache import Cluster
from berth.cluster.pods import ANY_ADDRESS
from berth.framework.interface import PermitResult, PostFilterResult
from berth.framework.status import SUCCESS, Code, Status, error, unschedulable
from berth.plugins.registry import IN_TREE
from berth.scheduling.instructions import Bind, Report

if TYPE_CHECKING:
    from berth.api.meta import PodUid
    from berth.api.node import Node
    from berth.api.pod import Pod
    from berth.cluster.pods import HostPort, PodInfo
    from berth.framework.cycle_state import CycleState
    from berth.framework.interface import NodeStatuses

NAMES = st.integers(0, 9).map(lambda number: PodKey(f"default/p{number}"))
IMPORTANCE = st.integers(0, 3)
LONGEST_BACKOFF_S = 11
PATIENT = 2  # pods of this priority wait for permission
PLUGINS = (
    "SchedulingGates",
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)


class Books:
    """Keeps book of placements, and holds some back."""

    name = "Books"

    def __init__(self) -> None:
        self.booked: dict[PodUid, str] = {}

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        del state
        assert pod.uid not in self.booked, "the pod was booked already, and that was not taken back"
        self.booked[pod.uid] = node_name
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        del state
        assert self.booked.pop(pod.uid, node_name) == node_name

    def permit(self, state: CycleState, pod: PodInfo, node_name: str) -> PermitResult:
        del state, node_name
        return PermitResult(Status(Code.WAIT) if pod.priority == PATIENT else SUCCESS, 60)


class Promises:
    """Promises a node to important pods, without making room."""

    name = "Promises"

    def post_filter(self, state: CycleState, pod: PodInfo, statuses: NodeStatuses) -> PostFilterResult:
        del state, statuses
        if pod.priority == 0:
            return PostFilterResult(unschedulable("not important"))
        return PostFilterResult(SUCCESS, NODE_NAMES[pod.priority % 2])


class Scheduling(RuleBasedStateMachine):
    """A scheduler, an API server, and bindings on their way between them."""

    @initialize(first=st.lists(nodes(), max_size=3), few=st.lists(sound_kinds, min_size=1, max_size=3))
    def start(self, first: list[Node], few: list[str]) -> None:
        cluster = Cluster()
        self.books = Books()
        in_tree = [IN_TREE[name](None, a_handle(cluster)) for name in PLUGINS]
        self.world: World = a_world(*in_tree, self.books, Promises(), nodes=(), cluster=cluster)
        self.api = Api(self.world)
        self.few = few
        self.bindings: dict[PodUid, Bind] = {}
        self.permitted: set[PodUid] = set()
        for node in first:
            self.api.set_node(node)
        self.api.let_through()

    # -- the API server -------------------------------------------------------------------------------------------

    @rule(kind=st.none() | st.none() | kinds, names=st.lists(NAMES, min_size=1, max_size=6), priority=IMPORTANCE)
    def create(self, kind: str | None, names: list[PodKey], priority: int) -> None:
        """Create pods, mostly of a few kinds, so that they get into each other's way."""
        for number, name in enumerate(names):
            any_kind = kind or self.few[number % len(self.few)]
            self.api.create_pod(any_kind, name.partition("/")[2], priority=priority)

    @rule(kind=sound_kinds, name=NAMES, node=FEW_NODES)
    def create_bound(self, kind: str, name: PodKey, node: str) -> None:
        self.api.create_pod(kind, name.partition("/")[2], on=node)

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data(), label=st.sampled_from("ab"))
    def relabel(self, data: st.DataObject, label: str) -> None:
        self.api.change_pod(
            self.some_pod(data), lambda pod: replace(pod, metadata=replace(pod.metadata, labels={label: ""}))
        )

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data(), node=st.sampled_from(("", *NODE_NAMES[:2])))
    def nominate(self, data: st.DataObject, node: str) -> None:
        self.api.nominate(self.api.pods[self.some_pod(data)], node)

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data())
    def mark_for_deletion(self, data: st.DataObject) -> None:
        self.api.mark_for_deletion(self.some_pod(data))

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.api.delete_pod(self.some_pod(data))

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data())
    def replace_by_another_of_its_name(self, data: st.DataObject) -> None:
        key = self.some_pod(data)
        self.api.delete_pod(key)
        self.api.create_pod(SOUND_KINDS[0], key.partition("/")[2])

    @precondition(lambda self: self.api.pods)
    @rule(data=st.data(), node=FEW_NODES)
    def bind_by_others(self, data: st.DataObject, node: str) -> None:
        pod = self.api.pods[self.some_pod(data)]
        if is_sound(pod):
            self.api.bind(pod, node)

    def some_pod(self, data: st.DataObject) -> PodKey:
        """A pod that is on its way, if there is one, since that is where it hurts; else any."""
        moving = [bind.info.key for bind in self.bindings.values() if bind.info.key in self.api.pods]
        return data.draw(st.sampled_from(sorted(moving or self.api.pods)))

    @rule(node=nodes())
    def set_node(self, node: Node) -> None:
        self.api.set_node(node)

    @rule(name=FEW_NODES)
    def remove_node(self, name: str) -> None:
        self.api.remove_node(name)

    @rule(many=st.integers(1, 4))
    def let_through(self, many: int) -> None:
        self.api.let_through(many)

    @rule()
    def list_anew(self) -> None:
        self.api.list_anew()

    # -- the scheduler --------------------------------------------------------------------------------------------

    @rule(shown=st.sampled_from((0, 2, 9, 9)))
    def run(self, shown: int) -> None:
        """Show some changes, and decide about all pods that are ready."""
        self.api.let_through(shown)
        self.decide()

    def decide(self) -> None:
        while (instruction := self.world.next()) is not None:
            if isinstance(instruction, Bind):
                self.check_fit(instruction)
                assert instruction.info.uid not in self.bindings
                self.bindings[instruction.info.uid] = instruction
            elif isinstance(instruction, Report):
                self.write_down(instruction)

    def write_down(self, report: Report) -> None:
        if report.update_status and report.nominated_node_name is not None:
            self.api.nominate(report.pod, report.nominated_node_name)

    @precondition(lambda self: self.bindings)
    @rule(data=st.data(), allow=st.booleans())
    def settle_permission(self, data: st.DataObject, allow: bool) -> None:
        bind = self.bindings[data.draw(st.sampled_from(sorted(self.bindings)))]
        if bind.waiting is not None and allow:
            bind.waiting.allow("Books")
        elif bind.waiting is not None:
            bind.waiting.reject("Books", "rejected")

    @precondition(lambda self: self.bindings)
    @rule(data=st.data(), fails=st.sampled_from((False, False, True)))
    def carry_on(self, data: st.DataObject, fails: bool) -> None:
        self.carry(data.draw(st.sampled_from(sorted(self.bindings))), fails=fails)

    def carry(self, uid: PodUid, *, fails: bool = False) -> None:
        """One more step of a binding task: permission, then the call."""
        bind, engine = self.bindings[uid], self.world.engine
        if uid not in self.permitted:
            outcome = SUCCESS if bind.waiting is None else bind.waiting.outcome
            if outcome is None:
                return
            if outcome.ok:
                engine.binding_permitted(bind)
                self.permitted.add(uid)
                return
            self.fail(bind, outcome, while_waiting=True)
        elif not fails and self.api.bind(bind.info.pod, bind.node_name):
            engine.binding_succeeded(bind)
            self.forget(uid)
        else:
            self.fail(bind, error("the API server refused"))

    def fail(self, bind: Bind, status: Status, *, while_waiting: bool = False) -> None:
        report = self.world.engine.binding_failed(bind, status, while_waiting=while_waiting)
        self.forget(bind.info.uid)
        if report is not None:
            self.write_down(report)

    def forget(self, uid: PodUid) -> None:
        del self.bindings[uid]
        self.permitted.discard(uid)

    @rule(seconds=st.sampled_from((0.5, 3, 20, 400)))
    def let_time_pass(self, seconds: float) -> None:
        self.world.now_s += seconds
        self.world.queue.flush_backoff_completed()
        self.world.queue.flush_unschedulable_leftover()

    # -- what always holds ----------------------------------------------------------------------------------------

    def check_fit(self, bind: Bind) -> None:
        """The pod has room on its node, as far as the scheduler knows it, pods on their way included."""
        table = self.world.cluster.table
        row = table.row_of(bind.node_name)
        assert row is not None
        offered = self.world.nodes[bind.node_name].status.allocatable
        pods = list(table.pods(row).values())
        assert len(pods) <= value(offered[PODS])
        for name, many in bind.info.asked.items():
            if many:
                room = (milli_value if name == CPU else value)(offered.get(name, "0"))
                assert sum(pod.asked.get(name, 0) for pod in pods) <= room, name
        ports = [(pod.uid, port) for pod in pods for port in pod.host_ports]
        for (one, port), (other, another) in combinations(ports, 2):
            assert one == other or bind.info.uid not in (one, other) or not clash(port, another)

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "api"):
            return
        world = self.world
        world.cluster.validate()
        waiting = [entry.uid for entry in world.queue.entries()]
        assert len(waiting) == len(set(waiting))
        assert world.queue.in_flight_count() == len(self.bindings) - len(self.permitted)
        for pod in world.listed.values():
            placed = world.cluster.placed(pod.uid)
            if pod.spec.node_name:
                assert pod.uid not in waiting
                assert placed is not None
                assert (placed.node_name, placed.assumed) == (pod.spec.node_name, False)
            elif pod.metadata.deletion_timestamp is None:
                assert (pod.uid in waiting) + (placed is not None) == 1, pod.key
        listed = {pod.uid for pod in world.listed.values()}
        assert listed.issuperset(waiting)
        self.check_assumed(listed)

    def check_assumed(self, listed: set[PodUid]) -> None:
        """What is assumed is on its way, or was bound and has not been shown yet; what is booked likewise, or bound."""
        true = {pod.uid: pod for pod in self.api.pods.values()}
        for uid, node_name in self.books.booked.items():
            assert uid in self.bindings or uid not in true or true[uid].spec.node_name == node_name
        for uid in self.world.cluster._placed:
            if self.world.cluster.is_assumed(uid):
                assert uid in self.bindings or uid not in true or true[uid].spec.node_name
                assert uid in listed or uid in self.bindings

    # -- how it ends ----------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if hasattr(self, "api"):
            self.come_to_rest()
            self.check_rest()
            self.make_room()
            for _ in range(12):
                self.world.now_s += LONGEST_BACKOFF_S
                self.world.queue.flush_backoff_completed()  # and nothing that waits for an event: it must have come
                self.decide()
                self.come_to_rest()
            self.nothing_is_lost()
            for pod in self.api.pods.values():
                done = pod.spec.node_name or pod.metadata.deletion_timestamp
                assert done or not is_sound(pod), f"{pod.key} was never placed"

    def come_to_rest(self) -> None:
        self.api.let_through()
        while self.bindings:
            for uid, bind in list(self.bindings.items()):
                if bind.waiting is not None:
                    bind.waiting.allow("Books")
                self.carry(uid)
        self.api.let_through()

    def check_rest(self) -> None:
        """With nothing on its way, the scheduler believes what is true."""
        self.nothing_is_lost()
        cluster = self.world.cluster
        assert self.world.listed == self.api.pods
        counted = {uid: placed.node_name for uid, placed in cluster._placed.items()}
        assert counted == {pod.uid: pod.spec.node_name for pod in self.api.pods.values() if pod.spec.node_name}
        assert cluster.counts()["assumed_pods"] == 0
        assert {cluster.table.name(row) for row in cluster.table.live_rows().tolist()} == set(self.api.nodes)

    def make_room(self) -> None:
        for name in NODE_NAMES:
            self.api.set_node(roomy_node(name))
        for number in range(12):
            self.api.set_node(roomy_node(f"more{number:02}"))
        self.api.let_through()


def is_sound(pod: Pod) -> bool:
    """Whether the requests of a pod are amounts."""
    return pod.spec.containers != KINDS["has no amounts"].spec.containers


def clash(port: HostPort, other: HostPort) -> bool:
    same_address = port.ip == other.ip or ANY_ADDRESS in (port.ip, other.ip)
    return same_address and (port.protocol, port.port) == (other.protocol, other.port)


TestScheduling = Scheduling.TestCase
TestScheduling.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
