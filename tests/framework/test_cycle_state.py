"""What plugins leave for each other, and the copies that are made for the sake of a question."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.builders import a_pod

from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError


@dataclass
class Count:
    """A value that plugins change in place."""

    number: int


KEY = StateKey[Count]("PreFilterCounter")


def test_what_was_left_is_found() -> None:
    state = CycleState()
    state.write(KEY, Count(1))
    state.write(KEY, Count(2))
    assert state.read(KEY) == Count(2)


def test_nothing_is_found_where_nothing_was_left() -> None:
    with pytest.raises(StateNotFoundError) as caught:
        CycleState().read(KEY)
    assert caught.value.args == ('reading "PreFilterCounter" from cycleState: not found',)


def test_what_was_deleted_is_not_found() -> None:
    state = CycleState()
    state.write(KEY, Count(1))
    state.delete(KEY)
    state.delete(KEY)
    with pytest.raises(StateNotFoundError):
        state.read(KEY)


def test_a_copy_can_be_changed_without_the_original() -> None:
    state = CycleState()
    state.write(KEY, Count(1))
    twin = state.clone()
    twin.read(KEY).number = 7
    twin.write(StateKey[int]("other"), 1)
    assert state.read(KEY) == Count(1)
    with pytest.raises(StateNotFoundError):
        state.read(StateKey[int]("other"))


def test_a_copy_shares_who_sits_out_and_which_pods_are_to_be_tried() -> None:
    state = CycleState()
    twin = state.clone()
    pod = a_pod()
    for names in (twin.skip_filter, twin.skip_score, twin.skip_pre_bind):
        names.add("Fit")
    twin.pods_to_activate[pod.key] = pod
    assert (state.skip_filter, state.skip_score, state.skip_pre_bind) == ({"Fit"}, {"Fit"}, {"Fit"})
    assert state.pods_to_activate == {pod.key: pod}
