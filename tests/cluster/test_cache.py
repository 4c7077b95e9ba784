"""The pods and nodes that the scheduler believes in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_cluster, a_container, a_node, a_pod, a_port

from berth.api.meta import PodUid
from berth.api.quantity import QuantityError
from berth.cluster.cache import CacheError, Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from berth.api.pod import Pod


def on(pod: Pod, node_name: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


WEB = a_pod("web", cpu="100m", memory="500", ports=[a_port(80, ip="127.0.0.1")])
DB = a_pod("db", cpu="200m", memory="1Ki", ports=[a_port(8080, ip="127.0.0.1")])


def test_what_assumed_pods_take_is_added_up() -> None:
    cluster = a_cluster([a_node("n1")])
    for pod in (WEB, DB):
        cluster.assume(cluster.info(pod), "n1")
    assert cluster.table.usage("n1") == {
        "cpu": 300,
        "memory": 1524,
        "pods": 2,
        "non-zero cpu": 300,
        "non-zero memory": 1524,
        "port TCP 127.0.0.1:80": 1,
        "port TCP 127.0.0.1:8080": 1,
    }
    assert cluster.counts() == {"nodes": 1, "pods": 2, "assumed_pods": 2}
    cluster.validate()


TAKES: Mapping[str, tuple[Pod, dict[str, int]]] = {
    "nothing asked for counts with defaults": (
        a_pod(),
        {"pods": 1, "non-zero cpu": 100, "non-zero memory": 209715200},
    ),
    "extended resources add up": (
        a_pod(
            cpu="1",
            memory="1",
            containers=[
                a_container("a", cpu="1", memory="1", requests={"example.com/foo": "3"}),
                a_container("b", cpu="1", memory="1", requests={"example.com/foo": "5"}),
            ],
        ),
        {"cpu": 2000, "memory": 2, "pods": 1, "non-zero cpu": 2000, "non-zero memory": 2, "example.com/foo": 8},
    ),
    "names that are no resources do not count": (
        a_pod(cpu="1", memory="1", requests={"random-invalid-extended-key": "100"}),
        {"cpu": 1000, "memory": 1, "pods": 1, "non-zero cpu": 1000, "non-zero memory": 1},
    ),
    "port 0 is none": (
        a_pod(cpu="1", memory="1", ports=[a_port(0)]),
        {"cpu": 1000, "memory": 1, "pods": 1, "non-zero cpu": 1000, "non-zero memory": 1},
    ),
}


@pytest.mark.parametrize(("pod", "want"), TAKES.values(), ids=TAKES.keys())
def test_what_a_pod_takes(pod: Pod, want: dict[str, int]) -> None:
    cluster = a_cluster([a_node("n1")])
    cluster.add_pod(on(pod, "n1"))
    assert cluster.table.usage("n1") == want
    cluster.remove_pod(on(pod, "n1"))
    assert cluster.table.usage("n1") == {}
    cluster.validate()


def test_a_forgotten_pod_is_gone_and_may_be_forgotten_again() -> None:
    cluster = a_cluster([a_node("n1")])
    info = cluster.info(WEB)
    cluster.assume(info, "n1")
    cluster.forget(info, "n1")
    assert cluster.placed(info.uid) is None
    cluster.forget(info, "n1")
    assert cluster.table.usage("n1") == {}


def test_a_confirmed_pod_is_no_longer_assumed_and_others_still_are() -> None:
    cluster = a_cluster([a_node("n1")])
    for pod in (WEB, DB):
        cluster.assume(cluster.info(pod), "n1")
    cluster.add_pod(on(WEB, "n1"))
    assert not cluster.is_assumed(WEB.uid)
    assert cluster.is_assumed(DB.uid)
    cluster.validate()


def test_confirming_takes_over_the_new_version() -> None:
    cluster = a_cluster([a_node("n1")])
    cluster.assume(cluster.info(WEB), "n1")
    confirmed = a_pod("web", on="n1", cpu="300m", memory="500", ports=[a_port(80)])
    cluster.add_pod(confirmed)
    placed = cluster.placed(WEB.uid)
    assert placed is not None
    assert placed.info.pod is confirmed
    assert cluster.table.usage("n1")["cpu"] == 300
    assert cluster.table.usage("n1")["port TCP 0.0.0.0:80"] == 1


def test_a_pod_assumed_on_one_node_and_bound_to_another_counts_there() -> None:
    cluster = a_cluster()
    cluster.assume(cluster.info(WEB), "a")
    cluster.add_pod(on(WEB, "b"))
    assert cluster.table.usage("a") == {}
    assert cluster.table.usage("b")["pods"] == 1
    changed = a_pod("web", on="b", cpu="200m", ports=[a_port(90)])
    cluster.update_pod(changed)
    assert cluster.table.usage("b")["cpu"] == 200
    assert "port TCP 0.0.0.0:90" in cluster.table.usage("b")
    cluster.validate()


def test_a_new_version_that_takes_the_same_is_kept_as_the_latest() -> None:
    cluster = a_cluster([a_node("n1")], [on(WEB, "n1")])
    mark = cluster.table.mark()
    metadata = msgspec.structs.replace(WEB.metadata, annotations={"a": "b"})
    annotated = on(msgspec.structs.replace(WEB, metadata=metadata), "n1")
    cluster.update_pod(annotated)
    row = cluster.table.row_of("n1")
    assert row is not None
    assert cluster.table.pods(row)[WEB.uid].pod is annotated
    changed = cluster.table.changed_since(mark)
    assert changed is not None
    assert changed.tolist() == []
    cluster.validate()


def test_a_pod_counts_on_a_node_that_is_not_there_yet() -> None:
    cluster = a_cluster()
    cluster.add_pod(on(WEB, "late"))
    assert len(cluster.table) == 0
    assert cluster.table.row_of("late") is None
    cluster.set_node(a_node("late"))
    assert cluster.table.usage("late")["cpu"] == 100
    cluster.validate()


def test_pods_outlive_their_node_and_are_found_on_the_next_of_its_name() -> None:
    cluster = a_cluster([a_node("n1", cpu="1"), a_node("n2")], [on(WEB, "n1"), on(DB, "n1")])
    cluster.remove_node("n1")
    assert len(cluster.table) == 1
    assert cluster.placed(WEB.uid) is not None
    with pytest.raises(CacheError, match=r"^node n1 is not found$"):
        cluster.remove_node("n1")
    cluster.remove_pod(on(WEB, "n1"))
    cluster.set_node(a_node("n1", cpu="7"))
    row = cluster.table.row_of("n1")
    assert row is not None
    assert (cluster.table.allocatable[0, row], cluster.table.usage("n1")["cpu"]) == (7000, 200)
    cluster.validate()


def test_the_last_pod_takes_the_place_of_a_gone_node_with_it() -> None:
    cluster = a_cluster([a_node("n1")], [on(WEB, "n1")])
    gone = cluster.table.row_of("n1")
    cluster.remove_node("n1")
    cluster.remove_pod(on(WEB, "n1"))
    cluster.set_node(a_node("n2"))
    assert cluster.table.row_of("n2") == gone
    assert cluster.table.usage("n1") == {}
    cluster.validate()


def assumed() -> Cluster:
    cluster = a_cluster([a_node("n1")])
    cluster.assume(cluster.info(WEB), "n1")
    return cluster


def added() -> Cluster:
    return a_cluster([a_node("n1")], [on(WEB, "n1")])


NAMED = "uid-of-default-web(default/web)"
REFUSED: Mapping[str, tuple[Callable[[], Cluster], Callable[[Cluster], None], str]] = {
    "assuming an assumed pod": (
        assumed,
        lambda c: c.assume(c.info(WEB), "n1"),
        f"pod {NAMED} is in the cache, so can't be assumed",
    ),
    "assuming an added pod": (
        added,
        lambda c: c.assume(c.info(WEB), "n1"),
        f"pod {NAMED} is in the cache, so can't be assumed",
    ),
    "forgetting a pod that is assumed elsewhere": (
        assumed,
        lambda c: c.forget(c.info(WEB), "n2"),
        f"pod {NAMED} was assumed on n2 but assigned to n1",
    ),
    "forgetting an added pod": (
        added,
        lambda c: c.forget(c.info(WEB), "n1"),
        f"pod {NAMED} wasn't assumed so cannot be forgotten",
    ),
    "adding an added pod": (added, lambda c: c.add_pod(on(WEB, "n1")), f"pod {NAMED} was already in added state"),
    "updating an unknown pod": (
        a_cluster,
        lambda c: c.update_pod(on(WEB, "n1")),
        f"pod {NAMED} is not added to scheduler cache, so cannot be updated",
    ),
    "updating an assumed pod": (
        assumed,
        lambda c: c.update_pod(on(WEB, "n1")),
        f"assumed pod {NAMED} should not be updated",
    ),
    "removing an unknown pod": (
        a_cluster,
        lambda c: c.remove_pod(on(WEB, "n1")),
        f"pod {NAMED} is not found in scheduler cache, so cannot be removed from it",
    ),
}


@pytest.mark.parametrize(("make", "step", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_steps_out_of_turn_are_refused_and_change_nothing(
    make: Callable[[], Cluster], step: Callable[[Cluster], None], text: str
) -> None:
    cluster = make()
    before = cluster.table.usage("n1"), cluster.counts()
    with pytest.raises(CacheError) as caught:
        step(cluster)
    assert str(caught.value) == text
    assert (cluster.table.usage("n1"), cluster.counts()) == before
    cluster.validate()


@pytest.mark.parametrize(
    "step",
    [
        lambda c: c.assume(c.info(a_pod("bad", cpu="lots")), "n1"),
        lambda c: c.add_pod(a_pod("bad", on="n1", cpu="lots")),
        lambda c: c.update_pod(a_pod("web", on="n1", cpu="lots")),
        lambda c: c.set_node(a_node("n1", cpu="lots")),
        lambda c: c.set_node(a_node("new", cpu="lots")),
    ],
    ids=["assume", "add", "update", "change a node", "a new node"],
)
def test_malformed_amounts_are_refused_and_change_nothing(step: Callable[[Cluster], None]) -> None:
    cluster = a_cluster([a_node("n1", cpu="4")], [on(WEB, "n1")])
    before = cluster.table.usage("n1"), cluster.counts(), cluster.table.allocatable[:, :1].tolist()
    with pytest.raises(QuantityError):
        step(cluster)
    assert (cluster.table.usage("n1"), cluster.counts(), cluster.table.allocatable[:, :1].tolist()) == before
    cluster.validate()


def test_sums_beyond_64_bits_wrap_and_come_back() -> None:
    cluster = a_cluster([a_node("n1")])
    pods = [a_pod(f"p{i}", on="n1", cpu="9e15", memory="8E") for i in range(3)]
    for pod in pods:
        cluster.add_pod(pod)
    assert cluster.table.usage("n1")["memory"] == 3 * 8 * 10**18 - 2**64
    cluster.validate()
    for pod in pods:
        cluster.remove_pod(pod)
    assert cluster.table.usage("n1") == {}


def test_validate_notices_counts_that_are_off() -> None:
    cluster = a_cluster([a_node("n1"), a_node("n2")], [on(WEB, "n1")])
    cluster.table.requested[0, 1] += 5
    with pytest.raises(CacheError, match=r"^node n2: counted {'cpu': 5}, the pods add up to {}$"):
        cluster.validate()


# -- properties --------------------------------------------------------------------------------------------------------

NODE_NAMES = ("a", "b", "c")
VERSIONS = (
    WEB,
    a_pod("web"),
    a_pod("web", cpu="1", memory="1", requests={"example.com/gpu": "1"}),
    a_pod("web", cpu="100m", memory="500", ports=[a_port(80), a_port(80, protocol="UDP")]),
)


class Step(NamedTuple):
    """Something that happens to one of three pods, or to a node."""

    what: str
    number: int
    version: int
    node_name: str


class Model:
    """The same beliefs as a plain mapping."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.pods: dict[PodUid, tuple[Pod, bool]] = {}

    def accepts(self, step: Step, pod: Pod) -> bool:
        """Whether the step is in turn; if so it is taken."""
        known = self.pods.get(pod.uid)
        if step.what == "node":
            self.nodes.add(step.node_name)
            return True
        if step.what == "no node":
            had = step.node_name in self.nodes
            self.nodes.discard(step.node_name)
            return had
        allowed = {
            "assume": known is None,
            "add": known is None or known[1],
            "update": known is not None and not known[1],
            "remove": known is not None,
            "forget": known is None or (known[1] and known[0].spec.node_name == pod.spec.node_name),
        }[step.what]
        if not allowed:
            return False
        self.pods.pop(pod.uid, None)
        if step.what not in ("remove", "forget"):
            self.pods[pod.uid] = pod, step.what == "assume"
        return True


