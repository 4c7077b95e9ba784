"""Where credentials come from, and how they stay fresh."""

from __future__ import annotations

import base64
import json
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
import yaml
from tests.kube.builders import SkippedTime

from berth.kube import credential_loader, credentials
from berth.kube.credentials import (
    CredentialKeeper,
    Credentials,
    InCluster,
    Kubeconfig,
    choose_source,
    load_credentials,
)
from berth.kube.errors import CredentialsError


def a_kubeconfig(folder: Path, *, user: dict[str, Any] | None = None, cluster: dict[str, Any] | None = None) -> str:
    path = folder / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "k", "user": "me"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k.example:6443"} if cluster is None else cluster}],
        "users": [{"name": "me", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def a_plugin(folder: Path, status: dict[str, Any] | str) -> dict[str, Any]:
    """The `exec` section for a plugin that hands out *status*, or fails with that text."""
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    failing = f"sys.stderr.write({status!r}); sys.exit(3)"
    script = folder / "plugin.py"
    script.write_text("import sys\n" + (failing if isinstance(status, str) else f"print({json.dumps(answer)!r})"))
    return {"exec": {"apiVersion": answer["apiVersion"], "command": sys.executable, "args": [str(script)]}}


def load(capsys: pytest.CaptureFixture[str], *arguments: str) -> Credentials:
    """What the loader prints, in this process to save time."""
    assert credential_loader.main(list(arguments)) == 0
    return msgspec.json.decode(capsys.readouterr().out, type=Credentials)


def fail(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert credential_loader.main(list(arguments)) == 1
    return str(json.loads(capsys.readouterr().out)["error"])


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# -- the loader ---------------------------------------------------------------------------------------------------

USERS: dict[str, tuple[dict[str, Any], str]] = {
    "a token": ({"token": "abc"}, "Bearer abc"),
    "a name and a password": ({"username": "me", "password": "pw"}, "Basic " + b64("me:pw")),
    "nobody in particular": ({}, ""),
}


@pytest.mark.parametrize(("user", "want"), USERS.values(), ids=USERS.keys())
def test_who_a_kubeconfig_speaks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], user: dict[str, Any], want: str
) -> None:
    path = a_kubeconfig(tmp_path, user=user)
    found = load(capsys, "kubeconfig", path)
    assert (found.server, found.authorization) == ("https://k.example:6443", want)
    assert (found.expires_at, found.token_file, found.watched_files) == (None, "", (path,))


def test_a_token_file_is_read_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text("abc\n")
    found = load(capsys, "kubeconfig", a_kubeconfig(tmp_path, user={"tokenFile": "token"}))
    assert (found.authorization, found.token_file) == ("Bearer abc", str(tmp_path / "token"))


def test_certificates_come_from_data_or_from_files_beside_the_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca.pem").write_text("the authority")
    (tmp_path / "key.pem").write_text("the key")
    user = {"client-certificate-data": b64("the certificate"), "client-key": "key.pem"}
    cluster = {
        "server": "https://k.example/",
        "certificate-authority": "ca.pem",
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy.example:3128",
    }
    path = a_kubeconfig(tmp_path, user=user, cluster=cluster)
    found = load(capsys, "kubeconfig", path)
    assert (found.ca_pem, found.cert_pem, found.key_pem) == ("the authority", "the certificate", "the key")
    assert (found.server, found.tls_server_name) == ("https://k.example", "kubernetes")
    assert (found.verify, found.proxy) == (True, "http://proxy.example:3128")
    assert found.watched_files == (path, str(tmp_path / "ca.pem"), str(tmp_path / "key.pem"))


def test_the_check_of_the_server_can_be_switched_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_kubeconfig(tmp_path, cluster={"server": "https://k.example", "insecure-skip-tls-verify": True})
    assert not load(capsys, "kubeconfig", path).verify


def test_an_exec_plugin_gives_a_token_that_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = a_plugin(tmp_path, {"token": "abc", "expirationTimestamp": "2030-01-01T00:00:00Z"})
    found = load(capsys, "kubeconfig", a_kubeconfig(tmp_path, user=plugin))
    assert (found.authorization, found.expires_at) == ("Bearer abc", 1893456000.0)


def test_an_exec_plugin_gives_a_certificate_that_ends_when_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    issued = trustme.CA().issue_cert("me")
    cert, key = issued.cert_chain_pems[0].bytes().decode(), issued.private_key_pem.bytes().decode()
    plugin = a_plugin(tmp_path, {"clientCertificateData": cert, "clientKeyData": key})
    found = load(capsys, "kubeconfig", a_kubeconfig(tmp_path, user=plugin))
    assert (found.cert_pem, found.key_pem, found.authorization) == (cert, key, "")
    assert found.expires_at is not None


def test_an_oidc_token_ends_when_it_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp":1893456000}').decode().rstrip("=")
    config = {"id-token": f"e30.{claims}.sig", "idp-issuer-url": "https://issuer.example"}
    user = {"auth-provider": {"name": "oidc", "config": config}}
    found = load(capsys, "kubeconfig", a_kubeconfig(tmp_path, user=user))
    assert (found.authorization, found.expires_at) == (f"Bearer {config['id-token']}", 1893456000.0)


FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any] | None, str]] = {
    "a cluster without a server": ({}, {}, "cluster 'k' names no server"),
    "a certificate that is missing": ({"client-certificate": "none.pem"}, None, "none.pem"),
    "a provider that nobody knows": (
        {"auth-provider": {"name": "azure"}},
        None,
        "user 'me': auth-provider gave no credentials: 'azure' is not supported",
    ),
    "a plugin that is missing": ({"exec": {"apiVersion": "v1", "command": "/no/such"}}, None, "/no/such"),
}


