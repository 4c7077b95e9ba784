"""The objects that every cluster has from its first minute: system namespaces and system priority classes.

Called once by `server`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from berth.sandbox.kinds.kind_defaults import SYSTEM_PRIORITIES

if TYPE_CHECKING:
    from berth.sandbox.storage.registry import Registry

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_DESCRIPTIONS: Final = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


def create_system_objects(registry: Registry) -> None:
    """Create them in an empty registry.

    Raises:
        ApiError: they are there already.
    """
    namespaces = registry.table.served("", "v1", "namespaces")
    for name in _NAMESPACES:
        registry.create(namespaces, "", {"metadata": {"name": name}})
    classes = registry.table.served("scheduling.k8s.io", "v1", "priorityclasses")
    for name, value in SYSTEM_PRIORITIES.items():
        registry.create(classes, "", {"metadata": {"name": name}, "value": value, "description": _DESCRIPTIONS[name]})
