"""Log lines in the reference's two formats, and its verbosity, on top of `logging`.

Everything of ours logs through the standard library. This module says how lines look (klog's header and
``key="value"`` pairs, or one JSON object per line), where they go, and how ``-v`` maps to levels: verbosity *n* is the
level ``20 - n``, so that INFO is 0 and DEBUG is 10. A record carries its pairs under ``fields``; they are put into
words only when the line is written.

Source: k8s component-base logs/; klog.
"""

from __future__ import annotations

import fnmatch
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TextIO

V1, V2, V3, V4, V5, V6, V7, V8, V9, V10 = range(logging.INFO - 1, logging.INFO - 11, -1)
"""Levels of verbosity 1 to 10."""

_MAX_VERBOSITY: Final = logging.INFO - 1  # level 1; level 0 means something else to `logging`
_SEVERITIES: Final = ((logging.CRITICAL, "F"), (logging.ERROR, "E"), (logging.WARNING, "W"))
_FOREIGN: Final = ("asyncio", "aiohttp")  # what these say below a warning is of use to nobody who runs a scheduler
_FOREIGN_FROM: Final = 9  # unless that much is asked for


class LogOptions(Protocol):
    """The flags that concern the log; `RunOptions` has them."""

    @property
    def logging_format(self) -> str:
        """``text`` or ``json``."""

    @property
    def v(self) -> int:
        """Verbosity."""

    @property
    def vmodule(self) -> tuple[tuple[str, int], ...]:
        """Verbosity of files whose names without ending match a pattern."""

    @property
    def log_text_split_stream(self) -> bool:
        """Whether text below the level of an error goes to stdout."""

    @property
    def log_json_split_stream(self) -> bool:
        """The same for JSON."""


def level_of(verbosity: int) -> int:
    """The level of a verbosity; a negative one counts as 0."""
    return logging.INFO - max(0, min(verbosity, _MAX_VERBOSITY))


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object of the API as a value of `fields`: ``namespace/name`` in text, an object of the two in JSON."""

    name: str
    namespace: str = ""

    @classmethod
    def of_key(cls, key: str) -> ObjectRef:
        """The reference for ``namespace/name``, or for a bare name."""
        namespace, _, name = key.rpartition("/")
        return cls(name, namespace)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def fields(values: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, Any]:
    """What to pass as ``extra`` so that a line carries these pairs; the key ``err`` is an error's place."""
    return {"fields": {**values, **more} if values else more}


class LogControl:
    """Turns the verbosity of the running process."""

    def __init__(self, verbosity: int, vmodule: tuple[tuple[str, int], ...] = ()) -> None:
        self._verbosity = max(0, verbosity)
        self._vmodule = vmodule
        self._apply()

    @property
    def verbosity(self) -> int:
        """The verbosity in use."""
        return self._verbosity

    def set_verbosity(self, verbosity: int) -> None:
        """Use *verbosity* from now on; what ``--vmodule`` says about single files stands."""
        self._verbosity = max(0, verbosity)
        self._apply()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record's own file is to be this verbose; asked only where ``--vmodule`` is given."""
        for pattern, verbosity in self._vmodule:
            if fnmatch.fnmatchcase(record.module, pattern):
                return record.levelno >= level_of(verbosity)
        return record.levelno >= level_of(self._verbosity)

    def _apply(self) -> None:
        most = max(self._verbosity, *(verbosity for _, verbosity in self._vmodule), 0)
        logging.getLogger().setLevel(level_of(most))
        for name in _FOREIGN:
            logging.getLogger(name).setLevel(logging.DEBUG if most >= _FOREIGN_FROM else logging.WARNING)


def configure(options: LogOptions, *, out: TextIO | None = None, err: TextIO | None = None) -> LogControl:
    """Send all log lines where *options* say, in the format they say; what was set up before is replaced.

    Args:
        options: the flags.
        out: instead of stdout.
        err: instead of stderr.
    """
    as_json = options.logging_format == "json"
    split = options.log_json_split_stream if as_json else options.log_text_split_stream
    control = LogControl(options.v, options.vmodule)
    formatter = JsonFormatter() if as_json else TextFormatter()
    handlers = [logging.StreamHandler(err or sys.stderr)]
    if split:
        handlers[0].setLevel(logging.ERROR)
        quiet = logging.StreamHandler(out or sys.stdout)
        quiet.addFilter(lambda record: record.levelno < logging.ERROR)
        handlers.append(quiet)
    for handler in handlers:
        handler.setFormatter(formatter)
        if options.vmodule:
            handler.addFilter(control.filter)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    for handler in handlers:
        root.addHandler(handler)
    logging.captureWarnings(capture=True)
    return control


