"""`berth`: which command was asked for.

Without a command, or with ``run``, the words are the flags of kube-scheduler, so that an operator only has to swap the
image.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

# Each is a module of this folder with a function of its name, imported only when it is asked for: what the tools need
# is no business of the scheduler's memory.
_COMMANDS: Final = ("run", "sandbox", "demo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default those of the process) name; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words.pop(0) if words and not words[0].startswith("-") else "run"
    if command not in _COMMANDS:
        print(f"Error: unknown command {command!r}; there are: {', '.join(_COMMANDS)}", file=sys.stderr)
        return 1
    entry: Callable[[Sequence[str]], int] = getattr(import_module(f"berth.cli.{command}"), command)
    return entry(words)
