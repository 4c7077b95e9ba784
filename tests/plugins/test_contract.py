"""What every plugin of the registry owes the framework, whatever it decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod, a_port, a_term, rows_of

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm
from berth.api.node import Taint
from berth.api.pod import Pod, Toleration, TopologySpreadConstraint
from berth.api.selectors import LabelSelector
from berth.framework.cycle_state import CycleState
from berth.framework.events import HintError
from berth.framework.interface import (
    BindPlugin,
    EnqueueExtensions,
    Epochal,
    FilterPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    Scope,
    ScoreNormalizer,
    ScorePlugin,
    SignPlugin,
)
from berth.framework.status import SKIP, PluginError
from berth.plugins.registry import IN_TREE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth.cluster.cache import Cluster

MINORS = ("1.36", "1.37")
POINTS = (BindPlugin, FilterPlugin, PreEnqueuePlugin, PreFilterPlugin, PreScorePlugin, QueueSortPlugin, ScorePlugin)
REJECTING = (FilterPlugin, PreEnqueuePlugin, PreFilterPlugin)
WAITS_FOR_NOTHING: dict[str, str] = {}
"""Names of plugins that reject pods and never wake them, with the reason."""
LOOKS_AT_REQUESTS = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")


@dataclass(frozen=True)
class Case:
    """A plugin, and a cluster in which it has something to say."""

    plugin: Plugin
    cluster: Cluster

    def every_pod(self) -> Iterator[Pod]:
        yield a_pod("plain")
        yield demanding_pod()
        yield a_pod("huge", cpu="1000", memory="1Ti", requests={"example.com/gpu": "3"})
        yield related_pod()
        yield a_pod("pinned", required=[a_term(fields=[("metadata.name", "In", ["n1"])])])


def demanding_pod(name: str = "demanding") -> Pod:
    return a_pod(
        name,
        cpu="1",
        memory="1Gi",
        ports=[a_port(80)],
        node_selector={"disk": "ssd"},
        required=[a_term(("zone", "In", ["a", "b"]))],
        preferred=[(5, a_term(("zone", "In", ["a"])))],
        tolerations=[Toleration(key="team", operator="Exists", effect="NoExecute")],
        gates=["later"],
    )


def related_pod(name: str = "related", on: str = "") -> Pod:
    """A pod that looks at other pods, and at which they look."""
    web = LabelSelector(match_labels={"app": "web"})
    term = PodAffinityTerm(label_selector=web, topology_key="zone")
    both = PodAffinity(
        required_during_scheduling_ignored_during_execution=(term,),
        preferred_during_scheduling_ignored_during_execution=(
            WeightedPodAffinityTerm(weight=5, pod_affinity_term=term),
        ),
    )
    elsewhere = PodAffinityTerm(label_selector=web, topology_key="disk", namespaces=("elsewhere",))
    anti = PodAffinity(required_during_scheduling_ignored_during_execution=(elsewhere,))
    constraints = tuple(
        TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable=action, label_selector=web)
        for key, action in (("zone", "DoNotSchedule"), ("disk", "ScheduleAnyway"))
    )
    affinity = Affinity(pod_affinity=both, pod_anti_affinity=anti)
    spec = {"affinity": affinity, "topology_spread_constraints": constraints}
    return a_pod(name, on=on, labels={"app": "web"}, spec=spec)


def a_varied_cluster(minor: str) -> Cluster:
    nodes = [
        a_node(
            f"n{i}",
            cpu=str(i),
            pods=str(i),
            labels={"zone": "abc"[i % 3], "disk": "ssd" if i % 2 else "hdd"},
            taints=[Taint(key="team", value="x", effect=effect)] if (effect := EFFECTS[i % 4]) else [],
            unschedulable=i == 5,
            images=[(["registry.example/app:1"], 10**9)] if i % 2 else [],
        )
        for i in range(12)
    ]
    pods = [a_pod(f"p{i}", on=f"n{i}", cpu="1", ports=[a_port(80)]) for i in range(0, 12, 3)]
    return a_cluster(nodes, [*pods, related_pod("r1", "n1"), related_pod("r6", "n6")], minor=minor)


EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")


def freeze(cluster: Cluster) -> None:
    """Make every column read-only, so that a plugin that writes to its input fails at that line."""
    table = cluster.table
    columns = [table.allocatable, table.requested, table.non_zero, table.pod_count, table.allowed_pods]
    for array in (*columns, table.live, table.unschedulable, table.taints.codes):
        array.flags.writeable = False
    for key in ("zone", "disk"):
        table.label(key).codes.flags.writeable = False


@pytest.fixture(params=[(name, minor) for name in IN_TREE for minor in MINORS], ids="-".join)
def case(request: pytest.FixtureRequest) -> Case:
    name, minor = request.param
    cluster = a_varied_cluster(minor)
    freeze(cluster)
    return Case(IN_TREE[name](None, a_handle(cluster, minor=minor)), cluster)


def test_it_goes_by_the_name_it_is_registered_under(case: Case) -> None:
    assert case.plugin.name in IN_TREE
    assert type(IN_TREE[case.plugin.name](None, a_handle(case.cluster))).name == case.plugin.name


def test_it_takes_part_in_some_point(case: Case) -> None:
    assert isinstance(case.plugin, POINTS)


def test_it_answers_for_each_row_the_same_each_time(case: Case) -> None:
    if not isinstance(case.plugin, FilterPlugin):
        return
    assert case.plugin.scope in Scope
    for pod in case.every_pod():
        for names in (["n3"], ["n9", "n1", "n4"], [], None):
            rows, info, state = rows_of(case.cluster, names), case.cluster.info(pod), CycleState()
            if isinstance(case.plugin, PreFilterPlugin) and not case.plugin.pre_filter(state, info).status.ok:
                continue
            first, again = case.plugin.filter(state, info, rows), case.plugin.filter(state, info, rows)
            assert first.dtype == np.int16
            assert first.shape == rows.shape
            assert first.tolist() == again.tolist()


def test_its_codes_are_explained_by_rejections_with_reasons(case: Case) -> None:
    if not isinstance(case.plugin, FilterPlugin):
        return
    for pod in case.every_pod():
        info, state = case.cluster.info(pod), CycleState()
        if isinstance(case.plugin, PreFilterPlugin) and not case.plugin.pre_filter(state, info).status.ok:
            continue
        for code in set(case.plugin.filter(state, info, rows_of(case.cluster)).tolist()) - {0}:
            status = case.plugin.rejection(code)
            assert status.rejected
            assert all(status.reasons)
            assert status.reasons
            assert case.plugin.rejection(code) == status


def test_it_judges_rows_alike_alone_and_together(case: Case) -> None:
    if not isinstance(case.plugin, FilterPlugin):
        return
    for pod in case.every_pod():
        info, state, rows = case.cluster.info(pod), CycleState(), rows_of(case.cluster)
        if isinstance(case.plugin, PreFilterPlugin) and not case.plugin.pre_filter(state, info).status.ok:
            continue
        alone = [case.plugin.filter(state, info, rows[i : i + 1]).tolist()[0] for i in range(len(rows))]
        assert case.plugin.filter(state, info, rows).tolist() == alone


def test_its_scores_have_the_right_shape_and_range(case: Case) -> None:
    if not isinstance(case.plugin, ScorePlugin):
        return
    for pod in case.every_pod():
        for names in (["n3"], ["n9", "n1", "n4"], [], None):
            rows, info, state = rows_of(case.cluster, names), case.cluster.info(pod), CycleState()
            if isinstance(case.plugin, PreScorePlugin) and case.plugin.pre_score(state, info, rows) == SKIP:
                continue
            raw = case.plugin.score(state, info, rows)
            assert raw.dtype == np.int64
            assert raw.shape == rows.shape
            assert raw.tolist() == case.plugin.score(state, info, rows).tolist()
            if isinstance(case.plugin, ScoreNormalizer):
                raw = case.plugin.normalize(state, info, raw)
            assert raw.shape == rows.shape
            assert all(0 <= score <= 100 for score in raw.tolist())


def test_it_makes_the_same_of_raw_scores_that_are_all_0_however_many_they_are(case: Case) -> None:
    if not isinstance(case.plugin, ScorePlugin) or case.plugin.scope is not Scope.ROW:
        return
    if not isinstance(case.plugin, ScoreNormalizer):
        return
    for pod in case.every_pod():
        rows, info, state = rows_of(case.cluster), case.cluster.info(pod), CycleState()
        if isinstance(case.plugin, PreScorePlugin) and case.plugin.pre_score(state, info, rows) == SKIP:
            continue
        [alone] = case.plugin.normalize(state, info, np.zeros(1, dtype=np.int64)).tolist()
        together = case.plugin.normalize(state, info, np.zeros(len(rows), dtype=np.int64)).tolist()
        assert together == [alone] * len(rows)


def test_its_epoch_is_hashable_and_steady(case: Case) -> None:
    if isinstance(case.plugin, Epochal):
        assert hash(case.plugin.epoch()) == hash(case.plugin.epoch())


def test_equal_pods_have_equal_signatures(case: Case) -> None:
    if not isinstance(case.plugin, SignPlugin):
        assert not isinstance(case.plugin, (FilterPlugin, ScorePlugin)), "what judges nodes must sign pods"
        return
    for pod in case.every_pod():
        twin = msgspec.json.decode(msgspec.json.encode(pod), type=Pod)
        signature = case.plugin.sign(case.cluster.info(pod))
        assert signature == case.plugin.sign(case.cluster.info(twin))
        assert hash(signature) == hash(case.plugin.sign(case.cluster.info(twin)))


def test_the_name_of_a_pod_is_not_in_its_signature(case: Case) -> None:
    if isinstance(case.plugin, SignPlugin):
        one, other = (case.cluster.info(demanding_pod(name)) for name in ("one", "other"))
        assert case.plugin.sign(one) == case.plugin.sign(other)


def test_what_it_rejects_it_can_wake(case: Case) -> None:
    if not isinstance(case.plugin, REJECTING):
        return
    assert isinstance(case.plugin, EnqueueExtensions)
    assert case.plugin.events_to_register() or WAITS_FOR_NOTHING[case.plugin.name]


def test_its_hints_refuse_objects_of_another_kind(case: Case) -> None:
    if not isinstance(case.plugin, EnqueueExtensions):
        return
    info = case.cluster.info(a_pod())
    things: list[tuple[Any, Any]] = [("a thing", "a thing"), ("a thing", None), (None, 7)]
    for hint in [registration.hint for registration in case.plugin.events_to_register() if registration.hint]:
        for old, new in things:
            with pytest.raises(HintError, match=r"^expected .*, but got (str|int|<nil>)$"):
                hint(info, old, new)


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("name", LOOKS_AT_REQUESTS)
def test_a_pod_with_a_malformed_amount_is_refused_with_its_name_and_harms_no_other(name: str, minor: str) -> None:
    cluster = a_varied_cluster(minor)
    plugin = IN_TREE[name](None, a_handle(cluster, minor=minor))
    broken, sound = cluster.info(a_pod("broken", cpu="lots")), cluster.info(a_pod("sound", cpu="1"))
    rows = rows_of(cluster)
    assert isinstance(plugin, PreScorePlugin)
    assert isinstance(plugin, ScorePlugin)
    assert isinstance(plugin, SignPlugin)
    for attempt in (
        lambda: plugin.pre_score(CycleState(), broken, rows),
        lambda: plugin.score(CycleState(), broken, rows),
        lambda: plugin.sign(broken),
    ):
        with pytest.raises(PluginError, match=r"requests of pod default/broken: .*'lots'"):
            attempt()
    assert len(plugin.score(CycleState(), sound, rows)) == len(rows)


def test_a_second_plugin_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match="a plugin named NodeName already exists"):
        IN_TREE.merged({"NodeName": IN_TREE["NodePorts"]})
