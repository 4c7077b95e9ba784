"""Coded columns, the change log, the images and the order of zones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.api.node import ContainerImage
from berth.cluster.changelog import ChangeLog
from berth.cluster.columns import CodedColumn
from berth.cluster.images import ImageTable
from berth.cluster.zones import ZoneOrder, zone_key

if TYPE_CHECKING:
    from collections.abc import Mapping


@given(
    values=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    rows=st.lists(st.integers(0, 29), max_size=40),
)
@settings(deadline=None)
def test_a_question_asked_per_value_is_answered_per_row(values: list[int], rows: list[int]) -> None:
    column = CodedColumn[int](0, 30)
    for row, value in enumerate(values):
        column.set(row, value)
    asked = np.array(rows, dtype=np.intp)
    padded = values + [0] * 30
    assert column.mask(lambda value: value > 4, asked).tolist() == [padded[row] > 4 for row in rows]
    assert column.numbers(lambda value: value * 7, asked).tolist() == [padded[row] * 7 for row in rows]
    assert [column.get(row) for row in rows] == [padded[row] for row in rows]


def test_setting_tells_whether_something_changed() -> None:
    column = CodedColumn[str | None](None, 4)
    assert column.set(1, "a")
    assert not column.set(1, "a")
    assert column.set(1, None)
    assert column.code_of("a") == 1
    assert column.code_of("b") is None


def test_values_out_of_use_are_dropped_in_the_end() -> None:
    column = CodedColumn[str | None](None, 4)
    column.set(3, "kept")
    for i in range(5000):
        column.set(0, f"value-{i}")
    assert len(column.values) < 1500
    assert [column.get(row) for row in range(4)] == ["value-4999", None, None, "kept"]
    assert column.values[0] is None
    assert column.code_of("kept") == column.codes[3]


def test_the_log_forgets_what_was_undone() -> None:
    log = ChangeLog()
    log.touch(1)
    mark = log.mark()
    log.touch(2)
    log.rewind(mark)
    assert log.since(mark) == []
    log.touch(3)
    assert log.since(mark) == [3]


def images(*names: str, size: int = 1) -> tuple[ContainerImage, ...]:
    return tuple(ContainerImage(names=(name,), size_bytes=size) for name in names)


def test_an_image_is_known_to_lie_on_all_its_nodes() -> None:
    table = ImageTable()
    for row in range(4):
        table.set(row, images("shared", f"own-{row}"))
    shared = table.get("shared")
    assert shared is not None
    assert shared.rows == {0, 1, 2, 3}
    table.set(2, ())
    assert shared.rows == {0, 1, 3}
    assert table.get("own-2") is None


def test_the_size_is_what_the_first_node_said_until_the_last_one_is_gone() -> None:
    table = ImageTable()
    table.set(0, images("i", size=10))
    table.set(1, images("i", size=20))
    table.set(0, ())
    state = table.get("i")
    assert state is not None
    assert (state.size_bytes, state.rows) == (10, {1})
    table.set(1, ())
    table.set(1, images("i", size=20))
    state = table.get("i")
    assert state is not None
    assert state.size_bytes == 20


def test_the_version_moves_only_with_the_images() -> None:
    table = ImageTable()
    table.set(0, images("i"))
    version = table.version
    table.set(0, images("i"))
    table.set(1, ())
    assert table.version == version
    table.set(0, images("j"))
    assert table.version > version


OLD, NEW = "failure-domain.beta.kubernetes.io", "topology.kubernetes.io"
KEYS: Mapping[str, tuple[dict[str, str], str]] = {
    "no labels": ({}, ""),
    "a region only": ({f"{NEW}/region": "r1"}, "r1:\x00:"),
    "a zone only": ({f"{NEW}/zone": "z2"}, ":\x00:z2"),
    "both": ({f"{NEW}/region": "r1", f"{NEW}/zone": "z2"}, "r1:\x00:z2"),
    "the old labels come first": ({f"{OLD}/zone": "old", f"{NEW}/zone": "new"}, ":\x00:old"),
    "the old labels alone": ({f"{OLD}/zone": "z", f"{OLD}/region": "r"}, "r:\x00:z"),
}


@pytest.mark.parametrize(("labels", "want"), KEYS.values(), ids=KEYS.keys())
def test_zones(labels: dict[str, str], want: str) -> None:
    assert zone_key(labels) == want


PLACES = [("", ""), ("r1", ""), ("", "z2"), ("r1", "z2"), ("r1", "z2"), ("r1", "z3"), *[("r2", "z2")] * 3]


def an_order(*rows: int) -> ZoneOrder:
    order = ZoneOrder()
    for row in rows:
        region, zone = PLACES[row]
        order.set(row, {f"{NEW}/region": region, f"{NEW}/zone": zone})
    return order


def test_one_of_each_zone_in_turn() -> None:
    assert an_order(*range(9)).rows() == [0, 1, 2, 3, 5, 6, 4, 7, 8]


def test_a_late_node_of_an_early_zone_comes_in_the_second_turn() -> None:
    assert an_order(4, 5, 6, 7, 8, 3).rows() == [4, 5, 6, 3, 7, 8]


def test_an_emptied_zone_goes_last_when_it_comes_back() -> None:
    order = an_order(2, 3, 4)
    for row in (2, 3, 4):
        order.remove(row)
    assert order.rows() == []
    order.set(5, {f"{NEW}/region": "r1", f"{NEW}/zone": "z3"})
    order.set(3, {f"{NEW}/region": "r1", f"{NEW}/zone": "z2"})
    assert order.rows() == [5, 3]


def test_a_node_that_moves_goes_to_the_end_of_its_new_zone() -> None:
    order = an_order(3, 5, 6)
    order.set(3, {f"{NEW}/region": "r2", f"{NEW}/zone": "z2"})
    assert order.rows() == [5, 6, 3]
    order.set(5, {f"{NEW}/region": "r1", f"{NEW}/zone": "z3", "other": "label"})
    assert order.rows() == [5, 6, 3]


def test_removing_what_is_not_there_changes_nothing() -> None:
    order = an_order(3, 5)
    order.remove(7)
    assert order.rows() == [3, 5]
