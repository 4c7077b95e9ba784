"""Fixtures that give a test the real control plane; ``conftest.py`` loads them as a plugin.

A test that asks for one of them is marked ``real`` by that alone. Where the binaries have not been built it is skipped,
with the command that builds them as the reason; with ``CI`` set in the environment it fails instead, so that these
tests can never go missing unnoticed. ``K8S`` in the environment picks the Kubernetes minor.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from e2e.controlplane import build
from tests.support.controlplane import ControlPlane, find_assets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.client import ApiClient

ROOT_FIXTURE = "envtest_assets"  # every fixture of the real control plane asks for this one


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if ROOT_FIXTURE in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def envtest_assets() -> Path:
    """The folder with the control plane's binaries."""
    minor = os.environ.get("K8S") or build.DEFAULT_MINOR
    assets = find_assets(minor)
    if assets is not None:
        return assets
    reason = f"no control plane for Kubernetes {minor}: run `make envtest K8S={minor}` first"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def control_plane(envtest_assets: Path) -> Iterator[ControlPlane]:
    """One control plane for the whole run; a test that kills or reconfigures servers starts its own."""
    with ControlPlane(envtest_assets) as started:
        yield started


@pytest.fixture
def real_api(control_plane: ControlPlane) -> Iterator[ApiClient]:
    """The administrator's client of the shared control plane, which is emptied after the test."""
    client = control_plane.client()
    yield client
    client.wipe()
