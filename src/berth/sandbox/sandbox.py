"""The sandbox as a whole: an API server, hollow nodes, a kubeconfig.

`serve` runs it on the current loop until cancelled; `SandboxProcess` runs it in a child process, so that it does not
share a core's time slice with the scheduler that works against it. Called by the sandbox and demo commands and by the
integration tests.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from berth.sandbox.certificates import make_identity
from berth.sandbox.kubeconfig import write_kubeconfig
from berth.sandbox.nodes.access import DirectAccess
from berth.sandbox.nodes.hollow import HollowKubelet, HollowNode, Pace
from berth.sandbox.objects import utc_now
from berth.sandbox.serving.server import EmbeddedApiServer, ServerOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from pathlib import Path

_START_S: Final = 30.0
_STOP_S: Final = 10.0


class SandboxError(RuntimeError):
    """The sandbox did not start; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What to run.

    Attributes:
        server: how to serve the API.
        nodes: the hollow nodes to begin with.
        pace: how long things take on them.
        kubeconfig: where to write one; None writes none.
        tls: whether to serve HTTPS with a certificate made for the occasion.
    """

    server: ServerOptions = field(default_factory=ServerOptions)
    nodes: tuple[HollowNode, ...] = ()
    pace: Pace = field(default_factory=Pace)
    kubeconfig: Path | None = None
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a sandbox can be reached, and what a client needs for it."""

    url: str
    token: str | None
    ca_pem: bytes | None


async def serve(options: SandboxOptions, on_ready: Callable[[Endpoint], None]) -> None:
    """Run a sandbox until cancelled.

    Args:
        options: what to run.
        on_ready: called once, when the API is served, the nodes are there and the kubeconfig is written.

    Raises:
        OSError: the address cannot be used, or the kubeconfig not be written.
    """
    identity = make_identity(utc_now(), [options.server.host]) if options.tls else None
    server = EmbeddedApiServer(options.server, tls=identity.ssl_context() if identity else None)
    await server.start()
    try:
        kubelet = HollowKubelet(
            DirectAccess(server.registry), pace=options.pace, kubelet_version=f"v{options.server.minor}.0"
        )
        await kubelet.register(options.nodes)
        endpoint = Endpoint(server.url, options.server.token, identity.ca_pem if identity else None)
        if options.kubeconfig is not None:
            write_kubeconfig(options.kubeconfig, endpoint.url, token=endpoint.token, ca_pem=endpoint.ca_pem)
        on_ready(endpoint)
        await kubelet.run()
    finally:
        await server.stop()


class SandboxProcess:
    """A sandbox in a child process; a context manager.

    Args:
        options: what to run.

    Attributes:
        endpoint: where it can be reached, between `start` and `stop`.
    """

    def __init__(self, options: SandboxOptions) -> None:
        self._options = options
        self._process: multiprocessing.process.BaseProcess | None = None
        self.endpoint = Endpoint("", None, None)

    def start(self) -> None:
        """Start the process and wait until it is ready.

        Raises:
            SandboxError: it did not get ready.
        """
        # A fresh interpreter: a fork would copy the loop and the threads of this one.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._process = context.Process(target=_child, args=(self._options, theirs), name="berth-sandbox", daemon=True)
        self._process.start()
        theirs.close()
        try:
            answer = ours.recv() if ours.poll(_START_S) else SandboxError(f"not ready after {_START_S:g} s")
        except EOFError:
            answer = SandboxError("the process ended before it was ready")
        finally:
            ours.close()
        if not isinstance(answer, Endpoint):
            self.stop()
            raise SandboxError(f"the sandbox did not start: {answer}")
        self.endpoint = answer

    def stop(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        process.join(_STOP_S)
        if process.is_alive():
            process.kill()
            process.join()
        process.close()

    @property
    def pid(self) -> int | None:
        """Of the process, while it runs."""
        return self._process.pid if self._process is not None else None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _child(options: SandboxOptions, ready: Connection) -> None:
    # The parent decides when to end: an interrupt from the terminal reaches the whole process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(_serve_until_terminated(options, ready))
    except OSError as error:
        ready.send(str(error))


async def _serve_until_terminated(options: SandboxOptions, ready: Connection) -> None:
    task = asyncio.ensure_future(serve(options, ready.send))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return
