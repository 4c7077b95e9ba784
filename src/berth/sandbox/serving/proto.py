"""Reads request bodies in Kubernetes' protobuf form.

Clients written in Go send built-in kinds that way, kubectl's `create` commands among them. Only reading is needed: such
clients accept JSON answers. The field table decides what each number means. Called by `handlers`.

Source: k8s apimachinery/pkg/runtime/serializer/protobuf/doc.go (the envelope), the protobuf encoding.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from berth.sandbox.kinds.fields import Field, Letter, Message, message, message_at
from berth.sandbox.objects import rfc3339, rfc3339_micro

if TYPE_CHECKING:
    from collections.abc import Iterator

JsonObject = dict[str, Any]

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MORE: Final = 0x80  # set in every byte of a number but the last
_SIGN_BIT: Final = 1 << 63
_MAX_VARINT_BYTES: Final = 10
_decode_json = msgspec.json.Decoder().decode


class ProtobufError(ValueError):
    """A body that is not in this form, or of a kind that is not known."""


def decode(body: bytes) -> JsonObject:
    """The object in *body*, with `kind` and `apiVersion`, as JSON would have it.

    Raises:
        ProtobufError: it cannot be read.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin as Kubernetes' protobuf form does")
    envelope = dict(_parts(body[len(_MAGIC) :]))
    types = {number: _text(value) for number, value in _parts(_bytes(envelope.get(1, b"")))}
    api_version, kind = types.get(1, ""), types.get(2, "")
    known = message_at(api_version, kind)
    if known is None or known.name.startswith("apiextensions."):
        raise ProtobufError(f"{kind} in version {api_version!r} cannot be read in protobuf form, send JSON")
    return {"kind": kind, "apiVersion": api_version, **_object(known, _bytes(envelope.get(2, b"")))}


def _parts(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (number, value) pairs of an encoded message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            size, position = _varint(data, position)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {wire_type} is not used by Kubernetes")
        if position + size > len(data):
            raise ProtobufError("the body ends in the middle of a field")
        yield number, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = 0
    for count in range(_MAX_VARINT_BYTES):
        if position >= len(data):
            raise ProtobufError("the body ends in the middle of a number")
        byte = data[position]
        position += 1
        result |= (byte & ~_MORE) << (7 * count)
        if not byte & _MORE:
            return result, position
    raise ProtobufError("a number has too many bytes")


def _object(known: Message, data: bytes) -> JsonObject:
    result: JsonObject = {}
    for number, raw in _parts(data):
        if number in known.inlined:
            result.update(_object(message(known.inlined[number]), _bytes(raw)))
            continue
        field = known.by_number.get(number)
        if field is None:
            continue  # of a newer version, or one that JSON does not show
        if field.repeated:
            result.setdefault(field.name, []).append(_single(field, raw))
        elif field.mapped:
            entry = dict(_parts(_bytes(raw)))
            result.setdefault(field.name, {})[_text(entry.get(1, b""))] = _single(field, entry.get(2, b""))
        else:
            value = _single(field, raw)
            if value or field.pointer or field.always:
                result[field.name] = value
    return result


def _single(field: Field, raw: int | bytes) -> Any:
    if field.is_message:
        return _object(message(field.kind), _bytes(raw))
    kind = field.kind
    if kind == Letter.TEXT:
        return _text(raw)
    if kind == Letter.BOOL:
        return bool(raw)
    if kind in (Letter.INT, Letter.LONG):
        return _signed(raw)
    if kind == Letter.BYTES:
        return base64.b64encode(_bytes(raw)).decode()
    return _special(kind, dict(_parts(_bytes(raw))))


def _special(kind: str, parts: dict[int, int | bytes]) -> Any:
    if kind == Letter.QUANTITY:
        return _text(parts.get(1, b"")) or "0"
    if kind in (Letter.TIME, Letter.MICRO_TIME):
        if not parts:
            return None
        moment = _EPOCH + timedelta(seconds=_signed(parts.get(1, 0)), microseconds=_signed(parts.get(2, 0)) // 1000)
        return rfc3339(moment) if kind == Letter.TIME else rfc3339_micro(moment)
    if kind == Letter.INT_OR_TEXT:
        return _text(parts.get(3, b"")) if parts.get(1, 0) == 1 else _signed(parts.get(2, 0))
    if kind == Letter.RAW:
        raw = _bytes(parts.get(1, b""))
        return _decode_json(raw) if raw else None
    raise ProtobufError(f"a field of type {kind!r} cannot be read in protobuf form, send JSON")


def _signed(raw: int | bytes) -> int:
    if isinstance(raw, bytes):
        raise ProtobufError("text where a number was expected")
    return raw - 2 * _SIGN_BIT if raw & _SIGN_BIT else raw


def _bytes(raw: int | bytes) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("a number where text was expected")
    return raw


def _text(raw: int | bytes) -> str:
    return _bytes(raw).decode()
