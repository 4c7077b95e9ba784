"""The API servers of these suites; both live as long as the run, and each test gets one that is empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.chaos.clusters import real_cluster
from tests.integration.clusters import EmbeddedCluster, RealCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.clusters import Cluster


@pytest.fixture(scope="session")
def chaos_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("embedded")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def chaos_real(envtest_assets: Path) -> Iterator[RealCluster]:
    with real_cluster(envtest_assets) as cluster:
        yield cluster


@pytest.fixture(scope="session", params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def anywhere(request: pytest.FixtureRequest) -> Cluster:
    """One suite, two servers."""
    found: Cluster = request.getfixturevalue(f"chaos_{request.param}")
    return found


@pytest.fixture
def cluster(anywhere: Cluster) -> Iterator[Cluster]:
    """A cluster with nothing in it."""
    yield anywhere
    anywhere.api.wipe()


@pytest.fixture
def embedded(chaos_embedded: EmbeddedCluster) -> Iterator[EmbeddedCluster]:
    """The embedded cluster, with nothing in it."""
    yield chaos_embedded
    chaos_embedded.api.wipe()
