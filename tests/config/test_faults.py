from __future__ import annotations

import pytest

from berth.api.durations import Duration
from berth.config.faults import ConfigError, Fault, FaultKind, duplicate, forbidden, invalid, not_supported, other
from berth.config.faults import required as required_fault

LINES = {
    "a number is bare": (invalid("a.b", 7, "too large"), "a.b: Invalid value: 7: too large"),
    "a text is quoted": (invalid("a", 'x"y', "odd"), r'a: Invalid value: "x\"y": odd'),
    "a duration is shown as written": (invalid("a", Duration.parse("90s"), "odd"), "a: Invalid value: 1m30s: odd"),
    "nothing is null": (invalid("a", None, "odd"), "a: Invalid value: null: odd"),
    "a structure is JSON": (invalid("a", [{"b": 1}], "odd"), 'a: Invalid value: [{"b": 1}]: odd'),
    "required has no value": (required_fault("a", "say it"), "a: Required value: say it"),
    "required needs no detail": (required_fault("a"), "a: Required value"),
    "forbidden has no value": (forbidden("a", "gate is off"), "a: Forbidden: gate is off"),
    "duplicate has no detail": (duplicate("a", "x"), 'a: Duplicate value: "x"'),
    "not supported lists what is": (
        not_supported("a", "z", ["x", "y"]),
        'a: Unsupported value: "z": supported values: "x", "y"',
    ),
    "strict tells only the detail": (
        Fault("a", FaultKind.STRICT, detail='unknown field "a"'),
        'strict decoding error: unknown field "a"',
    ),
    "every kind of line break becomes a space": (
        Fault("a", FaultKind.STRICT, detail='unknown field "a\r\x0b\u2028b"'),
        'strict decoding error: unknown field "a   b"',
    ),
    "a fault of no place": (other("", "cannot read"), "cannot read"),
    "line breaks never split a fault": (other("a", "one\ntwo"), "a: one two"),
}


@pytest.mark.parametrize(("fault", "line"), LINES.values(), ids=LINES.keys())
def test_a_fault_is_one_line(fault: Fault, line: str) -> None:
    assert str(fault) == line


def test_the_error_carries_every_fault_a_line_each() -> None:
    faults = [other("a", "one"), other("b", "two")]
    error = ConfigError(iter(faults))
    assert error.faults == tuple(faults)
    assert str(error) == "a: one\nb: two"
