"""VolumeBinding: what it promises, writes and waits for; over a writer in memory, in turns instead of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest
from tests.builders import a_cluster, a_handle, a_node
from tests.storage import a_claim, a_class, a_pod_with, a_volume, claim, gce, with_objects

from berth.api.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from berth.framework.cycle_state import CycleState
from berth.framework.handle import WriteError
from berth.framework.plugin_args import VolumeBindingArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status, error
from berth.plugins.volume_binding.plugin import VolumeBinding

if TYPE_CHECKING:
    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster

HOST = "kubernetes.io/hostname"
BY_HAND = a_class("manual", provisioner="kubernetes.io/no-provisioner")
Event = Callable[["Scene"], None]
K = TypeVar("K", PersistentVolume, PersistentVolumeClaim)


@dataclass(eq=False)
class Turns:
    """A wait in which one thing happens each turn; the time is up when nothing is left to happen."""

    scene: Scene
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1

    async def turn(self, at_most_s: float) -> bool:
        assert at_most_s == 1
        if not self.scene.story:
            return False
        await asyncio.sleep(0)
        self.scene.story.pop(0)(self.scene)
        return True


@dataclass
class Scene:
    """A cluster, a plugin, and a pod on its way to a node."""

    cluster: Cluster
    plugin: VolumeBinding = field(init=False)
    state: CycleState = field(default_factory=CycleState)
    pod: Pod = field(default_factory=lambda: a_pod_with(claim("data")))
    story: list[Event] = field(default_factory=list)
    written: list[tuple[Any, Any]] = field(default_factory=list)
    refuses: str = ""
    waits: list[Turns] = field(default_factory=list)
    allowed_s: float = 0.0

    def __post_init__(self) -> None:
        args = VolumeBindingArgs(bind_timeout_seconds=30)
        self.plugin = VolumeBinding(args, a_handle(self.cluster, writer=self))

    # what the plugin is given

    async def update_persistent_volume(self, before: PersistentVolume, after: PersistentVolume) -> PersistentVolume:
        return self._write(before, after)

    async def update_persistent_volume_claim(
        self, before: PersistentVolumeClaim, after: PersistentVolumeClaim
    ) -> PersistentVolumeClaim:
        return self._write(before, after)

    def wait(self, timeout_s: float) -> Turns:
        self.allowed_s = timeout_s
        self.waits.append(Turns(self))
        return self.waits[-1]

    def _write(self, before: K, after: K) -> K:
        if self.refuses and self.refuses == after.metadata.name:
            raise WriteError(f"{self.refuses} cannot be written")
        self.written.append((before, after))
        return next_version(after)

    # what happens

    def reserve(self, node: str = "n1") -> Status:
        info = self.cluster.info(self.pod)
        assert self.plugin.pre_filter(self.state, info).status == SUCCESS
        self.cluster.assume(info.on(node), node)
        return self.plugin.reserve(self.state, info, node)

    def unreserve(self, node: str = "n1") -> None:
        self.plugin.unreserve(self.state, self.cluster.info(self.pod), node)

    def ahead(self) -> Status:
        return self.plugin.pre_bind_pre_flight(self.state, self.cluster.info(self.pod), "n1")

    async def pre_bind(self, *story: Event) -> Status:
        self.story = list(story)
        return await self.plugin.pre_bind(self.state, self.cluster.info(self.pod), "n1")

    def volume(self, name: str = "pv") -> PersistentVolume:
        found = self.cluster.assumed_volumes.get(name)
        assert found is not None
        return found

    def claim(self, name: str = "data") -> PersistentVolumeClaim:
        found = self.cluster.assumed_claims.get(name, "default")
        assert found is not None
        return found


def next_version(obj: K) -> K:
    version = str(int(obj.metadata.resource_version) + 1)
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=version))


def a_scene(*objects: Any, **fields: Any) -> Scene:
    nodes = [a_node(name, labels={HOST: name}) for name in ("n1", "n2")]
    return Scene(with_objects(a_cluster(nodes), *objects), **fields)


def static(**fields: Any) -> Scene:
    """A claim for which there is a volume on the node."""
    return a_scene(BY_HAND, a_claim(class_name="manual"), a_volume(class_name="manual", on="n1"), **fields)


def dynamic(**fields: Any) -> Scene:
    """A claim for which one is to be made."""
    return a_scene(a_class(), a_claim(class_name="standard"), **fields)


def shows(obj: Any) -> Event:
    """The API server shows an object."""
    return lambda scene: void(with_objects(scene.cluster, obj))


def goes(kind: Any, name: str, namespace: str = "") -> Event:
    """The API server shows an object no more."""
    return lambda scene: void(scene.cluster.objects.remove(kind, name, namespace))


def void(_: object) -> None:
    """Nothing."""


def nothing(_: Scene) -> None:
    """A turn in which nothing happens."""


# -- promises ----------------------------------------------------------------------------------------------------------


def test_a_volume_is_promised_to_the_claim() -> None:
    scene = static()
    assert scene.reserve() == SUCCESS
    reference = scene.volume().spec.claim_ref
    assert reference is not None
    assert (reference.kind, reference.api_version) == ("PersistentVolumeClaim", "v1")
    assert (reference.namespace, reference.name, reference.uid) == ("default", "data", "uid-of-claim-default-data")
    assert reference.resource_version == "1"
    assert scene.volume().metadata.annotations == {BOUND_BY_CONTROLLER: "yes"}
    assert scene.ahead() == SUCCESS


def test_a_new_volume_is_to_be_made_for_the_node() -> None:
    scene = dynamic()
    assert scene.reserve() == SUCCESS
    assert scene.claim().metadata.annotations == {SELECTED_NODE: "n1"}
    assert scene.ahead() == SUCCESS


@pytest.mark.parametrize("scene", [static(), dynamic()], ids=["static", "dynamic"])
def test_promises_can_be_taken_back_twice(scene: Scene) -> None:
    scene.reserve()
    scene.unreserve()
    scene.unreserve()
    known = (scene.cluster.assumed_volumes.get("pv"), scene.claim())
    objects = scene.cluster.objects
    assert known == (
        objects.get(PERSISTENT_VOLUME, "pv"),
        objects.get(PERSISTENT_VOLUME_CLAIM, "data", "default"),
    )


def test_nothing_is_taken_back_where_nothing_was_promised() -> None:
    scene = dynamic()
    scene.unreserve()
    assert scene.claim().metadata.annotations == {}


def test_no_volume_is_promised_twice() -> None:
    scene = static()
    with_objects(scene.cluster, a_claim("other", class_name="manual"))
    scene.reserve()
    other = scene.cluster.info(a_pod_with(claim("other"), name="late"))
    state = CycleState()
    scene.plugin.pre_filter(state, other)
    rows = scene.cluster.table.live_rows()
    assert [bool(code) for code in scene.plugin.filter(state, other, rows).tolist()] == [True, True]
    scene.unreserve()
    state = CycleState()
    scene.plugin.pre_filter(state, other)
    assert [bool(code) for code in scene.plugin.filter(state, other, rows).tolist()] == [False, True]


def test_two_profiles_know_of_each_other_s_promises() -> None:
    scene = static()
    with_objects(scene.cluster, a_claim("other", class_name="manual"))
    second = VolumeBinding(None, a_handle(scene.cluster))
    scene.reserve()
    other, state = scene.cluster.info(a_pod_with(claim("other"), name="late")), CycleState()
    second.pre_filter(state, other)
    assert second.filter(state, other, scene.cluster.table.live_rows()).tolist() == [2, 2]


def test_a_volume_that_is_meant_for_the_claim_already_is_not_marked_as_ours() -> None:
    mine = a_claim(class_name="manual")
    scene = a_scene(BY_HAND, mine, a_volume(class_name="manual", claimed_by=mine, claim_uid="", phase="Available"))
    scene.reserve()
    reference = scene.volume().spec.claim_ref
    assert reference is not None
    assert reference.uid == mine.metadata.uid
    assert scene.volume().metadata.annotations == {}


def test_where_all_claims_are_bound_there_is_nothing_to_do() -> None:
    scene = a_scene(a_claim(volume="pv"), a_volume("pv"))
    assert scene.reserve() == SUCCESS
    assert scene.ahead() == SKIP


def test_pods_without_claims_have_nothing_to_do() -> None:
    scene = a_scene(pod=a_pod_with(gce("disk")))
    scene.state.skip_filter.add("VolumeBinding")
    info = scene.cluster.info(scene.pod)
    assert scene.plugin.reserve(scene.state, info, "n1") == SUCCESS
    scene.unreserve()
    assert scene.ahead() == SKIP


def test_if_one_promise_cannot_be_made_none_is() -> None:
    two = [a_claim(name, class_name="manual") for name in ("data", "more")]
    volumes = [a_volume(name, class_name="manual", on="n1") for name in ("pv", "pv2")]
    scene = a_scene(BY_HAND, *two, *volumes, pod=a_pod_with(claim("data"), claim("more")))
    info = scene.cluster.info(scene.pod)
    scene.plugin.pre_filter(scene.state, info)
    # No event can come between PreFilter and Reserve; if one did, the last promise would be out of date.
    with_objects(scene.cluster, next_version(scene.volume("pv2")))
    with pytest.raises(PluginError, match=r'"pv2" is out of sync \(stored: 2, assume: 1\)'):
        scene.plugin.reserve(scene.state, info, "n1")
    assert scene.volume("pv").spec.claim_ref is None


def test_nothing_is_promised_on_a_node_that_is_gone() -> None:
    scene = dynamic()
    info = scene.cluster.info(scene.pod)
    scene.plugin.pre_filter(scene.state, info)
    with pytest.raises(PluginError, match='node "gone" not found'):
        scene.plugin.reserve(scene.state, info, "gone")
    assert scene.claim().metadata.annotations == {}


# -- writing and waiting -----------------------------------------------------------------------------------------------


def bound(scene: Scene, volume: str = "pv") -> PersistentVolumeClaim:
    """The claim, bound for good."""
    return a_claim(class_name=scene.claim().class_name, volume=volume, version="9", selected_node="n1")


def has(version: str = "2") -> PersistentVolume:
    """The volume as it was written."""
    return a_volume(class_name="manual", on="n1", claimed_by=a_claim(), version=version)


async def test_a_volume_is_written_and_the_claim_awaited() -> None:
    scene = static()
    scene.reserve()
    before = scene.cluster.objects.get(PERSISTENT_VOLUME, "pv")
    promised = scene.volume()
    claim_now = bound(scene)
    assert await scene.pre_bind(nothing, shows(has()), shows(claim_now)) == SUCCESS
    assert scene.written == [(before, promised)]
    assert scene.allowed_s == 30
    assert scene.story == []


async def test_a_claim_is_written_and_its_volume_awaited() -> None:
    scene = dynamic()
    scene.reserve()
    promised = scene.claim()
    made = a_volume("made", class_name="standard", claimed_by=a_claim())
    selected = a_claim(class_name="standard", selected_node="n1", version="2")
    named = a_claim(class_name="standard", selected_node="n1", volume="made", bound=False, version="3")
    story = (nothing, shows(selected), shows(named), shows(made), shows(bound(scene, "made")))
    assert await scene.pre_bind(*story) == SUCCESS
    assert [after for _, after in scene.written] == [promised]


async def test_changes_of_what_it_waits_for_wake_it_and_others_do_not() -> None:
    scene = dynamic()
    scene.reserve()
    made = a_volume("made", claimed_by=a_claim())
    other = a_volume("unrelated", claimed_by=a_claim("other"))
    story = (shows(made), shows(other), shows(a_claim("other")), shows(bound(scene, "made")))
    assert await scene.pre_bind(*story) == SUCCESS
    assert scene.waits[0].woken == 2
    with_objects(scene.cluster, next_version(scene.claim()))
    assert scene.waits[0].woken == 2, "nobody waits any more"


FAILURES: dict[str, tuple[Callable[[], Scene], list[Event], str]] = {
    "the time is up": (static, [nothing], "binding volumes: context deadline exceeded"),
    "the node is gone": (
        static,
        [lambda scene: scene.cluster.remove_node("n1")],
        'binding volumes: failed to get node "n1": node "n1" not found',
    ),
    "the pod is gone": (
        static,
        [lambda scene: scene.cluster.forget(scene.cluster.info(scene.pod).on("n1"), "n1")],
        'binding volumes: pod does not exist any more: pod "web" not found',
    ),
    "the volume is gone": (
        static,
        [goes(PERSISTENT_VOLUME, "pv")],
        'binding volumes: failed to check binding: persistentvolume "pv" not found',
    ),
    "the claim is gone": (
        static,
        [goes(PERSISTENT_VOLUME_CLAIM, "data", "default")],
        'binding volumes: failed to check binding: persistentvolumeclaim "data" not found',
    ),
    "the volume moved": (
        static,
        [shows(a_volume(on="n2", claimed_by=a_claim(), version="3"))],
        'binding volumes: pv "pv" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
    "the volume was given back": (
        static,
        [shows(a_volume(on="n1", version="3"))],
        'binding volumes: ClaimRef got reset for pv "pv"',
    ),
    "the volume was given back by half": (
        static,
        [shows(a_volume(on="n1", claimed_by=a_claim(), claim_uid="", version="3"))],
        'binding volumes: ClaimRef got reset for pv "pv"',
    ),
    "the claim to make one for is gone": (
        dynamic,
        [goes(PERSISTENT_VOLUME_CLAIM, "data", "default")],
        'binding volumes: failed to check provisioning pvc: persistentvolumeclaim "data" not found',
    ),
    "nothing is annotated any more": (
        dynamic,
        [shows(a_claim(class_name="standard", version="3"))],
        'binding volumes: selectedNode annotation reset for PVC "data"',
    ),
    "no node is selected any more": (
        dynamic,
        [shows(a_claim(class_name="standard", version="3", annotations={"a": "b"}))],
        'binding volumes: provisioning failed for PVC "data"',
    ),
    "another node is selected": (
        dynamic,
        [shows(a_claim(class_name="standard", version="3", selected_node="n2"))],
        'binding volumes: provisioning failed for PVC "data"',
    ),
    "the new volume is elsewhere": (
        dynamic,
        [
            shows(a_volume("made", on="n2", claimed_by=a_claim())),
            shows(a_claim(class_name="standard", version="3", selected_node="n1", volume="made")),
        ],
        'binding volumes: pv "made" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
    ),
}


@pytest.mark.parametrize(("make", "story", "words"), FAILURES.values(), ids=FAILURES.keys())
async def test_waiting_comes_to_nothing(make: Callable[[], Scene], story: list[Event], words: str) -> None:
    scene = make()
    scene.reserve()
    assert await scene.pre_bind(*story) == error(words)


async def test_what_is_shown_as_kept_already_is_not_written_again() -> None:
    for scene, kept in (
        (static(), has()),
        (dynamic(), a_claim(class_name="standard", version="2", selected_node="n1")),
    ):
        scene.reserve()
        with_objects(scene.cluster, kept)
        assert await scene.pre_bind(shows(bound(scene)), shows(has("9"))) == SUCCESS
        assert scene.written == []


async def test_a_second_pod_with_the_claim_writes_the_same_and_takes_back_nothing_of_the_first() -> None:
    scene = dynamic()
    scene.reserve()
    late = Scene(scene.cluster, pod=a_pod_with(claim("data"), name="late"))
    assert late.reserve() == SUCCESS
    late.unreserve()
    assert scene.claim().metadata.annotations == {SELECTED_NODE: "n1"}
    scene.unreserve()
    assert scene.claim().metadata.annotations == {}
    assert await late.pre_bind(shows(bound(scene, ""))) == error("binding volumes: context deadline exceeded")
    [(before, after)] = late.written
    assert (before.metadata.annotations, after.metadata.annotations) == ({}, {SELECTED_NODE: "n1"})


async def test_a_write_that_is_refused_leaves_what_was_written_and_takes_the_rest_back() -> None:
    objects = [BY_HAND, a_class(), a_claim("old", class_name="manual"), a_claim(class_name="standard")]
    scene = a_scene(
        *objects, a_volume(class_name="manual"), pod=a_pod_with(claim("old"), claim("data")), refuses="data"
    )
    scene.reserve()
    assert await scene.pre_bind() == error("data cannot be written")
    assert [after.metadata.name for _, after in scene.written] == ["pv"]
    assert scene.claim().metadata.annotations == {}


async def test_nobody_waits_after_the_end() -> None:
    scene = static()
    scene.reserve()
    await scene.pre_bind(nothing)
    with_objects(scene.cluster, has("3"))
    assert scene.waits[0].woken == 0


async def test_out_of_turn_is_an_error() -> None:
    scene = static()
    assert await scene.pre_bind() == error('no pod volume found for node "n1"')
    scene.plugin = VolumeBinding(None, a_handle(scene.cluster))
    scene.reserve()
    assert await scene.pre_bind() == error("nobody writes volumes and claims here")
