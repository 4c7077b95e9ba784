"""Claims, volumes and what belongs to them, with keyword arguments; and pods that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.builders import a_pod, a_term

from berth.api.affinity import NodeSelector
from berth.api.meta import ObjectMeta, OwnerReference
from berth.api.pod import (
    AzureFileVolumeSource,
    CsiVolumeSource,
    ElasticBlockStoreVolumeSource,
    EphemeralVolumeSource,
    GcePersistentDiskVolumeSource,
    IscsiVolumeSource,
    PersistentVolumeClaimVolumeSource,
    RbdVolumeSource,
    ResourceRequirements,
    Volume,
)
from berth.api.storage import (
    BIND_COMPLETED,
    SELECTED_NODE,
    CsiDriver,
    CsiDriverSpec,
    CsiNode,
    CsiNodeDriver,
    CsiNodeSpec,
    CsiPersistentVolumeSource,
    CsiStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from berth.cluster import kinds
from berth.cluster.objects import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from berth.api.affinity import NodeSelectorTerm
    from berth.api.pod import Pod
    from berth.api.selectors import LabelSelector
    from berth.cluster.cache import Cluster

WAIT = "WaitForFirstConsumer"
IMMEDIATE = "Immediate"
KIND_OF: dict[type, Kind[Any]] = {kind.type: kind for kind in kinds.ALL}


def with_objects(cluster: Cluster, *objects: Any) -> Cluster:
    """The cluster, once these objects have been seen."""
    for obj in objects:
        cluster.objects.put(KIND_OF[type(obj)], obj)
    return cluster


def claim(name: str) -> Volume:
    """A volume of a pod that is the claim of that name."""
    return Volume(name=f"of-{name}", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=name))


def ephemeral(name: str) -> Volume:
    """A volume of a pod with a claim that is made for the pod."""
    return Volume(name=name, ephemeral=EphemeralVolumeSource())


def inline_csi(driver: str) -> Volume:
    """A volume that a storage driver makes for the pod."""
    return Volume(name="inline", csi=CsiVolumeSource(driver=driver))


def gce(name: str, *, read_only: bool = False) -> Volume:
    """A disk of Google's cloud."""
    return Volume(name="disk", gce_persistent_disk=GcePersistentDiskVolumeSource(pd_name=name, read_only=read_only))


def ebs(volume_id: str) -> Volume:
    """A disk of Amazon's cloud."""
    return Volume(name="disk", aws_elastic_block_store=ElasticBlockStoreVolumeSource(volume_id=volume_id))


def azure_share() -> Volume:
    """A file share of Microsoft's cloud."""
    return Volume(name="share", azure_file=AzureFileVolumeSource())


def iscsi(iqn: str, *, read_only: bool = False) -> Volume:
    """A disk that is reached by iSCSI."""
    return Volume(name="disk", iscsi=IscsiVolumeSource(iqn=iqn, read_only=read_only))


def rbd(monitors: Sequence[str], image: str = "image", *, pool: str = "rbd", read_only: bool = False) -> Volume:
    """An image of a Ceph cluster."""
    source = RbdVolumeSource(monitors=tuple(monitors), image=image, pool=pool, read_only=read_only)
    return Volume(name="disk", rbd=source)


def a_pod_with(*volumes: Volume, name: str = "web", **fields: Any) -> Pod:
    """A pod with these volumes."""
    return a_pod(name, spec={"volumes": volumes}, **fields)


def a_claim(
    name: str = "data",
    *,
    namespace: str = "default",
    volume: str = "",
    bound: bool | None = None,
    class_name: str | None = None,
    size: str | None = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    selector: LabelSelector | None = None,
    volume_mode: str | None = None,
    attributes_class: str | None = None,
    phase: str | None = None,
    selected_node: str = "",
    owner: Pod | None = None,
    deleting: bool = False,
    annotations: Mapping[str, str] | None = None,
    version: str = "1",
) -> PersistentVolumeClaim:
    """A claim; it is bound for good if it names a volume, unless *bound* says otherwise."""
    marks = dict(annotations or {})
    if bound is None:
        bound = bool(volume)
    if bound:
        marks[BIND_COMPLETED] = "yes"
    if selected_node:
        marks[SELECTED_NODE] = selected_node
    owners: tuple[OwnerReference, ...] = ()
    if owner is not None:
        owners = (OwnerReference(kind="Pod", name=owner.metadata.name, uid=owner.uid, controller=True),)
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"uid-of-claim-{namespace}-{name}",
            resource_version=version,
            annotations=marks,
            owner_references=owners,
            deletion_timestamp="2030-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            selector=selector,
            resources=ResourceRequirements(requests={} if size is None else {"storage": size}),
            volume_name=volume,
            storage_class_name=class_name,
            volume_mode=volume_mode,
            volume_attributes_class_name=attributes_class,
        ),
        status=PersistentVolumeClaimStatus(phase=phase or ("Bound" if bound else "Pending")),
    )


