"""A request taken apart, the answer to it, and the reading of bodies and query parameters.

Used by every module that answers requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import yaml

from berth.sandbox.kinds import errors
from berth.sandbox.objects import load_yaml, section, without_nulls
from berth.sandbox.serving import proto
from berth.sandbox.storage.registry import DeleteOptions, Preconditions

if TYPE_CHECKING:
    from berth.sandbox.kinds.routes import Route
    from berth.sandbox.storage.store import Key

JsonObject = dict[str, Any]

_JSON_TYPES: Final = ("application/json", "")
_YAML_TYPE: Final = "application/yaml"
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
    """A response: status code, JSON body, and what to warn the client of."""

    code: int
    body: bytes
    warnings: tuple[str, ...] = ()


def decode_body(call: Call) -> JsonObject:
    """The object in a request body, nulls left out; JSON, YAML or protobuf.

    Raises:
        ApiError: 400, 415.
    """
    if call.content_type == proto.CONTENT_TYPE:
        try:
            return proto.decode(call.body)
        except (proto.ProtobufError, UnicodeDecodeError, msgspec.DecodeError) as error:
            raise errors.bad_request(f"the object provided is unrecognized: {error}") from error
    if call.content_type not in (*_JSON_TYPES, _YAML_TYPE):
        raise errors.unsupported_media_type()
    try:
        value = load_yaml(call.body) if call.content_type == _YAML_TYPE else _decode(call.body)
    except (msgspec.DecodeError, yaml.YAMLError) as error:
        raise errors.bad_request(f"the object provided is unrecognized (must be of type Object): {error}") from error
    if not isinstance(value, dict):
        raise errors.bad_request("the object provided is unrecognized (must be of type Object)")
    result: JsonObject = without_nulls(value) if b"null" in call.body else value
    return result


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


def version_number(query: dict[str, str], *, watch: bool) -> int:
    """The resource version of the query; 0 if it is missing.

    Raises:
        ApiError: it is no number; 400, or 500 for a watch, as in kube-apiserver.
    """
    text = query.get("resourceVersion", "")
    if text and not text.isdecimal():
        message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise errors.ApiError(500, "", message) if watch else errors.bad_request(f"invalid resource version: {message}")
    return int(text or 0)


def delete_options(call: Call) -> DeleteOptions:
    """The options of a deletion: from the body, else from the query.

    Raises:
        ApiError: 400.
    """
    return options_from(decode_body(call) if call.body else {}, call)


def options_from(given: JsonObject, call: Call) -> DeleteOptions:
    """The options of a deletion that *given* states, completed from the query.

    Raises:
        ApiError: 400.
    """
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


def success(details: JsonObject | None = None, code: int = 0) -> JsonObject:
    """A `metav1.Status` that reports success."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code:
        status["code"] = code
    return status
