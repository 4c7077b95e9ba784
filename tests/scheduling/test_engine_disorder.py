"""Malformed objects, events that come late, twice or out of turn: what they harm, and that the view converges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.builders import a_handle, a_node, a_pod, a_port
from tests.framework.fakes import Permit, Reserve
from tests.scheduling.worlds import World, a_world

from berth.api.quantity import QuantityError
from berth.cluster.cache import Cluster
from berth.framework.status import error
from berth.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Callable

POD = a_pod("p", cpu="1")
BOUND = a_pod("p", cpu="1", on="n1")
FAULTY = a_pod("p", cpu="much")
FAULTY_BOUND = a_pod("p", cpu="much", on="n1")
NO_QUANTITY = "want a quantity such as 500m, 2 or 4Gi, got 'much'"


def fitting_world(*names: str) -> World:
    """A world in which pods must fit what nodes offer."""
    cluster = Cluster()
    fit = IN_TREE["NodeResourcesFit"](None, a_handle(cluster))
    ports = IN_TREE["NodePorts"](None, a_handle(cluster))
    return a_world(fit, ports, cluster=cluster, nodes=names or ("n1",))


def used(world: World, name: str = "n1") -> dict[str, int]:
    world.cluster.validate()
    return world.cluster.table.usage(name)


# -- malformed amounts ------------------------------------------------------------------------------------------------


def test_a_pod_with_malformed_requests_fails_alone() -> None:
    world = fitting_world()
    report = world.add(FAULTY, a_pod("good", cpu="1")).reported()
    assert (report.pod, report.reason) == (FAULTY, "SchedulerError")
    assert NO_QUANTITY in report.message
    assert world.place(FAULTY) == "E"
    assert world.bound().info.pod.metadata.name == "good"


def test_a_pod_with_malformed_requests_fails_alone_also_where_nobody_looks_at_requests() -> None:
    world = a_world()
    report = world.add(FAULTY, a_pod("good")).reported()
    assert (report.reason, report.message) == ("SchedulerError", f"pod default/p: {NO_QUANTITY}")
    assert world.place(FAULTY) == "E"
    assert world.bound().info.pod.metadata.name == "good"


@pytest.mark.parametrize("plugin", [Reserve("X", QuantityError("much")), Permit("X", QuantityError("much"))])
def test_a_malformed_amount_met_after_a_node_was_chosen_leaves_nothing_assumed(plugin: Reserve | Permit) -> None:
    diary: list[str] = []
    world = a_world(Reserve("R", diary=diary), plugin)
    point = type(plugin).__name__
    assert world.add(POD).reported().message == f'running {point} plugin "X": {NO_QUANTITY}'
    assert world.place(POD) == "E"
    assert diary == ["R reserves on n1", "R unreserves on n1"]


def test_a_waiting_pod_whose_requests_are_mended_is_placed_by_them() -> None:
    world = fitting_world()
    world.add(FAULTY).reported()
    world.update(POD)
    world.now_s += 60
    world.queue.flush_backoff_completed()
    assert world.bound().node_name == "n1"
    assert used(world)["cpu"] == 1000


def test_a_waiting_pod_that_becomes_malformed_is_told_and_harms_nobody() -> None:
    world = fitting_world()
    world.add(POD, a_pod("good", cpu="1"))
    world.update(FAULTY)
    told = world.reported()
    assert (told.pod.spec, told.reason) == (FAULTY.spec, "SchedulerError")
    assert NO_QUANTITY in told.message
    assert world.bound().info.pod.metadata.name == "good"


def test_a_malformed_pod_that_is_promised_a_node_harms_nobody() -> None:
    world = fitting_world()
    faulty = a_pod("faulty", cpu="much", nominated="n1", priority=5)
    world.add(faulty).reported()
    world.update(replace(faulty, status=replace(faulty.status, phase="Pending")))
    assert world.assumed(a_pod("good", cpu="1")).node_name == "n1"


def test_a_bound_pod_with_malformed_requests_is_not_counted_and_can_go(caplog: pytest.LogCaptureFixture) -> None:
    world = fitting_world()
    world.add(FAULTY_BOUND)
    assert "pod default/p appeared on node n1" in caplog.text
    assert used(world) == {}
    world.update(replace(FAULTY_BOUND, status=replace(FAULTY_BOUND.status, phase="Running")))
    world.delete(FAULTY_BOUND)
    assert used(world) == {}


def test_a_bound_pod_keeps_its_last_good_requests(caplog: pytest.LogCaptureFixture) -> None:
    world = fitting_world()
    world.add(BOUND)
    world.update(FAULTY_BOUND)
    assert "pod default/p changed on node n1" in caplog.text
    assert used(world)["cpu"] == 1000
    world.update(a_pod("p", cpu="2", on="n1"))
    assert used(world)["cpu"] == 2000
    world.delete(FAULTY_BOUND)
    assert used(world) == {}


def test_a_bound_pod_counts_as_soon_as_its_requests_are_mended() -> None:
    world = fitting_world()
    world.add(FAULTY_BOUND)
    world.update(BOUND)
    assert used(world)["cpu"] == 1000


def test_a_node_with_a_malformed_offer_is_not_there_until_it_is_mended(caplog: pytest.LogCaptureFixture) -> None:
    world = fitting_world()
    world.remove_node("n1")
    world.set_node(a_node(cpu="much"))
    assert f"node n1: status.allocatable: {NO_QUANTITY}; its last good state stands" in caplog.text
    assert world.cluster.table.row_of("n1") is None
    world.quiet().set_node(a_node(cpu="4", labels={"a": "b"}))
    assert world.labels() == ["NodeAdd"]
    assert world.cluster.table.row_of("n1") is not None


def test_a_node_keeps_its_last_good_offer_and_waiting_pods_hear_when_it_is_mended() -> None:
    world = fitting_world()
    world.set_node(a_node(cpu="much", labels={"a": "b"}))
    assert world.labels() == []
    assert world.cluster.table.node(0) == a_node()
    world.set_node(a_node(labels={"a": "b"}))
    assert world.labels() == ["NodeAdd"]
    assert world.cluster.table.node(0) == a_node(labels={"a": "b"})


# -- late, twice, out of turn -----------------------------------------------------------------------------------------


def test_a_bound_pod_that_comes_twice_counts_once(caplog: pytest.LogCaptureFixture) -> None:
    world = fitting_world()
    world.add(BOUND).add(BOUND)
    assert "was already in added state" in caplog.text
    assert used(world)["cpu"] == 1000


def test_a_waiting_pod_that_comes_twice_waits_once() -> None:
    world = a_world()
    world.add(POD).add(POD)
    assert world.queue.counts()["active"] == 1
    assert world.bound().info.uid == POD.uid
    assert world.next() is None


# what happens to a pod or node that nobody has heard of
STRANGERS: dict[str, Callable[[World], object]] = {
    "a waiting pod is gone": lambda w: w.delete(POD),
    "a waiting pod is gone, as a list shows": lambda w: w.delete(POD, final_state_unknown=True),
    "a bound pod is gone": lambda w: w.delete(BOUND),
    "a bound pod is gone, as a list shows": lambda w: w.delete(BOUND, final_state_unknown=True),
    "a bound pod is gone twice": lambda w: w.add(BOUND).delete(BOUND).delete(BOUND),
    "a waiting pod is gone twice": lambda w: w.add(POD).delete(POD).delete(POD),
    "a placed pod is gone twice": lambda w: w.placed(POD).delete(POD).delete(POD),
    "a node is gone": lambda w: w.engine.node_deleted(a_node("n9")),
    "a malformed pod is gone": lambda w: w.delete(FAULTY),
    "a malformed bound pod is gone": lambda w: w.delete(FAULTY_BOUND),
}


@pytest.mark.parametrize("happen", STRANGERS.values(), ids=STRANGERS)
def test_nothing_is_left_behind_when(happen: Callable[[World], object]) -> None:
    world = fitting_world()
    happen(world)
    assert world.cluster.counts() == {"nodes": 1, "pods": 0, "assumed_pods": 0}
    assert list(world.queue.entries()) == []
    assert used(world) == {}
    assert world.assumed(a_pod("next")).node_name == "n1"


def test_a_waiting_pod_that_changes_before_it_comes_waits() -> None:
    world = a_world()
    world.listed[POD.key] = POD
    new = world.update(POD)
    entry = world.queue.get_pod(POD.key)
    assert entry is not None
    assert entry.pod == new


def test_a_node_that_changes_before_it_comes_is_there_and_is_told_of_as_new() -> None:
    world = fitting_world()
    world.engine.node_updated(a_node("n2"), a_node("n2", labels={"a": "b"}))
    assert world.cluster.table.row_of("n2") is not None
    assert world.labels() == ["NodeAdd"]


def test_a_node_that_comes_twice_is_there_once() -> None:
    world = fitting_world()
    world.engine.node_added(a_node(cpu="2"))
    assert world.cluster.counts()["nodes"] == 1
    assert world.cluster.table.node(0) == a_node(cpu="2")


def test_a_pod_counts_on_a_node_that_is_not_there_yet() -> None:
    world = fitting_world()
    world.add(a_pod("early", cpu="60", on="n2"))
    assert world.assumed(a_pod("big", cpu="8")).node_name == "n1"
    world.set_node(a_node("n2", cpu="64"))
    world.close({"n1"})
    assert world.add(a_pod("other", cpu="8")).reported().message == (
        "0/2 nodes are available: 1 F says no, 1 Insufficient cpu."
    )


# how a placement ends whose node is gone meanwhile; what counts on the node when it comes back
ENDINGS: dict[str, tuple[Callable[[World], object], int]] = {
    "it was bound": (lambda w: w.bind(POD, "n1"), 1000),
    "it is still on its way": (lambda _: None, 1000),
    "its pod is gone": (lambda w: w.delete(POD), 0),
}


@pytest.mark.parametrize(("end", "cpu_milli"), ENDINGS.values(), ids=ENDINGS)
def test_a_node_goes_while_a_pod_is_assumed_there_and_comes_back_when(
    end: Callable[[World], object], cpu_milli: int
) -> None:
    world = fitting_world("n1", "n2")
    world.close({"n2"})
    bind = world.assumed(POD)
    assert bind.node_name == "n1"
    world.remove_node("n1")
    world.cluster.validate()
    end(world)
    assert world.cluster.counts()["nodes"] == 1
    world.set_node(a_node("n1"))
    assert used(world).get("cpu", 0) == cpu_milli


def test_a_binding_fails_whose_node_is_gone() -> None:
    world = fitting_world("n1")
    bind = world.assumed(POD)
    world.remove_node("n1")
    report = world.engine.binding_failed(bind, error("no such node"))
    assert report is not None
    assert world.place(POD) == "E"
    world.set_node(a_node("m1"))
    assert world.cluster.table.name(0) == "m1"
    assert used(world, "m1") == {}


def test_another_node_in_the_row_of_one_that_is_gone_starts_empty() -> None:
    world = fitting_world()
    world.add(a_pod("p", on="n1", cpu="1", ports=[a_port(80)]))
    world.remove_node("n1")
    world.set_node(a_node("n2"))
    assert used(world, "n2") == {}
    world.delete(a_pod("p", on="n1"))
    world.set_node(a_node("n3"))
    assert used(world, "n3") == {}
    assert world.add(a_pod("q", ports=[a_port(80)])).bound().node_name in ("n2", "n3")


def test_a_pod_in_flight_that_changes_comes_back_in_its_newest_version() -> None:
    world = a_world()
    bind = world.assumed(POD)
    world.engine.binding_permitted(bind)
    world.cluster.forget(bind.info, "n1")
    newest = world.update(replace(POD, metadata=replace(POD.metadata, labels={"a": "b"})))
    world.engine.binding_failed(bind, error("boom"))
    entry = world.queue.get_pod(POD.key)
    assert entry is not None
    assert entry.pod == newest


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_binding_that_ends_after_its_pod_is_gone_leaves_nothing(succeeds: bool) -> None:
    world = a_world(Reserve("R"))
    bind = world.assumed(POD)
    world.delete(POD)
    world.engine.binding_permitted(bind)
    if succeeds:
        world.engine.binding_succeeded(bind)
    else:
        assert world.engine.binding_failed(bind, error("late")) is not None
    assert world.place(POD) == ""
