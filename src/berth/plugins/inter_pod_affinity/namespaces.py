"""Which namespaces the terms of a waiting pod speak of, and what labels a namespace has.

A term names namespaces and may select others by their labels; the names of those are looked up once for each state of
the cluster's namespaces.  Called by the filter and the score of InterPodAffinity.

Source: k8s pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, ``mergeAffinityTermNamespacesIfNotEmpty``.
"""

from collections.abc import Mapping
from typing import Final

from berth.api.pod_affinity import AffinityTerm
from berth.api.selectors import Selector
from berth.cluster.kinds import NAMESPACE
from berth.cluster.objects import Objects
from berth.cluster.podcounts import PodSelection

_NO_LABELS: Final[Mapping[str, str]] = {}


class Namespaces:
    """Looks namespaces up.

    Args:
        objects: the namespaces.
        negative_selects_all: whether a selector that labels can only fail to match, never need, selects all namespaces
            in the terms of waiting pods.
    """

    def __init__(self, objects: Objects, *, negative_selects_all: bool) -> None:
        self._objects = objects
        self._negative_selects_all = negative_selects_all
        self._version = -1
        self._selected: dict[Selector, frozenset[str]] = {}

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not there."""
        namespace = self._objects.get(NAMESPACE, name)
        return _NO_LABELS if namespace is None else namespace.metadata.labels

    def selection(self, term: AffinityTerm) -> PodSelection:
        """The pods that a term of a waiting pod selects; those that are being deleted count."""
        return PodSelection(self._of(term), term.selector, terminating=True)

    def _of(self, term: AffinityTerm) -> frozenset[str] | None:
        selector = term.namespace_selector
        if selector.requirements is None:
            return term.namespaces
        if selector.empty or (self._negative_selects_all and selector.matches(_NO_LABELS)):
            return None
        return term.namespaces | self._names(selector)

    def _names(self, selector: Selector) -> frozenset[str]:
        version = self._objects.version(NAMESPACE)
        if version != self._version:
            self._selected.clear()
            self._version = version
        names = self._selected.get(selector)
        if names is None:
            found = (each.metadata for each in self._objects.list(NAMESPACE))
            names = frozenset(metadata.name for metadata in found if selector.matches(metadata.labels))
            self._selected[selector] = names
        return names
