"""Who is asked about an event, and what follows from the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.queueing.builders import (
    BOTH,
    NEWEST,
    NODE_ADD,
    OLDEST,
    POD_ADD,
    PV_ADD,
    Ledger,
    ManualClock,
    ScriptedHint,
    make_entry,
    make_pod,
    registration,
    waiter,
)

from berth.framework.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Hint,
    HintError,
    Resource,
)
from berth.framework.status import SUCCESS, Status
from berth.queueing.hints import EXTENDER, HintBook, HintMap, Strategy, Waiter, build_hint_map, union_of_actions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.cluster.pods import PodInfo
    from berth.framework.events import Registration

Q, S, ERR = Hint.QUEUE, Hint.SKIP, HintError("?")
LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
NODE_UPDATE = ClusterEvent(Resource.NODE, Action.UPDATE)
LABEL_AND_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT)
ANY_ADD = ClusterEvent(Resource.WILDCARD, Action.ADD)
ANYTHING = ClusterEvent(Resource.WILDCARD, Action.ALL)

ME = make_pod("me")
Script = tuple[str, ClusterEvent, Hint | Exception]

VERDICTS: dict[str, tuple[tuple[Script, ...], set[str], set[str], ClusterEvent, Any, Strategy, int]] = {
    "nobody waits for it": ((("1", POD_ADD, Q),), {"1"}, set(), NODE_ADD, None, Strategy.SKIP, 0),
    "a hint that fails counts as content": (
        (("1", NODE_ADD, ERR),), {"1"}, set(), NODE_ADD, None, Strategy.AFTER_BACKOFF, 1,
    ),
    "no plugin rejected the pod": ((("1", NODE_ADD, S),), set(), set(), NODE_ADD, None, Strategy.AFTER_BACKOFF, 0),
    "the flush of long waits asks nobody": (
        (("1", NODE_ADD, S),), {"1"}, set(), UNSCHEDULABLE_TIMEOUT, None, Strategy.AFTER_BACKOFF, 0,
    ),
    "an activation is meant for the pod": (
        (("1", NODE_ADD, S),), {"1"}, set(), FORCE_ACTIVATE, ME, Strategy.AFTER_BACKOFF, 0,
    ),
    "an activation is meant for another": (
        (("1", NODE_ADD, Q),), {"1"}, set(), FORCE_ACTIVATE, make_pod("you"), Strategy.SKIP, 0,
    ),
    "an event of everything about something else than a pod": (
        (("1", NODE_ADD, Q),), {"1"}, set(), FORCE_ACTIVATE, object(), Strategy.SKIP, 0,
    ),
    "a pending plugin is content and the others need not be asked": (
        (("1", NODE_ADD, Q), ("2", NODE_ADD, Q), ("3", NODE_ADD, Q)),
        {"1", "3"}, {"2"}, NODE_ADD, None, Strategy.IMMEDIATELY, 2,
    ),
    "a rejecting plugin is content and the pending one is not": (
        (("1", NODE_ADD, Q), ("2", NODE_ADD, S)), {"1"}, {"2"}, NODE_ADD, None, Strategy.AFTER_BACKOFF, 2,
    ),
    "the second of two rejecting plugins is content": (
        (("1", NODE_ADD, S), ("2", NODE_ADD, Q)), {"1", "2"}, set(), NODE_ADD, None, Strategy.AFTER_BACKOFF, 2,
    ),
    "only a stranger is content": (
        (("1", NODE_ADD, S), ("2", NODE_ADD, S), ("3", NODE_ADD, Q)),
        {"1", "2"}, set(), NODE_ADD, None, Strategy.SKIP, 2,
    ),
    "the first of several matching registrations is enough": (
        (("1", LABEL, Q), ("1", NODE_UPDATE, Q), ("1", NODE_ADD, Q)),
        {"1"}, set(), LABEL, None, Strategy.AFTER_BACKOFF, 1,
    ),
    "a registration for any addition": ((("1", ANY_ADD, S),), {"1"}, set(), NODE_ADD, None, Strategy.SKIP, 1),
    "a registration for anything": ((("1", ANYTHING, S),), {"1"}, set(), LABEL_AND_TAINT, None, Strategy.SKIP, 1),
    "a general update does not concern who waits for a special one": (
        (("1", LABEL, Q),), {"1"}, set(), NODE_UPDATE, None, Strategy.SKIP, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("scripts", "unschedulable", "pending", "event", "new", "expected", "calls"), VERDICTS.values(), ids=VERDICTS
)
def test_a_verdict(
    scripts: tuple[Script, ...],
    unschedulable: set[str],
    pending: set[str],
    event: ClusterEvent,
    new: Any,
    expected: Strategy,
    calls: int,
) -> None:
    hints = [ScriptedHint(answer) for _, _, answer in scripts]
    waiters = [waiter(plugin, awaited, hint) for (plugin, awaited, _), hint in zip(scripts, hints, strict=True)]
    book = HintBook({"default-scheduler": HintMap(waiters)}, NEWEST, Ledger(), ManualClock())
    entry = make_entry(ME, unschedulable_plugins=unschedulable, pending_plugins=pending)
    assert book.about(event, None, new).judge(entry) is expected
    assert sum(hint.calls for hint in hints) == calls


def test_a_pod_of_an_unknown_profile_returns(caplog: pytest.LogCaptureFixture) -> None:
    book = HintBook({}, NEWEST, Ledger(), ManualClock())
    entry = make_entry(ME, unschedulable_plugins={"1"})
    assert book.about(NODE_ADD, None, None).judge(entry) is Strategy.AFTER_BACKOFF
    assert "No queueing hints are known for profile default-scheduler of pod default/me" in caplog.text


class Filter:
    """A plugin that rejects pods and does not say what it waits for."""

    name = "Filter"
    scope = None

    def filter(self, _state: Any, _pod: PodInfo, _rows: Any) -> Any:
        raise NotImplementedError

    def rejection(self, _code: int) -> Status:
        raise NotImplementedError


class Waiting(Filter):
    """A plugin that rejects pods and says what it waits for."""

    name = "Waiting"

    def __init__(self, *registrations: Registration) -> None:
        self._registrations = registrations

    def events_to_register(self) -> Sequence[Registration]:
        return self._registrations


class Binder:
    """A plugin that cannot reject pods; what it says it waits for does not matter."""

    name = "Binder"

    async def bind(self, *_: Any) -> Status:
        return SUCCESS

    def events_to_register(self) -> Sequence[Registration]:
        return [registration(NODE_ADD)]


DEFAULT_RESOURCES = [
    "Pod",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSIStorageCapacity",
    "storage.k8s.io/StorageClass",
    "resource.k8s.io/ResourceClaim",
    "resource.k8s.io/DeviceClass",
]


@pytest.mark.parametrize("pod_groups", [False, True])
def test_a_plugin_that_says_nothing_waits_for_almost_anything(pod_groups: bool) -> None:
    hint_map = build_hint_map([Filter()], NEWEST, pod_groups=pod_groups)
    resources = DEFAULT_RESOURCES + ["scheduling.k8s.io/PodGroup"] * pod_groups
    assert hint_map.waiters == tuple(waiter("Filter", ClusterEvent(Resource(r), Action.ALL)) for r in resources)


def test_a_plugin_that_waits_for_nothing_is_asked_about_nothing() -> None:
    assert build_hint_map([Waiting()], NEWEST).waiters == ()


def test_a_plugin_that_cannot_reject_is_not_asked() -> None:
    assert build_hint_map([Binder()], NEWEST).waiters == ()


def test_extenders_wait_for_almost_anything() -> None:
    hint_map = build_hint_map([Waiting(registration(NODE_ADD))], NEWEST, extenders=True)
    assert [w.plugin for w in hint_map.waiters_for(PV_ADD)] == [EXTENDER]
    assert [w.plugin for w in hint_map.waiters_for(NODE_ADD)] == ["Waiting", EXTENDER]


TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
ADD_AND_LABEL = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
IMPLIED = {
    "1.36, additions without taints": ("1.36", (ADD_AND_LABEL,), [None]),
    "1.36, additions and taints": ("1.36", (NODE_ADD, TAINT), [Q]),
    "1.36, no additions": ("1.36", (LABEL,), []),
    "1.37, additions without taints": ("1.37", (ADD_AND_LABEL,), []),
}


@pytest.mark.parametrize(("version", "events", "expected"), IMPLIED.values(), ids=IMPLIED)
def test_who_waits_for_new_nodes_may_wait_for_taints_unasked(
    version: str, events: tuple[ClusterEvent, ...], expected: list[Hint | None]
) -> None:
    hint = ScriptedHint()
    plugin = Waiting(*(registration(event, hint) for event in events))
    asked = build_hint_map([plugin], BOTH[version]).waiters_for(TAINT)
    assert [w.hint(make_entry().info, None, None) if w.hint else None for w in asked] == expected


def test_what_anybody_waits_for_is_the_union() -> None:
    maps = [
        build_hint_map([Waiting(registration(NODE_ADD), registration(PV_ADD))], OLDEST),
        HintMap([Waiter("x", LABEL, None)]),
    ]
    assert union_of_actions(maps) == {
        "Node": Action.ADD | Action.UPDATE_NODE_TAINT | Action.UPDATE_NODE_LABEL,
        "PersistentVolume": Action.ADD,
    }
