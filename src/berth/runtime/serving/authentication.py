"""Who sent a request: a front proxy's word, a client certificate, a bearer token, or nobody in particular.

These are tried in this order. A sender that shows credentials which do not hold is refused; one that shows none is
anonymous. Tokens are looked up by the API server with a TokenReview.

Source: k8s apiserver pkg/authentication/authenticatorfactory/delegating.go; pkg/authentication/request/.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote

import msgspec

from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.runtime.serving.delegation import Memory, Reviewer, ReviewError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

    from berth.kube.pacing import TokenBucket
    from berth.kube.session import Api
    from berth.runtime.metrics.access import AccessMetrics
    from berth.runtime.serving.trust import FrontProxy, Trust

AUTHENTICATED: Final = "system:authenticated"
_PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_UID_ATTRIBUTE: Final = "1.3.6.1.4.1.57683.2"
_DER: Final = 2
"""What `public_bytes` of a connection's certificate calls this encoding."""
_NOTHING: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class User:
    """Who somebody is to Kubernetes."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: _NOTHING)


ANONYMOUS: Final = User("system:anonymous", ("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Peer:
    """The certificate that a client has shown.

    Attributes:
        chain: the certificates, in DER, through which it was verified; empty if that is not known.
        subject: attributes of the subject in order, by OpenSSL's long names.
    """

    chain: tuple[bytes, ...]
    subject: tuple[tuple[str, str], ...]

    def first(self, attribute: str) -> str:
        """The first value of *attribute*; empty if there is none."""
        return next((value for name, value in self.subject if name == attribute), "")


class Refused(Exception):  # noqa: N818 -- the sender is at fault, nothing here went wrong
    """The sender's credentials do not hold; the text, for the log, says why and holds no secret."""


class TrustSource(Protocol):
    """Knows whose certificates count."""

    @property
    def current(self) -> Trust:
        """At the moment."""


class UserInfo(msgspec.Struct):
    """A user in the status of a TokenReview."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class TokenReviewStatus(msgspec.Struct):
    """The status of a TokenReview."""

    authenticated: bool = False
    user: UserInfo = msgspec.field(default_factory=UserInfo)
    error: str = ""


class Authenticator:
    """Tells who sent a request.

    Args:
        api: whom to ask about tokens; None where nobody can be asked, and tokens are overlooked.
        pace: of reviews, shared with authorization.
        trust: whose certificates count.
        token_ttl_s: how long what is known of a token is remembered, in seconds.
        metrics: hear of attempts and reviews.
        clock: for memory and retries.
    """

    def __init__(
        self,
        api: Api | None,
        pace: TokenBucket,
        trust: TrustSource,
        *,
        token_ttl_s: float,
        metrics: AccessMetrics | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._trust = trust
        self._ttl_s = token_ttl_s
        self._metrics, self._clock = metrics, clock
        self._key = secrets.token_bytes(32)  # so that the memory holds nothing that is of use elsewhere
        self._memory: Memory[User | None] = Memory(clock.monotonic)
        self._reviewer = (
            None
            if api is None
            else Reviewer(
                api,
                pace,
                name="authn",
                path=_PATH,
                kind="TokenReview",
                status=TokenReviewStatus,
                metrics=metrics,
                clock=clock,
            )
        )

    async def authenticate(self, headers: CIMultiDictProxy[str], peer: Peer | None) -> User:
        """Who sent a request with these *headers* on a connection with this *peer*.

        Raises:
            Refused: credentials were shown, and none holds.
        """
        began_s, result = self._clock.monotonic(), "failure"
        try:
            user = await self._identify(headers, peer)
            result = "success"
        finally:
            if self._metrics is not None:
                self._metrics.authenticated(result, self._clock.monotonic() - began_s)
        return user

    async def _identify(self, headers: CIMultiDictProxy[str], peer: Peer | None) -> User:
        faults: list[str] = []
        if peer is not None:
            user = self._from_peer(headers, peer, faults)
            if user is not None:
                return _authenticated(user)
        token = _bearer_token(headers)
        if token and self._reviewer is not None:
            try:
                user = await self._memory.get(self._digest(token), lambda: self._look_up(token))
            except ReviewError as error:
                faults.append(str(error))
            else:
                if user is not None:
                    return _authenticated(user)
                faults.append("invalid bearer token")
        if faults:
            raise Refused("; ".join(faults))
        return ANONYMOUS

    def _from_peer(self, headers: CIMultiDictProxy[str], peer: Peer, faults: list[str]) -> User | None:
        trust = self._trust.current
        proxy = trust.front_proxy
        if proxy is not None and not proxy.certificates.isdisjoint(peer.chain):
            if proxy.allowed_names and peer.first("commonName") not in proxy.allowed_names:
                faults.append("the certificate's common name is none of a front proxy")
            elif (user := _from_headers(headers, proxy)) is not None:
                return user
        if not trust.client_authorities:
            return None
        if trust.client_authorities.isdisjoint(peer.chain):
            faults.append("the certificate is of no authority for clients")
            return None
        return _from_certificate(peer)

    def _digest(self, token: str) -> bytes:
        return hmac.digest(self._key, token.encode("utf-8", "surrogateescape"), "sha256")

    async def _look_up(self, token: str) -> tuple[User | None, float]:
        if self._reviewer is None:
            raise ReviewError("there is nobody to ask")
        status = await self._reviewer.review({"token": token})
        if not status.authenticated:
            return None, self._ttl_s
        info = status.user
        extra = {key: tuple(values) for key, values in info.extra.items()}
        return User(info.username, tuple(info.groups), info.uid, extra), self._ttl_s


def _authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups or user.name == ANONYMOUS.name:
        return user
    return replace(user, groups=(*user.groups, AUTHENTICATED))


def _bearer_token(headers: CIMultiDictProxy[str]) -> str:
    scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _from_certificate(peer: Peer) -> User | None:
    """The common name is the user, the organizations are the groups; without a name it is nobody."""
    name = peer.first("commonName")
    groups = tuple(value for attribute, value in peer.subject if attribute == "organizationName")
    return User(name, groups, peer.first(_UID_ATTRIBUTE)) if name else None


def _from_headers(headers: CIMultiDictProxy[str], proxy: FrontProxy) -> User | None:
    name = next((headers[header] for header in proxy.username_headers if headers.get(header)), "")
    if not name:
        return None
    groups = tuple(value for header in proxy.group_headers for value in headers.getall(header, []))
    uid = next((headers[header] for header in proxy.uid_headers if headers.get(header)), "")
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        for prefix in proxy.extra_prefixes:
            if header.lower().startswith(prefix.lower()):
                key = unquote(header[len(prefix) :].lower())
                extra[key] = (*extra.get(key, ()), value)
    return User(name, groups, uid, extra)


def peer_of(tls: Any) -> Peer | None:
    """The client's certificate on a connection; None if it has shown none, or the connection is not encrypted.

    Args:
        tls: the `ssl.SSLObject` of the connection, or None.
    """
    certificate = tls.getpeercert() if tls is not None else None
    if not certificate:
        return None
    subject = tuple((name, value) for names in certificate.get("subject", ()) for name, value in names)
    return Peer(_verified_chain(tls), subject)


def _verified_chain(tls: Any) -> tuple[bytes, ...]:
    """In DER, leaf first; empty on a resumed connection, where it is not known any more."""
    if hasattr(tls, "get_verified_chain"):  # from Python 3.13 on
        return tuple(tls.get_verified_chain())
    chain = tls._sslobj.get_verified_chain()  # noqa: SLF001 -- the same method, before it was public
    return tuple(certificate.public_bytes(_DER) for certificate in chain or ())
