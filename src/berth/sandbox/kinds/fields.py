"""What fields the built-in objects have: names, wire numbers, types, merge keys.

The facts are in `fields.txt`, one message per line: its name, then `name=number:type` for each field. Before the type,
`*` marks a field whose zero differs from its absence and `!` one that is always written; `[]` and `{}` stand for lists
and for maps with text keys. Types are single letters (see `Letter`) or names of messages. After the type, `@key` gives
the merge key of a list, `@` alone marks a set of plain values and `@!` an object that is replaced as a whole. A field
named `~` is no field: its message's fields stand directly in the object.

Loaded once, on first use. Read by `conform`, `proto` and `strategic`.

Source: the struct tags of the types in k8s.io/api and k8s.io/apimachinery.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from berth.sandbox.kinds.resources import Resource


class Letter:
    """The types that are no messages."""

    TEXT: Final = "s"
    BOOL: Final = "b"
    INT: Final = "i"
    LONG: Final = "l"
    DOUBLE: Final = "d"
    BYTES: Final = "y"
    QUANTITY: Final = "q"
    TIME: Final = "t"
    MICRO_TIME: Final = "u"
    DURATION: Final = "n"
    INT_OR_TEXT: Final = "x"
    RAW: Final = "r"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        number: on the wire.
        kind: a `Letter`, or the name of a message.
        repeated, mapped: whether it is a list, or a map from text.
        pointer: whether zero is a value of its own.
        always: whether it is written even when it is zero.
        merge: merge key; "" for a set of plain values, "!" for an object that is replaced, None for neither.
    """

    name: str
    number: int
    kind: str
    repeated: bool
    mapped: bool
    pointer: bool
    always: bool
    merge: str | None

    @property
    def is_message(self) -> bool:
        """Whether its values, or its members, are messages."""
        return len(self.kind) > 1


@dataclass(frozen=True, slots=True)
class Message:
    """A kind of object, or a part of one.

    Attributes:
        fields: by name, with those that stand in it directly.
        by_number: its own fields, by number.
        inlined: messages whose fields stand in it directly, by number.
        always: the fields that are always written.
    """

    name: str
    fields: dict[str, Field]
    by_number: dict[int, Field]
    inlined: dict[int, str]
    always: tuple[Field, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "always", tuple(each for each in self.fields.values() if each.always))


@cache
def _lines() -> dict[str, list[str]]:
    text = files("berth.sandbox.kinds").joinpath("fields.txt").read_text(encoding="utf-8")
    return {name: parts for name, *parts in (line.split(" ") for line in text.splitlines())}


@cache
def message(name: str) -> Message:
    """The message called *name*.

    Raises:
        KeyError: there is none.
    """
    fields: dict[str, Field] = {}
    by_number: dict[int, Field] = {}
    inlined: dict[int, str] = {}
    for part in _lines()[name]:
        label, _, rest = part.partition("=")
        number_text, _, type_text = rest.partition(":")
        number = int(number_text)
        if label == "~":
            inlined[number] = type_text
            fields.update(message(type_text).fields)
        else:
            fields[label] = by_number[number] = _field(label, number, type_text)
    return Message(name, fields, by_number, inlined)


def _field(name: str, number: int, text: str) -> Field:
    text, _, merge = text.partition("@") if "@" in text else (text, "", None)
    pointer, text = text.startswith("*"), text.removeprefix("*")
    always, text = text.startswith("!"), text.removeprefix("!")
    repeated, mapped = text.startswith("[]"), text.startswith("{}")
    kind = text[2:] if repeated or mapped else text
    return Field(name, number, kind, repeated, mapped, pointer, always, merge)


def message_of(resource: Resource) -> Message | None:
    """The message of a kind; None for custom resources, whose fields are not known here."""
    if resource.typed_items:
        return None
    return message_at(resource.api_version, resource.kind)


@cache
def message_at(api_version: str, kind: str) -> Message | None:
    """The message of a kind at a version such as `v1` or `apps/v1`, or None."""
    if kind.endswith("Options") and f"meta.{kind}" in _lines():
        return message(f"meta.{kind}")
    group, _, version = api_version.rpartition("/")
    package = group.partition(".")[0] or "core"
    name = f"{package}.{kind}" if version == "v1" else f"{package}.{version}.{kind}"
    return message(name) if name in _lines() else None
