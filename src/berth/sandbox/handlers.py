"""The verbs of the API: get, list, create, update, patch, delete, watch.

A `Call` is a request whose path, query and body were taken apart; each verb answers with bytes that are ready to send.
Life-cycle rules are in `registry`, subresources that are not plain objects in `subresources`. Called by `server`.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from berth.sandbox import errors, patches, tables
from berth.sandbox.objects import section, without, without_nulls
from berth.sandbox.registry import DeleteOptions, Preconditions, Registry
from berth.sandbox.selectors import matcher
from berth.sandbox.store import Entry, Key, encode, encode_entry

if TYPE_CHECKING:
    from berth.sandbox.resources import Resource
    from berth.sandbox.routes import Route

JsonObject = dict[str, Any]

_JSON_TYPES: Final = ("application/json", "")
_KEPT_LISTS: Final = 64  # paged lists whose later pages can still be had
_decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class Call:
    """A request, taken apart.

    Attributes:
        content_type: media type of the body, without parameters.
        accept: the Accept header.
    """

    route: Route
    query: dict[str, str]
    body: bytes
    content_type: str
    accept: str

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return (self.route.namespace, self.route.name)

    @property
    def dry_run(self) -> bool:
        """Whether nothing may be kept."""
        return self.query.get("dryRun", "") == "All"


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: status code and JSON body."""

    code: int
    body: bytes


def decode_object(body: bytes) -> JsonObject:
    """The JSON object in a request body, nulls left out.

    Raises:
        ApiError: 400.
    """
    try:
        value = _decode(body)
    except msgspec.DecodeError as error:
        raise errors.bad_request(f"the object provided is unrecognized (must be of type Object): {error}") from error
    if not isinstance(value, dict):
        raise errors.bad_request("the object provided is unrecognized (must be of type Object)")
    result: JsonObject = without_nulls(value) if b"null" in body else value
    return result


