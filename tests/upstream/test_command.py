"""Which specs the command line selects, by their full names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from e2e.upstream.__main__ import parse, selection_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREEMPTION = "[sig-scheduling] SchedulerPreemption [Serial] validates basic preemption works [Conformance]"
GANG = "[sig-scheduling] GangScheduling [Alpha] [Feature:OffByDefault] should schedule pods when quorum is reached"
HOST_PORT = (
    "[sig-scheduling] SchedulerPredicates [Serial] validates that there exists conflict between pods with same "
    "hostPort and protocol but one using 0.0.0.0 hostIP [Conformance]"
)
AFFINITY = "[sig-scheduling] SchedulerPriorities [Serial] Pod should be scheduled to node that don't match"
JOB = "[sig-apps] Job should delete a job [Conformance]"
DAEMONS = "[sig-apps] Daemon set should run and stop simple daemon [Conformance] [Serial]"
ROLLBACK = "[sig-apps] Daemon set should rollback without unnecessary restarts [Conformance] [Serial]"
DEVICES = "[sig-node] [DRA] control plane supports init containers"
CLASSES = (
    "[sig-storage] StorageClasses CSI Conformance should run through the lifecycle of a StorageClass [Conformance]"
)
SPECS = (PREEMPTION, GANG, HOST_PORT, AFFINITY, JOB, DAEMONS, ROLLBACK, DEVICES, CLASSES)

SELECTED: Mapping[str, tuple[Sequence[str], set[str]]] = {
    "all of scheduling that is on by default": ([], {PREEMPTION, HOST_PORT, AFFINITY}),
    "the short conformance specs": (["--quick"], {PREEMPTION}),
    "what passes on hollow nodes beside": (["--wide"], {DAEMONS, DEVICES, CLASSES}),
    "those of another group": (["--focus", r"\[sig-apps\] Job"], {JOB}),
    "all but some": (["--skip", "Priorities|hostPort"], {PREEMPTION, GANG}),
}


@pytest.mark.parametrize(("words", "want"), SELECTED.values(), ids=SELECTED.keys())
def test_the_command_line_selects(words: Sequence[str], want: set[str]) -> None:
    chosen = selection_of(parse(words))
    assert {spec for spec in SPECS if re.search(chosen.focus, spec) and not re.search(chosen.skip, spec)} == want