def take(cluster: Cluster, step: Step, pod: Pod) -> None:
    match step.what:
        case "node":
            cluster.set_node(a_node(step.node_name))
        case "no node":
            cluster.remove_node(step.node_name)
        case "assume":
            cluster.assume(cluster.info(pod), step.node_name)
        case "forget":
            cluster.forget(cluster.info(pod), step.node_name)
        case "add":
            cluster.add_pod(pod)
        case "update":
            cluster.update_pod(pod)
        case _:
            cluster.remove_pod(pod)


def the_pod(step: Step) -> Pod:
    version = on(VERSIONS[step.version], step.node_name)
    return msgspec.structs.replace(version, metadata=a_pod(f"p{step.number}").metadata)


steps = st.builds(
    Step,
    st.sampled_from(["assume", "add", "update", "remove", "forget", "node", "no node"]),
    st.integers(0, 2),
    st.integers(0, len(VERSIONS) - 1),
    st.sampled_from(NODE_NAMES),
)


@given(st.lists(steps, max_size=25))
@settings(max_examples=150, deadline=None)
def test_counts_are_right_whatever_happens_in_whatever_order(story: list[Step]) -> None:
    cluster, model = a_cluster(), Model()
    for step in story:
        pod = the_pod(step)
        if model.accepts(step, pod):
            take(cluster, step, pod)
        else:
            with pytest.raises(CacheError):
                take(cluster, step, pod)
        cluster.validate()
    afresh = a_cluster([a_node(name) for name in model.nodes], [pod for pod, _ in model.pods.values()])
    for name in NODE_NAMES:
        assert cluster.table.usage(name) == afresh.table.usage(name)
        assert (cluster.table.row_of(name) is None) is (name not in model.nodes)
    assert {uid for uid in model.pods if cluster.is_assumed(uid)} == {u for u, (_, mine) in model.pods.items() if mine}
    assert cluster.counts()["pods"] == len(model.pods)
