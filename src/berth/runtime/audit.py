"""The self-audit: does the core believe what the informers hold?

Every event passes from an informer to the core at once, so the two agree whenever nobody is in the middle of something.
If they do not, an event was lost between them, by a fault of ours, and a pod may wait for ever or a node be taken for
fuller than it is.  Now and then all objects are compared; a difference is logged, counted, and mended by telling the
core what the informer holds.  What cannot be mended that way, because the object is malformed, is told once.

Called by the running process; relies on the informers to be right about the API server.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from berth.api.node import Node
    from berth.api.pod import Pod
    from berth.cluster.objects import Kind
    from berth.kube.clock import Clock
    from berth.scheduling.engine import Engine

    Key = tuple[str, str]
    Store = Mapping[Key, Any]

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 500  # objects that are compared before others get the loop

NODE, NODE_GONE = "node", "node_gone"
POD, POD_GONE, POD_LOST, POD_NOT_WAITING = "pod", "pod_gone", "pod_lost", "pod_not_waiting"
OBJECT, OBJECT_GONE = "object", "object_gone"
NOMINATION, PROMISE = "nomination", "promise"
DIFFERENCES: Final = (
    *(NODE, NODE_GONE, POD, POD_GONE, POD_LOST, POD_NOT_WAITING, OBJECT, OBJECT_GONE),
    *(NOMINATION, PROMISE),
)


class SelfAudit:
    """Compares and mends.

    Args:
        engine: what is believed.
        pods: what the informer of pods holds, by namespace and name.
        nodes: what the informer of nodes holds.
        others: the other kinds that are followed, each with what its informer holds.
        found: told of each difference, by one of `DIFFERENCES`.
        finished: told of the end of each audit.
        clock: measures the time between audits.
    """

    def __init__(
        self,
        engine: Engine,
        pods: Mapping[Key, Pod],
        nodes: Mapping[Key, Node],
        others: Callable[[], Iterable[tuple[Kind[Any], Store]]],
        *,
        found: Callable[[str], None],
        finished: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._engine, self._pods, self._nodes, self._others = engine, pods, nodes, others
        self._found, self._finished, self._clock = found, finished, clock
        self._idle_promises: set[str] = set()  # uids of claims that were promised although nobody was on his way
        # What could not be mended -> the version for which it is so; by the last audit, and by the one under way.
        self._hopeless: dict[tuple[str, Key], str] = {}
        self._still_hopeless: dict[tuple[str, Key], str] = {}

    async def run(self, period_s: float) -> None:
        """Audit every *period_s* seconds until cancelled."""
        while True:
            await self._clock.sleep(period_s)
            await self.look()

    async def look(self) -> int:
        """Compare everything once; returns how many differences there were."""
        count = 0
        for step, differs in enumerate(self._steps()):
            count += differs
            if step % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        self._hopeless, self._still_hopeless = self._still_hopeless, {}
        self._finished()
        return count

    def _steps(self) -> Iterator[bool]:
        """Compare one object after the other, as it is when its turn comes."""
        for key in list(self._nodes):
            yield self._node(key)
        table = self._engine.cluster.table
        for name in [table.name(row) for row in table.live_rows().tolist()]:
            yield self._node_gone(name)
        for key in list(self._pods):
            yield self._pod(key)
        for uid in self._engine.cluster.placed_uids():
            yield self._pod_gone(uid)
        for entry in list(self._engine.queue.entries()):
            yield self._not_waiting(entry.pod)
        for info in self._engine.queue.nominator.pods():
            yield self._nomination(info.pod)
        yield from self._promises()
        for kind, store in self._others():
            yield from self._objects(kind, store)

    # -- nodes ------------------------------------------------------------------------------------------------------

    def _node(self, key: Key) -> bool:
        held = self._nodes.get(key)
        if held is None:
            return False
        table = self._engine.cluster.table
        row = table.row_of(held.metadata.name)
        known = None if row is None else table.node(row)
        if known is held:
            return False

        def mend() -> bool:
            if known is None:
                self._engine.node_added(held)
            else:
                self._engine.node_updated(known, held)
            row = table.row_of(held.metadata.name)
            return row is not None and table.node(row) is held

        return self._differs(NODE, key, held.metadata.resource_version, mend)

    def _node_gone(self, name: str) -> bool:
        table = self._engine.cluster.table
        row = table.row_of(name)
        if row is None or ("", name) in self._nodes:
            return False
        node = table.node(row)

        def mend() -> bool:
            self._engine.node_deleted(node)
            return table.row_of(name) is None

        return self._differs(NODE_GONE, ("", name), node.metadata.resource_version, mend)

    # -- pods -------------------------------------------------------------------------------------------------------

    def _pod(self, key: Key) -> bool:
        held = self._pods.get(key)
        if held is None:
            return False
        if held.spec.node_name:
            return self._placed(key, held)
        return self._waiting(key, held)

    def _placed(self, key: Key, held: Pod) -> bool:
        cluster = self._engine.cluster
        known = cluster.placed(held.uid)
        if known is not None and not known.assumed and _same(known.info.pod, held):
            return False

        def mend() -> bool:
            if known is None or known.assumed:
                self._engine.pod_added(held)
            else:
                self._engine.pod_updated(known.info.pod, held)
            now = cluster.placed(held.uid)
            return now is not None and _same(now.info.pod, held)

        return self._differs(POD, key, held.metadata.resource_version, mend)

    def _waiting(self, key: Key, held: Pod) -> bool:
        """A pod of ours without a node waits, is being tried, or is on its way to a node."""
        queue = self._engine.queue
        if held.spec.scheduler_name not in self._engine.profiles or held.metadata.deletion_timestamp is not None:
            return False
        if queue.is_in_flight(held.uid) or self._engine.cluster.is_assumed(held.uid):
            return False
        entry = queue.get_pod(held.key)
        if entry is not None and _same(entry.pod, held):
            return False

        def mend() -> bool:
            if entry is None or entry.uid != held.uid:
                self._engine.pod_added(held)
            else:
                self._engine.pod_updated(entry.pod, held)
            now = queue.get_pod(held.key)
            return now is not None and _same(now.pod, held)

        return self._differs(POD_LOST if entry is None else POD, key, held.metadata.resource_version, mend)

    def _pod_gone(self, uid: Any) -> bool:
        """A pod that takes room is there; one that is on its way may not be known to have arrived yet."""
        placed = self._engine.cluster.placed(uid)
        if placed is None or self._engine.waiting.get(uid) is not None:
            return False
        pod = placed.info.pod
        key = (pod.metadata.namespace, pod.metadata.name)
        held = self._pods.get(key)
        if held is not None and held.uid == uid and (held.spec.node_name or placed.assumed):
            return False

        def mend() -> bool:
            self._engine.pod_deleted(pod)
            return self._engine.cluster.placed(uid) is None

        return self._differs(POD_GONE, key, pod.metadata.resource_version, mend)

    def _not_waiting(self, pod: Pod) -> bool:
        key = (pod.metadata.namespace, pod.metadata.name)
        held = self._pods.get(key)
        if held is not None and held.uid == pod.uid and not held.spec.node_name:
            return False
        queue = self._engine.queue
        entry = queue.get_pod(pod.key)
        if entry is None or entry.uid != pod.uid:
            return False

        def mend() -> bool:
            queue.delete(pod)
            return queue.get_pod(pod.key) is None

        return self._differs(POD_NOT_WAITING, key, pod.metadata.resource_version, mend)

    # -- promises ---------------------------------------------------------------------------------------------------

    def _nomination(self, pod: Pod) -> bool:
        """A pod that was promised a node is there, and has none."""
        key = (pod.metadata.namespace, pod.metadata.name)
        held = self._pods.get(key)
        nominator = self._engine.queue.nominator
        if nominator.node_of(pod.uid) is None or (held is not None and held.uid == pod.uid and not held.spec.node_name):
            return False

        def mend() -> bool:
            nominator.delete(pod.uid)
            return nominator.node_of(pod.uid) is None

        return self._differs(NOMINATION, key, pod.metadata.resource_version, mend)

    def _promises(self) -> Iterator[bool]:
        """Devices are promised to pods that are on their way; where nobody has been since the last audit, to none."""
        claims, assumed = self._engine.cluster.device_claims, self._engine.cluster.counts()["assumed_pods"]
        idle = {} if assumed else {claim.metadata.uid: claim for claim in claims.promises()}
        for uid in idle.keys() & self._idle_promises:
            meta = idle[uid].metadata
            key = (meta.namespace, meta.name)
            yield self._differs(PROMISE, key, meta.resource_version, partial(claims.withdraw, uid, for_all=True))
        self._idle_promises = set(idle)

    # -- other objects ----------------------------------------------------------------------------------------------

    def _objects(self, kind: Kind[Any], store: Store) -> Iterator[bool]:
        objects = self._engine.cluster.objects
        for namespace, name in list(store):
            held, known = store.get((namespace, name)), objects.get(kind, name, namespace)
            yield (
                held is not None and not (known is not None and _same(known, held)) and self._object(kind, known, held)
            )
        for known in list(objects.list(kind)):
            key = (known.metadata.namespace, known.metadata.name)
            yield key not in store and self._object_gone(kind, known, key)

    def _object(self, kind: Kind[Any], known: Any, held: Any) -> bool:
        meta = held.metadata

        def mend() -> bool:
            if known is None:
                self._engine.object_added(kind, held)
            else:
                self._engine.object_updated(kind, known, held)
            now = self._engine.cluster.objects.get(kind, meta.name, meta.namespace)
            return now is not None and _same(now, held)

        return self._differs(OBJECT, (f"{kind.name} {meta.namespace}", meta.name), meta.resource_version, mend)

    def _object_gone(self, kind: Kind[Any], known: Any, key: Key) -> bool:
        def mend() -> bool:
            self._engine.object_deleted(kind, known)
            return self._engine.cluster.objects.get(kind, key[1], key[0]) is None

        return self._differs(OBJECT_GONE, (f"{kind.name} {key[0]}", key[1]), known.metadata.resource_version, mend)

    # -- differences ------------------------------------------------------------------------------------------------

    def _differs(self, what: str, key: Key, version: str, mend: Callable[[], bool]) -> bool:
        """Tell of a difference and mend it, unless that was tried in vain for this very version."""
        if self._hopeless.get((what, key)) == version:
            self._still_hopeless[what, key] = version
            return False
        mended = mend()
        if not mended:
            self._still_hopeless[what, key] = version
        name = "/".join(part for part in key if part)
        outcome = "mended" if mended else "cannot be mended"
        _log.error("self-audit: %s %s: belief and informer differ, %s", what, name, outcome)
        self._found(what)
        return True


def _same(known: Any, held: Any) -> bool:
    """Whether these are one version of one object; the core may have anticipated what it has asked to be written."""
    one, other = known.metadata, held.metadata
    return bool(one.uid == other.uid and one.resource_version == other.resource_version)
