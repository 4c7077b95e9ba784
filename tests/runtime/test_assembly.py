"""From a configuration to an engine: profiles, what is missing, and what is refused in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_node, a_pod
from tests.config.builders import a_document, decoded, names, with_profile
from tests.framework.fakes import Sort, registry_of
from tests.runtime.builders import Step

from berth.cluster.pods import PodInfo
from berth.config.faults import ConfigError
from berth.config.gates import features_of
from berth.config.versions import row_of
from berth.framework.cycle_state import CycleState
from berth.framework.run import run_bind
from berth.framework.status import Status, error
from berth.plugins.registry import IN_TREE
from berth.runtime.assembly import Surroundings, build_engine, request_rules
from berth.runtime.measuring import Measured
from berth.runtime.metrics.instruments import Registry
from berth.scheduling.instructions import Bind, Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.meta import PodKey
    from berth.api.pod import Pod
    from berth.scheduling.engine import Engine


def assembled(
    document: Mapping[str, Any],
    *,
    minor: str = "1.37",
    gates: Mapping[str, bool] | None = None,
    shown: dict[PodKey, Pod] | None = None,
    **around: Any,
) -> Engine:
    """The engine of a configuration."""
    row = row_of(minor)
    features = features_of(row, gates)
    config = decoded(document, minor=minor, gates=gates)
    lister = ({} if shown is None else shown).get
    around = {"clock": lambda: 1000.0, **around}
    return build_engine(config, row, features, Surroundings(lister=lister, **around))


def refusal(document: Mapping[str, Any], **options: Any) -> str:
    """The text with which a configuration is refused."""
    with pytest.raises(ConfigError) as raised:
        assembled(document, **options)
    return str(raised.value)


# -- profiles ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_the_default_profile_runs_the_plugins_that_exist_in_the_order_of_the_reference(minor: str) -> None:
    profile = assembled(a_document(), minor=minor).profiles["default-scheduler"]
    row = row_of(minor)
    known = [name for name, _ in row.default_multi_point(features_of(row).gates)]
    assert [*profile.plugins] == [name for name in known if name in IN_TREE]
    assert [*profile.absent] == [name for name in known if name not in IN_TREE]
    assert profile.weights["TaintToleration"] == 3


def test_plugins_of_the_reference_that_do_not_exist_here_are_left_out_and_named() -> None:
    registry = registry_of(Step("DefaultBinder"), Sort("PrioritySort"))
    profile = assembled(a_document(), registry=registry).profiles["default-scheduler"]
    assert [*profile.plugins] == ["PrioritySort", "DefaultBinder"]
    assert "NodeResourcesFit" in profile.absent


def test_a_plugin_of_the_reference_may_be_named_while_its_gate_is_off() -> None:
    document = with_profile(plugins={"score": {"enabled": names("PodGroupPodsCount")}})
    profile = assembled(document).profiles["default-scheduler"]
    assert not features_of(row_of("1.37")).enabled("TopologyAwareWorkloadScheduling")
    assert "PodGroupPodsCount" in (*profile.absent, *profile.plugins)


def test_two_profiles_serve_pods_by_their_scheduler_names() -> None:
    document = a_document(
        profiles=[
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "strict",
                "plugins": {"filter": {"disabled": names("NodeUnschedulable")}},
                "percentageOfNodesToScore": 50,
            },
        ]
    )
    shown: dict[Any, Any] = {}
    engine = assembled(document, shown=shown)
    assert [*engine.profiles] == ["default-scheduler", "strict"]
    assert engine.profiles["strict"].percentage_of_nodes_to_score == 50
    engine.node_added(a_node(unschedulable=True))
    for name in engine.profiles:
        pod = a_pod(name, spec={"scheduler_name": name})
        shown[pod.key] = pod
        engine.pod_added(pod)
    engine.pod_added(a_pod("foreign", spec={"scheduler_name": "nobody"}))
    first, second = engine.next_instruction(), engine.next_instruction()
    assert isinstance(first, Report)
    assert (first.controller, first.message) == (
        "default-scheduler",
        (
            "0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        ),
    )
    assert isinstance(second, Bind)
    assert second.profile.scheduler_name == "strict"
    assert engine.next_instruction() is None


# -- refusals ---------------------------------------------------------------------------------------------------------

CREATING = "profiles[0]: creating profile for scheduler name default-scheduler: "
REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "extenders": (
        a_document(extenders=[{"urlPrefix": "http://extender", "filterVerb": "filter"}]),
        "extenders: extenders are not supported",
    ),
    "an unknown plugin": (
        with_profile(plugins={"filter": {"enabled": names("NoSuch")}}),
        'profiles[0]: creating profile for scheduler name default-scheduler: FilterPlugin "NoSuch" does not exist',
    ),
    "a plugin at a point that it does not serve": (
        with_profile(plugins={"score": {"enabled": names("NodeName")}}),
        f'{CREATING}plugin "NodeName" does not extend ScorePlugin plugin',
    ),
    "nobody binds": (
        with_profile(plugins={"bind": {"disabled": names("*")}}),
        f'{CREATING}at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
    ),
    "the second profile": (
        a_document(
            profiles=[
                {"schedulerName": "default-scheduler"},
                {"schedulerName": "other", "plugins": {"permit": {"enabled": names("NoSuch")}}},
            ]
        ),
        'profiles[1]: creating profile for scheduler name other: PermitPlugin "NoSuch" does not exist',
    ),
}


@pytest.mark.parametrize(("document", "expected"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_had_is_refused_with_its_place(document: dict[str, Any], expected: str) -> None:
    assert refusal(document) == expected


# -- settings ---------------------------------------------------------------------------------------------------------


def test_backoffs_are_those_of_the_configuration() -> None:
    shown: dict[Any, Any] = {}
    engine = assembled(
        a_document(podInitialBackoffSeconds=7, podMaxBackoffSeconds=20),
        gates={"SchedulerPopFromBackoffQ": False},
        shown=shown,
    )
    pod = a_pod()
    shown[pod.key] = pod
    engine.pod_added(pod)
    assert isinstance(engine.next_instruction(), Report)  # there are no nodes
    (entry,) = engine.queue.entries()
    assert entry.backoff_expiration_s == 1007


def test_requests_are_added_up_as_the_version_does() -> None:
    older, newer = (request_rules(features_of(row_of(minor))) for minor in ("1.36", "1.37"))
    assert (older.resize_by_totals, newer.resize_by_totals) == (False, True)
    assert older.use_status
    assert newer.use_status


def test_a_pod_waits_for_an_event_as_long_as_it_is_told_to() -> None:
    shown, now_s = dict[Any, Any](), [1000.0]
    engine = assembled(a_document(), shown=shown, clock=lambda: now_s[0], max_in_unschedulable_s=60)
    engine.node_added(a_node(unschedulable=True))
    pod = a_pod()
    shown[pod.key] = pod
    engine.pod_added(pod)
    assert isinstance(engine.next_instruction(), Report)
    for wait_s, waiting in ((60, 1), (1, 0)):
        now_s[0] += wait_s
        engine.queue.flush_unschedulable_leftover()
        assert engine.queue.counts()["unschedulable"] == waiting


class Hand:
    """Binds nothing, and says so."""

    async def bind(self, pod: Pod, node_name: str) -> Status:
        return error(f"{pod.key} to {node_name} by hand")


async def test_the_binder_performs_the_bindings_of_the_default_plugin() -> None:
    profile = assembled(a_document(), binder=Hand()).profiles["default-scheduler"]
    status = await run_bind(profile, CycleState(), PodInfo(a_pod()), "n1")
    assert status.message == 'running Bind plugin "DefaultBinder": default/web to n1 by hand'


def test_one_observer_hears_of_the_queue_of_cycles_and_of_events() -> None:
    registry = Registry()
    row = row_of("1.37")
    measured = Measured(row, features_of(row), registry, stopwatch=lambda: 0.0)
    shown: dict[Any, Any] = {}
    engine = assembled(a_document(), shown=shown, observer=measured)
    engine.node_added(a_node())
    pod = a_pod()
    shown[pod.key] = pod
    engine.pod_added(pod)
    assert isinstance(engine.next_instruction(), Bind)
    shown_labels = {
        (sample.name, *sample.labels.values())
        for family in registry.collect()
        for sample in family.samples
        if sample.name.endswith(("_count", "_total"))
    }
    assert shown_labels >= {
        ("scheduler_event_handling_duration_seconds_count", "NodeAdd"),
        ("scheduler_event_handling_duration_seconds_count", "UnscheduledPodAdd"),
        ("scheduler_queue_incoming_pods_total", "active", "UnscheduledPodAdd"),
        ("scheduler_framework_extension_point_duration_seconds_count", "Filter", "Success", "default-scheduler"),
    }
