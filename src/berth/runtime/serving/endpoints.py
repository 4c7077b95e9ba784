"""The serving side as a whole: listener, certificates, authorities, access, server, in the order in which they start.

The process opens it early, so that a port in use or a bad certificate ends the start; starts it when there are pages to
show; and lets `run` follow files and credentials.

Source: k8s cmd/kube-scheduler/app/options/options.go, ``ApplyTo``; apiserver pkg/server/options/.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.kube.credentials import CredentialKeeper, InCluster, choose_source
from berth.kube.errors import CredentialsError
from berth.kube.pacing import TokenBucket
from berth.kube.session import ApiSession
from berth.runtime.faults import ServingError
from berth.runtime.serving.authentication import Authenticator
from berth.runtime.serving.authorization import Authorizer
from berth.runtime.serving.certificates import TlsKeeper
from berth.runtime.serving.delegation import REVIEW_BURST, REVIEW_QPS
from berth.runtime.serving.files import stamp
from berth.runtime.serving.server import Page, SecureServer, open_listener
from berth.runtime.serving.trust import TrustKeeper

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from berth.config.options import RunOptions
    from berth.kube.credentials import CredentialSource
    from berth.runtime.metrics.access import AccessMetrics


class Delegates:
    """Sessions with the API servers that are asked about requests; one for each set of credentials.

    Args:
        keepers: those that run anyway, by their sources; they go on being somebody else's.
    """

    def __init__(self, keepers: Mapping[CredentialSource, CredentialKeeper]) -> None:
        self._keepers = dict(keepers)
        self._own: list[CredentialKeeper] = []
        self._sessions: dict[CredentialSource, ApiSession] = {}

    async def session(self, kubeconfig: str) -> ApiSession | None:
        """The session for what a flag names; with nothing named, the cluster we run in, if we do.

        Raises:
            ServingError: there are no credentials to be had.
        """
        source = choose_source(kubeconfig)
        if isinstance(source, InCluster) and stamp(source.token_file) is None:
            return None
        try:
            if source not in self._keepers:
                self._keepers[source] = await CredentialKeeper.open(source)
                self._own.append(self._keepers[source])
            if source not in self._sessions:
                self._sessions[source] = ApiSession(self._keepers[source])
        except CredentialsError as error:
            raise ServingError(str(error)) from error
        return self._sessions[source]

    async def run(self) -> None:
        """Keep our own credentials fresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            for keeper in self._own:
                group.create_task(keeper.run())

    async def close(self) -> None:
        """Close all sessions."""
        for session in self._sessions.values():
            await session.close()


class Endpoints:
    """Everything between the port and the pages; made by `open`."""

    def __init__(
        self,
        listener: socket.socket,
        delegates: Delegates,
        trust: TrustKeeper,
        tls: TlsKeeper,
        authenticator: Authenticator,
        authorizer: Authorizer,
    ) -> None:
        self._listener, self._delegates = listener, delegates
        self._trust, self._tls = trust, tls
        self._authenticator, self._authorizer = authenticator, authorizer
        self._server: SecureServer | None = None

    @classmethod
    async def open(
        cls,
        options: RunOptions,
        keepers: Mapping[CredentialSource, CredentialKeeper],
        *,
        metrics: AccessMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> Self | None:
        """Take the port and get everything ready; None if nothing is to be served.

        Args:
            options: the flags.
            keepers: credentials that the process has anyway, by their sources.
            metrics: hear who asks, and of reviews.
            clock: for memories, retries and looks at files.

        Raises:
            ServingError: the flags ask for what cannot be had.
        """
        listener = open_listener(options)
        if listener is None:
            return None
        delegates = Delegates(keepers)
        async with contextlib.AsyncExitStack() as undo:
            undo.callback(listener.close)
            undo.push_async_callback(delegates.close)
            asked_who = await delegates.session(options.authentication_kubeconfig)
            asked_what = await delegates.session(options.authorization_kubeconfig)
            trust = TrustKeeper(options, asked_who, clock=clock)
            await trust.open()
            tls = TlsKeeper(options, trust, clock=clock)
            await tls.open()
            pace = TokenBucket(REVIEW_QPS, REVIEW_BURST, clock=clock)
            authenticator = Authenticator(
                asked_who,
                pace,
                trust,
                token_ttl_s=options.authentication_token_webhook_cache_ttl.seconds,
                metrics=metrics,
                clock=clock,
            )
            authorizer = Authorizer(
                asked_what,
                pace,
                always_allow=options.authorization_always_allow_paths,
                allowed_ttl_s=options.authorization_webhook_cache_authorized_ttl.seconds,
                denied_ttl_s=options.authorization_webhook_cache_unauthorized_ttl.seconds,
                metrics=metrics,
                clock=clock,
            )
            undo.pop_all()
        return cls(listener, delegates, trust, tls, authenticator, authorizer)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._listener.getsockname()[:2]
        return host, port

    async def start(self, pages: Mapping[str, Page]) -> None:
        """Show these pages from now on."""
        self._server = SecureServer(self._listener, self._tls, self._authenticator, self._authorizer, pages)
        await self._server.start()

    async def run(self) -> None:
        """Follow files, authorities and credentials until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in (self._trust.run(), self._tls.run(), self._delegates.run()):
                group.create_task(each)

    async def close(self) -> None:
        """Stop serving."""
        if self._server is None:
            self._listener.close()
        else:
            await self._server.close()
        await self._delegates.close()
