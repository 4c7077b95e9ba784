"""The volumes that were promised to a pod on its node, and what has to happen before the pod can run there.

Promises are assumed at once, so that no other pod is promised the same, and written while the pod's binding is under
way: volumes that exist are bound to their claims, and claims that need a new volume get the node for which it is to be
made.  Others then do the rest, and `Booking.pending` says whether they are done.

Source: k8s pkg/scheduler/framework/plugins/volumebinding/binder.go, ``AssumePodVolumes`` and ``checkBindings``.
"""

from dataclasses import dataclass

import msgspec

from berth.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from berth.cluster.assumed import AssumeError
from berth.cluster.cache import Cluster
from berth.cluster.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from berth.framework.handle import ObjectWriter
from berth.framework.status import PluginError
from berth.plugins.storage import claim_not_found, volume_not_found
from berth.plugins.volume_binding.candidates import is_bound_to
from berth.plugins.volume_binding.search import Findings, Search


@dataclass(slots=True)
class Binding:
    """A volume that is promised to a claim.

    Attributes:
        claim: the claim.
        before: the volume as it was shown last.
        volume: the volume as it is to be; from when it was written, as it was written.
        is_ours: whether the promise is assumed for this pod; another pod with the same claim may have been first.
    """

    claim: PersistentVolumeClaim
    before: PersistentVolume
    volume: PersistentVolume
    is_ours: bool


@dataclass(slots=True)
class Provisioning:
    """A claim for which a volume is to be made.

    Attributes:
        before: the claim as it was shown last.
        claim: the claim as it is to be; from when it was written, as it was written.
        is_ours: as for `Binding`.
    """

    before: PersistentVolumeClaim
    claim: PersistentVolumeClaim
    is_ours: bool


