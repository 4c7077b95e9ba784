"""Which taints a toleration covers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.node import Taint
from berth.api.pod import Toleration
from berth.api.tolerations import tolerates, tolerates_all

if TYPE_CHECKING:
    from collections.abc import Mapping

TAINT = Taint(key="team", value="red", effect="NoSchedule")


def a_toleration(key: str = "team", operator: str = "", value: str = "", effect: str = "") -> Toleration:
    return Toleration(key=key, operator=operator, value=value, effect=effect)


CASES: Mapping[str, tuple[Toleration, bool]] = {
    "the same key and value": (a_toleration(value="red"), True),
    "Equal is the default": (a_toleration(operator="Equal", value="red"), True),
    "another value": (a_toleration(value="blue"), False),
    "another key": (a_toleration(key="floor", value="red"), False),
    "any value": (a_toleration(operator="Exists"), True),
    "any taint": (a_toleration(key="", operator="Exists"), True),
    "any key of the same value": (a_toleration(key="", value="red"), True),
    "the same effect": (a_toleration(value="red", effect="NoSchedule"), True),
    "another effect": (a_toleration(value="red", effect="NoExecute"), False),
    "an unknown operator": (a_toleration(operator="Like", value="red"), False),
    "a comparison": (a_toleration(operator="Gt", value="1"), False),
}


@pytest.mark.parametrize(("toleration", "want"), CASES.values(), ids=CASES.keys())
def test_a_taint_is_covered(toleration: Toleration, want: bool) -> None:
    assert tolerates(toleration, TAINT) is want


NUMBERS: Mapping[str, tuple[str, str, str, bool]] = {
    "above": ("10", "Gt", "9", True),
    "equal is not above": ("9", "Gt", "9", False),
    "below": ("-10", "Lt", "9", True),
    "equal is not below": ("9", "Lt", "9", False),
    "leading zeros are no number": ("010", "Gt", "9", False),
    "nor in the toleration": ("10", "Gt", "09", False),
    "a plus is no number": ("+10", "Gt", "9", False),
    "minus zero is no number": ("-0", "Lt", "9", False),
    "nothing is no number": ("", "Lt", "9", False),
    "beyond 64 bits is no number": ("9223372036854775808", "Gt", "9", False),
    "the smallest number": ("-9223372036854775808", "Lt", "0", True),
}


@pytest.mark.parametrize(("value", "operator", "bound", "want"), NUMBERS.values(), ids=NUMBERS.keys())
def test_numbers_are_compared_only_if_the_operators_are_in_force(
    value: str, operator: str, bound: str, want: bool
) -> None:
    taint, toleration = Taint(key="team", value=value, effect="NoSchedule"), a_toleration("team", operator, bound)
    assert tolerates(toleration, taint, comparison_operators=True) is want
    assert not tolerates(toleration, taint)


keys, words = st.sampled_from(["", "a", "b"]), st.sampled_from(["", "x", "y"])
operators, effects = st.sampled_from(["", "Equal", "Exists"]), st.sampled_from(["", "NoSchedule"])
tolerations = st.lists(st.builds(a_toleration, keys, operators, words, effects), max_size=3)
taints = st.lists(st.builds(Taint, key=keys, value=words, effect=st.just("NoSchedule")), max_size=3)


@given(tolerations=tolerations, taints=taints)
def test_all_are_covered_if_each_is_covered_by_some(tolerations: list[Toleration], taints: list[Taint]) -> None:
    uncovered = [taint for taint in taints if not any(tolerates(each, taint) for each in tolerations)]
    assert tolerates_all(tolerations, taints) is (not uncovered)
