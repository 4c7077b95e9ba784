"""Dictionary-encoded columns: one small integer per node, and the list of distinct values behind the integers.

A cluster of thousands of nodes has a handful of distinct taint sets and zones, so whoever asks a question about a fact
asks it once per distinct value and gathers the answers through the codes.  Owned by `berth.cluster.nodes.NodeTable`.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V", bound=Hashable)
T = TypeVar("T", bound=np.generic)

Rows = NDArray[np.intp]  # shape (n,): indices of rows of the node table
Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
Amounts = NDArray[np.int64]

_SLACK: Final = 1024  # values that may be out of use before they are dropped


class CodedColumn(Generic[V]):
    """One fact about every node, as codes into a list of distinct values.

    Attributes:
        codes: int32, shape (capacity,); index into ``values``.  Rows without a node hold code 0.
        values: the distinct values; the first is the one of rows that have no node.
        version: another number after each change of ``codes``.
    """

    def __init__(self, absent: V, capacity: int) -> None:
        self.codes: Codes = np.zeros(capacity, dtype=np.int32)
        self.values: list[V] = [absent]
        self.version = 0
        self._code_of: dict[V, int] = {absent: 0}

    def set(self, row: int, value: V) -> bool:
        """Record *value* for *row*; returns whether it is another one than before."""
        code = self._code_of.get(value)
        if code is None:
            code = len(self.values)
            self.values.append(value)
            self._code_of[value] = code
        changed = bool(self.codes[row] != code)
        if changed:
            self.codes[row] = code
            self.version += 1
        if len(self.values) > 2 * len(self.codes) + _SLACK:
            self._drop_unused()
        return changed

    def get(self, row: int) -> V:
        """The value of *row*."""
        return self.values[int(self.codes[row])]

    def codes_of(self, rows: Rows) -> Codes:
        """int32, shape (len(rows),): the codes of *rows*."""
        return self.codes.take(rows)  # at thousands of rows twice as fast as an index

    def code_of(self, value: V) -> int | None:
        """The code of *value*; None if no row ever held it."""
        return self._code_of.get(value)

    def grow(self, capacity: int) -> None:
        """Make room for *capacity* rows."""
        self.codes = grown(self.codes, capacity)
        self.version += 1

    def mask(self, predicate: Callable[[V], bool], rows: Rows) -> Mask:
        """bool, shape (len(rows),): *predicate* of each row's value, asked once per distinct value."""
        if len(rows) < len(self.values):
            return np.fromiter(
                (predicate(self.values[c]) for c in self.codes_of(rows)), dtype=np.bool_, count=len(rows)
            )
        by_value = np.fromiter(map(predicate, self.values), dtype=np.bool_, count=len(self.values))
        return by_value.take(self.codes_of(rows))

    def numbers(self, function: Callable[[V], int], rows: Rows) -> Amounts:
        """int64, shape (len(rows),): *function* of each row's value, asked once per distinct value."""
        if len(rows) < len(self.values):
            found = (function(self.values[code]) for code in self.codes_of(rows))
            return np.fromiter(found, dtype=np.int64, count=len(rows))
        by_value = np.fromiter(map(function, self.values), dtype=np.int64, count=len(self.values))
        return by_value.take(self.codes_of(rows))

    def _drop_unused(self) -> None:
        used, codes = np.unique(np.append(self.codes, 0), return_inverse=True)
        self.values = [self.values[code] for code in used]
        self._code_of = {value: code for code, value in enumerate(self.values)}
        self.codes = codes[:-1].astype(np.int32)
        self.version += 1


def grown(array: NDArray[T], capacity: int) -> NDArray[T]:
    """A copy of *array* with its last axis lengthened to *capacity*, zeros at the end."""
    wider = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    wider[..., : array.shape[-1]] = array
    return wider
