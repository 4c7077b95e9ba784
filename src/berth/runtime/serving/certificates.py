"""The certificates that the HTTPS server shows, and the TLS contexts made of them.

A pair comes from the files that flags name, from ``--cert-dir``, or is made on the spot. Files are read again when they
change, and new connections then see the new pair; a pair that cannot be used leaves the old one in place. The same
contexts ask clients for certificates where there are authorities for them (`berth.runtime.serving.trust`).

Source: k8s apiserver pkg/server/options/serving.go; pkg/server/dynamiccertificates/.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import ssl
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from berth.config.tls import CIPHER_SUITES, TLS_VERSIONS
from berth.kube.clock import SYSTEM_CLOCK, Clock
from berth.runtime.faults import ServingError
from berth.runtime.serving.files import FILE_CHECK_INTERVAL_S, stamp

if TYPE_CHECKING:
    from berth.config.options import RunOptions
    from berth.runtime.serving.trust import Trust, TrustKeeper

_log = logging.getLogger(__name__)

_MAKER: Final = Path(__file__).with_name("certificate_maker.py")
_BASE_NAME: Final = "kube-scheduler"
_CURVES: Final = {23: "prime256v1", 24: "secp384r1", 25: "secp521r1", 29: "X25519"}
"""Numbers of key exchange groups, as flags have them -> OpenSSL's names of those that can be asked for alone."""


class CertificateError(ServingError):
    """A certificate cannot be had or used; the text names the file or flag and the reason."""


@dataclass(frozen=True, slots=True, repr=False)
class Pair:
    """A certificate chain and its key, in PEM; it shows neither when printed."""

    certificate: bytes
    key: bytes

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let *context* show this pair on new connections.

        Raises:
            CertificateError: the pair cannot be used; *context* is as it was.
        """
        trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # a pair that does not match would leave its halves behind
        try:
            for each in (trial, context):
                _load_pem(each, self.certificate.rstrip(b"\n") + b"\n" + self.key)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError(f"the certificate and key cannot be used together: {error}") from error


def _load_pem(context: ssl.SSLContext, pem: bytes) -> None:
    """Hand certificate and key to *context*, which reads files only; one in memory, where the system has such."""
    if sys.platform == "linux":
        file = os.memfd_create("berth-serving", os.MFD_CLOEXEC)
        try:
            os.write(file, pem)
            context.load_cert_chain(f"/proc/self/fd/{file}", password=_no_password)
        finally:
            os.close(file)
    else:
        with tempfile.NamedTemporaryFile("wb", prefix="berth-", suffix=".pem") as temporary:  # ours alone to read
            temporary.write(pem)
            temporary.flush()
            context.load_cert_chain(temporary.name, password=_no_password)


def _no_password() -> str:
    """Without this, OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted")


def read_pair(certificate_file: str, key_file: str) -> Pair:
    """Read both files.

    Raises:
        CertificateError: one cannot be read.
    """
    contents = []
    for path in (certificate_file, key_file):
        try:
            contents.append(Path(path).read_bytes())
        except OSError as error:
            raise CertificateError(f"{path}: {error.strerror}") from error
    return Pair(*contents)


async def make_pair(bind_address: str) -> Pair:
    """Make a self-signed pair for this machine, and for *bind_address* if that is one address.

    Raises:
        CertificateError: it cannot be made.
    """
    hosts = ["localhost", "127.0.0.1"]
    if not ipaddress.ip_address(bind_address).is_unspecified and bind_address not in hosts:
        hosts.append(bind_address)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", str(_MAKER), *hosts),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await child.communicate()
    key, mark, certificate = out.partition(b"-----BEGIN CERTIFICATE-----")
    if child.returncode != 0 or not mark:
        reason = err.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise CertificateError(f"a self-signed certificate could not be made: {reason}")
    return Pair(mark + certificate, key)


async def _kept_pair(directory: Path, bind_address: str) -> tuple[Path, Path]:
    """The files of the pair in *directory*; it is made and written where it is not there yet."""
    certificate_file, key_file = directory / f"{_BASE_NAME}.crt", directory / f"{_BASE_NAME}.key"
    if stamp(str(certificate_file)) is None or stamp(str(key_file)) is None:
        pair = await make_pair(bind_address)
        try:
            _write(pair, certificate_file, key_file)
        except OSError as error:
            raise CertificateError(f"--cert-dir {directory}: {error.strerror}") from error
        _log.info("generated a self-signed certificate: %s", certificate_file)
    return certificate_file, key_file


def _write(pair: Pair, certificate_file: Path, key_file: Path) -> None:
    certificate_file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    certificate_file.write_bytes(pair.certificate)
    key_file.unlink(missing_ok=True)
    key_file.touch(mode=0o600, exist_ok=False)  # ours alone to read, before anything is in it
    key_file.write_bytes(pair.key)