class Verbs:
    """The verbs over one registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._lists: OrderedDict[tuple[str, str, int], list[Entry]] = OrderedDict()

    def get(self, call: Call) -> Answer:
        """One object, in the form that was asked for."""
        resource = call.route.resource
        entry = self.registry.get(resource, call.key)
        form = tables.form_of(call.accept)
        if form == "table":
            return Answer(200, encode(self._tables(call).table({"resourceVersion": str(entry.version)}, [entry])))
        if form == "metadata":
            return Answer(200, encode(tables.partial(entry.obj)))
        return Answer(200, encode_entry(resource, entry))

    def list_(self, call: Call) -> Answer:
        """Objects of one kind, all or a page of them."""
        page = self.select(call)
        form = tables.form_of(call.accept)
        if form == "table":
            return Answer(200, encode(self._tables(call).table(page.metadata(), page.entries)))
        if form == "metadata":
            return Answer(200, encode(tables.partial_list(page.metadata(), page.entries)))
        return Answer(200, encode_list(call.route.resource, page))

    def _tables(self, call: Call) -> tables.Tables:
        return tables.Tables(call.route.resource, call.query.get("includeObject", ""), self.registry.clock)

    def select(self, call: Call) -> Page:
        """The objects that a list request means.

        Raises:
            ApiError: 400 for a bad selector or number, 410 for a page of a list that is no longer kept, 504 for a
                version that does not exist yet.
        """
        route, query = call.route, call.query
        matches = matcher(route.resource, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        limit = number(query, "limit")
        start, version, entries = self._entries(call)
        if matches is not None:
            entries = [entry for entry in entries if matches(entry.obj)]
        entries = [entry for entry in entries if _key(entry) > start] if start else entries
        if not limit or len(entries) <= limit:
            return Page(version, entries, "", 0)
        self._keep(route, version)
        token = _make_token(version, _key(entries[limit - 1]))
        return Page(version, entries[:limit], token, 0 if matches else len(entries) - limit)

    def _entries(self, call: Call) -> tuple[Key | None, int, list[Entry]]:
        route, token = call.route, call.query.get("continue", "")
        store = self.registry.store
        if token:
            version, start = _read_token(token)
            kept = self._lists.get((route.resource.kept, route.namespace, version))
            if kept is None:
                raise errors.expired(
                    "The provided continue parameter is too old to display a consistent list result. "
                    "You can start a new list without the continue parameter."
                )
            return start, version, kept
        asked = version_number(call.query)
        if asked > store.version:
            raise errors.too_large_version(asked, store.version)
        return None, store.version, store.collection(route.resource).entries(route.namespace or None)

    def _keep(self, route: Route, version: int) -> None:
        name = (route.resource.kept, route.namespace, version)
        if name not in self._lists:
            self._lists[name] = self.registry.store.collection(route.resource).entries(route.namespace or None)
            if len(self._lists) > _KEPT_LISTS:
                self._lists.popitem(last=False)

    def create(self, call: Call) -> Answer:
        """A new object."""
        resource = call.route.resource
        obj = self.body_object(call)
        namespace = _namespace_of(call.route, obj)
        entry = self.registry.create(resource, namespace, _stored(resource, obj), dry_run=call.dry_run)
        return Answer(201, encode_entry(resource, entry))

    def update(self, call: Call) -> Answer:
        """An object written as a whole."""
        route = call.route
        obj = self.body_object(call)
        metadata = {**section(obj, "metadata")}
        _check_name(metadata, route.name)
        namespace = _namespace_of(route, obj)
        obj = _stored(route.resource, {**obj, "metadata": {**metadata, "name": route.name}})
        collection = self.registry.store.collection(route.resource)
        if route.resource.create_on_update and not route.subresource and collection.get(call.key) is None:
            entry = self.registry.create(route.resource, namespace, obj, dry_run=call.dry_run)
            return Answer(201, encode_entry(route.resource, entry))
        return self._updated(call, obj)

    def _updated(self, call: Call, obj: JsonObject) -> Answer:
        route = call.route
        entry = self.registry.update(route.resource, call.key, obj, subresource=route.subresource, dry_run=call.dry_run)
        return Answer(200, encode_entry(route.resource, entry))

    def patch(self, call: Call) -> Answer:
        """An object changed by a patch, in any of the four forms."""
        route, resource = call.route, call.route.resource
        if call.content_type == patches.APPLY:
            return self._apply(call)
        entry = self.registry.get(resource, call.key)
        shown = entry.obj if resource.from_stored is None else resource.from_stored(entry.obj)
        typed = {"kind": resource.kind, "apiVersion": resource.api_version, **shown}
        patched = patches.patched(typed, call.body, call.content_type, resource)
        _check_name(section(patched, "metadata"), route.name)
        return self._updated(call, _stored(resource, without(patched, "kind", "apiVersion")))

    def _apply(self, call: Call) -> Answer:
        route, resource = call.route, call.route.resource
        applied = patches.decode_applied(call.body)
        entry = self.registry.store.collection(resource).get(call.key)
        if entry is None:
            namespace = _namespace_of(route, applied)
            metadata = {**section(applied, "metadata"), "name": route.name}
            obj = _stored(resource, {**without(applied, "kind", "apiVersion"), "metadata": metadata})
            created = self.registry.create(resource, namespace, obj, dry_run=call.dry_run)
            return Answer(201, encode_entry(resource, created))
        shown = entry.obj if resource.from_stored is None else resource.from_stored(entry.obj)
        merged = patches.applied(shown, without(applied, "kind", "apiVersion"), resource)
        return self._updated(call, _stored(resource, merged))

    def delete(self, call: Call) -> Answer:
        """One object deleted, or marked for it."""
        resource = call.route.resource
        deletion = self.registry.delete(resource, call.key, delete_options(call))
        if not deletion.gone or resource.returns_deleted:
            return Answer(200, encode_entry(resource, deletion.entry))
        details: JsonObject = {"name": call.route.name}
        if resource.group:
            details["group"] = resource.group
        details["kind"] = resource.plural
        details["uid"] = deletion.entry.obj["metadata"]["uid"]
        return Answer(200, encode(success(details)))

    def delete_collection(self, call: Call) -> Answer:
        """All objects that a list request means, deleted or marked."""
        page = self.select(call)
        options = delete_options(call)
        for entry in page.entries:
            self.registry.delete(call.route.resource, _key(entry), options)
        return Answer(200, encode_list(call.route.resource, page))

    def body_object(self, call: Call) -> JsonObject:
        """The object in a request body, if it is of the resource's kind; without `kind` and `apiVersion`.

        Raises:
            ApiError: 400, 415.
        """
        if call.content_type not in _JSON_TYPES:
            raise errors.unsupported_media_type()
        obj = decode_object(call.body)
        resource = call.route.resource
        kind, api_version = obj.pop("kind", resource.kind), obj.pop("apiVersion", resource.api_version)
        if (api_version, kind) != (resource.api_version, resource.kind):
            raise errors.bad_request(_mistyped(resource, api_version, kind))
        return obj


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


def encode_list(resource: Resource, page: Page) -> bytes:
    """A list object; the items are glued from the bytes they are kept in."""
    if resource.typed_items:
        items = [encode_entry(resource, entry) for entry in page.entries]
    elif resource.from_stored is None:
        items = [entry.raw for entry in page.entries]
    else:
        items = [encode(resource.from_stored(entry.obj)) for entry in page.entries]
    head = encode({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": page.metadata()})
    return b'%b,"items":[%b]}' % (head[:-1], b",".join(items))


def success(details: JsonObject | None = None, code: int = 0) -> JsonObject:
    """A `metav1.Status` that reports success."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code:
        status["code"] = code
    return status


