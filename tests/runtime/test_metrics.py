"""The families of the scheduler: names, labels, buckets and values, as a scrape sees them."""

import gzip
from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from berth.config.gates import resolve_gates
from berth.config.versions import row_of
from berth.framework.status import Code
from berth.runtime.metrics import buckets
from berth.runtime.metrics.client import ClientMetrics
from berth.runtime.metrics.exposition import Exposer
from berth.runtime.metrics.instruments import Registry, Stability
from berth.runtime.metrics.process import Process, register_build, register_registrations, register_tasks
from berth.runtime.metrics.scheduler import SchedulerMetrics


class Scraped:
    """What a scrape of a registry shows, in the plain text format."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples: dict[str, list[Sample]] = {}
        for family in self.families.values():
            for sample in family.samples:
                self.samples.setdefault(sample.name, []).append(sample)

    def value(self, name: str, /, **labels: str) -> float:
        [sample] = [sample for sample in self.samples[name] if sample.labels == labels]
        return sample.value

    def values(self, name: str, label: str) -> dict[str, float]:
        return {sample.labels[label]: sample.value for sample in self.samples.get(name, [])}


async def scrape(registry: Registry, *others: Process) -> Scraped:
    page = await Exposer(registry, *others).expose("", compress=False)
    return Scraped(page.body.decode())


def scheduler_metrics(
    minor: str = "1.36",
    gates: Mapping[str, bool] | None = None,
    registry: Registry | None = None,
    chances: tuple[float, ...] = (0.0,),
) -> tuple[SchedulerMetrics, Registry]:
    row = row_of(minor)
    settled, _ = resolve_gates(row, gates or {})
    registry = registry or Registry()
    left = iter(chances)
    return SchedulerMetrics(row, settled, registry, chance=lambda: next(left)), registry


def touch_everything(metrics: SchedulerMetrics) -> None:
    """Make each family show itself."""
    metrics.pod_scheduled("p", 1, 0.1, 0.1, after_flush=True)
    metrics.algorithm_finished(0.1)
    metrics.event_handled("NodeAdd", 0.1)
    metrics.work("binding").inc()
    metrics.watch_cache(lambda: {"nodes": 1, "pods": 2, "assumed_pods": 3})
    metrics.watch_queue(lambda: {"active": 1, "backoff": 0, "unschedulable": 0, "gated": 0})
    metrics.extension_point_ran("PreFilter", "Success", "p", 0.1)
    metrics.plugin_ran("NodeName", "Filter", "Success", 0.1)
    metrics.plugins_known("p", {"Filter": ["NodeName"]})
    metrics.permit_waited("Success", 0.1)
    metrics.volume_stage_failed("bind")
    metrics.preemption_executed(ok=True, seconds=0.1)
    metrics.group_attempt_finished("scheduled", "p", 0.1)
    metrics.pod_queued("active", "UnschedulablePodAdd")
    metrics.unschedulable_changed("NodeName", "p", 1)
    metrics.in_flight_changed("PodPopped", 1)
    metrics.hint_ran("NodeName", "NodeAdd", "Queue", 0.1)


A = "0.0001 0.0002 0.0004 0.0008 0.0016 0.0032 0.0064 0.0128 0.0256 0.0512 0.1024 0.2048"
B = "0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512 1.024 2.048 4.096 8.192 16.384"
C = "1 2 4 8 16 32 64"
D = (
    "0.01 0.02 0.04 0.08 0.16 0.32 0.64 1.28 2.56 5.12 10.24 20.48 40.96 81.92 163.84 327.68 655.36 1310.72 "
    "2621.44 5242.88"
)
E = "1 2 4 8 16"

HISTOGRAMS = {
    "scheduler_scheduling_attempt_duration_seconds": (B, {"result", "profile"}),
    "scheduler_scheduling_algorithm_duration_seconds": (B, set()),
    "scheduler_event_handling_duration_seconds": (A, {"event"}),
    "scheduler_preemption_victims": (C, set()),
    "scheduler_pod_scheduling_sli_duration_seconds": (D, {"attempts"}),
    "scheduler_pod_scheduling_attempts": (E, set()),
    "scheduler_framework_extension_point_duration_seconds": (A, {"extension_point", "status", "profile"}),
    "scheduler_permit_wait_duration_seconds": (B, {"result"}),
    "scheduler_preemption_goroutines_duration_seconds": (D, {"result"}),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": (B, {"result", "profile"}),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": (B, set()),
}


@pytest.mark.parametrize("name", HISTOGRAMS)
async def test_a_histogram_has_the_bounds_and_labels_of_the_reference(name: str) -> None:
    bounds, labels = HISTOGRAMS[name]
    metrics, registry = scheduler_metrics(gates={"GenericWorkload": True})
    touch_everything(metrics)
    scraped = await scrape(registry)
    assert scraped.families[name].type == "histogram"
    children = {
        tuple(sorted((k, v) for k, v in s.labels.items() if k != "le")) for s in scraped.samples[f"{name}_bucket"]
    }
    assert len(children) == 1
    assert {key for key, _ in next(iter(children))} == labels
    assert [sample.labels["le"] for sample in scraped.samples[f"{name}_bucket"]] == [*bounds.split(), "+Inf"]


OTHERS = {
    "scheduler_schedule_attempts_total": ("counter", {"result", "profile"}),
    "scheduler_preemption_attempts_total": ("counter", set()),
    "scheduler_pod_scheduled_after_flush_total": ("counter", set()),
    "scheduler_queue_incoming_pods_total": ("counter", {"queue", "event"}),
    "scheduler_plugin_evaluation_total": ("counter", {"plugin", "extension_point", "profile"}),
    "scheduler_volume_scheduling_stage_error_total": ("counter", {"operation"}),
    "scheduler_preemption_goroutines_execution_total": ("counter", {"result"}),
    "scheduler_podgroup_schedule_attempts_total": ("counter", {"result", "profile"}),
    "scheduler_pending_pods": ("gauge", {"queue"}),
    "scheduler_goroutines": ("gauge", {"operation"}),
    "scheduler_cache_size": ("gauge", {"type"}),
    "scheduler_unschedulable_pods": ("gauge", {"plugin", "profile"}),
    "scheduler_inflight_events": ("gauge", {"event"}),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_a_counter_or_gauge_has_the_type_and_labels_of_the_reference(name: str) -> None:
    kind, labels = OTHERS[name]
    metrics, registry = scheduler_metrics(gates={"GenericWorkload": True})
    touch_everything(metrics)
    scraped = await scrape(registry)
    assert f"# TYPE {name} {kind}\n" in scraped.text
    assert all(set(sample.labels) == labels for sample in scraped.samples[name])


@pytest.mark.parametrize("name", ["plugin_execution", "queueing_hint_execution"])
async def test_bounds_of_plugin_timings_are_multiplied_up_without_rounding(name: str) -> None:
    metrics, registry = scheduler_metrics()
    touch_everything(metrics)
    samples = (await scrape(registry)).samples[f"scheduler_{name}_duration_seconds_bucket"]
    texts = [sample.labels["le"] for sample in samples]
    assert texts[:3] == ["1e-05", "1.5000000000000002e-05", "2.2500000000000005e-05"]
    assert len(texts) == 21
    assert float(texts[-2]) == pytest.approx(0.0221684, rel=1e-5)


STABILITY = {
    "scheduler_schedule_attempts_total": "STABLE",
    "scheduler_scheduling_attempt_duration_seconds": "STABLE",
    "scheduler_preemption_victims": "STABLE",
    "scheduler_preemption_attempts_total": "STABLE",
    "scheduler_pending_pods": "STABLE",
    "scheduler_pod_scheduling_attempts": "STABLE",
    "scheduler_framework_extension_point_duration_seconds": "STABLE",
    "scheduler_queue_incoming_pods_total": "STABLE",
    "scheduler_pod_scheduling_sli_duration_seconds": "BETA",
    "scheduler_goroutines": "BETA",
    "scheduler_permit_wait_duration_seconds": "BETA",
    "scheduler_unschedulable_pods": "BETA",
    "scheduler_plugin_evaluation_total": "BETA",
    "scheduler_cache_size": "ALPHA",
    "scheduler_event_handling_duration_seconds": "ALPHA",
}


async def test_help_begins_with_the_stability() -> None:
    metrics, registry = scheduler_metrics()
    touch_everything(metrics)
    scraped = await scrape(registry)
    for name, stability in STABILITY.items():
        assert f"# HELP {name} [{stability}] " in scraped.text


@pytest.mark.parametrize(("minor", "stability"), [("1.36", "ALPHA"), ("1.37", "BETA")])
async def test_the_algorithm_duration_is_promoted_with_the_version(minor: str, stability: str) -> None:
    _, registry = scheduler_metrics(minor)
    text = (await scrape(registry)).text
    assert f"# HELP scheduler_scheduling_algorithm_duration_seconds [{stability}] " in text


@pytest.mark.parametrize(
    ("minor", "queues"),
    [
        ("1.36", {"active", "backoff", "unschedulable", "gated"}),
        ("1.37", {"active", "backoff", "unschedulable", "gated", "incomplete", "pending"}),
    ],
)
async def test_all_queues_of_the_version_show_from_the_start(minor: str, queues: set[str]) -> None:
    _, registry = scheduler_metrics(minor)
    assert (await scrape(registry)).values("scheduler_pending_pods", "queue") == dict.fromkeys(queues, 0)


async def test_a_bound_pod_counts_as_scheduled_with_its_times_and_attempts() -> None:
    metrics, registry = scheduler_metrics()
    metrics.pod_scheduled("default-scheduler", attempts=3, sli_s=2.0, attempt_s=0.004)
    scraped = await scrape(registry)
    labels = {"result": "scheduled", "profile": "default-scheduler"}
    assert scraped.value("scheduler_schedule_attempts_total", **labels) == 1
    buckets_of_b = scraped.samples["scheduler_scheduling_attempt_duration_seconds_bucket"]
    assert {s.labels["le"]: s.value for s in buckets_of_b}["0.002"] == 0
    assert {s.labels["le"]: s.value for s in buckets_of_b}["0.004"] == 1, "a value on a bound lies below it"
    assert scraped.value("scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="3") == 2.0
    assert scraped.value("scheduler_pod_scheduling_attempts_sum") == 3
    assert scraped.value("scheduler_pod_scheduled_after_flush_total") == 0


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (400, "15+")])
async def test_many_attempts_share_one_label(attempts: int, label: str) -> None:
    metrics, registry = scheduler_metrics()
    metrics.pod_scheduled("p", attempts=attempts, sli_s=1.0, attempt_s=1.0)
    assert (await scrape(registry)).value("scheduler_pod_scheduling_sli_duration_seconds_count", attempts=label) == 1


async def test_a_failed_attempt_counts_only_as_an_attempt() -> None:
    metrics, registry = scheduler_metrics()
    metrics.attempt_finished("unschedulable", "p", 0.1)
    scraped = await scrape(registry)
    assert scraped.value("scheduler_schedule_attempts_total", result="unschedulable", profile="p") == 1
    assert scraped.value("scheduler_pod_scheduling_attempts_count") == 0
    assert "scheduler_pod_scheduling_sli_duration_seconds" not in scraped.families


async def test_sizes_are_asked_for_at_each_scrape() -> None:
    metrics, registry = scheduler_metrics()
    sizes = {"nodes": 3, "pods": 5, "assumed_pods": 1}
    pending = {"active": 2, "backoff": 1, "unschedulable": 4, "gated": 7}
    metrics.watch_cache(lambda: sizes)
    metrics.watch_queue(lambda: pending)
    await scrape(registry)
    sizes["nodes"], pending["gated"] = 4, 0
    scraped = await scrape(registry)
    assert scraped.values("scheduler_cache_size", "type") == {"nodes": 4, "pods": 5, "assumed_pods": 1}
    assert scraped.values("scheduler_pending_pods", "queue") == {**pending, "gated": 0}


async def test_evaluations_of_known_plugins_show_as_zero_until_they_happen() -> None:
    metrics, registry = scheduler_metrics()
    metrics.plugins_known("p", {"Filter": ["NodeName", "NodePorts"]})
    metrics.plugins_evaluated("p", "Filter", ["NodeName"])
    values = (await scrape(registry)).values("scheduler_plugin_evaluation_total", "plugin")
    assert values == {"NodeName": 1, "NodePorts": 0}


async def test_the_queue_is_observed() -> None:
    metrics, registry = scheduler_metrics(chances=(0.05, 0.5))
    metrics.pod_queued("backoff", "ScheduleAttemptFailure")
    metrics.unschedulable_changed("NodeName", "p", 2)
    metrics.unschedulable_changed("NodeName", "p", -1)
    metrics.in_flight_changed("PodPopped", 1)
    metrics.hint_ran("NodeName", "NodeAdd", "QueueSkip", 0.001)
    metrics.pre_enqueue_ran("p", 0.001)
    metrics.pre_enqueue_plugin_ran("p", "SchedulingGates", Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 0.001)
    metrics.pre_enqueue_plugin_ran("p", "DynamicResources", Code.SUCCESS, 0.001)
    scraped = await scrape(registry)
    assert scraped.value("scheduler_queue_incoming_pods_total", queue="backoff", event="ScheduleAttemptFailure") == 1
    assert scraped.value("scheduler_unschedulable_pods", plugin="NodeName", profile="p") == 1
    assert scraped.value("scheduler_inflight_events", event="PodPopped") == 1
    hint = {"plugin": "NodeName", "event": "NodeAdd", "hint": "QueueSkip"}
    assert scraped.value("scheduler_queueing_hint_execution_duration_seconds_count", **hint) == 1
    point = {"extension_point": "PreEnqueue", "status": "Success", "profile": "p"}
    assert scraped.value("scheduler_framework_extension_point_duration_seconds_count", **point) == 1
    plugins = scraped.values("scheduler_plugin_execution_duration_seconds_count", "plugin")
    assert plugins == {"SchedulingGates": 1}, "one call in ten is kept"


async def test_entities_exist_from_1_37_on() -> None:
    for minor, there in (("1.36", False), ("1.37", True)):
        metrics, registry = scheduler_metrics(minor)
        metrics.pod_queued("active", "UnscheduledPodAdd")
        metrics.pod_queued("backoff", "ScheduleAttemptFailure")
        metrics.watch_queue(lambda: {"active": 1, "backoff": 2, "unschedulable": 0, "gated": 3})
        scraped = await scrape(registry)
        assert ("scheduler_queued_entities" in scraped.families) is there
        if there:
            assert scraped.value("scheduler_queued_entities", queue="gated", type="pod") == 3
            incoming = scraped.values("scheduler_queue_incoming_entities_total", "queue")
            assert incoming == {"active": 1}, "only the active queue is seen for plain pods"


async def test_groups_are_measured_only_with_their_gate() -> None:
    metrics, registry = scheduler_metrics()
    metrics.group_attempt_finished("scheduled", "p", 0.1)
    assert not [name for name in (await scrape(registry)).families if "podgroup" in name]


@pytest.mark.parametrize(("shown", "there"), [(False, False), (True, True)])
async def test_a_hidden_family_shows_only_on_request(*, shown: bool, there: bool) -> None:
    metrics, registry = scheduler_metrics("1.37", registry=Registry(show_hidden=shown))
    metrics.preemption_executed(ok=False, seconds=1.0)
    scraped = await scrape(registry)
    assert ("scheduler_preemption_goroutines_duration_seconds" in scraped.families) is there
    assert scraped.value("scheduler_preemption_goroutines_execution_total", result="error") == 1


async def test_a_disabled_family_is_written_to_and_not_shown() -> None:
    metrics, registry = scheduler_metrics(registry=Registry(disabled=frozenset({"scheduler_schedule_attempts_total"})))
    metrics.attempt_finished("error", "p", 0.1)
    register_registrations(registry)
    scraped = await scrape(registry)
    assert "scheduler_schedule_attempts_total" not in scraped.samples
    assert scraped.value("disabled_metrics_total") == 1


async def test_values_outside_an_allow_list_become_unexpected() -> None:
    allowed = {("scheduler_schedule_attempts_total", "profile"): frozenset({"known"})}
    metrics, registry = scheduler_metrics(registry=Registry(allowed_labels=allowed))
    for profile in ("known", "one", "two"):
        metrics.attempt_finished("error", profile, 0.1)
    scraped = await scrape(registry)
    assert scraped.values("scheduler_schedule_attempts_total", "profile") == {"known": 1, "unexpected": 2}
    durations = scraped.values("scheduler_scheduling_attempt_duration_seconds_count", "profile")
    assert set(durations) == {"known", "one", "two"}, "each family has its own list"


async def test_a_reset_forgets_what_happened_and_keeps_what_is() -> None:
    metrics, registry = scheduler_metrics()
    metrics.attempt_finished("error", "p", 0.1)
    metrics.unschedulable_changed("NodeName", "p", 1)
    registry.reset()
    metrics.attempt_finished("error", "p", 0.3)
    scraped = await scrape(registry)
    labels = {"result": "error", "profile": "p"}
    assert scraped.value("scheduler_schedule_attempts_total", **labels) == 1
    assert scraped.value("scheduler_scheduling_attempt_duration_seconds_sum", **labels) == 0.3
    assert scraped.value("scheduler_unschedulable_pods", plugin="NodeName", profile="p") == 1


async def test_requests_are_counted_by_the_status_of_their_answers() -> None:
    registry = Registry()
    client = ClientMetrics(registry)
    client.request_finished("POST", "api:6443", 201, 0.02)
    client.request_finished("POST", "api:6443", None, 10.0)
    client.renewed_slowly()
    scraped = await scrape(registry)
    assert scraped.values("rest_client_requests_total", "code") == {"201": 1, "<error>": 1}
    bounds = [s.labels["le"] for s in scraped.samples["rest_client_request_duration_seconds_bucket"]]
    assert bounds == ["0.005", "0.025", "0.1", "0.25", "0.5", "1", "2", "4", "8", "15", "30", "60", "+Inf"]
    assert scraped.value("leader_election_slowpath_total", name="kube-scheduler") == 1
    assert "leader_election_master_status" not in scraped.samples, "absent while there is no election"
    client.leading(yes=False)
    assert (await scrape(registry)).value("leader_election_master_status", name="kube-scheduler") == 0
    client.leading(yes=True)
    assert (await scrape(registry)).value("leader_election_master_status", name="kube-scheduler") == 1


async def test_build_and_gates_are_those_of_the_emulated_version() -> None:
    row = row_of("1.36")
    gates, _ = resolve_gates(row, {"GenericWorkload": True})
    registry = Registry()
    register_build(registry, row, gates)
    scraped = await scrape(registry)
    [build] = scraped.samples["kubernetes_build_info"]
    assert (build.labels["major"], build.labels["minor"], build.labels["git_version"]) == ("1", "36", "v1.36.2")
    labels = "major minor git_version git_commit git_tree_state build_date go_version compiler platform"
    assert set(build.labels) == set(labels.split())
    assert scraped.value("kubernetes_feature_enabled", name="GenericWorkload", stage="ALPHA") == 1
    assert scraped.value("kubernetes_feature_enabled", name="DynamicResourceAllocation", stage="") == 1
    assert scraped.value("kubernetes_feature_enabled", name="SchedulerAsyncAPICalls", stage="BETA") == 0
    [version] = scraped.samples["version_info"]
    assert version.labels == {"component": "kube", "binary": "1.37", "emulation": "1.36", "min_compat": "1.35"}


async def test_the_process_shows_what_it_uses() -> None:
    registry = Registry()
    register_tasks(registry)
    scraped = await scrape(registry, Process())
    assert scraped.value("go_goroutines") >= 1
    names = "cpu_seconds_total open_fds max_fds virtual_memory_bytes virtual_memory_max_bytes resident_memory_bytes "
    names += "start_time_seconds network_receive_bytes_total network_transmit_bytes_total"
    for name in names.split():
        assert scraped.value(f"process_{name}") >= 0
    assert scraped.value("process_resident_memory_bytes") > 1 << 20


async def test_registrations_are_counted_by_stability() -> None:
    registry = Registry()
    registry.counter("a_total", "A.", stability=Stability.STABLE)
    registry.gauge("b", "B.", hidden=True)
    register_registrations(registry)
    registry.gauge("c", "C.")
    scraped = await scrape(registry)
    registered = scraped.values("registered_metrics_total", "stability_level")
    assert registered == {"STABLE": 1, "ALPHA": 1, "BETA": 3}
    assert scraped.value("hidden_metrics_total") == 1


def test_one_name_is_registered_once() -> None:
    registry = Registry()
    registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="a_total"):
        registry.gauge("a_total", "A.")


def test_label_values_must_match_the_label_names() -> None:
    family = Registry().counter("a_total", "A.", ("x", "y"))
    with pytest.raises(KeyError, match="a_total"):
        family["x",].inc()


def test_bounds_grow_by_multiplication() -> None:
    assert buckets.exponential(0.1, 2, 4) == (0.1, 0.2, 0.4, 0.8)


async def test_a_scrape_may_ask_for_openmetrics_and_for_compression() -> None:
    _, registry = scheduler_metrics()
    exposer = Exposer(registry)
    plain = await exposer.expose("text/plain", compress=False)
    assert plain.content_type.startswith("text/plain; version=0.0.4")
    packed = await exposer.expose("application/openmetrics-text; version=1.0.0", compress=True)
    assert packed.content_type.startswith("application/openmetrics-text")
    text = gzip.decompress(packed.body)
    assert text.endswith(b"# EOF\n")
    assert b'scheduler_preemption_victims_bucket{le="1"} 0' in plain.body
    assert b'scheduler_preemption_victims_bucket{le="1.0"} 0' in text, "this format asks for a point"
