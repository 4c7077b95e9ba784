"""What the server fills in, and what it does not let in."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.client import NODES, PODS, Client, Refused, node, pod

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def test_a_pod_is_completed(api: Client) -> None:
    made = await api.post(PODS, pod("web"))
    spec = made["spec"]
    assert {
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
        "dnsPolicy": "ClusterFirst",
    }.items() <= spec.items()
    assert [(each["key"], each["tolerationSeconds"]) for each in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


async def test_requests_come_from_limits_and_amounts_take_their_one_form(api: Client) -> None:
    body = pod("web")
    body["spec"]["containers"][0]["resources"] = {
        "limits": {"cpu": 0.5, "memory": "1024Mi", "example.com/gpu": 2},
        "requests": {"memory": "0.5Gi"},
    }
    made = await api.post(PODS, body)
    assert made["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"},
        "requests": {"cpu": "500m", "memory": "512Mi", "example.com/gpu": "2"},
    }
    assert made["status"]["qosClass"] == "Burstable"


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
        ({"limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
async def test_quality_of_service_follows_requests_and_limits(api: Client, resources: dict[str, Any], qos: str) -> None:
    body = pod("web")
    body["spec"]["containers"][0]["resources"] = resources
    assert (await api.post(PODS, body))["status"]["qosClass"] == qos


async def test_ports_of_a_host_network_pod_are_host_ports(api: Client) -> None:
    body = pod("web", hostNetwork=True)
    body["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    made = await api.post(PODS, body)
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


async def test_a_gated_pod_says_so(api: Client) -> None:
    made = await api.post(PODS, pod("web", schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


async def test_label_keys_become_selector_terms(api: Client) -> None:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["version", "absent"],
    }
    term = {"topologyKey": "zone", "labelSelector": selector, "mismatchLabelKeys": ["version"]}
    body = pod(
        "web",
        metadata={"labels": {"app": "web", "version": "2"}},
        topologySpreadConstraints=[constraint],
        affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
    )
    spec = (await api.post(PODS, body))["spec"]
    spread = spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"]
    assert spread == [{"key": "version", "operator": "In", "values": ["2"]}]
    terms = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    expressions = terms[0]["labelSelector"]["matchExpressions"]
    assert expressions == [{"key": "version", "operator": "NotIn", "values": ["2"]}]


async def test_priority_comes_from_the_class(api: Client) -> None:
    await api.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = (await api.post(PODS, pod("web", priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    spec = (await api.post(PODS, pod("dns", priorityClassName="system-cluster-critical")))["spec"]
    assert spec["priority"] == 2_000_000_000


async def test_without_a_class_the_default_class_decides(api: Client) -> None:
    await api.post(CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    spec = (await api.post(PODS, pod("web")))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"priorityClassName": "none"}, 'pods "web" is forbidden: no PriorityClass with name none was found'),
        ({"priority": 7}, "the integer value of priority (7) must not be provided in pod spec"),
        ({"preemptionPolicy": "Never"}, "the string value of PreemptionPolicy (Never) must not be provided"),
        ({"runtimeClassName": "none"}, 'pod rejected: RuntimeClass "none" not found'),
    ],
)
async def test_what_only_the_server_may_decide_is_forbidden(api: Client, spec: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.post(PODS, pod("web", **spec))
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert told in refused.value.message


async def test_overhead_comes_from_the_runtime_class(api: Client) -> None:
    path = "/apis/node.k8s.io/v1/runtimeclasses"
    await api.post(path, {"metadata": {"name": "vm"}, "handler": "x", "overhead": {"podFixed": {"cpu": "0.25"}}})
    assert (await api.post(PODS, pod("web", runtimeClassName="vm")))["spec"]["overhead"] == {"cpu": "250m"}


async def test_a_pod_created_on_a_node_takes_over_its_topology(api: Client) -> None:
    await api.post(NODES, node("n", labels={"topology.kubernetes.io/region": "r", "disk": "ssd"}))
    made = await api.post(PODS, pod("web", nodeName="n"))
    assert made["metadata"]["labels"] == {"topology.kubernetes.io/region": "r"}


async def test_there_has_to_be_a_namespace(api: Client) -> None:
    with pytest.raises(Refused) as refused:
        await api.post("/api/v1/namespaces/nowhere/pods", pod("web"))
    assert (refused.value.code, refused.value.message) == (404, 'namespaces "nowhere" not found')


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "x", **fields}]}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no containers": ({"containers": []}, "spec.containers: Required value"),
    "no image": ({"containers": [{"name": "main"}]}, "spec.containers[0].image: Required value"),
    "no name": ({"containers": [{"image": "x"}]}, "spec.containers[0].name: Required value"),
    "a bad name": (
        container(name="Main"),
        'spec.containers[0].name: Invalid value: "Main": a lowercase RFC 1123 label',
    ),
    "one name twice": (
        {"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]},
        'spec.containers[1].name: Duplicate value: "a"',
    ),
    "more than the limit": (
        container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    "less than the limit of what cannot be shared": (
        container(resources={"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}),
        'Invalid value: "1": must be equal to example.com/gpu limit of 2',
    ),
    "no limit of what cannot be shared": (
        container(resources={"requests": {"example.com/gpu": "1"}}),
        "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
    ),
    "less than nothing": (
        container(resources={"requests": {"cpu": "-1"}}),
        'requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    "half a device": (
        container(resources={"limits": {"example.com/gpu": "500m"}}),
        'limits[example.com/gpu]: Invalid value: "500m": must be an integer',
    ),
    "a port out of range": (container(ports=[{"containerPort": 99999}]), "must be between 1 and 65535, inclusive"),
    "an unknown protocol": (
        container(ports=[{"containerPort": 1, "protocol": "X"}]),
        'ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"',
    ),
    "an unknown restart policy": ({"restartPolicy": "X"}, 'spec.restartPolicy: Unsupported value: "X"'),
    "a toleration of an unknown kind": (
        {"tolerations": [{"key": "a", "operator": "X"}]},
        'spec.tolerations[0].operator: Unsupported value: "X": supported values: "Equal", "Exists"',
    ),
    "a toleration of everything, by mistake": (
        {"tolerations": [{"operator": "Equal"}]},
        "operator must be Exists when `key` is empty",
    ),
    "a toleration for a time of what lasts": (
        {"tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 1}]},
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    "an unknown effect": (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "X"}]},
        'spec.tolerations[0].effect: Unsupported value: "X"',
    ),
    "no skew": (
        {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
    ),
    "one spread rule twice": (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
            ]
        },
        "spec.topologySpreadConstraints[1].{topologyKey, whenUnsatisfiable}: Duplicate value",
    ),
    "affinity to no topology": (
        {"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}}},
        f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: Required value: can not be empty",
    ),
    "a weight out of range": (
        {"affinity": {"podAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": {"topologyKey": "z"}}]}}},
        "must be in the range 1-100",
    ),
    "no node selector term": (
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}},
        "must have at least one node selector term",
    ),
    "in nothing": (
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}
                }
            }
        },
        "must be specified when `operator` is 'In' or 'NotIn'",
    ),
    "gated and bound": (
        {"schedulingGates": [{"name": "a.b/c"}], "nodeName": "n"},
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ),
    "one gate twice": (
        {"schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/c"}]},
        'spec.schedulingGates[1]: Duplicate value: "a.b/c"',
    ),
}


@pytest.mark.parametrize(("spec", "told"), INVALID.values(), ids=INVALID)
async def test_an_invalid_pod_is_refused(api: Client, spec: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.post(PODS, pod("web", **spec))
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert told in refused.value.message
    assert refused.value.details["causes"]


async def test_all_faults_are_told_together(api: Client) -> None:
    body = pod("Web", restartPolicy="X", metadata={"labels": {"a b": "c d"}})
    with pytest.raises(Refused) as refused:
        await api.post(PODS, body)
    fields = [cause["field"] for cause in refused.value.details["causes"]]
    assert fields == ["metadata.name", "metadata.labels", "metadata.labels", "spec.restartPolicy"]
    assert refused.value.message.startswith('Pod "Web" is invalid: [metadata.name: Invalid value: "Web":')


CHANGES: dict[str, tuple[dict[str, Any], str | None]] = {
    "the image": ({"containers": [{"name": "main", "image": "y"}]}, None),
    "the scheduler": ({"schedulerName": "other"}, "pod updates may not change fields other than"),
    "the node": ({"nodeName": "n"}, "pod updates may not change fields other than"),
    "the priority": ({"priority": 5}, "pod updates may not change fields other than"),
    "one more container": (
        {"containers": [{"name": "more", "image": "y"}]},
        "pod updates may not add or remove containers",
    ),
    "a gate": (
        {"schedulingGates": [{"name": "a.b/c"}]},
        "only deletion is allowed, but found new scheduling gate 'a.b/c'",
    ),
}


@pytest.mark.parametrize(("spec", "told"), CHANGES.values(), ids=CHANGES)
async def test_little_of_a_pod_can_be_changed(api: Client, spec: dict[str, Any], told: str | None) -> None:
    await api.post(PODS, pod("web"))
    if told is None:
        changed = await api.patch(f"{PODS}/web", {"spec": spec})
        assert changed["spec"]["containers"][0]["image"] == "y"
        return
    with pytest.raises(Refused) as refused:
        await api.patch(f"{PODS}/web", {"spec": spec})
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert told in refused.value.message


async def test_where_a_gated_pod_may_run_can_be_narrowed(api: Client) -> None:
    gates = [{"name": "example.com/wait"}]
    await api.post(PODS, pod("web", schedulingGates=gates, nodeSelector={"a": "1"}))
    narrowed = await api.patch(f"{PODS}/web", {"spec": {"nodeSelector": {"b": "2"}}}, "merge")
    assert narrowed["spec"]["nodeSelector"] == {"a": "1", "b": "2"}
    with pytest.raises(Refused, match="pod updates may not change fields"):
        await api.patch(f"{PODS}/web", {"spec": {"nodeSelector": {"a": "3"}}}, "merge")


async def test_a_toleration_that_is_there_stays(api: Client) -> None:
    await api.post(PODS, pod("web", tolerations=[{"key": "a", "operator": "Exists"}]))
    with pytest.raises(Refused, match="existing toleration can not be modified except its tolerationSeconds"):
        await api.patch(f"{PODS}/web", {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}, "merge")


async def test_tolerations_can_be_added(api: Client) -> None:
    made = await api.post(PODS, pod("web"))
    more = [*made["spec"]["tolerations"], {"key": "a", "operator": "Exists"}]
    changed = await api.patch(f"{PODS}/web", {"spec": {"tolerations": more}}, "merge")
    assert changed["spec"]["tolerations"] == more


async def test_capacity_is_allocatable_unless_told_otherwise(api: Client) -> None:
    made = await api.post(NODES, node("n", cpu="4000m"))
    assert made["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}


@pytest.mark.parametrize(
    ("taints", "told"),
    [
        ([{"key": "a b", "effect": "NoSchedule"}], 'metadata.taints[0].key: Invalid value: "a b"'),
        ([{"key": "a", "effect": "X"}], 'metadata.taints[0].effect: Unsupported value: "X"'),
        ([{"key": "a"}], "metadata.taints[0].effect: Required value"),
        ([{"key": "a", "effect": "NoSchedule"}] * 2, "taints must be unique by key and effect pair"),
    ],
)
async def test_invalid_taints_are_refused(api: Client, taints: list[dict[str, str]], told: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.post(NODES, {**node("n"), "spec": {"taints": taints}})
    assert refused.value.code == 422
    assert told in refused.value.message


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("huge", 2_000_000_000, "maximum allowed value of a user defined priority is 1000000000"),
        ("system-mine", 1, "priority class names with 'system-' prefix are reserved for system use only"),
    ],
)
async def test_priorities_of_the_system_are_reserved(api: Client, name: str, value: int, told: str) -> None:
    with pytest.raises(Refused) as refused:
        await api.post(CLASSES, {"metadata": {"name": name}, "value": value})
    assert refused.value.code == 422
    assert told in refused.value.message


async def test_a_priority_never_changes(api: Client) -> None:
    await api.post(CLASSES, {"metadata": {"name": "high"}, "value": 5})
    with pytest.raises(Refused, match="value: Forbidden: may not be changed in an update"):
        await api.patch(f"{CLASSES}/high", {"value": 6}, "merge")


async def test_a_claim_without_a_class_gets_the_default_one(api: Client) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage = "/apis/storage.k8s.io/v1/storageclasses"
    await api.post(storage, {"metadata": {"name": "plain"}, "provisioner": "x"})
    await api.post(storage, {"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "x"})
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    made = await api.post(CLAIMS, {"metadata": {"name": "data"}, "spec": claim})
    assert made["spec"]["storageClassName"] == "fast"
    assert made["spec"]["resources"]["requests"] == {"storage": "1Gi"}
    assert made["status"] == {"phase": "Pending"}
    explicit = await api.post(CLAIMS, {"metadata": {"name": "none"}, "spec": {**claim, "storageClassName": ""}})
    assert explicit["spec"]["storageClassName"] == ""


async def test_a_workload_has_to_select_its_own_pods(api: Client) -> None:
    template = {"metadata": {"labels": {"a": "c"}}, "spec": pod("x")["spec"]}
    body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    with pytest.raises(Refused, match="`selector` does not match template `labels`"):
        await api.post("/apis/apps/v1/namespaces/default/deployments", body)


async def test_an_event_belongs_to_the_namespace_of_what_it_is_about(api: Client) -> None:
    body = {"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "x", "namespace": "other"}}
    with pytest.raises(Refused, match=r"involvedObject\.namespace: Invalid value: \"other\""):
        await api.post("/api/v1/namespaces/default/events", body)


async def test_a_new_event_has_to_say_who_reports_what(api: Client) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    body: dict[str, Any] = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "x", "namespace": "default"},
    }
    with pytest.raises(Refused, match="eventTime: Required value"):
        await api.post(path, body)
    with pytest.raises(Refused) as refused:
        await api.post(path, {**body, "type": "Normal", "eventTime": "2026-01-01T00:00:00.000000Z", "note": "x" * 2000})
    fields = [cause["field"] for cause in refused.value.details["causes"]]
    assert fields[0] == "reportingController"
    assert {"reportingInstance", "action", "reason", "message"} <= set(fields)


async def test_a_group_of_pods_gets_a_priority_and_a_disruption_mode(api: Client) -> None:
    await api.post(CLASSES, {"metadata": {"name": "high"}, "value": 1000})
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"}
    path = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
    made = await api.post(path, {"metadata": {"name": "g"}, "spec": spec})
    assert made["spec"]["priority"] == 1000
    assert made["spec"]["disruptionMode"] == {"single": {}}
    assert "generation" not in made["metadata"]
