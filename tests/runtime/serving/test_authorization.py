"""Who may have which page, and how often the API server is asked about it."""

from typing import Any

import pytest
from tests.runtime.doubles import ACCESS_REVIEWS, FakeApi, HandClock, pace

from berth.kube.errors import ForbiddenError, ServerError, TransportError
from berth.runtime.metrics.access import AccessMetrics
from berth.runtime.metrics.instruments import Registry
from berth.runtime.serving.authentication import ANONYMOUS, User
from berth.runtime.serving.authorization import Authorizer, Decision
from berth.runtime.serving.delegation import Memory, ReviewError

PROMETHEUS = User("prometheus", ("monitoring", "system:authenticated"), "u1", {"scopes": ("a", "b")})


def authorizer(
    api: FakeApi | None, time: HandClock | None = None, metrics: AccessMetrics | None = None, **changes: Any
) -> Authorizer:
    settings: dict[str, Any] = {"allowed_ttl_s": 10.0, "denied_ttl_s": 5.0, "always_allow": ("/healthz", "/open/*")}
    return Authorizer(api, pace(), clock=(time or HandClock()).clock, metrics=metrics, **{**settings, **changes})


async def test_the_question_names_user_path_and_verb() -> None:
    api = FakeApi()
    api.allows("prometheus")
    assert (await authorizer(api).authorize(PROMETHEUS, "/metrics", "get")).allowed
    [review] = api.asked[ACCESS_REVIEWS]
    assert review == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": "prometheus",
            "groups": ["monitoring", "system:authenticated"],
            "uid": "u1",
            "extra": {"scopes": ["a", "b"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


OPEN = {
    "a path that is open to all": ("/healthz", ANONYMOUS),
    "a path below an open prefix": ("/open/anything", ANONYMOUS),
    "anything, to a cluster administrator": ("/metrics", User("root", ("system:masters",))),
}


@pytest.mark.parametrize("case", OPEN)
async def test_some_things_are_allowed_without_asking(case: str) -> None:
    path, user = OPEN[case]
    assert (await authorizer(None).authorize(user, path, "get")).allowed


CLOSED = ("/healthz/ping", "/openly", "/metrics", "/")


@pytest.mark.parametrize("path", CLOSED)
async def test_with_nobody_to_ask_the_answer_is_no(path: str) -> None:
    assert await authorizer(None).authorize(PROMETHEUS, path, "get") == Decision(allowed=False)


async def test_a_yes_and_a_no_are_remembered_for_their_own_time() -> None:
    api, time = FakeApi(), HandClock()
    api.allows("prometheus")
    judge = authorizer(api, time)

    async def questions(user: User) -> int:
        before = len(api.asked[ACCESS_REVIEWS])
        await judge.authorize(user, "/metrics", "get")
        return len(api.asked[ACCESS_REVIEWS]) - before

    assert [await questions(PROMETHEUS), await questions(ANONYMOUS)] == [1, 1]
    time.now_s += 4.9
    assert [await questions(PROMETHEUS), await questions(ANONYMOUS)] == [0, 0]
    time.now_s += 0.2
    assert [await questions(PROMETHEUS), await questions(ANONYMOUS)] == [0, 1]
    time.now_s += 5.0
    assert await questions(PROMETHEUS) == 1


async def test_another_path_verb_or_user_is_another_question() -> None:
    api = FakeApi()
    api.allows("prometheus")
    judge = authorizer(api)
    for path, verb in (("/metrics", "get"), ("/metrics", "delete"), ("/configz", "get")):
        await judge.authorize(PROMETHEUS, path, verb)
    await judge.authorize(User("prometheus", ("others",)), "/metrics", "get")
    assert len(api.asked[ACCESS_REVIEWS]) == 4


async def test_a_question_of_any_length_is_asked_but_a_long_one_not_remembered() -> None:
    api = FakeApi()
    api.allows("prometheus")
    judge = authorizer(api)
    for _ in range(2):
        await judge.authorize(PROMETHEUS, "/" + "x" * 20_000, "get")
    assert len(api.asked[ACCESS_REVIEWS]) == 2


async def test_a_passing_fault_is_waited_out() -> None:
    api, time = FakeApi(), HandClock()
    faults = [ServerError(500, "InternalError"), TransportError("reset", may_be_applied=True)]

    def answer(_: Any) -> Any:
        if faults:
            raise faults.pop()
        return {"status": {"allowed": True, "reason": "RBAC"}}

    api.answers[ACCESS_REVIEWS] = answer
    assert (await authorizer(api, time).authorize(PROMETHEUS, "/metrics", "get")).reason == "RBAC"
    assert time.slept == [0.5, 0.75]


GIVEN_UP = {
    "a server that stays away": (TransportError("refused", may_be_applied=False), 5),
    "a server that keeps failing": (ServerError(503, "ServiceUnavailable"), 5),
    "a server that refuses to be asked": (ForbiddenError(403, "Forbidden"), 1),
}


@pytest.mark.parametrize("case", GIVEN_UP)
async def test_when_no_answer_comes_there_is_no_decision(case: str) -> None:
    error, tries = GIVEN_UP[case]
    api = FakeApi()

    def answer(_: Any) -> Any:
        raise error

    api.answers[ACCESS_REVIEWS] = answer
    with pytest.raises(ReviewError, match="SubjectAccessReview: "):
        await authorizer(api).authorize(PROMETHEUS, "/metrics", "get")
    assert len(api.asked[ACCESS_REVIEWS]) == tries


ODD = {
    "no status at all": {},
    "a status of another kind": {"status": []},
    "both yes and no": {"status": {"allowed": True, "denied": True}},
}


@pytest.mark.parametrize("case", ODD)
async def test_an_answer_that_makes_no_sense_is_no_decision(case: str) -> None:
    api = FakeApi()
    api.answers[ACCESS_REVIEWS] = lambda _: ODD[case]
    with pytest.raises(ReviewError):
        await authorizer(api).authorize(PROMETHEUS, "/metrics", "get")


async def test_decisions_and_reviews_are_counted() -> None:
    registry, api = Registry(), FakeApi()
    api.allows("prometheus")
    judge = authorizer(api, metrics=AccessMetrics(registry))
    await judge.authorize(PROMETHEUS, "/metrics", "get")
    await judge.authorize(ANONYMOUS, "/metrics", "get")
    api.answers.clear()
    with pytest.raises(ReviewError):
        await judge.authorize(ANONYMOUS, "/configz", "get")
    families = {metric.name: metric for metric in registry.collect()}
    results = {s.labels["result"]: s.value for s in families["authorization_attempts"].samples}
    assert results == {"allowed": 1, "no-opinion": 1, "error": 1}
    codes = {s.labels["code"]: s.value for s in families["apiserver_delegated_authz_request"].samples}
    assert codes == {"201": 2, "404": 1}


async def test_memory_keeps_only_so_many_answers_and_drops_the_oldest() -> None:
    time = HandClock()
    memory: Memory[int] = Memory(lambda: time.now_s, limit=2)
    asked: list[int] = []

    async def ask(number: int) -> int:
        async def answer() -> tuple[int, float]:
            asked.append(number)
            return number, 10.0

        return await memory.get(b"%d" % number, answer)

    for number in (1, 2, 3, 3, 2, 1):
        assert await ask(number) == number
    assert asked == [1, 2, 3, 1]


async def test_an_answer_that_holds_for_no_time_is_not_remembered() -> None:
    memory: Memory[int] = Memory(lambda: 0.0)
    answers = iter((1, 2))

    async def answer() -> tuple[int, float]:
        return next(answers), 0.0

    assert [await memory.get(b"x", answer), await memory.get(b"x", answer)] == [1, 2]
