"""What the suite said: reads Ginkgo's JSON report, compares two schedulers, writes tables, JSON and JUnit.

No clock, no processes: the command of this folder hands in what it measured.
"""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

NANOSECONDS_PER_S = 1_000_000_000
PASSED, SKIPPED = "passed", "skipped"
NOT_RUN = "-"
MESSAGE_CHARS = 4000
YARDSTICK = "kube-scheduler"
CANDIDATE = "berth"
SLACK = 1.2  # how much longer than with the yardstick the specs that both pass may take


class ReportError(Exception):
    """The suite's report cannot be read; the text says what is wrong with it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one spec ended."""

    spec: str  # its full name
    state: str  # Ginkgo's word: passed, failed, timedout, panicked, skipped, ...
    seconds: float
    message: str = ""  # why it failed or skipped itself

    @property
    def passed(self) -> bool:
        return self.state == PASSED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The suite's specs with one scheduler."""

    scheduler: str
    outcomes: tuple[Outcome, ...]
    seconds: float  # of the whole suite
    trouble: str = ""  # what went wrong outside the specs

    def by_spec(self) -> dict[str, Outcome]:
        return {outcome.spec: outcome for outcome in self.outcomes}

    def count(self, state: str) -> int:
        return sum(outcome.state == state for outcome in self.outcomes)


def read_outcomes(text: str) -> tuple[list[Outcome], str]:
    """The specs that were selected, in the order in which they ran, and what failed outside of them.

    Args:
        text: what ``--ginkgo.json-report`` wrote. Specs that the focus left out are skipped without a reason there, and
            are not selected; a spec that skipped itself has a reason.

    Raises:
        ReportError: it is no such report.
    """
    try:
        suites = json.loads(text)
        reports = [report for suite in suites for report in suite.get("SpecReports") or []]
        outcomes = [_outcome(report) for report in reports if report["LeafNodeType"] == "It" and _was_selected(report)]
        around = [_outcome(report) for report in reports if report["LeafNodeType"] != "It"]
        reasons = [reason for suite in suites for reason in suite.get("SpecialSuiteFailureReasons") or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(f"no report of Ginkgo's: {error!r} in {text[:200]!r}") from error
    broken = [f"{node.spec}: {node.message}" for node in around if node.state not in (PASSED, SKIPPED)]
    return outcomes, "\n".join([*broken, *reasons])


def _was_selected(report: Mapping[str, Any]) -> bool:
    return report["State"] not in ("pending", SKIPPED) or bool(_message(report))


def _outcome(report: Mapping[str, Any]) -> Outcome:
    texts = [*(report.get("ContainerHierarchyTexts") or []), report.get("LeafNodeText") or report["LeafNodeType"]]
    return Outcome(
        spec=" ".join(texts),
        state=report["State"],
        seconds=report["RunTime"] / NANOSECONDS_PER_S,
        message=_message(report)[:MESSAGE_CHARS],
    )


def _message(report: Mapping[str, Any]) -> str:
    return str((report.get("Failure") or {}).get("Message") or "")


def shortfalls(runs: Sequence[Run]) -> list[str]:
    """What keeps the candidate from standing in for the yardstick; empty if nothing does.

    With both runs: a spec that the yardstick passes and the candidate does not, and specs that take longer than
    ``SLACK`` allows. With one run: every spec that failed.
    """
    found = [f"{run.scheduler}: {run.trouble}" for run in runs if run.trouble]
    found += [f"{run.scheduler}: no spec was selected" for run in runs if not run.outcomes]
    named = {run.scheduler: run for run in runs}
    yardstick, candidate = named.get(YARDSTICK), named.get(CANDIDATE)
    if yardstick is None or candidate is None:
        return found + [
            f"{run.scheduler}: {outcome.state}: {outcome.spec}"
            for run in runs
            for outcome in run.outcomes
            if outcome.state not in (PASSED, SKIPPED)
        ]
    ours = candidate.by_spec()
    wanted = [outcome for outcome in yardstick.outcomes if outcome.passed]
    for want in wanted:
        got = ours.get(want.spec)
        if got is None or not got.passed:
            found.append(f"{CANDIDATE}: {got.state if got else 'not run'}: {want.spec}")
    return found + _slowness(wanted, ours)


def _slowness(wanted: Sequence[Outcome], ours: Mapping[str, Outcome]) -> list[str]:
    both = [(want, ours[want.spec]) for want in wanted if want.spec in ours and ours[want.spec].passed]
    theirs_s, ours_s = sum(want.seconds for want, _ in both), sum(got.seconds for _, got in both)
    if ours_s <= SLACK * theirs_s:
        return []
    return [f"{CANDIDATE}: {ours_s:.0f} s for what takes {theirs_s:.0f} s with {YARDSTICK}: more than {SLACK} x"]


def table(runs: Sequence[Run]) -> str:
    """A line per spec: each scheduler's state and seconds; then the sums."""
    specs = sorted({outcome.spec for run in runs for outcome in run.outcomes})
    found = [run.by_spec() for run in runs]
    heads = [word for run in runs for word in (run.scheduler, "s")]
    rows = [[cell for outcomes in found for cell in _cells(outcomes.get(spec))] for spec in specs]
    sums = [word for run in runs for word in (f"{run.count(PASSED)} of {len(run.outcomes)}", f"{run.seconds:.0f}")]
    lines = [[*heads, "spec"], *([*row, spec] for row, spec in zip(rows, specs, strict=True)), [*sums, "passed"]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join("  ".join([*map(str.ljust, line[:-1], widths), line[-1]]) for line in lines)


def _cells(outcome: Outcome | None) -> tuple[str, str]:
    return (NOT_RUN, NOT_RUN) if outcome is None else (outcome.state, f"{outcome.seconds:.0f}")


def write_json(path: Path, kubernetes: str, runs: Sequence[Run]) -> None:
    """Everything, for programs."""
    content = {"kubernetes": kubernetes, "shortfalls": shortfalls(runs), "runs": [dataclasses.asdict(r) for r in runs]}
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_junit(path: Path, runs: Sequence[Run]) -> None:
    """A test suite per scheduler, in the form that CI systems read."""
    root = ET.Element("testsuites")
    for run in runs:
        counts = {"tests": len(run.outcomes), "skipped": run.count(SKIPPED)}
        counts["failures"] = counts["tests"] - counts["skipped"] - run.count(PASSED)
        attributes = {"name": run.scheduler, "time": f"{run.seconds:.3f}"}
        suite = ET.SubElement(root, "testsuite", attributes | {name: str(number) for name, number in counts.items()})
        for outcome in run.outcomes:
            told = {"classname": run.scheduler, "name": outcome.spec, "time": f"{outcome.seconds:.3f}"}
            case = ET.SubElement(suite, "testcase", told)
            if not outcome.passed:
                kind = "skipped" if outcome.state == SKIPPED else "failure"
                ET.SubElement(case, kind, message=_printable(outcome.message))
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _printable(text: str) -> str:
    """*text* without the control characters that XML cannot hold."""
    return "".join(char for char in text if char.isprintable() or char in "\n\t")
