"""Sums over the domains of a topology: a number per row becomes a number per value of a label.

Called by the filter and the score of InterPodAffinity.
"""

from typing import Final

import numpy as np

from berth.cluster.columns import Amounts
from berth.cluster.nodes import NodeTable
from berth.cluster.tallies import Column

ABSENT: Final = 0
"""The code of nodes that lack a label; they are in no domain, so that its sum is always 0."""


def domain_sums(table: NodeTable, topology_key: str, column: Column) -> Amounts:
    """int64, shape (values,): for each code of the label's column, the sum of *column*; the caller's own."""
    sums = column.sums(table.label(topology_key))
    sums[ABSENT] = 0
    return sums


def moved(table: NodeTable, sums: dict[str, Amounts], topology_key: str, row: int, by: int) -> dict[str, Amounts]:
    """*sums* by topology key, with *by* more in the domain of *row*; what was given is left as it was."""
    column = table.label(topology_key)
    code = int(column.codes[row])
    if code == ABSENT:
        return sums
    before = sums.get(topology_key)
    after = np.zeros(len(column.values), dtype=np.int64) if before is None else before.copy()
    after[code] += by
    return {**sums, topology_key: after}
