"""Where the serving certificate comes from, and what TLS it is shown with."""

from __future__ import annotations

import ipaddress
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme
from cryptography import x509
from tests.runtime.doubles import HandClock

from berth.config.options import RunOptions
from berth.runtime.serving.certificates import CertificateError, Pair, TlsKeeper, make_pair, new_context
from berth.runtime.serving.trust import TrustKeeper

if TYPE_CHECKING:
    from pathlib import Path

AUTHORITY = trustme.CA()


def keeper(options: RunOptions) -> TlsKeeper:
    return TlsKeeper(options, TrustKeeper(RunOptions(authentication_skip_lookup=True), None), clock=HandClock().clock)


def issue(folder: Path, *names: str, stem: str = "tls") -> RunOptions:
    """Options that name a certificate for *names*, with its key."""
    issued = AUTHORITY.issue_cert(*names)
    issued.private_key_pem.write_to_path(folder / f"{stem}.key")
    issued.cert_chain_pems[0].write_to_path(folder / f"{stem}.crt")
    return RunOptions(tls_cert_file=str(folder / f"{stem}.crt"), tls_private_key_file=str(folder / f"{stem}.key"))


def shown_by(context: ssl.SSLContext, name: str = "localhost", **limits: ssl.TLSVersion) -> x509.Certificate:
    """What a client sees: the certificate of a handshake in memory.

    Raises:
        ssl.SSLError: they do not agree.
    """
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname = False
    asking.verify_mode = ssl.CERT_NONE
    asking.maximum_version = limits.get("at_most", ssl.TLSVersion.MAXIMUM_SUPPORTED)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server, server_hostname=name)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    while len(done) < 2:
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der)


def names_of(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}


async def test_without_files_a_certificate_is_made_and_kept_in_memory() -> None:
    keeping = keeper(RunOptions(bind_address="10.1.2.3"))
    await keeping.open()
    certificate = shown_by(keeping.context)
    assert certificate.subject.rfc4514_string() == "CN=localhost"
    assert names_of(certificate) == {"localhost", "127.0.0.1", "10.1.2.3"}
    assert certificate.issuer == certificate.subject


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.1"])  # noqa: S104 -- nothing is bound
async def test_an_address_that_is_all_or_known_adds_no_name(address: str) -> None:
    pair = await make_pair(address)
    assert names_of(x509.load_pem_x509_certificate(pair.certificate)) == {"localhost", "127.0.0.1"}
    assert ipaddress.ip_address(address)
    assert "KEY" not in repr(pair)


async def test_with_a_directory_the_certificate_is_written_there_once(tmp_path: Path) -> None:
    options = RunOptions(cert_dir=str(tmp_path / "pki"))
    await keeper(options).open()
    assert sorted(path.name for path in (tmp_path / "pki").iterdir()) == ["kube-scheduler.crt", "kube-scheduler.key"]
    assert (tmp_path / "pki" / "kube-scheduler.key").stat().st_mode & 0o777 == 0o600
    first = (tmp_path / "pki" / "kube-scheduler.crt").read_bytes()
    again = keeper(options)
    await again.open()
    assert (tmp_path / "pki" / "kube-scheduler.crt").read_bytes() == first
    assert shown_by(again.context) == x509.load_pem_x509_certificate(first)


async def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CertificateError, match=r"--cert-dir .*/file/pki: Not a directory"):
        await keeper(RunOptions(cert_dir=str(tmp_path / "file" / "pki"))).open()


async def test_files_that_the_flags_name_are_shown(tmp_path: Path) -> None:
    keeping = keeper(issue(tmp_path, "scheduler.example"))
    await keeping.open()
    assert names_of(shown_by(keeping.context)) == {"scheduler.example"}


async def test_changed_files_are_shown_to_new_connections(tmp_path: Path) -> None:
    keeping = keeper(issue(tmp_path, "old.example"))
    await keeping.open()
    keeping.look()
    assert names_of(shown_by(keeping.context)) == {"old.example"}
    issue(tmp_path, "new.example")
    keeping.look()
    assert names_of(shown_by(keeping.context)) == {"new.example"}


