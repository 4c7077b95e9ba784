"""The command: run vectors with the core and report what is equal to the reference.

    python -m tests.conformance tests/conformance/vectors --groups resources,taints --by-plugin

Exit code 0 if all that was compared is equal, 1 if anything differs, 2 if the vectors cannot be read.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.conformance.records import VectorError
from tests.conformance.runner import ALL_PARTS, Selection, run

EQUAL: Final = 0
DIFFERENT: Final = 1
UNREADABLE: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with *arguments*, or those of the process, and return its exit code."""
    options = _parser().parse_args(arguments)
    selection = Selection(groups=frozenset(options.groups), parts=tuple(options.parts))
    try:
        report = run(options.paths, selection, options.show)
    except VectorError as error:
        print(f"error: {error}", file=sys.stderr)
        return UNREADABLE
    if options.json:
        print(report.json(by_plugin=options.by_plugin))
    else:
        print("\n".join(report.lines(by_plugin=options.by_plugin)))
    return DIFFERENT if report.differs else EQUAL


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description="Compare the core's decisions with recorded ones."
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="vector files, or folders of them")
    parser.add_argument("--groups", type=_names, default=(), metavar="A,B", help="only vectors of these groups")
    parser.add_argument("--parts", type=_parts, default=ALL_PARTS, metavar="A,B", help=f"only {', '.join(ALL_PARTS)}")
    parser.add_argument("--by-plugin", action="store_true", help="count scores and hints by plugin as well")
    parser.add_argument("--show", type=int, default=3, metavar="N", help="how many differences of each line to tell")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parts(text: str) -> tuple[str, ...]:
    names = _names(text)
    unknown = [name for name in names if name not in ALL_PARTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"unknown part {', '.join(unknown)!r}; the parts are {', '.join(ALL_PARTS)}")
    return tuple(part for part in ALL_PARTS if part in names)


if __name__ == "__main__":
    sys.exit(main())
