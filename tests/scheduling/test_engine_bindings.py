"""Placements on their way: those that were bound, and those that came to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_pod
from tests.framework.fakes import Permit, Reserve
from tests.scheduling.builders import with_metadata
from tests.scheduling.worlds import World, a_world

from berth.framework.status import Code, Status, error
from berth.scheduling.instructions import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.scheduling.instructions import Bind

WAIT = Status(Code.WAIT, ("hold on",))
POD = a_pod("p")
OTHER = a_pod("other")
REJECTED = Status(Code.UNSCHEDULABLE, ("no",), "P")
FAILED = error('running Bind plugin "Binder": broken')


def nothing(world: World) -> None:
    del world


def gone(world: World) -> None:
    del world.listed[POD.key]


def bound_elsewhere(world: World) -> None:
    world.listed[POD.key] = a_pod("p", on="n9")


def recreated(world: World) -> None:
    world.listed[POD.key] = a_pod("p", uid="another")


def world_with_diary() -> tuple[World, list[str]]:
    diary: list[str] = []
    return a_world(Reserve("R", diary=diary), Reserve("S", diary=diary)), diary


def carry_through(world: World, bind: Bind) -> None:
    world.engine.binding_permitted(bind)
    world.engine.binding_succeeded(bind)


def test_a_placement_that_was_bound_stays_assumed_until_it_is_shown() -> None:
    world = a_world()
    bind = world.assumed(POD)
    carry_through(world, bind)
    assert world.place(POD) == "assumed on n1"
    world.bind(POD, "n1")
    assert world.place(POD) == "bound on n1"


def test_a_placement_that_was_shown_bound_before_we_hear_of_it_stays_bound() -> None:
    world = a_world()
    bind = world.assumed(POD)
    world.engine.binding_permitted(bind)
    world.bind(POD, "n1")
    world.engine.binding_succeeded(bind)
    assert world.place(POD) == "bound on n1"


# why the binding failed, and whether that was while it waited for permission; reason, message, where pod and other are
BINDING_FAILURES: dict[str, tuple[Status, bool, str, str, str]] = {
    "a plugin failed": (FAILED, False, "SchedulerError", FAILED.message, "E"),
    "a plugin rejected it": (REJECTED, False, "Unschedulable", "no", "E"),
    "permission was denied": (REJECTED, True, "Unschedulable", "0/1 nodes are available: 1 no.", "U"),
    "it was preempted while it waited": (
        error("waiting on permit for pod: preempted"),
        True,
        "SchedulerError",
        "waiting on permit for pod: preempted",
        "E",
    ),
}


@pytest.mark.parametrize(
    ("status", "waiting", "reason", "message", "place"), BINDING_FAILURES.values(), ids=BINDING_FAILURES
)
def test_a_binding_fails_because(status: Status, waiting: bool, reason: str, message: str, place: str) -> None:
    world, diary = world_with_diary()
    bind = world.assumed(POD)
    world.rejected(OTHER)
    if not waiting:
        world.engine.binding_permitted(bind)
    report = world.engine.binding_failed(bind, status, while_waiting=waiting)
    assert report == Report(
        pod=POD, controller="default-scheduler", reason=reason, message=message, nominated_node_name=""
    )
    assert world.place(POD) == place
    assert world.place(OTHER) == "B"
    assert world.labels() == ["AssignedPodDelete"]
    assert diary[2:] == ["S unreserves on n1", "R unreserves on n1"]
    entry = world.queue.get_pod(POD.key)
    assert entry is not None
    assert (entry.pod, entry.attempts) == (POD, 1)


def test_the_room_of_a_failed_binding_brings_back_the_pod_itself_only_if_it_was_not_rejected() -> None:
    for status, place in ((REJECTED, "U"), (error("preempted"), "E")):
        world = a_world(Permit("P", WAIT))
        bind = world.assumed(POD)
        world.engine.binding_failed(bind, status, while_waiting=True)
        assert world.place(POD) == place
        assert world.engine.waiting.get(POD.uid) is None


def test_an_event_while_a_pod_waited_for_permission_brings_it_back_and_one_after_that_does_not() -> None:
    world = a_world(Permit("P", WAIT))
    bind = world.assumed(POD)
    world.add(a_pod("third", on="n1"))
    world.engine.binding_failed(bind, REJECTED, while_waiting=True)
    assert world.place(POD) == "B"


# what the API server shows when the binding has failed; where the pod is then, whether users are told
AFTER_BINDING: dict[str, tuple[Callable[[World], object], str, bool]] = {
    "the same": (nothing, "E", True),
    "nothing of it, and we heard": (lambda w: w.delete(POD), "", True),
    "nothing of it, and we have not heard yet": (gone, "", True),
    "that it was bound there, and we heard": (lambda w: w.bind(POD, "n1"), "bound on n1", True),
    "that it was bound elsewhere, and we heard": (lambda w: w.bind(POD, "n9"), "bound on n9", True),
    "that it was bound elsewhere, and we have not heard yet": (bound_elsewhere, "", True),
    "another pod of its name, and we have not heard yet": (recreated, "", False),
    "another version": (lambda w: w.update(with_metadata(POD, labels={"a": "b"})), "E", True),
    "that it is going away": (lambda w: w.terminate(POD), "E", True),
}


@pytest.mark.parametrize(("meanwhile", "place", "told"), AFTER_BINDING.values(), ids=AFTER_BINDING)
def test_if_a_binding_failed_and_the_api_server_shows(
    meanwhile: Callable[[World], object], place: str, told: bool
) -> None:
    world, diary = world_with_diary()
    bind = world.assumed(POD)
    world.engine.binding_permitted(bind)
    meanwhile(world)
    report = world.engine.binding_failed(bind, FAILED)
    assert world.place(POD) == place
    assert (report is not None) is told
    assert diary[2:] == ["S unreserves on n1", "R unreserves on n1"]
    assert world.queue.in_flight_count() == 0
    entry = world.queue.get_pod(POD.key)
    assert (entry.pod if entry else None) == (world.listed[POD.key] if place == "E" else None)


def test_a_pod_that_was_recreated_while_it_was_bound_waits_on_its_own() -> None:
    world = a_world()
    bind = world.assumed(POD)
    world.engine.binding_permitted(bind)
    heir = a_pod("p", uid="another")
    world.update(heir)
    assert world.place(heir) == "A"
    assert world.engine.binding_failed(bind, FAILED) is None
    assert world.place(heir) == "A"
    assert world.bound().info.uid == heir.uid


def test_a_pod_that_came_back_to_the_queue_while_it_was_bound_is_not_queued_twice() -> None:
    """The API server refuses to bind a pod that is going away, and its finalizers are removed one by one meanwhile."""
    world = a_world()
    bind = world.assumed(POD)
    world.engine.binding_permitted(bind)
    going = world.terminate(with_metadata(POD, annotations={"finalizers": "2"}))
    world.update(with_metadata(going, annotations={"finalizers": "1"}))
    assert world.place(POD) == "A"
    report = world.engine.binding_failed(bind, FAILED)
    assert world.place(POD) == "A"
    assert report is not None
    assert report.reason == "SchedulerError"
    assert world.reported().message == "skip schedule deleting pod: default/p"


def test_a_phantom_is_not_brought_back_by_a_binding_that_fails_late() -> None:
    world = a_world()
    bind = world.assumed(a_pod("p", cpu="1"))
    world.engine.binding_permitted(bind)
    world.delete(bind.queued.pod)
    assert world.cluster.table.usage("n1") == {}
    world.engine.binding_failed(bind, FAILED)
    assert world.cluster.counts() == {"nodes": 1, "pods": 0, "assumed_pods": 0}
    assert world.place(POD) == ""


def test_a_phantom_that_was_bound_after_all_counts_once_it_is_shown() -> None:
    world = a_world()
    bind = world.assumed(POD)
    world.engine.binding_permitted(bind)
    terminating = world.terminate(POD)
    assert world.place(POD) == ""
    world.engine.binding_succeeded(bind)
    bound = world.bind(terminating, "n1")
    assert world.place(POD) == "bound on n1"
    world.delete(bound)
    assert world.place(POD) == ""
