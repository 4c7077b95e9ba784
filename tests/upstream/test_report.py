"""What the reference's suite said is read, compared and told without loss."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest
from e2e.upstream.report import (
    CANDIDATE,
    YARDSTICK,
    Outcome,
    ReportError,
    Run,
    read_outcomes,
    shortfalls,
    table,
    write_json,
    write_junit,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def spec_report(
    name: str = "preempts", *, state: str = "passed", leaf: str = "It", message: str = ""
) -> dict[str, Any]:
    """One entry of Ginkgo's report."""
    found: dict[str, Any] = {
        "ContainerHierarchyTexts": ["[sig-scheduling] Preemption", "[Serial]"],
        "LeafNodeType": leaf,
        "LeafNodeText": name,
        "State": state,
        "RunTime": 2_500_000_000,
    }
    return {**found, "Failure": {"Message": message}} if message else found


def ginkgo(*reports: Mapping[str, Any], **suite: Any) -> str:
    return json.dumps([{"SuiteDescription": "suite", "SpecReports": list(reports), **suite}])


READ: Mapping[str, tuple[str, list[tuple[str, str, float, str]], str]] = {
    "a spec that passed": (
        ginkgo(spec_report()),
        [("[sig-scheduling] Preemption [Serial] preempts", "passed", 2.5, "")],
        "",
    ),
    "a spec that failed says why": (
        ginkgo(spec_report(state="failed", message="expected pod to be preempted")),
        [("[sig-scheduling] Preemption [Serial] preempts", "failed", 2.5, "expected pod to be preempted")],
        "",
    ),
    "a spec that ran out of time": (
        ginkgo(spec_report(state="timedout", message="a spec timeout occurred")),
        [("[sig-scheduling] Preemption [Serial] preempts", "timedout", 2.5, "a spec timeout occurred")],
        "",
    ),
    "a spec outside the focus was not selected": (ginkgo(spec_report(state="skipped")), [], ""),
    "a pending spec was not selected": (ginkgo(spec_report(state="pending")), [], ""),
    "a spec that skips itself was": (
        ginkgo(spec_report(state="skipped", message="At least 2 nodes are required")),
        [("[sig-scheduling] Preemption [Serial] preempts", "skipped", 2.5, "At least 2 nodes are required")],
        "",
    ),
    "what runs around the specs is none": (ginkgo(spec_report("", leaf="SynchronizedBeforeSuite")), [], ""),
    "what fails around the specs is trouble": (
        ginkgo({"LeafNodeType": "BeforeSuite", "State": "failed", "RunTime": 1, "Failure": {"Message": "no nodes"}}),
        [],
        "BeforeSuite: no nodes",
    ),
    "what the suite itself complains of is trouble": (
        ginkgo(SpecialSuiteFailureReasons=["Suite Timeout Elapsed"]),
        [],
        "Suite Timeout Elapsed",
    ),
    "a suite without specs": (json.dumps([{"SpecReports": None}]), [], ""),
}


@pytest.mark.parametrize(("text", "want", "trouble"), READ.values(), ids=READ.keys())
def test_reading_the_suites_report(text: str, want: list[tuple[str, str, float, str]], trouble: str) -> None:
    outcomes, found = read_outcomes(text)
    assert [(o.spec, o.state, o.seconds, o.message) for o in outcomes] == want
    assert found == trouble


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"SpecReports": [{}]}]', '[{"SpecReports": [{"State": 1}]}]'])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ReportError, match="no report of Ginkgo's"):
        read_outcomes(text)


def a_run(scheduler: str, *, trouble: str = "", **outcomes: tuple[str, float]) -> Run:
    """A run of specs by their names, each with its state and seconds."""
    found = tuple(Outcome(spec=name, state=state, seconds=took) for name, (state, took) in outcomes.items())
    return Run(scheduler=scheduler, outcomes=found, seconds=sum(o.seconds for o in found) + 1, trouble=trouble)


OK, FAILED, SKIPPED = ("passed", 10.0), ("failed", 5.0), ("skipped", 0.0)

