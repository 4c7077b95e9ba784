"""Builds programs from published Go modules into the user's cache, once, and finds them there from then on.

Beside the binaries lies a stamp of what they were made from; while it matches, nothing is built. Builds of the same
folder wait for each other, and a folder appears complete or not at all. Used by ``controlplane/build.py`` and
``upstream/build.py``, which say what a product is.
"""

from __future__ import annotations

import contextlib
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
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BUILD_FLAGS = ("-trimpath", "-buildvcs=false")
STAMP = "stamp.json"
VERSION_PACKAGE = "k8s.io/component-base/version"
MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


class AssetsError(Exception):
    """The assets cannot be had; the text says why, ``exit_code`` is that of the command."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Product(Protocol):
    """Some programs of one version, for one platform."""

    @property
    def title(self) -> str:
        """What it is, for messages."""

    @property
    def folder(self) -> Path:
        """Where the binaries are or will be."""

    @property
    def platform(self) -> str:
        """Such as ``linux-amd64``."""

    @property
    def binaries(self) -> tuple[str, ...]:
        """The names of all files that the build writes."""

    @property
    def home(self) -> Path:
        """The folder with the pins, in which Go is run."""

    def stamp(self, go: str | None = None) -> dict[str, str]:
        """What the folder's stamp has to say; without *go* any compiler will do."""

    def build_command(self, target: Path) -> list[str]:
        """The command that writes every binary into *target*; run in ``home``."""


def cache_folder(name: str) -> Path:
    """The folder of one family of products in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth" / name


def this_platform() -> str:
    """The platform of this machine, as in ``linux-amd64``."""
    return f"{platform.system().lower()}-{MACHINES.get(platform.machine(), platform.machine())}"


def minors(home: Path) -> list[str]:
    """The Kubernetes minors that are pinned in *home*, oldest first."""
    return sorted(path.stem.removeprefix("go-") for path in home.glob("go-*.mod"))


def pins_file(home: Path, minor: str) -> Path:
    """The go.mod of one Kubernetes minor.

    Raises:
        AssetsError: there are no pins for *minor*.
    """
    if minor not in minors(home):
        raise AssetsError(f"no Kubernetes {minor} here: want one of {', '.join(minors(home))}", exit_code=2)
    return home / f"go-{minor}.mod"


def pinned(pins: Path, module: str) -> str:
    """The version, without its v, in which the go.mod *pins* requires *module*.

    Raises:
        AssetsError: it does not.
    """
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", pins.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise AssetsError(f"the pins do not require {module}", exit_code=2)
    return found[1]


def sources_hash(home: Path, files: Iterable[Path]) -> str:
    """SHA-256 of the flags and of some files below *home*, with their names."""
    digest = hashlib.sha256(" ".join(BUILD_FLAGS).encode())
    for path in files:
        digest.update(f"\n{path.relative_to(home)}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def version_flags(kubernetes: str) -> list[str]:
    """The linker's flags that tell programs of Kubernetes their version, such as ``1.37.2``, and leave symbols out."""
    major, minor, _ = kubernetes.split(".", 2)
    values = {"gitVersion": f"v{kubernetes}", "gitMajor": major, "gitMinor": minor}
    texts = ["-s", "-w", *(f"-X {VERSION_PACKAGE}.{key}={value}" for key, value in values.items())]
    return ["-ldflags", " ".join(texts)]


def is_built(product: Product, go: str | None = None) -> bool:
    """Whether the folder holds the product, complete and built by *go* (by any compiler if None)."""
    try:
        found = json.loads((product.folder / STAMP).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    want = product.stamp(go)
    same = isinstance(found, dict) and {key: found.get(key) for key in want} == want
    return same and all((product.folder / name).is_file() for name in product.binaries)


def ensure(product: Product) -> Path:
    """The folder with the product's binaries, built first if they are missing or out of date.

    Raises:
        AssetsError: there is no Go, or the build failed.
    """
    go = _go_version(product.home)
    if go is None:
        if is_built(product):
            return product.folder
        raise AssetsError(f"{product.title} has to be built and there is no Go on PATH", exit_code=3)
    with _locked(product.folder):
        if not is_built(product, go):
            _build(product, go)
    return product.folder


def _go_version(home: Path) -> str | None:
    if shutil.which("go") is None:
        return None
    done = subprocess.run(["go", "env", "GOVERSION"], cwd=home, capture_output=True, text=True, check=False)
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
            say(f"waiting for another build of {folder.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(product: Product, go: str) -> None:
    """Builds beside the folder and renames, so that nobody ever sees half of it. Called with the lock held."""
    say(f"building {product.title} with {go}; the first time takes minutes")
    started = time.monotonic()
    folder = product.folder
    system, _, machine = product.platform.partition("-")
    environment = os.environ | {"CGO_ENABLED": "0", "GOOS": system, "GOARCH": machine}
    for leftover in folder.parent.glob(f".{folder.name}.new-*"):  # of a build that was killed
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.new-", dir=folder.parent) as scratch:
        target = Path(scratch) / "bin"
        target.mkdir()
        command = product.build_command(target)
        done = subprocess.run(command, cwd=product.home, env=environment, stdout=sys.stderr, check=False)
        if done.returncode:
            raise AssetsError(f"{' '.join(command[:2])} ended with {done.returncode}", exit_code=1)
        (target / STAMP).write_text(json.dumps(product.stamp(go), indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            folder.rename(Path(scratch) / "old")
        target.rename(folder)
    say(f"built in {time.monotonic() - started:.0f} s")


def say(text: str) -> None:
    """Tells of progress, on stderr."""
    print(f"build: {text}", file=sys.stderr, flush=True)
