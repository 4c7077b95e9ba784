"""What is measured of our requests to the API server, and whether this replica leads.

Source: k8s component-base metrics/prometheus/restclient/metrics.go and metrics/prometheus/clientgo/leaderelection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from berth.runtime.metrics import buckets

if TYPE_CHECKING:
    from berth.runtime.metrics.instruments import Registry

NO_ANSWER: Final = "<error>"
"""Value of ``code`` for a request that got no answer."""

_LEASE: Final = "kube-scheduler"  # also where the lease has another name, as in the reference


class ClientMetrics:
    """Requests and leadership."""

    def __init__(self, registry: Registry) -> None:
        self._requests = registry.counter(
            "rest_client_requests_total",
            "Requests sent to the API server, by the status of the answer.",
            ("code", "method", "host"),
        )
        self._duration = registry.histogram(
            "rest_client_request_duration_seconds",
            "Time in seconds from sending a request to the end of its answer; of a watch, to its beginning.",
            buckets.CLIENT,
            ("verb", "host"),
        )
        self._leading = registry.gauge(
            "leader_election_master_status", "1 on the replica that leads, 0 on one that waits.", ("name",)
        )
        self._slow_renewals = registry.counter(
            "leader_election_slowpath_total", "Renewals of the lease that had to read it first.", ("name",)
        )

    def request_finished(self, method: str, host: str, code: int | None, seconds: float) -> None:
        """A request to *host* (``name:port``) was answered with *code*, or with None was not answered."""
        self._requests[NO_ANSWER if code is None else str(code), method, host].inc()
        self._duration[method, host].observe(seconds)

    def leading(self, yes: bool) -> None:
        """Whether this replica leads; to be said once at the start, unless there is no election."""
        self._leading[_LEASE,].set(int(yes))

    def renewed_slowly(self) -> None:
        """A renewal had to read the lease first."""
        self._slow_renewals[_LEASE,].inc()
