"""Whose certificates count when a client shows one: authorities from files, or from the cluster's own ConfigMap.

Flags name files; what they do not name is read from ``kube-system/extension-apiserver-authentication`` and followed
there. Files are read again when they change. Subscribers (the listeners' TLS contexts) are told of new authorities.

Source: k8s apiserver pkg/server/options/authentication.go; pkg/authentication/request/headerrequest/.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from berth.api.meta import ApiStruct, ObjectMeta
from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.kube.errors import KubeError
from berth.kube.reflector import Reflector, Resource
from berth.runtime.faults import ServingError
from berth.runtime.serving.files import FILE_CHECK_INTERVAL_S, stamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from berth.config.options import RunOptions
    from berth.kube.session import Api

_log = logging.getLogger(__name__)

_NAMESPACE: Final = "kube-system"
_NAME: Final = "extension-apiserver-authentication"
_COLLECTION: Final = f"/api/v1/namespaces/{_NAMESPACE}/configmaps"
_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_END: Final = "-----END CERTIFICATE-----"


class TrustError(ServingError):
    """Authorities cannot be had; the text names the place and the reason."""


@dataclass(frozen=True, slots=True)
class FrontProxy:
    """Who may say on whose behalf a request comes, and in which headers.

    Attributes:
        certificates: its authorities, in DER.
        allowed_names: common names that it may have; empty for any.
        username_headers: the first that is there names the user.
        group_headers: all values of all of them are groups.
        uid_headers: the first that is there holds the uid.
        extra_prefixes: a header that begins like this holds an extra attribute, named by the rest.
    """

    certificates: frozenset[bytes] = frozenset()
    allowed_names: frozenset[str] = frozenset()
    username_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ()
    uid_headers: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trust:
    """The authorities for client certificates, in DER, and the front proxy, if there is one."""

    client_authorities: frozenset[bytes] = frozenset()
    front_proxy: FrontProxy | None = None

    def certificates(self) -> frozenset[bytes]:
        """All authorities."""
        return self.client_authorities | (self.front_proxy.certificates if self.front_proxy else frozenset())


class ConfigMap(ApiStruct, frozen=True):
    """A ConfigMap's texts."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] = msgspec.field(default_factory=dict)


