"""Judging rows: which plugin says no to which node, as one integer per row.

A verdict is 0 where the node stays in the running; otherwise it holds the position of the first plugin that rejected
it and that plugin's code, from which the words are made when somebody reads them.

Source: k8s pkg/scheduler/framework/runtime/framework.go, ``RunFilterPlugins``.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState
from berth.framework.interface import FilterPlugin
from berth.framework.profile import Profile
from berth.framework.run import FAULTS, fault_text
from berth.framework.status import Status

Verdicts = NDArray[np.int32]
Placed = tuple[int, FilterPlugin]  # position in the profile's filters, counted from 1, and the plugin

FEASIBLE: Final = 0
NO_NODE: Final = -1  # the row has no node
UNTOUCHED: Final = -2  # the row was left out, for a reason that is not a plugin's
SHIFT: Final = 16
_CODE: Final = (1 << SHIFT) - 1


class CycleError(Exception):
    """The attempt breaks off; its text is that of the pod's condition."""


def placed_filters(profile: Profile) -> tuple[Placed, ...]:
    """The filters of *profile* with their positions."""
    return tuple(enumerate(profile.filter, start=1))


def judge(filters: Sequence[Placed], state: CycleState, pod: PodInfo, rows: Rows) -> Verdicts:
    """int32, shape (len(rows),): the first rejection of each row, or 0.

    Args:
        filters: the plugins to ask, in order.
        state: what PreFilter worked out for *pod*.
        pod: the pod to place.
        rows: live rows, each once.

    Raises:
        CycleError: a plugin could not answer.
    """
    verdicts = np.zeros(len(rows), dtype=np.int32)
    left = rows
    at: NDArray[np.intp] | None = None  # where the rows of `left` stand in `verdicts`; None for all
    for position, plugin in filters:
        if plugin.name in state.skip_filter:
            continue
        codes = ask(plugin, state, pod, left)
        if not np.count_nonzero(codes):
            continue
        rejected = codes.nonzero()[0]
        spots = rejected if at is None else at[rejected]
        verdicts[spots] = codes[rejected].astype(np.int32) + (position << SHIFT)
        keep = (codes == 0).nonzero()[0]
        if not len(keep):
            break
        left = left[keep]
        at = keep if at is None else at[keep]
    return verdicts


def ask(plugin: FilterPlugin, state: CycleState, pod: PodInfo, rows: Rows) -> NDArray[np.int16]:
    """int16, shape (len(rows),): the plugin's own codes.

    Raises:
        CycleError: it could not answer.
    """
    try:
        return plugin.filter(state, pod, rows)
    except FAULTS as fault:
        raise CycleError(f'running "{plugin.name}" filter plugin: {fault_text(fault)}') from fault


def position_of(verdicts: Verdicts) -> NDArray[np.int32]:
    """int32, same shape: the position of the plugin that rejected; 0 where none did."""
    return verdicts >> SHIFT


def explain(profile: Profile, verdict: int) -> Status:
    """The answer behind a verdict above 0, with the plugin's name."""
    plugin = profile.filter[(verdict >> SHIFT) - 1]
    return plugin.rejection(verdict & _CODE).by(plugin.name)


def tally(verdicts: Verdicts) -> Iterator[tuple[int, int]]:
    """Each verdict above 0 and how often it stands in *verdicts*."""
    values, counts = np.unique(verdicts[verdicts > FEASIBLE], return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
