"""Choosing among the best nodes, so that the same decision can be made again.

Ties are broken by a number drawn from (seed, pod, attempt) and nothing else; the reference leaves the choice to chance.
"""

import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.cluster.columns import Rows

_MASK: Final = (1 << 64) - 1


def select(rows: Rows, totals: NDArray[np.int64], seed: int, uid: str, attempt: int) -> int:
    """The row to take: one of those with the highest total.

    Args:
        rows: the rows that fit; at least one.
        totals: int64, shape (len(rows),): their scores.
        seed: of the scheduler.
        uid: of the pod.
        attempt: which attempt at the pod this is.
    """
    best = np.flatnonzero(totals == totals.max())
    if len(best) == 1:
        return int(rows[best[0]])
    drawn = draw(seed, uid, attempt)
    return int(rows[best[drawn % len(best)]])


def draw(seed: int, uid: str, attempt: int) -> int:
    """A well-mixed 64-bit number, the same for the same arguments on every machine."""
    mixed = (seed * 0x9E3779B97F4A7C15 + zlib.crc32(uid.encode()) + (attempt << 32)) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)
