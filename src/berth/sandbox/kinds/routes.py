"""From a URL path to the resource, namespace, name and subresource that it means.

Runs for every request, so it splits the path and looks up a table instead of trying patterns. Called by `server`.

Source: k8s apiserver/pkg/endpoints/request/requestinfo.go.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from berth.sandbox.kinds.resources import Resource, ResourceTable


@dataclass(frozen=True, slots=True)
class Route:
    """What a path names.

    Attributes:
        resource: the kind.
        namespace: empty for objects of the whole cluster and for lists over all namespaces.
        name: empty for a list.
        subresource: empty for the object itself.
    """

    resource: Resource
    namespace: str
    name: str
    subresource: str


def resolve(table: ResourceTable, path: str) -> Route | None:
    """The meaning of *path* (still percent-encoded), or None if it names nothing that is served."""
    parts = path.rstrip("/").split("/")[1:]
    if "%" in path:
        parts = [unquote(part) for part in parts]
    match parts:
        case ["api", version, first, *rest]:
            return _locate(table, "", version, [first, *rest])
        case ["apis", group, version, first, *rest]:
            return _locate(table, group, version, [first, *rest])
    return None


def _locate(table: ResourceTable, group: str, version: str, parts: list[str]) -> Route | None:
    namespace = ""
    match parts:
        case ["namespaces", _, "status" | "finalize"]:
            pass
        case ["namespaces", inside, _, *_]:
            namespace, parts = inside, parts[2:]
    if len(parts) > len(("plural", "name", "subresource")):
        return None
    plural, name, subresource = (*parts, "", "")[:3]
    resource = table.find(group, version, plural)
    if resource is None or (subresource and subresource not in resource.subresources):
        return None
    if resource.namespaced != bool(namespace) and (name or not resource.namespaced):
        return None
    return Route(resource, namespace, name, subresource)
