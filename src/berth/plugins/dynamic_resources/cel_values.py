"""Quantities and semantic versions inside selectors, and the functions that selectors can call.

The evaluator has no types of ours, so both travel as bytes: a letter that says which, then a canonical form, so that
equal values are equal bytes.  Selectors are checked against the proper types before they are run (see `cel`), so no
other bytes come here.

Source: k8s apiserver/pkg/cel/library/quantity.go, semverlib.go, lists.go, regex.go and cel-go ext/sets.go.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from berth.api.quantity import MAX_INT64, MIN_INT64, QuantityError, nano_value

_NANO: Final = 10**9
_QUANTITY: Final = b"q"
_VERSION: Final = b"v"
_NUMBER: Final = r"(0|[1-9][0-9]*)"
_WORDS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORDS}))?(?:\+({_WORDS}))?", re.ASCII)
_LOOSE: Final = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?([-+].*)?", re.ASCII | re.DOTALL)


class Version(NamedTuple):
    """A semantic version; what was built does not matter for order."""

    major: int
    minor: int
    patch: int
    pre_release: tuple[tuple[int, int, str], ...]

    @property
    def rank(self) -> tuple[int, int, int, bool, tuple[tuple[int, int, str], ...]]:
        """Sorts as versions do: a pre-release comes before its release."""
        return self.major, self.minor, self.patch, not self.pre_release, self.pre_release


def quantity(text: str) -> bytes:
    """A quantity as selectors see it.

    Raises:
        ValueError: the text is no quantity.
    """
    return _QUANTITY + str(nano_value(text)).encode()


def version(text: str) -> bytes:
    """A semantic version as selectors see it.

    Raises:
        ValueError: the text is no semantic version.
    """
    _parse_version(text)
    return _VERSION + text.partition("+")[0].encode()


def normalized_version(text: str, is_loose: bool) -> bytes:
    """As `version`; a loose one may have a ``v`` in front, parts missing and zeros leading."""
    match = _LOOSE.fullmatch(text) if is_loose else None
    if match is None:
        return version(text)
    numbers = ".".join(str(int(number or "0")) for number in match.groups()[:3])
    return version(numbers + (match[4] or ""))


@lru_cache(maxsize=4096)
def _parse_version(text: str) -> Version:
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"want a semantic version such as 1.2.3, got {text!r}")
    words = match[4].split(".") if match[4] else []
    if any(len(word) > 1 and word[0] == "0" and word.isdecimal() for word in words):
        raise ValueError(f"numeric parts of a pre-release must not start with 0, got {text!r}")
    ranked = tuple((0, int(word), "") if word.isdecimal() else (1, 0, word) for word in words)
    return Version(int(match[1]), int(match[2]), int(match[3]), ranked)


def _nano(value: bytes) -> int:
    raw = bytes(value)
    if not raw.startswith(_QUANTITY):
        raise ValueError("no such overload")
    return int(raw[1:])


def _version(value: bytes) -> Version:
    raw = bytes(value)
    if not raw.startswith(_VERSION):
        raise ValueError("no such overload")
    return _parse_version(raw[1:].decode())


def _compare(one: bytes, other: bytes) -> int:
    if bytes(one).startswith(_VERSION):
        return _sign_of(_version(one).rank, _version(other).rank)
    return _sign_of(_nano(one), _nano(other))


def _sign_of(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _as_integer(value: bytes) -> int:
    nano = _nano(value)
    if nano % _NANO or not MIN_INT64 <= nano // _NANO <= MAX_INT64:
        raise ValueError("cannot convert value to integer")
    return nano // _NANO


def _is_integer(value: bytes) -> bool:
    nano = _nano(value)
    return nano % _NANO == 0 and MIN_INT64 <= nano // _NANO <= MAX_INT64


def _succeeds(call: Callable[..., Any], *arguments: Any) -> bool:
    try:
        call(*arguments)
    except (ValueError, QuantityError):
        return False
    return True


def _sum_of(one: bytes, nano: int) -> bytes:
    return _QUANTITY + str(_nano(one) + nano).encode()


def _found(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match[0] if match else ""


def _all_found(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in re.finditer(pattern, text)]
    return found if limit < 0 else found[:limit]


def _extreme(choose: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    def chosen(values: Sequence[Any]) -> Any:
        if not values:
            raise ValueError("min/max called on empty list")
        return choose(values)

    return chosen


def _includes(held: Any, value: Any) -> bool:
    if isinstance(held, list):
        return any(_same(each, value) for each in held)
    return _same(held, value)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


class Function(NamedTuple):
    """A function of selectors.

    Attributes:
        name: what it is called.
        takes: the types of its arguments, by the names that `cel` knows; of a method, the receiver first.
        gives: the type of its result.
        call: what it does.
        is_method: whether it is called as ``receiver.name(...)``.
    """

    name: str
    takes: tuple[str, ...]
    gives: str
    call: Callable[..., Any]
    is_method: bool = True


_Q, _V, _S, _I, _B, _L, _D = "quantity", "version", "string", "int", "bool", "list", "dyn"
_SCALARS: Final = (_I, _S, _B, _V)

FUNCTIONS: Final = (
    Function("quantity", (_S,), _Q, quantity, is_method=False),
    Function("isQuantity", (_S,), _B, lambda text: _succeeds(quantity, text), is_method=False),
    Function("sign", (_Q,), _I, lambda value: _sign_of(_nano(value), 0)),
    Function("isInteger", (_Q,), _B, _is_integer),
    Function("asInteger", (_Q,), _I, _as_integer),
    Function("asApproximateFloat", (_Q,), "double", lambda value: _nano(value) / _NANO),
    Function("add", (_Q, _Q), _Q, lambda one, other: _sum_of(one, _nano(other))),
    Function("add", (_Q, _I), _Q, lambda one, number: _sum_of(one, number * _NANO)),
    Function("sub", (_Q, _Q), _Q, lambda one, other: _sum_of(one, -_nano(other))),
    Function("sub", (_Q, _I), _Q, lambda one, number: _sum_of(one, -number * _NANO)),
    Function("semver", (_S,), _V, version, is_method=False),
    Function("semver", (_S, _B), _V, normalized_version, is_method=False),
    Function("isSemver", (_S,), _B, lambda text: _succeeds(version, text), is_method=False),
    Function("isSemver", (_S, _B), _B, lambda text, loose: _succeeds(normalized_version, text, loose), is_method=False),
    Function("major", (_V,), _I, lambda value: _version(value).major),
    Function("minor", (_V,), _I, lambda value: _version(value).minor),
    Function("patch", (_V,), _I, lambda value: _version(value).patch),
    *(
        Function(name, (kind, kind), gives, call)
        for kind in (_Q, _V)
        for name, gives, call in (
            ("compareTo", _I, _compare),
            ("isGreaterThan", _B, lambda one, other: _compare(one, other) > 0),
            ("isLessThan", _B, lambda one, other: _compare(one, other) < 0),
        )
    ),
    *(Function("includes", (held, value), _B, _includes) for held in (_L, *_SCALARS) for value in _SCALARS),
    Function("sum", (_L,), _D, sum),
    Function("min", (_L,), _D, _extreme(min)),
    Function("max", (_L,), _D, _extreme(max)),
    Function("isSorted", (_L,), _B, lambda values: all(a <= b for a, b in pairwise(values))),
    Function("find", (_S, _S), _S, _found),
    Function("findAll", (_S, _S), "strings", _all_found),
    Function("findAll", (_S, _S, _I), "strings", _all_found),
    Function("sets.contains", (_L, _L), _B, lambda all_, some: all(each in all_ for each in some), is_method=False),
    Function("sets.intersects", (_L, _L), _B, lambda one, other: any(each in one for each in other), is_method=False),
    Function(
        "sets.equivalent",
        (_L, _L),
        _B,
        lambda one, other: all(each in one for each in other) and all(each in other for each in one),
        is_method=False,
    ),
)
