"""The binding cycle: what follows a decision, in which order, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_node, a_pod
from tests.framework.fakes import Filter, Permit
from tests.kube.scripted_api import ScriptedApi, Sent
from tests.kube.virtual_time import in_virtual_time, loop_clock, run_in_virtual_time
from tests.runtime.builders import Shell, Step, a_shell

from berth.framework.status import SKIP, SUCCESS, Code, PluginError, Status, error, unresolvable, unschedulable
from berth.kube.dispatcher import Dispatcher
from berth.kube.errors import ConflictError, ForbiddenError, NotFoundError, ServerError, TransportError
from berth.runtime.binding import ApiBinder
from berth.scheduling.instructions import Bind, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.framework.fakes import Answer

    from berth.framework.interface import Plugin

WAIT = Status(Code.WAIT)
KEY = "default/web"
SCHEDULED = ("Normal", "Scheduled", "Binding", "Successfully assigned default/web to n1")


# -- from the decision to the event -----------------------------------------------------------------------------------


@in_virtual_time
async def test_a_placement_is_prepared_bound_and_told_of_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    diary: list[str] = []
    shell = a_shell(Step("A", diary, bind=SKIP), Step("B", diary), Step("C", diary))
    monkeypatch.setattr(shell.reporter, "bound", lambda *_: diary.append("the user is told"))
    monkeypatch.setattr(shell.engine, "binding_succeeded", lambda _: diary.append("the engine is told"))
    await shell.carry_through(a_pod())
    assert diary == [
        "A looks ahead",
        "B looks ahead",
        "C looks ahead",
        "A prepares",
        "B prepares",
        "C prepares",
        "A binds default/web to n1",
        "B binds default/web to n1",
        "the user is told",
        "A hears of it",
        "B hears of it",
        "C hears of it",
        "the engine is told",
    ]


@in_virtual_time
async def test_a_bound_pod_is_in_flight_no_more_and_keeps_its_place() -> None:
    shell = a_shell(Step())
    await shell.carry_through(a_pod())
    assert shell.recorder.heard == [SCHEDULED]
    assert shell.engine.queue.in_flight_count() == 0
    assert shell.engine.cluster.counts()["assumed_pods"] == 1
    assert (len(shell.bindings), shell.notes.settled) == (0, 1)


@in_virtual_time
async def test_pods_that_a_plugin_wants_tried_are_activated_after_the_binding() -> None:
    cluster = a_cluster([a_node()])
    shell = a_shell(Step(), Filter("F", cluster, lambda _, pod: pod.pod.metadata.name == "second"), cluster=cluster)
    second = a_pod("second")
    bind = shell.placed(a_pod("first"))
    shell.add(second)
    assert isinstance(shell.engine.next_instruction(), Report)
    bind.state.pods_to_activate[second.key] = second
    shell.bindings.start(bind)
    await shell.bindings.finish()
    assert shell.engine.queue.counts()["active"] == 1


@dataclass(frozen=True)
class Ending:
    """What a plugin says, and how the placement fails by it: what the user is told, and the last steps taken."""

    says: dict[str, Answer]
    message: str
    steps: list[str]
    reason: str = "SchedulerError"


ENDINGS = {
    "the look ahead fails": Ending(
        {"ahead": error("on PreBindPreFlight")},
        'running PreBindPreFlight "P": on PreBindPreFlight',
        ["P looks ahead", "P unreserves"],
    ),
    "the look ahead rejects, which it may not": Ending(
        {"ahead": unschedulable("no")},
        'PreBindPreFlight P returned "Unschedulable", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status",
        ["P looks ahead", "P unreserves"],
    ),
    "PreBind fails": Ending(
        {"pre_bind": error("on PreBind")},
        'running PreBind plugin "P": on PreBind',
        ["P prepares", "P unreserves"],
    ),
    "PreBind raises": Ending(
        {"pre_bind": PluginError("volume is away")},
        'running PreBind plugin "P": volume is away',
        ["P prepares", "P unreserves"],
    ),
    "PreBind rejects": Ending(
        {"pre_bind": unresolvable("not like this")}, "not like this", ["P prepares", "P unreserves"], "Unschedulable"
    ),
    "Bind fails": Ending(
        {"bind": error("binder")},
        'running Bind plugin "P": binder',
        ["P binds default/web to n1", "P unreserves"],
    ),
    "Bind rejects": Ending(
        {"bind": unschedulable("not there")},
        "not there",
        ["P binds default/web to n1", "P unreserves"],
        "Unschedulable",
    ),
    "nobody binds": Ending({"bind": SKIP}, "", ["P binds default/web to n1", "P unreserves"]),
}


@pytest.mark.parametrize("expected", ENDINGS.values(), ids=ENDINGS)
def test_a_placement_that_fails_is_taken_back_and_told_of(expected: Ending) -> None:
    async def main() -> None:
        plugin = Step("P")
        plugin.ahead = expected.says.get("ahead", SUCCESS)
        plugin.at_pre_bind = expected.says.get("pre_bind", SUCCESS)
        plugin.at_bind = expected.says.get("bind", SUCCESS)
        shell = a_shell(plugin)
        await shell.carry_through(a_pod())
        assert plugin.diary[-len(expected.steps) :] == expected.steps
        assert shell.recorder.heard == [("Warning", "FailedScheduling", "Scheduling", expected.message)]
        (failure,) = (patch for patch in await shell.patches() if "conditions" in patch)
        assert failure["conditions"][0]["reason"] == expected.reason
        assert failure["conditions"][0].get("message", "") == expected.message
        assert shell.engine.cluster.counts() == {"nodes": 1, "pods": 0, "assumed_pods": 0}
        assert shell.engine.queue.in_flight_count() == 0
        assert shell.engine.queue.counts()["backoff"] == 1
        assert shell.notes.ends == [f"{KEY} {'rejected' if expected.reason == 'Unschedulable' else 'failed'}"]

    run_in_virtual_time(main())


@in_virtual_time
async def test_a_pod_that_is_gone_meanwhile_is_told_of_and_not_kept() -> None:
    shell = a_shell(Step(bind=error("binder")))
    bind = shell.placed(a_pod())
    shell.bindings.start(bind)
    shell.delete(bind.queued.pod)
    await shell.bindings.finish()
    assert shell.last_note == 'running Bind plugin "Step": binder'
    assert sum(shell.engine.queue.counts().values()) == 0


class Endless(Step):
    """Prepares for as long as nobody stops it."""

    async def pre_bind(self, state: object, pod: object, node_name: str) -> Status:
        del state, pod, node_name
        await asyncio.sleep(1000)
        return Status()


@pytest.mark.parametrize("is_marked_only", [False, True])
@in_virtual_time
async def test_what_is_prepared_for_a_pod_that_is_gone_is_given_up_at_once(is_marked_only: bool) -> None:
    shell = a_shell(Endless())
    bind = shell.placed(a_pod())
    shell.bindings.start(bind)
    await asyncio.sleep(1)
    if is_marked_only:
        shell.mark(bind.queued.pod)
    else:
        shell.delete(bind.queued.pod)
    await asyncio.wait_for(shell.bindings.finish(), timeout=1)
    assert "the pod is gone, or about to go" in shell.last_note
    assert shell.engine.cluster.placed(bind.info.uid) is None


@in_virtual_time
async def test_a_pod_that_was_made_anew_meanwhile_hears_nothing_of_the_old_one() -> None:
    shell = a_shell(Step(bind=error("binder")))
    bind = shell.placed(a_pod(uid="old"))
    shell.bindings.start(bind)
    shell.shown[bind.info.key] = a_pod(uid="new")
    await shell.bindings.finish()
    assert shell.recorder.heard == []
    assert [patch for patch in await shell.patches() if "conditions" in patch] == []


# -- telling the pod of its node ahead --------------------------------------------------------------------------------

# plugins, whether pods are told ahead; the nodes that the pod was told
NOMINATIONS: dict[str, tuple[list[Callable[[], Plugin]], bool, list[str]]] = {
    "PreBind has work to do": ([Step], True, ["n1"]),
    "PreBind has nothing to do": ([lambda: Step(ahead=SKIP, pre_bind=error("not asked"))], True, []),
    "some plugin of PreBind has work to do": ([lambda: Step("A", ahead=SKIP), lambda: Step("B")], True, ["n1"]),
    "Permit waits": ([lambda: Step(ahead=SKIP), lambda: Permit("P", WAIT)], True, ["n1"]),
    "Permit allows at once": ([lambda: Step(ahead=SKIP), lambda: Permit("P")], True, []),
    "there is no plugin at PreBind": ([lambda: Permit("P")], True, []),
    "Permit waits and nobody is to be told": ([Step, lambda: Permit("P", WAIT)], False, []),
}


@pytest.mark.parametrize(("plugins", "nominate", "expected"), NOMINATIONS.values(), ids=NOMINATIONS)
def test_the_pod_is_told_its_node_if_it_may_take_a_while(
    plugins: list[Callable[[], Plugin]], nominate: bool, expected: list[str]
) -> None:
    async def main() -> None:
        shell = a_shell(*(make() for make in plugins), nominate=nominate)
        bind = shell.placed(a_pod())
        shell.bindings.start(bind)
        await asyncio.sleep(1)
        if bind.waiting is not None:
            bind.waiting.allow("P")
        await shell.bindings.finish()
        assert [patch["nominatedNodeName"] for patch in await shell.patches()] == expected
        assert shell.recorder.heard == [SCHEDULED]

    run_in_virtual_time(main())


@in_virtual_time
async def test_a_pod_that_knows_its_node_is_not_told_again() -> None:
    shell = a_shell(Step())
    await shell.carry_through(a_pod(nominated="n1"))
    assert await shell.patches() == []


@in_virtual_time
async def test_with_the_gate_off_nobody_looks_ahead_and_all_prepare() -> None:
    diary: list[str] = []
    shell = a_shell(Step("A", diary, ahead=SKIP), Step("B", diary, ahead=error("no")), nominate=False)
    await shell.carry_through(a_pod())
    assert diary[:3] == ["A prepares", "B prepares", "A binds default/web to n1"]
    assert ("PreBindPreFlight", "Success") not in shell.notes.ran


@in_virtual_time
async def test_a_node_told_ahead_is_taken_back_when_the_placement_fails() -> None:
    shell = a_shell(Step(pre_bind=error("on PreBind"), takes_s=5))
    bind = shell.placed(a_pod())
    shell.bindings.start(bind)
    await asyncio.sleep(1)
    shell.shown[bind.info.key] = a_pod(nominated="n1")
    await shell.bindings.finish()
    first, second = await shell.patches()
    assert first == {"nominatedNodeName": "n1"}
    assert (second["nominatedNodeName"], second["conditions"][0]["type"]) == (None, "PodScheduled")


# -- waiting for permission -------------------------------------------------------------------------------------------


@dataclass
class Held:
    """A placement that Permit plugins hold back."""

    shell: Shell
    bind: Bind
    diary: list[str] = field(default_factory=list)

    def allow(self, plugin: str) -> None:
        assert self.bind.waiting is not None
        self.bind.waiting.allow(plugin)

    @property
    def is_settled(self) -> bool:
        return not len(self.shell.bindings)


async def held(**timeouts_s: float) -> Held:
    """A placement that these plugins hold back for so long at most."""
    step = Step()
    shell = a_shell(step, *(Permit(name, WAIT, timeout_s) for name, timeout_s in timeouts_s.items()))
    it = Held(shell, shell.placed(a_pod()), step.diary)
    shell.bindings.start(it.bind)
    await asyncio.sleep(0.001)
    return it


@in_virtual_time
async def test_a_pod_that_waits_is_in_flight_and_not_prepared_until_it_is_allowed() -> None:
    it = await held(P=30)
    await asyncio.sleep(20)
    assert it.diary == ["Step looks ahead"]
    assert it.shell.engine.queue.in_flight_count() == 1
    assert it.shell.engine.waiting.get(it.bind.info.uid) is it.bind.waiting
    it.allow("P")
    await it.shell.bindings.finish()
    assert it.shell.recorder.heard == [SCHEDULED]
    assert it.shell.engine.waiting.get(it.bind.info.uid) is None


@in_virtual_time
async def test_a_placement_that_waits_for_others_does_not_keep_others_from_starting() -> None:
    it = await held(P=60)
    assert (len(it.shell.bindings), it.shell.bindings.busy) == (1, 0)
    assert it.shell.notes.settled == 1, "whoever decides is told that there is room"
    it.allow("P")
    await it.shell.bindings.finish()
    assert (len(it.shell.bindings), it.shell.bindings.busy) == (0, 0)


@in_virtual_time
async def test_all_plugins_that_wait_must_allow() -> None:
    it = await held(P=30, Q=30)
    it.allow("Q")
    await asyncio.sleep(1)
    assert not it.is_settled
    it.allow("P")
    await asyncio.sleep(1)
    assert it.shell.recorder.heard == [SCHEDULED]


# how the wait ends: what happens; what the user is told, with which reason
WAIT_ENDINGS: dict[str, tuple[Callable[[Held], object], str, str]] = {
    "the time is up": (
        lambda _: None,
        "0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin P.",
        "Unschedulable",
    ),
    "the plugin rejects": (
        lambda it: it.bind.waiting is not None and it.bind.waiting.reject("P", "not with these"),
        "0/1 nodes are available: 1 not with these.",
        "Unschedulable",
    ),
    "a more important pod takes the place": (
        lambda it: it.bind.waiting is not None and it.bind.waiting.preempt("DefaultPreemption", "preempted"),
        "waiting on permit for pod: preempted",
        "SchedulerError",
    ),
}


@pytest.mark.parametrize(("act", "message", "reason"), WAIT_ENDINGS.values(), ids=WAIT_ENDINGS)
def test_a_placement_that_is_not_allowed_is_taken_back(
    act: Callable[[Held], object], message: str, reason: str
) -> None:
    async def main() -> None:
        it = await held(P=30)
        act(it)
        await it.shell.bindings.finish()
        assert it.shell.last_note == message
        conditions = [patch["conditions"][0] for patch in await it.shell.patches() if "conditions" in patch]
        assert [(each["reason"], each["message"]) for each in conditions] == [(reason, message)]
        assert it.diary[-1] == "Step unreserves"
        counts = it.shell.engine.queue.counts()
        assert (counts["unschedulable"], counts["backoff"]) == ((1, 0) if reason == "Unschedulable" else (0, 1))

    run_in_virtual_time(main())


@in_virtual_time
async def test_the_text_of_a_time_limit_is_a_go_duration() -> None:
    it = await held(P=300)
    await it.shell.bindings.finish()
    assert "after waiting 5m0s at plugin P" in it.shell.last_note


@in_virtual_time
async def test_the_shortest_time_limit_counts() -> None:
    it = await held(P=300, Q=10)
    await it.shell.bindings.finish()
    assert "after waiting 10s at plugin Q" in it.shell.last_note


@in_virtual_time
async def test_the_time_limit_of_a_plugin_that_has_allowed_counts_no_more() -> None:
    it = await held(P=300, Q=10)
    it.allow("Q")
    await asyncio.sleep(20)
    assert not it.is_settled
    it.allow("P")
    await it.shell.bindings.finish()
    assert it.shell.recorder.heard == [SCHEDULED]


@in_virtual_time
async def test_a_wait_that_was_over_before_it_was_waited_for_is_not_waited_for() -> None:
    shell = a_shell(Step(), Permit("P", WAIT, 30))
    bind = shell.placed(a_pod())
    assert bind.waiting is not None
    bind.waiting.allow("P")
    shell.bindings.start(bind)
    await shell.bindings.finish()
    assert shell.notes.waits == [("Success", 0)]
    assert shell.recorder.heard == [SCHEDULED]


@in_virtual_time
async def test_a_pod_that_is_deleted_while_it_waits_gives_its_room_back() -> None:
    it = await held(P=30)
    it.shell.delete(it.bind.queued.pod)
    await it.shell.bindings.finish()
    assert it.shell.last_note == "0/1 nodes are available: 1 removed."
    assert it.shell.engine.cluster.counts()["pods"] == 0
    assert it.shell.engine.queue.in_flight_count() == 0


# -- what is measured -------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_an_observer_hears_of_each_step_that_was_taken() -> None:
    room = asyncio.Semaphore(0)
    shell = a_shell(Step(room=room), Permit("P", WAIT, 30))
    bind = shell.placed(a_pod())
    del shell.notes.ran[:]
    shell.bindings.start(bind)
    await asyncio.sleep(7)
    assert bind.waiting is not None
    bind.waiting.allow("P")
    await asyncio.sleep(3)
    room.release()
    await shell.bindings.finish()
    assert shell.notes.ran == [
        ("PreBindPreFlight", "Success"),
        ("PreBind", "Success"),
        ("Bind", "Success"),
        ("PostBind", "Success"),
    ]
    assert shell.notes.waits == [("Success", 7)]
    assert (shell.notes.seconds["PreBind"], shell.notes.seconds["Bind"]) == (0, 3)
    assert shell.notes.ends == [f"{KEY} bound"]


# the plugin; the last steps that an observer hears of
LAST_STEPS: dict[str, tuple[Callable[[], Step], list[tuple[str, str]]]] = {
    "nothing to prepare": (
        lambda: Step(ahead=SKIP),
        [("PreBindPreFlight", "Skip"), ("Bind", "Success"), ("PostBind", "Success")],
    ),
    "the look ahead fails": (
        lambda: Step(ahead=error("no")),
        [("PreBindPreFlight", "Error"), ("Unreserve", "Success")],
    ),
    "PreBind rejects": (
        lambda: Step(pre_bind=unschedulable("no")),
        [("PreBind", "Unschedulable"), ("Unreserve", "Success")],
    ),
    "Bind fails": (lambda: Step(bind=error("no")), [("Bind", "Error"), ("Unreserve", "Success")]),
    "nobody binds": (lambda: Step(bind=SKIP), [("Bind", "Skip"), ("Unreserve", "Success")]),
}


@pytest.mark.parametrize(("make", "expected"), LAST_STEPS.values(), ids=LAST_STEPS)
def test_an_observer_hears_how_the_last_step_ended(make: Callable[[], Step], expected: list[tuple[str, str]]) -> None:
    async def main() -> None:
        shell = a_shell(make())
        await shell.carry_through(a_pod())
        assert shell.notes.ran[-len(expected) :] == expected

    run_in_virtual_time(main())


@in_virtual_time
async def test_an_observer_hears_how_a_wait_ended() -> None:
    it = await held(P=30)
    await it.shell.bindings.finish()
    ((status, seconds),) = it.shell.notes.waits
    assert status == "Unschedulable"
    assert seconds == pytest.approx(30, abs=0.01)


# -- the end of the process -------------------------------------------------------------------------------------------


@in_virtual_time
async def test_cancelled_placements_take_no_further_step_and_tell_nobody() -> None:
    it = await held(P=30)
    await it.shell.bindings.cancel()
    it.allow("P")
    await asyncio.sleep(60)
    assert it.diary == ["Step looks ahead"]
    assert it.shell.recorder.heard == []
    assert it.is_settled
    assert it.shell.notes.settled == 2, "once as it begins to wait, and once as it ends"
    assert it.shell.bindings.fault is None


@in_virtual_time
async def test_giving_up_on_the_end_of_placements_leaves_them_at_it() -> None:
    it = await held(P=30)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await it.shell.bindings.finish()
    it.allow("P")
    await it.shell.bindings.finish()
    assert it.shell.recorder.heard == [SCHEDULED]


@in_virtual_time
async def test_finishing_nothing_takes_no_time() -> None:
    await a_shell(Step()).bindings.finish()


@in_virtual_time
async def test_the_first_thing_that_no_step_accounts_for_is_kept_as_the_fault() -> None:
    first, second = RuntimeError("a bug"), RuntimeError("another one")
    shell = a_shell(Step())
    shell.break_with(first, second)
    await shell.carry_through(a_pod("a"))
    await shell.carry_through(a_pod("b"))
    assert shell.bindings.fault is first
    assert shell.notes.settled == 2


@in_virtual_time
async def test_a_mistake_of_a_plugin_at_bind_fails_that_placement_only(caplog: pytest.LogCaptureFixture) -> None:
    step = Step(bind=RuntimeError("a mistake"))
    shell = a_shell(step)
    await shell.carry_through(a_pod("a"))
    step.at_bind = SUCCESS
    await shell.carry_through(a_pod("b"))
    assert shell.notes.ends[-1] == "default/b bound"
    assert shell.bindings.fault is None
    assert "RuntimeError: a mistake" in caplog.text


# -- bindings through the API -----------------------------------------------------------------------------------------

LOST = TransportError("the connection broke", may_be_applied=True)
TAKEN = ConflictError(409, "Conflict", 'pod web is already assigned to node "n2"')


def settled_by(pod: object, lost: Exception = LOST) -> Callable[[Sent], object]:
    """The answer to the binding got lost, and *pod* is what a look at it shows."""
    return lambda sent: lost if sent.method == "POST" else pod


def the_pod(uid: str = "uid-of-default-web", node: str = "") -> dict[str, Any]:
    return {"metadata": {"uid": uid}, "spec": {"nodeName": node}}


# what the API server answers; what comes of it
OUTCOMES: dict[str, tuple[Callable[[Sent], object], Status]] = {
    "it binds": (lambda _: {}, SUCCESS),
    "it refuses": (
        lambda _: ForbiddenError(403, "Forbidden", 'pods "web" is forbidden: quota'),
        error('pods "web" is forbidden: quota'),
    ),
    "it says nothing about why": (lambda _: ForbiddenError(403), error("403 ")),
    "the pod is gone": (
        lambda _: NotFoundError(404, "NotFound", 'pods "web" not found'),
        error('pods "web" not found'),
    ),
    "the answer is lost and the pod is bound": (settled_by(the_pod(node="n1")), SUCCESS),
    "it says that the pod has another node": (
        settled_by(the_pod(node="n2"), TAKEN),
        error('pod web is already assigned to node "n2"'),
    ),
    "the answer is lost and the pod has another node": (
        settled_by(the_pod(node="n2")),
        error('the pod is already assigned to node "n2"'),
    ),
    "the answer is lost and the pod is another one": (
        settled_by(the_pod(uid="another")),
        error("the name belongs to another pod by now"),
    ),
    "it is broken for good": (settled_by(the_pod(), ServerError(500, "InternalError", "boom")), error("boom")),
    "it is out of reach": (
        lambda _: TransportError("no route", may_be_applied=False),
        error("no route"),
    ),
}


@pytest.mark.parametrize(("answer", "expected"), OUTCOMES.values(), ids=OUTCOMES)
def test_what_the_api_server_says_of_a_binding_is_the_answer(
    answer: Callable[[Sent], object], expected: Status
) -> None:
    run_in_virtual_time(_bind_through(ScriptedApi(answer), expected))


def _bind_through(api: ScriptedApi, expected: Status) -> Coroutine[Any, Any, None]:
    async def main() -> None:
        binder = ApiBinder(Dispatcher(api, qps=-1, burst=0, clock=loop_clock()), lambda: True)
        assert await binder.bind(a_pod(), "n1") == expected
        assert api.sent[0].body == {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": "web", "namespace": "default", "uid": "uid-of-default-web"},
            "target": {"kind": "Node", "name": "n1"},
        }

    return main()


@in_virtual_time
async def test_who_does_not_lead_for_certain_holds_bindings_until_the_lease_is_renewed() -> None:
    api, leads = ScriptedApi(), asyncio.Event()
    binder = ApiBinder(Dispatcher(api, qps=-1, burst=0, clock=loop_clock()), leads.is_set)
    binding = asyncio.create_task(binder.bind(a_pod(), "n1"))
    await asyncio.sleep(60)
    assert api.sent == []
    leads.set()
    assert await binding == SUCCESS
