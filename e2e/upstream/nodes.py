"""The cluster's nodes: Berth's hollow kubelet on a thread of its own, over HTTP to the real API server.

The hollow kubelet does what the suite's specs ask of nodes: it reports pods as running, offers an extended resource
that a spec adds to a node's capacity, and lets a pod that is deleted end after its preStop hook and within its grace.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from typing import TYPE_CHECKING, Self

import aiohttp

from berth.kube.sockets import Sockets
from berth.sandbox.nodes.access import HttpAccess
from berth.sandbox.nodes.hollow import HollowKubelet, HollowNode, Pace, zoned_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.controlplane import ControlPlane

# One in each of three zones. A spec about preemption looks at ten pods per node, one a second, then at five more, all
# while victims that live for 79 seconds are still there: with six nodes no scheduler can pass it.
NODES = 3
HEARTBEAT_S = 10.0  # as often as a kubelet renews its lease and looks after its node's status
JOB_S = 2.0  # how long the pods of Jobs run
START_S = 60.0
STOP_S = 5.0


class HollowNodes:
    """Hollow nodes in *plane*; a context manager that registers them and plays their kubelets.

    Args:
        plane: a control plane that has been started.
        nodes: the nodes; ``NODES`` of them, dealt out over the zones, if none is given.
    """

    def __init__(self, plane: ControlPlane, nodes: Sequence[HollowNode] = ()) -> None:
        self._plane = plane
        self._nodes = list(nodes or zoned_nodes(NODES))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hollow-nodes", daemon=True)
        self._playing: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(START_S)
        return self

    def __exit__(self, *exc_info: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(START_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def check(self) -> None:
        """Raises what ended the kubelets, if they have ended."""
        if self._playing is not None and self._playing.done():
            self._playing.result()

    async def _start(self) -> None:
        registered = asyncio.Event()
        self._playing = asyncio.create_task(self._play(registered))
        waiting = asyncio.create_task(registered.wait())
        await asyncio.wait((self._playing, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self.check()

    async def _play(self, registered: asyncio.Event) -> None:
        plane = self._plane
        headers = {"Authorization": f"Bearer {plane.token_of('admin')}"}
        tls, sockets = ssl.create_default_context(cafile=str(plane.ca_file)), Sockets()
        connector = aiohttp.TCPConnector(ssl=tls, socket_factory=sockets.open)
        try:
            async with aiohttp.ClientSession(base_url=plane.server, headers=headers, connector=connector) as session:
                pace = Pace(heartbeat_s=HEARTBEAT_S, job_s=JOB_S)
                kubelet = HollowKubelet(HttpAccess(session), pace=pace, kubelet_version=plane.version)
                await kubelet.register(self._nodes)
                registered.set()
                await kubelet.run()
        finally:
            await sockets.cut(STOP_S)

    async def _stop(self) -> None:
        if self._playing is not None:
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)
