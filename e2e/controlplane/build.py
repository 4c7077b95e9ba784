"""Builds the real control plane (etcd, kube-apiserver and their like) from published Go modules, once per version.

``make envtest`` runs this file; it prints the folder that holds the binaries as its last line on stdout, and its
progress on stderr. Binaries go to the user's cache, beside a stamp of what they were built from; while the stamp
matches, nothing is built. ``KUBEBUILDER_ASSETS`` names a folder to use instead. The tests' harness imports ``find``
from here and never builds.

Exit codes: 0 built or found, 1 the build failed, 2 bad input, 3 something has to be built and there is no Go.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
DEFAULT_MINOR = "1.37"
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NEEDED = ("etcd", "kube-apiserver")  # what a folder must hold to count as assets
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")
STAMP = "stamp.json"
VERSION_PACKAGE = "k8s.io/component-base/version"
MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class AssetsError(Exception):
    """The assets cannot be had; the text says why, ``exit_code`` is that of the command."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One pinned Kubernetes version and the etcd that goes with it, for this machine's platform."""

    minor: str  # "1.37"
    kubernetes: str  # "1.37.2"
    etcd: str  # "3.7.3"
    platform: str  # "linux-amd64"
    sources: str  # SHA-256 of the programs, the pins and the flags

    @property
    def folder(self) -> Path:
        """Where the binaries are or will be, in the user's cache."""
        return cache_root() / f"{self.kubernetes}-{self.platform}"

    def stamp(self, go: str | None = None) -> dict[str, str]:
        """What the folder's stamp has to say; without *go* any compiler will do."""
        return dataclasses.asdict(self) | ({"go": go} if go else {})

    def is_built(self, go: str | None = None) -> bool:
        """Whether the folder holds this release, complete and built by *go* (by any compiler if None)."""
        try:
            found = json.loads((self.folder / STAMP).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return False
        want = self.stamp(go)
        same = isinstance(found, dict) and {key: found.get(key) for key in want} == want
        return same and all((self.folder / name).is_file() for name in BINARIES)

    def build_command(self, target: Path) -> list[str]:
        """The ``go build`` that writes every binary into *target*; run in this file's folder."""
        major, _, minor = self.minor.partition(".")
        values = {"gitVersion": f"v{self.kubernetes}", "gitMajor": major, "gitMinor": minor}
        link = " ".join(["-s", "-w", *(f"-X {VERSION_PACKAGE}.{key}={value}" for key, value in values.items())])
        programs = [f"./cmd/{name}" for name in BINARIES]
        pins = f"-modfile={pins_file(self.minor).name}"
        return ["go", "build", *BUILD_FLAGS, pins, "-ldflags", link, "-o", f"{target}/", *programs]


def cache_root() -> Path:
    """The folder of all built releases."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth" / "envtest"


def pins_file(minor: str) -> Path:
    """The go.mod of one Kubernetes minor."""
    return HERE / f"go-{minor}.mod"


def minors() -> list[str]:
    """The Kubernetes minors that are pinned here, oldest first."""
    return sorted(path.stem.removeprefix("go-") for path in HERE.glob("go-*.mod"))


def release(minor: str) -> Release:
    """What is pinned for *minor*.

    Raises:
        AssetsError: there are no pins for *minor*.
    """
    if minor not in minors():
        raise AssetsError(f"no Kubernetes {minor} here: want one of {', '.join(minors())}", exit_code=2)
    pins = pins_file(minor).read_text(encoding="utf-8")
    return Release(
        minor=minor,
        kubernetes=_required(pins, "k8s.io/kubernetes"),
        etcd=_required(pins, "go.etcd.io/etcd/server/v3"),
        platform=f"{platform.system().lower()}-{MACHINES.get(platform.machine(), platform.machine())}",
        sources=_sources_hash(minor),
    )


def _required(pins: str, module: str) -> str:
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", pins, re.MULTILINE)
    if found is None:
        raise AssetsError(f"the pins do not require {module}", exit_code=2)
    return found[1]


def _sources_hash(minor: str) -> str:
    pins = pins_file(minor)
    digest = hashlib.sha256(" ".join(BUILD_FLAGS).encode())
    for path in [pins, pins.with_suffix(".sum"), *sorted(HERE.glob("cmd/*/*.go"))]:
        digest.update(f"\n{path.relative_to(HERE)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def assets_from_environment() -> Path | None:
    """The folder that ``KUBEBUILDER_ASSETS`` names, None where it is not set.

    Raises:
        AssetsError: the folder lacks a server.
    """
    value = os.environ.get("KUBEBUILDER_ASSETS")
    if not value:
        return None
    missing = [name for name in NEEDED if not os.access(Path(value) / name, os.X_OK)]
    if missing:
        raise AssetsError(f"KUBEBUILDER_ASSETS={value}: no executable {' and no '.join(missing)} in it", exit_code=2)
    return Path(value)


def find(minor: str = DEFAULT_MINOR) -> Path | None:
    """The folder with the binaries of *minor* if it is there already; builds nothing.

    Raises:
        AssetsError: *minor* is not pinned here, or ``KUBEBUILDER_ASSETS`` names a folder without servers.
    """
    given = assets_from_environment()
    if given is not None:
        return given
    wanted = release(minor)
    return wanted.folder if wanted.is_built() else None


def ensure(minor: str = DEFAULT_MINOR) -> Path:
    """The folder with the binaries of *minor*, built first if they are missing or out of date.

    Raises:
        AssetsError: bad input, no Go, or a build that failed.
    """
    given = assets_from_environment()
    if given is not None:
        return given
    wanted = release(minor)
    go = _go_version()
    if go is None:
        if wanted.is_built():
            return wanted.folder
        raise AssetsError(f"Kubernetes {wanted.kubernetes} has to be built and there is no Go on PATH", exit_code=3)
    with _locked(wanted.folder):
        if not wanted.is_built(go):
            _build(wanted, go)
    return wanted.folder


def _go_version() -> str | None:
    if shutil.which("go") is None:
        return None
    done = subprocess.run(["go", "env", "GOVERSION"], cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssetsError(f"go env: {done.stderr.strip()}", exit_code=1)
    return done.stdout.strip()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lets one process at a time build *folder*; a second one waits, then finds it built."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"waiting for another build of {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(wanted: Release, go: str) -> None:
    """Builds beside the folder and renames, so that nobody ever sees half of it. Called with the lock held."""
    _say(f"building Kubernetes {wanted.kubernetes} and etcd {wanted.etcd} with {go}; the first time takes minutes")
    started = time.monotonic()
    system, _, machine = wanted.platform.partition("-")
    environment = os.environ | {"CGO_ENABLED": "0", "GOOS": system, "GOARCH": machine}
    for leftover in wanted.folder.parent.glob(f".{wanted.folder.name}.new-*"):  # of a build that was killed
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=f".{wanted.folder.name}.new-", dir=wanted.folder.parent) as scratch:
        target = Path(scratch) / "bin"
        target.mkdir()
        done = subprocess.run(wanted.build_command(target), cwd=HERE, env=environment, stdout=sys.stderr, check=False)
        if done.returncode:
            raise AssetsError(f"go build ended with {done.returncode}", exit_code=1)
        (target / STAMP).write_text(json.dumps(wanted.stamp(go), indent=2) + "\n", encoding="utf-8")
        if wanted.folder.exists():
            wanted.folder.rename(Path(scratch) / "old")
        target.rename(wanted.folder)
    _say(f"built in {time.monotonic() - started:.0f} s")


def _say(text: str) -> None:
    print(f"envtest: {text}", file=sys.stderr, flush=True)


def main() -> int:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Build etcd, kube-apiserver and their like; print their folder.")
    parser.add_argument("minor", nargs="?", default=DEFAULT_MINOR, help=f"{', '.join(minors())}; %(default)s if absent")
    arguments = parser.parse_args()
    try:
        folder = ensure(arguments.minor)
    except AssetsError as error:
        _say(str(error))
        return error.exit_code
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
