"""Bindings whose answers get lost, against scripted answers over real HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kube.builders import SkippedTime, until
from tests.kube.fake_server import Answer, FakeServer, keeper_for, status_answer

from berth.kube.binding import Binder, BindOutcome, BindResult
from berth.kube.errors import ConflictError, ForbiddenError, NotFoundError, ServerError, TransportError
from berth.kube.pacing import TokenBucket
from berth.kube.session import ApiSession

POD = "/api/v1/namespaces/ns/pods/web"
BINDING = POD + "/binding"
OK = Answer(201, {"kind": "Status", "status": "Success"})


def a_pod(*, node: str = "", uid: str = "u1", terminating: bool = False) -> Answer:
    metadata: dict[str, Any] = {"name": "web", "uid": uid}
    if terminating:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Answer(body={"metadata": metadata, "spec": {"nodeName": node} if node else {}})


async def bind(server: FakeServer, time: SkippedTime, *, timeout_s: float = 30) -> BindOutcome:
    async with ApiSession(keeper_for(server.url), timeout_s=timeout_s) as session:
        binder = Binder(session, TokenBucket(-1, 0, clock=time.clock), clock=time.clock)
        return await binder.bind_pod("ns", "web", "u1", "n1")


async def test_a_binding_names_pod_uid_and_node() -> None:
    server = FakeServer()
    server.on("POST", BINDING, OK)
    async with server.running():
        outcome = await bind(server, SkippedTime())
    assert outcome == BindOutcome(BindResult.BOUND)
    assert server.seen[0].body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u1"},
        "target": {"kind": "Node", "name": "n1"},
    }


LOST = Answer(drop=True)
TIMED_OUT = status_answer(504, "Timeout")
TAKEN = status_answer(409, "Conflict")
SLOWLY = status_answer(429, "TooManyRequests", Retry_After="3")

# first answers to POST, first answers to GET, what comes of it, POSTs sent
CASES: dict[str, tuple[list[Answer], list[Answer], BindResult, int]] = {
    "a lost answer to a binding that took place": ([LOST], [a_pod(node="n1")], BindResult.BOUND, 1),
    "a server error after the binding took place": ([TIMED_OUT], [a_pod(node="n1")], BindResult.BOUND, 1),
    "a conflict with our own earlier binding": ([TAKEN], [a_pod(node="n1")], BindResult.BOUND, 1),
    "a conflict with somebody else's binding": ([TAKEN], [a_pod(node="n2")], BindResult.CONFLICT, 1),
    "a lost answer, and the pod was recreated": ([LOST], [a_pod(uid="u2")], BindResult.CONFLICT, 1),
    "a lost answer, and the pod was recreated on our node": (
        [LOST],
        [a_pod(uid="u2", node="n1")],
        BindResult.CONFLICT,
        1,
    ),
    "a lost answer, and the pod is gone": ([LOST], [status_answer(404, "NotFound")], BindResult.GONE, 1),
    "a lost answer to a binding that did not take place": ([LOST, OK], [a_pod()], BindResult.BOUND, 2),
    "two lost answers, the second binding took place": (
        [LOST, LOST],
        [a_pod(), a_pod(node="n1")],
        BindResult.BOUND,
        2,
    ),
    "a pod that is being deleted": ([TAKEN], [a_pod(terminating=True)], BindResult.FAILED, 1),
    "no such pod": ([status_answer(404, "NotFound")], [], BindResult.GONE, 1),
    "no right to bind": ([status_answer(403, "Forbidden")], [], BindResult.FAILED, 1),
    "too many requests, then success": ([SLOWLY, OK], [], BindResult.BOUND, 2),
    "too many requests without end": ([SLOWLY], [], BindResult.FAILED, 5),
    "server errors without end that never bind": ([TIMED_OUT], [a_pod()], BindResult.FAILED, 5),
    "a read that fails for a while": (
        [LOST],
        [status_answer(500), LOST, LOST, status_answer(401), Answer(body="{}"), a_pod(node="n1")],
        BindResult.BOUND,
        1,
    ),
}


@pytest.mark.parametrize(("posts", "gets", "want", "want_posts"), CASES.values(), ids=CASES.keys())
async def test_what_becomes_of_a_binding(
    posts: list[Answer], gets: list[Answer], want: BindResult, want_posts: int
) -> None:
    server = FakeServer()
    server.on("POST", BINDING, *posts)
    server.on("GET", POD, *gets)
    async with server.running():
        outcome = await bind(server, SkippedTime())
    assert (outcome.result, outcome.posts) == (want, want_posts)
    assert len(server.asked("POST")) == want_posts
    assert (outcome.error is None) == (want is BindResult.BOUND)


ERRORS = {
    "a conflict keeps its error and names the other node": (TAKEN, a_pod(node="n2"), ConflictError, "n2"),
    "a refusal keeps its error": (status_answer(403), a_pod(), ForbiddenError, ""),
    "a pod that may not be read tells that": (TAKEN, status_answer(403), ForbiddenError, ""),
    "a pod that is gone keeps its error": (status_answer(404), a_pod(), NotFoundError, ""),
    "server errors keep the last one": (TIMED_OUT, a_pod(), ServerError, ""),
}


@pytest.mark.parametrize(("post", "get", "want", "node"), ERRORS.values(), ids=ERRORS.keys())
async def test_what_an_unsuccessful_outcome_tells(post: Answer, get: Answer, want: type[Exception], node: str) -> None:
    server = FakeServer()
    server.on("POST", BINDING, post)
    server.on("GET", POD, get)
    async with server.running():
        outcome = await bind(server, SkippedTime())
    assert isinstance(outcome.error, want)
    assert outcome.node == node


async def test_retry_after_is_honoured_before_another_post() -> None:
    server, time = FakeServer(), SkippedTime()
    server.on("POST", BINDING, SLOWLY, OK)
    async with server.running():
        await bind(server, time)
    assert time.slept_s == [3.0]


async def test_a_server_that_cannot_be_reached_was_certainly_not_asked() -> None:
    server, time = FakeServer(), SkippedTime()
    async with server.running():
        pass
    outcome = await bind(server, time)
    assert (outcome.result, outcome.posts) == (BindResult.FAILED, 5)
    assert isinstance(outcome.error, TransportError)
    assert not outcome.error.may_be_applied


async def test_a_binding_that_waited_for_its_turn_is_sent_only_if_it_still_may_be() -> None:
    server, time = FakeServer(), SkippedTime()
    server.on("POST", BINDING, SLOWLY, OK)
    answers = iter([False, True, False, False, True])  # asked before the first POST, and again before the second
    async with server.running(), ApiSession(keeper_for(server.url)) as session:
        binder = Binder(session, TokenBucket(-1, 0, clock=time.clock), clock=time.clock)
        outcome = await binder.bind_pod("ns", "web", "u1", "n1", lambda: next(answers))
    assert outcome == BindOutcome(BindResult.BOUND, posts=2)
    assert time.slept_s == [0.1, 3.0, 0.1, 0.1]


async def test_a_hung_post_is_settled_by_a_read() -> None:
    server = FakeServer()
    server.on("POST", BINDING, Answer(hang=True))
    server.on("GET", POD, a_pod(node="n1"))
    async with server.running():
        outcome = await bind(server, SkippedTime(), timeout_s=0.05)
    assert outcome.result is BindResult.BOUND


async def test_an_unsettled_binding_is_asked_about_until_it_is_cancelled() -> None:
    server = FakeServer()
    server.on("POST", BINDING, LOST)
    server.on("GET", POD, status_answer(500))
    async with server.running():
        task = asyncio.create_task(bind(server, SkippedTime()))
        await until(lambda: len(server.asked("GET")) > 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert len(server.asked("POST")) == 1
