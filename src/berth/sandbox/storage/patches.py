"""The four forms of a PATCH body, applied to a JSON object.

JSON patch (RFC 6902), JSON merge patch (RFC 7386), strategic merge patch and apply. Results share what they do not
change with the object they started from. Pure functions, called by `handlers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from berth.sandbox.kinds import errors
from berth.sandbox.kinds.fields import message_of
from berth.sandbox.objects import load_yaml, without_nulls
from berth.sandbox.storage import strategic

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.sandbox.kinds.resources import Resource

JsonObject = dict[str, Any]

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
ACCEPTED: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY)

_MAX_OPERATIONS: Final = 10_000
_decode = msgspec.json.Decoder().decode


class JsonPatchError(ValueError):
    """An operation of a JSON patch that cannot be carried out."""


def patched(obj: JsonObject, body: bytes, content_type: str, resource: Resource) -> JsonObject:
    """*obj* changed by a patch.

    Args:
        obj: the object with `kind` and `apiVersion`; read only.
        body: the patch.
        content_type: which form it has; any but apply.
        resource: the kind; custom resources know no strategic merge.

    Raises:
        ApiError: 400 for a patch that cannot be read, 415 for an unknown form, 422 for one that cannot be applied.
    """
    if content_type not in ACCEPTED or (content_type == STRATEGIC_PATCH and resource.typed_items):
        raise errors.unsupported_media_type()
    try:
        patch = _decode(body)
    except msgspec.DecodeError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from error
    result = _apply(obj, patch, content_type, resource)
    if not isinstance(result, dict):
        raise errors.bad_request("the patched object is no object")
    return result


def _apply(obj: JsonObject, patch: Any, content_type: str, resource: Resource) -> Any:
    if content_type == JSON_PATCH:
        if not isinstance(patch, list):
            raise errors.bad_request("error decoding patch: a JSON patch is a list of operations")
        try:
            return without_nulls(json_patch(obj, patch))
        except JsonPatchError as error:
            raise errors.unprocessable() from error
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: want an object")
    if content_type == MERGE_PATCH:
        return merge_patch(obj, patch)
    try:
        return strategic.merge(obj, patch, message_of(resource))
    except strategic.StrategicPatchError as error:
        raise errors.unprocessable() from error


def merge_patch(original: Any, patch: Any) -> Any:
    """A JSON merge patch: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(original) if isinstance(original, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def json_patch(original: Any, operations: list[JsonObject]) -> Any:
    """A JSON patch: operations one after the other.

    Raises:
        JsonPatchError: an operation cannot be carried out; nothing is changed then.
    """
    if len(operations) > _MAX_OPERATIONS:
        raise JsonPatchError(f"a JSON patch may have {_MAX_OPERATIONS} operations, got {len(operations)}")
    result = original
    for operation in operations:
        result = _operate(result, operation)
    return result


def _operate(document: Any, operation: JsonObject) -> Any:
    kind, path = operation.get("op"), _pointer(operation, "path")
    if kind == "add":
        return _changed(document, path, lambda box, name: _insert(box, name, operation.get("value")))
    if kind == "replace":
        return _changed(document, path, lambda box, name: _put(box, name, operation.get("value")))
    if kind == "remove":
        return _changed(document, path, _drop)
    if kind == "test":
        found = _look_up(document, path)
        if found != operation.get("value"):
            raise JsonPatchError(f"testing value {operation['path']} failed: test failed")
        return document
    if kind in ("move", "copy"):
        source = _pointer(operation, "from")
        value = _look_up(document, source)
        if kind == "move":
            document = _changed(document, source, _drop)
        return _changed(document, path, lambda box, name: _insert(box, name, value))
    raise JsonPatchError(f"Unexpected kind: {kind}")


def _pointer(operation: JsonObject, name: str) -> list[str]:
    text = operation.get(name)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise JsonPatchError(f"operation {operation.get('op')!r} needs a {name} such as /spec/replicas, got {text!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _look_up(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[_index(document, part)]
    return document


def _changed(document: Any, path: list[str], change: Callable[[Any, Any], None]) -> Any:
    """*document* with *change* done to the object or list that holds the last part of *path*."""
    if not path:
        raise JsonPatchError("the whole document cannot be changed by a patch")
    copy = dict(document) if isinstance(document, dict) else list(document) if isinstance(document, list) else None
    if copy is None:
        raise JsonPatchError(f"there is nothing below a plain value, at {path[0]!r}")
    if len(path) == 1:
        change(copy, path[0])
    else:
        index = _index(copy, path[0])
        copy[index] = _changed(copy[index], path[1:], change)
    return copy


def _index(box: Any, part: str) -> Any:
    if isinstance(box, dict) and part in box:
        return part
    if isinstance(box, list) and part.isdecimal() and int(part) < len(box):
        return int(part)
    raise JsonPatchError(f"path not found: missing value at {part!r}")


def _insert(box: Any, name: str, value: Any) -> None:
    if isinstance(box, dict):
        box[name] = value
    elif name == "-":
        box.append(value)
    elif name.isdecimal() and int(name) <= len(box):
        box.insert(int(name), value)
    else:
        raise JsonPatchError(f"index out of range: {name!r} in a list of {len(box)}")


def _put(box: Any, name: str, value: Any) -> None:
    box[_index(box, name)] = value


def _drop(box: Any, name: str) -> None:
    del box[_index(box, name)]


def decode_applied(body: bytes) -> JsonObject:
    """The object of an apply request, which may be JSON or YAML.

    Raises:
        ApiError: 400.
    """
    try:
        applied = _decode(body) if body.lstrip().startswith(b"{") else load_yaml(body)
    except (msgspec.DecodeError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from error
    if not isinstance(applied, dict):
        raise errors.bad_request("error decoding YAML: want an object")
    return applied


def applied(obj: JsonObject, wanted: JsonObject, resource: Resource) -> JsonObject:
    """*obj* with the fields of an apply request set.

    Fields are merged without keeping track of who owns them: nothing is removed that an earlier apply had set.
    """
    if resource.typed_items:
        return dict(merge_patch(obj, wanted))
    return strategic.merge(obj, wanted, message_of(resource))
