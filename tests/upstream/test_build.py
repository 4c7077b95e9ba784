"""The suite is pinned to the very version of the control plane that it tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from e2e.controlplane import build as controlplane
from e2e.gobuild import AssetsError, pins_file
from e2e.upstream import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("minor", controlplane.minors())
def test_the_suite_has_the_version_of_the_control_plane(minor: str) -> None:
    wanted = build.suite(minor)
    assert wanted.kubernetes == controlplane.release(minor).kubernetes
    command = " ".join(wanted.build_command(build.HERE))
    assert f"-modfile=go-{minor}.mod" in command
    assert f"gitVersion=v{wanted.kubernetes}" in command


@pytest.mark.parametrize("minor", controlplane.minors())
def test_what_both_builds_share_has_one_version(minor: str) -> None:
    """Else the second build would compile again what the first one compiled, and test other code than it runs."""
    theirs, ours = (_requirements(home, minor) for home in (controlplane.HERE, build.HERE))
    assert {module: ours.get(module) for module in theirs} == theirs


def test_an_unknown_minor_is_refused() -> None:
    with pytest.raises(AssetsError, match=r"no Kubernetes 1\.12 here") as refused:
        build.suite("1.12")
    assert refused.value.exit_code == 2


def _requirements(home: Path, minor: str) -> dict[str, str]:
    lines = [line.split() for line in pins_file(home, minor).read_text(encoding="utf-8").splitlines()]
    return {words[0]: words[1] for words in lines if len(words) >= 2 and words[1].startswith("v")}
