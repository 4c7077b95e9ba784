"""ImageLocality; sizes in mebibytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_container, a_handle, a_node, a_pod
from tests.plugins.judging import raw_scores

from berth.api.pod import ImageVolumeSource, Pod, Volume
from berth.plugins.image_locality import ImageLocality, normalized_image_name

if TYPE_CHECKING:
    from collections.abc import Mapping

MIB = 2**20


def name(size: int) -> str:
    return f"registry.example/image-{size}"


def a_pod_of(*sizes: int, init: tuple[int, ...] = (), volumes: tuple[int, ...] = ()) -> Pod:
    return a_pod(
        containers=[a_container(f"c{size}", image=name(size)) for size in sizes],
        init_containers=[a_container(f"i{size}", image=name(size)) for size in init],
        spec={"volumes": tuple(Volume(name="v", image=ImageVolumeSource(reference=name(s))) for s in volumes)},
    )


SCORES: Mapping[str, tuple[Pod, list[list[int]], list[int]]] = {
    "two images on two nodes": (a_pod_of(40, 250), [[40, 300, 2000], [250, 10]], [0, 5]),
    "two images on one node": (a_pod_of(40, 300), [[40, 300, 2000], [250, 10]], [7, 0]),
    "more than the upper threshold": (a_pod_of(10, 4000), [[4000, 30], [250, 10]], [100, 0]),
    "spread over more nodes it counts less": (a_pod_of(10, 4000), [[4000, 30], [250, 10], []], [66, 0, 0]),
    "three images": (a_pod_of(300, 600, 900), [[600, 40, 900], [300, 600, 900], []], [32, 36, 0]),
    "small images": (a_pod_of(30, 40), [[20, 30, 40], [4000, 30]], [1, 0]),
    "init containers count": (a_pod_of(30, init=(300,)), [[40, 300, 2000], [20, 30, 40]], [6, 0]),
}


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
@pytest.mark.parametrize(("pod", "held", "want"), SCORES.values(), ids=SCORES.keys())
def test_score(pod: Pod, held: list[list[int]], want: list[int], minor: str) -> None:
    cluster = a_cluster(
        a_node(f"n{i}", images=[([f"{name(size)}:latest"], size * MIB) for size in sizes])
        for i, sizes in enumerate(held)
    )
    assert raw_scores(ImageLocality(a_handle(cluster, minor=minor)), cluster, pod) == want


@pytest.mark.parametrize(("minor", "want"), [("1.36", [12, 0]), ("1.37", [6, 0])])
def test_image_volumes_raise_the_bound_since_1_37(minor: str, want: list[int]) -> None:
    held = [[300, 600, 900], [4000, 30]]
    cluster = a_cluster(
        a_node(f"n{i}", images=[([f"{name(size)}:latest"], size * MIB) for size in sizes])
        for i, sizes in enumerate(held)
    )
    pod = a_pod_of(30, volumes=(300,))
    assert raw_scores(ImageLocality(a_handle(cluster, minor=minor)), cluster, pod) == want


def test_many_nodes_score_as_a_few() -> None:
    big = [(["big:1"], 900 * MIB)]
    cluster = a_cluster(a_node(f"n{i}", images=big if i % 3 == 0 else []) for i in range(100))
    plugin, pod = ImageLocality(a_handle(cluster)), a_pod(containers=[a_container(image="big:1")])
    together = raw_scores(plugin, cluster, pod)
    assert together == [score for i in range(100) for score in raw_scores(plugin, cluster, pod, [f"n{i}"]) or []]
    assert together
    assert set(together) == {0, 28}


def test_its_epoch_moves_with_images_and_with_nodes() -> None:
    cluster = a_cluster([a_node("n1", images=[(["a:1"], MIB)])])
    plugin = ImageLocality(a_handle(cluster))
    epochs = [plugin.epoch()]
    cluster.set_node(a_node("n1", images=[(["a:1"], MIB)], labels={"some": "label"}))
    assert plugin.epoch() == epochs[-1]
    cluster.set_node(a_node("n1", images=[(["b:1"], MIB)]))
    epochs.append(plugin.epoch())
    cluster.set_node(a_node("n2"))
    epochs.append(plugin.epoch())
    cluster.remove_node("n2")
    epochs.append(plugin.epoch())
    assert epochs[0] != epochs[1] != epochs[2] != epochs[3]


NAMES: Mapping[str, str] = {
    "root": "root:latest",
    "gcr.io:5000/root": "gcr.io:5000/root:latest",
    "root:tag": "root:tag",
    "gcr.io:5000/root:tag": "gcr.io:5000/root:tag",
    "root@sha256:2": "root@sha256:2",
}


@pytest.mark.parametrize(("given", "want"), NAMES.items())
def test_names_without_tag_mean_latest(given: str, want: str) -> None:
    assert normalized_image_name(given) == want