def number(query: dict[str, str], name: str) -> int:
    """A non-negative number of the query; 0 if it is missing.

    Raises:
        ApiError: 400.
    """
    text = query.get(name, "")
    if not text:
        return 0
    if not text.isdecimal():
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def version_number(query: dict[str, str]) -> int:
    """The resource version of the query; 0 if it is missing.

    Raises:
        ApiError: it is no number; 500, as in kube-apiserver.
    """
    text = query.get("resourceVersion", "")
    if text and not text.isdecimal():
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.ApiError(500, "", message)
    return int(text or 0)


def delete_options(call: Call) -> DeleteOptions:
    """The options of a deletion: from the body, else from the query.

    Raises:
        ApiError: 400.
    """
    given = decode_object(call.body) if call.body else {}
    grace = given.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
    wanted = section(given, "preconditions")
    try:
        grace_s = None if grace is None else int(grace)
    except (TypeError, ValueError) as error:
        raise errors.bad_request(f"gracePeriodSeconds must be an integer, got {grace!r}") from error
    return DeleteOptions(
        grace_s=grace_s,
        preconditions=Preconditions(wanted.get("uid"), wanted.get("resourceVersion")),
        dry_run=call.dry_run or "All" in given.get("dryRun", ()),
    )


def _stored(resource: Resource, obj: JsonObject) -> JsonObject:
    return obj if resource.to_stored is None else resource.to_stored(obj)


def _mistyped(resource: Resource, api_version: str, kind: str) -> str:
    """Why an object of another kind or version is refused, in the words of the typed decoder."""
    handled = f'{kind} in version "{api_version}" cannot be handled as a {resource.kind}'
    if api_version != resource.api_version:
        scheme = f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
        return f"{handled}: {scheme}"
    package = resource.group.partition(".")[0] or "core"
    return f"{handled}: converting ({resource.version}.{kind}) to ({package}.{resource.kind}): unknown conversion"


def _check_name(metadata: JsonObject, name: str) -> None:
    given = metadata.get("name") or name
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _namespace_of(route: Route, obj: JsonObject) -> str:
    namespace = section(obj, "metadata").get("namespace", "")
    if route.resource.namespaced and namespace and namespace != route.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return route.namespace


def _key(entry: Entry) -> Key:
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
