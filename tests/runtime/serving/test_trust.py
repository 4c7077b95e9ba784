"""Whose certificates count: what flags, files and the cluster's ConfigMap say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trustme
from tests.runtime.doubles import CONFIG_MAP, FakeApi, HandClock

from berth.api.meta import ObjectMeta
from berth.config.options import RunOptions
from berth.kube.clock import Clock
from berth.kube.errors import ForbiddenError
from berth.runtime.serving.trust import ConfigMap, FrontProxy, Trust, TrustError, TrustKeeper, certificates_in, trust_of

if TYPE_CHECKING:
    from pathlib import Path

A, B = (trustme.CA().cert_pem.bytes().decode() for _ in range(2))
DER_A, DER_B = (certificates_in(pem, "a test") for pem in (A, B))


def config_map(**data: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "extension-apiserver-authentication"},
        "data": {k.replace("_", "-"): v for k, v in data.items()},
    }


async def opened(options: RunOptions, api: FakeApi | None = None, clock: Clock | None = None) -> TrustKeeper:
    keeper = TrustKeeper(options, api, clock=clock or HandClock().clock)
    await keeper.open()
    return keeper


def test_a_bundle_may_hold_several_certificates_and_comments() -> None:
    assert certificates_in(f"# first\n{A}\n# second\n{B}", "x") == DER_A | DER_B


BAD_PEM = {
    "no certificate": ("nothing here", "no certificate found"),
    "a certificate cut short": (A[: len(A) // 2], "a certificate is malformed"),
}


@pytest.mark.parametrize("case", BAD_PEM)
def test_a_bad_bundle_is_named(case: str) -> None:
    text, complaint = BAD_PEM[case]
    with pytest.raises(TrustError, match=f"ca.crt: {complaint}"):
        certificates_in(text, "ca.crt")


async def test_files_that_flags_name_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(A)
    (tmp_path / "b").write_text(B)
    options = RunOptions(
        client_ca_file=str(tmp_path / "a"),
        requestheader_client_ca_file=str(tmp_path / "b"),
        requestheader_allowed_names=("proxy",),
    )
    keeper = await opened(options, FakeApi())
    proxy = FrontProxy(
        certificates=DER_B,
        allowed_names=frozenset({"proxy"}),
        username_headers=("x-remote-user",),
        group_headers=("x-remote-group",),
        extra_prefixes=("x-remote-extra-",),
    )
    assert keeper.current == Trust(DER_A, proxy)


async def test_the_cluster_says_what_flags_do_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(A)
    api = FakeApi()
    api.answers[CONFIG_MAP] = lambda _: config_map(
        client_ca_file=B,
        requestheader_client_ca_file=B,
        requestheader_allowed_names='["front-proxy-client"]',
        requestheader_username_headers='["X-Remote-User"]',
    )
    keeper = await opened(RunOptions(client_ca_file=str(tmp_path / "a")), api)
    assert keeper.current.client_authorities == DER_A
    assert keeper.current.front_proxy == FrontProxy(
        DER_B, frozenset({"front-proxy-client"}), username_headers=("X-Remote-User",)
    )
    assert keeper.current.certificates() == DER_A | DER_B


async def test_a_file_that_cannot_be_read_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="none: No such file"):
        await opened(RunOptions(client_ca_file=str(tmp_path / "none"), authentication_skip_lookup=True))


async def test_the_lookup_can_be_skipped() -> None:
    api = FakeApi()
    keeper = await opened(RunOptions(authentication_skip_lookup=True), api)
    assert keeper.current == Trust()
    assert not api.asked


class EnoughSeenError(Exception):
    """Ends a loop that would go on for ever."""


def refusing() -> FakeApi:
    api = FakeApi()

    def answer(_: Any) -> Any:
        raise ForbiddenError(403, "Forbidden", "not you")

    api.answers[CONFIG_MAP] = answer
    return api


async def test_a_failed_lookup_is_tolerated_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    keeper = await opened(RunOptions(), refusing())
    assert keeper.current == Trust()
    assert "not you" in caplog.text


async def test_a_failed_lookup_ends_the_start_where_it_is_not_tolerated() -> None:
    with pytest.raises(TrustError, match=r"configmap kube-system/extension-apiserver-authentication: .*not you"):
        await opened(RunOptions(authentication_tolerate_lookup_failure=False), refusing())


async def test_subscribers_hear_of_what_the_config_map_says_later(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi()
    api.answers[CONFIG_MAP] = lambda _: config_map(client_ca_file=A)
    keeper = await opened(RunOptions(), api)
    heard: list[Trust] = []
    keeper.subscribe(heard.append)
    same = ConfigMap(metadata=ObjectMeta(), data={"client-ca-file": A})
    rotated = ConfigMap(metadata=ObjectMeta(), data={"client-ca-file": A + B})
    broken = ConfigMap(metadata=ObjectMeta(), data={"client-ca-file": "?"})
    keeper.on_add(same, is_initial=True)
    assert heard == []
    keeper.on_update(same, rotated)
    keeper.on_update(rotated, broken)
    keeper.on_delete(broken, final_state_unknown=True)
    assert heard == [Trust(DER_A | DER_B)]
    assert keeper.current == heard[0]
    assert "what it said before stands" in caplog.text


async def test_a_changed_file_is_read_again_and_a_broken_one_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(A)
    contents = iter((B + "\n", "broken"))
    seen: list[Trust] = []

    async def sleep(_: float) -> None:
        seen.append(keeper.current)
        text = next(contents, None)
        if text is None:
            raise EnoughSeenError
        file.write_text(text)

    options = RunOptions(client_ca_file=str(file), authentication_skip_lookup=True)
    keeper = await opened(options, clock=Clock(sleep=sleep))
    with pytest.raises(ExceptionGroup) as ended:
        await keeper.run()
    assert ended.group_contains(EnoughSeenError)
    assert seen == [Trust(DER_A), Trust(DER_B), Trust(DER_B)]
    assert "no certificate found; what it held before stands" in caplog.text


def test_a_list_of_names_that_is_none_is_named() -> None:
    data = {"requestheader-client-ca-file": A, "requestheader-allowed-names": "front-proxy-client"}
    with pytest.raises(TrustError, match="requestheader-allowed-names: "):
        trust_of(ConfigMap(data=data))
