"""From the API server's objects to the engine: each kind of change arrives as the event that it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from tests.builders import a_node, a_pod
from tests.kube.scripted_api import ScriptedApi
from tests.kube.virtual_time import in_virtual_time
from tests.runtime.builders import Shell, Step, a_shell
from tests.scheduling.builders import with_metadata

from berth.api.meta import PodKey
from berth.kube.reflector import Reflector
from berth.runtime.informers import NODES, PODS, NodeHandler, PodHandler, lister

if TYPE_CHECKING:
    from berth.api.pod import Pod


class Watched:
    """The handlers, and the engine that they feed."""

    def __init__(self, shell: Shell) -> None:
        self.engine = shell.engine
        self.pods, self.nodes = PodHandler(lambda: shell.engine), NodeHandler(lambda: shell.engine)

    @property
    def waiting(self) -> list[str]:
        return sorted(entry.pod.metadata.name for entry in self.engine.queue.entries())

    def placed_on(self, pod: Pod) -> str:
        placed = self.engine.cluster.placed(pod.uid)
        return placed.node_name if placed is not None else ""


def later(pod: Pod) -> Pod:
    return with_metadata(pod, resource_version="2", labels={"new": "yes"})


Change = Callable[[PodHandler], None]


def added(pod: Pod) -> Change:
    return lambda handler: handler.on_add(pod, False)


def updated(old: Pod, new: Pod) -> Change:
    return lambda handler: handler.on_update(old, new)


def deleted(pod: Pod, *, final_state_unknown: bool = False) -> Change:
    return lambda handler: handler.on_delete(pod, final_state_unknown)


FOREIGN = {"scheduler_name": "other"}

# what arrives; which pods wait then, and on which node the pod counts
POD_STORIES: dict[str, tuple[list[Change], list[str], str]] = {
    "a pod without a node waits": ([added(a_pod())], ["web"], ""),
    "a pod with a node counts there": ([added(a_pod(on="n1"))], [], "n1"),
    "a pod for another scheduler is none of ours": ([added(a_pod(spec=FOREIGN))], [], ""),
    "another scheduler's pod with a node counts there": ([added(a_pod(on="n1", spec=FOREIGN))], [], "n1"),
    "a waiting pod that changes waits on": ([added(a_pod()), updated(a_pod(), later(a_pod()))], ["web"], ""),
    "a waiting pod that somebody else binds counts there": (
        [added(a_pod()), updated(a_pod(), later(a_pod(on="n1")))],
        [],
        "n1",
    ),
    "a waiting pod that is deleted is forgotten": ([added(a_pod()), deleted(a_pod())], [], ""),
    "a pod that leaves its node counts no more": ([added(a_pod(on="n1")), deleted(a_pod(on="n1"))], [], ""),
    "a pod whose end was missed counts no more, however old its last state is": (
        [added(a_pod(on="n1")), deleted(a_pod(), final_state_unknown=True)],
        [],
        "",
    ),
}


@pytest.mark.parametrize(("story", "waiting", "node"), POD_STORIES.values(), ids=POD_STORIES)
def test_what_happens_to_a_pod_reaches_the_engine(story: list[Change], waiting: list[str], node: str) -> None:
    @in_virtual_time
    async def main() -> None:
        it = Watched(a_shell(Step()))
        for change in story:
            change(it.pods)
        assert it.waiting == waiting
        assert it.placed_on(a_pod()) == node

    main()


# what arrives; the labels of the events that were handled, and timed
EVENT_LABELS: dict[str, tuple[list[Change], list[str]]] = {
    "a pod without a node": (
        [added(a_pod()), updated(a_pod(), later(a_pod())), deleted(a_pod())],
        ["UnscheduledPodAdd", "UnscheduledPodUpdate", "UnscheduledPodDelete"],
    ),
    "a pod with a node": (
        [added(a_pod(on="n1")), updated(a_pod(on="n1"), later(a_pod(on="n1"))), deleted(a_pod(on="n1"))],
        ["AssignedPodAdd", "AssignedPodUpdatePodLabel", "AssignedPodDelete"],
    ),
    "a pod that is bound": (
        [added(a_pod()), updated(a_pod(), later(a_pod(on="n1")))],
        ["UnscheduledPodAdd", "AssignedPodAdd"],
    ),
    "a pod for another scheduler": ([added(a_pod(spec=FOREIGN)), deleted(a_pod(spec=FOREIGN))], []),
}


@pytest.mark.parametrize(("story", "expected"), EVENT_LABELS.values(), ids=EVENT_LABELS)
def test_what_is_done_about_a_pod_is_timed_under_the_label_of_the_event(
    story: list[Change], expected: list[str]
) -> None:
    @in_virtual_time
    async def main() -> None:
        shell = a_shell(Step())
        for change in story:
            change(Watched(shell).pods)
        assert shell.notes.events == expected

    main()


@in_virtual_time
async def test_an_older_version_has_its_own_label_for_pods_without_a_node() -> None:
    shell = a_shell(Step(), minor="1.36")
    Watched(shell).pods.on_add(a_pod(), False)
    assert shell.notes.events == ["UnschedulablePodAdd"]


@in_virtual_time
async def test_what_is_done_about_a_node_is_timed_event_by_event() -> None:
    shell = a_shell(Step())
    it = Watched(shell)
    before, after = a_node("n2", unschedulable=True), a_node("n2", labels={"new": "yes"})
    it.nodes.on_add(before, False)
    it.nodes.on_update(before, after)
    it.nodes.on_delete(after, False)
    assert shell.notes.events == ["NodeAdd", "NodeUpdateNodeTaint", "NodeUpdateNodeLabel", "NodeDelete"]


@in_virtual_time
async def test_what_happens_to_a_node_reaches_the_engine() -> None:
    it = Watched(a_shell(Step()))
    small, large = a_node("n2", cpu="1"), a_node("n2", cpu="2")
    it.nodes.on_add(small, True)
    assert it.engine.cluster.counts()["nodes"] == 2
    it.nodes.on_update(small, large)
    it.nodes.on_delete(large, True)
    assert it.engine.cluster.counts()["nodes"] == 1


@in_virtual_time
async def test_a_pod_is_looked_up_by_its_key() -> None:
    reflector = Reflector(ScriptedApi(), PODS, [])
    pod = a_pod(namespace="prod")
    reflector.store["prod", "web"] = pod
    look_up = lister(reflector)
    assert look_up(PodKey("prod/web")) is pod
    assert look_up(PodKey("default/web")) is None


def test_pods_that_have_ended_are_not_watched() -> None:
    assert PODS.path == "/api/v1/pods"
    assert PODS.field_selector == "status.phase!=Succeeded,status.phase!=Failed"
    assert NODES.path == "/api/v1/nodes"
    assert NODES.field_selector == ""
