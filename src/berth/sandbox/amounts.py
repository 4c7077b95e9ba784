"""Where objects hold quantities, and how they are brought into canonical form.

A table of paths per kind; `*` stands for every item of a list, `**` for every member of an object. Objects are shared,
so only what changes is rebuilt. Called by `admission`.
"""

from __future__ import annotations

from typing import Any, Final

from berth.sandbox.quantities import shown

JsonObject = dict[str, Any]
Path = tuple[str, ...]


def _path(text: str) -> Path:
    return tuple(text.split("."))


def _pod_spec(prefix: str) -> tuple[str, ...]:
    resources = [f"{prefix}.{kind}.*.resources" for kind in ("containers", "initContainers", "ephemeralContainers")]
    resources += [f"{prefix}.resources", f"{prefix}.volumes.*.ephemeral.volumeClaimTemplate.spec.resources"]
    return (
        *(f"{each}.{part}.**" for each in resources for part in ("requests", "limits")),
        f"{prefix}.overhead.**",
        f"{prefix}.volumes.*.emptyDir.sizeLimit",
    )


_TEMPLATED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController")
_POD_STATUS: Final = tuple(
    f"status.{kind}.*.{part}.**"
    for kind in ("containerStatuses", "initContainerStatuses")
    for part in ("allocatedResources", "resources.requests", "resources.limits")
)
_PATHS: Final[dict[str, tuple[Path, ...]]] = {
    kind: tuple(map(_path, texts))
    for kind, texts in {
        "Pod": (*_pod_spec("spec"), *_POD_STATUS),
        **dict.fromkeys(_TEMPLATED, _pod_spec("spec.template.spec")),
        "Node": ("status.capacity.**", "status.allocatable.**"),
        "PersistentVolume": ("spec.capacity.**",),
        "PersistentVolumeClaim": (
            "spec.resources.requests.**",
            "spec.resources.limits.**",
            "status.capacity.**",
            "status.allocatedResources.**",
        ),
        "CSIStorageCapacity": ("capacity", "maximumVolumeSize"),
        "ResourceSlice": (
            "spec.devices.*.capacity.**.value",
            "spec.devices.*.capacity.**.requestPolicy.default",
            "spec.sharedCounters.*.counters.**.value",
            "spec.devices.*.consumesCounters.*.counters.**.value",
        ),
        "RuntimeClass": ("overhead.podFixed.**",),
        "ResourceQuota": ("spec.hard.**", "status.hard.**", "status.used.**"),
        "LimitRange": tuple(
            f"spec.limits.*.{part}.**" for part in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
        ),
    }.items()
}


def with_canonical_amounts(kind: str, obj: JsonObject) -> JsonObject:
    """*obj* with all its quantities in canonical form.

    Raises:
        QuantityError: something that has to be a quantity is none.
    """
    for path in _PATHS.get(kind, ()):
        obj = _rebuilt(obj, path)
    return obj


def _rebuilt(value: Any, path: Path) -> Any:
    if not path:
        return shown(value)
    step, rest = path[0], path[1:]
    if step == "*":
        if not isinstance(value, list):
            return value
        members = [_rebuilt(member, rest) for member in value]
        return members if any(new is not old for new, old in zip(members, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    names = list(value) if step == "**" else [step] if step in value else []
    changed = {}
    for name in names:
        new = _rebuilt(value[name], rest)
        if new is not value[name] and new != value[name]:
            changed[name] = new
    return {**value, **changed} if changed else value
