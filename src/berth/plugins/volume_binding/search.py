"""What becomes of the claims of a pod on each of some nodes: which volume each gets, or that one is to be made.

Claims that have their volume only ask whether it can be reached.  Claims that wait for their first pod get the smallest
volume that fits and can be reached from the node; where there is none, one must be possible to make.  All nodes are
looked at together, one claim after the other.  Called by the VolumeBinding plugin.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/binder.go, ``FindPodVolumes``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from berth.api.quantity import QuantityError, nano_value, whole
from berth.api.storage import (
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    STORAGE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from berth.cluster.cache import Cluster
from berth.cluster.columns import Mask, Rows
from berth.cluster.kinds import CSI_DRIVER, CSI_NODE
from berth.framework.interface import Rejections
from berth.framework.status import PluginError
from berth.plugins.csi_migration import InTreeDriver, TranslationError, in_tree_driver, translate_affinity
from berth.plugins.volume_binding.candidates import Offer, Offers
from berth.plugins.volume_binding.capacities import Capacities, Room
from berth.plugins.volume_binding.choosing import NOTHING, Choices, Shortlist
from berth.plugins.volume_binding.reach import Reach, ReachFinder

OUT_OF_REACH: Final = 1  # a volume of the pod cannot be reached from the node
NO_VOLUME: Final = 2  # a claim finds no volume, and none can be made
NO_ROOM: Final = 4  # one could be made, but there is not enough room
VOLUME_GONE: Final = 8  # the volume of a claim does not exist

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_NONE: Final = -1
_NOBODY: Final = -2

_NO_ROWS: Final[Rows] = np.zeros(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Demand:
    """A claim that waits for its first pod.

    Attributes:
        claim: the claim.
        storage_class: its class.
        offers: the volumes that it could have.
        rooms: what is reported that is large enough for a new volume; None where nobody has to ask.
        size_nano: what it asks for, in billionths of a byte; 0 if it does not say.
    """

    claim: PersistentVolumeClaim
    storage_class: StorageClass
    offers: Shortlist[Offer]
    rooms: Shortlist[Room] | None
    size_nano: int

    @property
    def size_bytes(self) -> int:
        """What it asks for in bytes."""
        return whole(self.size_nano)

    @property
    def selected_node(self) -> str | None:
        """The node for which a volume is being made already."""
        return self.claim.metadata.annotations.get(SELECTED_NODE)


@dataclass(frozen=True, slots=True, eq=False)
class Claims:
    """The claims of a pod.

    Attributes:
        bound: those that have their volume for good.
        waiting: those that wait for their first pod.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    waiting: tuple[Demand, ...]


