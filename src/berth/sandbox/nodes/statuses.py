"""What hollow nodes report of pods: all is well, from the first moment on."""

from __future__ import annotations

from typing import Any

from berth.sandbox.objects import items, section, with_condition

JsonObject = dict[str, Any]


def running_status(pod: JsonObject, now: str, address: str, host: str) -> JsonObject:
    """The status of a pod whose containers all run.

    Args:
        pod: the pod as it was bound.
        now: since when.
        address: its IP.
        host: the IP of its node.
    """
    spec, status = pod["spec"], section(pod, "status")
    if spec.get("hostNetwork"):
        address = host
    conditions = items(status, "conditions")
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"):
        conditions = with_condition(conditions, {"type": kind, "status": "True", "lastProbeTime": None}, now)
    return {
        "phase": "Running",
        "conditions": conditions,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": now,
        "observedGeneration": pod["metadata"].get("generation", 0),
        "initContainerStatuses": [_finished(container, now) for container in items(spec, "initContainers")],
        "containerStatuses": [_running(container, now) for container in spec["containers"]],
    }


def finished_status(pod: JsonObject, now: str) -> JsonObject:
    """The changes to the status of a running pod whose containers all ended well.

    Args:
        pod: the pod as it was bound.
        now: since when.
    """
    ended = {"status": "False", "reason": "PodCompleted", "lastProbeTime": None, "lastTransitionTime": now}
    return {
        "phase": "Succeeded",
        "conditions": [{"type": kind, **ended} for kind in ("Ready", "ContainersReady")],
        "containerStatuses": [
            {
                **_container_status(container),
                "ready": False,
                "started": False,
                "state": {"running": None, "terminated": _success(now)},
            }
            for container in pod["spec"]["containers"]
        ],
    }


def _running(container: JsonObject, now: str) -> JsonObject:
    state = {"running": {"startedAt": now}}
    return {**_container_status(container), "ready": True, "started": True, "state": state}


def _finished(container: JsonObject, now: str) -> JsonObject:
    if container.get("restartPolicy") == "Always":
        return _running(container, now)
    return {**_container_status(container), "ready": True, "started": False, "state": {"terminated": _success(now)}}


def _success(now: str) -> JsonObject:
    return {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}


def _container_status(container: JsonObject) -> JsonObject:
    image = container["image"]
    return {
        "name": container["name"],
        "image": image,
        "imageID": f"hollow://{image}",
        "containerID": f"hollow://{container['name']}",
        "lastState": {},
        "restartCount": 0,
    }
