"""Log lines: their two formats, their levels, and how repetitions are kept back."""

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from berth.cli.flags import RunOptions
from berth.runtime import logs
from berth.runtime.logs import V2, V3, V10, LogControl, ObjectRef, RepeatedWarnings, configure, fields, level_of

_log = logging.getLogger("berth.tests.logs")


@dataclass
class Written:
    """A configured log, and what was written to it."""

    control: LogControl
    err: io.StringIO
    out: io.StringIO

    def lines(self) -> list[str]:
        return self.err.getvalue().splitlines()

    def objects(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """Give the root logger back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def written(options: RunOptions | None = None) -> Written:
    err, out = io.StringIO(), io.StringIO()
    return Written(configure(options or RunOptions(), out=out, err=err), err, out)


def test_a_plain_message_has_klogs_header() -> None:
    log = written()
    _log.info("synced: %d nodes", 3)
    assert re.fullmatch(r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ test_logs\.py:\d+\] synced: 3 nodes", log.lines()[0])


@pytest.mark.parametrize(
    ("level", "letter"),
    [(logging.INFO, "I"), (logging.WARNING, "W"), (logging.ERROR, "E"), (logging.CRITICAL, "F")],
)
def test_a_line_begins_with_its_severity(level: int, letter: str) -> None:
    log = written()
    _log.log(level, "x")
    assert log.lines()[0].startswith(letter)


TEXT_VALUES = {
    "a text is quoted": ("n1", '"n1"'),
    "quotes inside are escaped": ('say "hi"', '"say \\"hi\\""'),
    "a number is bare": (7, "7"),
    "a truth value is bare": (True, "true"),
    "a pod is named with its namespace": (ObjectRef("a", "ns"), '"ns/a"'),
    "a node has a name only": (ObjectRef.of_key("n1"), '"n1"'),
    "an error is its text": (ValueError("bad"), '"bad"'),
}


@pytest.mark.parametrize("case", TEXT_VALUES)
def test_pairs_follow_a_quoted_message(case: str) -> None:
    value, shown = TEXT_VALUES[case]
    log = written()
    _log.info("Pod bound", extra=fields(key=value))
    assert log.lines()[0].endswith(f'] "Pod bound" key={shown}')


def test_a_value_of_many_lines_is_set_apart() -> None:
    log = written()
    _log.info("Config", extra=fields(config="a: 1\nb: 2"))
    assert log.err.getvalue().endswith('] "Config" config=<\n\ta: 1\n\tb: 2\n >\n')


def test_keys_need_not_be_identifiers() -> None:
    log = written()
    _log.info("Requeued", extra=fields({"unschedulable plugins": "NodeName"}, pod="ns/a"))
    assert log.lines()[0].endswith('"Requeued" unschedulable plugins="NodeName" pod="ns/a"')


def test_a_json_line_has_the_keys_of_the_reference() -> None:
    log = written(RunOptions(logging_format="json", v=2))
    _log.log(V2, "Pod bound", extra=fields(pod=ObjectRef.of_key("ns/a"), node="n1", evaluatedNodes=3))
    [line] = log.objects()
    stamp, caller = line.pop("ts"), line.pop("caller")
    assert isinstance(stamp, float)
    assert re.fullmatch(r"test_logs\.py:\d+", str(caller))
    pod = {"name": "a", "namespace": "ns"}
    assert line == {"msg": "Pod bound", "v": 2, "pod": pod, "node": "n1", "evaluatedNodes": 3}


def test_a_json_error_has_no_verbosity_and_names_the_error() -> None:
    log = written(RunOptions(logging_format="json"))
    try:
        int("bad")
    except ValueError:
        _log.exception("Scheduling failed")
    [line] = log.objects()
    assert "v" not in line
    assert line["err"] == "invalid literal for int() with base 10: 'bad'"
    assert "ValueError: invalid literal" in str(line["stacktrace"])


def test_a_traceback_follows_the_line_in_text() -> None:
    log = written()
    try:
        int("bad")
    except ValueError:
        _log.exception("Scheduling failed")
    assert log.lines()[0].endswith("] Scheduling failed")
    assert log.lines()[-1].startswith("ValueError: invalid literal")


@pytest.mark.parametrize(("verbosity", "shown"), [(0, 0), (1, 0), (2, 1), (3, 2), (9, 2), (10, 3)])
def test_verbosity_says_which_lines_are_written(verbosity: int, shown: int) -> None:
    log = written(RunOptions(v=verbosity))
    for level in (V2, V3, V10):
        _log.log(level, "x")
    assert len(log.lines()) == shown


def test_verbosity_can_be_turned_while_running() -> None:
    log = written()
    assert not _log.isEnabledFor(V2)
    log.control.set_verbosity(2)
    assert log.control.verbosity == 2
    _log.log(V2, "now")
    log.control.set_verbosity(-1)
    _log.log(V2, "not any more")
    assert len(log.lines()) == 1


def test_vmodule_raises_or_lowers_single_files() -> None:
    log = written(RunOptions(v=2, vmodule=(("test_lo*", 5), ("other", 9))))
    _log.log(level_of(5), "mine")
    _log.log(level_of(6), "too fine")
    record = logging.LogRecord("x", level_of(3), "other_file.py", 1, "elsewhere", (), None)
    logging.getLogger().handle(record)
    assert len(log.lines()) == 1


def test_split_streams_send_errors_to_stderr_and_the_rest_to_stdout() -> None:
    log = written(RunOptions(log_text_split_stream=True))
    _log.info("fine")
    _log.error("broken")
    assert [line.rpartition(" ")[2] for line in log.lines()] == ["broken"]
    assert log.out.getvalue().endswith("fine\n")


def test_configuring_again_replaces_what_was_there() -> None:
    first = written()
    second = written()
    _log.info("once")
    assert first.lines() == []
    assert len(second.lines()) == 1


def test_chatter_of_libraries_needs_a_very_high_verbosity() -> None:
    written(RunOptions(v=4))
    assert not logging.getLogger("asyncio").isEnabledFor(logging.INFO)
    assert logging.getLogger("berth.runtime").isEnabledFor(level_of(4))


def test_python_warnings_go_to_the_log() -> None:
    log = written()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
    assert "old" in log.err.getvalue()


class Ticking:
    """A clock that is turned by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_repeated_failures_are_told_once_per_interval_and_with_their_number() -> None:
    log, clock = written(), Ticking()
    repeated = RepeatedWarnings(_log, monotonic=clock, interval_s=60)
    for _ in range(4):
        repeated.failed("watching pods", "connection refused")
        clock.now_s += 10
    clock.now_s = 160
    repeated.failed("watching pods", "connection refused")
    assert [line.partition("] ")[2] for line in log.lines()] == [
        "watching pods: connection refused",
        "watching pods: still failing after 60 s, 4 times since the last line: connection refused",
    ]


def test_recovery_is_told_once_and_only_after_a_failure() -> None:
    log, clock = written(), Ticking()
    repeated = RepeatedWarnings(_log, monotonic=clock)
    repeated.recovered("watching pods")
    repeated.failed("watching pods", "refused")
    repeated.failed("watching nodes", "refused")
    clock.now_s += 5
    repeated.recovered("watching pods")
    repeated.recovered("watching pods")
    assert [line.partition("] ")[2] for line in log.lines()][2:] == ["watching pods: works again after 5 s"]


def test_every_repetition_is_told_at_a_high_verbosity() -> None:
    log = written(RunOptions(v=3))
    repeated = RepeatedWarnings(_log, monotonic=Ticking())
    repeated.failed("watching pods", "refused")
    repeated.failed("watching pods", "refused")
    assert len(log.lines()) == 2


def test_levels_are_twenty_minus_verbosity() -> None:
    assert [logs.V1, logs.V5, logs.V10, level_of(0), level_of(-3)] == [19, 15, logging.DEBUG, logging.INFO, 20]
    assert level_of(1000) == 1, "0 means something else to the logging module"
