"""A user of the API server by a client certificate: its common name is the user, it has no group.

The API server gets the authority by ``--client-ca-file``.
"""

from __future__ import annotations

import base64
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=7)
SKEW = timedelta(minutes=5)  # clocks may be behind


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """What proves who somebody is; all in PEM."""

    authority: bytes
    certificate: bytes
    key: bytes

    def kubeconfig(self, user: str, server: str, server_authority: bytes) -> dict[str, Any]:
        """A kubeconfig that is complete in itself.

        Args:
            user: its name in the file; the server goes by the certificate.
            server: the API server's address.
            server_authority: what signed the server's certificate, in PEM.
        """
        login = {"client-certificate-data": _base64(self.certificate), "client-key-data": _base64(self.key)}
        cluster = {"server": server, "certificate-authority-data": _base64(server_authority)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": user, "user": login}],
            "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": user}}],
            "current-context": "cluster",
        }


def make_identity(user: str) -> Identity:
    """A new authority, and a certificate of *user* that it signed."""
    issuer, subject = _name("clients"), _name(user)
    signer, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    client = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    authority = _builder(issuer, signer).issuer_name(issuer).add_extension(constraints, critical=True)
    certificate = _builder(subject, key).issuer_name(issuer).add_extension(client, critical=False)
    return Identity(
        authority=authority.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
        certificate=certificate.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM),
        key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + LIFETIME)
    )


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
