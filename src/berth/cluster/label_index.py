"""Finding selectors by labels, and labels by selectors, without trying each with each.

Most selectors ask for equal labels in one namespace.  So both sides are posted under a namespace and a label: a
selector under one condition that names values, a set of labels under each of them.  What is found may match, and is
to be asked; what is not found does not.  Used by `berth.cluster.podcounts` and `berth.cluster.carried_terms`.
"""

from collections.abc import Hashable, Iterator, Mapping
from itertools import product
from typing import Generic, TypeVar

from berth.api.selectors import IN, Selector

T = TypeVar("T", bound=Hashable)
Pair = tuple[str, str]  # a label, key and value


class SelectorIndex(Generic[T]):
    """Things that select pods, to be found by the labels of a pod."""

    def __init__(self) -> None:
        self._posted: dict[tuple[str | None, Pair | None], dict[T, None]] = {}

    def add(self, thing: T, namespaces: frozenset[str] | None, selector: Selector) -> None:
        """Let *thing* be found for pods of these namespaces (of all, if None) that *selector* may match."""
        for place in product((None,) if namespaces is None else namespaces, _demanded(selector)):
            self._posted.setdefault(place, {})[thing] = None

    def remove(self, thing: T, namespaces: frozenset[str] | None, selector: Selector) -> None:
        """Let *thing* be found no more; the arguments are those of `add`."""
        for place in product((None,) if namespaces is None else namespaces, _demanded(selector)):
            things = self._posted[place]
            del things[thing]
            if not things:
                del self._posted[place]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """The things that may select a pod of *namespace* with these labels, each once."""
        if self._posted:
            for place in product((namespace, None), (*labels.items(), None)):
                yield from self._posted.get(place, ())


class LabelsIndex(Generic[T]):
    """Things that have a namespace and labels, to be found by a selector."""

    def __init__(self) -> None:
        self._posted: dict[str, dict[Pair | None, dict[T, None]]] = {}

    def add(self, thing: T, namespace: str, labels: Mapping[str, str]) -> None:
        """Let *thing* be found under its namespace and labels."""
        posted = self._posted.setdefault(namespace, {})
        for pair in (*labels.items(), None):
            posted.setdefault(pair, {})[thing] = None

    def remove(self, thing: T, namespace: str, labels: Mapping[str, str]) -> None:
        """Let *thing* be found no more; the arguments are those of `add`."""
        posted = self._posted[namespace]
        for pair in (*labels.items(), None):
            things = posted[pair]
            del things[thing]
            if not things:
                del posted[pair]
        if not posted:
            del self._posted[namespace]

    def candidates(self, namespaces: frozenset[str] | None, selector: Selector) -> Iterator[T]:
        """The things of these namespaces (of all, if None) that *selector* may match, each once."""
        pairs = _demanded(selector)
        for namespace in self._posted if namespaces is None else namespaces:
            posted = self._posted.get(namespace)
            if posted is not None:
                for pair in pairs:
                    yield from posted.get(pair, ())


def _demanded(selector: Selector) -> tuple[Pair | None, ...]:
    """Labels of which whatever is selected has exactly one; None stands for any labels."""
    if selector.requirements is None:
        return ()
    conditions = [each for each in selector.requirements if each.operator == IN]
    if not conditions:
        return (None,)
    narrowest = min(conditions, key=lambda each: len(each.values))
    return tuple((narrowest.key, value) for value in narrowest.values)
