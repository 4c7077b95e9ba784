"""A plugin's answer."""

from __future__ import annotations

import pytest

from berth.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable, unschedulable

# code: number, label, whether the pod cannot be placed as things are
CODES: dict[Code, tuple[int, str, bool]] = {
    Code.SUCCESS: (0, "Success", False),
    Code.ERROR: (1, "Error", False),
    Code.UNSCHEDULABLE: (2, "Unschedulable", True),
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: (3, "UnschedulableAndUnresolvable", True),
    Code.WAIT: (4, "Wait", False),
    Code.SKIP: (5, "Skip", False),
    Code.PENDING: (6, "Pending", True),
}


def test_every_code_is_in_the_table() -> None:
    assert set(CODES) == set(Code)


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_the_number_the_label_and_the_meaning_of_the_reference(code: Code) -> None:
    number, label, rejected = CODES[code]
    assert (int(code), code.label, code.rejected) == (number, label, rejected)
    status = Status(code)
    assert (status.ok, status.skipped, status.rejected) == (code is Code.SUCCESS, code is Code.SKIP, rejected)


def test_the_message_joins_all_reasons() -> None:
    assert unschedulable("too small", "too far").message == "too small, too far"
    assert unschedulable().message == ""


def test_a_status_says_whose_it_is_once_it_is_told() -> None:
    anonymous = unresolvable("no")
    named = anonymous.by("Fit")
    assert (anonymous.plugin, named.plugin) == ("", "Fit")
    assert (named.code, named.reasons) == (anonymous.code, anonymous.reasons)


def test_statuses_are_equal_if_code_reasons_and_plugin_are() -> None:
    assert error("x").by("a") == Status(Code.ERROR, ("x",), "a")
    assert len({error("x"), error("y"), unschedulable("x"), unresolvable("x"), error("x").by("a")}) == 5
    assert Status() == SUCCESS != SKIP
