"""What is wrong with a round is seen in the history alone, so it can be seen without a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.history import Written
from tests.integration.storage import BOUND, SELECTED_NODE, a_claim, a_pod_with, a_volume
from tests.integration.volume_rounds import (
    FIRST,
    MADE,
    THERE,
    a_round,
    bound_twice,
    out_of_place,
    promised_twice,
    too_early,
)

if TYPE_CHECKING:
    from tests.integration.objects import JsonObject


def a_history(*items: JsonObject, first: int = 1) -> list[Written]:
    return [Written(first + i, item) for i, item in enumerate(items)]


def volume(name: str, *, promised_to: str = "", host: str = "node-a") -> JsonObject:
    made = a_volume(name, MADE, host)
    if promised_to:
        made["spec"]["claimRef"] = {"name": promised_to, "uid": f"uid-of-{promised_to}"}
    return made


def pod(node: str = "", claim: str = "claim") -> JsonObject:
    made = a_pod_with("web", claim, **({"nodeName": node} if node else {}))
    return {**made, "metadata": {**made["metadata"], "uid": "u"}}


def claim(volume_name: str = "", *, selected: str = "") -> JsonObject:
    made = a_claim("claim", MADE)
    annotations = {**(BOUND if volume_name else {}), **({SELECTED_NODE: selected} if selected else {})}
    return {
        **made,
        "metadata": {**made["metadata"], "annotations": annotations},
        "spec": {**made["spec"], "volumeName": volume_name},
    }


# what was promised, in order: what is wrong with it
PROMISES = {
    "one volume, one claim": ([volume("a"), volume("a", promised_to="x")], []),
    "one volume, two claims, one after the other": (
        [volume("a", promised_to="x"), volume("a"), volume("a", promised_to="y")],
        ["volume a was promised to ['x uid-of-x', 'y uid-of-y']"],
    ),
    "two volumes, one claim": (
        [volume("a", promised_to="x"), volume("b", promised_to="x")],
        ["claim x uid-of-x was promised ['a', 'b']"],
    ),
}


@pytest.mark.parametrize(("volumes", "wrong"), PROMISES.values(), ids=PROMISES)
def test_a_volume_that_was_promised_twice_is_found(volumes: list[JsonObject], wrong: list[str]) -> None:
    assert promised_twice(a_history(*volumes)) == wrong


def test_a_pod_that_was_bound_twice_is_found() -> None:
    assert bound_twice(a_history(pod(), pod("node-a"), pod("node-a"))) == []
    assert bound_twice(a_history(pod(), pod("node-a"), pod("node-b"))) == ["pod web u was on ['', 'node-a', 'node-b']"]


def test_a_pod_that_was_bound_before_its_claim_is_found() -> None:
    early = ["pod web was bound before claim claim"]
    pods = a_history(pod(), pod("node-a"), first=10)
    assert too_early(pods, a_history(claim(), claim("a"), first=9)) == []
    assert too_early(pods, a_history(claim(), claim("a"), first=11)) == early
    assert too_early(pods, a_history(claim())) == early
    assert too_early(a_history(pod()), a_history(claim())) == []


# pod, claim, volume: what is wrong
PLACES = {
    "together": (pod("node-a"), claim("a", selected="node-a"), volume("a"), []),
    "bound without a selection": (pod("node-a"), claim("a"), volume("a"), []),
    "the volume elsewhere": (
        pod("node-a"),
        claim("a"),
        volume("a", host="node-b"),
        ["pod web: on node-a, but its volume is node-b"],
    ),
    "another node selected": (
        pod("node-a"),
        claim("a", selected="node-c"),
        volume("a"),
        ["pod web: on node-a, but the node selected is node-c"],
    ),
    "no node yet": (pod(), claim("a", selected="node-c"), volume("a"), []),
}


@pytest.mark.parametrize(("bound", "its_claim", "its_volume", "wrong"), PLACES.values(), ids=PLACES)
def test_a_pod_away_from_its_volume_is_found(
    bound: JsonObject, its_claim: JsonObject, its_volume: JsonObject, wrong: list[str]
) -> None:
    assert out_of_place(a_history(bound), a_history(its_claim), a_history(its_volume)) == wrong


def test_in_a_round_volumes_are_too_few_at_first_and_just_enough_in_the_end() -> None:
    this = a_round(7)
    rivals = [each for each in this.claims if each["spec"]["storageClassName"] == THERE]
    assert len(this.volumes) == FIRST < len(rivals) == len(this.volumes) + len(this.late_volumes)
