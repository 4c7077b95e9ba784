"""From what happens in the shell to the metrics: results, durations across steps, and what goes on at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_cluster, a_node, a_pod
from tests.framework.fakes import Filter, PreFilter, Score
from tests.kube.virtual_time import in_virtual_time
from tests.runtime.builders import Shell, Step, a_shell
from tests.scheduling.builders import with_metadata

from berth.config.gates import features_of
from berth.config.versions import row_of
from berth.framework.status import error
from berth.runtime.measuring import Measured
from berth.runtime.metrics.instruments import Registry
from berth.scheduling.instructions import Bind, Drop, Instruction

if TYPE_CHECKING:
    from collections.abc import Mapping

ATTEMPTS = "scheduler_schedule_attempts_total"
ATTEMPT_S = "scheduler_scheduling_attempt_duration_seconds_sum"
ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds_count"
SLI_S = "scheduler_pod_scheduling_sli_duration_seconds_sum"
GOROUTINES = "scheduler_goroutines"
PROFILE = "default-scheduler"


class Bench:
    """The metrics, with a stopwatch and a wall clock that are set by hand."""

    def __init__(self) -> None:
        self.now_s, self.wall_s = 100.0, 1_700_000_000.0
        self.registry = Registry()
        row = row_of("1.37")
        self.measured = Measured(
            row, features_of(row), self.registry, stopwatch=lambda: self.now_s, wall=lambda: self.wall_s
        )

    def shown(self, name: str, /, **labels: str) -> float | None:
        """The value of a sample; None if it is not shown."""
        self.registry.refresh()
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None

    def decided(self, shell: Shell, *, takes_s: float = 0.5) -> Instruction:
        """The next decision, as the metrics hear of it."""
        instruction = shell.engine.next_instruction()
        assert instruction is not None
        self.now_s += takes_s
        self.measured.decided(instruction, takes_s)
        return instruction

    def bind(self, shell: Shell) -> Bind:
        """The next decision, which must be a placement."""
        instruction = self.decided(shell)
        assert isinstance(instruction, Bind)
        return instruction


@in_virtual_time
async def test_an_attempt_lasts_from_the_beginning_of_its_cycle_to_the_end_of_its_binding() -> None:
    it, shell = Bench(), a_shell(Step())
    shell.add(a_pod())
    bind = it.bind(shell)
    assert it.shown(ATTEMPTS, result="scheduled", profile=PROFILE) is None
    assert it.shown(GOROUTINES, operation="binding") == 1
    it.now_s += 2
    it.measured.bound(bind)
    assert it.shown(ATTEMPTS, result="scheduled", profile=PROFILE) == 1
    assert it.shown(ATTEMPT_S, result="scheduled", profile=PROFILE) == 2.5
    assert it.shown(ALGORITHM) == 1
    assert it.shown(GOROUTINES, operation="binding") == 0
    assert it.shown("scheduler_pod_scheduling_attempts_sum") == 1


@in_virtual_time
async def test_placements_at_once_are_timed_apart() -> None:
    it, shell = Bench(), a_shell(Step())
    shell.add(a_pod("a"), a_pod("b"))
    first, second = it.bind(shell), it.bind(shell)
    assert it.shown(GOROUTINES, operation="binding") == 2
    it.now_s += 1
    it.measured.bound(second)
    it.now_s += 1
    it.measured.bound(first)
    assert it.shown(ATTEMPT_S, result="scheduled", profile=PROFILE) == 1.5 + 3
    assert it.shown(GOROUTINES, operation="binding") == 0


@pytest.mark.parametrize(("rejected", "result"), [(True, "unschedulable"), (False, "error")])
def test_a_placement_that_fails_counts_as_its_status_says(rejected: bool, result: str) -> None:
    @in_virtual_time
    async def main() -> None:
        it, shell = Bench(), a_shell(Step())
        shell.add(a_pod())
        bind = it.bind(shell)
        it.now_s += 4
        it.measured.failed(bind, rejected=rejected)
        assert it.shown(ATTEMPTS, result=result, profile=PROFILE) == 1
        assert it.shown(ATTEMPT_S, result=result, profile=PROFILE) == 4.5
        assert it.shown(GOROUTINES, operation="binding") == 0

    main()


@in_virtual_time
async def test_a_pod_that_fits_nowhere_counts_as_unschedulable() -> None:
    cluster = a_cluster([a_node()])
    it, shell = Bench(), a_shell(Step(), Filter("F", cluster), cluster=cluster)
    shell.add(a_pod())
    it.decided(shell)
    assert it.shown(ATTEMPTS, result="unschedulable", profile=PROFILE) == 1
    assert it.shown(ATTEMPT_S, result="unschedulable", profile=PROFILE) == 0.5
    assert it.shown(ALGORITHM) == 1
    assert it.shown(GOROUTINES, operation="binding") == 0


@in_virtual_time
async def test_an_attempt_that_breaks_off_counts_as_an_error() -> None:
    it, shell = Bench(), a_shell(Step(), PreFilter("P", error("boom")))
    shell.add(a_pod())
    it.decided(shell)
    assert it.shown(ATTEMPTS, result="error", profile=PROFILE) == 1


@in_virtual_time
async def test_pods_that_were_not_tried_count_as_nothing() -> None:
    it, shell = Bench(), a_shell(Step())
    shell.engine.cluster.assume(shell.engine.cluster.info(a_pod("placed")).on("n1"), "n1")
    shell.add(a_pod("placed"), with_metadata(a_pod("leaving"), deletion_timestamp="2030-01-01T00:00:00Z"))
    assert isinstance(it.decided(shell), Drop)
    it.decided(shell)
    assert it.shown(ALGORITHM) == 0
    assert it.shown(ATTEMPTS, result="error", profile=PROFILE) is None


@in_virtual_time
async def test_the_sli_begins_when_the_pod_was_ready_at_first() -> None:
    it, shell = Bench(), a_shell(Step())
    shell.add(a_pod())
    bind = it.bind(shell)
    bind.queued.initial_attempt_timestamp_s = it.wall_s - 9
    bind.queued.attempts = 3
    it.measured.bound(bind)
    assert it.shown(SLI_S, attempts="3") == 9
    assert it.shown("scheduler_pod_scheduling_attempts_sum") == 3


@in_virtual_time
async def test_a_wall_clock_that_was_set_back_makes_no_negative_sli() -> None:
    it, shell = Bench(), a_shell(Step())
    shell.add(a_pod())
    bind = it.bind(shell)
    bind.queued.initial_attempt_timestamp_s = it.wall_s + 9
    it.measured.bound(bind)
    assert it.shown(SLI_S, attempts="1") == 0


@in_virtual_time
async def test_a_pod_that_only_the_flush_brought_back_is_counted() -> None:
    it, shell = Bench(), a_shell(Step())
    shell.add(a_pod())
    bind = it.bind(shell)
    bind.queued.was_flushed_from_unschedulable = True
    it.measured.bound(bind)
    assert it.shown("scheduler_pod_scheduled_after_flush_total") == 1


@in_virtual_time
async def test_slow_renewals_are_counted_at_each_scrape() -> None:
    it, renewals = Bench(), [0]
    it.measured.watch_election(lambda: renewals[0])
    assert it.shown("leader_election_master_status", name="kube-scheduler") == 0
    assert it.shown("leader_election_slowpath_total", name="kube-scheduler") is None
    for seen in (2, 2, 5):
        renewals[0] = seen
        assert it.shown("leader_election_slowpath_total", name="kube-scheduler") == seen


@in_virtual_time
async def test_sizes_are_asked_for_at_each_scrape_and_plugins_show_from_the_start() -> None:
    cluster = a_cluster([a_node()])
    it = Bench()
    shell = a_shell(Step(), Filter("F", cluster), Score("S", cluster, {"n1": 1}), cluster=cluster)
    it.measured.watch(shell.engine)
    expected: Mapping[str, float] = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert {queue: it.shown("scheduler_pending_pods", queue=queue) for queue in expected} == expected
    shell.add(a_pod())
    assert it.shown("scheduler_pending_pods", queue="active") == 1
    assert it.shown("scheduler_cache_size", type="nodes") == 1
    for plugin, point in (("F", "Filter"), ("S", "Score")):
        labels = {"plugin": plugin, "extension_point": point, "profile": PROFILE}
        assert it.shown("scheduler_plugin_evaluation_total", **labels) == 0
