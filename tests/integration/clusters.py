"""The two API servers of the integration suite, and what can be done to each of them.

A scenario sees a `Cluster` and cannot tell which one it is. Both may be restarted and made to forget their past.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from tests.integration import history
from tests.integration.history import Written
from tests.support.client import ApiClient
from tests.support.controlplane import ControlPlane, free_ports

from berth.sandbox.kubeconfig import write_kubeconfig
from berth.sandbox.server import EmbeddedApiServer, ServerOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path


T = TypeVar("T")

REPLICAS = ("replica-a", "replica-b")  # accounts of the real cluster with every right
_CALL_S = 60.0


class Cluster(Protocol):
    """An API server with nothing in it but what a scenario puts there."""

    @property
    def api(self) -> ApiClient:
        """The administrator's client."""

    @property
    def kubeconfig(self) -> Path:
        """The administrator's credentials."""

    def restart(self) -> None:
        """End the server and start it again, with every object kept and every connection broken."""

    def compact(self) -> None:
        """Forget the past: whoever wants to resume a watch of before the last restart is answered with 410."""

    def revision(self) -> int:
        """The number of the latest write."""

    def written(self, plural: str, since: int) -> list[Written]:
        """Every version of every object of a kind, such as ``pods``, written after the revision *since*, in order."""


class EmbeddedCluster:
    """The embedded API server, on a thread of its own; a context manager."""

    def __init__(self, folder: Path) -> None:
        (port,) = free_ports(1)  # one that is still free after a restart
        self._server = EmbeddedApiServer(ServerOptions(port=port))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded-api-server")
        self.kubeconfig = folder / "embedded.kubeconfig"

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._server.start())
        write_kubeconfig(self.kubeconfig, self._server.url)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._call(self._server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def api(self) -> ApiClient:
        return ApiClient(self._server.url)

    def restart(self) -> None:
        self._call(self._server.stop())
        self._call(self._server.start())

    def compact(self) -> None:
        self._call(self._on_loop(self._server.registry.store.compact))

    def revision(self) -> int:
        return self._server.registry.store.version

    def written(self, plural: str, since: int) -> list[Written]:
        registry = self._server.registry
        found = registry.store.collection(registry.table.served("", "v1", plural))
        changes = self._call(self._on_loop(lambda: found.changes_from(found.position_after(since))))
        return [Written(change.version, change.entry.obj) for change in changes if change.kind != "DELETED"]

    async def _on_loop(self, call: Callable[[], T]) -> T:
        return call()

    def _call(self, work: Coroutine[None, None, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)


class RealCluster:
    """A kube-apiserver with its etcd, which the suite may kill."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    @property
    def api(self) -> ApiClient:
        return self.plane.client()

    @property
    def kubeconfig(self) -> Path:
        return self.plane.admin_kubeconfig

    def restart(self) -> None:
        """The server remembers what it reads when it starts, so something has to be written while it is away."""
        self.plane.kill_apiserver()
        history.write_marker(self.plane.etcd_url)
        self.plane.start_apiserver()

    def compact(self) -> None:
        self.plane.compact_etcd()

    def revision(self) -> int:
        return history.etcd_revision(self.plane.etcd_url)

    def written(self, plural: str, since: int) -> list[Written]:
        return history.written(self.plane.etcd_url, plural, since)
