from __future__ import annotations

from typing import Any

import pytest

from berth.config.documents import parse_document
from berth.config.faults import ConfigError

READ: dict[str, tuple[str, Any]] = {
    "nothing": ("", None),
    "only a comment": ("# none\n", None),
    "a mapping": ("a: 1\nb: {c: [x, y]}\n", {"a": 1, "b": {"c": ["x", "y"]}}),
    "JSON": ('{"a": 1, "b": [true, null, "x"]}', {"a": 1, "b": [True, None, "x"]}),
    "JSON indented with tabs": ('{\n\t"a": {\n\t\t"b": 1.5\n\t}\n}', {"a": {"b": 1.5}}),
    "a flow mapping that is no JSON": ("{a: 1, b: x}", {"a": 1, "b": "x"}),
    "what JSON does not have is a text, as in YAML": ('{"a": NaN}', {"a": "NaN"}),
    "booleans of YAML 1.1": ("[yes, No, ON, off, true]", [True, False, True, False, True]),
    "nulls": ("[~, null, Null, ]", [None, None, None]),
    "whole numbers": ("[0, -1, +2, 0x1f, 0b11, 010]", [0, -1, 2, 31, 3, 8]),
    "other numbers": ("[1.5, .5, 2., 1e3, -2.5E-1]", [1.5, 0.5, 2.0, 1000.0, -0.25]),
    "no base-sixty numbers": ("a: 1:30", {"a": "1:30"}),
    "no timestamps": ("a: 2026-01-01", {"a": "2026-01-01"}),
    "quoted texts stay texts": ("a: '15'\nb: \"true\"", {"a": "15", "b": "true"}),
    "keys are texts": ("1: a\ntrue: b", {"1": "a", "true": "b"}),
    "anchors are copied": ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
    "merged keys give way": ("a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 3, "c": 2}}),
}


@pytest.mark.parametrize(("text", "value"), READ.values(), ids=READ.keys())
def test_a_document_is_read(text: str, value: Any) -> None:
    assert parse_document(text) == value


REFUSED = {
    "a repeated key": ("a: 1\na: 2\n", ['strict decoding error: key "a" already set']),
    "repeated keys, wherever they are": (
        "a: [{b: 1, b: 2}]\nc: {d: 1, e: 2, d: 3}\n",
        ['strict decoding error: key "b" already set', 'strict decoding error: key "d" already set'],
    ),
    "a repeated key in JSON": ('{"a": {"b": 1, "b": 2}}', ['strict decoding error: key "b" already set']),
    "broken YAML": ("a: [1\n", ["yaml: while parsing a flow sequence"]),
    "two documents": ("a: 1\n---\nb: 2\n", ["yaml: expected a single document"]),
    "a key that is a list": ("? [a]\n: 1\n", ["yaml: a key must be a scalar (line 1)"]),
    "an anchor within itself": ("a: &x [*x]\n", ["yaml: anchor at a[0] contains itself"]),
}


@pytest.mark.parametrize(("text", "lines"), REFUSED.values(), ids=REFUSED.keys())
def test_a_faulty_document_is_refused(text: str, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_document(text)
    told = str(caught.value).splitlines()
    assert len(told) == len(lines)
    assert all(line.startswith(start) for line, start in zip(told, lines, strict=True)), told


def test_the_path_of_a_repeated_key_is_known() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_document("profiles:\n- schedulerName: a\n  schedulerName: b\n")
    assert caught.value.faults[0].path == "profiles[0].schedulerName"
