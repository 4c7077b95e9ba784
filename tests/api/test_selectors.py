"""Label selectors, and the rules for keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    SelectorError,
    SelectorRequirement,
    compile_label_selector,
    label_key_fault,
    label_value_fault,
    make_requirement,
    parse_int64,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


def one(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(match_expressions=(SelectorRequirement(key=key, operator=operator, values=values),))


MATCHES: Mapping[str, tuple[LabelSelector | None, dict[str, str], bool]] = {
    "an absent selector selects nothing": (None, {"a": "b"}, False),
    "an empty selector selects everything": (LabelSelector(), {}, True),
    "a label": (LabelSelector(match_labels={"a": "b"}), {"a": "b", "c": "d"}, True),
    "a label with another value": (LabelSelector(match_labels={"a": "b"}), {"a": "c"}, False),
    "labels are joined by and": (LabelSelector(match_labels={"a": "b", "c": "d"}), {"a": "b"}, False),
    "In one of the values": (one("a", "In", "b", "c"), {"a": "c"}, True),
    "In the empty value": (one("a", "In", ""), {"a": ""}, True),
    "In needs the label": (one("a", "In", ""), {}, False),
    "NotIn one of the values": (one("a", "NotIn", "b"), {"a": "b"}, False),
    "NotIn without the label": (one("a", "NotIn", "b"), {}, True),
    "Exists": (one("a", "Exists"), {"a": ""}, True),
    "Exists without the label": (one("a", "Exists"), {}, False),
    "DoesNotExist": (one("a", "DoesNotExist"), {"b": ""}, True),
    "labels and expressions are joined by and": (
        LabelSelector(match_labels={"a": "b"}, match_expressions=(SelectorRequirement(key="c", operator="Exists"),)),
        {"a": "b"},
        False,
    ),
}


@pytest.mark.parametrize(("selector", "labels", "want"), MATCHES.values(), ids=MATCHES.keys())
def test_what_a_selector_selects(selector: LabelSelector | None, labels: dict[str, str], want: bool) -> None:
    assert compile_label_selector(selector).matches(labels) is want


def test_the_two_extremes_are_told_apart() -> None:
    assert compile_label_selector(None) == NOTHING
    assert compile_label_selector(LabelSelector()) == EVERYTHING
    assert EVERYTHING.empty
    assert not NOTHING.empty


FAULTS: Mapping[str, tuple[LabelSelector, str]] = {
    "a key that is none": (LabelSelector(match_labels={"-a": "b"}), "matchLabels[-a].key"),
    "a value that is none": (LabelSelector(match_labels={"a": "b c"}), "matchLabels[a].values[0][a]"),
    "In without values": (one("a", "In"), "matchExpressions[0].values"),
    "NotIn without values": (one("a", "NotIn"), "matchExpressions[0].values"),
    "Exists with values": (one("a", "Exists", "b"), "matchExpressions[0].values"),
    "DoesNotExist with values": (one("a", "DoesNotExist", "b"), "matchExpressions[0].values"),
    "an operator that labels do not have": (one("a", "Gt", "1"), "matchExpressions[0]"),
    "an operator that nobody has": (one("a", "Like", "1"), "matchExpressions[0]"),
    "the second value": (one("a", "In", "b", "-"), "matchExpressions[0].values[1][a]"),
}


@pytest.mark.parametrize(("selector", "path"), FAULTS.values(), ids=FAULTS.keys())
def test_faults_are_told_with_their_place(selector: LabelSelector, path: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_label_selector(selector)
    assert caught.value.path == path
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.under("spec").path == f"spec.{path}"


NUMBERS: Mapping[str, tuple[str, str, str | None, bool]] = {
    "above": ("Gt", "5", "6", True),
    "equal is not above": ("Gt", "5", "5", False),
    "below": ("Lt", "5", "4", True),
    "leading zeros": ("Gt", "0204", "0206", True),
    "a sign": ("Lt", "5", "-6", True),
    "a word": ("Gt", "5", "six", False),
    "a fraction": ("Gt", "5", "6.5", False),
    "beyond 64 bits": ("Gt", "5", "9223372036854775808", False),
    "no label": ("Lt", "5", None, False),
}


@pytest.mark.parametrize(("operator", "bound", "value", "want"), NUMBERS.values(), ids=NUMBERS.keys())
def test_labels_compared_as_numbers(operator: str, bound: str, value: str | None, want: bool) -> None:
    requirement = make_requirement("v", operator, (bound,), "e")
    assert requirement.matches({} if value is None else {"v": value}) is want


@pytest.mark.parametrize("values", [(), ("1", "2"), ("x",), ("1.5",), ("9223372036854775808",), ("-5",), ("+5",)])
def test_bounds_must_be_one_number_that_is_a_label_value(values: tuple[str, ...]) -> None:
    with pytest.raises(SelectorError, match=r"^e\.values"):
        make_requirement("v", "Gt", values, "e")


GOOD_KEYS = ("a", "A-b_c.9", "a" * 63, "example.com/a", "a.b-c.d/x", f"{'a' * 63}.{'b' * 63}/x")
BAD_NAMES = ("", "-a", "a-", "a b", "a" * 64, "ä")
BAD_KEYS = (*BAD_NAMES, "/a", "example.com/", "Example.com/a", "a_b/x", "a/b/c", f"{'a' * 254}/x")


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_good_label_keys(key: str) -> None:
    assert not label_key_fault(key)


@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_label_keys(key: str) -> None:
    assert label_key_fault(key)


@pytest.mark.parametrize("value", ["", "a", "A-b_c.9", "a" * 63])
def test_good_label_values(value: str) -> None:
    assert not label_value_fault(value)


@pytest.mark.parametrize("value", ["-a", "a-", "a b", "a" * 64, "a/b", "ä", "a\n"])
def test_bad_label_values(value: str) -> None:
    assert label_value_fault(value)


INTEGERS: Mapping[str | None, int | None] = {
    "0": 0,
    "-0": 0,
    "+7": 7,
    "007": 7,
    "-9223372036854775808": -(2**63),
    "9223372036854775808": None,
    "": None,
    None: None,
    " 1": None,
    "1_000": None,
    "1e3": None,
    "٣": None,
}


@pytest.mark.parametrize(("text", "want"), INTEGERS.items())
def test_integers_in_texts(text: str | None, want: int | None) -> None:
    assert parse_int64(text) == want


keys, values = st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "x", "y"])
nothing = st.lists(values, max_size=0)
requirements = st.one_of(
    st.tuples(keys, st.sampled_from(["In", "NotIn"]), st.lists(values, min_size=1, max_size=2)),
    st.tuples(keys, st.sampled_from(["Exists", "DoesNotExist"]), nothing),
)


def holds(key: str, operator: str, values: list[str], labels: dict[str, str]) -> bool:
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    inside = key in labels and labels[key] in values
    return inside if operator == "In" else not inside


@given(
    wanted=st.dictionaries(keys, values),
    expressions=st.lists(requirements, max_size=3),
    labels=st.dictionaries(keys, values),
)
def test_a_selector_is_the_conjunction_of_its_conditions(
    wanted: dict[str, str], expressions: list[tuple[str, str, list[str]]], labels: dict[str, str]
) -> None:
    conditions = (SelectorRequirement(key=key, operator=op, values=tuple(many)) for key, op, many in expressions)
    selector = LabelSelector(match_labels=wanted, match_expressions=tuple(conditions))
    want = wanted.items() <= labels.items() and all(holds(*each, labels) for each in expressions)
    assert compile_label_selector(selector).matches(labels) is want
