"""The pods and nodes of the chaos suites: all that rules can ask for, drawn from a seed.

What others depend on (the pods to be near to, the members of a spread) is never deleted while a suite runs, so that no
binding can be made wrong by something that the scheduler could not know of yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.integration.objects import (
    REQUIRED,
    a_node,
    a_pod,
    a_taint,
    affinity_term,
    keep_apart_from,
    required_node_affinity,
)

if TYPE_CHECKING:
    import random

    from tests.chaos.world import JsonObject

ZONES = "abc"
HOSTNAME = "kubernetes.io/hostname"
FOR_LARGE_NODES = 0.3  # of the pods whose turn it is


def some_nodes(count: int) -> list[JsonObject]:
    """Nodes in three zones, every fifth tainted."""
    return [
        a_node(
            f"node-{i:02}",
            cpu="4",
            memory="8Gi",
            pods=30,
            labels={"zone": ZONES[i % 3]},
            taints=[a_taint("dedicated", "batch")] if i % 5 == 4 else (),
        )
        for i in range(count)
    ]


def a_large_node(name: str) -> JsonObject:
    """The only kind of node for the pods that are too large for all others."""
    return a_node(name, cpu="16", memory="32Gi", labels={"zone": "a"})


def some_pods(chance: random.Random, prefix: str, count: int, *, relying: bool = True) -> list[JsonObject]:
    """Pods with all kinds of wishes, most of which fit on `some_nodes`.

    Args:
        chance: for what is not settled by a pod's turn.
        prefix: of their names.
        count: how many.
        relying: whether some need others to be where they are. Where bindings are lost for good, what those relied on
            may turn out not to be so, and no scheduler can help it.
    """
    pods = [_pod(chance, f"{prefix}-{i:03}", i) for i in range(count)]
    return [
        pod for pod in pods if relying or not pod["metadata"]["labels"].get("app", "").startswith(("near", "spread"))
    ]


def _pod(chance: random.Random, name: str, number: int) -> JsonObject:
    size = {"cpu": f"{chance.choice((50, 100, 200))}m", "memory": f"{chance.randint(16, 256)}Mi"}
    group = chance.choice("xy")
    evenly = _spread(f"spread-{group}", honouring=number % 2 == 1)
    wishes: list[dict[str, Any]] = [
        {**size, "host_port": 9000 + chance.randrange(6)},
        {**size, "affinity": required_node_affinity("zone", chance.choice(ZONES))},
        {**size, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
        {**size, "labels": {"app": f"apart-{group}"}, "affinity": keep_apart_from(f"apart-{group}", HOSTNAME)},
        {**size, "labels": {"app": "near"}, "affinity": _near("near")},
        {
            **size,
            "labels": {"app": f"spread-{group}"},
            "topologySpreadConstraints": [evenly],
        },
        {"cpu": "5"} if chance.random() < FOR_LARGE_NODES else size,
        size,
        size,
    ]
    return a_pod(name, **wishes[number % len(wishes)])


def _near(app: str) -> JsonObject:
    return {"podAffinity": {REQUIRED: [affinity_term(app, "zone")]}}


def _spread(app: str, *, honouring: bool) -> JsonObject:
    policy = {"nodeTaintsPolicy": "Honor"} if honouring else {}
    return {
        **policy,
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }
