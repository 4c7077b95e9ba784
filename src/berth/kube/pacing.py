"""How fast we may write: the token bucket of `clientConnection.qps` and `burst`."""

from __future__ import annotations

from berth.kube.clock import SYSTEM_CLOCK, Clock

_DEFAULT_QPS = 5.0  # what the reference's client takes for an unset rate
_DEFAULT_BURST = 10


class TokenBucket:
    """Lets *burst* calls through at once and *qps* per second in the long run, first come, first served.

    A negative *qps* sets no limit; zeros mean the client's defaults of 5 and 10.

    Source: k8s client-go rest/config.go, RESTClientForConfigAndClient; util/flowcontrol/throttle.go.
    """

    def __init__(self, qps: float, burst: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._qps = qps or _DEFAULT_QPS
        self._burst = float(burst or _DEFAULT_BURST)
        self._tokens = self._burst  # below zero: that many callers are waiting for their turn
        self._filled_at_s = clock.monotonic()

    async def acquire(self) -> None:
        """Take a token, waiting for it where need be. A caller that is cancelled while waiting gives it back."""
        if self._qps < 0:
            return
        now_s = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_at_s) * self._qps)
        self._filled_at_s = now_s
        self._tokens -= 1.0
        if self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self._qps)
        except BaseException:
            self._tokens += 1.0
            raise
