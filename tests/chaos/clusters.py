"""The real API server as the chaos suites need it: accounts for two replicas, and a store that can be read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.integration.clusters import REPLICAS, RealCluster
from tests.integration.history import STORED_AS_JSON
from tests.support.controlplane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def real_cluster(assets: Path) -> Iterator[RealCluster]:
    """A control plane that may be killed, started from the binaries in *assets*."""
    plane = ControlPlane(assets, apiserver_flags=[STORED_AS_JSON])
    for name in REPLICAS:
        plane.add_user(name, ["system:masters"])
    with plane:
        yield RealCluster(plane)
