"""What was promised to a placement that comes to nothing, or is written, brings back those who were refused for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_handle, a_node
from tests.devices import a_device_claim, a_device_class, a_slice
from tests.devices import a_pod_with as a_pod_with_devices
from tests.scheduling.worlds import World, a_world
from tests.storage import a_claim, a_class, a_pod_with, a_volume, claim

from berth.cluster import kinds
from berth.cluster.cache import Cluster
from berth.framework.status import error
from berth.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from berth.api.pod import Pod
    from berth.scheduling.instructions import Bind

HOSTNAME = "kubernetes.io/hostname"


def world_with(plugin: str) -> World:
    cluster = Cluster()
    made = IN_TREE[plugin](None, a_handle(cluster))
    return a_world(made, cluster=cluster, nodes=[a_node("n1", labels={HOSTNAME: "n1"})])


def world_with_devices(*names: str) -> World:
    """A node with one device, and these claims."""
    world = world_with("DynamicResources")
    world.engine.object_added(kinds.DEVICE_CLASS, a_device_class())
    world.engine.object_added(kinds.RESOURCE_SLICE, a_slice("slice", "gpu-0", on="n1"))
    for name in names:
        world.engine.object_added(kinds.RESOURCE_CLAIM, a_device_claim(name))
    return world


def fail(world: World, bind: Bind) -> None:
    """The devices or volumes of a placement cannot be written."""
    world.engine.binding_permitted(bind)
    world.engine.binding_failed(bind, error("the API server refused"))


def refused(world: World, pod: Pod) -> None:
    world.add(pod).reported()
    assert world.place(pod) == "U"


@pytest.mark.parametrize(("claims", "other"), [(("a", "b"), "b"), (("a",), "a")], ids=["the device", "the claim"])
def test_who_was_refused_for_a_device_on_its_way_to_another_pod_returns_when_that_comes_to_nothing(
    claims: tuple[str, ...], other: str
) -> None:
    world = world_with_devices(*claims)
    bind = world.assumed(a_pod_with_devices("a", name="first"))
    second = a_pod_with_devices(other, name="second")
    refused(world, second)
    fail(world, bind)
    assert world.place(second) == "B"


def test_who_shares_a_claim_returns_as_soon_as_it_is_written() -> None:
    world = world_with_devices("a")
    first, second = (a_pod_with_devices("a", name=name) for name in ("first", "second"))
    world.assumed(first)
    refused(world, second)
    claims = world.cluster.device_claims
    promised = claims.promised("uid-of-default-a")
    assert promised is not None
    written = a_device_claim("a", version="2", allocation=promised.status.allocation, reserved_for=[first])
    assert claims.wrote(written)
    claims.withdraw("uid-of-default-a", for_all=True)
    assert world.place(second) == "B"


def test_who_was_refused_for_a_volume_that_another_pod_was_to_have_returns_when_that_comes_to_nothing() -> None:
    world = world_with("VolumeBinding")
    world.engine.object_added(kinds.STORAGE_CLASS, a_class("local", provisioner="kubernetes.io/no-provisioner"))
    for name in "ab":
        world.engine.object_added(kinds.PERSISTENT_VOLUME_CLAIM, a_claim(name, class_name="local"))
    world.engine.object_added(kinds.PERSISTENT_VOLUME, a_volume(class_name="local", on="n1"))
    bind = world.assumed(a_pod_with(claim("a"), name="first"))
    second = a_pod_with(claim("b"), name="second")
    refused(world, second)
    fail(world, bind)
    assert world.place(second) == "B"
