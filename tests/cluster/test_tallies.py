"""Sums over domains follow every change of a column and of the labels, and belong to whoever asked for them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from berth.cluster.columns import CodedColumn
from berth.cluster.tallies import Column

if TYPE_CHECKING:
    from collections.abc import Iterable

ROWS = 5
VALUES = (None, "a", "b", "c")

MOVES = st.tuples(st.just("move"), st.integers(0, ROWS - 1), st.integers(-2, 3))
LABELLINGS = st.tuples(st.just("label"), st.integers(0, ROWS - 1), st.sampled_from(VALUES))
GROWTHS = st.just(("grow",))


def summed(column: Column, labels: CodedColumn[str | None]) -> dict[str | None, int]:
    """What the column says, by value; without zeros."""
    sums = column.sums(labels)
    assert len(sums) == len(labels.values)
    return {value: int(many) for value, many in zip(labels.values, sums, strict=True) if many}


def added_up(column: Column, labels: CodedColumn[str | None]) -> dict[str | None, int]:
    """The same, gone through row by row."""
    total: Counter[str | None] = Counter()
    for row, many in enumerate(column.counts.tolist()):
        total[labels.get(row)] += many
    return {value: many for value, many in total.items() if many}


@given(st.lists(MOVES | LABELLINGS | GROWTHS, max_size=30))
def test_sums_are_those_of_the_rows_after_whatever_happened(happenings: Iterable[tuple[object, ...]]) -> None:
    column, labels = Column(ROWS), CodedColumn[str | None](None, ROWS)
    for happening in happenings:
        match happening:
            case ("move", int(row), int(by)):
                column.move(row, by)
            case ("label", int(row), str() | None as value):
                labels.set(row, value)
            case _:
                column.grow(len(column.counts) + 1)
                labels.grow(len(labels.codes) + 1)
        assert summed(column, labels) == added_up(column, labels)


def test_sums_stand_for_the_codes_of_now_when_unused_values_were_dropped() -> None:
    column, labels = Column(ROWS), CodedColumn[str | None](None, ROWS)
    for turn in range(3000):
        labels.set(turn % ROWS, f"value-{turn}")
        column.move(turn % ROWS, 1)
        if turn % 100 == 0:
            assert summed(column, labels) == added_up(column, labels)
    assert len(labels.values) < 3000, "values were dropped"
    assert summed(column, labels) == added_up(column, labels)


def test_who_writes_to_sums_changes_nobody_elses() -> None:
    column, labels = Column(ROWS), CodedColumn[str | None](None, ROWS)
    column.move(0, 2)
    column.sums(labels)[0] = 99
    assert np.array_equal(column.sums(labels), [2])
