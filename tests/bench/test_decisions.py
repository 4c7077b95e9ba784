"""The cost of decisions is measured for every kind of pod, and each of them can be placed."""

from __future__ import annotations

import pytest

from bench import decisions


@pytest.mark.parametrize("name", decisions.KINDS)
def test_pods_of_every_kind_are_placed_and_timed(name: str) -> None:
    assert decisions.measure(decisions.KINDS[name], nodes=40, bound=80, decisions=10) > 0


def test_the_report_has_a_line_for_each_kind(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ["plain", "required affinity"]
    decisions.main(["--nodes", "20", "--bound", "20", "40", "--decisions", "5", "--kinds", *kinds])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[3:]] == kinds
