"""Leader election on a Lease: one of several instances leads, and stops before another can start.

`LeaderElector.run` acquires the lease, runs the work it was given, renews while the work runs, and on the way out, for
whatever reason, first cancels the work and only then gives the lease up. Clocks of different hosts are never compared:
a lease counts as held until it has stayed unchanged, by our own clock, for as long as it claims to last.

Source: k8s client-go tools/leaderelection, leaderelection.go and resourcelock/leaselock.go.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Clock, micro_time
from berth.kube.errors import KubeError, NotFoundError, TransportError
from berth.kube.session import Api

_log = logging.getLogger(__name__)

_JITTER_FACTOR = 1.2
_RELEASED_DURATION_S = 1


class LeadershipLostError(KubeError):
    """The lease could not be renewed in time; the work has been cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionConfig:
    """Which lease, and how fast.

    Attributes:
        namespace: of the Lease.
        name: of the Lease.
        lease_duration_s: how long others wait for a leader that has fallen silent.
        renew_deadline_s: how long a leader tries to renew before it gives up.
        retry_period_s: the pause between two tries.
    """

    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0

    def __post_init__(self) -> None:
        """Check the rules between the durations.

        Raises:
            ValueError: names the rule and the values.
        """
        if min(self.lease_duration_s, self.renew_deadline_s, self.retry_period_s) <= 0:
            raise ValueError("leaseDuration, renewDeadline and retryPeriod must be greater than zero")
        if self.lease_duration_s <= self.renew_deadline_s:
            raise ValueError(
                f"leaseDuration ({self.lease_duration_s} s) must be greater than "
                f"renewDeadline ({self.renew_deadline_s} s)"
            )
        if self.renew_deadline_s <= self.retry_period_s * _JITTER_FACTOR:
            raise ValueError(
                f"renewDeadline ({self.renew_deadline_s} s) must be greater than "
                f"retryPeriod * {_JITTER_FACTOR} ({self.retry_period_s * _JITTER_FACTOR} s)"
            )

    @property
    def request_timeout_s(self) -> float:
        """For each single request, so that one that hangs leaves time for another."""
        return max(1.0, self.renew_deadline_s / 2)


class LeaseSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The part of a Lease that election is about."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A Lease; its metadata is kept as it came, so that labels and annotations survive our updates."""

    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Lease).decode


