"""`Tally`: on which rows something stands, and how often; and the columns that are kept as sums of tallies.

A tally is sparse, since most things stand on few nodes; a column is dense, since it is summed over all of them.  Of
things there may be as many as there are sets of labels in a cluster; columns are only made for those that are asked
about.  So are their sums over the domains of a topology, which then follow each change of the column.  Owned by
`berth.cluster.podcounts` and `berth.cluster.carried_terms`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from berth.cluster.columns import Amounts, CodedColumn, grown


@dataclass(slots=True)
class _Sums:
    """The sums of a column by the codes of a label, as they were at one version of the label's codes."""

    by_code: Amounts
    version: int


class Column:
    """A number per row of the node table.

    Attributes:
        counts: int64, shape (capacity,); rows without a node count like all others.
        total: their sum.
    """

    __slots__ = ("_sums", "counts", "total")

    def __init__(self, capacity: int) -> None:
        self.counts: Amounts = np.zeros(capacity, dtype=np.int64)
        self.total = 0
        self._sums: dict[CodedColumn[Any], _Sums] = {}

    def move(self, row: int, by: int) -> None:
        """Change the number of one row."""
        self.counts[row] += by
        self.total += by
        for labels, sums in self._sums.items():
            if sums.version == labels.version:
                sums.by_code[labels.codes[row]] += by

    def sums(self, labels: CodedColumn[Any]) -> Amounts:
        """int64, shape (len(labels.values),): for each code of *labels* the sum over its rows; a copy."""
        sums = self._sums.get(labels)
        if sums is None or sums.version != labels.version:
            by_code = np.bincount(labels.codes, weights=self.counts, minlength=len(labels.values)).astype(np.int64)
            sums = self._sums[labels] = _Sums(by_code, labels.version)
        return sums.by_code.copy()

    def grow(self, capacity: int) -> None:
        """Make room for *capacity* rows."""
        self.counts = grown(self.counts, capacity)


class Tally:
    """How often something stands on which rows.

    Attributes:
        rows: row -> how often, above 0.
    """

    __slots__ = ("_columns", "rows")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self._columns: dict[Column, int] = {}

    def __bool__(self) -> bool:
        """Whether it stands anywhere."""
        return bool(self.rows)

    def move(self, row: int, by: int) -> None:
        """Let it stand on *row* *by* times more, or less.

        Raises:
            KeyError: it does not stand there that often.
        """
        many = self.rows.get(row, 0) + by
        if many > 0:
            self.rows[row] = many
        else:
            del self.rows[row]
        for column, weight in self._columns.items():
            column.move(row, by * weight)

    def join(self, column: Column, weight: int = 1) -> None:
        """Let it count *weight* times in *column*, from now on and for all rows it stands on."""
        self._columns[column] = weight
        for row, many in self.rows.items():
            column.move(row, many * weight)

    def leave(self, column: Column) -> None:
        """Let *column* go its way; what it holds stays."""
        self._columns.pop(column, None)
