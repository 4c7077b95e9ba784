"""Who we are to the API server: where credentials come from, and how they stay fresh.

`load_credentials` reads a kubeconfig or the in-cluster files through `credential_loader` in a child process. A
`CredentialKeeper` holds the current set, renews it before it expires, when a file behind it changes, and at once after
a 401, and tells its subscribers (the sessions) when it changed. It knows no HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Backoff, Clock
from berth.kube.errors import CredentialsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_log = logging.getLogger(__name__)

SERVICE_ACCOUNT_TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  a path, not a secret
SERVICE_ACCOUNT_CA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

_LOADER = Path(__file__).with_name("credential_loader.py")
_CHECK_INTERVAL_S = 10.0  # how often files are looked at: one stat call each
_EXPIRY_MARGIN_S = 60.0  # renew this long before the end, or at 4/5 of a short life
_SHORT_LIFE_SHARE = 0.2
_LEAST_INTERVAL_S = 5.0  # a server that refuses everything, or a plugin with a stale cache, must not make us fork on


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Credentials of the current context of one kubeconfig file."""

    path: str

    def __str__(self) -> str:
        return f"kubeconfig {self.path}"

    def arguments(self) -> list[str]:
        """How the loader is told."""
        return ["kubeconfig", self.path]


@dataclass(frozen=True, slots=True)
class InCluster:
    """Credentials of the service account of the pod we run in."""

    token_file: str = SERVICE_ACCOUNT_TOKEN
    ca_file: str = SERVICE_ACCOUNT_CA

    def __str__(self) -> str:
        return f"in-cluster service account ({self.token_file})"

    def arguments(self) -> list[str]:
        """How the loader is told."""
        return ["in-cluster", self.token_file, self.ca_file]


CredentialSource: TypeAlias = Kubeconfig | InCluster


def choose_source(kubeconfig: str = "", environ: Mapping[str, str] | None = None) -> CredentialSource:
    """Where credentials come from: the named file, else (for tools) `KUBECONFIG`, else the pod we run in.

    Args:
        kubeconfig: the flag or `clientConnection.kubeconfig`; empty when not given.
        environ: given by interactive tools only: a scheduler does not read `KUBECONFIG`, as the reference does not.

    Source: k8s client-go tools/clientcmd/client_config.go, BuildConfigFromFlags.
    """
    if kubeconfig:
        return Kubeconfig(kubeconfig)
    if environ is not None:
        default = Path.home() / ".kube" / "config"
        if path := environ.get("KUBECONFIG", str(default) if default.exists() else ""):
            return Kubeconfig(path)
    return InCluster()


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """One set of credentials, and how long it lasts.

    Attributes:
        server: base URL, without a trailing slash.
        authorization: value of the Authorization header; empty when a client certificate speaks for us.
        ca_pem: the authority that signed the server's certificate; empty for the system's.
        cert_pem: our client certificate, with its key in `key_pem`; empty when there is none.
        verify: False when the server's certificate is not to be checked.
        tls_server_name: the name to expect in the server's certificate, when it is not the URL's.
        proxy: URL of an HTTP proxy; empty for none.
        token_file: holds the bearer token and is rewritten by others; read again whenever it changes.
        expires_at: seconds since 1970; None when only a changed file can end it.
        watched_files: a change in any of these means that everything has to be read again.
    """

    server: str
    authorization: str = ""
    ca_pem: str = ""
    cert_pem: str = ""
    key_pem: str = ""
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = ""
    token_file: str = ""
    expires_at: float | None = None
    watched_files: tuple[str, ...] = ()

    def same_connection(self, other: Credentials) -> bool:
        """Whether connections made with *other* may go on being used: all but the Authorization header is equal."""
        mine, theirs = (
            (each.server, each.ca_pem, each.cert_pem, each.key_pem, each.verify, each.tls_server_name, each.proxy)
            for each in (self, other)
        )
        return mine == theirs

    def ssl_context(self) -> ssl.SSLContext:
        """A client context that trusts `ca_pem` and presents the client certificate.

        Raises:
            CredentialsError: a certificate or key cannot be used.
        """
        try:
            context = ssl.create_default_context(cadata=self.ca_pem or None)
            # Cluster authorities made by common tools lack extensions that the strict mode of newer Pythons asks for.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert_pem:
                _load_cert_chain(context, self.cert_pem, self.key_pem)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise CredentialsError(f"TLS material for {self.server} cannot be used: {error}") from error
        return context


def _load_cert_chain(context: ssl.SSLContext, cert_pem: str, key_pem: str) -> None:
    """Hand a certificate and its key to *context*, which reads files only."""
    with tempfile.NamedTemporaryFile("w", prefix="berth-", suffix=".pem") as file:  # created readable by us alone
        file.write(cert_pem.rstrip("\n") + "\n" + key_pem)
        file.flush()
        context.load_cert_chain(file.name)


class _Answer(msgspec.Struct):
    error: str = ""


