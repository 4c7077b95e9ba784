"""Which persistent volumes a claim could have, smallest first.

Volumes are kept by class as they come, change and go, those that nobody claims by size, so that a claim finds its
candidates without going through all volumes.  Owned by the VolumeBinding plugin.

Source: k8s component-helpers/storage/volume/pv_helpers.go, ``FindMatchingVolume``.
"""

import logging
from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import merge
from itertools import count
from typing import Final, NamedTuple

from berth.api.quantity import QuantityError, nano_value, whole
from berth.api.selectors import SelectorError, compile_label_selector
from berth.api.storage import STORAGE, ObjectReference, PersistentVolume, PersistentVolumeClaim
from berth.cluster.assumed import AssumeCache
from berth.framework.status import PluginError
from berth.plugins.volume_binding.reach import Reach, ReachFinder

_log = logging.getLogger(__name__)

AVAILABLE: Final = "Available"
_FILESYSTEM: Final = "Filesystem"


class Shape(NamedTuple):
    """What of a volume a claim has to fit, besides size and place."""

    volume_mode: str
    attributes_class: str
    access_modes: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """A volume, and what is looked at again and again.

    Attributes:
        number: the order in which volumes came.
        size_nano: its capacity, in billionths of a byte.
        size_bytes: the same in bytes.
        reach: the nodes from which it can be reached; None for all.
    """

    volume: PersistentVolume
    number: int
    size_nano: int
    size_bytes: int
    shape: Shape
    reach: Reach | None


@dataclass(slots=True)
class _Shelf:
    """The volumes of one class: those free to have, ordered by shape and size, and those with a claim, by its key."""

    free: dict[Shape, list[tuple[int, int, Offer]]] = field(default_factory=dict)
    claimed: dict[str, dict[int, Offer]] = field(default_factory=dict)


class Offers:
    """All volumes, by class.

    Args:
        volumes: the volumes, with what is promised already.
        finder: knows from where they can be reached.
    """

    def __init__(self, volumes: AssumeCache[PersistentVolume], finder: ReachFinder) -> None:
        self._finder = finder
        self._shelves: dict[str, _Shelf] = {}
        self._offers: dict[str, Offer] = {}
        self._numbers = count()
        for volume in volumes.list():
            self._changed(None, volume)
        volumes.listen(self._changed)

    def candidates(self, claim: PersistentVolumeClaim, size_nano: int) -> list[Offer]:
        """The volumes that *claim* could have, wherever they are: the one that is meant for it, or else free ones.

        Args:
            claim: the claim.
            size_nano: what it asks for, in billionths of a byte.

        Raises:
            PluginError: its selector cannot be parsed.
        """
        shelf = self._shelves.get(claim.class_name)
        if shelf is None:
            return []
        wanted = _shape(claim.spec.volume_mode, claim.spec.volume_attributes_class_name, ())
        mine = shelf.claimed.get(claim.key, {})
        for _, offer in sorted(mine.items()):
            if is_bound_to(offer.volume.spec.claim_ref, claim) and _suits(offer, wanted, size_nano):
                return [offer]
        modes = frozenset(claim.spec.access_modes)
        suitable = [
            offers[bisect_left(offers, (size_nano,)) :]
            for shape, offers in shelf.free.items()
            if modes <= shape.access_modes and shape[:2] == wanted[:2]
        ]
        found = [offer for _, _, offer in (suitable[0] if len(suitable) == 1 else merge(*suitable))]
        if claim.spec.selector is None:
            return found
        try:
            selector = compile_label_selector(claim.spec.selector)
        except SelectorError as error:
            raise PluginError(f"selector of persistentvolumeclaim {claim.key}: {error}") from error
        return [offer for offer in found if selector.matches(offer.volume.metadata.labels)]

    def _changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if old is not None:
            self._take_off(old.metadata.name)
        if new is not None:
            self._put_on(new)

    def _put_on(self, volume: PersistentVolume) -> None:
        try:
            size_nano = nano_value(volume.spec.capacity.get(STORAGE, "0"))
        except QuantityError as error:
            _log.error("persistentvolume %s: spec.capacity: %s; no claim gets it", volume.metadata.name, error)
            return
        spec = volume.spec
        offer = Offer(
            volume,
            next(self._numbers),
            size_nano,
            whole(size_nano),
            _shape(spec.volume_mode, spec.volume_attributes_class_name, spec.access_modes),
            self._finder.of_affinity(spec.node_affinity.required if spec.node_affinity is not None else None),
        )
        self._offers[volume.metadata.name] = offer
        if spec.claim_ref is not None:
            shelf = self._shelves.setdefault(volume.class_name, _Shelf())
            key = f"{spec.claim_ref.namespace}/{spec.claim_ref.name}"
            shelf.claimed.setdefault(key, {})[offer.number] = offer
        elif _is_free(volume):
            shelf = self._shelves.setdefault(volume.class_name, _Shelf())
            insort(shelf.free.setdefault(offer.shape, []), (size_nano, offer.number, offer))

    def _take_off(self, name: str) -> None:
        offer = self._offers.pop(name, None)
        shelf = None if offer is None else self._shelves.get(offer.volume.class_name)
        if offer is None or shelf is None:
            return
        volume = offer.volume
        if volume.spec.claim_ref is not None:
            key = f"{volume.spec.claim_ref.namespace}/{volume.spec.claim_ref.name}"
            del shelf.claimed[key][offer.number]
            if not shelf.claimed[key]:
                del shelf.claimed[key]
        elif _is_free(volume):
            offers = shelf.free[offer.shape]
            del offers[bisect_left(offers, (offer.size_nano, offer.number))]
            if not offers:
                del shelf.free[offer.shape]
        if not shelf.free and not shelf.claimed:
            del self._shelves[volume.class_name]


def is_bound_to(reference: ObjectReference | None, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume with this reference is meant for *claim*.

    Source:
        k8s component-helpers/storage/volume/pv_helpers.go, ``IsVolumeBoundToClaim``.
    """
    if reference is None:
        return False
    meta = claim.metadata
    named = (reference.name, reference.namespace) == (meta.name, meta.namespace)
    return named and reference.uid in {"", meta.uid}


def _suits(offer: Offer, wanted: Shape, size_nano: int) -> bool:
    alive = offer.volume.metadata.deletion_timestamp is None
    return alive and offer.size_nano >= size_nano and offer.shape[:2] == wanted[:2]


def _is_free(volume: PersistentVolume) -> bool:
    return volume.status.phase == AVAILABLE and volume.metadata.deletion_timestamp is None


def _shape(mode: str | None, attributes_class: str | None, access_modes: Iterable[str]) -> Shape:
    return Shape(mode or _FILESYSTEM, attributes_class or "", frozenset(access_modes))
