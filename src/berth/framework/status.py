"""`Code` and `Status`: a plugin's answer, and what happens next because of it.

Expected outcomes are values of `Status`; a plugin that cannot answer raises `PluginError`, which becomes an answer with
code `Code.ERROR`.

Source: k8s staging/src/k8s.io/kube-scheduler/framework/interface.go, ``Code`` and ``Status``.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final


class Code(enum.IntEnum):
    """A plugin's answer; the numbers are those of the reference."""

    SUCCESS = 0
    ERROR = 1  # the attempt breaks off; the pod is tried again after an error backoff
    UNSCHEDULABLE = 2  # evicting pods might help
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3  # evicting pods cannot help
    WAIT = 4  # Permit only: hold the binding back
    SKIP = 5  # the plugin has nothing to say about this pod
    PENDING = 6  # waits for something outside; once woken, no backoff

    @property
    def label(self) -> str:
        """The name as the reference prints it, also in metrics."""
        return _LABELS[self]

    @property
    def rejected(self) -> bool:
        """Whether the code means that the pod cannot be placed as things are."""
        return self in _REJECTED


_LABELS: Final = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}
_REJECTED: Final = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """A code, the reasons for it, and the plugin that gave it.

    Attributes:
        code: the answer.
        reasons: texts for people, in the plugin's order.
        plugin: the name of the plugin that rejected; empty where none did.
    """

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether the answer is success."""
        return self.code is Code.SUCCESS

    @property
    def skipped(self) -> bool:
        """Whether the plugin had nothing to say."""
        return self.code is Code.SKIP

    @property
    def rejected(self) -> bool:
        """Whether the pod cannot be placed as things are."""
        return self.code in _REJECTED

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """The same answer, with the name of the plugin that gave it."""
        return replace(self, plugin=plugin)


SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)


def error(message: str) -> Status:
    """An answer that breaks the attempt off."""
    return Status(Code.ERROR, (message,))


def unschedulable(*reasons: str) -> Status:
    """A rejection that evictions might lift."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that evictions cannot lift."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


class PluginError(Exception):
    """A plugin cannot answer for this pod; the attempt breaks off, other pods are not affected.

    Its text is what the pod's condition will say after the name of the plugin.
    """
