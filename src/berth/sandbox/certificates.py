"""A certificate for the embedded API server, made on the spot.

One authority, one server certificate for loopback and the names asked for, valid for a year; nothing is stored unless
the caller does. Used where the sandbox serves HTTPS.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_VALID: Final = timedelta(days=365)
_SKEW: Final = timedelta(minutes=5)  # clocks of clients may be behind


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What a server needs for TLS: its authority, its certificate and its key, all in PEM."""

    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes

    def ssl_context(self) -> ssl.SSLContext:
        """A server-side context with this identity."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # The ssl module reads certificates from files only.
        with tempfile.TemporaryDirectory() as folder:
            chain = Path(folder, "chain.pem")
            chain.touch(mode=0o600)
            chain.write_bytes(self.key_pem + self.certificate_pem)
            context.load_cert_chain(chain)
        return context


def make_identity(now: datetime, hosts: Sequence[str] = ()) -> ServerIdentity:
    """A new authority and a server certificate signed by it.

    Args:
        now: when the certificates begin to be valid.
        hosts: names and addresses besides those of loopback.
    """
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("berth-sandbox-ca")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    ca = (
        _builder(issuer, issuer, ca_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    names = [_alternative(host) for host in ("localhost", "127.0.0.1", "::1", *hosts)]
    certificate = (
        _builder(_name("berth-sandbox"), issuer, key.public_key(), now)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key_pem = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ServerIdentity(ca.public_bytes(pem), certificate.public_bytes(pem), key_pem)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
