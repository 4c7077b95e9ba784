"""Lists, objects and watch events in the forms that clients may ask for instead of the plain one.

`as=Table` gives columns for people (kubectl), `as=PartialObjectMetadata` only the metadata. Which one, if any, is read
off the Accept header. Called by `handlers` and `server`.

Source: k8s apiserver/pkg/endpoints/handlers/response.go; apimachinery/pkg/apis/meta/v1/types.go (`Table`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from berth.sandbox.serving.watch import Encoder
from berth.sandbox.storage.store import Entry, encode, watch_line
from berth.sandbox.tables.columns import COLUMNS, PLAIN, Column
from berth.sandbox.tables.pod_columns import POD_COLUMNS, row_conditions

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from berth.sandbox.kinds.resources import Resource
    from berth.sandbox.storage.store import Change

JsonObject = dict[str, Any]
Form = Literal["plain", "table", "metadata"]

_META: Final = "meta.k8s.io/v1"
_FORMS: Final[dict[str, Form]] = {
    "as=Table": "table",
    "as=PartialObjectMetadata": "metadata",
    "as=PartialObjectMetadataList": "metadata",
}


def form_of(accept: str) -> Form:
    """The first form in an Accept header that can be served."""
    if "as=" not in accept:
        return "plain"
    for offer in accept.split(","):
        kind, *parameters = (part.strip() for part in offer.split(";"))
        if kind != "application/json":
            continue
        wanted = [parameter for parameter in parameters if parameter.startswith("as=")]
        if not wanted:
            return "plain"
        if wanted[0] in _FORMS and "v=v1" in parameters:
            return _FORMS[wanted[0]]
    return "plain"


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """The columns of a kind."""
    if resource.columns:
        return resource.columns
    return POD_COLUMNS if resource.built_in_kind == "Pod" else COLUMNS.get(resource.kind, PLAIN)


class Tables:
    """Tables of one kind.

    Args:
        resource: the kind.
        include: what each row carries besides its cells: `Metadata` (also for empty text), `Object` or `None`.
        clock: the time, for ages.
    """

    def __init__(self, resource: Resource, include: str, clock: Callable[[], datetime]) -> None:
        self._resource = resource
        self._columns = columns_of(resource)
        self._include = include or "Metadata"
        self._clock = clock

    def table(self, metadata: JsonObject, entries: list[Entry], *, with_columns: bool = True) -> JsonObject:
        """A Table object.

        Args:
            metadata: of the list, or of the object.
            entries: one row each.
            with_columns: whether the headings are told; a watch tells them once.
        """
        now = self._clock()
        return {
            "kind": "Table",
            "apiVersion": _META,
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in self._columns] if with_columns else None,
            "rows": [self._row(entry.obj, now) for entry in entries],
        }

    def _row(self, obj: JsonObject, now: datetime) -> JsonObject:
        row: JsonObject = {"cells": [column.cell(obj, now) for column in self._columns]}
        if self._resource.built_in_kind == "Pod" and (conditions := row_conditions(obj)):
            row["conditions"] = conditions
        if self._include == "Object":
            typed = {"kind": self._resource.kind, "apiVersion": self._resource.api_version}
            shown = obj if self._resource.from_stored is None else self._resource.from_stored(obj)
            row["object"] = {**typed, **shown}
        elif self._include == "Metadata":
            row["object"] = partial(obj)
        return row


def partial(obj: JsonObject) -> JsonObject:
    """An object's metadata as an object of its own."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": obj["metadata"]}


def partial_list(metadata: JsonObject, entries: list[Entry]) -> JsonObject:
    """The metadata of many objects."""
    partials = [partial(entry.obj) for entry in entries]
    return {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": metadata, "items": partials}


class _FormEncoder(Encoder):
    """Watch lines around another form of each object."""

    def change(self, change: Change, kind: str, entry: Entry | None) -> bytes:
        return watch_line(kind, encode(self._formed(entry or change.entry)))

    def added(self, entry: Entry) -> bytes:
        return watch_line("ADDED", encode(self._formed(entry)))

    def bookmark(self, version: int, annotations: JsonObject | None = None) -> bytes:
        obj = {"metadata": self.bookmark_metadata(version, annotations)}
        return watch_line("BOOKMARK", encode(self._formed(Entry(obj, b"", version))))

    def _formed(self, entry: Entry) -> JsonObject:
        raise NotImplementedError


class TableEncoder(_FormEncoder):
    """Every event is a table of one row; the first one tells the columns."""

    def __init__(self, resource: Resource, include: str, clock: Callable[[], datetime]) -> None:
        super().__init__(resource)
        self._tables = Tables(resource, include, clock)
        self._told = False

    def _formed(self, entry: Entry) -> JsonObject:
        told, self._told = self._told, True
        metadata = {"resourceVersion": str(entry.version)}
        return self._tables.table(metadata, [entry], with_columns=not told)


class PartialEncoder(_FormEncoder):
    """Every event shows the metadata of its object only."""

    def _formed(self, entry: Entry) -> JsonObject:
        return partial(entry.obj)
