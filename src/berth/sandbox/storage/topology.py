"""Where a pod is: the labels that it takes over from its node.

Called by `subresources` when a pod is bound and by `admission` when it is created on a node.

Source: k8s plugin/pkg/admission/podtopologylabels/admission.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from berth.sandbox.objects import section

if TYPE_CHECKING:
    from berth.sandbox.storage.store import Collection

_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def topology_labels(nodes: Collection, node_name: str) -> dict[str, str]:
    """Zone and region of a node, as far as they are known; nothing for an unknown node."""
    node = nodes.get(("", node_name))
    if node is None:
        return {}
    labels = section(node.obj["metadata"], "labels")
    return {name: labels[name] for name in _LABELS if name in labels}
