"""Quantities in the one form in which the API server shows them.

`0.5`, `500m` and the number 0.5 are the same amount, and kube-apiserver answers `500m` whatever came in; clients rely
on getting text, never numbers. Parsing is that of `berth.api.quantity`. Called by the modules of defaults.

Source: k8s apimachinery/pkg/api/resource/quantity.go, `CanonicalizeBytes`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from berth.api.quantity import parse_quantity

_NANO: Final = 10**9
_DECIMAL: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_STEP: Final = 1024
_DECIMAL_STEP: Final = 1000
_EXPONENT: Final = re.compile(r"[eE][+-]?[0-9]+$")


@lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """The amount as kube-apiserver prints it.

    Raises:
        QuantityError: the text is no quantity.
    """
    amount = parse_quantity(text)
    if text.endswith("i") and abs(amount) >= _BINARY_STEP:
        return _scaled(-(-amount.numerator // amount.denominator), _BINARY_STEP, _BINARY)
    nano = int(amount * _NANO)
    if not _EXPONENT.search(text):
        return _scaled(nano, _DECIMAL_STEP, _DECIMAL)
    suffixes = ["e" + str(exponent) if exponent else "" for exponent in range(-9, 19, 3)]
    return _scaled(nano, _DECIMAL_STEP, suffixes)


def _scaled(number: int, step: int, suffixes: tuple[str, ...] | list[str]) -> str:
    if number == 0:
        return "0"
    index = 0
    while number % step == 0 and index < len(suffixes) - 1:
        number //= step
        index += 1
    return f"{number}{suffixes[index]}"


def shown(value: Any) -> Any:
    """A quantity of a JSON object in canonical form; anything that is none stays as it is for validation to find.

    Raises:
        QuantityError: the value is no quantity.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return canonical(str(value))
    return canonical(value) if isinstance(value, str) else value


def amount(value: Any) -> Fraction:
    """A quantity of a JSON object as an exact number.

    Raises:
        QuantityError: the value is no quantity.
    """
    return _amount(str(value))


@lru_cache(maxsize=65536)
def _amount(text: str) -> Fraction:
    return parse_quantity(text)
