"""Whose going would break a disruption budget.

Source: k8s pkg/scheduler/framework/preemption/util.go, ``FilterPodsWithPDBViolation``.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np

from berth.api.policy import PodDisruptionBudget
from berth.api.selectors import NOTHING, Selector, SelectorError, compile_label_selector
from berth.cluster.columns import Mask
from berth.cluster.pods import PodInfo
from berth.framework.what_if import Guests


def violating(budgets: Iterable[PodDisruptionBudget], guests: Guests) -> Mask:
    """bool, shape (guests,): which would break a budget if all before them on their node and they went.

    Every node is looked at for itself, with all that the budgets have left.

    Args:
        budgets: of all namespaces.
        guests: by node, and on each node by importance.
    """
    broken: Mask = np.zeros(len(guests), dtype=np.bool_)
    for budget in budgets:
        counted = guests.weights(partial(_is_for, budget, _selector(budget))) > 0
        if not counted.any():
            continue
        if budget.status.disrupted_pods:
            _leave_out(counted, guests, budget.status.disrupted_pods)
        taken = np.cumsum(counted)
        before = np.zeros(len(guests.rows), dtype=taken.dtype)
        firsts = np.flatnonzero(np.diff(guests.places, prepend=-1))
        before[guests.places[firsts]] = taken[firsts] - counted[firsts]
        broken |= counted & (taken - before[guests.places] > budget.status.disruptions_allowed)
    return broken


def _selector(budget: PodDisruptionBudget) -> Selector:
    """What selects the pods of a budget; one without conditions or with a faulty one selects nothing here."""
    try:
        selector = compile_label_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING
    return NOTHING if selector.empty else selector


def _is_for(budget: PodDisruptionBudget, selector: Selector, pod: PodInfo) -> bool:
    metadata = pod.pod.metadata
    return bool(
        metadata.labels and metadata.namespace == budget.metadata.namespace and selector.matches(metadata.labels)
    )


def _leave_out(counted: Mask, guests: Guests, names: Iterable[str]) -> None:
    """Those whose going the budget has counted already do not count again."""
    gone = frozenset(names)
    for guest in np.flatnonzero(counted).tolist():
        if guests.pod(guest).pod.metadata.name in gone:
            counted[guest] = False
