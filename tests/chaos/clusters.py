"""The API servers of the suites that run as commands; the real one has accounts for two replicas."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from tests.integration.clusters import REPLICAS, Cluster, EmbeddedCluster, RealCluster
from tests.integration.history import STORED_AS_JSON
from tests.support.controlplane import ControlPlane, find_assets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def cluster_named(server: str, folder: Path, kubernetes: str) -> AbstractContextManager[Cluster]:
    """The embedded or the real API server; ends the process with a hint if the real one has to be built first."""
    if server == "embedded":
        return EmbeddedCluster(folder)
    assets = find_assets(kubernetes)
    if assets is None:
        sys.exit(f"no control plane for Kubernetes {kubernetes}: run `make envtest K8S={kubernetes}` first")
    return real_cluster(assets)


@contextmanager
def real_cluster(assets: Path) -> Iterator[RealCluster]:
    """A control plane that may be killed, started from the binaries in *assets*."""
    plane = ControlPlane(assets, apiserver_flags=[STORED_AS_JSON])
    for name in REPLICAS:
        plane.add_user(name, ["system:masters"])
    with plane:
        yield RealCluster(plane)
