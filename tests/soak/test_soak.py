"""A short soak, and that growth of any kind is noticed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.soak.__main__ import main
from tests.soak.growth import ALLOWED, Sample, faults, growth, look

if TYPE_CHECKING:
    from pathlib import Path

MINUTES = 0.5  # make soak runs longer


@pytest.mark.timeout(180)
def test_half_a_minute_of_churn_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    code = main([f"--minutes={MINUTES}", "--server=embedded"])
    told = capsys.readouterr().out
    assert code == 0, told
    assert told.splitlines()[-1].startswith("soak seed=1: 0.5 min on the embedded server, ")
    assert told.rstrip().endswith(" 0 violations")


def samples(*, memory: float = 0.0, files: float = 0.0, tasks: float = 0.0, log: float = 0.0) -> list[Sample]:
    """A run of ten minutes in which things grow by so much per minute."""
    return [
        Sample(
            at_s=at_s,
            memory_kib=60_000 + int(memory * at_s / 60),
            open_files=30 + int(files * at_s / 60),
            tasks=40 + int(tasks * at_s / 60),
            log_bytes=int(log * at_s / 60),
        )
        for at_s in range(0, 600, 10)
    ]


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (samples(memory=2000), "memory_kib grew by"),
        (samples(files=2), "open_files grew by"),
        (samples(tasks=5), "tasks grew by"),
        (samples(log=100_000), "the log grows by"),
    ],
)
def test_growth_is_noticed(run: list[Sample], what: str) -> None:
    (fault,) = faults(run)
    assert fault.startswith(what)


def test_what_stays_within_noise_is_no_growth() -> None:
    assert faults(samples(memory=500, files=0.5, tasks=1, log=1000)) == []


def test_warming_up_is_no_growth() -> None:
    run = samples()
    cold = [Sample(at_s=0, memory_kib=1, open_files=1, tasks=1, log_bytes=0)] * (len(run) // 4)
    assert faults([*cold, *run[len(cold) :]]) == []


def test_too_few_samples_say_nothing() -> None:
    with pytest.raises(ValueError, match="growth takes at least 4 samples, got 3"):
        growth(samples()[:3], "tasks")


def test_a_process_is_looked_at(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("four", encoding="utf-8")
    sample = look(os.getpid(), at_s=1.0, tasks=7, log=log)
    assert sample.memory_kib > 1000
    assert sample.open_files > 2
    assert (sample.tasks, sample.log_bytes) == (7, 4)
    assert set(ALLOWED) < set(Sample.__slots__)