COMPARED: Mapping[str, tuple[list[Run], list[str]]] = {
    "both pass": ([a_run(CANDIDATE, a=OK), a_run(YARDSTICK, a=OK)], []),
    "only the yardstick passes": (
        [a_run(CANDIDATE, a=FAILED, b=OK), a_run(YARDSTICK, a=OK, b=OK)],
        ["berth: failed: a"],
    ),
    "only the candidate passes": ([a_run(CANDIDATE, a=OK, b=OK), a_run(YARDSTICK, a=OK, b=FAILED)], []),
    "the candidate skips what the yardstick passes": (
        [a_run(CANDIDATE, a=SKIPPED, b=OK), a_run(YARDSTICK, a=OK, b=OK)],
        ["berth: skipped: a"],
    ),
    "the candidate never ran it": (
        [a_run(CANDIDATE, b=OK), a_run(YARDSTICK, a=OK, b=OK)],
        ["berth: not run: a"],
    ),
    "the candidate is a fifth slower": ([a_run(CANDIDATE, a=("passed", 12.0)), a_run(YARDSTICK, a=OK)], []),
    "the candidate is slower than that": (
        [a_run(CANDIDATE, a=("passed", 12.1)), a_run(YARDSTICK, a=OK)],
        ["berth: 12 s for what takes 10 s with kube-scheduler: more than 1.2 x"],
    ),
    "time that a failed spec takes does not count": (
        [a_run(CANDIDATE, a=OK, b=("passed", 99.0)), a_run(YARDSTICK, a=OK, b=FAILED)],
        [],
    ),
    "trouble around the specs": (
        [a_run(CANDIDATE, trouble="no nodes", a=OK), a_run(YARDSTICK, a=OK)],
        ["berth: no nodes"],
    ),
    "nothing was selected": (
        [a_run(CANDIDATE), a_run(YARDSTICK)],
        ["berth: no spec was selected", "kube-scheduler: no spec was selected"],
    ),
    "one run, all well": ([a_run(CANDIDATE, a=OK, b=SKIPPED)], []),
    "one run, one failure": ([a_run(YARDSTICK, a=OK, b=FAILED)], ["kube-scheduler: failed: b"]),
}


@pytest.mark.parametrize(("runs", "want"), COMPARED.values(), ids=COMPARED.keys())
def test_what_keeps_the_candidate_from_standing_in(runs: list[Run], want: list[str]) -> None:
    assert shortfalls(runs) == want


def test_the_table_has_a_line_per_spec_and_the_sums() -> None:
    text = table([a_run(CANDIDATE, a=OK, bb=FAILED), a_run(YARDSTICK, a=OK)])
    assert [line.split() for line in text.splitlines()] == [
        ["berth", "s", "kube-scheduler", "s", "spec"],
        ["passed", "10", "passed", "10", "a"],
        ["failed", "5", "-", "-", "bb"],
        ["1", "of", "2", "16", "1", "of", "1", "11", "passed"],
    ]


def test_the_files_say_what_the_runs_say(tmp_path: Path) -> None:
    broken = Outcome(spec="b", state="failed", seconds=3.0, message="\x1b[31mred & <angry>\x1b[0m")
    run = Run(scheduler=CANDIDATE, outcomes=(Outcome(spec="a", state="passed", seconds=1.5), broken), seconds=5.0)
    write_json(tmp_path / "results.json", "1.37.2", [run])
    content = json.loads((tmp_path / "results.json").read_text())
    assert content["kubernetes"] == "1.37.2"
    assert content["shortfalls"] == ["berth: failed: b"]
    assert [outcome["state"] for outcome in content["runs"][0]["outcomes"]] == ["passed", "failed"]
    write_junit(tmp_path / "junit.xml", [run])
    suite = ET.parse(tmp_path / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    assert suite.attrib == {"name": "berth", "tests": "2", "skipped": "0", "failures": "1", "time": "5.000"}
    assert [(case.get("name"), [child.tag for child in case]) for case in suite] == [("a", []), ("b", ["failure"])]
    assert suite[1][0].get("message") == "[31mred & <angry>[0m"
