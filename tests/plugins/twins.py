"""The plain twins of the vectorized plugins: each filter and each score for one node, in obvious Python.

They are written from the rules, not from the plugins, and share with them only what tests/api covers: quantities,
effective requests, selectors and tolerations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from berth.api.node import Node, Taint
from berth.api.quantity import nano_value
from berth.api.requests import amount, is_extended, is_scalar
from berth.api.tolerations import tolerates
from berth.framework.status import SUCCESS, Status, unresolvable, unschedulable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.api.node_affinity import CompiledNodeSelector, PreferredTerm
    from berth.api.pod import Pod
    from berth.cluster.pods import HostPort, PodInfo

NATIVE = ("cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True)
class NodeView:
    """A node, the pods on it, and all nodes of the cluster by name."""

    node: Node
    pods: tuple[PodInfo, ...]
    nodes: tuple[Node, ...]

    def offers(self, resource: str) -> int:
        return amount(resource, nano_value(self.node.status.allocatable.get(resource, "0")))

    def has_taken(self, resource: str) -> int:
        return wrap(sum(pod.taken.get(resource, 0) for pod in self.pods))

    def has_taken_with_defaults(self, resource: str) -> int:
        if resource not in ("cpu", "memory"):
            return self.has_taken(resource)
        return wrap(sum(pod.taken_non_zero[("cpu", "memory").index(resource)] for pod in self.pods))


def wrap(number: int) -> int:
    """The number in two's complement of 64 bits."""
    low = number & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low


