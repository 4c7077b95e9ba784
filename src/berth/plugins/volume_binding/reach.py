"""Which nodes something can be reached from, as rows: the node affinity of a volume, the topology of a capacity.

Worked out once for each distinct selector, and again when nodes come, go or change their labels.  Volumes by the
thousand that each lie on one host are the case to be quick about: the rows of a label's value are looked up, and only
these are asked for the rest.  Matching looks at labels only, never at the name of a node.

Source: k8s component-helpers/storage/volume/helpers.go, ``CheckNodeAffinity``.
"""

from collections.abc import Callable, Iterable
from typing import Final
from weakref import WeakValueDictionary

import numpy as np

from berth.api.affinity import NodeSelector
from berth.api.node_affinity import Term, compile_node_selector
from berth.api.selectors import IN, LabelSelector, SelectorError, compile_label_selector
from berth.cluster.columns import Mask, Rows
from berth.cluster.nodes import NodeTable
from berth.plugins.node_selection import term_mask

_NEVER: Final = -1
_SEVERAL: Final = -1


class Reach:
    """The nodes that some terms, joined by *or*, match; made by `ReachFinder`.

    Attributes:
        layout: that of the nodes when ``single`` was worked out.
        single: the row, if it is exactly one; -1 otherwise.
    """

    __slots__ = ("__weakref__", "_finder", "_rows", "_set", "_terms", "layout", "single")

    def __init__(self, finder: "ReachFinder", terms: tuple[Term, ...]) -> None:
        self._finder, self._terms = finder, terms
        self.layout = _NEVER
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._set: frozenset[int] | None = None
        self.single = _SEVERAL

    def rows(self) -> Rows:
        """The rows of these nodes, ascending."""
        layout = self._finder.table.layout
        if self.layout != layout:
            self._rows, self._set, self.layout = self._finder.find(self._terms), None, layout
            self.single = int(self._rows[0]) if len(self._rows) == 1 else _SEVERAL
        return self._rows

    def holds(self, row: int) -> bool:
        """Whether the node of *row* is one of them."""
        rows = self.rows()
        if self._set is None:
            self._set = frozenset(rows.tolist())
        return row in self._set

    def mask(self, rows: Rows, capacity: int) -> Mask:
        """bool, shape (len(rows),): which of *rows* are among them; *capacity* is that of the node table."""
        if len(rows) == 1:
            return np.array([self.holds(int(rows[0]))], dtype=np.bool_)
        all_rows = np.zeros(capacity, dtype=np.bool_)
        all_rows[self.rows()] = True
        return all_rows[rows]


class ReachFinder:
    """Makes and shares the reaches of selectors.

    Attributes:
        table: the nodes; its layout changes whenever a reach may.
    """

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self._known: WeakValueDictionary[NodeSelector | LabelSelector, Reach] = WeakValueDictionary()
        self._indexed = _NEVER
        self._by_value: dict[str, dict[str | None, list[int]]] = {}

    def of_affinity(self, selector: NodeSelector | None) -> Reach | None:
        """The reach of a node affinity; None for everywhere.  Terms that cannot be parsed match nothing."""
        if selector is None:
            return None
        return self._shared(selector, lambda: tuple(_of_labels(compile_node_selector(selector).terms)))

    def of_topology(self, selector: LabelSelector | None) -> Reach | None:
        """The reach of a selector of node labels; None for everywhere.  An absent selector reaches nowhere."""
        if selector is None:
            return Reach(self, ())
        if not selector.match_labels and not selector.match_expressions:
            return None
        return self._shared(selector, lambda: _topology_terms(selector))

    def single_rows(self, reaches: Iterable[Reach | None]) -> Rows:
        """int: for each reach its one row; -1 where it is not exactly one."""
        layout = self.table.layout
        singles = []
        for reach in reaches:
            if reach is not None and reach.layout != layout:
                reach.rows()
            singles.append(_SEVERAL if reach is None else reach.single)
        return np.array(singles, dtype=np.intp)

    def find(self, terms: Iterable[Term]) -> Rows:
        """The rows that some of *terms* match, ascending."""
        found = [self._rows_of(term) for term in terms if term.fault is None]
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.intp)

    def _shared(self, selector: NodeSelector | LabelSelector, make: Callable[[], tuple[Term, ...]]) -> Reach:
        reach = self._known.get(selector)
        if reach is None:
            reach = self._known[selector] = Reach(self, make())
        return reach

    def _rows_of(self, term: Term) -> Rows:
        table = self.table
        first = next((each for each in term.labels if each.operator == IN), None)
        if first is None:
            live = table.live_rows()
            return live[term_mask(table, term, live)]
        by_value = self._index(first.key)
        rows = sorted(row for value in first.values for row in by_value.get(value, ()))
        if len(term.labels) > 1:
            rows = [row for row in rows if term.matches("", table.node(row).metadata.labels)]
        return np.array(rows, dtype=np.intp)

    def _index(self, key: str) -> dict[str | None, list[int]]:
        """The rows by their value of a label."""
        if self._indexed != self.table.layout:
            self._by_value.clear()
            self._indexed = self.table.layout
        by_value = self._by_value.get(key)
        if by_value is None:
            by_value = self._by_value[key] = {}
            for row in self.table.live_rows().tolist():
                by_value.setdefault(self.table.node(row).metadata.labels.get(key), []).append(row)
        return by_value


def _of_labels(terms: Iterable[Term]) -> Iterable[Term]:
    """The terms without their conditions on fields, which nobody looks at."""
    return (Term(term.labels, (), term.fault) for term in terms)


def _topology_terms(selector: LabelSelector) -> tuple[Term, ...]:
    try:
        requirements = compile_label_selector(selector).requirements
    except SelectorError:
        return ()
    return () if requirements is None else (Term(requirements),)
