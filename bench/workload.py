"""Workloads as data: what a cluster holds before a measurement, and which pods are measured.

A file in ``workloads/`` has the counts, and a template per kind of object in which ``$name``, ``$index`` and ``$zone``
stand for what differs from one object to the next. ``drain`` creates what this module renders.
"""

from __future__ import annotations

import dataclasses
import json
from enum import Enum
from pathlib import Path
from string import Template
from typing import Any

import yaml

FOLDER = Path(__file__).resolve().parent / "workloads"


class WorkloadError(Exception):
    """A workload's file is missing or wrong; the text names the file and the rule."""


class Done(Enum):
    """When a measured pod counts as dealt with."""

    BOUND = "bound"  # it has a node
    REFUSED = "refused"  # its PodScheduled condition is False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is created, in this order: objects, nodes, initial pods (bound from the start), measured pods."""

    name: str
    nodes: int
    pods: int
    node: dict[str, Any]
    pod: dict[str, Any]
    done: Done
    zones: int = 1
    initial_pods: int = 0
    initial_pod: dict[str, Any] | None = None
    objects: tuple[dict[str, Any], ...] = ()  # cluster-scoped or in default, such as priority classes

    def node_bodies(self) -> list[str]:
        """The nodes as JSON."""
        return _rendered(self.node, "node", self.nodes, self.zones)

    def pod_bodies(self) -> list[str]:
        """The measured pods as JSON."""
        return _rendered(self.pod, "pod", self.pods, self.zones)

    def initial_pod_bodies(self) -> list[str]:
        """The initial pods as JSON, spread over the nodes in turn."""
        if self.initial_pod is None:
            return []
        bodies = _rendered(self.initial_pod, "initial", self.initial_pods, self.zones)
        return [_bound_to(body, _name("node", index % self.nodes)) for index, body in enumerate(bodies)]

    def is_measured(self, name: str) -> bool:
        """Whether the pod of that name is one of those that are measured."""
        return name.startswith("pod-")

    def is_done(self, pod: dict[str, Any]) -> bool:
        """Whether *pod*, as the API server shows it, has been dealt with."""
        if self.done is Done.BOUND:
            return bool(pod["spec"].get("nodeName"))
        conditions = pod["status"].get("conditions", [])
        return any(entry["type"] == "PodScheduled" and entry["status"] == "False" for entry in conditions)


def names() -> list[str]:
    """The workloads there are."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str, **counts: int | None) -> Workload:
    """The workload of that name; *counts* that are not None replace the counts of its file.

    Raises:
        WorkloadError: there is no such workload, or its file has unknown, missing or wrong keys.
    """
    path = FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise WorkloadError(f"no workload {name!r}: want one of {', '.join(names())}")
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    found |= {key: value for key, value in counts.items() if value is not None}
    try:
        done, objects = Done(found.pop("done")), tuple(found.pop("objects", ()))
        workload = Workload(name=name, done=done, objects=objects, **found)
    except (KeyError, TypeError, ValueError) as error:
        raise WorkloadError(f"{path.name}: {error}") from error
    for count, least in {"nodes": 1, "zones": 1, "pods": 2}.items():  # a rate takes two pods
        if getattr(workload, count) < least:
            raise WorkloadError(f"{path.name}: {count}: want at least {least}, got {getattr(workload, count)}")
    return workload


def _name(kind: str, index: int) -> str:
    return f"{kind}-{index:06d}"


def _rendered(template: dict[str, Any], kind: str, count: int, zones: int) -> list[str]:
    text = Template(json.dumps(template))
    return [text.substitute(name=_name(kind, index), index=index, zone=index % zones) for index in range(count)]


def _bound_to(body: str, node: str) -> str:
    pod = json.loads(body)
    pod["spec"]["nodeName"] = node
    return json.dumps(pod)
