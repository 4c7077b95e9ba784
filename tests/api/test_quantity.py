"""Quantities."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.quantity import MAX_INT64, MIN_INT64, QuantityError, milli_value, parse_quantity, value, whole, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

AMOUNTS: Mapping[str, tuple[str, Fraction | int]] = {
    "a whole number": ("12", 12),
    "thousandths": ("250m", Fraction(1, 4)),
    "millionths": ("5u", Fraction(5, 10**6)),
    "billionths": ("5n", Fraction(5, 10**9)),
    "a kilo": ("3k", 3000),
    "a decimal exa": ("2E", 2 * 10**18),
    "a kibi": ("3Ki", 3072),
    "an exbi": ("2Ei", 2 * 2**60),
    "an exponent": ("2e3", 2000),
    "an exponent with a sign": ("2E+3", 2000),
    "a negative exponent": ("1500e-3", Fraction(3, 2)),
    "a fraction": ("0.5", Fraction(1, 2)),
    "a fraction of a gibi": ("0.5Gi", 2**29),
    "a fraction without a whole": (".5", Fraction(1, 2)),
    "a whole without a fraction": ("2.", 2),
    "a plus": ("+1", 1),
    "a minus": ("-1500m", Fraction(-3, 2)),
    "less than a billionth is a billionth": ("0.1n", Fraction(1, 10**9)),
    "a billionth and a bit is two": ("1.000000000001n", Fraction(2, 10**9)),
    "leading zeros": ("007", 7),
    "the largest": ("9223372036854775807", MAX_INT64),
    "one more than the largest is capped": ("9223372036854775808", MAX_INT64),
    "too many exbi are capped": ("16Ei", MAX_INT64),
    "too many digits are capped": ("12345678901234567890123", MAX_INT64),
    "a power of ten is kept": ("1e30", 10**30),
}


@pytest.mark.parametrize(("text", "want"), AMOUNTS.values(), ids=AMOUNTS.keys())
def test_quantities_are_read_exactly(text: str, want: Fraction | int) -> None:
    assert parse_quantity(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1 Gi",
        "1gi",
        "1KI",
        "1mi",
        "k",
        ".",
        "-",
        "1..2",
        "1e",
        "1e1.5",
        "0x10",
        "1_000",
        "NaN",
        "inf",
        "\u0661",
    ],
)
def test_other_texts_are_no_quantities(text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert caught.value.text == text
    assert repr(text) in str(caught.value)


ROUNDED: Mapping[str, tuple[str, int, int]] = {
    "half a unit is one": ("500m", 1, 500),
    "a unit and a bit is two": ("1000001u", 2, 1001),
    "less than a thousandth is one": ("1u", 1, 1),
    "nothing is nothing": ("0", 0, 0),
    "away from zero": ("-1500m", -2, -1500),
    "thousandths beyond 64 bits are none": ("9223372036854775807", MAX_INT64, 0),
    "a power of ten beyond 64 bits is none": ("1e30", 0, 0),
}


@pytest.mark.parametrize(("text", "units", "thousandths"), ROUNDED.values(), ids=ROUNDED.keys())
def test_amounts_are_rounded_up(text: str, units: int, thousandths: int) -> None:
    assert (value(text), milli_value(text)) == (units, thousandths)


@given(st.integers(0, 10**15), st.sampled_from(["", "n", "u", "m", "k", "M", "Ki", "Mi", "e2", "e-2"]))
def test_reading_agrees_with_fractions(number: int, suffix: str) -> None:
    powers = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "e2": 2, "e-2": -2}
    binary = {"Ki": 2**10, "Mi": 2**20}
    scale = Fraction(binary[suffix]) if suffix in binary else Fraction(10) ** powers[suffix]
    want = min(number * scale, Fraction(MAX_INT64)) if suffix in binary else number * scale
    assert parse_quantity(f"{number}{suffix}") == want
    units = math.ceil(want)
    assert value(f"{number}{suffix}") == (units if units <= MAX_INT64 else 0)


@given(st.integers(-(10**30), 10**30))
def test_whole_units_fit_64_bits(nano: int) -> None:
    assert MIN_INT64 <= whole(nano) <= MAX_INT64


@given(st.integers(MIN_INT64, MAX_INT64), st.integers(MIN_INT64, MAX_INT64))
def test_wrapping_keeps_the_low_64_bits(one: int, other: int) -> None:
    total = wrapped(one + other)
    assert MIN_INT64 <= total <= MAX_INT64
    assert (total - one - other) % 2**64 == 0
    assert wrapped(one) == one