async def test_a_half_changed_pair_leaves_the_old_one_in_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keeping = keeper(issue(tmp_path, "old.example"))
    await keeping.open()
    key = (tmp_path / "tls.key").read_bytes()
    issue(tmp_path, "new.example")
    new_key = (tmp_path / "tls.key").read_bytes()
    (tmp_path / "tls.key").write_bytes(key)
    keeping.look()
    assert names_of(shown_by(keeping.context)) == {"old.example"}
    assert "stays in use" in caplog.text
    assert key.decode() not in caplog.text
    (tmp_path / "tls.key").write_bytes(new_key + b"\n")
    keeping.look()
    assert names_of(shown_by(keeping.context)) == {"new.example"}


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    options = RunOptions(tls_cert_file=str(tmp_path / "no.crt"), tls_private_key_file=str(tmp_path / "no.key"))
    with pytest.raises(CertificateError, match=r"no\.crt: No such file"):
        await keeper(options).open()


def test_an_encrypted_key_is_refused_and_not_asked_about() -> None:
    head = b"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
    locked = b"-----BEGIN RSA PRIVATE KEY-----\n" + head + b"-----END RSA PRIVATE KEY-----\n"
    issued = AUTHORITY.issue_cert("a.example").cert_chain_pems[0].bytes()
    with pytest.raises(CertificateError, match="cannot be used"):
        Pair(issued, locked).load_into(new_context(RunOptions()))


SNI = {
    "the name of a certificate": ("a.example", {"a.example"}),
    "a name that a flag gives": ("given.example", {"b.example"}),
    "a name under a wildcard": ("x.wild.example", {"*.wild.example"}),
    "a name that nobody has": ("z.example", {"default.example"}),
    "a name in capitals": ("A.Example", {"a.example"}),
}


@pytest.mark.parametrize("case", SNI)
async def test_the_certificate_follows_the_name_that_is_asked_for(tmp_path: Path, case: str) -> None:
    asked, names = SNI[case]
    more = [
        (issue(tmp_path, "a.example", stem="a"), ()),
        (issue(tmp_path, "b.example", stem="b"), ("given.example",)),
        (issue(tmp_path, "*.wild.example", stem="c"), ()),
    ]
    default = issue(tmp_path, "default.example")
    keeping = keeper(
        RunOptions(
            tls_cert_file=default.tls_cert_file,
            tls_private_key_file=default.tls_private_key_file,
            tls_sni_cert_key=tuple((each.tls_cert_file, each.tls_private_key_file, named) for each, named in more),
        )
    )
    await keeping.open()
    assert names_of(shown_by(keeping.context, asked)) == names


@pytest.mark.parametrize(("flag", "least"), [("", "TLSv1_2"), ("VersionTLS13", "TLSv1_3"), ("VersionTLS10", "TLSv1")])
def test_the_flag_says_which_version_is_the_least(flag: str, least: str) -> None:
    assert new_context(RunOptions(tls_min_version=flag)).minimum_version.name == least


async def test_an_older_client_is_turned_away(tmp_path: Path) -> None:
    options = issue(tmp_path, "a.example")
    pair = Pair((tmp_path / "tls.crt").read_bytes(), (tmp_path / "tls.key").read_bytes())
    for flag, welcome in (("", True), ("VersionTLS13", False)):
        context = new_context(RunOptions(tls_min_version=flag))
        pair.load_into(context)
        if welcome:
            assert names_of(shown_by(context, at_most=ssl.TLSVersion.TLSv1_2)) == {"a.example"}
        else:
            with pytest.raises(ssl.SSLError):
                shown_by(context, at_most=ssl.TLSVersion.TLSv1_2)
    assert options.tls_cert_file


def test_cipher_suites_go_by_their_iana_names() -> None:
    suites = ("TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")
    context = new_context(RunOptions(tls_cipher_suites=suites))
    older = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert older == {"ECDHE-RSA-AES256-GCM-SHA384"}


def test_cipher_suites_that_openssl_has_given_up_are_named() -> None:
    with pytest.raises(CertificateError, match="--tls-cipher-suites"):
        new_context(RunOptions(tls_cipher_suites=("TLS_RSA_WITH_RC4_128_SHA",)))


def test_a_curve_can_be_asked_for_and_an_unknown_one_is_named() -> None:
    assert new_context(RunOptions(tls_curve_preferences=(23,)))
    with pytest.raises(CertificateError, match="--tls-curve-preferences: none of 4588"):
        new_context(RunOptions(tls_curve_preferences=(4588,)))


def test_clients_are_not_asked_for_certificates_while_there_is_no_authority() -> None:
    assert keeper(RunOptions()).context.verify_mode is ssl.CERT_NONE
