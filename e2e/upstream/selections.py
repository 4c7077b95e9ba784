"""Which specs of the suite are run: regular expressions on their full names."""

from __future__ import annotations

import dataclasses

FOCUS = r"\[sig-scheduling\]"
SKIP = "OffByDefault"  # specs of feature gates that a cluster does not have without asking for them


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Specs that match *focus* and do not match *skip*."""

    focus: str = FOCUS
    skip: str = SKIP


# What every change has to pass: the conformance specs, without the one that waits for five minutes whether a pod that
# must not be placed stays pending.
QUICK = Selection(focus=rf"{FOCUS}.*\[Conformance\]", skip=rf"{SKIP}|one using 0\.0\.0\.0 hostIP")

# Other groups' specs that pass with kube-scheduler on hollow nodes. Left out are those that look into containers, or
# rely on an image that cannot be pulled.
_JOBS = (
    "remove pods when job is deleted",
    "run a job to completion when tasks succeed",
    "run a job to completion with CPU",
    "not create pods when created in suspend",
    "create pods for an Indexed job with completion",
    "create pods with completion indexes",
    "apply changes to a job status",
    "manage the lifecycle",
    "allow to delegate",
)
_STATEFUL_SETS = (
    "have a working scale subresource",
    "list, patch and delete",
    "Status endpoints",
    "MinReadySeconds should",
    "StartOrdinal",
    "Non-retain",
)
_STORAGE = (
    "PV Protection",
    "PVC Protection",
    "PersistentVolumes CSI",
    "CSIStorageCapacity",
    "CSINodes",
    "CSIInlineVolumes",
    "StorageClasses",
    "VolumeAttachment",
    "VolumeAttributesClass",
    "Ephemeralstorage",
)
_ON_CONTAINERS = ("serve a basic image", "proportional scaling", "rollback without unnecessary", "load-balancer")
WIDE = Selection(
    focus="|".join(
        (
            r"\[DRA\] (control plane|CRUD)",
            r"\[sig-apps\] (Deployment|ReplicaSet|Daemon set)",
            rf"\[sig-apps\] Job should ({'|'.join(_JOBS)})",
            rf"\[sig-apps\] StatefulSet .*({'|'.join(_STATEFUL_SETS)})",
            rf"\[sig-storage\] ({'|'.join(_STORAGE)})",
        )
    ),
    skip="|".join((SKIP, *_ON_CONTAINERS)),
)
