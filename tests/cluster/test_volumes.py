"""Who uses which claim, kept as pods come and go, in any order and also for the sake of a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_cluster, a_node, a_pod
from tests.storage import a_pod_with, claim, ephemeral, gce

if TYPE_CHECKING:
    from berth.api.pod import Pod
    from berth.cluster.cache import Cluster
    from berth.cluster.volumes import PodOnRow

NODES = ("n0", "n1", "n2")
SETS = ((), (claim("a"),), (claim("a"), claim("b")), (ephemeral("scratch"), gce("disk")), (claim("p0-scratch"),))


def a_placed_pod(number: int, volumes: int, node: str, label: str = "") -> Pod:
    return a_pod_with(*SETS[volumes], name=f"p{number}", on=node, labels={"l": label})


def in_use(cluster: Cluster, name: str) -> bool:
    return cluster.table.volumes.is_mounted(f"default/{name}", cluster.table.live)


steps = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["place", "change", "remove", "ask"]), st.sampled_from(NODES)),
    max_size=20,
)


@given(steps=steps, volumes=st.lists(st.integers(0, len(SETS) - 1), min_size=4, max_size=4))
@settings(max_examples=80, deadline=None)
def test_it_is_always_what_the_pods_say(steps: list[tuple[int, str, str]], volumes: list[int]) -> None:
    cluster = a_cluster([a_node(name) for name in NODES])
    placed: dict[int, Pod] = {}
    for number, what, node in steps:
        pod = placed.get(number)
        if what == "place" and pod is None:
            placed[number] = a_placed_pod(number, volumes[number], node)
            cluster.add_pod(placed[number])
        elif what == "change" and pod is not None:
            placed[number] = a_placed_pod(number, volumes[number], node, label="changed")
            cluster.update_pod(placed[number])
        elif what == "remove" and pod is not None:
            cluster.remove_pod(placed.pop(number))
        elif what == "ask" and pod is None:
            info = cluster.info(a_placed_pod(number, volumes[number], node))
            with cluster.table.restored():
                cluster.table.add_pod(info, node)
                cluster.table.remove_pod(info.uid, node)
        cluster.validate()
        for name in ("a", "b", "p0-scratch"):
            named = [pod for pod in placed.values() if claim(name) in pod.spec.volumes]
            assert in_use(cluster, name) is bool(named)


def test_claims_made_for_a_pod_have_it_as_a_user_but_are_not_named_by_it() -> None:
    cluster = a_cluster([a_node("n0")], [a_pod_with(ephemeral("scratch"), name="web", on="n0")])
    [user] = cluster.table.volumes.users("default/web-scratch")
    assert user == (0, "uid-of-default-web")
    assert not in_use(cluster, "web-scratch")


def test_pods_without_volumes_are_not_kept() -> None:
    cluster = a_cluster([a_node("n0")], [a_pod("plain", on="n0")])
    assert not cluster.table.volumes.rows()


def test_whoever_listens_hears_of_each_pod_with_volumes_that_comes_or_goes() -> None:
    heard: list[PodOnRow] = []
    cluster = a_cluster([a_node("n0")])
    cluster.table.volumes.listen(heard.append)
    pod = a_pod_with(claim("a"), name="web", on="n0")
    cluster.add_pod(pod)
    cluster.add_pod(a_pod("plain", on="n0"))
    cluster.remove_pod(pod)
    assert heard == [(0, pod.uid), (0, pod.uid)]
