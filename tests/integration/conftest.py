"""The clusters of this suite, and the scene of each scenario.

Both clusters live as long as the run: a scenario gets one that is empty. The real one is not the shared one of the
other suites, since scenarios kill its servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.audit import Audit
from tests.integration.clusters import REPLICAS, Cluster, EmbeddedCluster, RealCluster
from tests.integration.deployment import Deployed
from tests.integration.history import STORED_AS_JSON
from tests.integration.ranks import create_ranks, delete_ranks
from tests.integration.scene import Scene
from tests.support.controlplane import ControlPlane
from tests.support.scheduler import SchedulerProcess

from berth.sandbox.certificates import make_identity
from berth.sandbox.objects import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def embedded_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("embedded")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """What the real API server was asked."""
    return Audit(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="session")
def real_cluster(envtest_assets: Path, audit: Audit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    authority = tmp_path_factory.mktemp("authority") / "clients.crt"
    authority.write_bytes(make_identity(utc_now()).ca_pem)
    flags = [STORED_AS_JSON, f"--client-ca-file={authority}", *audit.flags]
    plane = ControlPlane(envtest_assets, apiserver_flags=flags)
    for name in REPLICAS:
        plane.add_user(name, ["system:masters"])
    with plane:
        yield RealCluster(plane)


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """One scenario, two servers."""
    found: Cluster = request.getfixturevalue(f"{request.param}_cluster")
    return found


@pytest.fixture
def scene(cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    """A cluster without nodes and pods, and without a scheduler."""
    scene = Scene(cluster, tmp_path)
    yield scene
    scene.close()
    scene.api.wipe()


@pytest.fixture(scope="module")
def resident(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchedulerProcess]:
    """A scheduler with the default profile that serves all scenarios of a module, one after the other."""
    scene = Scene(cluster, tmp_path_factory.mktemp("resident"))
    yield scene.start_scheduler().wait_synced()
    scene.close()


@pytest.fixture
def served(scene: Scene, resident: SchedulerProcess) -> Scene:
    """A scene with the module's scheduler at work."""
    scene.watch_over(resident)
    return scene


@pytest.fixture
def ranked(served: Scene) -> Iterator[Scene]:
    """A served scene with classes of importance."""
    create_ranks(served)
    yield served
    delete_ranks(served)


@pytest.fixture
def real_scene(real_cluster: RealCluster, tmp_path: Path) -> Iterator[Scene]:
    """A scene for what only the real cluster has."""
    scene = Scene(real_cluster, tmp_path)
    yield scene
    scene.close()
    scene.api.wipe()


@pytest.fixture(scope="session")
def deployed(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    """The second scheduler's manifests in the real cluster, and an account that may read its metrics."""
    deployed = Deployed(real_cluster, tmp_path_factory.mktemp("deployed"))
    deployed.kubectl("apply")
    deployed.create_scraper()
    yield deployed
    deployed.kubectl("delete")
