"""Which objects a list request means, page by page.

A list that is cut short is kept as it was, so that its later pages belong to the same version; only so many are kept,
and a page of a forgotten one is refused. Called by `handlers`.

Source: k8s apiserver/pkg/registry/generic/registry/store.go, apiserver/pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from berth.sandbox.kinds import errors
from berth.sandbox.serving.calls import Call, number, version_number
from berth.sandbox.serving.selectors import matcher
from berth.sandbox.storage.store import Entry, Key, Store, encode, encode_entry

if TYPE_CHECKING:
    from berth.sandbox.kinds.resources import Resource

JsonObject = dict[str, Any]

_KEPT_LISTS: Final = 64
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Page:
    """Some objects at one version, and how to get the rest."""

    version: int
    entries: list[Entry]
    token: str
    remaining: int

    def metadata(self) -> JsonObject:
        """The page as `metav1.ListMeta`."""
        metadata: JsonObject = {"resourceVersion": str(self.version)}
        if self.token:
            metadata["continue"] = self.token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata

    def encode(self, resource: Resource) -> bytes:
        """The page as a list object; the items are glued from the bytes they are kept in."""
        if resource.typed_items:
            items = [encode_entry(resource, entry) for entry in self.entries]
        elif resource.from_stored is None:
            items = [entry.raw for entry in self.entries]
        else:
            items = [encode(resource.from_stored(entry.obj)) for entry in self.entries]
        head = encode({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": self.metadata()})
        return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))


class Lists:
    """The list requests on one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # (collection, namespace, version) -> all objects of a list whose later pages were not fetched yet
        self._kept: OrderedDict[tuple[str, str, int], list[Entry]] = OrderedDict()

    def page(self, call: Call) -> Page:
        """The objects that a list request means.

        Raises:
            ApiError: 400 for a bad selector, number or token, 410 for a page of a list that is no longer kept, 504 for
                a version that does not exist yet.
        """
        route, query = call.route, call.query
        matches = matcher(route.resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        limit = number(query, "limit")
        start, version, everything = self._from(call)
        entries = everything if matches is None else [entry for entry in everything if matches(entry.obj)]
        if start is not None:
            entries = [entry for entry in entries if key_of(entry) > start]
        if not limit or len(entries) <= limit:
            return Page(version, entries, "", 0)
        self._keep((route.resource.kept, route.namespace, version), everything)
        token = _make_token(version, key_of(entries[limit - 1]))
        return Page(version, entries[:limit], token, 0 if matches else len(entries) - limit)

    def _from(self, call: Call) -> tuple[Key | None, int, list[Entry]]:
        route, token = call.route, call.query.get("continue", "")
        if token:
            version, start = _read_token(token)
            kept = self._kept.get((route.resource.kept, route.namespace, version))
            if kept is None:
                raise errors.expired(
                    "The provided continue parameter is too old to display a consistent list result. "
                    "You can start a new list without the continue parameter."
                )
            return start, version, kept
        asked, current = version_number(call.query, watch=False), self._store.version
        if asked > current:
            raise errors.too_large_version(asked, current)
        if asked < current and call.query.get("resourceVersionMatch") == "Exact":
            raise errors.expired("The resourceVersion for the provided list is too old.")
        return None, current, self._store.collection(route.resource).entries(route.namespace or None)

    def _keep(self, name: tuple[str, str, int], entries: list[Entry]) -> None:
        self._kept[name] = entries
        if len(self._kept) > _KEPT_LISTS:
            self._kept.popitem(last=False)

    def forget(self) -> None:
        """Keep no list any longer: every later page is refused."""
        self._kept.clear()


def key_of(entry: Entry) -> Key:
    """Namespace and name of a kept object."""
    metadata = entry.obj["metadata"]
    return (metadata.get("namespace", ""), metadata["name"])


def _make_token(version: int, last: Key) -> str:
    text = encode({"v": "meta.k8s.io/v1", "rv": version, "start": list(last)})
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key]:
    try:
        content = _decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = content["start"]
        return int(content["rv"]), (str(namespace), str(name))
    except (ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
