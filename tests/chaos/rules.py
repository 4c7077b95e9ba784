"""What a kubelet, a user or an operator would object to about a pod on a node: the rules of the oracle.

Every rule is a function of a world, a pod and a node, and says in words what is wrong, or nothing. The world is the
one in which the pod is bound: the pod itself does not take room in it. Nothing is shared with the scheduler, so that a
mistake of its own cannot hide here.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.chaos.relations import apart, spread, together
from tests.chaos.selectors import quantity, term_matches, untolerated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tests.chaos.world import JsonObject, World

    Rule = Callable[[World, JsonObject, JsonObject], str]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ANY_ADDRESS = {"", "0.0.0.0"}  # noqa: S104 - what pods write for all addresses


def room(world: World, pod: JsonObject, node: JsonObject) -> str:
    """Requests are within what the node offers, the number of pods included."""
    offered = node["status"].get("allocatable", {})
    taken: Counter[str] = Counter()
    others = [each for each in world.pods_on(node["metadata"]["name"]) if not _same(each, pod)]
    for each in (*others, pod):
        taken.update({"pods": Decimal(1), **requests(each)})
    wanted = {"pods": Decimal(1), **requests(pod)}
    short = [
        f"{name}: {taken[name]} of {offered.get(name, 0)}"
        for name, amount in wanted.items()
        if amount and taken[name] > quantity(offered.get(name, "0"))
    ]
    return ", ".join(short)


def ports(world: World, pod: JsonObject, node: JsonObject) -> str:
    """No host port is given twice."""
    mine = list(host_ports(pod))
    for other in world.pods_on(node["metadata"]["name"]):
        if _same(other, pod):
            continue
        for address, protocol, port in host_ports(other):
            clash = [p for a, t, p in mine if (t, p) == (protocol, port) and _overlap(a, address)]
            if clash:
                return f"host port {port} is taken by {other['metadata']['name']}"
    return ""


def wishes(_world: World, pod: JsonObject, node: JsonObject) -> str:
    """Node selector and required node affinity are satisfied."""
    labels, spec = node["metadata"].get("labels", {}), pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return "the node selector does not match"
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms")
    if terms is not None and not any(term_matches(term, node) for term in terms):
        return "the node affinity does not match"
    return ""


def taints(_world: World, pod: JsonObject, node: JsonObject) -> str:
    """Taints are tolerated, and so is a cordon."""
    found = list(node["spec"].get("taints") or [])
    if node["spec"].get("unschedulable"):
        found.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    bad = untolerated(pod, found)
    return f"the taint {bad[0]['key']} is not tolerated" if bad else ""


def attachments(world: World, pod: JsonObject, node: JsonObject) -> str:
    """No more volumes of a driver are attached than the node can hold."""
    name = node["metadata"]["name"]
    limits = {
        driver["name"]: driver["allocatable"]["count"]
        for driver in ((world.get("csinodes", name) or {}).get("spec", {}).get("drivers") or [])
        if driver.get("allocatable", {}).get("count") is not None
    }
    mine = volumes_of(world, pod)
    there = {each for other in world.pods_on(name) if not _same(other, pod) for each in volumes_of(world, other)}
    for driver, limit in limits.items():
        after = {handle for of, handle in there | mine if of == driver}
        if len(after) > limit and any(of == driver for of, _ in mine - there):
            return f"{len(after)} volumes of {driver}, at most {limit}"
    return ""


def single_users(world: World, pod: JsonObject, _node: JsonObject) -> str:
    """A claim for a single pod has a single pod."""
    for claim in claims_of(world, pod):
        if "ReadWriteOncePod" in claim["spec"].get("accessModes", []):
            for other in world.placed():
                if not _same(other, pod) and any(claim is each for each in claims_of(world, other)):
                    return f"claim {claim['metadata']['name']} is used by {other['metadata']['name']}"
    return ""


def reach(world: World, pod: JsonObject, node: JsonObject) -> str:
    """Bound volumes can be reached from the node."""
    for claim in claims_of(world, pod):
        volume = world.get("persistentvolumes", claim["spec"].get("volumeName", ""))
        required = ((volume or {}).get("spec", {}).get("nodeAffinity") or {}).get("required")
        if required and not any(term_matches(term, node) for term in required["nodeSelectorTerms"]):
            return f"volume {claim['spec']['volumeName']} cannot be reached"
    return ""


RULES: Mapping[str, Rule] = {
    "room": room,
    "ports": ports,
    "wishes": wishes,
    "taints": taints,
    "attachments": attachments,
    "single users": single_users,
    "reach": reach,
    "together": together,
    "apart": apart,
    "spread": spread,
}


def objections(world: World, pod: JsonObject, node: JsonObject) -> dict[str, str]:
    """What is wrong with a pod on a node, by rule."""
    found = {name: rule(world, pod, node) for name, rule in RULES.items()}
    return {name: text for name, text in found.items() if text}


def devices_given_twice(world: World) -> list[str]:
    """Devices that are allocated to more than one claim."""
    owners: dict[tuple[str, str, str], set[str]] = {}
    for claim in world.all("resourceclaims"):
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or []:
            if not result.get("adminAccess") and not result.get("shareID"):
                device = result["driver"], result["pool"], result["device"]
                owners.setdefault(device, set()).add(claim["metadata"]["name"])
    return [f"device {'/'.join(device)}: {sorted(claims)}" for device, claims in owners.items() if len(claims) > 1]


def requests(pod: JsonObject) -> dict[str, Decimal]:
    """What a pod takes: containers and sidecars together, or the greediest start, and the overhead."""
    spec = pod["spec"]
    running: Counter[str] = Counter()
    for container in spec["containers"]:
        running.update(_amounts(container))
    peak: dict[str, Decimal] = {}
    sidecars: Counter[str] = Counter()
    for container in spec.get("initContainers") or []:
        asked = _amounts(container)
        if container.get("restartPolicy") == "Always":
            sidecars.update(asked)
            asked = {}
        for name in {*asked, *sidecars}:
            peak[name] = max(peak.get(name, Decimal(0)), sidecars[name] + asked.get(name, Decimal(0)))
    running.update(sidecars)
    total = {name: max(Decimal(running[name]), peak.get(name, Decimal(0))) for name in {*running, *peak}}
    for name, amount in (spec.get("overhead") or {}).items():
        total[name] = total.get(name, Decimal(0)) + quantity(amount)
    return total


def host_ports(pod: JsonObject) -> Iterator[tuple[str, str, int]]:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or []:
            if port.get("hostPort"):
                yield port.get("hostIP", ""), port.get("protocol", "TCP"), port["hostPort"]


def claims_of(world: World, pod: JsonObject) -> list[JsonObject]:
    """The claims of a pod that exist."""
    namespace = pod["metadata"].get("namespace", "")
    found = (world.get("persistentvolumeclaims", name, namespace) for name in claim_names(pod))
    return [claim for claim in found if claim is not None]


def claim_names(pod: JsonObject) -> list[str]:
    volumes: Iterable[dict[str, Any]] = pod["spec"].get("volumes") or []
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume]


def volumes_of(world: World, pod: JsonObject) -> set[tuple[str, str]]:
    """Driver and handle of the bound volumes of a pod."""
    names = [claim["spec"].get("volumeName", "") for claim in claims_of(world, pod)]
    found = (world.get("persistentvolumes", name) for name in names if name)
    return {
        (volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"])
        for volume in found
        if volume is not None and "csi" in volume["spec"]
    }


def _amounts(container: Mapping[str, Any]) -> dict[str, Decimal]:
    asked = container.get("resources", {}).get("requests") or {}
    return {name: quantity(amount) for name, amount in asked.items()}


def _overlap(one: str, other: str) -> bool:
    return one == other or one in _ANY_ADDRESS or other in _ANY_ADDRESS


def _same(one: JsonObject, other: JsonObject) -> bool:
    return bool(one["metadata"]["uid"] == other["metadata"]["uid"])
