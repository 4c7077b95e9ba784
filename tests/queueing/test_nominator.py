from __future__ import annotations

from tests.queueing.builders import NEWEST, NODE_ADD, OLDEST, make_pod, make_world, waiter

from berth.cluster.pods import PodInfo
from berth.framework.events import Action, ClusterEvent, Resource


def info(name: str = "p1", *, nominated: str = "", node_name: str = "") -> PodInfo:
    return PodInfo(make_pod(name, nominated=nominated, node_name=node_name))


def test_a_pod_hopes_for_one_node_at_a_time() -> None:
    world = make_world()
    world.add(make_pod("p1", nominated="node1"))
    world.queue.nominator.add(info(nominated="node1"), "node5")
    assert list(world.queue.nominator.nodes()) == ["node5"]
    world.update(make_pod("p1", nominated="node1"), make_pod("p1", nominated="node2"))
    assert list(world.queue.nominator.nodes()) == ["node2"]
    world.update(make_pod("p1", nominated="node2"), make_pod("p1"))
    assert list(world.queue.nominator.nodes()) == []


def test_an_update_that_does_not_know_of_the_nomination_leaves_it() -> None:
    world = make_world()
    world.add(make_pod("p1"))
    world.queue.nominator.add(info(), "node5")
    world.update(make_pod("p1"), make_pod("p1", labels={"a": "b"}))
    (nominated,) = world.queue.nominator.pods_on("node5")
    assert nominated.pod.metadata.labels == {"a": "b"}


def test_an_empty_name_takes_the_nomination_back() -> None:
    world = make_world()
    world.add(make_pod("p1", nominated="node1"))
    world.queue.nominator.add(info(nominated="node1"), "")
    assert len(world.queue.nominator) == 0
    assert world.queue.nominator.pods_on("") == []


def test_pods_that_are_gone_or_placed_hope_for_nothing() -> None:
    world = make_world()
    world.queue.nominator.add(info(), "node1")
    assert len(world.queue.nominator) == 0
    world.listed[make_pod("p1").key] = make_pod("p1", node_name="node9")
    world.queue.nominator.add(info(), "node1")
    assert len(world.queue.nominator) == 0


def test_pods_are_given_in_the_order_of_their_nominations_and_as_last_shown() -> None:
    world = make_world()
    world.add(make_pod("b", nominated="node1"), make_pod("a", nominated="node1"))
    world.pop()
    world.update(make_pod("a", nominated="node1"), make_pod("a", nominated="node1", labels={"x": "y"}))
    given = world.queue.nominator.pods_on("node1")
    assert [(info.key, info.pod.metadata.labels) for info in given] == [("default/b", {}), ("default/a", {"x": "y"})]
    given.clear()
    assert len(world.queue.nominator.pods_on("node1")) == 2
    assert world.queue.nominator.pods_on("unknown") == []


def test_deleting_twice_is_no_fault() -> None:
    world = make_world()
    world.add(make_pod("p1", nominated="node1"))
    version = world.queue.nominator.version
    for _ in range(2):
        world.queue.nominator.delete(make_pod("p1").uid)
    assert world.queue.nominator.version == version + 1


def test_an_update_without_a_known_effect_forgets_an_unpublished_nomination_in_1_36_only() -> None:
    for behaviours, nodes in ((OLDEST, []), (NEWEST, ["node5"])):
        awaited = ClusterEvent(Resource(behaviours.own_pod_event_resource), Action.UPDATE)
        world = make_world(waiter("x", awaited), waiter("x", NODE_ADD), behaviours=behaviours)
        world.reject(make_pod("p1"), "x")
        world.queue.nominator.add(info(), "node5")
        world.clock.advance(5)
        world.update(make_pod("p1"), make_pod("p1", annotations={"a": "b"}))
        assert world.place(make_pod("p1")) == "A"
        assert list(world.queue.nominator.nodes()) == nodes
