"""What can go wrong between us and an API server, as one tree.

Every call of this package either returns or raises a `KubeError`. An `ApiError` is an answer the server gave; a
`TransportError` means that no (complete) answer came; a `CredentialsError` means that no credentials could be had. Who
retries, and what, is decided by the callers: the reflectors, the dispatcher, the event recorder and the elector.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

_TEXT_LIMIT = 2048  # an error page of a proxy can be long; a log line should not be


class KubeError(Exception):
    """Root of everything this package raises on purpose."""


class CredentialsError(KubeError):
    """Credentials could not be read, obtained or used; the text names the source and the reason."""


class TransportError(KubeError):
    """No complete answer came: refused, reset, cut, timed out.

    Attributes:
        may_be_applied: whether the request may have reached the server, so that a write may have taken effect.
    """

    def __init__(self, message: str, *, may_be_applied: bool) -> None:
        super().__init__(message)
        self.may_be_applied = may_be_applied


class StatusCause(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `details.causes` of a Status."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The `details` of a Status."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """A `meta/v1` Status, the body of every error answer and of ERROR watch events."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ApiError(KubeError):
    """The server answered, and the answer is an error.

    Attributes:
        status: the HTTP status (for an ERROR watch event, the code inside its Status).
        reason: the machine-readable word of the Status, such as `Expired`; empty when the body was no Status.
        message: the server's sentence, trimmed.
        retry_after_s: how long the server asks us to wait, in seconds; None when it does not.
        details: the `details` of the Status, when there were any.
    """

    def __init__(
        self,
        status: int,
        reason: str = "",
        message: str = "",
        *,
        retry_after_s: float | None = None,
        details: StatusDetails | None = None,
    ) -> None:
        super().__init__(f"{status} {reason or _phrase(status)}: {message}" if message else f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s
        self.details = details


class BadRequestError(ApiError):
    """400: the request makes no sense to the server."""


class UnauthorizedError(ApiError):
    """401: the server does not know who we are, even after the credentials were renewed."""


class ForbiddenError(ApiError):
    """403: the server knows who we are and says no."""


class NotFoundError(ApiError):
    """404: no such object, or no such API."""


class ConflictError(ApiError):
    """409: somebody else was first: a stale resourceVersion, another uid, a pod that already has a node."""


class AlreadyExistsError(ConflictError):
    """409 with reason AlreadyExists: the name is taken."""


class GoneError(ApiError):
    """410, or reason Expired: the resourceVersion or continue token is too old; list again."""


class InvalidError(ApiError):
    """422: the object was understood and refused."""


class TooManyRequestsError(ApiError):
    """429: refused before it was carried out; come back after `retry_after_s`."""


class ServerError(ApiError):
    """5xx: the server could not answer properly. A write may have taken effect all the same."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
    429: TooManyRequestsError,
}
_BY_REASON: dict[str, type[ApiError]] = {
    "AlreadyExists": AlreadyExistsError,
    "Expired": GoneError,
    "Gone": GoneError,
    "TooManyRequests": TooManyRequestsError,
}
_SERVER_ERRORS_FROM = 500

_decode_status = msgspec.json.Decoder(Status).decode


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def error_from_status(status: Status, *, http_status: int = 0, retry_after_s: float | None = None) -> ApiError:
    """The `ApiError` that a Status stands for.

    Args:
        status: the decoded body.
        http_status: the status of the HTTP answer; 0 takes the Status' own code (watch ERROR events).
        retry_after_s: the Retry-After header, in seconds; without it the details' own figure counts.
    """
    code = http_status or status.code or HTTPStatus.INTERNAL_SERVER_ERROR
    if retry_after_s is None and status.details is not None and status.details.retry_after_seconds > 0:
        retry_after_s = float(status.details.retry_after_seconds)
    fallback = ServerError if code >= _SERVER_ERRORS_FROM else ApiError
    kind = _BY_REASON.get(status.reason) or _BY_STATUS.get(code, fallback)
    return kind(code, status.reason, status.message[:_TEXT_LIMIT], retry_after_s=retry_after_s, details=status.details)


def error_from_response(http_status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The `ApiError` for an HTTP answer that is not a success; a body that is no Status becomes the message."""
    retry_after_s = float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdigit() else None
    try:
        status = _decode_status(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body[:_TEXT_LIMIT].decode("utf-8", "replace").strip()
        status = Status(message=text)
    return error_from_status(status, http_status=http_status, retry_after_s=retry_after_s)
