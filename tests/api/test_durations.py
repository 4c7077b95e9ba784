from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.api.durations import Duration

READ = {
    "seconds": ("15s", 15_000_000_000, "15s"),
    "several units": ("1m30s", 90_000_000_000, "1m30s"),
    "whole minutes are written with seconds": ("5m", 300_000_000_000, "5m0s"),
    "whole hours are written in full": ("2h", 7_200_000_000_000, "2h0m0s"),
    "fractions": ("1.5h", 5_400_000_000_000, "1h30m0s"),
    "a fraction without a whole part": (".5s", 500_000_000, "500ms"),
    "a point without a fraction": ("1.s", 1_000_000_000, "1s"),
    "milliseconds": ("250ms", 250_000_000, "250ms"),
    "microseconds in ASCII": ("3us", 3_000, "3µs"),
    "microseconds with the Greek letter": ("3μs", 3_000, "3µs"),
    "parts of a millisecond": ("1500us", 1_500_000, "1.5ms"),
    "nanoseconds": ("7ns", 7, "7ns"),
    "zero needs no unit": ("0", 0, "0s"),
    "negative": ("-2s", -2_000_000_000, "-2s"),
    "an explicit plus": ("+2s", 2_000_000_000, "2s"),
    "the smallest": ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s"),
}


@pytest.mark.parametrize(("text", "ns", "written"), READ.values(), ids=READ.keys())
def test_a_go_duration_is_read_and_written(text: str, ns: int, written: str) -> None:
    assert Duration.parse(text) == Duration(ns)
    assert str(Duration(ns)) == written


REFUSED = {
    "nothing": ("", 'time: invalid duration ""'),
    "a sign alone": ("-", 'time: invalid duration "-"'),
    "no unit": ("15", 'time: missing unit in duration "15"'),
    "no unit at the end": ("1m30", 'time: missing unit in duration "1m30"'),
    "an unknown unit": ("3d", 'time: unknown unit "d" in duration "3d"'),
    "a word": ("soon", 'time: invalid duration "soon"'),
    "a space between": ("1m 30s", 'time: unknown unit "m " in duration "1m 30s"'),
    "too long": ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
}


@pytest.mark.parametrize(("text", "complaint"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_duration_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^time: ") as caught:
        Duration.parse(text)
    assert str(caught.value) == complaint


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_duration_reads_back_as_it_was_written(ns: int) -> None:
    assert Duration.parse(str(Duration(ns))) == Duration(ns)


def test_seconds_are_a_float() -> None:
    assert Duration.parse("1.5s").seconds == 1.5
    assert Duration.of_seconds(3) == Duration.parse("3s")
