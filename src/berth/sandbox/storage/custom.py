"""Custom resources: definitions that add kinds to the resource table while the server runs.

Watches the collection of definitions and keeps the table in step: names, versions, scope, status subresource and
printer columns are honoured; schemas are stored and not enforced. Made once by `server`.

Source: k8s apiextensions-apiserver/pkg/apiserver/customresource_handler.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds.resources import Resource
from berth.sandbox.objects import items, section, with_condition
from berth.sandbox.tables.columns import AGE, NAME, Column, at
from berth.sandbox.tables.durations import since

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from berth.sandbox.storage.registry import Registry
    from berth.sandbox.storage.store import Entry

JsonObject = dict[str, Any]

_ESTABLISHED: Final = "Established"
_FILTER: Final = re.compile(r"(\w+)\[\?\(@\.(\w+)==['\"]([^'\"]+)['\"]\)\]")


class CustomResources:
    """The kinds that the definitions in a registry add.

    Args:
        registry: whose definitions, and whose table.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._definitions = registry.table.served("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        self._served: dict[str, list[Resource]] = {}  # by name of the definition
        registry.store.collection(self._definitions).subscribe(self._sync)

    def _sync(self) -> None:
        entries = {entry.obj["metadata"]["name"]: entry for entry in self._collection_entries()}
        for name in set(self._served) - set(entries):
            self._drop(name)
        for name, entry in entries.items():
            wanted = resources_of(entry.obj)
            if [_identity(each) for each in wanted] != [_identity(each) for each in self._served.get(name, [])]:
                self._drop(name, keep_objects=True)
                for resource in wanted:
                    self._registry.table.add(resource)
                self._served[name] = wanted
            self._accept(name, entry.obj)

    def _collection_entries(self) -> list[Entry]:
        return self._registry.store.collection(self._definitions).entries()

    def _drop(self, name: str, *, keep_objects: bool = False) -> None:
        for resource in self._served.pop(name, []):
            if not keep_objects:
                for entry in self._registry.store.collection(resource).entries():
                    metadata = entry.obj["metadata"]
                    self._registry.store.remove(resource, (metadata.get("namespace", ""), metadata["name"]))
            self._registry.table.remove(resource)

    def _accept(self, name: str, definition: JsonObject) -> None:
        status = section(definition, "status")
        if any(each["type"] == _ESTABLISHED for each in items(status, "conditions")):
            return
        now = self._registry.now()
        conditions: list[JsonObject] = []
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            (_ESTABLISHED, "InitialNamesAccepted", "the initial names have been accepted"),
        ):
            condition = {"type": kind, "status": "True", "reason": reason, "message": message}
            conditions = with_condition(conditions, condition, now)
        spec = definition["spec"]
        stored = [version["name"] for version in spec["versions"] if version.get("storage")]
        accepted = {"conditions": conditions, "acceptedNames": spec["names"], "storedVersions": stored}
        self._registry.replace(self._definitions, ("", name), {**definition, "status": accepted})


def resources_of(definition: JsonObject) -> list[Resource]:
    """The kinds that a definition asks for, one per served version."""
    spec = definition["spec"]
    names = spec["names"]
    return [
        Resource(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular_name=names.get("singular", ""),
            list_kind_name=names.get("listKind", ""),
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(items(names, "shortNames")),
            categories=tuple(items(names, "categories")),
            subresources=("status",) if "status" in section(version, "subresources") else (),
            generation=True,
            unconditional_update=False,
            typed_items=True,
            columns=_columns(items(version, "additionalPrinterColumns")),
        )
        for version in spec["versions"]
        if version.get("served")
    ]


def _identity(resource: Resource) -> tuple[Any, ...]:
    names = (resource.kind, resource.plural, resource.short_names, resource.categories, resource.subresources)
    columns = tuple((column.name, column.type, column.wide) for column in resource.columns)
    return (resource.group, resource.version, resource.namespaced, *names, columns)


def _columns(printed: list[JsonObject]) -> tuple[Column, ...]:
    if not printed:
        return (NAME, AGE)
    shown = [
        Column(each["name"], _cell(each["jsonPath"], each["type"]), _type(each["type"]), each.get("priority", 0) > 0)
        for each in printed
    ]
    return (NAME, *shown)


def _type(given: str) -> str:
    return "string" if given == "date" else given


def _cell(path: str, kind: str) -> Callable[[JsonObject, datetime], Any]:
    read = _reader(path.lstrip("{.").rstrip("}"))
    if kind == "date":
        return lambda obj, now: since(read(obj, now) or None, now)
    return read


def _reader(path: str) -> Callable[[JsonObject, datetime], Any]:
    """Plain paths, and one filter such as `status.conditions[?(@.type=="Ready")].status`."""
    before, found, after = path, None, ""
    if match := _FILTER.search(path):
        before = path[: match.start(2)].partition("[")[0]
        found, after = match, path[match.end() :].lstrip(".")
    read = at(before)
    if found is None:
        return read
    name, value, inner = found.group(2), found.group(3), at(after)

    def cell(obj: JsonObject, now: datetime) -> Any:
        members = read(obj, now) or []
        return next((inner(member, now) for member in members if member.get(name) == value), "")

    return cell
