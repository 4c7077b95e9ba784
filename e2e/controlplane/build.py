"""Builds the real control plane (etcd, kube-apiserver and their like) from published Go modules, once per version.

``make envtest`` runs this file; it prints the folder that holds the binaries as its last line on stdout, and its
progress on stderr. Binaries go to the user's cache, beside a stamp of what they were built from; while the stamp
matches, nothing is built. ``KUBEBUILDER_ASSETS`` names a folder to use instead. The tests' harness imports ``find``
from here and never builds.

Exit codes: 0 built or found, 1 the build failed, 2 bad input, 3 something has to be built and there is no Go.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from pathlib import Path

from e2e import gobuild
from e2e.gobuild import AssetsError

HERE = Path(__file__).resolve().parent
DEFAULT_MINOR = "1.37"
BINARIES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NEEDED = ("etcd", "kube-apiserver")  # what a folder must hold to count as assets


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One pinned Kubernetes version and the etcd that goes with it, for this machine's platform."""

    minor: str  # "1.37"
    kubernetes: str  # "1.37.2"
    etcd: str  # "3.7.3"
    platform: str  # "linux-amd64"
    sources: str  # SHA-256 of the programs, the pins and the flags

    @property
    def title(self) -> str:
        return f"Kubernetes {self.kubernetes} with etcd {self.etcd}"

    @property
    def folder(self) -> Path:
        """Where the binaries are or will be, in the user's cache."""
        return gobuild.cache_folder("envtest") / f"{self.kubernetes}-{self.platform}"

    @property
    def binaries(self) -> tuple[str, ...]:
        return BINARIES

    @property
    def home(self) -> Path:
        return HERE

    def stamp(self, go: str | None = None) -> dict[str, str]:
        """What the folder's stamp has to say; without *go* any compiler will do."""
        return dataclasses.asdict(self) | ({"go": go} if go else {})

    def build_command(self, target: Path) -> list[str]:
        """The ``go build`` that writes every binary into *target*; run in this file's folder."""
        programs = [f"./cmd/{name}" for name in BINARIES]
        pins = f"-modfile={gobuild.pins_file(HERE, self.minor).name}"
        link = gobuild.version_flags(self.kubernetes)
        return ["go", "build", *gobuild.BUILD_FLAGS, pins, *link, "-o", f"{target}/", *programs]


def minors() -> list[str]:
    """The Kubernetes minors that are pinned here, oldest first."""
    return gobuild.minors(HERE)


def release(minor: str) -> Release:
    """What is pinned for *minor*.

    Raises:
        AssetsError: there are no pins for *minor*.
    """
    pins = gobuild.pins_file(HERE, minor)
    return Release(
        minor=minor,
        kubernetes=gobuild.pinned(pins, "k8s.io/kubernetes"),
        etcd=gobuild.pinned(pins, "go.etcd.io/etcd/server/v3"),
        platform=gobuild.this_platform(),
        sources=gobuild.sources_hash(HERE, [pins, pins.with_suffix(".sum"), *sorted(HERE.glob("cmd/*/*.go"))]),
    )


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
    return wanted.folder if gobuild.is_built(wanted) else None


def ensure(minor: str = DEFAULT_MINOR) -> Path:
    """The folder with the binaries of *minor*, built first if they are missing or out of date.

    Raises:
        AssetsError: bad input, no Go, or a build that failed.
    """
    return assets_from_environment() or gobuild.ensure(release(minor))


def main() -> int:
    """The command; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Build etcd, kube-apiserver and their like; print their folder.")
    parser.add_argument("minor", nargs="?", default=DEFAULT_MINOR, help=f"{', '.join(minors())}; %(default)s if absent")
    arguments = parser.parse_args()
    try:
        folder = ensure(arguments.minor)
    except AssetsError as error:
        gobuild.say(str(error))
        return error.exit_code
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
