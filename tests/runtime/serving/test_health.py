"""The health endpoints: which checks they make, and what their pages say."""

import logging

import pytest

from berth.runtime.logs import V2
from berth.runtime.metrics.instruments import Registry
from berth.runtime.serving.health import Check, HealthEndpoint, HealthMetrics, scheduler_endpoints


def fine() -> None:
    """Nothing is wrong."""


def broken() -> str:
    return "the secret reason"


def endpoint(**checks: Check) -> HealthEndpoint:
    return HealthEndpoint("readyz", checks)


def test_when_all_is_well_the_page_is_ok() -> None:
    answer = endpoint(a=fine, b=fine).answer()
    assert (answer.status, answer.text) == (200, "ok")


def test_on_request_there_is_a_line_for_each_check() -> None:
    answer = endpoint(a=fine, b=fine).answer(verbose=True)
    assert (answer.status, answer.text) == (200, "[+]a ok\n[+]b ok\nreadyz check passed\n")


def test_a_failure_shows_all_checks_and_keeps_the_reason_for_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(V2):
        answer = endpoint(a=fine, b=broken).answer()
    assert (answer.status, answer.text) == (500, "[+]a ok\n[-]b failed: reason withheld\nreadyz check failed\n")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (V2, "readyz check failed: b: the secret reason")
    ]
    assert logging.INFO > V2


def test_an_excluded_check_is_not_made() -> None:
    answer = endpoint(a=fine, b=broken).answer(verbose=True, exclude=frozenset({"b"}))
    assert (answer.status, answer.text) == (200, "[+]a ok\n[+]b excluded: ok\nreadyz check passed\n")


def test_an_exclusion_that_fits_no_check_is_warned_of() -> None:
    answer = endpoint(a=fine).answer(verbose=True, exclude=frozenset({"x", "w"}))
    lines = answer.text.splitlines()
    assert lines[0] == "[+]a ok"
    assert lines[1].startswith("warn:")
    assert lines[1].endswith('"w", "x"')
    assert answer.status == 200


def test_one_check_tells_its_reason() -> None:
    several = endpoint(a=fine, b=broken)
    assert (several.answer_one("a").status, several.answer_one("a").text) == (200, "ok")
    assert several.answer_one("b").status == 500
    assert "the secret reason" in several.answer_one("b").text


ENDPOINTS = {
    "with an election": (
        True,
        {
            "healthz": ("leaderElection",),
            "livez": ("ping",),
            "readyz": ("leaderElection", "shutdown", "sched-handler-sync"),
        },
    ),
    "without one": (False, {"healthz": ("ping",), "livez": ("ping",), "readyz": ("shutdown", "sched-handler-sync")}),
}


@pytest.mark.parametrize("case", ENDPOINTS)
def test_the_scheduler_has_the_checks_of_the_reference(case: str) -> None:
    elects, checks = ENDPOINTS[case]
    endpoints = scheduler_endpoints(synced=lambda: True, stopping=lambda: False, election=fine if elects else None)
    assert {each.name: each.check_names for each in endpoints} == checks


@pytest.mark.parametrize(
    ("synced", "stopping", "failed"),
    [(True, False, []), (False, False, ["sched-handler-sync"]), (True, True, ["shutdown"])],
)
def test_readiness_follows_the_process(*, synced: bool, stopping: bool, failed: list[str]) -> None:
    healthz, livez, readyz = scheduler_endpoints(synced=lambda: synced, stopping=lambda: stopping, election=None)
    assert (healthz.answer().status, livez.answer().status) == (200, 200)
    answer = readyz.answer(verbose=True)
    assert [line[3:].partition(" ")[0] for line in answer.text.splitlines() if line.startswith("[-]")] == failed
    assert answer.status == (500 if failed else 200)


def test_checks_are_measured() -> None:
    registry = Registry()
    several = HealthEndpoint("livez", {"a": fine, "b": broken}, HealthMetrics(registry))
    several.answer()
    several.answer()
    families = {metric.name: metric.samples for metric in registry.collect()}
    last = {(s.labels["name"], s.labels["type"]): s.value for s in families["kubernetes_healthcheck"]}
    assert last == {("a", "livez"): 1, ("b", "livez"): 0}
    total = {(s.labels["name"], s.labels["status"]): s.value for s in families["kubernetes_healthchecks"]}
    assert total == {("a", "success"): 2, ("b", "error"): 2}
