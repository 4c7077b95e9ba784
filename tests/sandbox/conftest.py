"""A fresh embedded API server and a client for it, for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.sandbox.client import Client

from berth.sandbox.serving.server import EmbeddedApiServer, ServerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedApiServer]:
    embedded = EmbeddedApiServer(ServerOptions(pod_groups=True))
    await embedded.start()
    yield embedded
    await embedded.stop()


@pytest.fixture
async def api(server: EmbeddedApiServer) -> AsyncIterator[Client]:
    async with Client(server.url) as client:
        yield client