class TextFormatter(logging.Formatter):
    """klog's line: severity, date, time, process, file and line, then the message and its pairs."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; more where a value or a traceback has more."""
        moment = time.localtime(record.created)
        micros = int(record.created % 1 * 1e6)
        head = (
            f"{_severity(record.levelno)}{moment.tm_mon:02d}{moment.tm_mday:02d} "
            f"{moment.tm_hour:02d}:{moment.tm_min:02d}:{moment.tm_sec:02d}.{micros:06d} "
            f"{os.getpid():>7} {record.filename}:{record.lineno}] "
        )
        pairs: Mapping[str, Any] | None = getattr(record, "fields", None)
        message = record.getMessage()
        text = head + (message if pairs is None else _quoted(message))
        if pairs:
            text += "".join(f" {key}{_text_value(value)}" for key, value in pairs.items())
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JsonFormatter(logging.Formatter):
    """One object per line: ``ts``, ``caller``, ``msg``, ``v`` of what is no error, ``err``, then the pairs."""

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 4),
            "caller": f"{record.filename}:{record.lineno}",
            "msg": record.getMessage(),
        }
        if record.levelno < logging.ERROR:
            line["v"] = max(0, logging.INFO - record.levelno)
        pairs: Mapping[str, Any] = getattr(record, "fields", None) or {}
        line.update((key, _json_value(value)) for key, value in pairs.items())
        if record.exc_info:
            line["stacktrace"] = self.formatException(record.exc_info)
            line.setdefault("err", str(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=False)


def _severity(level: int) -> str:
    return next((letter for least, letter in _SEVERITIES if level >= least), "I")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text_value(value: Any) -> str:
    """The value behind its equals sign."""
    if isinstance(value, bool):
        return "=true" if value else "=false"
    if isinstance(value, int | float):
        return f"={value}"
    text = str(value)
    if "\n" not in text:
        return f"={_quoted(text)}"
    return "=<\n\t" + text.replace("\n", "\n\t") + "\n >"


def _json_value(value: Any) -> Any:
    """The value as it is where JSON has it; an object's name as an object, as the reference writes it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, ObjectRef):
        return {"name": value.name, **({"namespace": value.namespace} if value.namespace else {})}
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(each) for each in value]
    return str(value)


@dataclass(slots=True)
class _Trouble:
    since_s: float
    told_s: float
    untold: int = 0


class RepeatedWarnings:
    """Tells of something that fails again and again: at once, then now and then, and when it works again.

    Args:
        logger: where to.
        monotonic: seconds that never go backwards.
        interval_s: how long repetitions are kept back.
    """

    def __init__(
        self, logger: logging.Logger, *, monotonic: Callable[[], float] = time.monotonic, interval_s: float = 60.0
    ) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._interval_s = interval_s
        self._troubles: dict[str, _Trouble] = {}

    def failed(self, what: str, error: object) -> None:
        """*what* failed; at verbosity 3 every time is told."""
        now_s = self._monotonic()
        trouble = self._troubles.get(what)
        if trouble is None:
            self._troubles[what] = _Trouble(now_s, now_s)
            self._logger.warning("%s: %s", what, error)
        elif now_s - trouble.told_s < self._interval_s:
            trouble.untold += 1
            self._logger.log(V3, "%s: %s", what, error)
        else:
            times = trouble.untold + 1
            trouble.told_s, trouble.untold = now_s, 0
            self._logger.warning(
                "%s: still failing after %d s, %d times since the last line: %s",
                what,
                now_s - trouble.since_s,
                times,
                error,
            )

    def recovered(self, what: str) -> None:
        """*what* works; told if it did not before."""
        trouble = self._troubles.pop(what, None)
        if trouble is not None:
            self._logger.info("%s: works again after %d s", what, self._monotonic() - trouble.since_s)
