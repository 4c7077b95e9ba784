"""Every plugin has a page, and what the pages say comes out so.

An example is a fenced block of manifests, followed by a block with the outcome: for a plugin that judges nodes, each
pod to be placed with the nodes that it fits, the scores of the page's plugin where there is something to choose, and
for every other node the reasons; for the others, what the plugin makes of each pod.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.builders import a_cluster, a_handle
from tests.conformance.evaluate import evaluate
from tests.conformance.records import Outcome, Scenario
from tests.kube.scripted_api import ScriptedApi

from berth.api.pod import Pod
from berth.config.gates import features_of
from berth.config.types import KIND
from berth.config.versions import row_of
from berth.framework import interface
from berth.framework.cycle_state import CycleState
from berth.framework.interface import EnqueueExtensions
from berth.framework.plugin_args import ARGS_BY_PLUGIN
from berth.kube.dispatcher import Dispatcher
from berth.plugins.default_binder import DefaultBinder
from berth.plugins.priority_sort import PrioritySort
from berth.plugins.registry import IN_TREE
from berth.plugins.scheduling_gates import SchedulingGates
from berth.runtime.binding import ApiBinder

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
MINOR = "1.37"
EXAMPLE = re.compile(r"```yaml\n(.*?)```.*?```text\n(.*?)```", re.DOTALL)
JUDGES_NO_NODES = ("PrioritySort", "SchedulingGates", "DefaultBinder")
POINTS = (
    *("QueueSort", "PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit"),
    *("PreBind", "Bind", "PostBind"),
)


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def field(name: str, title: str) -> str:
    """A field of the table at the head of a page; empty if there is none."""
    found = re.search(rf"^\| {title} \| (.*) \|$", page(name), re.MULTILINE)
    return found[1] if found else ""


def examples() -> list[Any]:
    found = []
    for name in IN_TREE:
        if name not in JUDGES_NO_NODES:
            for i, (manifests, outcome) in enumerate(EXAMPLE.findall(page(name))):
                found.append(pytest.param(name, manifests, outcome, id=f"{name}-{i}"))
    return found


# -- what a page has ---------------------------------------------------------------------------------------------------


def test_there_is_a_page_for_every_plugin_and_for_nothing_else() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} - {"README"} == set(IN_TREE)


def test_the_index_has_all_plugins_in_their_order_and_says_what_their_pages_say() -> None:
    row = row_of(MINOR)
    order = [name for name, _ in row.default_multi_point(features_of(row).gates) if name in IN_TREE]
    assert set(order) == set(IN_TREE), "a plugin that is on by no default needs a place of its own in the index"
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\) \| (\d*) +\| (.*) \|$", page("README"), re.MULTILINE)
    assert rows == [
        (name, name, field(name, "Weight"), " ".join(page(name).split("\n\n")[1].splitlines())) for name in order
    ]


@pytest.mark.parametrize("name", IN_TREE)
def test_a_page_has_the_name_of_its_plugin_an_example_and_the_differences(name: str) -> None:
    text = page(name)
    assert text.startswith(f"# {name}\n")
    assert EXAMPLE.search(text)
    assert re.search(r"^## Differences from the reference\n\n.", text, re.MULTILINE)


@pytest.mark.parametrize("name", IN_TREE)
def test_a_page_names_the_points_at_which_its_plugin_takes_part(name: str) -> None:
    plugin = IN_TREE[name](None, a_handle(minor=MINOR))
    points = [point for point in POINTS if isinstance(plugin, getattr(interface, f"{point}Plugin"))]
    assert re.sub(r" \(from [\d.]+\)", "", field(name, "Points")).split(", ") == points


@pytest.mark.parametrize("name", IN_TREE)
def test_a_page_has_the_default_weight_of_a_plugin_that_scores(name: str) -> None:
    row = row_of(MINOR)
    weights = dict(row.default_multi_point(features_of(row).gates))
    scores = isinstance(IN_TREE[name](None, a_handle(minor=MINOR)), interface.ScorePlugin)
    assert field(name, "Weight") == (str(weights[name] or 1) if scores else "")


@pytest.mark.parametrize("name", IN_TREE)
def test_a_page_names_the_arguments_and_says_what_wakes_pods(name: str) -> None:
    text, args = page(name), ARGS_BY_PLUGIN.get(name)
    for argument in args.__struct_encode_fields__ if args else ():
        assert f"`{argument}" in text
    assert (field(name, "Arguments") == "none") is (args is None)
    wakes = isinstance(IN_TREE[name](None, a_handle(minor=MINOR)), EnqueueExtensions)
    assert bool(re.search(r"^## What wakes ", text, re.MULTILINE)) is wakes
    assert ("so there is no" in text) is not wakes


# -- plugins that judge nodes ------------------------------------------------------------------------------------------


def raw(manifest: dict[str, Any]) -> msgspec.Raw:
    metadata = {"uid": f"uid-of-{manifest['metadata']['name']}", "resourceVersion": "1", **manifest["metadata"]}
    return msgspec.Raw(msgspec.json.encode({**manifest, "metadata": metadata}))


def waits(manifest: dict[str, Any]) -> bool:
    is_pending = manifest.get("status", {}).get("phase") == "Pending"
    return manifest["kind"] == "Pod" and (is_pending or "nodeName" not in manifest["spec"])


def told(outcome: Outcome, plugin: str) -> list[str]:
    """An outcome, as the pages write it."""
    lines = [f"{outcome.pod.rpartition('/')[2]}: {', '.join(outcome.feasible or ()) or 'no node'}"]
    scores = {node: by_plugin[plugin] for node, by_plugin in sorted(outcome.scores.items()) if plugin in by_plugin}
    if len(scores) > 1:
        lines.append(f"- scores: {', '.join(f'{node} {score}' for node, score in scores.items())}")
    lines += [f"- {node}: {', '.join(status.reasons)}" for node, status in sorted(outcome.nodes.items())]
    if outcome.absent_nodes and len(outcome.feasible or ()) + len(outcome.nodes) < outcome.num_nodes:
        if outcome.pre_filter_message:
            lines.append(f"- all nodes: {outcome.pre_filter_message}")
        else:
            lines.append(f"- other nodes: {', '.join(outcome.absent_nodes.reasons)}")
    if outcome.nominated_node:
        victims = [victim.rpartition("/")[2] for victim in outcome.victims]
        lines.append(f"- room on {outcome.nominated_node} without {', '.join(victims)}")
    if outcome.error:
        lines.append(f"- error: {outcome.error}")
    return lines


@pytest.mark.parametrize(("name", "manifests", "outcome"), examples())
def test_pods_of_an_example_fit_where_the_page_says(name: str, manifests: str, outcome: str) -> None:
    documents = list(yaml.safe_load_all(manifests))
    (config,) = [each for each in documents if each["kind"] == KIND] or [None]
    documents = [each for each in documents if each["kind"] != KIND]
    pods = [manifest for manifest in documents if waits(manifest)]
    scenario = Scenario(
        name="example",
        group="pages",
        version=MINOR,
        objects=tuple(raw(manifest) for manifest in documents if not waits(manifest)),
        pods=tuple(map(raw, pods)),
        expect=tuple(Outcome(pod=pod["metadata"]["name"], num_nodes=1) for pod in pods),
        config=config,
    )
    assert [line for each in evaluate(scenario) for line in told(each, name)] == outcome.splitlines()


# -- plugins that judge no nodes ---------------------------------------------------------------------------------------


def example_of(name: str) -> tuple[list[Pod], list[str]]:
    """The pods of the one example of a page, and the lines of the outcome."""
    [(manifests, outcome)] = EXAMPLE.findall(page(name))
    pods = [msgspec.json.decode(raw(manifest), type=Pod) for manifest in yaml.safe_load_all(manifests)]
    return pods, outcome.splitlines()


def test_pods_are_tried_in_the_order_that_the_page_on_sorting_says() -> None:
    pods, outcome = example_of("PrioritySort")
    keys = {pod.metadata.name: PrioritySort().sort_key(a_cluster().info(pod), float(i)) for i, pod in enumerate(pods)}
    assert [", ".join(sorted(keys, key=keys.__getitem__))] == outcome


def test_pods_are_let_in_or_not_as_the_page_on_gates_says() -> None:
    pods, outcome = example_of("SchedulingGates")
    answers = [(pod, SchedulingGates(a_handle()).pre_enqueue(a_cluster().info(pod))) for pod in pods]
    assert [f"{pod.metadata.name}: {status.message or 'enters the queue'}" for pod, status in answers] == outcome


async def test_a_pod_is_bound_by_the_request_on_the_page() -> None:
    [pod], outcome = example_of("DefaultBinder")
    api = ScriptedApi()
    binder = DefaultBinder(a_handle(binder=ApiBinder(Dispatcher(api, qps=-1, burst=0), lambda: True)))
    assert (await binder.bind(CycleState(), a_cluster().info(pod), "a")).ok
    [sent] = api.sent
    assert [f"{sent.method} {sent.path}", json.dumps(sent.body, separators=(",", ":"))] == outcome
