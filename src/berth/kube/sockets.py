"""The TCP sockets of a pool of connections: they notice a server that vanishes, and are known until they are closed.

asyncio closes a TLS connection some time after it was asked to, and HTTP libraries forget connections that they have
given up. Whoever closes a pool wants to know that nothing of it is left in the loop, so its sockets are kept here.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from typing import Any
from weakref import WeakSet

_PROBE_AFTER_S = 30
_PROBE_EVERY_S = 10
_PROBES = 3
_UNACKNOWLEDGED_MS = 45_000
_LOOK_EVERY_S = 0.005


class Sockets:
    """Makes sockets, as aiohttp's `socket_factory`, and tells when all of them are closed."""

    def __init__(self) -> None:
        """Start without any."""
        self._made: WeakSet[socket.socket] = WeakSet()

    def open(self, address: Any) -> socket.socket:
        """Make a TCP socket for an address as `socket.getaddrinfo` gives it.

        It finds out within a minute that the other side has vanished: a watch only listens, so without probes it would
        wait for ever on a connection whose server is gone.
        """
        family, kind, protocol, _, _ = address
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sys.platform == "linux":
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_AFTER_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_EVERY_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
        self._made.add(sock)
        return sock

    def left(self) -> int:
        """How many are open."""
        return sum(sock.fileno() >= 0 for sock in self._made)

    async def cut(self, timeout_s: float) -> None:
        """End what is still open, whether the other side agrees or not, and wait until the loop has closed it.

        Raises:
            TimeoutError: the loop did not close all of it in time.
        """
        for sock in self._made:
            if sock.fileno() >= 0:
                with suppress(OSError):  # the other side was faster
                    sock.shutdown(socket.SHUT_RDWR)
        async with asyncio.timeout(timeout_s):
            while self.left():  # noqa: ASYNC110  asyncio tells nobody of the end of a connection that was given up
                await asyncio.sleep(_LOOK_EVERY_S)
