"""As much OpenAPI as kubectl needs: that fields are validated, and what fields there are.

`kubectl apply` looks for the PATCH operation of a kind and its `fieldValidation` parameter; `kubectl explain` for the
schema of a kind. Both are made from the resource table and the field table. Texts that describe fields are not served.
Called by `discovery`.

Source: k8s cli-runtime/pkg/resource/query_param_verifier_v3.go; kubectl/pkg/explain/v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds.fields import Field, Letter, Message, message, message_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.sandbox.kinds.resources import Resource

JsonObject = dict[str, Any]

_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_TYPES: Final[dict[str, JsonObject]] = {
    Letter.TEXT: {"type": "string"},
    Letter.BOOL: {"type": "boolean"},
    Letter.INT: {"type": "integer", "format": "int32"},
    Letter.LONG: {"type": "integer", "format": "int64"},
    Letter.DOUBLE: {"type": "number", "format": "double"},
    Letter.BYTES: {"type": "string", "format": "byte"},
    Letter.QUANTITY: {"type": "string"},
    Letter.TIME: {"type": "string", "format": "date-time"},
    Letter.MICRO_TIME: {"type": "string", "format": "date-time"},
    Letter.DURATION: {"type": "string"},
    Letter.INT_OR_TEXT: {"type": "string", "format": "int-or-string"},
    Letter.RAW: {"type": "object"},
}


def document(resources: Iterable[Resource], minor: str) -> JsonObject:
    """The document of one group version.

    Args:
        resources: its kinds.
        minor: the Kubernetes version to be, such as `1.37`.
    """
    paths: JsonObject = {}
    schemas: JsonObject = {}
    for resource in resources:
        if "patch" in resource.verbs:
            paths[_item_path(resource)] = {"patch": _patch_operation(resource)}
        if (known := message_of(resource)) is not None:
            _add_schema(known, schemas)
            schemas[_name(known.name)]["x-kubernetes-group-version-kind"] = [_kind_of(resource)]
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": minor},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _item_path(resource: Resource) -> str:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{resource.base_path}{scope}/{resource.plural}/{{name}}"


def _kind_of(resource: Resource) -> JsonObject:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _patch_operation(resource: Resource) -> JsonObject:
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in ("dryRun", "fieldValidation")]
    return {
        "operationId": f"patch{resource.kind}",
        "parameters": parameters,
        "requestBody": {"content": {form: {"schema": {"type": "object"}} for form in _PATCHES}, "required": True},
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": _kind_of(resource),
    }


def _add_schema(known: Message, schemas: JsonObject) -> None:
    name = _name(known.name)
    if name in schemas:
        return
    schemas[name] = {}  # a message may contain itself
    properties = {field.name: _property(field) for field in known.fields.values()}
    required = [field.name for field in known.always if _is_required(field)]
    schemas[name] |= {"type": "object", "properties": properties, **({"required": required} if required else {})}
    for field in known.fields.values():
        if field.is_message:
            _add_schema(message(field.kind), schemas)


def _property(field: Field) -> JsonObject:
    inner: JsonObject = _TYPES.get(field.kind) or {"$ref": f"#/components/schemas/{_name(field.kind)}"}
    if field.mapped:
        return {"type": "object", "additionalProperties": inner}
    shown: JsonObject = {"type": "array", "items": inner} if field.repeated else inner
    if field.merge and field.repeated:
        marks = {"x-kubernetes-patch-merge-key": field.merge, "x-kubernetes-patch-strategy": "merge"}
        return {**shown, **marks}
    return shown


def _is_required(field: Field) -> bool:
    return (not field.is_message and field.kind not in (Letter.TIME, Letter.MICRO_TIME)) or field.repeated


def _name(message_name: str) -> str:
    package, _, kind = message_name.rpartition(".")
    if package == "meta":
        return f"io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"
    group, _, version = package.partition(".")
    return f"io.k8s.api.{group}.{version or 'v1'}.{kind}"
