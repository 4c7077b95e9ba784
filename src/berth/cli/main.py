"""`berth`: which command was asked for.

Without a command, or with ``run``, the words are the flags of kube-scheduler, so that an operator only has to swap the
image.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (by default those of the process) name; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = words.pop(0) if words and not words[0].startswith("-") else "run"
    # Each command is imported only when it is asked for: the scheduler's memory is not the tools' business.
    if command == "run":
        from berth.cli.run import run

        return run(words)
    if command == "sandbox":
        from berth.cli.sandbox import sandbox

        return sandbox(words)
    if command == "demo":
        from berth.cli.demo import demo

        return demo(words)
    print(f"Error: unknown command {command!r}; there are: run, sandbox, demo", file=sys.stderr)
    return 1
