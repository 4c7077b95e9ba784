"""Whatever happens, in whatever order: no pod is lost, and the index finds what a plain loop would."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.queueing.builders import (
    NEWEST,
    NODE_ADD,
    OLDEST,
    POD_ADD,
    PV_ADD,
    PV_UPDATE,
    HoldingGatePlugin,
    LabelGatePlugin,
    World,
    by_priority,
    make_pod,
    make_world,
    waiter,
)

from berth.cluster.pods import PodInfo
from berth.framework.events import UNSCHEDULABLE_TIMEOUT, Action, ClusterEvent, Hint, HintError, Resource
from berth.queueing.hints import HintMap
from berth.queueing.inflight import RecordedEvent
from berth.queueing.queue import SchedulingQueue
from berth.queueing.settings import QueueProfile, QueueSettings

if TYPE_CHECKING:
    from berth.api.meta import PodUid
    from berth.api.pod import Pod
    from berth.framework.features import Behaviours
    from berth.framework.interface import PreEnqueuePlugin
    from berth.queueing.entries import QueuedPodInfo

PLUGINS = ("a", "b", "c")
EVENTS = (NODE_ADD, POD_ADD, PV_ADD, PV_UPDATE, UNSCHEDULABLE_TIMEOUT, ClusterEvent(Resource.WILDCARD, Action.ALL))
ANSWERS: tuple[Hint | None, ...] = (Hint.QUEUE, Hint.SKIP, Hint.SKIP, None)

NAMES = st.integers(0, 4).map(lambda number: f"p{number}")
SOME_PLUGINS = st.sets(st.sampled_from(PLUGINS), max_size=2)
REJECTORS = st.sampled_from(PLUGINS).map(lambda plugin: {plugin})
LABELS = st.dictionaries(st.sampled_from(("held by a", "held by g", "x")), st.just(""))


class PlainQueue(SchedulingQueue):
    """The queue without its index: every event looks at every pod."""

    def _candidates(self, _event: ClusterEvent, _about: Any) -> list[QueuedPodInfo]:
        return list(self._places.unschedulable)


class FickleHint:
    """A hint whose answers look random, but depend on nothing but what it is asked."""

    def __init__(self, plugin: str) -> None:
        self._plugin = plugin

    def __call__(self, pod: PodInfo, _old: Any, new: Any) -> Hint:
        change = new if isinstance(new, int) else "pod"
        answer = ANSWERS[zlib.crc32(f"{self._plugin} {pod.key} {change}".encode()) % len(ANSWERS)]
        if answer is None:
            raise HintError("cannot tell")
        return answer


def make_profile(behaviours: Behaviours, held: set[PodUid], *plugins: str) -> QueueProfile:
    own = Resource(behaviours.own_pod_event_resource)
    waiters = [waiter(plugin, event, FickleHint(plugin)) for plugin in plugins for event in EVENTS[:3]]
    waiters.append(waiter(plugins[0], ClusterEvent(own, Action.UPDATE), FickleHint(plugins[0])))
    waiters.append(waiter("g", ClusterEvent(own, Action.UPDATE_POD_LABEL)))
    waiters.append(waiter("g", PV_ADD))
    waiters.append(waiter("h", POD_ADD, FickleHint("h")))
    gates: list[PreEnqueuePlugin] = [LabelGatePlugin("g", "held by g"), LabelGatePlugin("a", "held by a")]
    gates.append(HoldingGatePlugin("h", held))
    return QueueProfile(hints=HintMap(waiters), sort_key=by_priority, pre_enqueue=tuple(gates))


class Twins(RuleBasedStateMachine):
    """Two queues to which the same happens; one of them does without the index."""

    @initialize(
        early=st.booleans(),
        behaviours=st.sampled_from((NEWEST, OLDEST)),
        start_s=st.floats(0, 5),
        rejections=st.lists(REJECTORS, min_size=5, max_size=5),
    )
    def start(self, early: bool, behaviours: Behaviours, start_s: float, rejections: list[set[str]]) -> None:
        self.behaviours = behaviours
        self.held: set[PodUid] = set()
        profiles = {
            "one": make_profile(behaviours, self.held, "a", "b"),
            "two": make_profile(behaviours, self.held, "b", "c"),
        }
        self.worlds = [
            make_world(
                profiles=profiles,
                behaviours=behaviours,
                settings=QueueSettings(pop_from_backoff_q=early, max_in_unschedulable_s=5),
                start_s=start_s,
                make_queue=kind,
            )
            for kind in (SchedulingQueue, PlainQueue)
        ]
        self.pods: dict[str, Pod] = {}
        self.flying: dict[PodUid, list[QueuedPodInfo]] = {}
        self.births = 0
        for number, rejected in enumerate(rejections):
            self.create(f"p{number}", 0, {}, ("one", "two")[number % 2])
            self.reject_all(rejected)

    @property
    def world(self) -> World:
        return self.worlds[0]

    def idle(self, name: str) -> bool:
        return name in self.pods and self.pods[name].uid not in self.flying

    @rule(name=NAMES, priority=st.integers(0, 2), labels=LABELS, profile=st.sampled_from(("one", "two")))
    def create(self, name: str, priority: int, labels: dict[str, str], profile: str) -> None:
        if name not in self.pods:
            self.births += 1
            pod = make_pod(name, uid=f"{name}-{self.births}", priority=priority, labels=labels, scheduler_name=profile)
            self.pods[name] = pod
            for world in self.worlds:
                world.add(pod)

    @rule(name=NAMES, labels=LABELS, priority=st.integers(0, 2), nominated=st.sampled_from(("", "n1", "n2")))
    def change(self, name: str, labels: dict[str, str], priority: int, nominated: str) -> None:
        if name in self.pods:
            old = self.pods[name]
            new = make_pod(
                name,
                uid=old.uid,
                labels=labels,
                priority=priority,
                nominated=nominated,
                scheduler_name=old.spec.scheduler_name,
            )
            self.pods[name] = new
            for world in self.worlds:
                world.update(old, new)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            for world in self.worlds:
                del world.listed[pod.key]
                world.queue.delete(pod)

    @rule(name=NAMES)
    def hold(self, name: str) -> None:
        if name in self.pods:
            self.held.add(self.pods[name].uid)

    @rule(name=NAMES)
    def let_go(self, name: str) -> None:
        if name in self.pods:
            self.held.discard(self.pods[name].uid)

    @rule(times=st.integers(1, 3))
    def pop(self, times: int) -> None:
        for _ in range(times):
            could = self.world.queue.has_work()
            popped = [world.queue.pop() for world in self.worlds]
            assert (popped[0] is not None) == could
            assert len({entry.uid if entry else None for entry in popped}) == 1
            entries = [entry for entry in popped if entry is not None]
            if entries:
                self.flying[entries[0].uid] = entries

    @rule(data=st.data(), rejected=SOME_PLUGINS, pending=SOME_PLUGINS)
    def fail(self, data: st.DataObject, rejected: set[str], pending: set[str]) -> None:
        if self.flying:
            self.give_back(data.draw(st.sampled_from(sorted(self.flying))), rejected, pending)

    @rule(rejected=SOME_PLUGINS)
    def reject_all(self, rejected: set[str]) -> None:
        self.pop(9)
        for uid in sorted(self.flying):
            self.give_back(uid, rejected, set())

    def give_back(self, uid: PodUid, rejected: set[str], pending: set[str]) -> None:
        for world, entry in zip(self.worlds, self.flying.pop(uid), strict=True):
            listed = world.listed.get(entry.key)
            if listed is None or listed.uid != entry.uid:
                world.queue.done(entry.uid)
                continue
            entry.info = PodInfo(listed)
            world.fail(entry, *rejected, pending=pending - rejected)

    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        if self.flying:
            uid = data.draw(st.sampled_from(sorted(self.flying)))
            entries = self.flying.pop(uid)
            for world in self.worlds:
                world.queue.done(uid)
            name = entries[0].pod.metadata.name
            if name in self.pods and self.pods[name].uid == uid:
                self.delete(name)

    @rule(names=st.lists(NAMES, max_size=3))
    def activate(self, names: list[str]) -> None:
        for world in self.worlds:
            world.queue.activate([self.pods[name] for name in names if name in self.pods])

    @rule(name=NAMES)
    def pop_specific(self, name: str) -> None:
        if self.idle(name):
            entries = [world.queue.pop_specific_pod(self.pods[name]) for world in self.worlds]
            taken = [entry for entry in entries if entry is not None]
            assert len(taken) in (0, 2)
            if taken:
                self.flying[taken[0].uid] = taken

    @rule(events=st.lists(st.sampled_from(EVENTS), min_size=1, max_size=4), new=st.integers(0, 30), check=st.booleans())
    def happen(self, events: list[ClusterEvent], new: int, check: bool) -> None:
        for world in self.worlds:
            for event in events:
                world.queue.move_all_to_active_or_backoff_queue(
                    event, None, new or None, (lambda info: info.priority < 2) if check else None
                )

    @rule(seconds=st.sampled_from((0.3, 1.0, 4.0, 20.0)))
    def wait(self, seconds: float) -> None:
        for world in self.worlds:
            world.clock.advance(seconds)
            world.queue.flush_backoff_completed()
            if seconds > 1:
                world.queue.flush_unschedulable_leftover()

    @invariant()
    def every_pod_is_in_exactly_one_place(self) -> None:
        for world in self.worlds:
            for pod in self.pods.values():
                assert world.place(pod), f"{pod.key} is lost"
            waiting = [entry.uid for entry in world.queue.entries()]
            assert sorted(waiting) == sorted(pod.uid for name, pod in self.pods.items() if self.idle(name))
            assert set(self.flying) == set(world.queue._in_flight.uids())

    @invariant()
    def waiting_pods_are_as_they_were_last_shown(self) -> None:
        for entry in self.world.queue.entries():
            assert entry.pod is self.pods[entry.pod.metadata.name]

    @invariant()
    def sums_are_the_sums_of_the_pods(self) -> None:
        queue, ledger = self.world.queue, self.world.ledger
        entries = list(queue._places.unschedulable)
        gated = sum(entry.gated for entry in entries)
        assert queue._places.unschedulable.gated_count == gated
        assert not any(entry.gated for entry in queue._places.active)
        if self.behaviours.unschedulable_gauge_drops_on_any_delete:
            expected = Counter((p, e.profile) for e in queue.entries() for p in e.rejectors)
            assert +ledger.unschedulable == expected
            assert not -ledger.unschedulable
        recorded = Counter(
            item.event.label if isinstance(item, RecordedEvent) else "PodPopped" for item in queue._in_flight.listing()
        )
        assert +ledger.in_flight == recorded

    @invariant()
    def the_index_finds_what_the_plain_loop_finds(self) -> None:
        mine, plain = self.worlds
        for pod in self.pods.values():
            assert mine.place(pod) == plain.place(pod)
        assert mine.ledger.hints == plain.ledger.hints
        assert mine.ledger.queued == plain.ledger.queued
        assert mine.ledger.unschedulable == plain.ledger.unschedulable
        assert mine.wakes == plain.wakes

    @invariant()
    def nominations_are_of_listed_pods(self) -> None:
        nominator = self.world.queue.nominator
        for node in nominator.nodes():
            for info in nominator.pods_on(node):
                assert self.world.listed[info.key].uid == info.uid
                assert nominator.node_of(info.uid) == node

    def teardown(self) -> None:
        """Whoever waits is tried sooner or later, unless it is held back."""
        if not hasattr(self, "worlds"):
            return
        world = self.world
        for uid in self.flying:
            world.queue.done(uid)
        held = {pod.uid for pod in self.pods.values() if pod.metadata.labels.keys() & {"held by a", "held by g"}}
        free = {pod.uid for name, pod in self.pods.items() if self.idle(name)} - held - self.held
        tried = set()
        for _ in range(4):
            world.clock.advance(31)
            world.queue.flush_unschedulable_leftover()
            world.queue.flush_backoff_completed()
            while (entry := world.queue.pop()) is not None:
                tried.add(entry.uid)
                world.queue.done(entry.uid)
        if self.behaviours.leftover_flush_retries_gated_pods:
            assert free <= tried


TestTwins = Twins.TestCase
TestTwins.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
