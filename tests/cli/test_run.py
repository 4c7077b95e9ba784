"""`berth run` as a command: what it prints where, and its exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from berth.cli import run as run_module
from berth.cli.run import run
from berth.kube.errors import KubeError
from berth.kube.leases import LeadershipLostError
from berth.runtime.faults import StartError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth.config.options import RunOptions
    from berth.runtime.logs import LogControl


@pytest.fixture(autouse=True)
def _loggers_as_before() -> Iterator[None]:
    """Running sends all log lines to stderr, for as long as the process lives."""
    import logging  # noqa: PLC0415 - for this alone

    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


class Ran:
    """Stands in for the scheduler, and ends as it is told to."""

    def __init__(self, fault: Exception | None = None, code: int = 0) -> None:
        self.fault, self.code = fault, code
        self.options: list[RunOptions] = []
        self.verbosities: list[int] = []

    async def __call__(self, options: RunOptions, log: LogControl) -> int:
        self.options.append(options)
        self.verbosities.append(log.verbosity)
        if self.fault is not None:
            raise self.fault
        return self.code


@pytest.mark.parametrize("code", [0, 1])
def test_the_scheduler_runs_with_the_flags_and_tells_how_it_ended(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(code=code)
    monkeypatch.setattr(run_module, "run_scheduler", ran)
    assert run(["--leader-elect=false", "-v=3"]) == code
    (options,) = ran.options
    assert not options.leader_elect
    assert ran.verbosities == [3]
    assert capsys.readouterr() == ("", "")


FAULTS: dict[str, tuple[Exception, str]] = {
    "it cannot start": (StartError("API server http://x: no route"), "Error: API server http://x: no route\n"),
    "another replica leads": (
        LeadershipLostError("lease kube-system/kube-scheduler could not be renewed"),
        "Error: lease kube-system/kube-scheduler could not be renewed\n",
    ),
    "it cannot speak to the server": (KubeError("no TLS"), "Error: no TLS\n"),
    "several faults have a line each": (StartError("a: wrong\nb: wrong"), "Error: a: wrong\nb: wrong\n"),
}


@pytest.mark.parametrize(("fault", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_one_clear_text_and_exit_code_one(
    fault: Exception, expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_module, "run_scheduler", Ran(fault))
    assert run([]) == 1
    assert capsys.readouterr() == ("", expected)


def test_a_bug_is_not_dressed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "run_scheduler", Ran(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        run([])


def test_help_goes_to_stdout_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: berth [flags]")
    assert err == ""


def test_an_unknown_flag_goes_to_stderr_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--port=10251"]) == 1
    assert capsys.readouterr() == (
        "",
        "Error: unknown flag: --port\nUsage: berth [flags]\nUse 'berth --help' for the flags.\n",
    )


def test_an_argument_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--v=2", "now"]) == 1
    assert capsys.readouterr().err.startswith('Error: "berth" does not take any arguments, got ["now"]\n')
