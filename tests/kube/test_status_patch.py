"""What a status change sends, as tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.api.meta import Condition
from berth.kube.status_patch import KnownStatus, StatusChange, apply_change, patch_body

NOW = "2026-01-02T03:04:05Z"
THEN = "2026-01-01T00:00:00Z"


def scheduled(**changes: Any) -> Condition:
    fields = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1"} | changes
    return Condition(**fields)


def known(*conditions: Condition, node: str = "") -> KnownStatus:
    return KnownStatus(conditions=conditions, nominated_node_name=node)


def change(*conditions: Condition, node: str | None = None) -> StatusChange:
    return StatusChange(conditions=conditions, nominated_node_name=node)


READY = Condition(type="Ready", status="False", last_transition_time=THEN)
OLD = scheduled(last_transition_time=THEN)
FULL = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1",
    "lastTransitionTime": NOW,
}
ORDER = "$setElementOrder/conditions"

CASES: dict[str, tuple[KnownStatus, StatusChange, dict[str, Any] | None]] = {
    "a first condition is sent in full": (known(), change(scheduled()), {"conditions": [FULL]}),
    "beside another condition the order of both is told": (
        known(READY),
        change(scheduled()),
        {"conditions": [FULL], ORDER: [{"type": "Ready"}, {"type": "PodScheduled"}]},
    ),
    "another status starts a new transition": (
        known(scheduled(status="True", reason="", message="")),
        change(scheduled()),
        {"conditions": [FULL], ORDER: [{"type": "PodScheduled"}]},
    ),
    "the same status keeps its transition time": (
        known(OLD),
        change(scheduled(message="0/2")),
        {"conditions": [{"type": "PodScheduled", "message": "0/2"}], ORDER: [{"type": "PodScheduled"}]},
    ),
    "a message that is gone is removed": (
        known(OLD),
        change(scheduled(message="")),
        {"conditions": [{"type": "PodScheduled", "message": None}], ORDER: [{"type": "PodScheduled"}]},
    ),
    "an identical condition is not sent": (known(OLD), change(scheduled()), None),
    "another generation alone is not sent": (known(OLD), change(scheduled(observed_generation=3)), None),
    "another generation goes along with something else": (
        known(OLD),
        change(scheduled(observed_generation=3, message="0/2")),
        {
            "conditions": [{"type": "PodScheduled", "message": "0/2", "observedGeneration": 3}],
            ORDER: [{"type": "PodScheduled"}],
        },
    ),
    "an identical condition with another nomination sends the nomination": (
        known(OLD),
        change(scheduled(), node="node1"),
        {"nominatedNodeName": "node1"},
    ),
    "a nomination is cleared with null": (known(node="node1"), change(node=""), {"nominatedNodeName": None}),
    "a nomination that nobody mentions stays out": (
        known(node="node1"),
        change(scheduled()),
        {"conditions": [FULL]},
    ),
    "the same nomination is not sent": (known(node="node1"), change(node="node1"), None),
    "clearing no nomination is not sent": (known(), change(node=""), None),
    "nothing is not sent": (known(OLD, READY), change(), None),
}


@pytest.mark.parametrize(("before", "wish", "want"), CASES.values(), ids=CASES.keys())
def test_what_a_change_sends(before: KnownStatus, wish: StatusChange, want: dict[str, Any] | None) -> None:
    after = apply_change(before, wish, NOW)
    sent = None if after is None else json.loads(patch_body(before, after))
    assert sent == (None if want is None else {"status": want})


def test_applying_a_change_twice_changes_nothing_more() -> None:
    once = apply_change(known(READY), change(scheduled(), node="n"), NOW)
    assert once is not None
    assert apply_change(once, change(scheduled(), node="n"), THEN) is None


DISRUPTED = Condition(type="DisruptionTarget", status="True")
MERGES: dict[str, tuple[StatusChange, StatusChange, StatusChange]] = {
    "the newest condition wins": (change(scheduled(message="old")), change(scheduled()), change(scheduled())),
    "a condition of another type stays": (change(DISRUPTED), change(scheduled()), change(DISRUPTED, scheduled())),
    "an earlier condition stays when there is no newer one": (
        change(scheduled()),
        change(node="n"),
        change(scheduled(), node="n"),
    ),
    "an earlier nomination stays when nobody mentions it": (
        change(node="n"),
        change(scheduled()),
        change(scheduled(), node="n"),
    ),
    "a nomination that is cleared stays cleared": (change(node="n"), change(node=""), change(node="")),
}


@pytest.mark.parametrize(("earlier", "later", "want"), MERGES.values(), ids=MERGES.keys())
def test_how_changes_merge(earlier: StatusChange, later: StatusChange, want: StatusChange) -> None:
    assert later.over(earlier) == want