@dataclass(frozen=True, eq=False)
class Match:
    """Which of its candidates a claim gets.

    Attributes:
        demand: the claim.
        chosen: the index of the offer, by row.
    """

    demand: Demand
    chosen: Choices

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """int64, by row: the number of the volume that the claim gets; -1 where it gets none."""
        if not self.demand.offers.things:
            return self.chosen
        numbers = np.array([offer.number for offer in self.demand.offers.things], dtype=np.int64)
        return np.where(self.chosen == NOTHING, NOTHING, numbers[self.chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Provision:
    """Where a volume is to be made for a claim.

    Attributes:
        demand: the claim.
        asked: bool, by row: where it is to be.
        chosen: the index of the room, by row; -1 where nobody had to ask.
    """

    demand: Demand
    asked: Mask
    chosen: Choices


@dataclass(slots=True, eq=False)
class Findings:
    """What becomes of the claims on each row.

    Attributes:
        codes: int16: what is wrong with each row, as a sum of the constants above; 0 for nothing.
        matches: the claims that get a volume somewhere.
        provisions: the claims that get a new volume somewhere.
    """

    codes: Rejections
    matches: list[Match] = field(default_factory=list)
    provisions: list[Provision] = field(default_factory=list)


class Search:
    """Finds volumes, from what is known at the moment.

    Args:
        cluster: nodes, volumes and what drivers report.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._table, self._objects, self._volumes = cluster.table, cluster.objects, cluster.assumed_volumes
        self._finder = ReachFinder(cluster.table)
        self._offers = Offers(self._volumes, self._finder)
        self._capacities = Capacities(cluster.objects, self._finder)

    def demand(self, claim: PersistentVolumeClaim, storage_class: StorageClass) -> Demand:
        """A claim that waits for its first pod, with the volumes that it could have.

        Raises:
            PluginError: its selector cannot be parsed, or its size is no quantity.
        """
        text = claim.spec.resources.requests.get(STORAGE)
        try:
            size_nano = 0 if text is None else nano_value(text)
        except QuantityError as error:
            raise PluginError(f"persistentvolumeclaim {claim.key}: spec.resources.requests: {error}") from error
        selected = SELECTED_NODE in claim.metadata.annotations
        offers = [] if selected else self._offers.candidates(claim, size_nano)
        driver = self._objects.get(CSI_DRIVER, storage_class.provisioner)
        asks = text is not None and driver is not None and driver.spec.storage_capacity
        rooms = self._capacities.rooms(storage_class.metadata.name, whole(size_nano)) if asks else None
        return Demand(
            claim,
            storage_class,
            Shortlist(offers, self._finder),
            None if rooms is None else Shortlist(rooms, self._finder),
            size_nano,
        )

    def find(self, claims: Claims, rows: Rows) -> Findings:
        """What becomes of *claims* on each of *rows*.

        Raises:
            PluginError: a volume cannot be made sense of.
        """
        findings = Findings(np.zeros(len(rows), dtype=np.int16))
        self._check_bound(claims.bound, rows, findings.codes)
        if claims.waiting:
            self._find_waiting(claims.waiting, rows, findings)
        return findings

    def reaches(self, volume: PersistentVolume, node_name: str) -> bool:
        """Whether *volume* can be reached from a node, as far as its own affinity says.

        Raises:
            PluginError: it cannot be made sense of.
        """
        row = self._table.row_of(node_name)
        return row is not None and bool(self._reached(volume, np.array([row], dtype=np.intp))[0])

    # -- claims that have their volume -------------------------------------------------------------------------------

    def _check_bound(self, claims: Sequence[PersistentVolumeClaim], rows: Rows, codes: Rejections) -> None:
        """The first volume that is wrong is told."""
        sound = np.ones(len(rows), dtype=np.bool_)
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                codes[sound] |= VOLUME_GONE
                return
            reached = self._reached(volume, rows)
            codes[sound & ~reached] |= OUT_OF_REACH
            sound &= reached

    def _reached(self, volume: PersistentVolume, rows: Rows) -> Mask:
        affinity = volume.spec.node_affinity
        mask = self._mask(self._finder.of_affinity(None if affinity is None else affinity.required), rows)
        driver = in_tree_driver(volume.spec)
        if driver is None or not driver.switched:
            return mask
        told = self._told_to_successor(driver, rows)
        if np.count_nonzero(told):
            try:
                translated = translate_affinity(volume, driver)
            except TranslationError as error:
                raise PluginError(f"could not translate pv: {error}") from error
            mask[told] = self._mask(self._finder.of_affinity(translated), rows[told])
        return mask

    def _told_to_successor(self, driver: InTreeDriver, rows: Rows) -> Mask:
        """bool, shape (len(rows),): on which nodes the successor of *driver* is in charge."""
        names = (self._table.name(row) for row in rows.tolist())
        nodes = (self._objects.get(CSI_NODE, name) for name in names)
        told = (
            node is not None and driver.name in node.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")
            for node in nodes
        )
        return np.fromiter(told, dtype=np.bool_, count=len(rows))

    # -- claims that wait for their first pod ------------------------------------------------------------------------

    def _find_waiting(self, waiting: Sequence[Demand], rows: Rows, findings: Findings) -> None:
        open_: Mask = np.ones(len(rows), dtype=np.bool_)
        for demand in waiting:
            if demand.selected_node is not None:
                open_ &= rows == self._row_of(demand.selected_node)
        findings.codes[~open_] |= NO_VOLUME
        selected = [demand for demand in waiting if demand.selected_node is not None]
        matched = [demand for demand in waiting if demand.selected_node is None]
        to_make: list[tuple[Demand, Mask]] = [(demand, open_) for demand in selected]
        spot_of = self._spots(rows)
        for demand in sorted(matched, key=lambda each: each.size_nano):
            match = _match(demand, spot_of, open_, findings.matches)
            findings.matches.append(match)
            to_make.append((demand, open_ & (match.chosen == NOTHING)))
        left = open_
        for demand, asked in to_make:
            left = left & ~self._provision(demand, left & asked, rows, spot_of, findings)

    def _provision(self, demand: Demand, asked: Mask, rows: Rows, spot_of: Rows, findings: Findings) -> Mask:
        """Note where a volume can be made; returns where it is asked for and cannot be."""
        fails: Mask = np.zeros(len(rows), dtype=np.bool_)
        if not np.count_nonzero(asked):
            return fails
        found = demand.storage_class
        if found.provisioner in {"", NO_PROVISIONER}:
            fails = asked
        elif found.allowed_topologies:
            fails = asked & ~self._allowed(found.allowed_topologies, rows)
        findings.codes[fails] |= NO_VOLUME
        asked = asked & ~fails
        chosen = np.full(len(rows), NOTHING, dtype=np.int64)
        if demand.rooms is not None:
            chosen = demand.rooms.first(spot_of, asked)
            short = asked & (chosen == NOTHING)
            findings.codes[short] |= NO_ROOM
            asked, fails = asked & ~short, fails | short
        findings.provisions.append(Provision(demand, asked, chosen))
        return fails

    def _allowed(self, terms: Sequence[TopologySelectorTerm], rows: Rows) -> Mask:
        allowed: Mask = np.zeros(len(rows), dtype=np.bool_)
        for term in terms:
            mask: Mask = np.full(len(rows), bool(term.match_label_expressions), dtype=np.bool_)
            for expression in term.match_label_expressions:
                mask &= self._table.label(expression.key).mask(frozenset(expression.values).__contains__, rows)
            allowed |= mask
        return allowed

    # -- rows --------------------------------------------------------------------------------------------------------

    def _spots(self, rows: Rows) -> Rows:
        """int, shape (capacity of the table,): where each row stands in *rows*; -1 for those that do not."""
        spots = np.full(len(self._table.live), NOTHING, dtype=np.intp)
        spots[rows] = np.arange(len(rows))
        return spots

    def _mask(self, reach: Reach | None, rows: Rows) -> Mask:
        if reach is None:
            return np.ones(len(rows), dtype=np.bool_)
        return reach.mask(rows, len(self._table.live))

    def _row_of(self, node_name: str) -> int:
        row = self._table.row_of(node_name)
        return NOTHING if row is None else row


def _match(demand: Demand, spot_of: Rows, open_: Mask, before: Sequence[Match]) -> Match:
    """The smallest volume for each row that is open and that no claim before gets there."""
    offers = demand.offers
    if not before:
        return Match(demand, offers.first(spot_of, open_))
    numbers = np.array([offer.number for offer in offers.things], dtype=np.int64)

    def taken(things: NDArray[np.intp], spots: Rows) -> Mask:
        mask: Mask = np.zeros(len(spots), dtype=np.bool_)
        for match in before:
            mask |= match.numbers[spots] == numbers[things]
        return mask

    return Match(demand, offers.first(spot_of, open_, taken))
