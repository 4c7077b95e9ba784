"""The refusals of the embedded API server, in the form clients of Kubernetes expect.

Every refusal is an `ApiError` that carries a `metav1.Status`: code, reason, message and details. The constructors below
word them as kube-apiserver does, because clients branch on the reason and people read the message. Raised by every
module of the sandbox; turned into a response by `server`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth.sandbox.kinds.resources import JsonObject, Resource


class ApiError(Exception):
    """A request that was refused, with the Status to answer.

    Attributes:
        code: HTTP status code.
        reason: machine-readable word of `metav1.StatusReason`; empty for none.
        message: the sentence for people.
        details: `metav1.StatusDetails` as JSON, or None.
        headers: extra response headers, such as `Retry-After`.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: JsonObject | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> JsonObject:
        """The error as a `metav1.Status` object."""
        status: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


class NotServedError(Exception):
    """The path is none of ours: answered as plain text, as kube-apiserver does."""


class FieldError:
    """One fault in an object: where, what kind, and what is wrong.

    Args:
        kind: word of `metav1.CauseType`, such as `FieldValueInvalid`.
        field: path, such as `spec.containers[0].name`.
        message: as printed after the path.
    """

    __slots__ = ("field", "kind", "message")

    def __init__(self, kind: str, field: str, message: str) -> None:
        self.kind = kind
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> JsonObject:
        """The fault as a `metav1.StatusCause`."""
        return {"reason": self.kind, "message": self.message, "field": self.field}


def quote(value: Any) -> str:
    """A value as it is shown inside a field error: as JSON."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def required(field: str, detail: str = "") -> FieldError:
    """A field that has to be there and is not."""
    return FieldError("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def invalid_value(field: str, value: Any, detail: str) -> FieldError:
    """A field whose value breaks a rule."""
    return FieldError("FieldValueInvalid", field, f"Invalid value: {quote(value)}: {detail}")


def unsupported(field: str, value: Any, allowed: Sequence[str]) -> FieldError:
    """A field whose value is none of the allowed words."""
    words = ", ".join(quote(word) for word in allowed)
    return FieldError("FieldValueNotSupported", field, f"Unsupported value: {quote(value)}: supported values: {words}")


def duplicate(field: str, value: Any, detail: str = "") -> FieldError:
    """A value that has to be unique in its list and is not."""
    text = f"Duplicate value: {quote(value)}"
    return FieldError("FieldValueDuplicate", field, f"{text}: {detail}" if detail else text)


def forbidden_field(field: str, detail: str) -> FieldError:
    """A field that may not be set, or not be changed."""
    return FieldError("FieldValueForbidden", field, f"Forbidden: {detail}")


def _details(resource: Resource, name: str, kind: str | None = None) -> JsonObject:
    details: JsonObject = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = kind or resource.plural
    return details


def not_found(resource: Resource, name: str) -> ApiError:
    """404: no such object."""
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def already_exists(resource: Resource, name: str, *, leaving: bool = False) -> ApiError:
    """409: the name is taken, if only by an object that is being deleted."""
    message = f'{resource.qualified} "{name}" already exists'
    message = f"object is being deleted: {message}" if leaving else message
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, subresource: str = "", named: str = "") -> ApiError:
    """409: the object changed, or is in a state that forbids the operation.

    Args:
        resource: of which kind.
        name: of the object.
        why: the reason.
        subresource: where the operation was on one.
        named: what to call the resource instead of its plural.
    """
    called = named or (f"{resource.plural}/{subresource}" if subresource else resource.plural)
    qualified = f"{called}.{resource.group}" if resource.group else called
    message = f'Operation cannot be fulfilled on {qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, _details(resource, name, called))


def stale(resource: Resource, name: str) -> ApiError:
    """409: the writer did not see the newest version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def invalid(resource: Resource, name: str, faults: Sequence[FieldError], *, named: str = "") -> ApiError:
    """422: the object breaks rules; all faults are listed.

    Args:
        resource: of which kind.
        name: of the object.
        faults: at least one.
        named: what to call the resource instead of its kind.
    """
    kind = named or resource.kind
    qualified = f"{kind}.{resource.group}" if resource.group else kind
    text = str(faults[0]) if len(faults) == 1 else "[" + ", ".join(map(str, faults)) + "]"
    details = _details(resource, name, kind)
    details["causes"] = [fault.cause() for fault in faults]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {text}', details)


def unprocessable() -> ApiError:
    """422: a patch that does not fit the object; kube-apiserver does not tell why either."""
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def strict_patch(patch: str, faults: Sequence[str]) -> ApiError:
    """422: a patch that would set fields which the type does not have."""
    fault = invalid_value("patch", patch, f"strict decoding error: {', '.join(faults)}")
    return ApiError(422, "Invalid", f' "" is invalid: {fault}', {"causes": [fault.cause()]})


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    """403: understood, and refused."""
    message = f'{resource.qualified} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, _details(resource, name))


def expired(message: str) -> ApiError:
    """410: the version asked for is no longer kept; the client has to list again."""
    return ApiError(410, "Expired", message)


def unauthorized() -> ApiError:
    """401: no credentials, or wrong ones."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> ApiError:
    """405: the resource does not support the verb."""
    message = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", message, {})


def unsupported_media_type() -> ApiError:
    """415: the body is in a form that is not understood here."""
    return ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def initial_events_need_match() -> ApiError:
    """422: `sendInitialEvents` without the `resourceVersionMatch` that it requires."""
    detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    fault = forbidden_field("resourceVersionMatch", detail)
    details: JsonObject = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [fault.cause()]}
    return ApiError(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {fault}', details)


def too_large(limit_bytes: int) -> ApiError:
    """413: a body that nobody wants to keep."""
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit_bytes}", {})


def too_large_version(asked: int, current: int) -> ApiError:
    """504: a list at a version that does not exist yet."""
    message = f"Too large resource version: {asked}, current: {current}"
    details: JsonObject = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    return ApiError(504, "Timeout", f"Timeout: {message}", details, {"Retry-After": "1"})