def certificates_in(pem: str, place: str) -> frozenset[bytes]:
    """The certificates of a PEM text in DER.

    Raises:
        TrustError: there is none, or one is malformed; names *place*.
    """
    found: set[bytes] = set()
    for block in pem.split(_BEGIN)[1:]:
        body, end, _ = block.partition(_END)
        try:
            found.add(ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{body}{end}\n"))
        except ValueError as error:
            raise TrustError(f"{place}: a certificate is malformed: {error}") from error
    if not found:
        raise TrustError(f"{place}: no certificate found")
    return frozenset(found)


class TrustKeeper:
    """Holds the current `Trust` and keeps it up to date.

    Args:
        options: the flags.
        api: where the ConfigMap is; None where there is no API server to ask.
        clock: for the looks at files.
    """

    def __init__(self, options: RunOptions, api: Api | None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._options, self._clock = options, clock
        self._api = None if options.authentication_skip_lookup else api
        self._subscribers: list[Callable[[Trust], None]] = []
        self._stamps: dict[str, object] = {}
        self._from_cluster = Trust()
        self._follows_cluster = False
        self._current = Trust()

    @property
    def current(self) -> Trust:
        """The authorities at the moment."""
        return self._current

    def subscribe(self, told: Callable[[Trust], None]) -> None:
        """Call *told* with each new `Trust`."""
        self._subscribers.append(told)

    async def open(self) -> None:
        """Read everything for the first time.

        Raises:
            TrustError: a file cannot be used; or the ConfigMap cannot be read, where that is not tolerated.
        """
        if not (self._options.client_ca_file and self._options.requestheader_client_ca_file):
            await self._look_up()
        self._settle()

    async def run(self) -> None:
        """Follow files and ConfigMap until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_files())
            if self._follows_cluster and self._api is not None:
                resource = Resource(path=_COLLECTION, kind=ConfigMap, field_selector=f"metadata.name={_NAME}")
                group.create_task(Reflector(self._api, resource, [self], clock=self._clock).run())

    # -- the ConfigMap --------------------------------------------------------------------------------------------

    async def _look_up(self) -> None:
        if self._api is None:
            if not self._options.authentication_skip_lookup:
                _log.warning(
                    "no API server to read configmap %s/%s from: clients cannot show who they are by "
                    "certificate, unless flags name the authorities",
                    _NAMESPACE,
                    _NAME,
                )
            return
        try:
            body = await self._api.request("GET", f"{_COLLECTION}/{_NAME}")
            self._from_cluster = trust_of(msgspec.json.decode(body, type=ConfigMap))
        except (KubeError, msgspec.MsgspecError, TrustError) as error:
            text = f"configmap {_NAMESPACE}/{_NAME}: {error}"
            if not self._options.authentication_tolerate_lookup_failure:
                raise TrustError(text) from error
            _log.warning("%s; clients cannot show who they are by certificate", text)
            return
        self._follows_cluster = True

    def on_add(self, obj: ConfigMap, is_initial: bool) -> None:
        """Take over what the ConfigMap says."""
        _ = is_initial
        try:
            self._from_cluster = trust_of(obj)
            self._settle()
        except TrustError as error:
            _log.warning("configmap %s/%s: %s; what it said before stands", _NAMESPACE, _NAME, error)

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        """Take over what the ConfigMap says now."""
        _ = old
        self.on_add(new, is_initial=False)

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        """Go on with what was known: a ConfigMap that is being replaced must lock nobody out."""

    # -- files ----------------------------------------------------------------------------------------------------

    async def _watch_files(self) -> None:
        while True:
            await self._clock.sleep(FILE_CHECK_INTERVAL_S)
            if any(stamp(path) != known for path, known in self._stamps.items()):
                try:
                    self._settle()
                except TrustError as error:
                    _log.warning("%s; what it held before stands", error)

    def _read(self, path: str) -> frozenset[bytes]:
        self._stamps[path] = stamp(path)
        try:
            return certificates_in(Path(path).read_text(encoding="ascii", errors="replace"), path)
        except OSError as error:
            raise TrustError(f"{path}: {error.strerror}") from error

    def _settle(self) -> None:
        """Put together what flags and ConfigMap say; flags win."""
        options, trust = self._options, self._from_cluster
        if options.client_ca_file:
            trust = replace(trust, client_authorities=self._read(options.client_ca_file))
        if options.requestheader_client_ca_file:
            proxy = FrontProxy(
                self._read(options.requestheader_client_ca_file),
                frozenset(options.requestheader_allowed_names),
                options.requestheader_username_headers,
                options.requestheader_group_headers,
                options.requestheader_uid_headers,
                options.requestheader_extra_headers_prefix,
            )
            trust = replace(trust, front_proxy=proxy)
        if trust != self._current:
            self._current = trust
            for told in self._subscribers:
                told(trust)


def trust_of(config_map: ConfigMap) -> Trust:
    """What the cluster's ConfigMap says; what it does not mention is not trusted.

    Raises:
        TrustError: a value makes no sense; names the key.
    """
    data = config_map.data
    clients = data.get("client-ca-file", "")
    proxies = data.get("requestheader-client-ca-file", "")
    proxy = None
    if proxies:
        proxy = FrontProxy(
            certificates_in(proxies, "requestheader-client-ca-file"),
            frozenset(_names(data, "requestheader-allowed-names")),
            _names(data, "requestheader-username-headers"),
            _names(data, "requestheader-group-headers"),
            _names(data, "requestheader-uid-headers"),
            _names(data, "requestheader-extra-headers-prefix"),
        )
    return Trust(certificates_in(clients, "client-ca-file") if clients else frozenset(), proxy)


def _names(data: dict[str, str], key: str) -> tuple[str, ...]:
    text = data.get(key, "")
    try:
        return msgspec.json.decode(text, type=tuple[str, ...]) if text else ()
    except msgspec.MsgspecError as error:
        raise TrustError(f"{key}: {error}") from error
