"""Rounds of pods whose claims are bound late, in every way in which that happens, and what must hold of each round.

A round is ten pods that come at once.  Some claims get a volume that is made after a node was selected, some have to
share too few volumes that are there until more come, one pod has a claim of either kind, and some claims wait for no
pod and are bound late.  `test_volumes` plays a few rounds and looks at what was written, and in which order;
`bench.volumes` plays many and takes times.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.integration.history import journeys
from tests.integration.storage import (
    CLAIMS,
    CLASSES,
    SELECTED_NODE,
    VOLUMES,
    VolumeController,
    a_claim,
    a_class,
    a_pod_with,
    a_volume,
    claims_of,
    create_volumes,
    host_of,
    is_ready,
)
from tests.support.client import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.integration.history import Written
    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene
    from tests.support.client import ApiClient

NODES = ("node-a", "node-b", "node-c")
MADE, THERE, NOW = "made", "there", "now"  # classes: volumes are made for pods, are there, are bound without waiting
KINDS = {"made": (MADE,), "there": (THERE,), "both": (MADE, THERE), "late": (NOW,)}  # pods -> classes of their claims
PODS_PER_ROUND = {"made": 3, "there": 4, "both": 1, "late": 2}
FIRST = len(NODES)  # volumes of the class `there` that are there from the start, too few


def a_landscape() -> list[JsonObject]:
    """The classes."""
    return [
        a_class(MADE),
        a_class(THERE, provisioner="kubernetes.io/no-provisioner"),
        a_class(NOW, mode="Immediate"),
    ]


def clear(api: ApiClient) -> None:
    """Take the pods, claims and volumes of a round away."""
    api.wipe((PODS, CLAIMS, VOLUMES))


def remove_classes(api: ApiClient) -> None:
    for each in a_landscape():
        api.delete(f"{CLASSES}/{each['metadata']['name']}")


def a_controller(api: ApiClient, latest_s: float, *, binds: bool = True) -> VolumeController:
    """Whoever makes volumes for the claims of rounds, each after a time of its own, and binds them or leaves that."""
    return VolumeController(
        api,
        takes_s=lambda claim: random.Random(claim).uniform(0, latest_s),
        place=lambda claim: random.Random(claim).choice(NODES) if claim.startswith("late") else "",
        binds=binds,
    )


@dataclass(frozen=True)
class Round:
    """Pods with their claims, and the volumes that are there.

    Attributes:
        volumes: there from the start.
        late_volumes: those that come once the others have found their pods.
    """

    pods: list[JsonObject]
    claims: list[JsonObject]
    volumes: list[JsonObject]
    late_volumes: list[JsonObject]


def a_round(number: int) -> Round:
    """One round; no two have a name in common."""
    chance = random.Random(number)
    pods, claims = [], []
    for kind, classes in KINDS.items():
        for i in range(PODS_PER_ROUND[kind]):
            name = f"{kind}-{number}-{i}"
            mine = [a_claim(f"{name}-{each}", each) for each in classes]
            pods.append(a_pod_with(name, *(claim["metadata"]["name"] for claim in mine)))
            claims += mine
    wanted = sum(claim["spec"]["storageClassName"] == THERE for claim in claims)
    hosts = [*NODES, *(chance.choice(NODES) for _ in range(wanted - len(NODES)))]
    volumes = [
        a_volume(f"disk-{number}-{i}", THERE, host, size=f"{chance.randint(1, 3)}Gi") for i, host in enumerate(hosts)
    ]
    chance.shuffle(pods)
    return Round(pods, claims, volumes[:FIRST], volumes[FIRST:])


def play(scene: Scene, this: Round) -> list[str]:
    """Let a round happen until all its pods are bound, and take it away; returns what was wrong with it."""
    since = scene.cluster.revision()
    create_volumes(scene.api, *this.volumes)
    scene.create(*this.claims)
    scene.create(*this.pods)
    rivals = {pod["metadata"]["name"] for pod in this.pods if any(name.endswith(THERE) for name in claims_of(pod))}
    scene.until("the first volumes have their pods", lambda: len(rivals & scene.placements().keys()) == FIRST)
    create_volumes(scene.api, *this.late_volumes)
    scene.bound(*(pod["metadata"]["name"] for pod in this.pods))
    found = [*faults(scene, since), *scene.overcommitted()]
    clear(scene.api)
    return found


def faults(scene: Scene, since: int) -> list[str]:
    """What must not be, of all that was written after the revision *since*; one line for each."""
    pods, claims, volumes = (
        scene.cluster.written(plural, since) for plural in ("pods", "persistentvolumeclaims", "persistentvolumes")
    )
    return [
        *promised_twice(volumes),
        *bound_twice(pods),
        *too_early(pods, claims),
        *out_of_place(pods, claims, volumes),
    ]


def promised_twice(volumes: Iterable[Written]) -> list[str]:
    """Volumes that were ever promised to several claims, and claims that were promised several volumes."""
    owners: dict[str, set[str]] = {}
    owned: dict[str, set[str]] = {}
    for _, volume in volumes:
        reference = volume["spec"].get("claimRef")
        if reference:
            claim, name = f"{reference['name']} {reference.get('uid')}", volume["metadata"]["name"]
            owners.setdefault(name, set()).add(claim)
            owned.setdefault(claim, set()).add(name)
    return [
        *(f"volume {name} was promised to {sorted(claims)}" for name, claims in owners.items() if len(claims) > 1),
        *(f"claim {claim} was promised {sorted(names)}" for claim, names in owned.items() if len(names) > 1),
    ]


def bound_twice(pods: Iterable[Written]) -> list[str]:
    """Pods that were ever on several nodes."""
    return [f"pod {pod} was on {nodes}" for pod, nodes in journeys(pods).items() if len(set(nodes) - {""}) > 1]


def too_early(pods: Iterable[Written], claims: Iterable[Written]) -> list[str]:
    """Pods that were bound while a claim of theirs was not."""
    ready: dict[str, int] = {}
    for revision, claim in claims:
        if is_ready(claim):
            ready.setdefault(_name(claim), revision)
    bound: dict[str, Written] = {}
    for each in pods:
        if each.item["spec"].get("nodeName"):
            bound.setdefault(_name(each.item), each)
    return [
        f"pod {name} was bound before claim {claim}"
        for name, (revision, pod) in bound.items()
        for claim in claims_of(pod)
        if ready.get(claim, revision) >= revision
    ]


def out_of_place(pods: Iterable[Written], claims: Iterable[Written], volumes: Iterable[Written]) -> list[str]:
    """Bound pods whose volumes are elsewhere in the end, or were to be made elsewhere."""
    last_claims = {_name(claim): claim for _, claim in claims}
    hosts = {_name(volume): host_of(volume) for _, volume in volumes}
    wrong = []
    for name, pod in {_name(pod): pod for _, pod in pods}.items():
        node = pod["spec"].get("nodeName")
        for claim in map(last_claims.__getitem__, claims_of(pod) if node else ()):
            where = {
                "its volume": hosts[claim["spec"]["volumeName"]],
                "the node selected": claim["metadata"].get("annotations", {}).get(SELECTED_NODE, node),
            }
            wrong += [f"pod {name}: on {node}, but {what} is {host}" for what, host in where.items() if host != node]
    return wrong


def _name(item: JsonObject) -> str:
    return str(item["metadata"]["name"])