def divide(dividend: int, divisor: int) -> int:
    """The quotient without its fraction."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


# -- filters -----------------------------------------------------------------------------------------------------------


def node_name(pod: Pod, view: NodeView) -> Status:
    if pod.spec.node_name in ("", view.node.metadata.name):
        return SUCCESS
    return unresolvable("node(s) didn't match the requested node name")


def node_unschedulable(pod: Pod, view: NodeView) -> Status:
    cordon = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    if not view.node.spec.unschedulable or any(tolerates(t, cordon) for t in pod.spec.tolerations):
        return SUCCESS
    return unresolvable("node(s) were unschedulable")


def taint_toleration(pod: Pod, view: NodeView) -> Status:
    for taint in view.node.spec.taints:
        hard = taint.effect in ("NoSchedule", "NoExecute")
        if hard and not any(tolerates(t, taint) for t in pod.spec.tolerations):
            return unresolvable("node(s) had untolerated taint(s)")
    return SUCCESS


def node_declared_features(pod: Pod, view: NodeView) -> Status:
    declared, containers = view.node.status.declared_features, [*pod.spec.containers, *pod.spec.init_containers]
    actions = {rule.action for container in containers for rule in container.restart_policy_rules}
    lacks_restart = "RestartAllContainers" in actions and "RestartAllContainersOnContainerExits" not in declared
    mixes = pod.spec.host_network and pod.spec.host_users is False
    if lacks_restart or (mixes and "UserNamespacesHostNetworkSupport" not in declared):
        return unresolvable("node(s) didn't match Pod's required features")
    return SUCCESS


def node_affinity(pod: PodInfo, view: NodeView, added: CompiledNodeSelector | None = None) -> Status:
    if added is not None and not added.matches(view.node):
        return unresolvable("node(s) didn't match scheduler-enforced node affinity")
    if not pod.required_node_affinity.matches(view.node):
        return unresolvable("node(s) didn't match Pod's node affinity/selector")
    return SUCCESS


def node_ports(pod: PodInfo, view: NodeView) -> Status:
    taken = [port for other in view.pods for port in other.host_ports]
    if any(_clash(mine, theirs) for mine in pod.host_ports for theirs in taken):
        return unschedulable("node(s) didn't have free ports for the requested pod ports")
    return SUCCESS


def _clash(mine: HostPort, theirs: HostPort) -> bool:
    if (mine.protocol, mine.port) != (theirs.protocol, theirs.port):
        return False
    return mine.ip == theirs.ip or "0.0.0.0" in (mine.ip, theirs.ip)  # noqa: S104 - the wildcard of host ports


def node_resources_fit(
    pod: PodInfo, view: NodeView, ignored: Sequence[str] = (), ignored_groups: Sequence[str] = ()
) -> Status:
    reasons, hopeless = [], False
    if len(view.pods) + 1 > view.offers("pods"):
        reasons.append("Too many pods")
    scalars = sorted(name for name in pod.asked if name not in NATIVE and is_scalar(name))
    for name in (*NATIVE, *scalars):
        asked, offered = pod.asked.get(name, 0), view.offers(name)
        if is_extended(name) and (name in ignored or name.split("/", maxsplit=1)[0] in ignored_groups):
            continue
        if asked > 0 and asked > wrap(offered - view.has_taken(name)):
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or asked > offered
    if not reasons:
        return SUCCESS
    return unresolvable(*reasons) if hopeless else unschedulable(*reasons)


# -- scores ------------------------------------------------------------------------------------------------------------


def default_normalize(scores: Sequence[int], *, reverse: bool = False) -> list[int]:
    highest = max(scores, default=0)
    shares = [100 * score // highest if highest else 0 for score in scores]
    return [100 - share for share in shares] if reverse else shares


def untolerated_soft_taints(pod: Pod, view: NodeView) -> int:
    return len(
        [
            taint
            for taint in view.node.spec.taints
            if taint.effect == "PreferNoSchedule"
            and not any(tolerates(t, taint) for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule"))
        ]
    )


def preferred_weight(preferred: Sequence[PreferredTerm], view: NodeView) -> int:
    metadata = view.node.metadata
    return sum(each.weight for each in preferred if each.term.matches(metadata.name, metadata.labels))


def image_locality(pod: Pod, view: NodeView, *, volumes_count: bool) -> int:
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    volumes = [volume.image.reference for volume in pod.spec.volumes if volume.image is not None]
    held = [name for image in view.node.status.images for name in image.names]
    total = 0
    for name in [*(container.image for container in containers), *volumes]:
        tagged = name if ":" in name.rsplit("/", maxsplit=1)[-1] else f"{name}:latest"
        if tagged in held:
            holders = [node for node in view.nodes if any(tagged in image.names for image in node.status.images)]
            size = next(image.size_bytes for image in holders[0].status.images if tagged in image.names)
            total += int(size * (len(holders) / len(view.nodes)))
    low, high = 23 * 1024**2, 1000 * 1024**2 * (len(containers) + (len(volumes) if volumes_count else 0))
    if total < low:
        total = low
    elif total > high:
        total = high
    return divide(100 * (total - low), high - low)


def fit_figures(pod: PodInfo, view: NodeView, resources: Sequence[tuple[str, int]]) -> list[tuple[int, int, int]]:
    """For each resource that counts: (offered, taken with the pod, weight)."""
    figures = []
    for name, weight in resources:
        asked = pod.asked_for_score.get(name, 0)
        if view.offers(name) and (asked or not is_scalar(name)) and (name in NATIVE or is_scalar(name)):
            figures.append((view.offers(name), wrap(view.has_taken_with_defaults(name) + asked), weight))
    return figures


def least_allocated(pod: PodInfo, view: NodeView, resources: Sequence[tuple[str, int]]) -> int:
    total = weights = 0
    for offered, taken, weight in fit_figures(pod, view, resources):
        share = 0 if taken > offered else divide(wrap(wrap(offered - taken) * 100), offered)
        total, weights = total + share * weight, weights + weight
    return divide(wrap(total), weights) if weights else 0


def most_allocated(pod: PodInfo, view: NodeView, resources: Sequence[tuple[str, int]]) -> int:
    total = weights = 0
    for offered, taken, weight in fit_figures(pod, view, resources):
        share = divide(wrap(min(taken, offered) * 100), offered)
        total, weights = total + share * weight, weights + weight
    return divide(wrap(total), weights) if weights else 0


def requested_to_capacity_ratio(
    pod: PodInfo, view: NodeView, resources: Sequence[tuple[str, int]], shape: Sequence[tuple[int, int]]
) -> int:
    total = weights = 0
    for offered, taken, weight in fit_figures(pod, view, resources):
        used = 100 if taken > offered else divide(wrap(taken * 100), offered)
        score = on_line([(x, 10 * y) for x, y in shape], used)
        if score > 0:
            total, weights = total + score * weight, weights + weight
    return math.floor(total / weights + 0.5) if weights else 0


def on_line(points: Sequence[tuple[int, int]], x: int) -> int:
    for i, (end, score) in enumerate(points):
        if x <= end:
            if i == 0:
                return score
            start, before = points[i - 1]
            return before + divide((score - before) * (x - start), end - start)
    return points[-1][1]


def balanced_allocation(pod: PodInfo, view: NodeView, resources: Sequence[tuple[str, int]]) -> int:
    figures = []
    for name, _ in resources:
        asked = pod.taken.get(name, 0)
        if view.offers(name) and (asked or not is_scalar(name)) and (name in NATIVE or is_scalar(name)):
            figures.append((view.offers(name), view.has_taken(name), asked))
    before = _balance([(offered, taken) for offered, taken, _ in figures])
    after = _balance([(offered, wrap(taken + asked)) for offered, taken, asked in figures])
    return 50 + divide(50 + after - before, 2)


def _balance(figures: Sequence[tuple[int, int]]) -> int:
    used = [max(-1.0, min(1.0, float(taken) / float(offered))) for offered, taken in figures]
    if len(used) < 2:
        deviation = 0.0
    elif len(used) == 2:
        deviation = abs(used[0] - used[1]) / 2
    else:
        total = 0.0
        for each in used:
            total += each
        mean = total / len(used)
        squares = 0.0
        for each in used:
            squares += (each - mean) * (each - mean)
        deviation = math.sqrt(squares / len(used))
    return math.trunc((1.0 - deviation) * 100.0)
