"""Tables: what kubectl shows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.sandbox.client import NODES, PODS, Client, node, pod

from berth.sandbox.serving.tables import form_of
from berth.sandbox.tables.columns import COLUMNS
from berth.sandbox.tables.durations import human, since
from berth.sandbox.tables.pod_columns import POD_COLUMNS, row_conditions

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (599, "9m59s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (10860, "3h1m"),
        (28799, "7h59m"),
        (28800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_071_999, "729d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ],
)
def test_spans_of_time_are_short_and_rounded_down(seconds: float, text: str) -> None:
    assert human(seconds) == text


def test_an_unknown_moment_is_an_unknown_age() -> None:
    assert since(None, NOW) == "<unknown>"
    assert since("2026-01-01T11:59:30Z", NOW) == "30s"


def state(**fields: Any) -> dict[str, Any]:
    return {"name": "main", "ready": False, "restartCount": 0, **fields}


RUNNING = state(ready=True, state={"running": {}})
READY = {"type": "Ready", "status": "True"}
INITIALIZED = {"type": "Initialized", "status": "True"}


def shown(status: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "web", "creationTimestamp": "2026-01-01T11:59:00Z", **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"containers": [{"name": "main"}], **more}, "status": status}


POD_ROWS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "waiting for a node": (shown({"phase": "Pending"}), ["web", "0/1", "Pending", "0", "60s"]),
    "gated": (
        shown(
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            }
        ),
        ["web", "0/1", "SchedulingGated", "0", "60s"],
    ),
    "running": (
        shown({"phase": "Running", "conditions": [READY], "containerStatuses": [RUNNING]}),
        ["web", "1/1", "Running", "0", "60s"],
    ),
    "pulling its image": (
        shown({"phase": "Pending", "containerStatuses": [state(state={"waiting": {"reason": "ImagePullBackOff"}})]}),
        ["web", "0/1", "ImagePullBackOff", "0", "60s"],
    ),
    "crashed": (
        shown(
            {
                "phase": "Running",
                "containerStatuses": [
                    state(
                        restartCount=3,
                        state={"terminated": {"exitCode": 1}},
                        lastState={"terminated": {"finishedAt": "2026-01-01T11:58:00Z"}},
                    )
                ],
            }
        ),
        ["web", "0/1", "ExitCode:1", "3 (2m ago)", "60s"],
    ),
    "killed": (
        shown({"phase": "Failed", "containerStatuses": [state(state={"terminated": {"exitCode": 137, "signal": 9}})]}),
        ["web", "0/1", "Signal:9", "0", "60s"],
    ),
    "completed": (
        shown(
            {
                "phase": "Succeeded",
                "containerStatuses": [state(state={"terminated": {"exitCode": 0, "reason": "Completed"}})],
            }
        ),
        ["web", "0/1", "Completed", "0", "60s"],
    ),
    "evicted": (shown({"phase": "Failed", "reason": "Evicted"}), ["web", "0/1", "Evicted", "0", "60s"]),
    "being deleted": (
        shown(
            {"phase": "Running", "containerStatuses": [RUNNING]}, metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"}
        ),
        ["web", "1/1", "Terminating", "0", "60s"],
    ),
    "lost with its node": (
        shown({"phase": "Running", "reason": "NodeLost"}, metadata={"deletionTimestamp": "2026-01-01T12:00:00Z"}),
        ["web", "0/1", "Unknown", "0", "60s"],
    ),
    "initializing": (
        shown(
            {"phase": "Pending", "initContainerStatuses": [state(name="init", state={"running": {}})]},
            initContainers=[{"name": "init"}, {"name": "second"}],
        ),
        ["web", "0/1", "Init:0/2", "0", "60s"],
    ),
    "failing to initialize": (
        shown(
            {
                "phase": "Pending",
                "initContainerStatuses": [
                    state(name="init", restartCount=2, state={"waiting": {"reason": "CrashLoopBackOff"}})
                ],
            },
            initContainers=[{"name": "init"}],
        ),
        ["web", "0/1", "Init:CrashLoopBackOff", "2", "60s"],
    ),
    "running beside its helper": (
        shown(
            {
                "phase": "Running",
                "conditions": [READY, INITIALIZED],
                "containerStatuses": [RUNNING],
                "initContainerStatuses": [state(name="helper", ready=True, started=True, state={"running": {}})],
            },
            initContainers=[{"name": "helper", "restartPolicy": "Always"}],
        ),
        ["web", "2/2", "Running", "0", "60s"],
    ),
}


@pytest.mark.parametrize(("obj", "cells"), POD_ROWS.values(), ids=POD_ROWS)
def test_a_pod_is_shown_in_one_word(obj: dict[str, Any], cells: list[Any]) -> None:
    assert [column.cell(obj, NOW) for column in POD_COLUMNS if not column.wide] == cells


def test_finished_pods_are_marked_for_kubectl() -> None:
    assert row_conditions(shown({"phase": "Running"})) == []
    (condition,) = row_conditions(shown({"phase": "Succeeded"}))
    assert (condition["type"], condition["reason"]) == ("Completed", "Succeeded")


@pytest.mark.parametrize("kind", sorted(COLUMNS))
def test_every_column_can_show_an_object_that_says_nothing(kind: str) -> None:
    for column in COLUMNS[kind]:
        column.cell({"metadata": {"name": "x"}}, NOW)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "plain"),
        ("*/*", "plain"),
        ("application/json", "plain"),
        (TABLE, "table"),
        ("application/json, application/json;as=Table;v=v1;g=meta.k8s.io", "plain"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "plain"),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io," + TABLE, "table"),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "metadata"),
    ],
)
def test_the_first_form_that_can_be_served_is_taken(accept: str, form: str) -> None:
    assert form_of(accept) == form


async def test_nodes_as_a_table(api: Client) -> None:
    await api.post(NODES, node("a", labels={"node-role.kubernetes.io/worker": ""}))
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [ready], "nodeInfo": {"kubeletVersion": "v1.37.0", "architecture": "amd64"}}
    await api.patch(f"{NODES}/a/status", {"status": status})
    await api.patch(f"{NODES}/a", {"spec": {"unschedulable": True}})
    table = await api.get(NODES, accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    cells = table["rows"][0]["cells"]
    assert [*cells[:3], cells[4]] == ["a", "Ready,SchedulingDisabled", "worker", "v1.37.0"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize(
    ("include", "kind"), [("Object", "Pod"), ("Metadata", "PartialObjectMetadata"), ("None", None)]
)
async def test_rows_carry_what_was_asked_for(api: Client, include: str, kind: str | None) -> None:
    await api.post(PODS, pod("web"))
    (row,) = (await api.get(f"{PODS}?includeObject={include}", accept=TABLE))["rows"]
    assert row.get("object", {}).get("kind") == kind


async def test_one_object_as_a_table_has_one_row(api: Client) -> None:
    await api.post(PODS, pod("web"))
    table = await api.get(f"{PODS}/web", accept=TABLE)
    assert [row["cells"][0] for row in table["rows"]] == ["web"]


async def test_a_kind_without_columns_shows_name_and_creation(api: Client) -> None:
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    await api.post(path, {"metadata": {"name": "system:reader"}})
    table = await api.get(path, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert table["rows"][0]["cells"][0] == "system:reader"


async def test_only_metadata_can_be_had(api: Client) -> None:
    await api.post(PODS, pod("web"))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
    listed = await api.get(PODS, accept=accept)
    assert listed["kind"] == "PartialObjectMetadataList"
    assert set(listed["items"][0]) == {"kind", "apiVersion", "metadata"}
