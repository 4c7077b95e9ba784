"""Who sent a request, by certificate, front proxy, token, or not at all."""

from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from tests.runtime.doubles import TOKEN_REVIEWS, FakeApi, HandClock, pace

from berth.kube.errors import ServerError
from berth.runtime.metrics.access import AccessMetrics
from berth.runtime.metrics.instruments import Registry
from berth.runtime.serving.authentication import ANONYMOUS, Authenticator, Peer, Refused, User
from berth.runtime.serving.trust import FrontProxy, Trust

CLIENT_CA, PROXY_CA, OTHER_CA = b"client authority", b"proxy authority", b"other authority"
PROXY = FrontProxy(
    certificates=frozenset({PROXY_CA}),
    allowed_names=frozenset({"front-proxy-client"}),
    username_headers=("X-Remote-User",),
    group_headers=("X-Remote-Group",),
    uid_headers=("X-Remote-Uid",),
    extra_prefixes=("X-Remote-Extra-",),
)


class Fixed:
    """Trust that does not change."""

    def __init__(self, trust: Trust) -> None:
        self.current = trust


def authenticator(
    api: FakeApi | None = None,
    trust: Trust | None = None,
    time: HandClock | None = None,
    metrics: AccessMetrics | None = None,
) -> Authenticator:
    if trust is None:
        trust = Trust(frozenset({CLIENT_CA}), PROXY)
    clock = (time or HandClock()).clock
    return Authenticator(api, pace(), Fixed(trust), token_ttl_s=10.0, clock=clock, metrics=metrics)


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def bearer(token: str) -> CIMultiDictProxy[str]:
    return headers(("Authorization", f"Bearer {token}"))


def peer(authority: bytes, *subject: tuple[str, str]) -> Peer:
    return Peer((b"leaf", authority), subject)


ALICE = peer(CLIENT_CA, ("organizationName", "dev"), ("organizationName", "ops"), ("commonName", "alice"))
FRONT = peer(PROXY_CA, ("commonName", "front-proxy-client"))


async def test_without_credentials_one_is_anonymous() -> None:
    assert await authenticator().authenticate(headers(), None) == ANONYMOUS


async def test_a_certificate_names_user_and_groups() -> None:
    user = await authenticator().authenticate(headers(), ALICE)
    assert user == User("alice", ("dev", "ops", "system:authenticated"))


async def test_a_front_proxy_speaks_for_others() -> None:
    said = headers(
        ("x-remote-user", "bob"),
        ("x-remote-group", "dev"),
        ("x-remote-group", "ops"),
        ("x-remote-uid", "u7"),
        ("x-remote-extra-Acme.com%2Fproject", "one"),
        ("x-remote-extra-acme.com%2fproject", "two"),
    )
    user = await authenticator().authenticate(said, FRONT)
    assert user == User("bob", ("dev", "ops", "system:authenticated"), "u7", {"acme.com/project": ("one", "two")})


REFUSED = {
    "a certificate of an unknown authority": peer(OTHER_CA, ("commonName", "alice")),
    "a certificate whose authority is not known, on a resumed connection": Peer((), (("commonName", "alice"),)),
    "a front proxy that says nothing": FRONT,
    "a certificate of the proxies' authority with another name": peer(PROXY_CA, ("commonName", "mallory")),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_certificate_that_proves_nothing_is_refused(case: str) -> None:
    with pytest.raises(Refused):
        await authenticator().authenticate(headers(), REFUSED[case])


async def test_proxy_headers_from_anybody_else_are_overlooked() -> None:
    said = headers(("X-Remote-User", "system:admin"), ("X-Remote-Group", "system:masters"))
    assert await authenticator().authenticate(said, None) == ANONYMOUS
    assert (await authenticator().authenticate(said, ALICE)).name == "alice"
    with pytest.raises(Refused):
        await authenticator().authenticate(said, peer(PROXY_CA, ("commonName", "mallory")))


async def test_without_a_list_of_names_any_proxy_certificate_will_do() -> None:
    proxy = FrontProxy(frozenset({PROXY_CA}), username_headers=("X-Remote-User",))
    someone = peer(PROXY_CA, ("commonName", "someone"))
    user = await authenticator(trust=Trust(front_proxy=proxy)).authenticate(headers(("X-Remote-User", "bob")), someone)
    assert user.name == "bob"


async def test_a_certificate_without_a_name_is_nobody() -> None:
    assert await authenticator().authenticate(headers(), peer(CLIENT_CA, ("organizationName", "dev"))) == ANONYMOUS


async def test_a_token_is_looked_up_and_remembered() -> None:
    api, time = FakeApi(), HandClock()
    api.knows_tokens(t1={"username": "prometheus", "uid": "u1", "groups": ["mon"], "extra": {"k": ["v"]}})
    who = authenticator(api, time=time)
    for _ in range(2):
        user = await who.authenticate(bearer("t1"), None)
        assert user == User("prometheus", ("mon", "system:authenticated"), "u1", {"k": ("v",)})
    assert api.asked[TOKEN_REVIEWS] == [
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t1"}}
    ]
    time.now_s += 10.1
    await who.authenticate(bearer("t1"), None)
    assert len(api.asked[TOKEN_REVIEWS]) == 2


async def test_a_token_nobody_knows_is_refused_without_being_told_in_the_reason() -> None:
    api = FakeApi()
    api.knows_tokens()
    with pytest.raises(Refused) as caught:
        await authenticator(api).authenticate(bearer("very-secret"), None)
    assert "very-secret" not in str(caught.value)


async def test_what_is_kept_of_a_token_is_not_the_token() -> None:
    api = FakeApi()
    api.knows_tokens(very_secret={"username": "prometheus"})
    who = authenticator(api)
    await who.authenticate(bearer("very_secret"), None)
    assert not any(b"very_secret" in key for key in who._memory._known)


async def test_when_tokens_cannot_be_looked_up_they_are_refused() -> None:
    api = FakeApi()

    def answer(_: Any) -> Any:
        raise ServerError(500, "InternalError")

    api.answers[TOKEN_REVIEWS] = answer
    with pytest.raises(Refused, match="500"):
        await authenticator(api).authenticate(bearer("t1"), None)


async def test_with_nobody_to_ask_tokens_are_overlooked() -> None:
    assert await authenticator().authenticate(bearer("t1"), None) == ANONYMOUS


async def test_a_token_makes_up_for_a_certificate_that_proves_nothing() -> None:
    api = FakeApi()
    api.knows_tokens(t1={"username": "prometheus"})
    assert (await authenticator(api).authenticate(bearer("t1"), peer(OTHER_CA))).name == "prometheus"


NO_TOKENS = ("", "Basic dXNlcjpwYXNz", "Bearer", "Bearer   ")


@pytest.mark.parametrize("value", NO_TOKENS)
async def test_other_authorization_headers_are_no_credentials(value: str) -> None:
    api = FakeApi()
    assert await authenticator(api).authenticate(headers(("Authorization", value)), None) == ANONYMOUS
    assert not api.asked


async def test_attempts_are_counted() -> None:
    registry = Registry()
    who = authenticator(metrics=AccessMetrics(registry))
    await who.authenticate(headers(), None)
    with pytest.raises(Refused):
        await who.authenticate(headers(), peer(OTHER_CA))
    [family] = [metric for metric in registry.collect() if metric.name == "authentication_attempts"]
    assert {s.labels["result"]: s.value for s in family.samples} == {"success": 1, "failure": 1}
