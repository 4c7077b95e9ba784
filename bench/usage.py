"""What a process and its descendants have used, read from ``/proc`` (Linux only)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat counted from the one after the command's name: user, system, and those of ended children.
CPU_FIELDS = slice(11, 15)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    cpu_s: float  # user and system
    rss_kib: int  # resident, pages shared between the processes counted once for each


def usage_of(pid: int) -> Usage:
    """The usage of a process together with all its descendants.

    Raises:
        FileNotFoundError, ProcessLookupError: the process has ended.
    """
    folder = Path("/proc", str(pid))
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    cpu_s = sum(int(field) for field in fields[CPU_FIELDS]) / TICKS_PER_S
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
    rss_kib = int(status.get("VmRSS", "0").split()[0])
    for children in folder.glob("task/*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a child or a thread that ended just now
            for child in children.read_text().split():
                of_child = usage_of(int(child))
                cpu_s, rss_kib = cpu_s + of_child.cpu_s, rss_kib + of_child.rss_kib
    return Usage(cpu_s=cpu_s, rss_kib=rss_kib)
