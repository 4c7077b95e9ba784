"""The feature gates a scheduler of each served minor knows: stage, default, lock and needs, as data.

Relied on by ``versions``, which turns the table into a `GateSpec` map per minor. Gates of other components are listed
too, because clusters pass one ``--feature-gates`` string to all of them and the reference accepts it. A third minor
adds a column here; nothing else reads this module.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from berth.framework.features import GateSpec, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

MINORS = ("1.36", "1.37")
"""The columns of the table, oldest first."""

_STAGES = {"alpha": Stage.ALPHA, "beta": Stage.BETA, "ga": Stage.GA, "dep": Stage.DEPRECATED}

# name, then one state per minor: stage, `+` on or `-` off by default, `!` locked; `.` unknown to that minor.
# After `<`: the gates it needs, with `@minor` where only that minor asks for it.
_TABLE = """
AggregatedDiscoveryRemoveBetaType dep+! dep+!
AllAlpha alpha- alpha-
AllBeta beta- beta-
AllowDNSOnlyNodeCSR dep- dep-
AllowInsecureKubeletCertificateSigningRequests dep- dep-
AllowOverwriteTerminationGracePeriodSeconds dep-! dep-!
AllowParsingUserUIDFromCertAuth beta+ beta+
AllowServiceExternalIPs ga+ ga+
AllowUnsafeMalformedObjectDeletion alpha- beta+
AnonymousAuthConfigurableEndpoints ga+! .
AnyVolumeDataSource ga+! .
APIResponseCompression beta+ beta+
APIServerIdentity beta+ beta+
APIServerTracing ga+! .
APIServerWebhookAuthenticationToken . alpha-
APIServingWithRoutine alpha- alpha-
AtomicFIFO beta+ beta+
AtomicWriteVolumeUserFields . alpha-
AuthorizeNodeWithSelectors ga+! . < AuthorizeWithSelectors
AuthorizePodWebsocketUpgradeCreatePermission beta+ beta+
AuthorizeWithSelectors ga+! .
BtreeWatchCache ga+! .
CBORServingAndStorage alpha- alpha-
ChangeContainerStatusOnKubeletRestart dep- dep-
ClearingNominatedNodeNameAfterBinding beta+ beta+
ClientsAllowCARotation beta+ beta+
ClientsAllowCBOR alpha- alpha-
ClientsAllowTLSCacheGC beta+ beta+
ClientsPreferCBOR alpha- alpha-
CloudControllerManagerWatchBasedRoutesReconciliation alpha- alpha-
CloudControllerManagerWebhook alpha- alpha-
ClusterTrustBundle beta- ga+
ClusterTrustBundleProjection beta- ga+ < ClusterTrustBundle
ComponentFlagz beta+ beta+
ComponentStatusz beta+ beta+
CompositePodGroup . alpha- < GenericWorkload TopologyAwareWorkloadScheduling
ConcurrentWatchObjectDecode beta- beta+
ConsistentListFromCache ga+! .
ConsistentListFromCacheSkipTimeoutFallback . alpha-
ConstrainedImpersonation beta+ beta+
ContainerCheckpoint beta+ beta+
ContainerRestartRules beta+ beta+
ContainerStopSignals alpha- alpha-
ContextualLogging beta+ beta+
CoordinatedLeaderElection beta- beta-
CPUManagerPolicyAlphaOptions alpha- alpha-
CPUManagerPolicyBetaOptions beta+ beta+
CPUManagerPolicyOptions ga+! ga+!
CRDObservedGenerationTracking beta+ beta+
CRDValidationRatcheting ga+! ga+!
CRIListStreaming alpha- alpha-
CrossNamespaceVolumeDataSource alpha- alpha-
CSIServiceAccountTokenSecrets ga+! ga+!
CSIVolumeHealth alpha- alpha-
CustomCPUCFSQuotaPeriod ga+ ga+
CustomResourceFieldSelectors ga+! ga+!
DeclarativeValidation ga+! ga+!
DeclarativeValidationBeta beta+ beta+ < DeclarativeValidation
DeclarativeValidationTakeover dep- dep-! < DeclarativeValidation
DefaultPodSysctls . alpha-
DeploymentReplicaSetTerminatingReplicas beta+ beta+
DetectCacheInconsistency beta+ beta+
DisableAllocatorDualWrite ga+! ga+! < MultiCIDRServiceAllocator
DisableCPUQuotaWithExclusiveCPUs dep+ dep+!
DisableNodeKubeProxyVersion dep+! dep+!
DRAAdminAccess ga+! ga+! < DynamicResourceAllocation
DRAConsumableCapacity beta+ beta+ < DynamicResourceAllocation
DRADerivedAttributes . alpha- < DynamicResourceAllocation
DRADeviceBindingConditions beta+ beta+ < DynamicResourceAllocation DRAResourceClaimDeviceStatus
DRADeviceCompatibilityGroups . alpha- < DynamicResourceAllocation DRAPartitionableDevices
DRADeviceTaintRules beta- ga+ < DRADeviceTaints
DRADeviceTaints beta+ ga+ < DynamicResourceAllocation
DRAExtendedResource beta+ ga+! < DynamicResourceAllocation
DRAFractionalCapacityRange . beta- < DRAConsumableCapacity
DRAListTypeAttributes alpha- alpha- < DynamicResourceAllocation
DRANodeAllocatableResources alpha- alpha- < DynamicResourceAllocation
DRAOptionalNodeOperations . alpha- < DynamicResourceAllocation NodeDeclaredFeatures
DRAPartitionableDevices beta+ beta+ < DynamicResourceAllocation
DRAPartitionableDevicesType . alpha- < DynamicResourceAllocation DRAPartitionableDevices DRAResourcePoolStatus
DRAPrioritizedList ga+ ga+! < DynamicResourceAllocation
DRAResourceClaimDeviceStatus beta+ ga+!
DRAResourceClaimGranularStatusAuthorization beta+ beta+ < DynamicResourceAllocation DRAResourceClaimDeviceStatus
DRAResourcePoolStatus alpha- alpha- < DynamicResourceAllocation
DRASchedulerFilterTimeout beta+ beta+ < DynamicResourceAllocation
DRAWorkloadResourceClaims alpha- beta- < DynamicResourceAllocation GenericWorkload
DynamicResourceAllocation ga+! ga+!
EmptyDirVolumeMode . alpha-
EnvFiles beta+ beta+
EtcdRangeStream . beta+
EventedPLEG alpha- alpha- < PLEGOnDemandRelist@1.37
EvictionRequestAPI . alpha-
ExcludeAdmissionWebhookVirtualResources . beta+
ExecProbeTimeout ga+! ga+!
ExtendWebSocketsToKubelet beta+ beta+ < NodeDeclaredFeatures
ExternalServiceAccountTokenSigner ga+! ga+!
GangScheduling alpha- . < GenericWorkload
GenericWorkload alpha- beta-
GitRepoVolumeDriver dep-! dep-!
GracefulNodeShutdown beta+ beta+
GracefulNodeShutdownBasedOnPodPriority beta+ beta+ < GracefulNodeShutdown
GRPCContainerProbeTLS . alpha-
H2CContainerProbe . alpha- < NodeDeclaredFeatures
HostnameOverride beta+ ga+!
HPAConfigurableTolerance beta+ ga+!
HPAGeneration . beta+
HPAOptimizedSelectorStore . beta+
HPAScaleToZero alpha- beta+
HugepageAwareEviction . beta+
ImageMaximumGCAge ga+! ga+!
ImageVolume ga+! ga+!
ImageVolumeWithDigest alpha- alpha- < ImageVolume
InformerResourceVersion ga+ ga+
InOrderInformers ga+! ga+!
InOrderInformersBatchProcess beta+ beta+
InPlacePodLevelResourcesVerticalScaling beta+ beta+ < InPlacePodVerticalScaling PodLevelResources NodeDeclaredFeatures
InPlacePodVerticalScaling ga+! ga+!
InPlacePodVerticalScalingExclusiveCPUs alpha- alpha- < InPlacePodVerticalScaling
InPlacePodVerticalScalingExclusiveMemory alpha- alpha- < InPlacePodVerticalScaling
InPlacePodVerticalScalingInitContainers beta+ ga+! < InPlacePodVerticalScaling NodeDeclaredFeatures
InPlacePodVerticalScalingMemoryBackedVolumes . alpha- < InPlacePodVerticalScaling NodeDeclaredFeatures
InPlacePodVerticalScalingSchedulerPreemption . alpha- < InPlacePodVerticalScaling
InterPodAffinityHostnameFastPath . alpha-
JobBackoffLimitPerIndex ga+! .
JobManagedBy ga+! ga+!
JobPodReplacementPolicy ga+! .
JobSuccessPolicy ga+! .
KMSv1 dep- dep-
KubeletAllocatedPodsEndpoint . alpha- < InPlacePodVerticalScaling
KubeletCgroupDriverFromCRI ga+! ga+!
KubeletCrashLoopBackOffMax beta+ beta+
KubeletEnsureSecretPulledImages beta+ beta+
KubeletFineGrainedAuthz ga+! ga+!
KubeletInUserNamespace alpha- beta+
KubeletPodResourcesDynamicResources ga+! ga+!
KubeletPodResourcesGet ga+! ga+!
KubeletPodResourcesListUseActivePods dep+ dep+
KubeletPSI ga+! ga+!
KubeletRegistrationGetOnExistsOnly dep- dep-
KubeletSeparateDiskGC beta+ beta+
KubeletServiceAccountTokenForCredentialProviders beta+ beta+
KubeletTracing ga+! ga+!
KubeProxyIPVS . dep+
KubeProxyNFTablesLocalhostNodePorts . alpha-
ListFromCacheSnapshot beta+ beta+
LocalStorageCapacityIsolationFSQuotaMonitoring beta- beta-
LogarithmicScaleDown ga+! .
LoggingAlphaOptions alpha- alpha-
LoggingBetaOptions beta+ beta+
ManifestBasedAdmissionControlConfig alpha- beta+
MatchLabelKeysInPodAffinity ga+! ga+!
MatchLabelKeysInPodTopologySpread beta+ beta+
MatchLabelKeysInPodTopologySpreadSelectorMerge beta+ beta+ < MatchLabelKeysInPodTopologySpread
MaxUnavailableStatefulSet beta- beta+
MemoryQoS alpha- beta+
MultiCIDRServiceAllocator ga+! ga+!
MutableCSINodeAllocatableCount ga+! ga+!
MutablePodResourcesForSuspendedJobs beta+ beta+
MutablePVNodeAffinity alpha- alpha-
MutableSchedulingDirectivesForSuspendedJobs beta+ beta+
MutatingAdmissionPolicy ga+ ga+
NativeHistograms alpha- beta+
NFTablesNetlink . beta+
NFTablesProxyMode ga+! ga+!
NodeControllerLeaseCircuitBreaker . beta+ < AtomicFIFO
NodeDeclaredFeatures beta+ ga+!
NodeInclusionPolicyInPodTopologySpread ga+! ga+!
NodeLifecycleConditions . alpha-
NodeLogQuery ga+! ga+!
NodeSwap ga+! ga+!
NominatedNodeNameForExpectation beta+ beta+
OpenAPIEnums beta+ beta+
OpportunisticBatching beta+ beta+
OrderedNamespaceDeletion ga+! .
PersistentVolumeClaimUnusedSinceTime alpha- beta+
PLEGOnDemandRelist beta+ ga+!
PodAndContainerStatsFromCRI alpha- beta-
PodCertificateRequest beta- ga+ < AuthorizeNodeWithSelectors
PodDeletionCost beta+ beta+
PodGroupPreemptionPolicy . alpha- < GenericWorkload
PodLevelResourceManagers alpha- beta- < PodLevelResources
PodLevelResources beta+ beta+
PodLevelResourcesFixDefaulting . beta+ < PodLevelResources
PodLevelResourcesFixKubeletQOSClass . beta+ < PodLevelResources
PodLifecycleSleepAction ga+! .
PodLifecycleSleepActionAllowZero ga+! . < PodLifecycleSleepAction
PodLogsQuerySplitStreams alpha- alpha-
PodObservedGenerationTracking ga+! ga+!
PodReadyToStartContainersCondition beta+ ga+!
PodsAPI alpha- beta+
PodSchedulingReadiness ga+! ga+!
PodTopologyLabelsAdmission beta+ beta+
PortForwardWebsockets beta+ beta+
PreferSameTrafficDistribution ga+! ga+!
PreventStaticPodAPIReferences beta+ .
ProcMountType ga+! ga+! < UserNamespacesSupport
QOSReserved alpha- alpha-
RecoverVolumeExpansionFailure ga+! ga+!
RecursiveReadOnlyMounts ga+! ga+!
ReduceDefaultCrashLoopBackOffDecay alpha- alpha-
RelaxedDNSSearchValidation ga+! .
RelaxedEnvironmentVariableValidation ga+! ga+!
RelaxedServiceNameValidation beta+ ga+!
ReloadKubeletClientCAFile beta+ beta+
ReloadKubeletServerCertificateFile beta+ beta+
RemoteRequestHeaderUID beta+ beta+
ResilientWatchCacheInitialization ga+! .
ResourceHealthStatus beta+ beta+ < DynamicResourceAllocation
ResourceHealthStatusMessage beta+ beta+ < ResourceHealthStatus
RestartAllContainersOnContainerExits beta+ beta+ < ContainerRestartRules NodeDeclaredFeatures
RetryGenerateName ga+! .
RotateKubeletServerCertificate beta+ beta+
RuntimeClassInImageCriApi alpha- alpha-
SchedulerAsyncAPICalls beta- beta-
SchedulerAsyncPreemption beta+ beta+
SchedulerPopFromBackoffQ beta+ beta+
SchedulerPreQueueingHints . alpha-
SchedulerQueueingHints ga+! .
SELinuxChangePolicy ga+! ga+!
SELinuxMount beta- ga+
SELinuxMountReadWriteOncePod ga+! ga+!
SeparateCacheWatchRPC dep-! dep-!
SeparateTaintEvictionController ga+! ga+!
ServiceAccountNodeAudienceRestriction beta+ beta+
ServiceAccountTokenJTI ga+! ga+!
ServiceAccountTokenNodeBinding ga+! ga+! < ServiceAccountTokenNodeBindingValidation
ServiceAccountTokenNodeBindingValidation ga+! ga+!
ServiceAccountTokenPodNodeInfo ga+! ga+!
ServiceCIDRStatusFieldWiping dep+ dep+
ShardedListAndWatch alpha- alpha-
SidecarContainers ga+! .
SizeBasedListCostEstimate beta+ beta+
StaleControllerConsistencyDaemonSet beta+ beta+ < AtomicFIFO
StaleControllerConsistencyHPA . beta+ < AtomicFIFO
StaleControllerConsistencyJob beta+ beta+ < AtomicFIFO
StaleControllerConsistencyReplicaSet beta+ beta+ < AtomicFIFO
StaleControllerConsistencyStatefulSet beta+ beta+ < AtomicFIFO
StatefulSetRecreateStrategy . alpha-
StatefulSetSemanticRevisionComparison beta+ beta+
StorageCapacityScoring alpha- beta+
StorageNamespaceIndex dep+ dep+
StorageVersionAPI alpha- alpha- < APIServerIdentity
StorageVersionHash beta+ beta+
StorageVersionMigrator beta- ga+
StreamingCollectionEncodingToJSON ga+! .
StreamingCollectionEncodingToProtobuf ga+! .
StrictIPCIDRValidation beta+ beta+
StructuredAuthenticationConfiguration ga+! .
StructuredAuthenticationConfigurationEgressSelector beta+ beta+ < StructuredAuthenticationConfiguration
StructuredAuthenticationConfigurationJWKSMetrics beta+ beta+ < StructuredAuthenticationConfiguration
SupplementalGroupsPolicy ga+! ga+!
SystemdWatchdog ga+! ga+!
TaintTolerationComparisonOperators alpha- alpha-
TokenRequestServiceAccountUIDValidation beta+ beta+
TopologyAwareWorkloadScheduling alpha- alpha- < GenericWorkload
TopologyManagerPolicyAlphaOptions alpha- alpha-
TopologyManagerPolicyBetaOptions beta+ beta+
TopologyManagerPolicyOptions ga+! ga+!
TranslateStreamCloseWebsocketRequests beta+ beta+
UnauthenticatedHTTP2DOSMitigation beta+ beta+
UnknownVersionInteroperabilityProxy beta+ beta+ < APIServerIdentity
UnlockWhileProcessingFIFO beta+ beta+
UserNamespacesHostNetworkSupport alpha- alpha- < UserNamespacesSupport NodeDeclaredFeatures
UserNamespacesSupport ga+! ga+!
VolumeAttributesClass ga+! ga+!
VolumeBindMountOptions . alpha-
VolumeLimitScaling alpha- beta+
WatchCacheInitializationPostStartHook beta+ ga+!
WatchList beta+ beta+
WatchListClient beta+ beta+
WatchListCompression . beta+
WebhookRoundTripLoadBalancing . beta+
WindowsCPUAndMemoryAffinity alpha- alpha-
WindowsGracefulNodeShutdown beta+ beta+ < GracefulNodeShutdown
WindowsHostNetwork dep- dep-
WinDSR ga+! ga+!
WinOverlay ga+! ga+!
WorkloadAwarePreemption alpha- . < GangScheduling
WorkloadWithJob alpha- alpha- < GenericWorkload
"""


def gates_of(minor: str) -> Mapping[str, GateSpec]:
    """The gates known to *minor*, by name, in the order of the table.

    Raises:
        ValueError: *minor* has no column.

    Source: k8s test/compatibility_lifecycle/reference/versioned_feature_list.yaml and the dependency map of
    pkg/features/kube_features.go.
    """
    column = MINORS.index(minor)
    specs = {}
    for line in _TABLE.strip().splitlines():
        states, _, needs = line.partition(" < ")
        name, *by_minor = states.split()
        if (state := by_minor[column]) != ".":
            specs[name] = _spec(name, state, needs=[need for need in needs.split() if _applies(need, minor)])
    # A need that a later minor dropped became permanent there, so nothing can lack it.
    known = {
        name: replace(spec, needs=tuple(need for need in spec.needs if need in specs)) for name, spec in specs.items()
    }
    return MappingProxyType(known)


def _spec(name: str, state: str, *, needs: list[str]) -> GateSpec:
    stage = state.rstrip("+-!")
    return GateSpec(
        name=name,
        stage=_STAGES[stage],
        default="+" in state,
        locked="!" in state,
        needs=tuple(need.partition("@")[0] for need in needs),
    )


def _applies(need: str, minor: str) -> bool:
    _, _, only_in = need.partition("@")
    return only_in in ("", minor)
