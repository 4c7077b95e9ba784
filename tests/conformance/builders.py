"""A small vector of each kind, written out by hand, whose every part the plugins of today decide."""

import json
from pathlib import Path
from typing import Any

GROUP = "small"
UNTOLERATED = {
    "code": "UnschedulableAndUnresolvable",
    "plugin": "TaintToleration",
    "reasons": ["node(s) had untolerated taint(s)"],
}
MISMATCHED = {
    "code": "UnschedulableAndUnresolvable",
    "plugin": "NodeAffinity",
    "reasons": ["node(s) didn't match Pod's node affinity/selector"],
}
PLACEHOLDER = {"code": "UnschedulableAndUnresolvable"}


def node(name: str, *taint_effects: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-of-{name}", "labels": labels or {}},
        "spec": {"taints": [{"key": "team", "value": "a", "effect": effect} for effect in taint_effects]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str, *, scheduler: str = "default-scheduler", selector: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-of-{name}"},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "c"}], "nodeSelector": selector or {}},
        "status": {"phase": "Pending"},
    }


def config() -> dict[str, Any]:
    """A profile of a few plugins that exist."""
    names = ("PrioritySort", "TaintToleration", "NodeAffinity", "DefaultBinder")
    enabled = [{"name": name, "weight": 3} if name == "TaintToleration" else {"name": name} for name in names]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}}}],
    }


def scenario(*, version: str = "1.37", name: str = "small/taints/d001") -> dict[str, Any]:
    """Three nodes, one of them tainted softly and one hard; a pod that fits, one that does not, one of a stranger."""
    return {
        "name": name,
        "group": GROUP,
        "version": version,
        "config": config(),
        "objects": [node("soft", "PreferNoSchedule"), node("free"), node("hard", "NoSchedule")],
        "pods": [pod("fits"), pod("stuck", selector={"disk": "fast"}), pod("foreign", scheduler="nobody")],
        "expect": [
            {
                "pod": "default/fits",
                "numNodes": 3,
                "feasible": ["free", "soft"],
                "nodes": {"hard": UNTOLERATED},
                "absentNodes": PLACEHOLDER,
                "unschedulablePlugins": ["TaintToleration"],
                "scores": {"free": {"TaintToleration": 300}, "soft": {"TaintToleration": 0}},
                "totals": {"free": 300, "soft": 0},
                "best": ["free"],
                "chosen": "free",
            },
            {
                "pod": "default/stuck",
                "numNodes": 3,
                "nodes": {"free": MISMATCHED, "hard": UNTOLERATED, "soft": MISMATCHED},
                "absentNodes": PLACEHOLDER,
                "unschedulablePlugins": ["NodeAffinity", "TaintToleration"],
                "message": "0/3 nodes are available: 1 node(s) had untolerated taint(s), "
                "2 node(s) didn't match Pod's node affinity/selector.",
            },
            {"pod": "default/foreign", "numNodes": 0, "error": "no such profile"},
        ],
    }


def hint_document(*, version: str = "1.37") -> dict[str, Any]:
    """A pod that waits, while a node comes that it would not fit on and another one changes its labels."""
    return {
        "name": "small/nodes/d001",
        "group": GROUP,
        "version": version,
        "config": config(),
        "objects": [],
        "pod": pod("stuck", selector={"disk": "fast"}),
        "events": [
            {"resource": "Node", "op": "add", "new": node("hard", "NoSchedule")},
            {"resource": "Node", "op": "update", "old": node("free"), "new": node("free", labels={"disk": "fast"})},
        ],
        "expect": [
            [{"event": "NodeAdd", "plugins": {"NodeAffinity": "QueueSkip", "TaintToleration": "QueueSkip"}}],
            [{"event": "NodeUpdateNodeLabel", "plugins": {"NodeAffinity": "Queue"}}],
        ],
    }


def written(folder: Path, *documents: dict[str, Any], name: str = "any.jsonl") -> Path:
    """A vector file of *documents* in *folder*."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(document)}\n" for document in documents), encoding="utf-8")
    return path
