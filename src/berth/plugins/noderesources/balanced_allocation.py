"""NodeResourcesBalancedAllocation: prefers nodes on which the pod brings the use of resources closer together.

Points: PreScore (sits out for pods that ask for none of the resources), Score (not normalized, 50..100, 75 where
nothing changes).  Rejects nothing, waits for nothing.

Arguments: the resources, all of weight 1.

Source: k8s pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
"""

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.api.quantity import QuantityError
from berth.api.requests import RequestRules, amount, pod_requests
from berth.cluster.columns import Rows
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, Scope, Scores
from berth.framework.plugin_args import NodeResourcesBalancedAllocationArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status
from berth.plugins.noderesources.scoring import Ask, Grid, ask_of, figures, weighted

_ASK: Final = StateKey[Ask]("PreScoreNodeResourcesBalancedAllocation")
_HALF: Final = MAX_NODE_SCORE // 2
_PAIR: Final = 2


class NodeResourcesBalancedAllocation:
    """Compares the balance of use with and without the pod."""

    name = "NodeResourcesBalancedAllocation"
    scope = Scope.ROW

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        """Build the plugin."""
        self._table = handle.cluster.table
        rules = handle.cluster.rules
        self._rules = RequestRules(use_status=True, resize_by_totals=rules.resize_by_totals)
        self._as_placed = rules == self._rules  # then PodInfo has added the requests up already
        self._scored = weighted((args or NodeResourcesBalancedAllocationArgs()).resources)

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod counts as once it is placed.

        Raises:
            PluginError: an amount is no quantity.
        """
        return tuple(self._requests(pod).items())

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip if the pod asks for none of the resources.

        Raises:
            PluginError: an amount is no quantity.
        """
        del rows
        ask = ask_of(self._scored, self._requests(pod))
        if ask.empty:
            return SKIP
        state.write(_ASK, ask)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        """50 and half the improvement of the balance, which is neutral at 75; 0 if the pod asks for nothing.

        Raises:
            PluginError: an amount is no quantity.
        """
        try:
            ask = state.read(_ASK)
        except StateNotFoundError:
            ask = ask_of(self._scored, self._requests(pod))
            if ask.empty:
                return np.zeros(len(rows), dtype=np.int64)
        offered, taken, asked, _ = figures(self._table, ask, rows, non_zero=False)
        gain = _balance(offered, taken + asked) - _balance(offered, taken)
        return (gain + _HALF) // 2 + _HALF

    def _requests(self, pod: PodInfo) -> dict[str, int]:
        try:
            if self._as_placed and pod.rules == self._rules:
                return pod.taken
            return {name: amount(name, nano) for name, nano in pod_requests(pod.pod, self._rules).items()}
        except QuantityError as error:
            raise PluginError(f"requests of pod {pod.key}: {error}") from error


def _balance(offered: Grid, taken: Grid) -> Scores:
    """0..100: 100 where all resources are used alike.

    Source:
        k8s pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go, ``balancedResourceScorer``.
    """
    counted = offered != 0
    used = np.minimum(taken / np.where(counted, offered, 1), 1.0)
    number = counted.sum(axis=0)
    spread = np.abs((used[0] - used[1]) / 2) if len(used) == _PAIR else _spread(used, counted, number)
    spread = np.where(number >= _PAIR, spread, 0.0)
    balance: Scores = ((1 - spread) * MAX_NODE_SCORE).astype(np.int64)
    return balance


def _spread(used: NDArray[np.float64], counted: NDArray[np.bool_], number: NDArray[np.intp]) -> NDArray[np.float64]:
    """The standard deviation of the uses that count; half the difference where there are two.

    Sums run resource by resource, since the reference's rounding depends on the order.
    """
    divisor = np.maximum(number, 1)
    total = np.zeros(used.shape[1])
    for row, counts in zip(used, counted, strict=True):
        total += np.where(counts, row, 0.0)
    mean = total / divisor
    squares = np.zeros_like(total)
    for row, counts in zip(used, counted, strict=True):
        squares += np.where(counts, (row - mean) * (row - mean), 0.0)
    half_range = (
        np.where(counted, used, -np.inf).max(axis=0, initial=-np.inf)
        - np.where(counted, used, np.inf).min(axis=0, initial=np.inf)
    ) / 2
    return np.where(number == _PAIR, half_range, np.sqrt(squares / divisor))
