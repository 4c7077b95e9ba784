"""Which kinds a fresh embedded API server serves, for each minor version of Kubernetes.

Data only: traits are explained in `resources.Resource`. Kinds without a controller here (deployments, jobs and the
like) are stored and shown, nothing more.
"""

from __future__ import annotations

from berth.sandbox.kinds import event_forms
from berth.sandbox.kinds.resources import Resource, ResourceTable

_ALL = ("all",)
_STATUS = ("status",)

_CORE = (
    Resource(kind="Binding", plural="bindings", verbs=("create",)),
    Resource(
        kind="Pod",
        plural="pods",
        short_names=("po",),
        categories=_ALL,
        subresources=("binding", "eviction", "resize", "status"),
        generation=True,
        returns_deleted=True,
        graceful=True,
    ),
    Resource(
        kind="Node",
        plural="nodes",
        namespaced=False,
        short_names=("no",),
        subresources=_STATUS,
        status_on_create=True,
    ),
    Resource(
        kind="Namespace",
        plural="namespaces",
        namespaced=False,
        short_names=("ns",),
        subresources=("finalize", "status"),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        returns_deleted=True,
    ),
    Resource(kind="Event", plural="events", short_names=("ev",), kept="events", create_on_update=True),
    Resource(kind="ConfigMap", plural="configmaps", short_names=("cm",)),
    Resource(kind="Secret", plural="secrets"),
    Resource(
        kind="Service",
        plural="services",
        short_names=("svc",),
        categories=_ALL,
        subresources=_STATUS,
        returns_deleted=True,
        create_on_update=True,
    ),
    Resource(kind="ServiceAccount", plural="serviceaccounts", short_names=("sa",), returns_deleted=True),
    Resource(kind="Endpoints", plural="endpoints", short_names=("ep",), create_on_update=True),
    Resource(
        kind="PersistentVolume",
        plural="persistentvolumes",
        namespaced=False,
        short_names=("pv",),
        subresources=_STATUS,
        returns_deleted=True,
    ),
    Resource(
        kind="PersistentVolumeClaim",
        plural="persistentvolumeclaims",
        short_names=("pvc",),
        subresources=_STATUS,
        returns_deleted=True,
    ),
    Resource(
        kind="ReplicationController",
        plural="replicationcontrollers",
        short_names=("rc",),
        categories=_ALL,
        subresources=_STATUS,
        generation=True,
    ),
    Resource(
        kind="ResourceQuota",
        plural="resourcequotas",
        short_names=("quota",),
        subresources=_STATUS,
        returns_deleted=True,
    ),
    Resource(kind="LimitRange", plural="limitranges", short_names=("limits",), create_on_update=True),
    Resource(kind="PodTemplate", plural="podtemplates", generation=True, returns_deleted=True),
)


def _workload(kind: str, plural: str, short: str) -> Resource:
    return Resource(
        group="apps",
        kind=kind,
        plural=plural,
        short_names=(short,),
        categories=_ALL,
        subresources=_STATUS,
        generation=True,
    )


_APPS = (
    _workload("Deployment", "deployments", "deploy"),
    _workload("ReplicaSet", "replicasets", "rs"),
    _workload("StatefulSet", "statefulsets", "sts"),
    _workload("DaemonSet", "daemonsets", "ds"),
    Resource(
        group="batch",
        kind="Job",
        plural="jobs",
        categories=_ALL,
        subresources=_STATUS,
        generation=True,
    ),
    Resource(
        group="batch",
        kind="CronJob",
        plural="cronjobs",
        short_names=("cj",),
        categories=_ALL,
        subresources=_STATUS,
        generation=True,
    ),
)

_POLICY = (
    Resource(
        group="policy",
        kind="PodDisruptionBudget",
        plural="poddisruptionbudgets",
        short_names=("pdb",),
        subresources=_STATUS,
        generation=True,
        unconditional_update=False,
    ),
    Resource(
        group="scheduling.k8s.io",
        kind="PriorityClass",
        plural="priorityclasses",
        namespaced=False,
        short_names=("pc",),
        generation=True,
    ),
    Resource(
        group="node.k8s.io", kind="RuntimeClass", plural="runtimeclasses", namespaced=False, create_on_update=True
    ),
    Resource(
        group="coordination.k8s.io",
        kind="Lease",
        plural="leases",
        unconditional_update=False,
        create_on_update=True,
    ),
    Resource(
        group="events.k8s.io",
        kind="Event",
        plural="events",
        short_names=("ev",),
        kept="events",
        create_on_update=True,
        to_stored=event_forms.to_core,
        from_stored=event_forms.from_core,
    ),
)


