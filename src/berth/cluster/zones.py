"""The order in which nodes are looked at when only some of them are: one of each zone in turn.

Owned by `berth.cluster.nodes.NodeTable`; matters only where ``percentageOfNodesToScore`` is set.

Source: k8s pkg/scheduler/backend/cache/node_tree.go.
"""

from collections.abc import Mapping
from itertools import zip_longest
from typing import Final

_LABELS: Final = (
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
)


def zone_key(labels: Mapping[str, str]) -> str:
    """The zone that a node with these labels lies in; empty if it names neither region nor zone.

    Source:
        k8s component-helpers/node/topology/helpers.go, ``GetZoneKey``.
    """
    region, zone = (labels.get(old) or labels.get(new, "") for old, new in _LABELS)
    return f"{region}:\x00:{zone}" if region or zone else ""


class ZoneOrder:
    """Rows by zone; zones and the rows of a zone stay in the order in which they came."""

    def __init__(self) -> None:
        self._zones: dict[str, dict[int, None]] = {}
        self._zone_of: dict[int, str] = {}
        self._order: list[int] | None = []

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Record that the node of *row* exists, with these labels."""
        zone = zone_key(labels)
        if self._zone_of.get(row) == zone:
            return
        self.remove(row)
        self._zone_of[row] = zone
        self._zones.setdefault(zone, {})[row] = None
        self._order = None

    def remove(self, row: int) -> None:
        """Record that there is no node in *row*."""
        zone = self._zone_of.pop(row, None)
        if zone is None:
            return
        del self._zones[zone][row]
        if not self._zones[zone]:
            del self._zones[zone]
        self._order = None

    def rows(self) -> list[int]:
        """All rows, one of each zone in turn."""
        if self._order is None:
            turns = zip_longest(*self._zones.values())
            self._order = [row for turn in turns for row in turn if row is not None]
        return self._order
