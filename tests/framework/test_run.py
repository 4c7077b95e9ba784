"""Which answer is allowed at which extension point, and what becomes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.builders import a_cluster, a_pod
from tests.framework.fakes import (
    Answer,
    Binder,
    NoStatuses,
    Permit,
    PostBind,
    PostFilter,
    PreBind,
    PreFilter,
    PreScore,
    Reserve,
    profile_of,
)

from berth.api.quantity import QuantityError
from berth.framework.cycle_state import CycleState, StateNotFoundError
from berth.framework.run import (
    MAX_PERMIT_WAIT_S,
    PermitOutcome,
    PreFilterOutcome,
    run_bind,
    run_permit,
    run_post_bind,
    run_post_filter,
    run_pre_bind,
    run_pre_bind_pre_flight,
    run_pre_filter,
    run_pre_score,
    run_reserve,
    run_unreserve,
)
from berth.framework.status import SKIP, SUCCESS, Code, PluginError, Status, error, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.framework.interface import NodeStatuses, PostFilterResult

POD = a_cluster().info(a_pod())
ROWS = np.arange(3, dtype=np.intp)
NODE = "n1"
OTHER = SUCCESS  # what a second plugin says, where it is asked at all

UNSCHEDULABLE, UNRESOLVABLE = unschedulable("no"), unresolvable("never")
PENDING, WAIT = Status(Code.PENDING, ("not yet",)), Status(Code.WAIT, ("hold on",))
FAILED = error("broken")


NO_STATUSES: NodeStatuses = NoStatuses()


def pre_filtered(*plugins: PreFilter) -> tuple[PreFilterOutcome, CycleState]:
    state = CycleState()
    return run_pre_filter(profile_of(*plugins), state, POD), state


# -- PreFilter --------------------------------------------------------------------------------------------------------

# what the first of two plugins says; the outcome, who sits out, whether the second is asked
PRE_FILTERS: dict[str, tuple[Answer, Status, set[str], bool]] = {
    "success": (SUCCESS, SUCCESS, set(), True),
    "skip": (SKIP, SUCCESS, {"P"}, True),
    "unschedulable": (UNSCHEDULABLE, UNSCHEDULABLE.by("P"), set(), True),
    "unresolvable": (UNRESOLVABLE, UNRESOLVABLE.by("P"), set(), False),
    "pending": (PENDING, error('running PreFilter plugin "P": not yet'), set(), False),
    "wait": (WAIT, error('running PreFilter plugin "P": hold on'), set(), False),
    "error": (FAILED, error('running PreFilter plugin "P": broken'), set(), False),
    "an exception": (PluginError("boom"), error('running PreFilter plugin "P": boom'), set(), False),
}


@pytest.mark.parametrize(("answer", "expected", "skipped", "goes_on"), PRE_FILTERS.values(), ids=PRE_FILTERS)
def test_an_answer_at_pre_filter(answer: Answer, expected: Status, skipped: set[str], goes_on: bool) -> None:
    second = PreFilter("Q")
    outcome, state = pre_filtered(PreFilter("P", answer), second)
    assert (outcome.status, state.skip_filter, second.calls == 1) == (expected, skipped, goes_on)
    assert outcome.rejectors == ({"P"} if expected.rejected else set())


BOTH_NODES = {"n1", "n2"}

# plugins; status, nodes left, who is to blame
NARROWINGS: dict[str, tuple[Sequence[PreFilter], Status, set[str] | None, set[str]]] = {
    "nobody narrows": ([PreFilter("P")], SUCCESS, None, set()),
    "one narrows": ([PreFilter("P", nodes=BOTH_NODES), PreFilter("Q")], SUCCESS, BOTH_NODES, {"P"}),
    "two narrow": ([PreFilter("P", nodes={"n2"}), PreFilter("Q", nodes=BOTH_NODES)], SUCCESS, {"n2"}, {"P", "Q"}),
    "one narrows to nothing": (
        [PreFilter("P", nodes=()), PreFilter("Q", FAILED)],
        unresolvable("node(s) didn't satisfy plugin P"),
        set(),
        {"P"},
    ),
    "two have no node in common": (
        [PreFilter("Q", nodes={"n1"}), PreFilter("P", nodes={"n2"}), PreFilter("R", FAILED)],
        unresolvable("node(s) didn't satisfy plugin(s) [P Q] simultaneously"),
        set(),
        {"P", "Q"},
    ),
    "who sits out does not narrow": ([PreFilter("P", SKIP, nodes={"n1"})], SUCCESS, None, set()),
    "a rejection besides": (
        [PreFilter("P", nodes={"n1"}), PreFilter("Q", UNSCHEDULABLE), PreFilter("R", nodes=BOTH_NODES)],
        UNSCHEDULABLE.by("Q"),
        None,
        {"P", "Q", "R"},
    ),
    "of several rejections, only the last counts": (
        [PreFilter("P", unschedulable("first")), PreFilter("Q", unschedulable("last"))],
        unschedulable("last").by("Q"),
        None,
        {"Q"},
    ),
    "a rejection is forgotten where a later plugin knows better": (
        [PreFilter("P", UNSCHEDULABLE), PreFilter("Q", UNRESOLVABLE)],
        UNRESOLVABLE.by("Q"),
        None,
        {"Q"},
    ),
    "a rejection is forgotten where a later plugin fails": (
        [PreFilter("P", UNSCHEDULABLE), PreFilter("Q", FAILED)],
        error('running PreFilter plugin "Q": broken'),
        None,
        set(),
    ),
    "a rejection is forgotten where no node is left": (
        [PreFilter("P", UNSCHEDULABLE), PreFilter("Q", nodes=())],
        unresolvable("node(s) didn't satisfy plugin Q"),
        set(),
        {"Q"},
    ),
}


@pytest.mark.parametrize(("plugins", "status", "nodes", "rejectors"), NARROWINGS.values(), ids=NARROWINGS)
def test_what_pre_filter_leaves(
    plugins: Sequence[PreFilter], status: Status, nodes: set[str] | None, rejectors: set[str]
) -> None:
    outcome, _ = pre_filtered(*plugins)
    assert outcome == PreFilterOutcome(status, None if nodes is None else frozenset(nodes), frozenset(rejectors))


def test_those_who_sat_out_before_a_fault_sit_out() -> None:
    outcome, state = pre_filtered(PreFilter("P", SKIP), PreFilter("Q", FAILED))
    assert outcome.status == error('running PreFilter plugin "Q": broken')
    assert state.skip_filter == {"P"}


def test_all_may_sit_out_of_pre_filter() -> None:
    outcome, state = pre_filtered(PreFilter("P", SKIP), PreFilter("Q", SKIP))
    assert (outcome.status, state.skip_filter) == (SUCCESS, {"P", "Q"})


# -- PreScore ---------------------------------------------------------------------------------------------------------

# what the first of two plugins says; the outcome, who sits out
PRE_SCORES: dict[str, tuple[Answer, Status, set[str]]] = {
    "success": (SUCCESS, SUCCESS, set()),
    "skip": (SKIP, SUCCESS, {"P"}),
    "unschedulable": (UNSCHEDULABLE, error('running PreScore plugin "P": no'), set()),
    "unresolvable": (UNRESOLVABLE, error('running PreScore plugin "P": never'), set()),
    "pending": (PENDING, error('running PreScore plugin "P": not yet'), set()),
    "wait": (WAIT, error('running PreScore plugin "P": hold on'), set()),
    "error": (FAILED, error('running PreScore plugin "P": broken'), set()),
    "an exception": (PluginError("boom"), error('running PreScore plugin "P": boom'), set()),
}


@pytest.mark.parametrize(("answer", "expected", "skipped"), PRE_SCORES.values(), ids=PRE_SCORES)
def test_an_answer_at_pre_score(answer: Answer, expected: Status, skipped: set[str]) -> None:
    state, second = CycleState(), PreScore("Q")
    assert run_pre_score(profile_of(PreScore("P", answer), second), state, POD, ROWS) == expected
    assert state.skip_score == skipped
    assert second.given == ([[0, 1, 2]] if expected.ok else [])


# -- PostFilter -------------------------------------------------------------------------------------------------------


def post_filtered(*plugins: PostFilter) -> PostFilterResult:
    return run_post_filter(profile_of(*plugins), CycleState(), POD, NO_STATUSES)


# what the first of two plugins says; the outcome, whether the second is asked
POST_FILTERS: dict[str, tuple[Answer, Status, bool]] = {
    "success": (Status(reasons=("made room",)), Status(reasons=("made room",)), False),
    "skip": (Status(Code.SKIP, ("idle",)), error("idle").by("P"), False),
    "unschedulable": (UNSCHEDULABLE, unschedulable("no", "nor I").by("P"), True),
    "unresolvable": (UNRESOLVABLE, UNRESOLVABLE.by("P"), False),
    "pending": (PENDING, unschedulable("not yet", "nor I").by("P"), True),
    "wait": (WAIT, error("hold on").by("P"), False),
    "error": (FAILED, error("broken").by("P"), False),
    "an exception": (PluginError("boom"), error("boom").by("P"), False),
}


@pytest.mark.parametrize(("answer", "expected", "goes_on"), POST_FILTERS.values(), ids=POST_FILTERS)
def test_an_answer_at_post_filter(answer: Answer, expected: Status, goes_on: bool) -> None:
    second = PostFilter("Q", unschedulable("nor I"))
    assert post_filtered(PostFilter("P", answer), second).status == expected
    assert second.told == ([NO_STATUSES] if goes_on else [])


# plugins; status, nomination
NOMINATIONS: dict[str, tuple[Sequence[PostFilter], Status, str | None]] = {
    "of the one that succeeds": (
        [PostFilter("P", UNSCHEDULABLE, "n1"), PostFilter("Q", SUCCESS, "n2")],
        SUCCESS,
        "n2",
    ),
    "of the one that knows that none helps": ([PostFilter("P", UNRESOLVABLE, "")], UNRESOLVABLE.by("P"), ""),
    "the last one that somebody has an opinion on": (
        [PostFilter("P", UNSCHEDULABLE, "n1"), PostFilter("Q", UNSCHEDULABLE, ""), PostFilter("R", UNSCHEDULABLE)],
        unschedulable("no", "no", "no").by("P"),
        "",
    ),
    "none where nobody has an opinion": ([PostFilter("P", UNSCHEDULABLE)], UNSCHEDULABLE.by("P"), None),
    "none where somebody fails": (
        [PostFilter("P", UNSCHEDULABLE, "n1"), PostFilter("Q", FAILED, "n2")],
        error("broken").by("Q"),
        None,
    ),
    "unresolvable after unschedulable": (
        [PostFilter("P", UNSCHEDULABLE), PostFilter("Q", UNRESOLVABLE)],
        UNRESOLVABLE.by("Q"),
        None,
    ),
}


@pytest.mark.parametrize(("plugins", "status", "nominated"), NOMINATIONS.values(), ids=NOMINATIONS)
def test_the_nomination_is(plugins: Sequence[PostFilter], status: Status, nominated: str | None) -> None:
    assert post_filtered(*plugins)[:2] == (status, nominated)


# -- Reserve ----------------------------------------------------------------------------------------------------------

# what the second of three plugins says; the outcome
RESERVES: dict[str, tuple[Answer, Status]] = {
    "success": (SUCCESS, SUCCESS),
    "skip": (Status(Code.SKIP, ("idle",)), error('running Reserve plugin "B": idle')),
    "unschedulable": (UNSCHEDULABLE, UNSCHEDULABLE.by("B")),
    "unresolvable": (UNRESOLVABLE, UNRESOLVABLE.by("B")),
    "pending": (PENDING, PENDING.by("B")),
    "wait": (WAIT, error('running Reserve plugin "B": hold on')),
    "error": (FAILED, error('running Reserve plugin "B": broken')),
    "an exception": (PluginError("boom"), error('running Reserve plugin "B": boom')),
    "a value that is not there": (
        StateNotFoundError("nothing under x"),
        error('running Reserve plugin "B": nothing under x'),
    ),
    "an amount that is none": (
        QuantityError("much"),
        error("running Reserve plugin \"B\": want a quantity such as 500m, 2 or 4Gi, got 'much'"),
    ),
}


@pytest.mark.parametrize(("answer", "expected"), RESERVES.values(), ids=RESERVES)
def test_an_answer_at_reserve(answer: Answer, expected: Status) -> None:
    diary: list[str] = []
    profile = profile_of(Reserve("A", diary=diary), Reserve("B", answer, diary), Reserve("C", diary=diary))
    assert run_reserve(profile, CycleState(), POD, NODE) == expected
    assert diary == [f"{name} reserves on n1" for name in ("ABC" if expected.ok else "AB")]


def test_bookings_are_taken_back_from_all_in_reverse() -> None:
    diary: list[str] = []
    profile = profile_of(*(Reserve(name, diary=diary) for name in "ABC"))
    run_unreserve(profile, CycleState(), POD, NODE)
    assert diary == [f"{name} unreserves on n1" for name in "CBA"]


# -- Permit -----------------------------------------------------------------------------------------------------------

NOBODY_REJECTED = "one or more plugins asked to wait and no plugin rejected pod"
WAITING = Status(Code.WAIT, ("hold on", NOBODY_REJECTED))

# what the first of two plugins says, and for how long; the outcome, the waits, whether the second is asked
PERMITS: dict[str, tuple[Answer, float, Status, dict[str, float], bool]] = {
    "success": (SUCCESS, 10, SUCCESS, {}, True),
    "skip": (Status(Code.SKIP, ("idle",)), 10, error('running Permit plugin "P": idle'), {}, False),
    "unschedulable": (UNSCHEDULABLE, 10, UNSCHEDULABLE.by("P"), {}, False),
    "unresolvable": (UNRESOLVABLE, 10, UNRESOLVABLE.by("P"), {}, False),
    "pending": (PENDING, 10, PENDING.by("P"), {}, False),
    "wait": (WAIT, 10, WAITING, {"P": 10}, True),
    "wait for long": (WAIT, MAX_PERMIT_WAIT_S, WAITING, {"P": 900}, True),
    "wait for longer than anyone may": (WAIT, MAX_PERMIT_WAIT_S + 1, WAITING, {"P": 900}, True),
    "error": (FAILED, 10, error('running Permit plugin "P": broken'), {}, False),
    "an exception": (PluginError("boom"), 10, error('running Permit plugin "P": boom'), {}, False),
    "an amount that is none": (
        QuantityError("much"),
        10,
        error("running Permit plugin \"P\": want a quantity such as 500m, 2 or 4Gi, got 'much'"),
        {},
        False,
    ),
}


@pytest.mark.parametrize(("answer", "timeout_s", "expected", "waits", "goes_on"), PERMITS.values(), ids=PERMITS)
def test_an_answer_at_permit(
    answer: Answer, timeout_s: float, expected: Status, waits: dict[str, float], goes_on: bool
) -> None:
    second = Permit("Q")
    outcome = run_permit(profile_of(Permit("P", answer, timeout_s), second), CycleState(), POD, NODE)
    assert outcome == PermitOutcome(expected, waits)
    assert second.calls == goes_on


# plugins; outcome
PERMIT_ROWS: dict[str, tuple[Sequence[Permit], PermitOutcome]] = {
    "two wait, and the reasons are those of the last": (
        [Permit("P", Status(Code.WAIT, ("first",)), 1), Permit("Q"), Permit("R", Status(Code.WAIT, ("last",)), 2)],
        PermitOutcome(Status(Code.WAIT, ("last", NOBODY_REJECTED)), {"P": 1, "R": 2}),
    ),
    "a rejection after a wait": (
        [Permit("P", WAIT), Permit("Q", UNSCHEDULABLE)],
        PermitOutcome(UNSCHEDULABLE.by("Q"), {}),
    ),
    "a fault after a wait": (
        [Permit("P", WAIT), Permit("Q", FAILED)],
        PermitOutcome(error('running Permit plugin "Q": broken'), {}),
    ),
    "nobody is asked": ([], PermitOutcome(SUCCESS, {})),
}


@pytest.mark.parametrize(("plugins", "expected"), PERMIT_ROWS.values(), ids=PERMIT_ROWS)
def test_what_permit_comes_to(plugins: Sequence[Permit], expected: PermitOutcome) -> None:
    assert run_permit(profile_of(*plugins), CycleState(), POD, NODE) == expected


# -- PreBind ----------------------------------------------------------------------------------------------------------


def unsupported(label: str) -> Status:
    return error(
        f'PreBindPreFlight P returned "{label}", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status"
    )


# what one plugin says ahead of PreBind; the outcome
PRE_FLIGHTS: dict[str, tuple[Answer, Status]] = {
    "success": (SUCCESS, SUCCESS),
    "skip": (SKIP, SKIP),
    "unschedulable": (UNSCHEDULABLE, unsupported("Unschedulable")),
    "unresolvable": (UNRESOLVABLE, unsupported("UnschedulableAndUnresolvable")),
    "pending": (PENDING, unsupported("Pending")),
    "wait": (WAIT, unsupported("Wait")),
    "error": (FAILED, error('running PreBindPreFlight "P": broken')),
    "an exception": (PluginError("boom"), error('running PreBindPreFlight "P": boom')),
}


@pytest.mark.parametrize(("answer", "expected"), PRE_FLIGHTS.values(), ids=PRE_FLIGHTS)
def test_an_answer_ahead_of_pre_bind(answer: Answer, expected: Status) -> None:
    profile = profile_of(PreBind("P", ahead=answer))
    assert run_pre_bind_pre_flight(profile, CycleState(), POD, NODE) == expected


async def test_pre_bind_leaves_out_those_who_have_nothing_to_do() -> None:
    idle, busy, state = PreBind("P", FAILED, ahead=SKIP), PreBind("Q"), CycleState()
    profile = profile_of(idle, busy)
    assert run_pre_bind_pre_flight(profile, state, POD, NODE) == SUCCESS
    assert state.skip_pre_bind == {"P"}
    assert await run_pre_bind(profile, state, POD, NODE) == SUCCESS
    assert (idle.calls, busy.calls) == (0, 1)


def test_nothing_is_to_be_prepared_where_there_are_no_plugins_for_it() -> None:
    assert run_pre_bind_pre_flight(profile_of(), CycleState(), POD, NODE) == SKIP


# what the first of two plugins says; the outcome
PRE_BINDS: dict[str, tuple[Answer, Status]] = {
    "success": (SUCCESS, SUCCESS),
    "skip": (Status(Code.SKIP, ("idle",)), error('running PreBind plugin "P": idle')),
    "unschedulable": (UNSCHEDULABLE, UNSCHEDULABLE.by("P")),
    "unresolvable": (UNRESOLVABLE, UNRESOLVABLE.by("P")),
    "pending": (PENDING, PENDING.by("P")),
    "wait": (WAIT, error('running PreBind plugin "P": hold on')),
    "error": (FAILED, error('running PreBind plugin "P": broken')),
    "an exception": (PluginError("boom"), error('running PreBind plugin "P": boom')),
}


@pytest.mark.parametrize(("answer", "expected"), PRE_BINDS.values(), ids=PRE_BINDS)
async def test_an_answer_at_pre_bind(answer: Answer, expected: Status) -> None:
    second = PreBind("Q")
    assert await run_pre_bind(profile_of(PreBind("P", answer), second), CycleState(), POD, NODE) == expected
    assert second.calls == expected.ok


# -- Bind -------------------------------------------------------------------------------------------------------------

# what the first of two plugins says; the outcome, whether the second is asked
BINDS: dict[str, tuple[Answer, Status, bool]] = {
    "success": (SUCCESS, SUCCESS, False),
    "skip": (SKIP, SUCCESS, True),
    "unschedulable": (UNSCHEDULABLE, UNSCHEDULABLE.by("P"), False),
    "unresolvable": (UNRESOLVABLE, UNRESOLVABLE.by("P"), False),
    "pending": (PENDING, PENDING.by("P"), False),
    "wait": (WAIT, error('running Bind plugin "P": hold on'), False),
    "error": (FAILED, error('running Bind plugin "P": broken'), False),
    "an exception": (PluginError("boom"), error('running Bind plugin "P": boom'), False),
}


@pytest.mark.parametrize(("answer", "expected", "goes_on"), BINDS.values(), ids=BINDS)
async def test_an_answer_at_bind(answer: Answer, expected: Status, goes_on: bool) -> None:
    second = Binder("Q")
    assert await run_bind(profile_of(Binder("P", answer), second), CycleState(), POD, NODE) == expected
    assert second.bound == ([("default/web", "n1")] if goes_on else [])


async def test_nobody_may_feel_responsible_for_binding() -> None:
    assert await run_bind(profile_of(Binder("P", SKIP), Binder("Q", SKIP)), CycleState(), POD, NODE) == SKIP


def test_all_hear_of_a_binding() -> None:
    first, second = PostBind("P"), PostBind("Q")
    run_post_bind(profile_of(first, second), CycleState(), POD, NODE)
    assert first.heard == second.heard == [("default/web", "n1")]
