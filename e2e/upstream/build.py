"""Builds the reference's end-to-end suite, ``e2e.test``, from its published Go module, once per version.

It is the suite of the same version as the control plane's, unchanged. Called by the command of this folder.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from e2e import gobuild

HERE = Path(__file__).resolve().parent
PROGRAM = "e2e.test"
PACKAGE = "k8s.io/kubernetes/test/e2e"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The test suite of one Kubernetes version, for this machine's platform."""

    minor: str  # "1.37"
    kubernetes: str  # "1.37.2"
    platform: str  # "linux-amd64"
    sources: str  # SHA-256 of the pins and the flags

    @property
    def title(self) -> str:
        return f"the end-to-end suite of Kubernetes {self.kubernetes}"

    @property
    def folder(self) -> Path:
        """Where the program is or will be, in the user's cache."""
        return gobuild.cache_folder("upstream") / f"{self.kubernetes}-{self.platform}"

    @property
    def binaries(self) -> tuple[str, ...]:
        return (PROGRAM,)

    @property
    def home(self) -> Path:
        return HERE

    def stamp(self, go: str | None = None) -> dict[str, str]:
        """What the folder's stamp has to say; without *go* any compiler will do."""
        return dataclasses.asdict(self) | ({"go": go} if go else {})

    def build_command(self, target: Path) -> list[str]:
        """The ``go test -c`` that writes the program into *target*; run in this file's folder."""
        pins = f"-modfile={gobuild.pins_file(HERE, self.minor).name}"
        link = gobuild.version_flags(self.kubernetes)
        return ["go", "test", "-c", "-vet=off", *gobuild.BUILD_FLAGS, pins, *link, "-o", str(target / PROGRAM), PACKAGE]


def suite(minor: str) -> Suite:
    """What is pinned for *minor*.

    Raises:
        AssetsError: there are no pins for *minor*.
    """
    pins = gobuild.pins_file(HERE, minor)
    return Suite(
        minor=minor,
        kubernetes=gobuild.pinned(pins, "k8s.io/kubernetes"),
        platform=gobuild.this_platform(),
        sources=gobuild.sources_hash(HERE, [pins, pins.with_suffix(".sum")]),
    )


def ensure(minor: str) -> Path:
    """The program, built first if it is missing or out of date.

    Raises:
        AssetsError: bad input, no Go, or a build that failed.
    """
    return gobuild.ensure(suite(minor)) / PROGRAM
