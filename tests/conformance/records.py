"""The vectors as they are written: one JSON document a line, gzipped or not.

A *scenario* is a cluster, pods to schedule one after another, and the decision about each; a *hint document* is a
waiting pod, changes of other objects, and what each plugin makes of them.  Read here, field by field, so that a field
that nobody knows is an error and not an omission; what the fields mean is the business of `tests.conformance.scenario`
and `tests.conformance.hints`.
"""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

SUFFIXES: Final = (".jsonl", ".jsonl.gz")


class VectorError(Exception):
    """Vectors that cannot be found or read; the text names the place."""


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """Base of all records: camel-case on the wire, unknown fields refused."""


class StatusRecord(Record, frozen=True):
    """The answer of a plugin."""

    code: str
    plugin: str = ""
    reasons: tuple[str, ...] = ()


class Outcome(Record, frozen=True):
    """What became of one pod; absent fields do not apply.

    ``feasible`` None without an ``error`` means that the pod fits nowhere; ``scores`` are node -> plugin -> score.
    """

    pod: str
    num_nodes: int
    feasible: tuple[str, ...] | None = None
    nodes: dict[str, StatusRecord] = msgspec.field(default_factory=dict)
    absent_nodes: StatusRecord | None = None
    pre_filter_message: str = ""
    unschedulable_plugins: tuple[str, ...] = ()
    scores: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    totals: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    chosen: str = ""
    message: str = ""
    post_filter: StatusRecord | None = None
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    error: str | None = None


class Scenario(Record, frozen=True):
    """A cluster, pods, and one outcome for each pod; manifests are left as JSON until their kind is known."""

    name: str
    group: str
    version: str
    objects: tuple[msgspec.Raw, ...]
    pods: tuple[msgspec.Raw, ...]
    expect: tuple[Outcome, ...]
    config: dict[str, Any] | None = None


class Change(Record, frozen=True):
    """A change of one object: ``old`` is absent for an add, ``new`` for a delete."""

    resource: str
    op: str
    old: msgspec.Raw | UnsetType = UNSET
    new: msgspec.Raw | UnsetType = UNSET


class EventAnswers(Record, frozen=True):
    """One event, and the answer of each plugin that waits for it."""

    event: str
    plugins: dict[str, str]


class HintDocument(Record, frozen=True):
    """A waiting pod, changes, and for each change the events that it is."""

    name: str
    group: str
    version: str
    objects: tuple[msgspec.Raw, ...]
    pod: msgspec.Raw
    events: tuple[Change, ...]
    expect: tuple[tuple[EventAnswers, ...], ...]
    config: dict[str, Any] | None = None


class _Shape(msgspec.Struct):
    events: msgspec.Raw | UnsetType = UNSET


_SHAPE: Final = msgspec.json.Decoder(_Shape)
_SCENARIO: Final = msgspec.json.Decoder(Scenario)
_HINTS: Final = msgspec.json.Decoder(HintDocument)


def vector_files(paths: Iterable[Path]) -> list[Path]:
    """The vector files among *paths* and, recursively, in the folders among them, each once.

    Raises:
        VectorError: a path does not exist, or has no vectors.
    """
    found: dict[Path, None] = {}
    for path in paths:
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.name.endswith(SUFFIXES))
        if not files:
            raise VectorError(f"{path}: no such file, or no {' or '.join(SUFFIXES)} files in this folder")
        found.update(dict.fromkeys(files))
    return list(found)


def read_vectors(path: Path) -> Iterator[Scenario | HintDocument]:
    """The documents of one file.

    Raises:
        VectorError: a line is no vector.
    """
    try:
        with _opened(path) as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield _decoded(line, f"{path}:{number}")
    except (OSError, EOFError) as error:
        raise VectorError(f"{path}: {error}") from error


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", gzip.open(path)) if path.name.endswith(".gz") else path.open("rb")


def _decoded(line: bytes, place: str) -> Scenario | HintDocument:
    try:
        is_scenario = _SHAPE.decode(line).events is UNSET
        document = _SCENARIO.decode(line) if is_scenario else _HINTS.decode(line)
    except msgspec.MsgspecError as error:
        raise VectorError(f"{place}: {error}") from error
    asked = len(document.pods if isinstance(document, Scenario) else document.events)
    if asked != len(document.expect):
        raise VectorError(f"{place}: {asked} questions, {len(document.expect)} expectations")
    return document
