"""The end of namespaces: what the namespace controller does in a cluster.

A namespace that is deleted is marked; then its objects are deleted, and when the last one is gone, so is the namespace.
Objects with finalizers hold it up until their owners let go. Made once by `server`.

Source: k8s pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.sandbox.storage.registry import DeleteOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.sandbox.kinds.resources import Resource
    from berth.sandbox.storage.registry import Registry

JsonObject = dict[str, Any]


class NamespaceReaper:
    """Empties and removes the namespaces of a registry that are marked as deleted."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._namespaces = registry.table.served("", "v1", "namespaces")
        self._waiting: dict[str, list[Callable[[], None]]] = {}  # namespace -> what ends its waiting for objects
        self._busy = False
        registry.store.collection(self._namespaces).subscribe(self._reap)

    def _reap(self) -> None:
        # Deleting wakes us again, in the middle of it.
        if self._busy:
            return
        self._busy = True
        try:
            for entry in self._registry.store.collection(self._namespaces).entries():
                if "deletionTimestamp" in entry.obj["metadata"]:
                    self._empty(entry.obj["metadata"]["name"])
        finally:
            self._busy = False

    def _empty(self, name: str) -> None:
        left = [resource for resource in self._stored_kinds() if self._delete_all(resource, name)]
        for end in self._waiting.pop(name, []):
            end()
        if left:
            store = self._registry.store
            self._waiting[name] = [store.collection(resource).subscribe(self._reap) for resource in left]
        else:
            self._registry.store.remove(self._namespaces, ("", name))

    def _stored_kinds(self) -> list[Resource]:
        kinds = {resource.kept: resource for resource in self._registry.table if resource.namespaced}
        return list(kinds.values())

    def _delete_all(self, resource: Resource, namespace: str) -> bool:
        """Delete the objects of one kind; whether some remain for now."""
        collection = self._registry.store.collection(resource)
        for entry in collection.entries(namespace):
            metadata = entry.obj["metadata"]
            if "deletionTimestamp" not in metadata:
                self._registry.delete(resource, (namespace, metadata["name"]), DeleteOptions())
        return bool(collection.entries(namespace))
