"""The fates that a plan draws: repeatable, as frequent as asked, and none where none are wanted."""

from __future__ import annotations

import pytest
from tests.chaos.faults import CALM, ROUGH, FaultPlan, Kind, Rates


def fates(plan: FaultPlan, count: int, verb: str = "create", resource: str = "pods/binding") -> list[str]:
    return [f"{fate.kind} {fate.status}" for fate in (plan.of_request(verb, resource) for _ in range(count))]


def test_the_same_seed_gives_the_same_fates() -> None:
    assert fates(FaultPlan(7, ROUGH), 200) == fates(FaultPlan(7, ROUGH), 200)


def test_another_seed_gives_other_fates() -> None:
    assert fates(FaultPlan(7, ROUGH), 200) != fates(FaultPlan(8, ROUGH), 200)


def test_the_fates_of_one_resource_do_not_depend_on_requests_for_another() -> None:
    alone, mixed = FaultPlan(7, ROUGH), FaultPlan(7, ROUGH)
    expected = fates(alone, 50)
    found = []
    for _ in range(50):
        mixed.of_request("list", "nodes")
        found += fates(mixed, 1)
    assert found == expected


def test_faults_are_about_as_frequent_as_asked() -> None:
    plan = FaultPlan(1, Rates(refuse=0.2, cut_after=0.1))
    kinds = [plan.of_request("create", "pods").kind for _ in range(4000)]
    assert 700 < kinds.count(Kind.REFUSE) < 900
    assert 320 < kinds.count(Kind.CUT_AFTER) < 480


def test_reads_are_not_lost_after_commit() -> None:
    plan = FaultPlan(1, Rates(after_commit=0.5, cut_after=0.5))
    assert {plan.of_request("list", "pods").kind for _ in range(50)} == {Kind.NOTHING}


def test_only_lists_and_watches_are_told_that_the_server_has_forgotten() -> None:
    plan = FaultPlan(1, Rates(refuse=1.0))
    assert "refuse 410" not in fates(plan, 100, "get", "pods")
    assert "refuse 410" not in fates(plan, 100, "patch", "pods")
    assert "refuse 410" in fates(plan, 100, "watch", "pods")


def test_nothing_happens_to_what_is_spared_nor_after_healing() -> None:
    plan = FaultPlan(1, Rates(refuse=1.0), spared=frozenset({"leases"}))
    assert plan.of_request("update", "leases").kind is Kind.NOTHING
    assert plan.of_request("update", "nodes/status").kind is Kind.REFUSE
    plan.heal()
    assert plan.rates == CALM
    assert plan.of_request("update", "nodes/status").kind is Kind.NOTHING
    assert plan.counts.total() == 1


def test_a_rate_that_is_no_likelihood_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rates are from 0 to 1, got \{'refuse': 2\.0\}"):
        Rates(refuse=2.0)
