"""What the plugins about storage share: signatures of pods with volumes, the words for what is missing, and hints.

Called by VolumeRestrictions, VolumeZone, NodeVolumeLimits and VolumeBinding.

Source: k8s client-go listers (texts); pkg/scheduler/framework/plugins/*/, ``isSchedulableAfterPersistentVolumeClaim*``.
"""

from collections.abc import Hashable
from typing import Any, Final

from berth.api.pod import Pod
from berth.api.storage import PersistentVolumeClaim
from berth.cluster.pods import PodInfo
from berth.cluster.volumes import claims_of
from berth.framework.events import Hint
from berth.plugins.hints import before_and_after

_NO_VOLUMES: Final = "no volumes"


def signature(pod: PodInfo) -> Hashable:
    """Pods without volumes are alike; a pod with volumes is like no other, since what its claims say may change."""
    return None if pod.volumes else _NO_VOLUMES


def claim_not_found(name: str) -> str:
    """What is said about a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """What is said about a persistent volume that does not exist."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """What is said about a storage class that does not exist."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def owns(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a claim was made for *pod*.

    Source:
        k8s component-helpers/storage/ephemeral/ephemeral.go, ``VolumeIsForPod``.
    """
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    return controller is not None and controller.uid == pod.uid


def not_owner(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """What is said about a claim that was made for another pod than *pod*."""
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def hint_for_named_claim(pod: PodInfo, old: Any, new: Any) -> Hint:
    """Queue if the claim that came or changed is named by a volume of *pod*."""
    return _hint_for_claim(pod, old, new, ephemeral=False)


def hint_for_claim(pod: PodInfo, old: Any, new: Any) -> Hint:
    """Queue if the claim that came or changed is named by a volume of *pod*, or is made for one."""
    return _hint_for_claim(pod, old, new, ephemeral=True)


def _hint_for_claim(pod: PodInfo, old: Any, new: Any, *, ephemeral: bool) -> Hint:
    _, claim = before_and_after(PersistentVolumeClaim, old, new)
    if claim.metadata.namespace != pod.pod.metadata.namespace:
        return Hint.SKIP
    uses = claims_of(pod.pod, pod.volumes)
    mine = (use.name for use in uses if ephemeral or not use.is_ephemeral)
    return Hint.QUEUE if claim.metadata.name in mine else Hint.SKIP
