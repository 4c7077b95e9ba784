"""What is measured of who asks us, and of what we ask the API server about them.

Source: k8s apiserver pkg/endpoints/filters/metrics.go; pkg/authentication/authenticatorfactory/metrics.go and
pkg/authorization/authorizerfactory/metrics.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.runtime.metrics import buckets

if TYPE_CHECKING:
    from berth.runtime.metrics.instruments import Registry


class AccessMetrics:
    """Authentication, authorization, and the reviews behind them."""

    def __init__(self, registry: Registry) -> None:
        self._authentications = registry.counter(
            "authentication_attempts", "Requests by whether their sender could be told.", ("result",)
        )
        self._authentication_duration = registry.histogram(
            "authentication_duration_seconds",
            "Time in seconds to tell who sent a request.",
            buckets.ATTEMPT,
            ("result",),
        )
        self._authorizations = registry.counter(
            "authorization_attempts_total", "Requests by whether they were allowed.", ("result",)
        )
        self._authorization_duration = registry.histogram(
            "authorization_duration_seconds",
            "Time in seconds to tell whether a request is allowed.",
            buckets.ATTEMPT,
            ("result",),
        )
        self._reviews = {
            name: (
                registry.counter(
                    f"apiserver_delegated_{name}_request_total", "Reviews asked of the API server.", ("code",)
                ),
                registry.histogram(
                    f"apiserver_delegated_{name}_request_duration_seconds",
                    "Time in seconds of a review by the API server.",
                    buckets.DELEGATED,
                    ("code",),
                ),
            )
            for name in ("authn", "authz")
        }

    def authenticated(self, result: str, seconds: float) -> None:
        """The sender of a request is known (``success``), refused (``failure``), or could not be told (``error``)."""
        self._authentications[result,].inc()
        self._authentication_duration[result,].observe(seconds)

    def authorized(self, result: str, seconds: float) -> None:
        """A request is ``allowed``, ``denied``, met with ``no-opinion``, or could not be judged (``error``)."""
        self._authorizations[result,].inc()
        self._authorization_duration[result,].observe(seconds)

    def reviewed(self, name: str, code: str, seconds: float) -> None:
        """A review for ``authn`` or ``authz`` was answered with *code*, or ``<error>``."""
        total, duration = self._reviews[name]
        total[code,].inc()
        duration[code,].observe(seconds)
