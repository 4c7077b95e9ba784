"""Rules between pods: required affinity and anti-affinity, and hard topology spread."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.chaos.selectors import selects, term_matches, untolerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.chaos.world import JsonObject, World

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def together(world: World, pod: JsonObject, node: JsonObject) -> str:
    """Required affinity: in each term's domain is a pod that it selects, unless this pod is the first of its kind."""
    terms = _terms(pod, "podAffinity")
    unmet = [term for term in terms if not _there(world, pod, term, node)]
    if not unmet:
        return ""
    if any(_value(node, term["topologyKey"]) is None for term in terms):
        return "the node is in no domain of an affinity term"
    anywhere = any(_term_selects(world, term, pod, other) for term in terms for other in _others(world, pod))
    if not anywhere and all(_term_selects(world, term, pod, pod) for term in terms):
        return ""
    return f"no pod for the affinity term {unmet[0].get('labelSelector')}"


def apart(world: World, pod: JsonObject, node: JsonObject) -> str:
    """Required anti-affinity: neither this pod nor those that are there object to the other."""
    for term in _terms(pod, "podAntiAffinity"):
        if _there(world, pod, term, node):
            return f"a pod of the anti-affinity term {term.get('labelSelector')} is there"
    for other in _others(world, pod):
        for term in _terms(other, "podAntiAffinity"):
            if _term_selects(world, term, other, pod) and _same_domain(world, other, node, term["topologyKey"]):
                return f"{other['metadata']['name']} keeps it away"
    return ""


def spread(world: World, pod: JsonObject, node: JsonObject) -> str:
    """Hard constraints: with this pod, no domain has more pods than the emptiest one by more than is allowed."""
    hard = [
        each
        for each in pod["spec"].get("topologySpreadConstraints") or []
        if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    keys = {each["topologyKey"] for each in hard}
    if any(_value(node, key) is None for key in keys):
        return "the node is in no domain of a spread constraint"
    for constraint in hard:
        counts = _spread_counts(world, pod, constraint, keys)
        mine = _value(node, constraint["topologyKey"]) or ""
        least = 0 if len(counts) < constraint.get("minDomains", 1) else min(counts.values(), default=0)
        selector = _spread_selector(pod, constraint)
        with_me = counts[mine] + selects(selector, pod["metadata"].get("labels", {}))
        if with_me - least > constraint["maxSkew"]:
            return f"skew {with_me - least} in {mine}, at most {constraint['maxSkew']}"
    return ""


def _spread_counts(world: World, pod: JsonObject, constraint: Mapping[str, Any], keys: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    selector = _spread_selector(pod, constraint)
    for node in world.all("nodes"):
        if any(_value(node, key) is None for key in keys) or not _eligible(constraint, pod, node):
            continue
        counts[_value(node, constraint["topologyKey"]) or ""] += sum(
            selects(selector, other["metadata"].get("labels", {}))
            for other in world.pods_on(node["metadata"]["name"])
            if other["metadata"]["uid"] != pod["metadata"]["uid"]
            and other["metadata"].get("namespace") == pod["metadata"].get("namespace")
            and "deletionTimestamp" not in other["metadata"]
        )
    return counts


def _eligible(constraint: Mapping[str, Any], pod: JsonObject, node: JsonObject) -> bool:
    """Whether a node counts for a constraint; by default where the pod's own wishes let it go, tainted or not."""
    if constraint.get("nodeTaintsPolicy", "Ignore") == "Honor" and untolerated(pod, node["spec"].get("taints") or []):
        return False
    if constraint.get("nodeAffinityPolicy", "Honor") == "Ignore":
        return True
    labels, spec = node["metadata"].get("labels", {}), pod["spec"]
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    terms = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms")
    return terms is None or any(term_matches(term, node) for term in terms)


def _spread_selector(pod: JsonObject, constraint: Mapping[str, Any]) -> Mapping[str, Any] | None:
    selector = constraint.get("labelSelector")
    labels = pod["metadata"].get("labels", {})
    kept = {key: labels[key] for key in constraint.get("matchLabelKeys") or [] if key in labels}
    if not kept:
        return selector
    selector = selector or {}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **kept}}


def _terms(pod: JsonObject, kind: str) -> list[dict[str, Any]]:
    return list((pod["spec"].get("affinity") or {}).get(kind, {}).get(REQUIRED) or [])


def _others(world: World, pod: JsonObject) -> Iterable[JsonObject]:
    return (other for other in world.placed() if other["metadata"]["uid"] != pod["metadata"]["uid"])


def _there(world: World, pod: JsonObject, term: Mapping[str, Any], node: JsonObject) -> bool:
    return any(
        _term_selects(world, term, pod, other) and _same_domain(world, other, node, term["topologyKey"])
        for other in _others(world, pod)
    )


def _term_selects(world: World, term: Mapping[str, Any], owner: JsonObject, other: JsonObject) -> bool:
    if not selects(term.get("labelSelector"), other["metadata"].get("labels", {})):
        return False
    namespace = other["metadata"].get("namespace", "")
    names, selector = term.get("namespaces") or [], term.get("namespaceSelector")
    if not names and selector is None:
        return bool(namespace == owner["metadata"].get("namespace", ""))
    if namespace in names:
        return True
    found = world.get("namespaces", namespace) or {"metadata": {}}
    return selects(selector, found["metadata"].get("labels", {}))


def _same_domain(world: World, other: JsonObject, node: JsonObject, key: str) -> bool:
    there = world.get("nodes", other["spec"]["nodeName"])
    value = _value(node, key)
    return value is not None and there is not None and _value(there, key) == value


def _value(node: JsonObject, key: str) -> str | None:
    found: str | None = node["metadata"].get("labels", {}).get(key)
    return found
