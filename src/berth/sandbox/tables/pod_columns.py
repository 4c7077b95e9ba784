"""The columns of pods: one word for a pod's state takes more thought than all other kinds together.

Read by `tables`.

Source: k8s pkg/printers/internalversion/printers.go, `printPod`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.objects import items, section
from berth.sandbox.tables.columns import AGE, NAME, Column, at
from berth.sandbox.tables.durations import since

if TYPE_CHECKING:
    from datetime import datetime

JsonObject = dict[str, Any]

_TERMINAL: Final = ("Succeeded", "Failed")
_NONE: Final = "<none>"


def _restartable(pod: JsonObject) -> set[str]:
    return {
        each["name"] for each in items(section(pod, "spec"), "initContainers") if each.get("restartPolicy") == "Always"
    }


def _is_true(pod: JsonObject, kind: str) -> bool:
    conditions = items(section(pod, "status"), "conditions")
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _end_word(state: JsonObject) -> str:
    if state.get("reason"):
        return str(state["reason"])
    return f"Signal:{state['signal']}" if state.get("signal") else f"ExitCode:{state.get('exitCode', 0)}"


def _init_word(pod: JsonObject) -> str:
    """What the first unfinished init container is at; empty if all are done."""
    restartable = _restartable(pod)
    for index, status in enumerate(items(section(pod, "status"), "initContainerStatuses")):
        state = section(status, "state")
        ended, waiting = state.get("terminated"), section(state, "waiting").get("reason", "")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        if status["name"] in restartable and status.get("started"):
            continue
        if ended is not None:
            return f"Init:{_end_word(ended)}"
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(items(section(pod, 'spec'), 'initContainers'))}"
    return ""


def _containers_word(pod: JsonObject, word: str) -> str:
    """*word*, or what the containers have to say."""
    running, failed = False, ""
    for status in reversed(items(section(pod, "status"), "containerStatuses")):
        state = section(status, "state")
        if reason := section(state, "waiting").get("reason"):
            word = reason
        elif (ended := state.get("terminated")) is not None:
            word = _end_word(ended)
            failed = word if ended.get("exitCode", 0) else failed
        elif status.get("ready") and "running" in state:
            running = True
    if word == "Completed":
        if running and _is_true(pod, "Ready"):
            return "Running"
        return failed or ("NotReady" if running else word)
    return word


def state_word(pod: JsonObject, _: datetime) -> str:
    """The one word for the state of a pod."""
    status = section(pod, "status")
    phase = status.get("phase", "")
    word = status.get("reason") or phase
    if any(each.get("reason") == "SchedulingGated" for each in items(status, "conditions")):
        word = "SchedulingGated"
    init = _init_word(pod)
    word = init if init and not _is_true(pod, "Initialized") else _containers_word(pod, word)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in _TERMINAL:
            return "Terminating"
    return str(word)


def _ready(pod: JsonObject, _: datetime) -> str:
    restartable = _restartable(pod)
    status = section(pod, "status")
    sidecars = [each for each in items(status, "initContainerStatuses") if each["name"] in restartable]
    ready = sum(bool(each.get("ready") and each.get("started")) for each in sidecars)
    for each in items(status, "containerStatuses"):
        ready += bool(each.get("ready") and "running" in section(each, "state"))
    return f"{ready}/{len(items(section(pod, 'spec'), 'containers')) + len(restartable)}"


def _restarts(pod: JsonObject, now: datetime) -> str:
    restartable, status = _restartable(pod), section(pod, "status")
    counted = [
        *(each for each in items(status, "initContainerStatuses") if _init_word(pod) or each["name"] in restartable),
        *items(status, "containerStatuses"),
    ]
    count = sum(each.get("restartCount", 0) for each in counted)
    ends = [section(section(each, "lastState"), "terminated").get("finishedAt") for each in counted]
    last = max(filter(None, ends), default=None)
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def _gates(pod: JsonObject, _: datetime) -> str:
    gates = items(section(pod, "spec"), "readinessGates")
    passed = sum(_is_true(pod, gate["conditionType"]) for gate in gates)
    return f"{passed}/{len(gates)}" if gates else _NONE


POD_COLUMNS: Final = (
    NAME,
    Column("Ready", _ready),
    Column("Status", state_word),
    Column("Restarts", _restarts),
    AGE,
    Column("IP", at("status.podIP", _NONE), wide=True),
    Column("Node", at("spec.nodeName", _NONE), wide=True),
    Column("Nominated Node", at("status.nominatedNodeName", _NONE), wide=True),
    Column("Readiness Gates", _gates, wide=True),
)


def row_conditions(pod: JsonObject) -> list[JsonObject]:
    """What makes kubectl tell finished pods apart."""
    phase = section(pod, "status").get("phase")
    if phase not in _TERMINAL:
        return []
    message = "The pod has completed successfully." if phase == "Succeeded" else "The pod failed."
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]
