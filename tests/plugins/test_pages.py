"""The examples on the pages of the plugins come out as the pages say.

An example is a fenced block of manifests, followed by a block that names each pod to be placed, the nodes that it fits,
and for every other node the reasons.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.conformance.evaluate import evaluate
from tests.conformance.records import Outcome, Scenario

PAGES = Path(__file__).parents[2] / "docs" / "plugins"
EXAMPLE = re.compile(r"```yaml\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)


def examples() -> list[Any]:
    found = []
    for page in sorted(PAGES.glob("*.md")):
        for i, (manifests, outcome) in enumerate(EXAMPLE.findall(page.read_text(encoding="utf-8"))):
            found.append(pytest.param(manifests, outcome, id=f"{page.stem}-{i}"))
    return found


def raw(manifest: dict[str, Any]) -> msgspec.Raw:
    metadata = {"uid": f"uid-of-{manifest['metadata']['name']}", "resourceVersion": "1", **manifest["metadata"]}
    return msgspec.Raw(msgspec.json.encode({**manifest, "metadata": metadata}))


def waits(manifest: dict[str, Any]) -> bool:
    return manifest["kind"] == "Pod" and "nodeName" not in manifest["spec"]


def told(outcome: Outcome) -> list[str]:
    """An outcome, as the pages write it."""
    lines = [f"{outcome.pod.rpartition('/')[2]}: {', '.join(outcome.feasible or ()) or 'no node'}"]
    lines += [f"- {node}: {', '.join(status.reasons)}" for node, status in sorted(outcome.nodes.items())]
    if outcome.pre_filter_message:
        lines.append(f"- all nodes: {outcome.pre_filter_message}")
    if outcome.error:
        lines.append(f"- error: {outcome.error}")
    return lines


@pytest.mark.parametrize(("manifests", "outcome"), examples())
def test_example(manifests: str, outcome: str) -> None:
    documents = list(yaml.safe_load_all(manifests))
    pods = [manifest for manifest in documents if waits(manifest)]
    scenario = Scenario(
        name="example",
        group="pages",
        version="1.37",
        objects=tuple(raw(manifest) for manifest in documents if not waits(manifest)),
        pods=tuple(map(raw, pods)),
        expect=tuple(Outcome(pod=pod["metadata"]["name"], num_nodes=1) for pod in pods),
    )
    assert [line for each in evaluate(scenario) for line in told(each)] == outcome.splitlines()


def test_every_page_of_a_plugin_that_looks_at_devices_storage_or_features_has_an_example() -> None:
    storage = ("NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone")
    pages = ("DynamicResources", "NodeDeclaredFeatures", *storage)
    assert all(EXAMPLE.search((PAGES / f"{page}.md").read_text(encoding="utf-8")) for page in pages)
