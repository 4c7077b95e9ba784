"""The command line of the scheduler, read as the reference's flag library reads it.

``_`` counts as ``-``, a boolean needs no value and takes one only after ``=``, any other flag takes the next word
whatever it looks like, and no name may be shortened. The commands call `parse_flags` first; what the options then do to
the configuration is the business of ``config.options``.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from berth import __version__
from berth.cli.flag_kinds import BOOL
from berth.cli.flag_table import FLAGS, GROUPS, Flag
from berth.config.options import RunOptions
from berth.config.versions import NEWEST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["PROGRAM", "EarlyExit", "RunOptions", "parse_flags"]

PROGRAM = "kube-scheduler"


class EarlyExit(Exception):  # noqa: N818 -- asking for help is no error
    """The command line is answered without running anything: help, the version, or a complaint.

    ``code`` is the exit code, ``stdout`` and ``stderr`` what to print.
    """

    def __init__(self, code: int, *, stdout: str = "", stderr: str = "") -> None:
        """Keep what to print and the exit code."""
        super().__init__(stderr or stdout)
        self.code, self.stdout, self.stderr = code, stdout, stderr


def parse_flags(arguments: Sequence[str], program: str = PROGRAM) -> RunOptions:
    """Read the command line after the program's name.

    Raises:
        EarlyExit: help (0) or the version (0) was asked for, or something is wrong (1, with the usage on stderr).
    """
    try:
        options = _options(arguments, program)
    except ValueError as error:
        usage = f"Usage: {program} [flags]\nUse '{program} --help' for the flags."
        raise EarlyExit(1, stderr=f"Error: {error}\n{usage}\n") from error
    if options.version in ("true", "raw"):
        raise EarlyExit(0, stdout=_version_text(options.version) + "\n")
    return options


def _options(arguments: Sequence[str], program: str) -> RunOptions:
    values: dict[str, Any] = {}
    for flag, text in _mentions(arguments, program):
        kind = flag.kind
        try:
            value = kind.read(text)
        except ValueError as error:
            label = f"-{flag.short}, --{flag.name}" if flag.short else f"--{flag.name}"
            raise ValueError(f'invalid argument "{text}" for "{label}" flag: {error}') from error
        values[flag.name] = kind.fold(values.get(flag.name), value) if kind.fold else value
    if values.pop(_HELP.name, False):
        raise EarlyExit(0, stdout=_help(program).format_help())
    chosen: dict[str, Any] = {
        FLAGS[name].field: MappingProxyType(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    options = RunOptions(**chosen, explicit=frozenset(values))
    return replace(options, shown=MappingProxyType(_shown(options)))


def _shown(options: RunOptions) -> dict[str, str]:
    """Every flag with its value as text, sorted by name."""
    values = {name: getattr(options, FLAGS[name].field) for name in sorted(FLAGS)}
    return {name: "" if value is None else FLAGS[name].kind.show(value) for name, value in values.items()}


def _mentions(arguments: Sequence[str], program: str) -> Iterator[tuple[Flag, str]]:
    """Each flag of the command line with the text of its value, in order.

    Raises:
        ValueError: an unknown flag, a flag without its value, or a word that belongs to no flag.
    """
    words = iter(arguments)
    for word in words:
        if word == "--" or not word.startswith("-") or word == "-":
            strays = [*([] if word == "--" else [word]), *words]
            if any(strays):
                listed = " ".join(f'"{stray}"' for stray in strays)
                raise ValueError(f'"{program}" does not take any arguments, got [{listed}]')
            return
        flag, text, label = _long(word) if word.startswith("--") else _short(word)
        if text is None:
            text = flag.kind.bare
        if text is None:
            text = next(words, None)
        if text is None:
            raise ValueError(f"flag needs an argument: {label}")
        yield flag, text


def _long(word: str) -> tuple[Flag, str | None, str]:
    name, equals, text = word[2:].partition("=")
    if not name or name.startswith("-"):
        raise ValueError(f"bad flag syntax: {word}")
    if (flag := _KNOWN.get(name.replace("_", "-"))) is None:
        raise ValueError(f"unknown flag: --{name}")
    return flag, text if equals else None, f"--{name}"


def _short(word: str) -> tuple[Flag, str | None, str]:
    letter, text = word[1], word[2:]
    flag = _HELP if letter == "h" else next((flag for flag in FLAGS.values() if flag.short == letter), None)
    if flag is None:
        raise ValueError(f"unknown shorthand flag: '{letter}' in {word}")
    if flag is _HELP:
        return flag, None, word
    return flag, text.removeprefix("=") if text else None, f"'{letter}' in {word}"


_EMPTY = frozenset({"", "false", "0", "[]"})  # defaults that need no telling
_HELP = Flag("help", BOOL, "this text", short="h")
_KNOWN = {**FLAGS, _HELP.name: _HELP}


def _help(program: str) -> argparse.ArgumentParser:
    """The flags as argparse presents them; reading them is stricter than argparse can be told to be."""
    parser = argparse.ArgumentParser(prog=program, usage=f"{program} [flags]", allow_abbrev=False, add_help=False)
    defaults = _shown(RunOptions())
    for title, flags in {**GROUPS, "Other": (_HELP,)}.items():
        group = parser.add_argument_group(f"{title} flags")
        for flag in flags:
            value = defaults.get(flag.name, "")
            default = "" if value in _EMPTY else f" (default {value})"
            group.add_argument(
                *([f"-{flag.short}"] if flag.short else []),
                f"--{flag.name}",
                metavar=flag.kind.word,
                nargs=None if flag.kind.bare is None else "?",
                help=(flag.help + default).replace("%", "%%"),
            )
    return parser


def _version_text(version: str) -> str:
    """What ``--version`` prints: the reference's line, so that scripts keep reading it, and who speaks."""
    release = NEWEST.reference
    if version == "true":
        return f"Kubernetes {release} (Berth {__version__})"
    major, minor = NEWEST.minor.split(".")
    return f'version.Info{{Major:"{major}", Minor:"{minor}", GitVersion:"{release}", Berth:"{__version__}"}}'
