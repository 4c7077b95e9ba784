"""Which taints a pod tolerates.

Source: k8s api/core/v1/toleration.go, ``ToleratesTaint``.
"""

import re
from collections.abc import Iterable
from typing import Final

from berth.api.node import Taint
from berth.api.pod import Toleration
from berth.api.selectors import parse_int64

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
DO_NOT_SCHEDULE: Final = frozenset((NO_SCHEDULE, NO_EXECUTE))

_CANONICAL: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether *toleration* covers *taint*.

    Args:
        toleration: one toleration of a pod.
        taint: one taint of a node.
        comparison_operators: whether ``Lt`` and ``Gt`` are in force (gate TaintTolerationComparisonOperators); without
            it they tolerate nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt":
            return comparison_operators and _compares(toleration, taint)
    return False


def tolerates_all(
    tolerations: Iterable[Toleration], taints: Iterable[Taint], *, comparison_operators: bool = False
) -> bool:
    """Whether each of *taints* is covered by at least one of *tolerations*."""
    tolerations = tuple(tolerations)
    return all(
        any(tolerates(t, taint, comparison_operators=comparison_operators) for t in tolerations) for taint in taints
    )


def _compares(toleration: Toleration, taint: Taint) -> bool:
    if not (_CANONICAL.fullmatch(taint.value) and _CANONICAL.fullmatch(toleration.value)):
        return False
    actual, bound = parse_int64(taint.value), parse_int64(toleration.value)
    if actual is None or bound is None:
        return False
    return actual < bound if toleration.operator == "Lt" else actual > bound
