"""Quantities such as ``250m``, ``4Gi`` and ``2e3`` as exact integers.

Resource amounts are integers everywhere in the core: thousandths for CPU, whole units for all else.  Both round up,
as the reference's ``Quantity.MilliValue`` and ``Quantity.Value`` do, so that a pod never asks for less than it wrote.
Used by everything that reads a resource list; a faulty text is reported by whoever knows which object it came from.

Source: k8s apimachinery/pkg/api/resource/quantity.go.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

_GRAMMAR: Final = re.compile(
    r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?", re.ASCII
)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_NANO: Final = 10**9
_MICRO: Final = 10**6
_MAX_EXPONENT: Final = 400  # far beyond what an int64 holds; bounds the work that one text can cause
_EXACT_DIGITS: Final = 18  # up to here the reference keeps digits and power of ten apart


class QuantityError(ValueError):
    """A text that is not a quantity.

    Attributes:
        text: what was given.
    """

    def __init__(self, text: str) -> None:
        super().__init__(f"want a quantity such as 500m, 2 or 4Gi, got {text!r}")
        self.text = text


def parse_quantity(text: str) -> Fraction:
    """The exact amount that *text* stands for, rounded up to the next billionth.

    Args:
        text: a quantity in any of the three notations (binary suffix, decimal suffix, exponent).

    Returns:
        The amount.  One with a binary suffix, or with more than 18 digits, is capped to ``2**63 - 1``; one like
        ``1e30`` is not, and does not fit 64 bits later on.

    Raises:
        QuantityError: the text is no quantity.

    Source:
        k8s apimachinery/pkg/api/resource/quantity.go, ``ParseQuantity``.
    """
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise QuantityError(text)
    sign, number, suffix = match.groups(default="")
    amount = Fraction(number) * _scale(suffix)
    nano = amount * _NANO
    if nano.denominator != 1:
        amount = Fraction(-(-nano.numerator // nano.denominator), _NANO)
    if suffix in _BINARY or len(number.replace(".", "").lstrip("0")) > _EXACT_DIGITS:
        amount = min(amount, Fraction(MAX_INT64))
    return -amount if sign == "-" else amount


def _scale(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(1 << _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    exponent = max(-_MAX_EXPONENT, min(_MAX_EXPONENT, exponent))
    return Fraction(10) ** exponent


@lru_cache(maxsize=65536)
def nano_value(text: str) -> int:
    """Billionths: exact, so that amounts can be added before they are rounded.

    Raises:
        QuantityError: the text is no quantity.
    """
    amount = parse_quantity(text) * _NANO
    return amount.numerator


def whole(nano: int) -> int:
    """Whole units in *nano* billionths, rounded away from zero; 0 where they do not fit 64 bits."""
    return _rounded(nano, _NANO)


def milli(nano: int) -> int:
    """Thousandths in *nano* billionths, rounded away from zero; 0 where they do not fit 64 bits."""
    return _rounded(nano, _MICRO)


def wrapped(number: int) -> int:
    """What 64 bits keep of *number*, as array arithmetic and the reference have it."""
    return number if MIN_INT64 <= number <= MAX_INT64 else (number - MIN_INT64) % 2**64 + MIN_INT64


def _rounded(nano: int, unit: int) -> int:
    amount = nano // unit if nano < 0 else -(-nano // unit)
    return amount if MIN_INT64 <= amount <= MAX_INT64 else 0


def value(text: str) -> int:
    """Whole units, rounded away from zero (``1500m`` is 2).

    Raises:
        QuantityError: the text is no quantity.

    Source:
        k8s apimachinery/pkg/api/resource/quantity.go, ``Value``.
    """
    return whole(nano_value(text))


def milli_value(text: str) -> int:
    """Thousandths, rounded away from zero.

    Raises:
        QuantityError: the text is no quantity.

    Source:
        k8s apimachinery/pkg/api/resource/quantity.go, ``MilliValue``.
    """
    return milli(nano_value(text))