def a_volume(
    name: str = "pv",
    *,
    claimed_by: PersistentVolumeClaim | None = None,
    claim_uid: str | None = None,
    class_name: str = "",
    size: str = "1Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    labels: Mapping[str, str] | None = None,
    on: str | Iterable[NodeSelectorTerm] | None = None,
    driver: str = "",
    handle: str | None = None,
    volume_mode: str | None = None,
    attributes_class: str | None = None,
    phase: str | None = None,
    deleting: bool = False,
    annotations: Mapping[str, str] | None = None,
    version: str = "1",
    source: Mapping[str, Any] | None = None,
) -> PersistentVolume:
    """A persistent volume; *on* is the host it lies on, or terms of its node affinity."""
    reference = None
    if claimed_by is not None:
        meta = claimed_by.metadata
        uid = meta.uid if claim_uid is None else claim_uid
        reference = ObjectReference(
            kind="PersistentVolumeClaim", api_version="v1", namespace=meta.namespace, name=meta.name, uid=uid
        )
    terms = (a_term(("kubernetes.io/hostname", "In", [on])),) if isinstance(on, str) else on
    affinity = None if terms is None else VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(terms)))
    csi = CsiPersistentVolumeSource(driver=driver, volume_handle=name if handle is None else handle) if driver else None
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-of-volume-{name}",
            resource_version=version,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            deletion_timestamp="2030-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=tuple(modes),
            claim_ref=reference,
            storage_class_name=class_name,
            volume_mode=volume_mode,
            volume_attributes_class_name=attributes_class,
            node_affinity=affinity,
            csi=csi,
            **(source or {}),
        ),
        status=PersistentVolumeStatus(phase=phase or ("Bound" if claimed_by is not None else "Available")),
    )


def a_class(
    name: str = "standard",
    *,
    mode: str | None = WAIT,
    provisioner: str = "disks.example.com",
    topologies: Iterable[Mapping[str, Sequence[str]]] = (),
) -> StorageClass:
    """A storage class; each of *topologies* is a term of label keys and their values."""
    terms = tuple(
        TopologySelectorTerm(
            match_label_expressions=tuple(
                TopologySelectorLabelRequirement(key=key, values=tuple(values)) for key, values in term.items()
            )
        )
        for term in topologies
    )
    meta = ObjectMeta(name=name, uid=f"uid-of-class-{name}", resource_version="1")
    return StorageClass(metadata=meta, provisioner=provisioner, volume_binding_mode=mode, allowed_topologies=terms)


def a_csi_node(
    name: str = "n1", drivers: Mapping[str, int | None] | None = None, *, migrated: str | None = None
) -> CsiNode:
    """The storage drivers of a node, with how many volumes each can attach there."""
    annotations = {} if migrated is None else {"storage.alpha.kubernetes.io/migrated-plugins": migrated}
    return CsiNode(
        metadata=ObjectMeta(name=name, resource_version="1", annotations=annotations),
        spec=CsiNodeSpec(
            drivers=tuple(
                CsiNodeDriver(name=driver, allocatable=None if count is None else VolumeNodeResources(count=count))
                for driver, count in (drivers or {}).items()
            )
        ),
    )


def a_csi_driver(
    name: str = "disks.example.com", *, capacity: bool | None = None, prevents: bool | None = None
) -> CsiDriver:
    """A storage driver."""
    spec = CsiDriverSpec(storage_capacity=capacity, prevent_pod_scheduling_if_missing=prevents)
    return CsiDriver(metadata=ObjectMeta(name=name, resource_version="1"), spec=spec)


def a_capacity(
    name: str = "room",
    *,
    class_name: str = "standard",
    capacity: str | None = "100Gi",
    maximum: str | None = None,
    topology: LabelSelector | None = None,
) -> CsiStorageCapacity:
    """How much room there is for volumes of a class."""
    return CsiStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="kube-system", resource_version="1"),
        node_topology=topology,
        storage_class_name=class_name,
        capacity=capacity,
        maximum_volume_size=maximum,
    )


def an_attachment(
    name: str = "attachment", *, node: str = "n1", attacher: str = "disks.example.com", volume: str | None = "pv"
) -> VolumeAttachment:
    """A volume that is attached to a node."""
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    return VolumeAttachment(
        metadata=ObjectMeta(name=name, resource_version="1"),
        spec=VolumeAttachmentSpec(attacher=attacher, node_name=node, source=source),
    )
