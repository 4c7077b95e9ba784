"""`Nominations`: promises of nodes that come from elsewhere, and promises that cannot be kept.

A pod of another scheduler that was promised a node counts there like one of ours; the reference overlooks it.  A
promise of ours is given up when the node is gone, or when somebody who has to go for it does not: the pod is then tried
anew at once, and told so by one event.

Owned by the engine, which tells it what the API server shows and what became of evictions.
"""

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass

from msgspec.structs import replace

from berth.api.meta import PodKey, PodUid
from berth.api.pod import Pod
from berth.cluster.cache import Cluster
from berth.cluster.pods import PodInfo
from berth.framework.interface import Eviction
from berth.queueing.queue import SchedulingQueue
from berth.scheduling.instructions import GiveUp


@dataclass(slots=True, eq=False)
class _Pending:
    """A promise that holds once all victims are gone; the deadline is set when it is first looked at."""

    eviction: Eviction
    deadline_s: float | None = None


class Nominations:
    """What the queue's book of nominations does not do by itself.

    Args:
        queue: the waiting pods and the book.
        cluster: the nodes and pods.
        lister: a pod by its key as the API server last showed it.
        profiles: the names of our schedulers.
        patience_s: how long victims may take beyond their grace period.

    Attributes:
        given_up: what is to be told of that, and has not been fetched yet.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        cluster: Cluster,
        lister: Callable[[PodKey], Pod | None],
        profiles: Collection[str],
        patience_s: float,
    ) -> None:
        self._queue, self._cluster, self._lister, self._profiles = queue, cluster, lister, profiles
        self._patience_s = patience_s
        self._pending: dict[PodUid, _Pending] = {}
        self.given_up: deque[GiveUp] = deque()

    # -- pods of other schedulers ---------------------------------------------------------------------------------

    def foreign_shown(self, pod: Pod) -> bool:
        """A pod of another scheduler is there, or has changed; returns whether it no longer hopes for a node it did."""
        before = self._queue.nominator.node_of(pod.uid)
        name = "" if pod.spec.node_name else pod.status.nominated_node_name
        if name != (before or ""):
            self._queue.nominator.add(self._cluster.info(pod), name)
        return before is not None and before != name

    def foreign_gone(self, pod: Pod) -> bool:
        """A pod of another scheduler is gone; returns whether it hoped for a node."""
        hoped = self._queue.nominator.node_of(pod.uid) is not None
        self._queue.nominator.delete(pod.uid)
        return hoped

    # -- promises of ours -----------------------------------------------------------------------------------------

    def displaced_by(self, preemptor: PodInfo, node_name: str) -> tuple[Pod, ...]:
        """Our less important pods that hope for a node; from now on they do not, and are tried elsewhere at once."""
        nominator = self._queue.nominator
        displaced = [
            other
            for other in nominator.pods_on(node_name)
            if other.priority < preemptor.priority and other.pod.spec.scheduler_name in self._profiles
        ]
        for other in displaced:
            nominator.delete(other.uid)
            self._try_without(other)
        return tuple(other.pod for other in displaced)

    def victims_told(self, eviction: Eviction) -> None:
        """All victims have been told to go."""
        self._pending[eviction.preemptor.uid] = _Pending(eviction)

    def victims_go(self, eviction: Eviction) -> None:
        """All victims go already, told by somebody else, or by ourselves before we were started anew."""
        known = self._pending.get(eviction.preemptor.uid)
        if known is None or known.eviction.node_name != eviction.node_name:
            self._pending[eviction.preemptor.uid] = _Pending(eviction)

    def node_gone(self, name: str) -> None:
        """Give up all promises of ours of this node."""
        for info in self._queue.nominator.pods_on(name):
            if info.pod.spec.scheduler_name in self._profiles:
                self._give_up(info, name, f"node {name} is gone")

    def flush(self, now_s: float) -> None:
        """Give up those promises whose victims take too long; to be called every second or so.

        Args:
            now_s: from any start, never running backwards.
        """
        for uid, pending in list(self._pending.items()):
            eviction = pending.eviction
            here = [victim for victim in eviction.victims if self._cluster.placed(victim.uid) is not None]
            if not here or not self._waits(eviction.preemptor) or self._queue.nominator.node_of(uid) is None:
                del self._pending[uid]
            elif pending.deadline_s is None:
                pending.deadline_s = now_s + self._patience_s + max(map(_grace_s, here))
            elif now_s >= pending.deadline_s:
                eviction.progress.stuck(victim.uid for victim in here)
                self._give_up(eviction.preemptor, eviction.node_name, f"pod {here[0].key} does not go")

    def _waits(self, preemptor: PodInfo) -> bool:
        now = self._lister(preemptor.key)
        return now is not None and now.uid == preemptor.uid and not now.spec.node_name

    def _give_up(self, info: PodInfo, node_name: str, why: str) -> None:
        self._pending.pop(info.uid, None)
        self._queue.nominator.delete(info.uid)
        pod = self._lister(info.key) or info.pod
        note = f"Nomination for node {node_name} given up: {why}"
        self.given_up.append(GiveUp(pod=pod, controller=pod.spec.scheduler_name, note=note))
        self._try_without(info)

    def _try_without(self, info: PodInfo) -> None:
        """Have a pod tried that was promised a node and is no longer, whatever its status still says."""
        entry = self._queue.get_pod(info.key)
        if entry is not None and entry.uid == info.uid:
            hopeless = replace(entry.pod, status=replace(entry.pod.status, nominated_node_name=""))
            entry.info = entry.info.next(hopeless)
            self._queue.activate([hopeless])


def _grace_s(victim: PodInfo) -> int:
    seconds = victim.pod.spec.termination_grace_period_seconds
    return 30 if seconds is None else seconds
