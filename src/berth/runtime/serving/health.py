"""The health endpoints: named checks, their pages, and the metrics about them.

A check is a function that says what is wrong, or None. ``/healthz``, ``/livez`` and ``/readyz`` each have an ordered
set of them; the pages follow the reference's form to the letter, because probes and people read them.

Source: k8s apiserver pkg/server/healthz/healthz.go; component-base metrics/prometheus/slis.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from berth.runtime.logs import V2
from berth.runtime.metrics.instruments import Stability

if TYPE_CHECKING:
    from berth.runtime.metrics.instruments import Registry

_log = logging.getLogger(__name__)

Check: TypeAlias = Callable[[], str | None]
"""What is wrong, or None; asked at each probe, so it must be quick."""

HEALTHZ: Final = "healthz"
LIVEZ: Final = "livez"
READYZ: Final = "readyz"

OK: Final = 200
FAILED: Final = 500


def ping() -> None:
    """The check that always passes: whoever answers is alive."""


def passing(is_fine: Callable[[], bool], complaint: str) -> Check:
    """A check that says *complaint* whenever *is_fine* says no."""
    return lambda: None if is_fine() else complaint


@dataclass(frozen=True, slots=True)
class Answer:
    """A page of plain text."""

    status: int
    text: str


class HealthMetrics:
    """The ``kubernetes_healthcheck*`` families, of which the reference has a page of their own."""

    def __init__(self, registry: Registry) -> None:
        self._last = registry.gauge(
            "kubernetes_healthcheck", "The last result of a check: 1 if it passed.", ("name", "type"), Stability.STABLE
        )
        self._all = registry.counter(
            "kubernetes_healthchecks_total",
            "Results of checks.",
            ("name", "type", "status"),
            Stability.STABLE,
        )

    def checked(self, name: str, endpoint: str, passed: bool) -> None:
        """A check of an endpoint was made."""
        self._last[name, endpoint].set(int(passed))
        self._all[name, endpoint, "success" if passed else "error"].inc()


class HealthEndpoint:
    """One endpoint and its checks, in order.

    Args:
        name: ``healthz``, ``livez`` or ``readyz``.
        checks: by name.
        metrics: hear of each check that is made.
    """

    def __init__(self, name: str, checks: Mapping[str, Check], metrics: HealthMetrics | None = None) -> None:
        self.name = name
        self._checks = dict(checks)
        self._metrics = metrics

    @property
    def check_names(self) -> tuple[str, ...]:
        """The names of the checks."""
        return tuple(self._checks)

    def answer(self, *, verbose: bool = False, exclude: frozenset[str] = frozenset()) -> Answer:
        """Make all checks but the excluded ones; the page is ``ok``, or a line for each if *verbose* or one fails."""
        lines: list[str] = []
        failed: list[str] = []
        for name in self._checks:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok")
                continue
            fault = self._make(name)
            if fault is None:
                lines.append(f"[+]{name} ok")
            else:
                lines.append(f"[-]{name} failed: reason withheld")
                failed.append(f"{name}: {fault}")
        if strays := sorted(exclude - self._checks.keys()):
            named = ", ".join(f'"{stray}"' for stray in strays)
            lines.append(f"warn: there are no checks of these names to exclude: {named}")
        if failed:
            _log.log(V2, "%s check failed: %s", self.name, "; ".join(failed))
            return Answer(FAILED, "\n".join([*lines, f"{self.name} check failed", ""]))
        return Answer(OK, "\n".join([*lines, f"{self.name} check passed", ""]) if verbose else "ok")

    def answer_one(self, name: str) -> Answer:
        """Make one check; the page says what is wrong."""
        fault = self._make(name)
        return Answer(OK, "ok") if fault is None else Answer(FAILED, f"internal server error: {fault}\n")

    def _make(self, name: str) -> str | None:
        fault = self._checks[name]()
        if self._metrics is not None:
            self._metrics.checked(name, self.name, fault is None)
        return fault


def scheduler_endpoints(
    *,
    synced: Callable[[], bool],
    stopping: Callable[[], bool],
    election: Check | None,
    metrics: HealthMetrics | None = None,
) -> tuple[HealthEndpoint, ...]:
    """The endpoints of the scheduler.

    Args:
        synced: whether what the informers read at first has been taken in.
        stopping: whether the process has been told to end.
        election: whether the election goes well; None where there is none.
        metrics: hear of each check that is made.

    Source: k8s cmd/kube-scheduler/app/server.go, ``Run``.
    """
    led: dict[str, Check] = {} if election is None else {"leaderElection": election}
    ready: dict[str, Check] = {
        **led,
        "shutdown": passing(lambda: not stopping(), "process is shutting down"),
        "sched-handler-sync": passing(synced, "waiting for handlers to sync"),
    }
    return (
        HealthEndpoint(HEALTHZ, led or {"ping": ping}, metrics),
        HealthEndpoint(LIVEZ, {"ping": ping}, metrics),
        HealthEndpoint(READYZ, ready, metrics),
    )
