"""NodeResourcesBalancedAllocation: prefers nodes on which the pod brings the use of resources closer together.

Points: PreScore (sits out for pods that ask for none of the resources), Score (not normalized, 50..100, 75 where
nothing changes).  Rejects nothing, waits for nothing.

Arguments: ``resources``, none twice and all of weight 1; CPU and memory if there are none.

Source: k8s pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from berth.api.quantity import QuantityError, wrapped
from berth.api.requests import amount, pod_requests
from berth.cluster.columns import Rows
from berth.cluster.objects import Kind
from berth.cluster.pods import PodInfo
from berth.framework.cycle_state import CycleState, StateKey, StateNotFoundError
from berth.framework.handle import Handle
from berth.framework.interface import MAX_NODE_SCORE, Scope, Scores
from berth.framework.plugin_args import NodeResourcesBalancedAllocationArgs
from berth.framework.status import SKIP, SUCCESS, PluginError, Status
from berth.plugins.noderesources.backing import backed_resources, device_figures, watched
from berth.plugins.noderesources.scoring import FEW, Ask, Grid, ask_of, figures, node_figures, weighted
from berth.plugins.noderesources.strategies import quotient, quotients

_ASK: Final = StateKey[Ask]("PreScoreNodeResourcesBalancedAllocation")
_HALF: Final = MAX_NODE_SCORE // 2
_PAIR: Final = 2
_TWO: Final = np.full(1, 2, dtype=np.int64)


class NodeResourcesBalancedAllocation:
    """Compares the balance of use with and without the pod."""

    name = "NodeResourcesBalancedAllocation"
    scope = Scope.ROW

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        """Build the plugin."""
        self._table = handle.cluster.table
        self._rules = replace(handle.cluster.rules, node_allocatable_claims=False)
        self._scored = weighted((args or NodeResourcesBalancedAllocationArgs()).resources)
        self._backed = backed_resources(handle)
        self._devices = device_figures(handle, (name for name, _ in self._scored))
        self._kinds = watched(handle, self._devices)

    def kinds(self) -> Sequence[Kind[Any]]:
        """The classes of devices, and all about devices if they are scored."""
        return self._kinds

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod counts as once it is placed; a pod that devices stand behind is like no other.

        Raises:
            PluginError: an amount is no quantity.
        """
        requests = self._requests(pod)
        return None if self._backed(requests) else tuple(requests.items())

    def pre_score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Status:
        """Skip if the pod asks for none of the resources.

        Raises:
            PluginError: an amount is no quantity.
        """
        del rows
        ask = ask_of(self._scored, self._requests(pod))
        if not any(ask.amounts):
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
            if not any(ask.amounts):
                return np.zeros(len(rows), dtype=np.int64)
        if len(rows) <= FEW:
            scores = (self._score_of_node(ask, row) for row in rows.tolist())
            return np.fromiter(scores, dtype=np.int64, count=len(rows))
        offered, taken = figures(self._table, ask, rows, non_zero=False, devices=self._devices)
        gain = -balance_of_nodes(offered, taken)
        taken += ask.column
        gain += balance_of_nodes(offered, taken)
        gain += _HALF
        return quotients(gain, _TWO) + _HALF

    def _score_of_node(self, ask: Ask, row: int) -> int:
        offered, taken = node_figures(self._table, ask, row, non_zero=False, devices=self._devices)
        with_pod = [wrapped(take + more) for take, more in zip(taken, ask.amounts, strict=True)]
        gain = balance_of_node(offered, with_pod) - balance_of_node(offered, taken)
        return quotient(gain + _HALF, 2) + _HALF

    def _requests(self, pod: PodInfo) -> dict[str, int]:
        try:
            if not pod.rules.node_allocatable_claims:
                return pod.taken
            return {name: amount(name, nano) for name, nano in pod_requests(pod.pod, self._rules).items()}
        except QuantityError as error:
            raise PluginError(f"requests of pod {pod.key}: {error}") from error


def balance_of_node(offered: Sequence[int], taken: Sequence[int]) -> int:
    """How alike the resources of a node are used: 0..100, 100 where all are used alike.

    Args:
        offered: allocatable, by resource; one that is 0 does not count.
        taken: what is taken of each.

    Source:
        k8s pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go, ``balancedResourceScorer``.
    """
    # Below 0 are only sums that 64 bits do not hold; the bound keeps what follows from them within 64 bits.
    shares = (float(take) / float(offer) for offer, take in zip(offered, taken, strict=True) if offer)
    used = [max(-1.0, min(share, 1.0)) for share in shares]
    number = len(used)
    if number < _PAIR:
        spread = 0.0
    elif number == _PAIR:
        spread = abs((used[0] - used[1]) / 2)
    else:
        mean = _in_order(used) / number
        spread = math.sqrt(_in_order((each - mean) * (each - mean) for each in used) / number)
    return int((1 - spread) * MAX_NODE_SCORE)


def balance_of_nodes(offered: Grid, taken: Grid) -> Scores:
    """int64, shape (n,): the same for nodes, from amounts of shape (k, n)."""
    if len(offered) == _PAIR and np.count_nonzero(offered) == offered.size:
        used = taken / offered
        np.clip(used, -1.0, 1.0, out=used)
        spread = used[0]
        spread -= used[1]
        spread /= 2
        np.abs(spread, out=spread)
    else:
        spread = _spread(offered, taken)
    np.subtract(1, spread, out=spread)
    spread *= MAX_NODE_SCORE
    balance: Scores = spread.astype(np.int64)
    return balance


def _spread(offered: Grid, taken: Grid) -> NDArray[np.float64]:
    """float64, shape (n,): as `balance_of_node` has it, over those resources that count on each node."""
    counted = offered != 0
    used = np.clip(taken / np.where(counted, offered, 1), -1.0, 1.0)
    number = counted.sum(axis=0)
    divisor = np.maximum(number, 1)
    mean = _sum_in_order(used, counted) / divisor
    deviation = np.sqrt(_sum_in_order((used - mean) * (used - mean), counted) / divisor)
    highest = np.where(counted, used, -np.inf).max(axis=0, initial=-np.inf)
    lowest = np.where(counted, used, np.inf).min(axis=0, initial=np.inf)
    spread: NDArray[np.float64] = np.where(number == _PAIR, (highest - lowest) / 2, deviation)
    return spread


def _in_order(numbers: Iterable[float]) -> float:
    """The sum from left to right, rounded after each step as the reference does; `sum` is more exact."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def _sum_in_order(numbers: NDArray[np.float64], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The same down the columns, over the numbers that count."""
    total = np.zeros(numbers.shape[1])
    for row, counts in zip(numbers, counted, strict=True):
        total += np.where(counts, row, 0.0)
    return total
