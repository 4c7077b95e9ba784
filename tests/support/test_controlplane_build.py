"""The builder of the control plane finds what is built, says what is wrong, and never takes the stale for the new."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from e2e import gobuild
from e2e.controlplane import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a PATH without Go."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["build.py"])
    return tmp_path / "berth" / "envtest"


def pretend_built(wanted: build.Release, *, go: str = "go1.26.8", without: str = "", **changes: str) -> Path:
    """Fills the release's folder with empty programs and a stamp."""
    wanted.folder.mkdir(parents=True)
    for name in build.BINARIES:
        if name != without:
            (wanted.folder / name).touch(mode=0o755)
    (wanted.folder / gobuild.STAMP).write_text(json.dumps(wanted.stamp(go) | changes), encoding="utf-8")
    return wanted.folder


@pytest.mark.parametrize("minor", build.minors())
def test_every_minor_pins_its_own_patch_release(minor: str) -> None:
    wanted = build.release(minor)
    assert wanted.kubernetes.rpartition(".")[0] == minor
    assert f"-X {gobuild.VERSION_PACKAGE}.gitVersion=v{wanted.kubernetes}" in " ".join(wanted.build_command(build.HERE))


def test_a_complete_folder_with_the_right_stamp_is_found(cache: Path) -> None:
    folder = pretend_built(build.release("1.36"))
    assert build.find("1.36") == folder
    assert build.find("1.37") is None
    assert folder.parent == cache


@pytest.mark.parametrize(
    "damage",
    [{"without": "etcd"}, {"sources": "0" * 64}, {"etcd": "3.5.0"}, {"platform": "plan9-mips"}],
    ids=["a program is missing", "other sources", "another etcd", "another platform"],
)
@pytest.mark.usefixtures("cache")
def test_a_folder_that_does_not_match_is_not_found(damage: dict[str, str]) -> None:
    pretend_built(build.release("1.37"), **damage)
    assert build.find("1.37") is None


@pytest.mark.usefixtures("cache")
def test_another_compiler_calls_for_a_new_build_but_serves_until_then() -> None:
    wanted = build.release("1.37")
    pretend_built(wanted, go="go1.26.1")
    assert gobuild.is_built(wanted)
    assert not gobuild.is_built(wanted, "go1.26.8")


@pytest.mark.usefixtures("cache")
def test_without_go_the_command_ends_with_3_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main() == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [f"build: {build.release('1.37').title} has to be built and there is no Go on PATH"]


@pytest.mark.usefixtures("cache")
def test_without_go_what_is_built_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    folder = pretend_built(build.release("1.37"))
    assert build.main() == 0
    assert capsys.readouterr().out == f"{folder}\n"


@pytest.mark.usefixtures("cache")
def test_an_unknown_minor_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["build.py", "1.12"])
    assert build.main() == 2
    assert "no Kubernetes 1.12 here: want one of 1.36, 1.37" in capsys.readouterr().err


def test_a_folder_from_the_environment_wins(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(pretend_built(build.release("1.36")).rename(cache / "mine")))
    assert build.find("1.37") == cache / "mine"


def test_a_folder_from_the_environment_must_hold_the_servers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_built(build.release("1.36"), without="etcd").rename(cache / "mine")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(cache / "mine"))
    with pytest.raises(gobuild.AssetsError, match="no executable etcd in it") as refused:
        build.find()
    assert refused.value.exit_code == 2
