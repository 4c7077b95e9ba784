"""`VolumeUse`: which pods with volumes are on which node, and who uses which claim, kept as pods come and go.

Rules about storage ask who holds a claim or a disk.  They are answered from what is kept here, never by walking over
all pods; pods without volumes are not kept at all.  Whoever keeps more than this, such as how many volumes of a driver
each node holds, listens.

Written by `berth.cluster.nodes.NodeTable`, also for pods that are there only for the sake of a question.

Source: k8s pkg/scheduler/framework/types.go, ``NodeInfo.PVCRefCounts``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from berth.api.meta import PodUid
from berth.api.pod import Pod, Volume
from berth.cluster.columns import Mask
from berth.cluster.pods import PodInfo

_NOBODY: Final[Mapping["PodOnRow", bool]] = MappingProxyType({})
_NO_PODS: Final[Mapping[PodUid, PodInfo]] = MappingProxyType({})


class PodOnRow(NamedTuple):
    """A pod, as it counts on a row of the node table."""

    row: int
    uid: PodUid


class ClaimUse(NamedTuple):
    """A claim that a pod uses.

    Attributes:
        name: of the claim, in the namespace of the pod.
        volume: the volume that stands for it.
    """

    name: str
    volume: Volume

    @property
    def is_ephemeral(self) -> bool:
        """Whether the claim is made for the pod, and has to belong to it."""
        return self.volume.persistent_volume_claim is None


def claims_of(pod: Pod, volumes: Iterable[Volume]) -> Iterator[ClaimUse]:
    """The claims behind those of *volumes*, volumes of *pod*, that have one.

    Source: k8s component-helpers/storage/ephemeral/ephemeral.go, ``VolumeClaimName``.
    """
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield ClaimUse(volume.persistent_volume_claim.claim_name, volume)
        elif volume.ephemeral is not None:
            yield ClaimUse(f"{pod.metadata.name}-{volume.name}", volume)


class VolumeUse:
    """The pods with volumes by row, and the users of each claim."""

    def __init__(self) -> None:
        self._pods: dict[int, dict[PodUid, PodInfo]] = {}
        self._users: dict[str, dict[PodOnRow, bool]] = {}
        self._listeners: list[Callable[[PodOnRow], None]] = []

    def rows(self) -> Mapping[int, Mapping[PodUid, PodInfo]]:
        """The pods with volumes, by row; not to be written to."""
        return self._pods

    def pods(self, row: int) -> Mapping[PodUid, PodInfo]:
        """The pods with volumes on one row; not to be written to."""
        return self._pods.get(row, _NO_PODS)

    def users(self, claim: str) -> Iterable[PodOnRow]:
        """The pods that use a claim, given as ``namespace/name``."""
        return self._users.get(claim, _NOBODY)

    def is_mounted(self, claim: str, live: Mask) -> bool:
        """Whether a pod on a node that exists names the claim in its spec."""
        return any(named and live[user.row] for user, named in self._users.get(claim, _NOBODY).items())

    def listen(self, change: Callable[[PodOnRow], None]) -> None:
        """Call *change* after a pod with volumes came or went."""
        self._listeners.append(change)

    def add(self, row: int, info: PodInfo) -> None:
        """Record that a pod with volumes is on *row*."""
        self._pods.setdefault(row, {})[info.uid] = info
        user = PodOnRow(row, info.uid)
        for key, named in _claim_keys(info):
            users = self._users.setdefault(key, {})
            users[user] = users.get(user, False) or named
        self._tell(user)

    def remove(self, row: int, info: PodInfo) -> None:
        """Record that a pod with volumes is no longer on *row*."""
        pods = self._pods[row]
        del pods[info.uid]
        if not pods:
            del self._pods[row]
        user = PodOnRow(row, info.uid)
        for key, _ in _claim_keys(info):
            users = self._users.get(key)
            if users is not None:
                users.pop(user, None)
                if not users:
                    del self._users[key]
        self._tell(user)

    def faults(self, pods: Iterable[tuple[int, PodInfo]]) -> list[str]:
        """In what this differs from the pods that are there, each with its row; for tests and self-audits."""
        fresh = VolumeUse()
        for row, info in pods:
            if info.volumes:
                fresh.add(row, info)
        faults = []
        if _uids(self) != _uids(fresh):
            faults.append("the pods with volumes are not those that are there")
        if self._users != fresh._users:
            faults.append("the users of claims are not those that are there")
        return faults

    def _tell(self, user: PodOnRow) -> None:
        for listener in self._listeners:
            listener(user)


def _uids(use: VolumeUse) -> dict[int, frozenset[PodUid]]:
    return {row: frozenset(pods) for row, pods in use.rows().items()}


def _claim_keys(info: PodInfo) -> Iterator[tuple[str, bool]]:
    """The keys of the pod's claims, and whether its spec names them."""
    namespace = info.pod.metadata.namespace
    for use in claims_of(info.pod, info.volumes):
        yield f"{namespace}/{use.name}", not use.is_ephemeral
