"""Requests that kube-apiserver and the embedded server have to answer alike; each scenario cleans up after itself."""

from __future__ import annotations

from typing import Any

JsonObject = dict[str, Any]
Step = tuple[Any, ...]  # (method, path, body, content type, accept), the last three optional

STRATEGIC, MERGE = "application/strategic-merge-patch+json", "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PODS, NODES = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
OLD_EVENTS = "/api/v1/namespaces/default/events"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims"
STORAGE, DEVICES = "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1"
WATCH_LIST = (
    "watch=1&timeoutSeconds=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
)
NO_UID = "00000000-0000-0000-0000-000000000000"
NO_FINALIZERS = {"metadata": {"finalizers": None}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(name: str, **spec: Any) -> JsonObject:
    metadata = {"name": name, **spec.pop("metadata", {})}
    containers = [{"name": "c", "image": "pause"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def container(**fields: Any) -> JsonObject:
    return {"containers": [{"name": "c", "image": "x:1", **fields}]}


def node(name: str, **fields: Any) -> JsonObject:
    labels = {"topology.kubernetes.io/zone": "a"}
    capacity = {"cpu": 4, "memory": "16Gi", "pods": "110"}
    return {"metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}, **fields}


def binding(name: str, target: str, **metadata: Any) -> JsonObject:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": target}}


def workload(**fields: Any) -> JsonObject:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": container()}
    return {
        "metadata": {"name": "w"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template, **fields},
    }


def conditions(*given: tuple[str, str]) -> list[JsonObject]:
    return [{"type": kind, "status": status} for kind, status in given]


EVENT = {
    "metadata": {"name": "e.1"},
    "eventTime": "2026-01-01T22:00:00.000000Z",
    "reportingController": "s",
    "reportingInstance": "s-1",
    "action": "Binding",
    "reason": "Scheduled",
    "type": "Normal",
    "note": "hi",
    "regarding": {"kind": "Pod", "name": "a", "namespace": "default", "uid": "u"},
}
OLD_EVENT = {
    "metadata": {"name": "e.2"},
    "involvedObject": {"kind": "Lease", "name": "l", "namespace": "default"},
    "reason": "LeaderElection",
    "message": "m",
    "type": "Normal",
    "source": {"component": "c"},
    "firstTimestamp": "2026-01-01T22:00:00Z",
    "lastTimestamp": "2026-01-01T22:00:00Z",
    "count": 1,
}

SCENARIOS: dict[str, list[Step]] = {
    "a pod is bound": [
        ("POST", NODES, node("n1")),
        ("POST", PODS, pod("a")),
        ("POST", PODS, pod("a")),
        ("POST", f"{PODS}/a/binding", binding("a", "n1", resourceVersion="1")),
        ("POST", f"{PODS}/a/binding", binding("a", "n1", uid=NO_UID)),
        ("POST", f"{PODS}/a/binding", binding("b", "n1")),
        ("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": {"kind": "Pod"}}),
        ("POST", f"{PODS}/a/binding", binding("a", "n1")),
        ("POST", f"{PODS}/a/binding", binding("a", "n2")),
        ("POST", f"{PODS}/none/binding", binding("none", "n2")),
        ("GET", f"{PODS}/a"),
        ("DELETE", f"{PODS}/a"),
        ("POST", f"{PODS}/a/binding", binding("a", "n1")),
        ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 5}),
        ("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}),
        ("POST", PODS, pod("g", schedulingGates=[{"name": "x.y/z"}])),
        ("POST", f"{PODS}/g/binding", binding("g", "n1")),
        ("DELETE", f"{PODS}/g"),
        ("DELETE", f"{NODES}/n1"),
        ("DELETE", f"{NODES}/n1"),
    ],
    "a pod is written over and patched": [
        ("POST", PODS, pod("u")),
        ("PUT", f"{PODS}/u", {**pod("u"), "metadata": {"name": "u", "resourceVersion": "1"}}),
        ("PUT", f"{PODS}/u", {**pod("u"), "metadata": {"name": "u", "uid": NO_UID}}),
        ("PUT", f"{PODS}/u", pod("v")),
        ("PUT", f"{PODS}/none", pod("none")),
        ("PUT", f"{PODS}/u", pod("u", nodeName="n1")),
        ("PATCH", f"{PODS}/u", {"metadata": {"labels": {"x": "y"}}}, STRATEGIC),
        ("PATCH", f"{PODS}/u", {"metadata": {"labels": {"x": None}}}, MERGE),
        ("PATCH", f"{PODS}/u", [{"op": "add", "path": "/metadata/annotations", "value": {"k": "v"}}], JSON_PATCH),
        ("PATCH", f"{PODS}/u", [{"op": "remove", "path": "/metadata/nothing"}], JSON_PATCH),
        ("PATCH", f"{PODS}/u", {"a": 1}, "application/json"),
        ("PATCH", f"{PODS}/u", {"spec": {"schedulerName": "other"}}, STRATEGIC),
        ("PATCH", f"{PODS}/u", {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}}, STRATEGIC),
        ("PATCH", f"{PODS}/u", {"metadata": {"finalizers": ["a/b"]}}, STRATEGIC),
        ("PATCH", f"{PODS}/u", {"metadata": {"finalizers": ["c/d"]}}, STRATEGIC),
        ("PATCH", f"{PODS}/u", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a/b", "c/d"]}}, STRATEGIC),
        ("DELETE", f"{PODS}/u", {"preconditions": {"uid": "x"}}),
        ("DELETE", f"{PODS}/u", {"preconditions": {"resourceVersion": "1"}}),
        ("DELETE", f"{PODS}/u"),
        ("DELETE", f"{PODS}/u"),
    ],
    "a scheduler reports on a pod": [
        ("POST", PODS, pod("u")),
        (
            "PATCH",
            f"{PODS}/u/status",
            {"status": {"conditions": conditions(("PodScheduled", "False")), "nominatedNodeName": "n1"}},
            STRATEGIC,
        ),
        (
            "PATCH",
            f"{PODS}/u/status",
            {
                "status": {
                    "$setElementOrder/conditions": [{"type": "Z"}, {"type": "PodScheduled"}],
                    "conditions": conditions(("Z", "True")),
                    "nominatedNodeName": None,
                }
            },
            STRATEGIC,
        ),
        ("PATCH", f"{PODS}/u/status", {"status": {"conditions": conditions(("A", "True"))}}, STRATEGIC),
        ("DELETE", f"{PODS}/u"),
    ],
    "pods are completed": [
        (
            "POST",
            PODS,
            pod(
                "r",
                **container(
                    resources={
                        "limits": {"cpu": 0.5, "memory": "1024Mi", "example.com/x": 2},
                        "requests": {"memory": "0.5Gi"},
                    },
                    ports=[{"containerPort": 80}],
                    env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    livenessProbe={"httpGet": {"port": 80}},
                ),
                hostNetwork=True,
                volumes=[
                    {"name": "v", "emptyDir": {}},
                    {"name": "s", "secret": {"secretName": "x"}},
                    {"name": "h", "hostPath": {"path": "/x"}},
                ],
            ),
        ),
        ("DELETE", f"{PODS}/r"),
        (
            "POST",
            PODS,
            pod(
                "k",
                metadata={"labels": {"app": "x", "v": "1"}},
                topologySpreadConstraints=[
                    {
                        "maxSkew": 1,
                        "topologyKey": "z",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"app": "x"}},
                        "matchLabelKeys": ["v"],
                    }
                ],
                affinity={
                    "podAntiAffinity": {
                        REQUIRED: [
                            {
                                "topologyKey": "z",
                                "labelSelector": {"matchLabels": {"app": "x"}},
                                "mismatchLabelKeys": ["v"],
                            }
                        ]
                    }
                },
            ),
        ),
        ("GET", f"{PODS}?labelSelector=app%3Dx"),
        ("GET", f"{PODS}?labelSelector=app+in+(x,y),v!%3D2"),
        ("GET", f"{PODS}?fieldSelector=spec.nodeName%3D,status.phase!%3DFailed"),
        ("GET", PODS, None, "", TABLE),
        ("GET", f"{PODS}/k", None, "", TABLE),
        ("DELETE", f"{PODS}/k"),
        ("POST", f"{PODS}?dryRun=All", pod("dry")),
        ("GET", f"{PODS}/dry"),
    ],
    "invalid pods are refused": [
        ("POST", PODS, pod("Bad_Name")),
        ("POST", PODS, {"metadata": {"name": "e"}, "spec": {}}),
        ("POST", PODS, {"metadata": {}, "spec": container()}),
        ("POST", PODS, pod("x", metadata={"namespace": "other"})),
        ("POST", PODS, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "x"}}),
        ("POST", PODS, {"kind": "Pod", "apiVersion": "v2", "metadata": {"name": "x"}}),
        ("POST", PODS, pod("p", priorityClassName="none")),
        ("POST", PODS, pod("p", priority=7)),
        ("POST", PODS, pod("p", runtimeClassName="none")),
        ("POST", PODS, pod("r", **container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": 2}}))),
        ("POST", PODS, pod("r", **container(resources={"requests": {"cpu": "abc"}}))),
        ("POST", PODS, pod("r", **container(ports=[{"containerPort": "80"}]))),
        ("POST", PODS, pod("r", **container(env=[{"name": "A", "value": 1}]))),
        ("POST", PODS, pod("r", containers="x")),
        ("POST", PODS, pod("r", priority="x")),
        ("POST", f"{PODS}?fieldValidation=Strict", {**pod("z", foo=2), "bogus": 1}),
        ("POST", PODS, pod("r", restartPolicy="Sometimes", tolerations=[{"key": "a", "operator": "Maybe"}])),
        (
            "POST",
            PODS,
            pod(
                "r",
                topologySpreadConstraints=[{"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "X"}],
                affinity={"podAffinity": {REQUIRED: [{"labelSelector": {}}]}},
            ),
        ),
        ("POST", "/api/v1/namespaces/nope/pods", pod("a")),
    ],
    "lists and paths that make no sense are refused": [
        ("GET", f"{PODS}?labelSelector=app+foo+x"),
        ("GET", f"{PODS}?fieldSelector=spec.bogus%3D"),
        ("GET", f"{PODS}?fieldSelector=spec.bogus"),
        ("GET", f"{PODS}?limit=x"),
        ("GET", f"{PODS}?resourceVersion=abc"),
        ("GET", f"{PODS}?resourceVersion=99999999"),
        ("GET", f"{PODS}?watch=1&timeoutSeconds=1&sendInitialEvents=true"),
        ("GET", f"{PODS}?watch=1&timeoutSeconds=1&resourceVersion=abc"),
        ("GET", "/api/v1/foos"),
        ("GET", "/apis/nope/v1/foos"),
        ("GET", "/apis/apps/v1/foos"),
        ("GET", f"{PODS}/a/nothing"),
        ("POST", f"{PODS}/a", pod("a")),
        ("PUT", PODS, pod("a")),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1/pods", pod("a")),
    ],
    "nodes": [
        ("POST", NODES, node("n2", spec={"taints": [{"key": "a", "effect": "NoSchedule"}] * 2})),
        ("POST", NODES, node("n2", spec={"taints": [{"key": "a b", "effect": "Bad"}]})),
        ("POST", NODES, node("n2", spec={"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]})),
        ("PATCH", f"{NODES}/n2", {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, STRATEGIC),
        (
            "PATCH",
            f"{NODES}/n2/status",
            {"status": {"conditions": conditions(("Ready", "True")), "allocatable": {"cpu": "3500m"}}},
            STRATEGIC,
        ),
        ("GET", f"{NODES}/n2", None, "", TABLE),
        ("PUT", f"{NODES}/n2", node("n2")),
        ("GET", f"{NODES}?{WATCH_LIST}"),
        ("GET", f"{NODES}?{WATCH_LIST}", None, "", TABLE),
        ("DELETE", f"{NODES}/n2"),
    ],
    "priority classes": [
        ("POST", CLASSES, {"metadata": {"name": "low"}, "value": 5}),
        ("POST", CLASSES, {"metadata": {"name": "huge"}, "value": 2_000_000_000}),
        ("POST", CLASSES, {"metadata": {"name": "system-x"}, "value": 5}),
        ("PATCH", f"{CLASSES}/low", {"value": 6}, MERGE),
        ("PATCH", f"{CLASSES}/low", {"globalDefault": True}, MERGE),
        ("GET", f"{CLASSES}/low", None, "", TABLE),
        ("DELETE", f"{CLASSES}/low"),
    ],
    "leases": [
        ("POST", LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}}),
        ("PUT", f"{LEASES}/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "y"}}),
        ("PUT", f"{LEASES}/m", {"metadata": {"name": "m"}, "spec": {"holderIdentity": "y"}}),
        ("POST", LEASES, {"metadata": {"name": "l2"}, "spec": {"leaseDurationSeconds": 0}}),
        ("GET", f"{LEASES}/none"),
        ("GET", f"{LEASES}/l", None, "", TABLE),
        ("DELETE", f"{LEASES}/l"),
        ("DELETE", f"{LEASES}/m"),
    ],
    "events of both forms": [
        ("POST", NEW_EVENTS, EVENT),
        ("GET", f"{OLD_EVENTS}/e.1"),
        ("GET", f"{NEW_EVENTS}/e.1"),
        ("GET", f"{OLD_EVENTS}?fieldSelector=involvedObject.name%3Da,involvedObject.uid%3Du"),
        ("GET", f"{NEW_EVENTS}?fieldSelector=regarding.name%3Da"),
        (
            "PATCH",
            f"{NEW_EVENTS}/e.1",
            {"series": {"count": 2, "lastObservedTime": "2026-01-01T22:01:00.000000Z"}},
            STRATEGIC,
        ),
        ("DELETE", f"{NEW_EVENTS}/e.1"),
        ("POST", OLD_EVENTS, OLD_EVENT),
        ("GET", f"{NEW_EVENTS}/e.2"),
        ("DELETE", f"{OLD_EVENTS}/e.2"),
        ("POST", OLD_EVENTS, {"metadata": {"name": "e.3"}, "involvedObject": {"kind": "Pod", "namespace": "other"}}),
    ],
    "disruption budgets and evictions": [
        (
            "POST",
            BUDGETS,
            {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}},
        ),
        ("GET", f"{BUDGETS}/b", None, "", TABLE),
        (
            "PATCH",
            f"{BUDGETS}/b/status",
            {
                "status": {
                    "disruptionsAllowed": 1,
                    "observedGeneration": 1,
                    "currentHealthy": 2,
                    "desiredHealthy": 1,
                    "expectedPods": 2,
                }
            },
            MERGE,
        ),
        *[
            step
            for name in ("v1", "v2")
            for step in (
                ("POST", PODS, pod(name, metadata={"labels": {"a": "b"}}, nodeName="n1")),
                (
                    "PATCH",
                    f"{PODS}/{name}/status",
                    {"status": {"phase": "Running", "conditions": conditions(("Ready", "True"))}},
                    STRATEGIC,
                ),
                ("POST", f"{PODS}/{name}/eviction", {"metadata": {"name": name}}),
            )
        ],
        ("GET", f"{PODS}/v1"),
        ("DELETE", f"{PODS}/v1", {"gracePeriodSeconds": 0}),
        ("DELETE", f"{PODS}/v2", {"gracePeriodSeconds": 0}),
        ("DELETE", f"{BUDGETS}/b"),
    ],
    "finalizers and generated names": [
        ("POST", PODS, pod("f", metadata={"finalizers": ["x.y/z"]})),
        ("DELETE", f"{PODS}/f"),
        ("POST", PODS, pod("f")),
        ("PATCH", f"{PODS}/f", NO_FINALIZERS, MERGE),
        ("GET", f"{PODS}/f"),
        ("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"generateName": "m-", "labels": {"g": "1"}}}),
        ("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m", "labels": {"g": "1"}}}),
        ("GET", "/api/v1/namespaces/default/configmaps/m", None, "", PARTIAL),
        ("DELETE", "/api/v1/namespaces/default/configmaps?labelSelector=g%3D1"),
    ],
    "volumes": [
        (
            "POST",
            VOLUMES,
            {
                "metadata": {"name": "pv", "finalizers": ["kubernetes.io/pv-protection"]},
                "spec": {
                    "capacity": {"storage": "1024Mi"},
                    "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": "/x"},
                },
            },
        ),
        ("GET", f"{VOLUMES}/pv", None, "", TABLE),
        ("PATCH", f"{VOLUMES}/pv", NO_FINALIZERS, MERGE),
        ("DELETE", f"{VOLUMES}/pv"),
        (
            "POST",
            f"{STORAGE}/storageclasses",
            {
                "metadata": {"name": "sc"},
                "provisioner": "x",
            },
        ),
        (
            "POST",
            CLAIMS,
            {
                "metadata": {"name": "c", "finalizers": ["kubernetes.io/pvc-protection"]},
                "spec": {
                    "storageClassName": "sc",
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        ),
        ("GET", f"{CLAIMS}/c", None, "", TABLE),
        ("PATCH", f"{CLAIMS}/c", NO_FINALIZERS, MERGE),
        ("DELETE", f"{CLAIMS}/c"),
        ("DELETE", f"{STORAGE}/storageclasses/sc"),
        (
            "POST",
            f"{STORAGE}/csinodes",
            {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "d", "nodeID": "n"}]}},
        ),
        ("GET", f"{STORAGE}/csinodes/n", None, "", TABLE),
        ("DELETE", f"{STORAGE}/csinodes/n"),
        ("POST", f"{STORAGE}/csidrivers", {"metadata": {"name": "d"}, "spec": {}}),
        ("GET", f"{STORAGE}/csidrivers/d", None, "", TABLE),
        ("DELETE", f"{STORAGE}/csidrivers/d"),
        (
            "POST",
            f"{STORAGE}/namespaces/default/csistoragecapacities",
            {
                "metadata": {"name": "c"},
                "storageClassName": "sc",
                "capacity": "1024Mi",
                "nodeTopology": {"matchLabels": {"a": "b"}},
            },
        ),
        ("DELETE", f"{STORAGE}/namespaces/default/csistoragecapacities/c"),
    ],
    "devices": [
        (
            "POST",
            f"{DEVICES}/namespaces/default/resourceclaims",
            {
                "metadata": {"name": "rc"},
                "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
            },
        ),
        ("GET", f"{DEVICES}/namespaces/default/resourceclaims/rc", None, "", TABLE),
        ("DELETE", f"{DEVICES}/namespaces/default/resourceclaims/rc"),
        (
            "POST",
            f"{DEVICES}/resourceslices",
            {
                "metadata": {"name": "rs"},
                "spec": {
                    "driver": "d.x",
                    "nodeName": "n",
                    "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": "dev0", "capacity": {"mem": {"value": "1024Mi"}}}],
                },
            },
        ),
        ("DELETE", f"{DEVICES}/resourceslices/rs"),
        ("POST", f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}}),
        ("DELETE", f"{DEVICES}/deviceclasses/gpu"),
    ],
    "workloads": [
        ("POST", "/apis/apps/v1/namespaces/default/deployments", workload()),
        ("GET", "/apis/apps/v1/namespaces/default/deployments/w", None, "", TABLE),
        ("PATCH", "/apis/apps/v1/namespaces/default/deployments/w", {"spec": {"replicas": 3}}, STRATEGIC),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/w"),
        ("POST", "/apis/apps/v1/namespaces/default/statefulsets", workload(serviceName="x")),
        ("DELETE", "/apis/apps/v1/namespaces/default/statefulsets/w"),
        ("POST", "/apis/apps/v1/namespaces/default/daemonsets", workload()),
        ("DELETE", "/apis/apps/v1/namespaces/default/daemonsets/w"),
        ("POST", "/apis/apps/v1/namespaces/default/deployments", workload(selector={"matchLabels": {"a": "c"}})),
        (
            "POST",
            "/apis/batch/v1/namespaces/default/jobs",
            {"metadata": {"name": "j"}, "spec": {"template": {"spec": {"restartPolicy": "Never", **container()}}}},
        ),
        ("DELETE", "/apis/batch/v1/namespaces/default/jobs/j?propagationPolicy=Background"),
        (
            "POST",
            "/apis/node.k8s.io/v1/runtimeclasses",
            {"metadata": {"name": "rc"}, "handler": "x", "overhead": {"podFixed": {"cpu": "250m"}}},
        ),
        ("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/rc"),
        ("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}),
        ("DELETE", "/api/v1/namespaces/default/secrets/s"),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}},
        ),
    ],
}
