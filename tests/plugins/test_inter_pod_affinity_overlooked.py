"""What wakes a pod that InterPodAffinity rejected although the reference's hints do not say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_cluster, a_handle, a_node, a_pod

from berth.api.affinity import Affinity, PodAffinity, PodAffinityTerm
from berth.api.meta import ObjectMeta
from berth.api.selectors import LabelSelector
from berth.api.workloads import Namespace
from berth.cluster.kinds import NAMESPACE
from berth.framework.events import Action, ClusterEvent, Hint, Resource
from berth.plugins.inter_pod_affinity.plugin import InterPodAffinity

if TYPE_CHECKING:
    from berth.api.pod import Pod

ADD, RELABEL, DELETE = (
    ClusterEvent(Resource.ASSIGNED_POD, action) for action in (Action.ADD, Action.UPDATE_POD_LABEL, Action.DELETE)
)
NODE_ADD, NODE_RELABEL = (ClusterEvent(Resource.NODE, action) for action in (Action.ADD, Action.UPDATE_NODE_LABEL))


def term(app: str, *, team: str = "") -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key="zone",
        label_selector=LabelSelector(match_labels={"app": app}),
        namespace_selector=LabelSelector(match_labels={"team": team}) if team else None,
    )


def near(app: str, **more: str) -> dict[str, Any]:
    required = (term(app, **more),)
    return {
        "affinity": Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=required))
    }


def far_from(app: str, **more: str) -> dict[str, Any]:
    required = (term(app, **more),)
    anti = PodAffinity(required_during_scheduling_ignored_during_execution=required)
    return {"affinity": Affinity(pod_anti_affinity=anti)}


def there(app: str, namespace: str = "default", **spec: Any) -> Pod:
    return a_pod("there", namespace=namespace, labels={"app": app}, on="n1", spec=spec)


WEB = a_pod("web", labels={"app": "web"})
NEAR_THEM, FAR_FROM_THEM = a_pod(spec=near("db", team="theirs")), a_pod(spec=far_from("db", team="theirs"))
IN_ZONE_A, IN_ZONE_B = a_node("n2", labels={"zone": "a"}), a_node("n2", labels={"zone": "b"})
LABELLED = a_node("n2", labels={"zone": "a", "disk": "ssd"})

# the pod that waits, who is on a node, the event with the object before and after; whether it wakes the pod
CASES: dict[str, tuple[Pod, Pod, ClusterEvent, Any, Any, bool]] = {
    "a node, for one that others keep away": (WEB, there("db", **far_from("web")), NODE_ADD, None, IN_ZONE_A, True),
    "a node, for one that nobody keeps away": (WEB, there("db", **far_from("x")), NODE_ADD, None, IN_ZONE_A, False),
    "a node that moves": (WEB, there("db", **far_from("web")), NODE_RELABEL, IN_ZONE_A, IN_ZONE_B, True),
    "a node that stays": (WEB, there("db", **far_from("web")), NODE_RELABEL, IN_ZONE_A, LABELLED, False),
    "one of the namespaces that are wanted": (NEAR_THEM, there("x"), ADD, None, there("db", "other"), True),
    "one of another namespace": (NEAR_THEM, there("x"), ADD, None, there("db"), False),
    "one that becomes what is wanted": (
        NEAR_THEM,
        there("x"),
        RELABEL,
        there("x", "other"),
        there("db", "other"),
        True,
    ),
    "the end of one in the way": (FAR_FROM_THEM, there("x"), DELETE, there("db", "other"), None, True),
    "the end of one elsewhere": (FAR_FROM_THEM, there("x"), DELETE, there("db"), None, False),
    "the end of one that kept it away": (
        *(WEB, there("x"), DELETE, there("db", "other", **far_from("web", team="ours")), None, True),
    ),
}


@pytest.mark.parametrize(("waiting", "other", "event", "old", "new", "wakes"), CASES.values(), ids=CASES)
def test_it_is_woken_by(waiting: Pod, other: Pod, event: ClusterEvent, old: Any, new: Any, wakes: bool) -> None:
    cluster = a_cluster([a_node("n1", labels={"zone": "a"})], [other])
    for name, team in (("default", "ours"), ("other", "theirs")):
        cluster.objects.put(NAMESPACE, Namespace(metadata=ObjectMeta(name=name, labels={"team": team})))
    plugin = InterPodAffinity(None, a_handle(cluster))
    hints = [each.hint for each in plugin.further_events() if each.event.matches(event) and each.hint is not None]
    answers = [hint(cluster.info(waiting), old, new) for hint in hints]
    assert answers == [Hint.QUEUE if wakes else Hint.SKIP]