def new_identity() -> str:
    """Who we are in an election: `<hostname>_<uuid>`, another one for every process start."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Takes part in one election.

    Attributes:
        identity: ours.
        slow_renewals: how many renewals needed a read first.
    """

    def __init__(
        self,
        session: Api,
        config: ElectionConfig,
        identity: str,
        *,
        on_started_leading: Callable[[], Awaitable[None]],
        on_stopped_leading: Callable[[], None],
        on_new_leader: Callable[[str], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Make an elector; nothing happens until `run`.

        Args:
            session: where the Lease is; best one of its own, so that no burst of writes stands before a renewal.
            config: which lease, and how fast.
            identity: ours; unique.
            on_started_leading: the work. It is cancelled when leading ends.
            on_stopped_leading: called when the work has ended, before the lease is released, in every case.
            on_new_leader: called with the identity of each new leader, ours included.
            clock: for pauses, jitter, expiry and time stamps.

        Raises:
            ValueError: the identity is empty.
        """
        if not identity:
            raise ValueError("the identity of an elector must not be empty")
        self.identity = identity
        self.slow_renewals = 0
        self._session = session
        self._config = config
        self._on_started_leading = on_started_leading
        self._on_stopped_leading = on_stopped_leading
        self._on_new_leader = on_new_leader
        self._clock = clock
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{config.namespace}/leases"
        self._observed: _Lease | None = None
        self._observed_at_s = 0.0  # when the observed record was first seen, by our clock
        self._valid_until_s = 0.0
        self._reported_leader = ""

    @property
    def leader(self) -> str:
        """Who leads, as far as we have seen; empty when nobody does."""
        return self._observed.spec.holder_identity or "" if self._observed is not None else ""

    @property
    def is_leader(self) -> bool:
        """Whether the lease is ours, as far as we have seen."""
        return self.leader == self.identity

    @property
    def may_still_lead(self) -> bool:
        """Whether nobody else can have taken the lease yet.

        False also in a process that was stopped for so long that its lease ran out before it could notice: check it
        before a step that only a leader may take.
        """
        return self.is_leader and self._clock.monotonic() < self._valid_until_s

    async def run(self) -> None:
        """Wait for the lease, lead until the work ends, the lease is lost, or this task is cancelled.

        Raises:
            LeadershipLostError: the lease could not be renewed; the work was cancelled and has ended.
            Exception: whatever the work raised.
        """
        try:
            await self._acquire()
            await self._lead()
        finally:
            self._on_stopped_leading()
            if self.is_leader:
                await self._release()

    async def _acquire(self) -> None:
        while not await self._attempt():
            pause_s = self._config.retry_period_s * (1.0 + _JITTER_FACTOR * self._clock.chance())
            await self._clock.sleep(pause_s)
        _log.info("became leader: %s", self.identity)

    async def _lead(self) -> None:
        """Work and renew side by side, until one of the two ends; then the work is over before this returns."""
        work = asyncio.ensure_future(self._on_started_leading())
        renewal = asyncio.create_task(self._renew())
        try:
            await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(work, renewal)
        if not renewal.cancelled():
            renewal.result()
        if not work.cancelled():
            work.result()

    async def _renew(self) -> None:
        """Renew until a whole round fails.

        Raises:
            LeadershipLostError: it did.
        """
        while True:
            await self._clock.sleep(self._config.retry_period_s)
            try:
                async with asyncio.timeout(self._config.renew_deadline_s):
                    while not await self._attempt():
                        await self._clock.sleep(self._config.retry_period_s)
            except TimeoutError as error:
                raise LeadershipLostError(
                    f"lease {self._config.namespace}/{self._config.name} could not be renewed "
                    f"within {self._config.renew_deadline_s} s"
                ) from error

    # -- one attempt --------------------------------------------------------------------------------------------

    async def _attempt(self) -> bool:
        """Try once to acquire or renew; whether we lead now."""
        try:
            leads = await self._acquire_or_renew()
        except KubeError as error:
            _log.warning("lease %s/%s: %s", self._config.namespace, self._config.name, error)
            leads = False
        if self.leader and self.leader != self._reported_leader:
            self._reported_leader = self.leader
            if self._on_new_leader is not None:
                self._on_new_leader(self.leader)
        return leads

    async def _acquire_or_renew(self) -> bool:
        if self.is_leader and self.may_still_lead and await self._renew_unread():
            return True
        try:
            lease = await self._read()
        except NotFoundError:
            await self._create()
            return True
        if self._observed is None or lease.spec != self._observed.spec:
            self._observe(lease)
        elif lease.metadata != self._observed.metadata:
            self._observed = lease  # somebody changed a label: another version, but no sign of life of the holder
        spec = lease.spec
        expires_at_s = self._observed_at_s + (spec.lease_duration_seconds or 0)
        if spec.holder_identity and spec.holder_identity != self.identity and self._clock.monotonic() < expires_at_s:
            return False
        if spec.holder_identity == self.identity:
            self.slow_renewals += 1
            await self._write(lease, self._renewed(spec))
        else:
            await self._write(lease, self._claim((spec.lease_transitions or 0) + 1))
        return True

    async def _renew_unread(self) -> bool:
        """Renew on top of the version that we wrote last, without a read; False when that did not work."""
        lease = self._observed
        if lease is None:
            return False
        try:
            await self._write(lease, self._renewed(lease.spec))
        except KubeError as error:
            _log.info("lease %s/%s: renewing with a read: %s", self._config.namespace, self._config.name, error)
            return False
        return True

    def _claim(self, transitions: int) -> LeaseSpec:
        now = micro_time(self._clock.wall_ns())
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=int(self._config.lease_duration_s),
            acquire_time=now,
            renew_time=now,
            lease_transitions=transitions,
        )

    def _renewed(self, spec: LeaseSpec) -> LeaseSpec:
        claim = self._claim(spec.lease_transitions or 0)
        return msgspec.structs.replace(claim, acquire_time=spec.acquire_time or claim.acquire_time)

    # -- requests -----------------------------------------------------------------------------------------------

    async def _read(self) -> _Lease:
        return _decoded(await self._request("GET", f"{self._path}/{self._config.name}"))

    async def _create(self) -> None:
        metadata = {"namespace": self._config.namespace, "name": self._config.name}
        await self._send("POST", self._path, _Lease(metadata=metadata, spec=self._claim(0)))

    async def _write(self, lease: _Lease, spec: LeaseSpec) -> None:
        new = _Lease(metadata=lease.metadata, spec=spec)
        await self._send("PUT", f"{self._path}/{self._config.name}", new)

    async def _send(self, method: str, path: str, lease: _Lease) -> None:
        """Write *lease* and take the answer as what is there now. Our claim counts from before the request."""
        sent_at_s = self._clock.monotonic()
        answer = _decoded(await self._request(method, path, _encode(lease)))
        self._observe(answer)
        self._valid_until_s = sent_at_s + self._config.lease_duration_s

    async def _request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        return await self._session.request(method, path, body, timeout_s=self._config.request_timeout_s)

    def _observe(self, lease: _Lease) -> None:
        self._observed = lease
        self._observed_at_s = self._clock.monotonic()

    # -- release ------------------------------------------------------------------------------------------------

    async def _release(self) -> None:
        """Give the lease up, so that the next leader need not wait; only if it is still ours on the server."""
        try:
            async with asyncio.timeout(self._config.renew_deadline_s):
                lease = await self._read()
                if lease.spec.holder_identity != self.identity:
                    self._observe(lease)
                    return
                now = micro_time(self._clock.wall_ns())
                spec = LeaseSpec(
                    holder_identity="",
                    lease_duration_seconds=_RELEASED_DURATION_S,
                    acquire_time=now,
                    renew_time=now,
                    lease_transitions=lease.spec.lease_transitions or 0,
                )
                await self._write(lease, spec)
        except (KubeError, TimeoutError) as error:
            _log.warning("lease %s/%s was not released: %s", self._config.namespace, self._config.name, error)


def _decoded(body: bytes) -> _Lease:
    try:
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise TransportError(f"no Lease: {error}", may_be_applied=True) from error


async def _end(*tasks: asyncio.Future[None]) -> None:
    """Cancel *tasks* and wait until they have ended; being cancelled meanwhile does not cut the wait short."""
    for task in tasks:
        task.cancel()
    interruption: asyncio.CancelledError | None = None
    while not all(task.done() for task in tasks):
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError as error:
            interruption = error
    if interruption is not None:
        raise interruption
