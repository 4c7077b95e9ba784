"""What ordinary pods notice of preemptions is taken from the scheduler's own histograms, and from a watch."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

import pytest
from bench.drain import MeasurementError
from bench.preemption import ATTEMPT, SEARCH, Phase, histograms, play, quantile, ratios_of_p99, report
from bench.run import BERTH_COMMAND
from tests.support.controlplane import ControlPlane

if TYPE_CHECKING:
    from pathlib import Path

    from bench.preemption import Histogram

INF = float("inf")


async def test_a_round_is_measured_with_all_preemptions_in_progress_to_its_end(envtest_assets: Path) -> None:
    options = Namespace(nodes=6, preemptions=3, pods=20, command=BERTH_COMMAND)
    idle, busy = Phase(), Phase()
    with ControlPlane(envtest_assets) as plane:
        await play(plane, options, idle, busy)
    for phase, others in ((idle, 0), (busy, options.preemptions)):
        assert len(phase.waits_s) == phase.histograms[ATTEMPT][INF] == options.pods
        assert phase.histograms[SEARCH][INF] >= options.pods + others
        assert all(value > 0 for value in phase.figures())


# upper bounds and counts, the share; the value
QUANTILES: dict[str, tuple[Histogram, float, float]] = {
    "between two bounds": ({1.0: 50.0, 2.0: 100.0, INF: 100.0}, 0.75, 1.5),
    "below the first bound": ({1.0: 50.0, 2.0: 100.0, INF: 100.0}, 0.25, 0.5),
    "beyond the last bound": ({1.0: 50.0, INF: 100.0}, 0.99, 1.0),
    "past an empty bucket": ({1.0: 50.0, 2.0: 50.0, 4.0: 100.0, INF: 100.0}, 0.51, 2.04),
}


@pytest.mark.parametrize(("histogram", "q", "value"), QUANTILES.values(), ids=QUANTILES)
def test_a_quantile(histogram: Histogram, q: float, value: float) -> None:
    assert quantile(histogram, q) == pytest.approx(value)


def test_of_no_values_there_is_no_quantile() -> None:
    with pytest.raises(MeasurementError, match="are empty"):
        quantile({1.0: 0.0, INF: 0.0}, 0.5)


PAGE = f"""
# TYPE {SEARCH} histogram
{SEARCH}_bucket{{le="0.001"}} 3
{SEARCH}_bucket{{le="+Inf"}} 4
{SEARCH}_sum 0.5
{ATTEMPT}_bucket{{profile="default-scheduler",result="scheduled",le="0.001"}} 1
{ATTEMPT}_bucket{{profile="default-scheduler",result="scheduled",le="+Inf"}} 2
{ATTEMPT}_bucket{{profile="default-scheduler",result="unschedulable",le="+Inf"}} 9
another_bucket{{le="+Inf"}} 7
"""


def test_a_page_of_metrics_gives_the_searches_and_the_attempts_that_ended_with_a_binding() -> None:
    assert histograms(PAGE) == {SEARCH: {0.001: 3.0, INF: 4.0}, ATTEMPT: {0.001: 1.0, INF: 2.0}}


def test_a_phase_is_what_it_added_and_the_report_sets_busy_against_idle() -> None:
    idle, busy = Phase(), Phase()
    start, between, after = (
        {name: {0.001: short, 0.002: longer, INF: longer + 1.0} for name in (SEARCH, ATTEMPT)}
        for short, longer in ((3.0, 3.0), (103.0, 103.0), (103.0, 203.0))
    )
    idle.take(start, between, [0.1] * 10)
    busy.take(between, after, [0.2] * 10)
    assert idle.histograms[SEARCH] == {0.001: 100.0, 0.002: 100.0, INF: 100.0}
    assert busy.histograms[SEARCH] == {0.001: 0.0, 0.002: 100.0, INF: 100.0}
    assert ratios_of_p99(idle, busy) == pytest.approx((2.0, 2.0), rel=0.02)
    lines = [line.split() for line in report(idle, busy).splitlines()]
    assert [line[0] for line in lines[1:]] == ["idle", "busy", "ratio"]
    assert lines[1][-1] == "100.00"
    assert lines[3][-1] == "2.00"
