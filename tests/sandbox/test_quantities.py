"""Quantities in their one form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.quantity import QuantityError, parse_quantity
from berth.sandbox.kinds.quantities import canonical, shown

FORMS = {
    "1": "1",
    "0.5": "500m",
    "1000m": "1",
    "1500m": "1500m",
    "1000": "1k",
    "100000k": "100M",
    "1024Ki": "1Mi",
    "0.5Gi": "512Mi",
    "1.5Gi": "1536Mi",
    "1023Ki": "1023Ki",
    "1e3": "1e3",
    "12e6": "12e6",
    "100": "100",
    "0": "0",
    "-1": "-1",
    "1.1n": "2n",
}


@pytest.mark.parametrize(("text", "form"), FORMS.items())
def test_each_amount_has_one_form(text: str, form: str) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize(("value", "form"), [(1, "1"), (0.25, "250m"), (2000, "2k"), ("4Gi", "4Gi")])
def test_numbers_are_amounts_too(value: Any, form: str) -> None:
    assert shown(value) == form


def test_what_is_no_amount_is_an_error() -> None:
    with pytest.raises(QuantityError):
        canonical("lots")


@given(
    st.integers(0, 10**9),
    st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3"]),
)
def test_the_form_is_the_same_amount_and_stays_as_it_is(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    form = canonical(text)
    assert parse_quantity(form) == parse_quantity(text)
    assert canonical(form) == form
