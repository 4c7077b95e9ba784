"""Pods, as far as the scheduler looks at them."""

import msgspec

from berth.api.affinity import Affinity
from berth.api.meta import ApiStruct, Condition, ObjectMeta, PodKey, PodUid
from berth.api.selectors import LabelSelector

ResourceList = dict[str, str]


class ResourceRequirements(ApiStruct, frozen=True):
    """Amounts asked for, by resource name; quantities stay texts until `berth.api.requests` adds them up."""

    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(ApiStruct, frozen=True):
    """A port of a container; only those with a host port matter here."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(ApiStruct, frozen=True):
    """What happens when a container exits in a certain way."""

    action: str = ""


class Container(ApiStruct, frozen=True):
    """A container or init container."""

    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Whether this, as an init container, keeps running beside the others."""
        return self.restart_policy == "Always"


class ImageVolumeSource(ApiStruct, frozen=True):
    """A volume whose content is an image."""

    reference: str = ""


class PersistentVolumeClaimVolumeSource(ApiStruct, frozen=True):
    """A volume that is a claim's."""

    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(ApiStruct, frozen=True):
    """A volume with a claim that is made for the pod and goes with it."""


class CsiVolumeSource(ApiStruct, frozen=True):
    """A volume that a storage driver makes for the pod, without a claim."""

    driver: str = ""


class GcePersistentDiskVolumeSource(ApiStruct, frozen=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class ElasticBlockStoreVolumeSource(ApiStruct, frozen=True):
    """A disk of Amazon's cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDiskVolumeSource(ApiStruct, frozen=True):
    """A disk of Microsoft's cloud."""

    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class AzureFileVolumeSource(ApiStruct, frozen=True):
    """A file share of Microsoft's cloud."""


class CinderVolumeSource(ApiStruct, frozen=True):
    """A disk of an OpenStack cloud."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxVolumeSource(ApiStruct, frozen=True):
    """A volume of Portworx."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class VsphereVolumeSource(ApiStruct, frozen=True):
    """A disk of a vSphere cluster."""


class RbdVolumeSource(ApiStruct, frozen=True):
    """An image of a Ceph cluster."""

    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class IscsiVolumeSource(ApiStruct, frozen=True):
    """A disk that is reached by iSCSI."""

    iqn: str = ""
    read_only: bool = False


class Volume(ApiStruct, frozen=True):
    """A volume of a pod; the sources that plugins look at."""

    name: str = ""
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CsiVolumeSource | None = None
    gce_persistent_disk: GcePersistentDiskVolumeSource | None = None
    aws_elastic_block_store: ElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    vsphere_volume: VsphereVolumeSource | None = None
    rbd: RbdVolumeSource | None = None
    iscsi: IscsiVolumeSource | None = None

    @property
    def is_storage(self) -> bool:
        """Whether rules about storage look at it: it is a claim, or a disk of some kind."""
        return bool(
            self.persistent_volume_claim
            or self.ephemeral
            or self.csi
            or self.gce_persistent_disk
            or self.aws_elastic_block_store
            or self.azure_disk
            or self.azure_file
            or self.cinder
            or self.portworx_volume
            or self.vsphere_volume
            or self.rbd
            or self.iscsi
        )


class Toleration(ApiStruct, frozen=True):
    """Which taints a pod puts up with."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    """How evenly the selected pods must, or should, lie over the domains of a topology."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(ApiStruct, frozen=True):
    """A named reason not to look at a pod yet."""

    name: str = ""


class PodSchedulingGroup(ApiStruct, frozen=True):
    """The group that a pod is scheduled with."""

    pod_group_name: str | None = None


class PodResourceClaim(ApiStruct, frozen=True):
    """A device claim that a pod refers to, by its own name or through a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(ApiStruct, frozen=True):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None


class ContainerStatus(ApiStruct, frozen=True):
    """What the node has granted a container."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class PodResourceClaimStatus(ApiStruct, frozen=True):
    """The claim that was generated for one entry of ``spec.resourceClaims``."""

    name: str = ""
    resource_claim_name: str | None = None


class ExtendedResourceRequest(ApiStruct, frozen=True):
    """Which container's extended resource a request of the special claim stands for."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(ApiStruct, frozen=True):
    """The special claim behind the extended resources of a pod."""

    request_mappings: tuple[ExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(ApiStruct, frozen=True):
    """What a claim takes from the node's own resources."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}


class PodStatus(ApiStruct, frozen=True):
    """What is known of a pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(ApiStruct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def key(self) -> PodKey:
        """``namespace/name``."""
        return PodKey(f"{self.metadata.namespace}/{self.metadata.name}")

    @property
    def uid(self) -> PodUid:
        """The identity of this pod, which a pod of the same name does not inherit."""
        return PodUid(self.metadata.uid)

    @property
    def priority(self) -> int:
        """``spec.priority``, 0 where it is absent."""
        return self.spec.priority or 0