def new_context(options: RunOptions) -> ssl.SSLContext:
    """A server's context with the versions, ciphers and curves of the flags, and no certificate yet.

    Raises:
        CertificateError: this build of OpenSSL cannot do what a flag asks for.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    name = TLS_VERSIONS.get(options.tls_min_version, "TLSv1_2")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old versions are the operator's own choice
        context.minimum_version = ssl.TLSVersion[name]
    if options.tls_cipher_suites:
        # Those of TLS 1.3 cannot be chosen, here as in the reference.
        names = [CIPHER_SUITES[suite] for suite in options.tls_cipher_suites if "_WITH_" in suite]
        try:
            if names:
                context.set_ciphers(":".join(names))
        except ssl.SSLError as error:
            raise CertificateError(f"--tls-cipher-suites: none of them is in this build of OpenSSL: {error}") from error
    _set_curves(context, options.tls_curve_preferences)
    context.set_alpn_protocols(["http/1.1"])
    # A client's certificate is verified in a full handshake only, so there are no short ones.
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    # As in Go, an authority need not be a root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _set_curves(context: ssl.SSLContext, numbers: tuple[int, ...]) -> None:
    if not numbers:
        return
    known = [_CURVES[number] for number in numbers if number in _CURVES]
    if not known:
        raise CertificateError(f"--tls-curve-preferences: none of {', '.join(map(str, numbers))} can be set here")
    context.set_ecdh_curve(known[0])
    if len(numbers) > 1:
        _log.warning("--tls-curve-preferences: only one curve can be set here, %s is used", known[0])


@dataclass(frozen=True, slots=True)
class _Source:
    """One pair of files, and the context that shows what they hold."""

    context: ssl.SSLContext
    certificate_file: str
    key_file: str

    def stamps(self) -> tuple[object, object]:
        return stamp(self.certificate_file), stamp(self.key_file)

    def load(self) -> None:
        try:
            read_pair(self.certificate_file, self.key_file).load_into(self.context)
        except CertificateError as error:
            raise CertificateError(f"{self.certificate_file}, {self.key_file}: {error}") from error


class TlsKeeper:
    """The server's TLS contexts, kept up to date with files and authorities.

    Attributes:
        context: for listeners.
    """

    def __init__(self, options: RunOptions, trust: TrustKeeper, *, clock: Clock = SYSTEM_CLOCK) -> None:
        """Make the contexts; `open` gives them their certificates.

        Raises:
            CertificateError: this build of OpenSSL cannot do what a flag asks for.
        """
        self._options, self._trust, self._clock = options, trust, clock
        self.context = new_context(options)
        self._named: dict[str, ssl.SSLContext] = {}
        self._sources: list[_Source] = []
        self._stamps: list[tuple[object, object]] = []

    async def open(self) -> None:
        """Load or make all certificates.

        Raises:
            CertificateError: one cannot be had or used.
        """
        options = self._options
        if options.tls_cert_file and options.tls_private_key_file:
            self._sources.append(_Source(self.context, options.tls_cert_file, options.tls_private_key_file))
        elif options.cert_dir:
            files = await _kept_pair(Path(options.cert_dir), options.bind_address)
            self._sources.append(_Source(self.context, *map(str, files)))
        else:
            (await make_pair(options.bind_address)).load_into(self.context)
            _log.info("generated a self-signed certificate in memory")
        for certificate_file, key_file, names in options.tls_sni_cert_key:
            context = new_context(options)
            self._sources.append(_Source(context, certificate_file, key_file))
            for name in names or _names_in(certificate_file):
                self._named.setdefault(name.lower(), context)
        if self._named:
            self.context.sni_callback = self._choose
        for source in self._sources:
            source.load()
        self._stamps = [source.stamps() for source in self._sources]
        self._trust_in(self._trust.current)
        self._trust.subscribe(self._trust_in)

    async def run(self) -> None:
        """Follow the files until cancelled."""
        while True:
            await self._clock.sleep(FILE_CHECK_INTERVAL_S)
            self.look()

    def look(self) -> None:
        """Load the pairs whose files have changed."""
        for at, source in enumerate(self._sources):
            stamps = source.stamps()
            if stamps != self._stamps[at]:
                self._stamps[at] = stamps
                try:
                    source.load()
                except CertificateError as error:
                    _log.warning("%s; the certificate read before stays in use", error)
                else:
                    _log.info("certificate read again: %s", source.certificate_file)

    def _choose(self, tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        """Show the certificate for the *name* that the client asks for: an exact one first, then a wildcard."""
        asked = (name or "").lower()
        context = self._named.get(asked) or self._named.get("*." + asked.partition(".")[2])
        if context is not None:
            tls.context = context

    def _trust_in(self, trust: Trust) -> None:
        """Ask clients for certificates of these authorities. What is no authority any more is sorted out later."""
        certificates = trust.certificates()
        for context in {self.context, *self._named.values()}:
            if certificates:
                try:
                    context.load_verify_locations(cadata=b"".join(certificates))
                except ssl.SSLError as error:
                    _log.warning("authorities for client certificates cannot be used: %s", error)
                    continue
            context.verify_mode = ssl.CERT_OPTIONAL if certificates else ssl.CERT_NONE


def _names_in(certificate_file: str) -> list[str]:
    """The names and addresses that a certificate is for."""
    from cryptography import x509  # noqa: PLC0415 -- large, and needed for one rare flag only

    try:
        certificate = x509.load_pem_x509_certificate(Path(certificate_file).read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound) as error:
        raise CertificateError(f"--tls-sni-cert-key: {certificate_file}: no names found: {error}") from error
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]
