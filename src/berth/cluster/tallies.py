"""`Tally`: on which rows something stands, and how often; and the columns that are kept as sums of tallies.

A tally is sparse, since most things stand on few nodes; a column is dense, since it is summed over all of them.  Of
things there may be as many as there are sets of labels in a cluster; columns are only made for those that are asked
about.  Owned by `berth.cluster.podcounts` and `berth.cluster.carried_terms`.
"""

import numpy as np

from berth.cluster.columns import Amounts, grown


class Column:
    """A number per row of the node table.

    Attributes:
        counts: int64, shape (capacity,); rows without a node count like all others.
        total: their sum.
    """

    __slots__ = ("counts", "total")

    def __init__(self, capacity: int) -> None:
        self.counts: Amounts = np.zeros(capacity, dtype=np.int64)
        self.total = 0

    def move(self, row: int, by: int) -> None:
        """Change the number of one row."""
        self.counts[row] += by
        self.total += by

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
