"""The resources that the embedded API server serves: names, scope, verbs and life-cycle traits.

One `Resource` per group, version and kind. The table is data; what a trait means is decided in `registry` (life cycle)
and `admission` (defaults and rules). Read by every module of the sandbox.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from berth.sandbox.tables.columns import Column

JsonObject = dict[str, Any]

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object at one version, and how it lives.

    Attributes:
        group: API group; empty for the core group.
        kept: name of the store's collection; two resources with the same `kept` show the same objects.
        generation: whether `metadata.generation` counts changes of the specification.
        subresources: names below an object, `status` and `scale` among them.
        status_on_create: whether a created object keeps the status it came with.
        returns_deleted: whether DELETE answers with the object instead of a Status.
        unconditional_update: whether PUT may leave out `metadata.resourceVersion`.
        create_on_update: whether PUT creates a missing object.
        graceful: whether DELETE waits for the node to stop the object (pods).
        to_stored, from_stored: conversion to and from the form in `kept`; None when this is that form.
        singular_name, list_kind_name: where they are not made from `kind` as usual.
        columns: what tables show; empty for the columns of the built-in kind.
        typed_items: whether the items of a list carry `kind` and `apiVersion` (custom resources do).
        head: JSON prefix with the type of an object, for gluing in front of an encoded body.
        qualified: plural and group as error messages print them.
    """

    group: str = ""
    version: str = "v1"
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    generation: bool = False
    status_on_create: bool = False
    returns_deleted: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    graceful: bool = False
    typed_items: bool = False
    kept: str = ""
    singular_name: str = ""
    list_kind_name: str = ""
    columns: tuple[Column, ...] = ()
    to_stored: Callable[[JsonObject], JsonObject] | None = None
    from_stored: Callable[[JsonObject], JsonObject] | None = None
    head: bytes = field(init=False)
    qualified: str = field(init=False)

    def __post_init__(self) -> None:
        head = f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'
        object.__setattr__(self, "head", head.encode())
        object.__setattr__(self, "qualified", f"{self.plural}.{self.group}" if self.group else self.plural)
        if not self.kept:
            object.__setattr__(self, "kept", self.qualified)

    @property
    def api_version(self) -> str:
        """`version` for the core group, `group/version` for the others."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def built_in_kind(self) -> str:
        """`kind`, but empty for a custom resource, which may bear the name of a built-in kind and is none."""
        return "" if self.typed_items else self.kind

    @property
    def base_path(self) -> str:
        """Where the group version is served."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def singular(self) -> str:
        """The name for one object on the command line."""
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """Kind of a list of these."""
        return self.list_kind_name or self.kind + "List"

    @property
    def has_status(self) -> bool:
        """Whether the status is written apart from the rest."""
        return "status" in self.subresources


class ResourceTable:
    """The served resources, found by group, version and plural.

    Grows when a custom resource is defined and shrinks when its definition is removed.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve *resource*; replaces one of the same group, version and plural."""
        self._by_path[(resource.group, resource.version, resource.plural)] = resource

    def remove(self, resource: Resource) -> None:
        """Serve *resource* no longer; nothing happens if it is not served."""
        self._by_path.pop((resource.group, resource.version, resource.plural), None)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at a path, or None."""
        return self._by_path.get((group, version, plural))

    def served(self, group: str, version: str, plural: str) -> Resource:
        """The resource at a path that has to be served.

        Raises:
            LookupError: it is not.
        """
        resource = self.find(group, version, plural)
        if resource is None:
            raise LookupError(f"{plural}.{version}.{group or 'core'} is not served")
        return resource

    def __iter__(self) -> Iterator[Resource]:
        return iter(list(self._by_path.values()))
