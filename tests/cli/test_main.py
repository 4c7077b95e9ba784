"""Which command the words of a command line ask for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType

import pytest

from berth.cli import main as main_module
from berth.cli.main import main

# a command line; the command that runs, and the words that it gets
LINES: dict[str, tuple[list[str], str, list[str]]] = {
    "nothing runs the scheduler": ([], "run", []),
    "flags alone are the scheduler's": (
        ["--leader-elect=false", "-v", "2"],
        "run",
        ["--leader-elect=false", "-v", "2"],
    ),
    "the scheduler may be named": (["run", "--config=a"], "run", ["--config=a"]),
    "the sandbox": (["sandbox", "--nodes", "3"], "sandbox", ["--nodes", "3"]),
    "the demo": (["demo"], "demo", []),
    "a command is looked for in the first word only": (["--config", "demo"], "run", ["--config", "demo"]),
}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """The commands that were run, with their words."""
    commands: list[tuple[str, list[str]]] = []

    def stand_in(path: str) -> ModuleType:
        package, _, name = path.rpartition(".")
        assert package == "berth.cli"

        def command(words: Sequence[str]) -> int:
            commands.append((name, list(words)))
            return 7

        module = ModuleType(path)
        setattr(module, name, command)
        return module

    monkeypatch.setattr(main_module, "import_module", stand_in)
    return commands


@pytest.mark.parametrize(("line", "command", "words"), LINES.values(), ids=LINES)
def test_the_first_word_is_the_command(
    ran: list[tuple[str, list[str]]], line: list[str], command: str, words: list[str]
) -> None:
    assert main(line) == 7
    assert ran == [(command, words)]


def test_without_words_those_of_the_process_count(
    ran: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["berth", "demo", "--keep"])
    assert main() == 7
    assert ran == [("demo", ["--keep"])]


@pytest.mark.parametrize("word", ["schedule", "", "Run"])
def test_an_unknown_command_is_refused(
    word: str, ran: list[tuple[str, list[str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 1
    assert ran == []
    assert capsys.readouterr() == ("", f"Error: unknown command {word!r}; there are: run, sandbox, demo\n")


@pytest.mark.parametrize("name", ["run", "sandbox", "demo"])
def test_each_command_tells_how_it_is_used(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([name, "--help"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 0
    assert "usage: berth" in capsys.readouterr().out


def test_the_package_runs_as_the_command_does() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "berth", "--version"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Kubernetes v1.37.")
