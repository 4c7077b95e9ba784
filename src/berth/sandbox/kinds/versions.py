"""What objects look like under an older version of Kubernetes.

The field table and the defaults are those of the newest version; what an older one does not have is taken out again.
Called by `admission`.
"""

from __future__ import annotations

from typing import Any, Final

from berth.sandbox.objects import without

JsonObject = dict[str, Any]

# minor -> kind -> paths of fields that came later, or were behind a gate that was off
_LATER: Final[dict[str, dict[str, tuple[tuple[str, ...], ...]]]] = {
    "1.36": {
        "CSIDriver": (("spec", "preventPodSchedulingIfMissing"),),
        "CSINode": (("status",),),
        "StatefulSet": (("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"),),
    }
}


def as_of(minor: str, kind: str, obj: JsonObject) -> JsonObject:
    """*obj* without the fields that *minor* does not have; the same object if there are none."""
    for path in _LATER.get(minor, {}).get(kind, ()):
        obj = _without(obj, path)
    return obj


def _without(obj: JsonObject, path: tuple[str, ...]) -> JsonObject:
    name, *rest = path
    if name not in obj:
        return obj
    if not rest:
        return without(obj, name)
    inner = obj[name]
    return {**obj, name: _without(inner, tuple(rest))} if isinstance(inner, dict) else obj
