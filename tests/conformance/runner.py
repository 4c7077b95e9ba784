"""Running vectors: evaluate each, compare, count.  Nothing is skipped; what breaks off counts as unequal.

A vector that breaks off is unequal in all its cases and parts, whatever was decided before, and does not stop the run.
"""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tests.conformance.compare import PARTS, differences, hint_differences, hint_verdicts, score_verdicts
from tests.conformance.evaluate import evaluate
from tests.conformance.hints import ask
from tests.conformance.records import HintDocument, Scenario, VectorError, read_vectors, vector_files
from tests.conformance.report import Case, Report

V = TypeVar("V", Scenario, HintDocument)
R = TypeVar("R")

HINTS: Final = "hints"
SCORES: Final = "scores"
ALL_PARTS: Final = (*PARTS, HINTS)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which vectors to run, and what of them to compare; no groups stand for all."""

    groups: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ALL_PARTS


EVERYTHING: Final = Selection()


@dataclass(frozen=True, slots=True)
class _Broken:
    """Why a vector could not be evaluated to its end."""

    words: str


def run(paths: Iterable[Path], selection: Selection = EVERYTHING, show: int = 3) -> Report:
    """Evaluate the selected vectors of *paths* and count what is equal.

    Args:
        paths: files or folders.
        selection: which vectors, and which parts.
        show: how many differences to keep in words for each line of the report.

    Raises:
        VectorError: the vectors cannot be read, or none is selected.
    """
    report = Report(show)
    any_selected = False
    for path in vector_files(paths):
        for vector in read_vectors(path):
            if selection.groups and vector.group not in selection.groups:
                continue
            if isinstance(vector, Scenario):
                any_selected |= _run_scenario(vector, selection, report)
            else:
                any_selected |= _run_hints(vector, selection, report)
    if not any_selected:
        raise VectorError("no vector is of the groups and parts that were asked for")
    return report


def _run_scenario(scenario: Scenario, selection: Selection, report: Report) -> bool:
    parts = [part for part in selection.parts if part in PARTS]
    if not parts:
        return False
    outcomes = _unless_broken(evaluate, scenario)
    for i, wanted in enumerate(scenario.expect):
        case = Case(scenario.version, scenario.group, scenario.name, wanted.pod)
        came = None if isinstance(outcomes, _Broken) else outcomes[i]
        found = (
            dict.fromkeys(parts, outcomes.words) if isinstance(outcomes, _Broken) else differences(wanted, outcomes[i])
        )
        report.count(case, found, parts)
        if SCORES in parts:
            for plugin, equal in score_verdicts(wanted, came).items():
                report.count_plugin(SCORES, plugin, case, int(equal), 1)
    return True


def _run_hints(document: HintDocument, selection: Selection, report: Report) -> bool:
    if HINTS not in selection.parts:
        return False
    answers = _unless_broken(ask, document)
    for i, (change, wanted) in enumerate(zip(document.events, document.expect, strict=True)):
        case = Case(
            document.version, document.group, document.name, f"change {i + 1} ({change.op} of {change.resource})"
        )
        came = None if isinstance(answers, _Broken) else answers[i]
        words = answers.words if isinstance(answers, _Broken) else hint_differences(wanted, answers[i])
        report.count(case, {HINTS: words} if words else {}, (HINTS,))
        for plugin, (equal, total) in hint_verdicts(wanted, came).items():
            report.count_plugin(HINTS, plugin, case, equal, total)
    return True


def _unless_broken(judge: Callable[[V], R], vector: V) -> R | _Broken:
    try:
        return judge(vector)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the result of this vector and is reported
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return _Broken(f"broke off: {type(error).__name__} at {place}: {error}")