async def load_credentials(source: CredentialSource) -> Credentials:
    """Read *source* through the `kubernetes` package; exec plugins run, expired OIDC tokens are refreshed.

    Raises:
        CredentialsError: names the source and the reason.
    """
    if isinstance(source, Kubeconfig) and _stamp(source.path) is None:
        raise CredentialsError(f"{source}: no such file")
    if isinstance(source, InCluster) and not os.environ.get("KUBERNETES_SERVICE_HOST"):
        raise CredentialsError(f"{source}: not running in a pod, and no kubeconfig was given")
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_LOADER), *source.arguments()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        out, err = await child.communicate()
    except BaseException:
        if child.returncode is None:
            child.kill()
            await child.wait()
        raise
    try:
        if child.returncode != 0:
            reason = msgspec.json.decode(out, type=_Answer).error
            raise CredentialsError(f"{source}: {reason}")
        return msgspec.json.decode(out, type=Credentials)
    except msgspec.MsgspecError as error:
        text = err.decode("utf-8", "replace").strip()[-1000:]
        raise CredentialsError(f"{source}: the loader ended with {child.returncode}: {text}") from error


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does, also behind a symbolic link; None while it is missing."""
    try:
        stat = os.stat(path)  # noqa: PTH116  on a timer, for plain strings
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


class CredentialKeeper:
    """Holds the current credentials and keeps them fresh.

    Attributes:
        current: the set to use now.
        generation: grows by one with every renewal; a caller that met a 401 names the one it had used.
    """

    def __init__(
        self,
        source: CredentialSource,
        current: Credentials,
        *,
        clock: Clock = SYSTEM_CLOCK,
        load: Callable[[CredentialSource], Awaitable[Credentials]] = load_credentials,
        check_interval_s: float = _CHECK_INTERVAL_S,
    ) -> None:
        self.current = current
        self.generation = 1
        self._source = source
        self._clock = clock
        self._load = load
        self._check_interval_s = check_interval_s
        self._subscribers: list[Callable[[Credentials], None]] = []
        self._renewing = asyncio.Lock()
        self._last_forced_s = -_LEAST_INTERVAL_S
        self._note()

    @classmethod
    async def open(cls, source: CredentialSource, *, clock: Clock = SYSTEM_CLOCK) -> CredentialKeeper:
        """Load *source* for the first time.

        Raises:
            CredentialsError: there are no credentials to start with.
        """
        return cls(source, await load_credentials(source), clock=clock)

    def subscribe(self, changed: Callable[[Credentials], None]) -> None:
        """Call *changed* with every new set, from now on."""
        self._subscribers.append(changed)

    def unsubscribe(self, changed: Callable[[Credentials], None]) -> None:
        """Undo `subscribe`; doing so twice does no harm."""
        if changed in self._subscribers:
            self._subscribers.remove(changed)

    async def run(self) -> None:
        """Renew whenever it is due, until cancelled. A renewal that fails is logged and tried again."""
        backoff = Backoff(initial_s=1.0, cap_s=60.0, jitter=0.2, clock=self._clock)
        while True:
            await self._clock.sleep(self._pause_s())
            try:
                await self._renew_if_due()
            except CredentialsError as error:
                _log.warning("credentials could not be renewed, the old ones stay in use: %s", error)
                await backoff.wait()
            else:
                backoff.reset()

    async def renew(self, seen_generation: int) -> bool:
        """Renew at once because a request made with *seen_generation* was answered 401.

        Returns:
            Whether the credentials are newer than those, so that it makes sense to ask again.
        """
        async with self._renewing:
            if self.generation != seen_generation:
                return True
            now_s = self._clock.monotonic()
            if now_s - self._last_forced_s < _LEAST_INTERVAL_S:
                return False
            self._last_forced_s = now_s
            try:
                self._replace(await self._load(self._source))
            except CredentialsError as error:
                _log.warning("the API server refused our credentials, and there are no others: %s", error)
                return False
            return True

    def _note(self) -> None:
        """Remember how the files looked and when to renew, for the set that is now current."""
        current = self.current
        self._token_stamp = _stamp(current.token_file) if current.token_file else None
        self._stamps = {path: _stamp(path) for path in current.watched_files}
        self._renew_at: float | None = None
        if current.expires_at is not None:
            now = self._clock.wall_ns() / 1e9
            margin_s = min(_EXPIRY_MARGIN_S, (current.expires_at - now) * _SHORT_LIFE_SHARE)
            self._renew_at = max(current.expires_at - margin_s, now + _LEAST_INTERVAL_S)

    def _pause_s(self) -> float:
        if self._renew_at is None:
            return self._check_interval_s
        return min(self._check_interval_s, max(self._renew_at - self._clock.wall_ns() / 1e9, 0.1))

    async def _renew_if_due(self) -> None:
        async with self._renewing:
            expiring = self._renew_at is not None and self._clock.wall_ns() / 1e9 >= self._renew_at
            if expiring or any(_stamp(path) not in (None, seen) for path, seen in self._stamps.items()):
                self._replace(await self._load(self._source))
            elif self.current.token_file and _stamp(self.current.token_file) not in (None, self._token_stamp):
                self._replace(_with_token_of(self.current))

    def _replace(self, new: Credentials) -> None:
        self.current = new
        self.generation += 1
        self._note()
        for changed in self._subscribers:
            changed(new)


def _with_token_of(current: Credentials) -> Credentials:
    """The same credentials with the token that their file holds now."""
    try:
        token = Path(current.token_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"token file {current.token_file}: {error}") from error
    if not token:
        raise CredentialsError(f"token file {current.token_file}: empty")
    return msgspec.structs.replace(current, authorization=f"Bearer {token}")
