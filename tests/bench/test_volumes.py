"""How long pods waited for their volumes is taken from two watches, and set out by kinds of pods."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from bench.run import BERTH_COMMAND
from bench.volumes import Follower, late, measured, report, waits_s
from tests.integration.history import STORED_AS_JSON
from tests.integration.storage import a_pod_with
from tests.integration.volume_rounds import KINDS, PODS_PER_ROUND
from tests.support.controlplane import ControlPlane

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.objects import JsonObject


async def test_a_round_is_measured_to_its_last_pod(envtest_assets: Path) -> None:
    options = Namespace(rounds=1, latest_s=0.1, binder="script", command=BERTH_COMMAND)
    with ControlPlane(envtest_assets, apiserver_flags=[STORED_AS_JSON]) as plane:
        outcome = await measured(plane, options)
    assert outcome.faults == []
    assert len(outcome.waits_s) == sum(PODS_PER_ROUND.values())


class Shown(Follower):
    """What a watch has shown, without one."""

    def __init__(self, seen: dict[str, tuple[float, JsonObject]]) -> None:
        self.seen = seen


def test_a_pod_waits_from_the_last_of_its_claims_on() -> None:
    pods = Shown({"web": (10.0, a_pod_with("web", "data", "logs"))})
    claims = Shown({"data": (7.0, {}), "logs": (9.5, {}), "other": (1.0, {})})
    assert waits_s(pods, claims) == {"web": 0.5}


def test_the_report_has_a_row_for_each_kind_of_pod_and_one_for_all() -> None:
    waits = {f"{kind}-{i}": 0.1 * i for kind in KINDS for i in range(21)} | {"late-late": 2.5}
    lines = [line.split() for line in report(waits, limit_s=1.95).splitlines()]
    assert lines[1] == ["made", "21", "1000.0", "1900.0", "2000.0", "1"]
    assert [line[0] for line in lines[1:]] == [*KINDS, "all"]
    assert lines[4][-2:] == ["2500.0", "2"]
    assert lines[5][-2:] == ["2500.0", "5"]


def test_who_waits_exactly_as_long_as_allowed_is_not_late() -> None:
    assert late([1.0, 2.0, 2.1], 2.0) == 1