@pytest.mark.parametrize(("user", "cluster", "want"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_said_about(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    user: dict[str, Any],
    cluster: dict[str, Any] | None,
    want: str,
) -> None:
    assert want in fail(capsys, "kubeconfig", a_kubeconfig(tmp_path, user=user, cluster=cluster))


def test_a_plugin_that_fails_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_kubeconfig(tmp_path, user=a_plugin(tmp_path, "log in first"))
    reason = fail(capsys, "kubeconfig", path)
    assert reason == "user 'me': exec gave no credentials: exec: process returned 3. log in first"


def test_a_context_that_is_missing_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(a_kubeconfig(tmp_path))
    path.write_text(path.read_text().replace("current-context: here", "current-context: there"))
    assert "there" in fail(capsys, "kubeconfig", str(path))


def test_a_pod_finds_its_service_account(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("abc\n")
    ca.write_text("the authority")
    found = load(capsys, "in-cluster", str(token), str(ca))
    assert found == Credentials(
        server="https://[fd00::1]:443",
        authorization="Bearer abc",
        ca_pem="the authority",
        token_file=str(token),
        watched_files=(str(ca),),
    )


# -- the child process --------------------------------------------------------------------------------------------


async def test_the_loader_runs_in_a_child_process(tmp_path: Path) -> None:
    found = await load_credentials(Kubeconfig(a_kubeconfig(tmp_path, user={"token": "abc"})))
    assert found.authorization == "Bearer abc"


async def test_a_reason_from_the_child_names_the_file(tmp_path: Path) -> None:
    path = a_kubeconfig(tmp_path, cluster={})
    with pytest.raises(CredentialsError, match=rf"kubeconfig {path}: cluster 'k' names no server"):
        await load_credentials(Kubeconfig(path))


async def test_a_missing_kubeconfig_is_named_without_a_child() -> None:
    with pytest.raises(CredentialsError, match=r"kubeconfig /no/such: no such file"):
        await load_credentials(Kubeconfig("/no/such"))


async def test_outside_a_pod_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="not running in a pod, and no kubeconfig was given"):
        await load_credentials(InCluster())


async def test_a_loader_that_breaks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "loader.py"
    broken.write_text("raise SystemExit('no kubernetes package')")
    monkeypatch.setattr("berth.kube.credentials._LOADER", broken)
    with pytest.raises(CredentialsError, match="no kubernetes package"):
        await load_credentials(Kubeconfig(a_kubeconfig(tmp_path)))


# -- choosing -----------------------------------------------------------------------------------------------------


def test_a_named_kubeconfig_comes_first() -> None:
    assert choose_source("/a", {"KUBECONFIG": "/b"}) == Kubeconfig("/a")


def test_the_environment_counts_only_where_it_is_given() -> None:
    assert choose_source("", {"KUBECONFIG": "/b"}) == Kubeconfig("/b")
    assert choose_source("") == InCluster()


def test_tools_find_the_users_own_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert choose_source("", {}) == InCluster()
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text("{}")
    assert choose_source("", {}) == Kubeconfig(str(tmp_path / ".kube" / "config"))


# -- the keeper ---------------------------------------------------------------------------------------------------


class Source:
    """A source whose next sets are scripted."""

    def __init__(self, *sets: Credentials | CredentialsError) -> None:
        self.sets = list(sets)
        self.loads = 0

    async def load(self, _: object) -> Credentials:
        self.loads += 1
        found = self.sets.pop(0) if len(self.sets) > 1 else self.sets[0]
        if isinstance(found, CredentialsError):
            raise found
        return found


class EndOfTest(Exception):  # noqa: N818  ends the refresh loop, which has no end of its own
    pass


def a_keeper(time: SkippedTime, source: Source, first: Credentials) -> tuple[CredentialKeeper, list[str]]:
    keeper = CredentialKeeper(InCluster(), first, clock=time.clock, load=source.load)
    told: list[str] = []
    keeper.subscribe(lambda credentials: told.append(credentials.authorization))
    return keeper, told


async def run_for(keeper: CredentialKeeper, time: SkippedTime, seconds: float) -> None:
    """Let the refresh loop run for that much virtual time."""
    until_s = time.now_s + seconds

    async def sleep_until(delay_s: float) -> None:
        if time.now_s + delay_s > until_s:
            time.now_s = until_s
            raise EndOfTest
        await time.clock.sleep(delay_s)

    keeper._clock = replace(time.clock, sleep=sleep_until)
    with pytest.raises(EndOfTest):
        await keeper.run()


def creds(token: str, **changes: Any) -> Credentials:
    return Credentials(server="http://k", authorization=token, **changes)


def touch(path: Path, text: str) -> None:
    """Replace a file the way a kubelet does: another file, by a rename."""
    new = path.with_name(path.name + ".new")
    new.write_text(text)
    new.rename(path)


async def test_an_expiring_token_is_renewed_a_minute_early() -> None:
    time = SkippedTime()
    now_s = time.clock.wall_ns() / 1e9
    source = Source(creds("two", expires_at=now_s + 7200))
    keeper, told = a_keeper(time, source, creds("one", expires_at=now_s + 3600))
    await run_for(keeper, time, 3600 - 61)
    assert told == []
    await run_for(keeper, time, 2)
    assert told == ["two"]
    assert keeper.generation == 2


async def test_a_token_of_a_short_life_is_renewed_at_four_fifths_of_it() -> None:
    time = SkippedTime()
    now_s = time.clock.wall_ns() / 1e9
    source = Source(creds("two", expires_at=now_s + 1000))
    keeper, told = a_keeper(time, source, creds("one", expires_at=now_s + 10))
    await run_for(keeper, time, 7.9)
    assert told == []
    await run_for(keeper, time, 0.3)
    assert told == ["two"]


async def test_a_plugin_with_a_stale_cache_is_not_run_without_end() -> None:
    time = SkippedTime()
    stale = creds("stale", expires_at=time.clock.wall_ns() / 1e9 - 1)
    source = Source(stale)
    keeper, _ = a_keeper(time, source, stale)
    await run_for(keeper, time, 60)
    assert source.loads <= 12


async def test_a_rotated_token_file_is_read_without_the_loader(tmp_path: Path) -> None:
    time, source = SkippedTime(), Source(creds("never"))
    token = tmp_path / "token"
    token.write_text("one")
    keeper, told = a_keeper(time, source, creds("Bearer one", token_file=str(token)))
    await run_for(keeper, time, 60)
    touch(token, "two\n")
    await run_for(keeper, time, 11)
    assert told == ["Bearer two"]
    assert source.loads == 0


async def test_a_token_file_that_is_gone_or_empty_keeps_the_old_token(tmp_path: Path) -> None:
    time, source = SkippedTime(), Source(creds("never"))
    token = tmp_path / "token"
    token.write_text("one")
    keeper, told = a_keeper(time, source, creds("Bearer one", token_file=str(token)))
    token.unlink()
    await run_for(keeper, time, 30)
    token.write_text("")
    await run_for(keeper, time, 30)
    assert told == []
    touch(token, "two")
    await run_for(keeper, time, 90)
    assert told == ["Bearer two"]


async def test_a_changed_file_behind_the_credentials_means_loading_again(tmp_path: Path) -> None:
    time = SkippedTime()
    cert = tmp_path / "cert.pem"
    cert.write_text("one")
    source = Source(CredentialsError("half written"), creds("two", watched_files=(str(cert),)))
    keeper, told = a_keeper(time, source, creds("one", watched_files=(str(cert),)))
    touch(cert, "two")
    await run_for(keeper, time, 60)
    assert told == ["two"]
    assert source.loads == 2, "a failed renewal is tried again, a done one is not"


async def test_after_a_401_the_credentials_are_loaded_at_once() -> None:
    time, source = SkippedTime(), Source(creds("two"))
    keeper, told = a_keeper(time, source, creds("one"))
    assert await keeper.renew(seen_generation=1)
    assert told == ["two"]


async def test_a_401_from_before_the_last_renewal_loads_nothing() -> None:
    time, source = SkippedTime(), Source(creds("two"))
    keeper, _ = a_keeper(time, source, creds("one"))
    assert await keeper.renew(seen_generation=1)
    assert await keeper.renew(seen_generation=1)
    assert source.loads == 1


async def test_a_server_that_refuses_everything_does_not_make_us_load_without_end() -> None:
    time, source = SkippedTime(), Source(creds("two"))
    keeper, _ = a_keeper(time, source, creds("one"))
    assert await keeper.renew(seen_generation=1)
    assert not await keeper.renew(seen_generation=2)
    time.now_s += 5
    assert await keeper.renew(seen_generation=2)
    assert source.loads == 2


async def test_a_401_without_other_credentials_is_reported_as_final() -> None:
    time = SkippedTime()
    keeper, told = a_keeper(time, Source(CredentialsError("plugin broke")), creds("one"))
    assert not await keeper.renew(seen_generation=1)
    assert told == []


def test_tls_material_that_cannot_be_used_is_reported() -> None:
    with pytest.raises(CredentialsError, match="TLS material for https://k"):
        Credentials(server="https://k", ca_pem="no certificate").ssl_context()


def test_a_private_key_is_never_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    modes: list[int] = []

    class Context:
        def load_cert_chain(self, path: str) -> None:
            modes.append(stat.S_IMODE(Path(path).stat().st_mode))

    credentials._load_cert_chain(Context(), "certificate", "key")  # type: ignore[arg-type]  # only this method is used
    assert modes == [0o600]
    assert list(tmp_path.iterdir()) == []
