"""Pods with wishes of all kinds, and what else they depend on, drawn at random: for walks in which pods must not wait
in vain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from tests.builders import a_node

from berth.api.node import Taint
from berth.api.pod import Pod

if TYPE_CHECKING:
    import random

    from berth.api.node import Node

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
NODES: Final = ("n0", "n1", "n2", "n3")
VOLUME_CLAIMS: Final = ("c0", "c1", "c2")  # the first is for a single pod
DEVICE_CLAIMS: Final = ("d0", "d1", "d2", "d3")  # the first asks for two devices
TEAMS: Final = {"default": "a", "other": "b"}  # the label of each namespace
_APPS: Final = "ab"
_ZONES: Final = "xy"
_KEYS: Final = ("zone", "host")


def metadata(version: int, name: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """Of an object in a version that nobody has seen."""
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-of-{namespace}-{name}",
        "resourceVersion": str(version),
        **more,
    }


def some_pod(chance: random.Random, number: int) -> Pod:
    """A pod; those of different numbers have different names."""
    spec = chance.choice(_WISHES)(chance)
    container: dict[str, Any] = {"name": "main", "image": "image"}
    if cpu := spec.pop("cpu", None):
        container["resources"] = {"requests": {"cpu": cpu}}
    if port := spec.pop("port", None):
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    namespace = spec.pop("namespace", "default")
    meta = metadata(number, f"p{number}", namespace, labels={"app": spec.pop("app", chance.choice(_APPS))})
    return msgspec.convert(
        {"metadata": meta, "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec}}, Pod
    )


def some_node(chance: random.Random, name: str) -> Node:
    """A node that may be small, tainted, cordoned or in no zone."""
    labels = {"host": name}
    if chance.random() < 0.8:
        labels["zone"] = chance.choice(_ZONES)
    taint = Taint(key="t", effect=chance.choice(("NoSchedule", "NoExecute")))
    return a_node(
        name,
        cpu=chance.choice("124"),
        pods=chance.choice("139"),
        labels=labels,
        taints=[taint] if chance.random() < 0.25 else (),
        unschedulable=chance.random() < 0.15,
    )


def _room(chance: random.Random) -> dict[str, Any]:
    return {"cpu": chance.choice("123")}


def _port(chance: random.Random) -> dict[str, Any]:
    return {"port": chance.choice((80, 81))}


def _zone(chance: random.Random) -> dict[str, Any]:
    expression = {"key": "zone", "operator": "In", "values": [chance.choice("xyz")]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return chance.choice(
        ({"nodeSelector": {"zone": chance.choice(_ZONES)}}, {"affinity": {"nodeAffinity": {REQUIRED: terms}}})
    )


def _tolerant(_chance: random.Random) -> dict[str, Any]:
    return {"tolerations": [{"key": "t", "operator": "Exists"}], "cpu": "2"}


def _relation(chance: random.Random) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": chance.choice(_APPS)}}, "topologyKey": chance.choice(_KEYS)}
    if chance.random() < 0.3:
        term["namespaceSelector"] = {"matchLabels": {"team": chance.choice("ab")}}
    kind = chance.choice(("podAffinity", "podAntiAffinity"))
    return {"affinity": {kind: {REQUIRED: [term]}}, "namespace": chance.choice(("default", "default", "other"))}


def _spread(chance: random.Random) -> dict[str, Any]:
    app = chance.choice(_APPS)
    constraint = {
        "maxSkew": 1,
        "topologyKey": chance.choice(_KEYS),
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
        **chance.choice(({}, {"nodeTaintsPolicy": "Honor"}, {"minDomains": 2}, {"nodeAffinityPolicy": "Ignore"})),
    }
    return {
        "app": app,
        "topologySpreadConstraints": [constraint],
        **chance.choice(({}, {"nodeSelector": {"zone": "x"}})),
    }


def _volume(chance: random.Random) -> dict[str, Any]:
    name = chance.choice((VOLUME_CLAIMS[0], *VOLUME_CLAIMS))
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}


def _device(chance: random.Random) -> dict[str, Any]:
    return {"resourceClaims": [{"name": "device", "resourceClaimName": chance.choice(DEVICE_CLAIMS)}]}


_WISHES: Final = (_room, _port, _zone, _tolerant, _relation, _relation, _spread, _volume, _device, _device)