class Booking:
    """What was promised to one pod.

    Args:
        cluster: where promises are assumed.
        search: knows what can be reached from where.
        node_name: the node.
    """

    def __init__(self, cluster: Cluster, search: Search, node_name: str) -> None:
        self._cluster, self._search = cluster, search
        self.node_name = node_name
        self.bindings: list[Binding] = []
        self.provisionings: list[Provisioning] = []

    def assume(self, findings: Findings) -> None:
        """Promise what was found for the node, the one row of *findings*.

        Raises:
            PluginError: something has changed meanwhile; nothing is promised then.
        """
        try:
            for match in findings.matches:
                number = match.chosen.item(0)
                if number >= 0:
                    self._bind(match.demand.claim, match.demand.offers.things[number].volume)
            for provision in findings.provisions:
                if provision.asked.item(0):
                    self._provision(provision.demand.claim)
        except AssumeError as error:
            self.restore()
            raise PluginError(str(error)) from error

    def restore(self) -> None:
        """Take back the promises that still stand."""
        for binding in self.bindings:
            if binding.is_ours:
                self._cluster.assumed_volumes.restore(binding.volume)
        for provisioning in self.provisionings:
            if provisioning.is_ours:
                self._cluster.assumed_claims.restore(provisioning.claim)

    async def write(self, writer: ObjectWriter) -> None:
        """Write the promises, but for those that are shown as kept already.

        Raises:
            WriteError: one was not taken; those before it stay as they are written.
        """
        objects = self._cluster.objects
        for binding in self.bindings:
            volume = objects.get(PERSISTENT_VOLUME, binding.volume.metadata.name)
            if volume is not None and bound_volume(volume, binding.claim) is volume:
                binding.volume = volume
            else:
                binding.volume = await writer.update_persistent_volume(binding.before, binding.volume)
        for each in self.provisionings:
            meta = each.claim.metadata
            claim = objects.get(PERSISTENT_VOLUME_CLAIM, meta.name, meta.namespace)
            if claim is not None and claim.metadata.annotations.get(SELECTED_NODE) == self.node_name:
                each.claim = claim
            else:
                each.claim = await writer.update_persistent_volume_claim(each.before, each.claim)

    def pending(self) -> bool:
        """Whether somebody still has to do something.

        Raises:
            PluginError: it will come to nothing.
        """
        if self._cluster.table.row_of(self.node_name) is None:
            raise PluginError(f'failed to get node "{self.node_name}": node "{self.node_name}" not found')
        waits = [self._binding_is_pending(binding) for binding in self.bindings]
        waits += [self._provisioning_is_pending(provisioning) for provisioning in self.provisionings]
        return any(waits)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        changed = bound_volume(volume, claim)
        is_ours = changed is not volume
        if is_ours:
            self._cluster.assumed_volumes.assume(changed)
        shown = self._cluster.objects.get(PERSISTENT_VOLUME, volume.metadata.name)
        self.bindings.append(Binding(claim, volume if shown is None else shown, changed, is_ours))

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        meta = claim.metadata
        changed = claim
        is_ours = meta.annotations.get(SELECTED_NODE) != self.node_name
        if is_ours:
            annotations = {**meta.annotations, SELECTED_NODE: self.node_name}
            changed = msgspec.structs.replace(claim, metadata=msgspec.structs.replace(meta, annotations=annotations))
            self._cluster.assumed_claims.assume(changed)
        shown = self._cluster.objects.get(PERSISTENT_VOLUME_CLAIM, meta.name, meta.namespace)
        self.provisionings.append(Provisioning(claim if shown is None else shown, changed, is_ours))

    def _binding_is_pending(self, binding: Binding) -> bool:
        name = binding.volume.metadata.name
        volume = self._cluster.objects.get(PERSISTENT_VOLUME, name)
        if volume is None:
            raise PluginError(f"failed to check binding: {volume_not_found(name)}")
        claim = self._claim(binding.claim, "failed to check binding")
        if _is_older(volume, binding.volume):
            return True
        self._check_reach(volume)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise PluginError(f'ClaimRef got reset for pv "{name}"')
        return not claim.is_bound

    def _provisioning_is_pending(self, provisioning: Provisioning) -> bool:
        claim = self._claim(provisioning.claim, "failed to check provisioning pvc")
        if _is_older(claim, provisioning.claim):
            return True
        if not claim.metadata.annotations:
            raise PluginError(f'selectedNode annotation reset for PVC "{claim.metadata.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE) != self.node_name:
            raise PluginError(f'provisioning failed for PVC "{claim.metadata.name}"')
        if claim.spec.volume_name:
            volume = self._cluster.objects.get(PERSISTENT_VOLUME, claim.spec.volume_name)
            if volume is None:
                return True
            self._check_reach(volume)
        return not claim.is_bound

    def _claim(self, claim: PersistentVolumeClaim, doing: str) -> PersistentVolumeClaim:
        """The claim as it is now."""
        meta = claim.metadata
        found = self._cluster.objects.get(PERSISTENT_VOLUME_CLAIM, meta.name, meta.namespace)
        if found is None:
            raise PluginError(f"{doing}: {claim_not_found(meta.name)}")
        return found

    def _check_reach(self, volume: PersistentVolume) -> None:
        if not self._search.reaches(volume, self.node_name):
            name = volume.metadata.name
            raise PluginError(
                f'pv "{name}" node affinity doesn\'t match node "{self.node_name}": no matching NodeSelectorTerms'
            )


def bound_volume(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume, bound to *claim*; the very same where nothing is to be changed.

    Source:
        k8s component-helpers/storage/volume/pv_helpers.go, ``GetBindVolumeToClaim``.
    """
    meta, old = claim.metadata, volume.spec.claim_ref
    annotations = volume.metadata.annotations
    changed = volume
    if not is_bound_to(old, claim) or old is None or old.uid != meta.uid:
        reference = ObjectReference(
            api_version="v1",
            kind="PersistentVolumeClaim",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        changed = msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=reference))
    if not is_bound_to(old, claim) and BOUND_BY_CONTROLLER not in annotations:
        metadata = msgspec.structs.replace(volume.metadata, annotations={**annotations, BOUND_BY_CONTROLLER: "yes"})
        changed = msgspec.structs.replace(changed, metadata=metadata)
    return changed


def _is_older(
    known: PersistentVolume | PersistentVolumeClaim, written: PersistentVolume | PersistentVolumeClaim
) -> bool:
    """Whether what we wrote has not been shown to us yet."""
    versions = (known.metadata.resource_version, written.metadata.resource_version)
    if all(version.isdecimal() for version in versions):
        return int(versions[0]) < int(versions[1])
    return False