def _storage(
    kind: str,
    plural: str,
    short: tuple[str, ...] = (),
    subresources: tuple[str, ...] = (),
    *,
    unconditional: bool = False,
) -> Resource:
    return Resource(
        group="storage.k8s.io",
        kind=kind,
        plural=plural,
        namespaced=False,
        short_names=short,
        subresources=subresources,
        returns_deleted=True,
        unconditional_update=unconditional,
    )


_STORAGE = (
    _storage("StorageClass", "storageclasses", ("sc",), unconditional=True),
    _storage("CSINode", "csinodes"),
    _storage("CSIDriver", "csidrivers"),
    _storage("VolumeAttachment", "volumeattachments", (), _STATUS),
    _storage("VolumeAttributesClass", "volumeattributesclasses", ("vac",), unconditional=True),
    Resource(
        group="storage.k8s.io",
        kind="CSIStorageCapacity",
        plural="csistoragecapacities",
        unconditional_update=False,
    ),
)


def _device(
    kind: str, plural: str, *, namespaced: bool, status: bool = False, generation: bool = False, returns: bool = True
) -> Resource:
    return Resource(
        group="resource.k8s.io",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        subresources=_STATUS if status else (),
        generation=generation,
        returns_deleted=returns,
    )


_DEVICES = (
    _device("DeviceClass", "deviceclasses", namespaced=False, generation=True),
    _device("ResourceClaim", "resourceclaims", namespaced=True, status=True),
    _device("ResourceClaimTemplate", "resourceclaimtemplates", namespaced=True),
    _device("ResourceSlice", "resourceslices", namespaced=False, generation=True),
)
_DEVICE_TAINTS = _device(
    "DeviceTaintRule", "devicetaintrules", namespaced=False, status=True, generation=True, returns=False
)


def _rbac(kind: str, plural: str, *, namespaced: bool) -> Resource:
    group = "rbac.authorization.k8s.io"
    return Resource(group=group, kind=kind, plural=plural, namespaced=namespaced, create_on_update=True)


_RBAC = (
    _rbac("ClusterRole", "clusterroles", namespaced=False),
    _rbac("ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _rbac("Role", "roles", namespaced=True),
    _rbac("RoleBinding", "rolebindings", namespaced=True),
)


def _review(group: str, kind: str, plural: str, *, namespaced: bool = False) -> Resource:
    return Resource(group=group, kind=kind, plural=plural, namespaced=namespaced, verbs=("create",))


_REVIEWS = (
    _review("authentication.k8s.io", "TokenReview", "tokenreviews"),
    _review("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews"),
    _review("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews"),
    _review("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _review("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", namespaced=True),
)

_DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=_STATUS,
    generation=True,
    unconditional_update=False,
)


def _grouping(kind: str, plural: str, version: str, *, status: bool = True) -> Resource:
    return Resource(
        group="scheduling.k8s.io",
        version=version,
        kind=kind,
        plural=plural,
        subresources=_STATUS if status else (),
        unconditional_update=False,
    )


_POD_GROUPS = {
    "1.36": (
        _grouping("PodGroup", "podgroups", "v1alpha2"),
        _grouping("Workload", "workloads", "v1alpha2", status=False),
    ),
    "1.37": (
        _grouping("PodGroup", "podgroups", "v1beta1"),
        _grouping("Workload", "workloads", "v1beta1", status=False),
        _grouping("PodGroup", "podgroups", "v1alpha3"),
        _grouping("Workload", "workloads", "v1alpha3", status=False),
        _grouping("CompositePodGroup", "compositepodgroups", "v1alpha3"),
    ),
}

MINORS = tuple(_POD_GROUPS)


def built_in(minor: str, *, pod_groups: bool = False) -> ResourceTable:
    """The table of a fresh server.

    Args:
        minor: `1.36` or `1.37`.
        pod_groups: whether the group API is served (off by default in both versions, as upstream).

    Raises:
        ValueError: another version.
    """
    if minor not in _POD_GROUPS:
        raise ValueError(f"the embedded API server speaks {' and '.join(MINORS)}, not {minor!r}")
    table = ResourceTable((*_CORE, *_APPS, *_POLICY, *_STORAGE, *_DEVICES, *_RBAC, *_REVIEWS, _DEFINITIONS))
    if minor != "1.36":
        table.add(_DEVICE_TAINTS)
    if pod_groups:
        for resource in _POD_GROUPS[minor]:
            table.add(resource)
    return table
