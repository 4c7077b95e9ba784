"""A workload's file becomes the objects of a measurement, and a wrong one is refused with its name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from bench.workload import Done, WorkloadError

from bench import workload as workloads

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = {"metadata": {"name": "$name", "labels": {"zone": "$zone", "index": "$index"}}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(workloads, "FOLDER", tmp_path)
    return tmp_path


def write(folder: Path, **changes: Any) -> None:
    """A workload named ``own`` with two zones; a change to None leaves the key out."""
    whole = {"nodes": 3, "zones": 2, "pods": 2, "done": "bound", "node": TEMPLATE, "pod": {**TEMPLATE, "spec": {}}}
    given = {key: value for key, value in (whole | changes).items() if value is not None}
    (folder / "own.yaml").write_text(yaml.safe_dump(given), encoding="utf-8")


@pytest.mark.parametrize("name", workloads.names())
def test_every_shipped_workload_renders_as_many_objects_as_it_counts(name: str) -> None:
    workload = workloads.load(name, nodes=7, pods=5, initial_pods=0)
    assert len({json.loads(body)["metadata"]["name"] for body in workload.node_bodies()}) == 7
    pods = [json.loads(body) for body in workload.pod_bodies()]
    assert len({pod["metadata"]["name"] for pod in pods}) == 5
    assert all(workload.is_measured(pod["metadata"]["name"]) for pod in pods)
    assert not any(workload.is_done({"status": {}} | pod) for pod in pods)


def test_names_zones_and_indexes_differ_from_object_to_object(folder: Path) -> None:
    write(folder)
    last = json.loads(workloads.load("own").node_bodies()[2])
    assert last == {"metadata": {"name": "node-000002", "labels": {"zone": "0", "index": "2"}}}


def test_initial_pods_are_bound_to_the_nodes_in_turn_and_not_measured(folder: Path) -> None:
    write(folder, initial_pods=4, initial_pod={**TEMPLATE, "spec": {}})
    workload = workloads.load("own")
    pods = [json.loads(body) for body in workload.initial_pod_bodies()]
    assert [pod["spec"]["nodeName"] for pod in pods] == ["node-000000", "node-000001", "node-000002", "node-000000"]
    assert not any(workload.is_measured(pod["metadata"]["name"]) for pod in pods)


def test_a_refused_pod_is_done_where_the_workload_waits_for_refusals(folder: Path) -> None:
    write(folder, done="refused")
    workload = workloads.load("own")
    assert workload.done is Done.REFUSED
    refused = {"spec": {}, "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}}
    assert workload.is_done(refused)
    assert not workload.is_done({"spec": {"nodeName": "node-000000"}, "status": {}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pods": None}, "missing 1 required keyword-only argument: 'pods'"),
        ({"podz": 3}, "unexpected keyword argument 'podz'"),
        ({"done": "happy"}, "'happy' is not a valid Done"),
        ({"done": None}, "'done'"),
        ({"pods": 1}, "pods: want at least 2, got 1"),
    ],
    ids=["a missing key", "an unknown key", "an unknown end", "no end", "too few pods for a rate"],
)
def test_a_wrong_file_is_refused(folder: Path, changes: dict[str, Any], message: str) -> None:
    write(folder, **changes)
    with pytest.raises(WorkloadError, match=f"own.yaml: .*{message}"):
        workloads.load("own")


def test_an_unknown_workload_is_refused_with_the_known_ones(folder: Path) -> None:
    write(folder)
    with pytest.raises(WorkloadError, match="no workload 'other': want one of own"):
        workloads.load("other")
