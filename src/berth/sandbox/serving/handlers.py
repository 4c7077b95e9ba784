"""The verbs of the API on objects: get, list, create, update, patch, delete.

Each takes a `Call` and answers with bytes that are ready to send. What an object has to look like is decided in
`conform`, its life in `registry`; subresources that are no plain writes are in `subresources`. Called by `server`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.sandbox.kinds import errors
from berth.sandbox.kinds.conform import conformed
from berth.sandbox.objects import section, without
from berth.sandbox.serving import tables
from berth.sandbox.serving.calls import Answer, Call, decode_body, delete_options, success
from berth.sandbox.serving.lists import Lists, key_of
from berth.sandbox.storage import patches
from berth.sandbox.storage.store import encode, encode_entry

if TYPE_CHECKING:
    from berth.sandbox.kinds.resources import Resource
    from berth.sandbox.kinds.routes import Route
    from berth.sandbox.storage.registry import Registry
    from berth.sandbox.storage.store import Entry

JsonObject = dict[str, Any]


class Verbs:
    """The verbs over one registry."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.lists = Lists(registry.store)

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
        """Objects of one kind, all or a page of them, in the form that was asked for."""
        page = self.lists.page(call)
        form = tables.form_of(call.accept)
        if form == "table":
            return Answer(200, encode(self._tables(call).table(page.metadata(), page.entries)))
        if form == "metadata":
            return Answer(200, encode(tables.partial_list(page.metadata(), page.entries)))
        return Answer(200, page.encode(call.route.resource))

    def _tables(self, call: Call) -> tables.Tables:
        return tables.Tables(call.route.resource, call.query.get("includeObject", ""), self.registry.clock)

    def create(self, call: Call) -> Answer:
        """A new object."""
        obj, warnings = self._checked(call)
        return self._created(call, obj, warnings)

    def _created(self, call: Call, obj: JsonObject, warnings: tuple[str, ...]) -> Answer:
        resource = call.route.resource
        namespace = _namespace_of(call.route, obj)
        entry = self.registry.create(resource, namespace, _stored(resource, obj), dry_run=call.dry_run)
        return Answer(201, encode_entry(resource, entry), warnings)

    def update(self, call: Call) -> Answer:
        """An object written as a whole."""
        route, resource = call.route, call.route.resource
        obj, warnings = self._checked(call)
        _check_name(obj, route.name)
        _namespace_of(route, obj)
        obj = {**obj, "metadata": {**section(obj, "metadata"), "name": route.name}}
        if resource.create_on_update and not route.subresource and self._kept(call) is None:
            return self._created(call, obj, warnings)
        return self._updated(call, obj, warnings)

    def _updated(self, call: Call, obj: JsonObject, warnings: tuple[str, ...]) -> Answer:
        route, resource = call.route, call.route.resource
        entry = self.registry.update(
            resource, call.key, _stored(resource, obj), subresource=route.subresource, dry_run=call.dry_run
        )
        return Answer(200, encode_entry(resource, entry), warnings)

    def patch(self, call: Call) -> Answer:
        """An object changed by a patch, in any of the four forms."""
        route, resource = call.route, call.route.resource
        if call.content_type == patches.APPLY:
            return self._apply(call)
        shown = _shown(resource, self.registry.get(resource, call.key))
        typed = {"kind": resource.kind, "apiVersion": resource.api_version, **shown}
        patched = without(patches.patched(typed, call.body, call.content_type, resource), "kind", "apiVersion")
        patched, unknown = conformed(resource, patched, shown)
        if unknown and call.query.get("fieldValidation") == "Strict":
            raise errors.strict_patch(call.body.decode(errors="replace"), _texts(unknown))
        _check_name(patched, route.name)
        return self._updated(call, patched, _warnings(call, unknown))

    def _apply(self, call: Call) -> Answer:
        route, resource = call.route, call.route.resource
        applied = without(patches.decode_applied(call.body), "kind", "apiVersion")
        entry = self._kept(call)
        if entry is None:
            applied = {**applied, "metadata": {**section(applied, "metadata"), "name": route.name}}
            obj, unknown = conformed(resource, applied)
            return self._created(call, obj, self._reported(call, unknown))
        shown = _shown(resource, entry)
        obj, unknown = conformed(resource, patches.applied(shown, applied, resource), shown)
        return self._updated(call, obj, self._reported(call, unknown))

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
        page = self.lists.page(call)
        options = delete_options(call)
        for entry in page.entries:
            self.registry.delete(call.route.resource, key_of(entry), options)
        return Answer(200, page.encode(call.route.resource))

    def body_object(self, call: Call) -> JsonObject:
        """The object in a request body, if it is of the resource's kind; without `kind` and `apiVersion`.

        Raises:
            ApiError: 400, 415.
        """
        obj = decode_body(call)
        resource = call.route.resource
        kind, api_version = obj.pop("kind", resource.kind), obj.pop("apiVersion", resource.api_version)
        if (api_version, kind) != (resource.api_version, resource.kind):
            raise errors.bad_request(_mistyped(resource, api_version, kind))
        return obj

    def _checked(self, call: Call) -> tuple[JsonObject, tuple[str, ...]]:
        obj, unknown = conformed(call.route.resource, self.body_object(call))
        return obj, self._reported(call, unknown)

    def _reported(self, call: Call, unknown: list[str]) -> tuple[str, ...]:
        if unknown and call.query.get("fieldValidation") == "Strict":
            resource = call.route.resource
            handled = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
            raise errors.bad_request(f"{handled}: strict decoding error: {', '.join(_texts(unknown))}")
        return _warnings(call, unknown)

    def _kept(self, call: Call) -> Entry | None:
        return self.registry.store.collection(call.route.resource).get(call.key)


def _texts(unknown: list[str]) -> list[str]:
    return [f'unknown field "{path}"' for path in unknown]


def _warnings(call: Call, unknown: list[str]) -> tuple[str, ...]:
    return () if call.query.get("fieldValidation") == "Ignore" else tuple(_texts(unknown))


def _shown(resource: Resource, entry: Entry) -> JsonObject:
    return entry.obj if resource.from_stored is None else resource.from_stored(entry.obj)


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


def _check_name(obj: JsonObject, name: str) -> None:
    given = section(obj, "metadata").get("name") or name
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _namespace_of(route: Route, obj: JsonObject) -> str:
    namespace = section(obj, "metadata").get("namespace", "")
    if route.resource.namespaced and namespace and namespace != route.namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return route.namespace
