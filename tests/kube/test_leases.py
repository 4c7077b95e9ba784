"""Leader election, in virtual time against a Lease in memory."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube.virtual_time import in_virtual_time, loop_clock, run_in_virtual_time

from berth.kube.errors import AlreadyExistsError, ConflictError, KubeError, NotFoundError, TransportError
from berth.kube.leases import ElectionConfig, LeaderElector, LeadershipLostError, new_identity
from berth.kube.session import JSON

CONFIG = ElectionConfig()
OUTAGE = TransportError("no route", may_be_applied=False)


class LeaseServer:
    """One Lease, with optimistic locking; it can be down (`error`), silent (`hangs`) or slow."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[str] = []
        self.error: KubeError | None = None
        self.hangs = False
        self.delay: Callable[[], float] = lambda: 0.0

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        content_type: str = JSON,
        accept: str = "",
        timeout_s: float | None = None,
    ) -> bytes:
        assert path.startswith("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")
        assert (content_type, accept) == (JSON, "")
        self.requests.append(method)
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.sleep(1e9 if self.hangs else self.delay())
                answer = self._answer(method, None if body is None else msgspec.json.decode(body))
                await asyncio.sleep(self.delay())
                return answer
        except TimeoutError as error:
            raise TransportError("timeout", may_be_applied=True) from error

    def _answer(self, method: str, body: Any) -> bytes:
        if self.error is not None:
            raise self.error
        if method == "POST":
            if self.lease is not None:
                raise AlreadyExistsError(409, "AlreadyExists")
            self.store(body)
        elif self.lease is None:
            raise NotFoundError(404, "NotFound")
        elif method == "PUT":
            if body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise ConflictError(409, "Conflict")
            self.store(body)
        return msgspec.json.encode(self.lease)

    def store(self, lease: dict[str, Any]) -> None:
        self.version += 1
        assert (lease["apiVersion"], lease["kind"]) == ("coordination.k8s.io/v1", "Lease")
        self.lease = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def stream(self, path: str, *, idle_timeout_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError(f"leases are not watched: {path} {idle_timeout_s}")


class Candidate:
    """One instance, its story, and the seconds between which its work ran."""

    def __init__(self, server: LeaseServer, identity: str, *, seed: int = 0, work_s: float = 1e9) -> None:
        self.story: list[str] = []
        self.worked: list[list[float]] = []
        self.work_s = work_s
        self.elector = LeaderElector(
            server,
            CONFIG,
            identity,
            on_started_leading=self._work,
            on_stopped_leading=lambda: self.story.append("stopped"),
            on_new_leader=lambda leader: self.story.append(f"leader {leader}"),
            clock=loop_clock(random.Random(seed).random),
        )
        self.task = asyncio.create_task(self.elector.run())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        self.worked.append([loop.time(), float("inf")])
        self.story.append("work")
        try:
            await asyncio.sleep(self.work_s)
        finally:
            self.worked[-1][1] = loop.time()
            self.story.append("work ended")

    @property
    def leads(self) -> bool:
        return bool(self.worked) and self.worked[-1][1] == float("inf")

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@in_virtual_time
async def test_a_fresh_cluster_gets_a_lease_with_no_transitions() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(1)
    assert one.leads
    now = "2023-11-14T22:13:20.000000Z"
    assert server.spec == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    await one.stop()


@in_virtual_time
async def test_a_leader_renews_without_reading_and_keeps_what_it_acquired() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.requests == ["GET", "POST", "PUT", "PUT"]
    assert server.spec["acquireTime"] == "2023-11-14T22:13:20.000000Z"
    assert server.spec["renewTime"] == "2023-11-14T22:13:24.000000Z"
    assert server.spec["leaseTransitions"] == 0
    assert one.elector.may_still_lead
    await one.stop()


@in_virtual_time
async def test_a_killed_leader_is_succeeded_a_lease_duration_after_it_was_last_seen() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    one.task.cancel()
    server.error = OUTAGE  # killed: it cannot release
    await asyncio.sleep(0)
    await asyncio.gather(one.task, return_exceptions=True)
    server.error = None
    started_s = asyncio.get_running_loop().time()
    two = Candidate(server, "two")
    await asyncio.sleep(14.9)
    assert not two.leads
    await asyncio.sleep(4.5)
    assert two.worked[0][0] - started_s >= 15
    assert server.spec["leaseTransitions"] == 1
    await two.stop()


@in_virtual_time
async def test_a_leader_that_leaves_stops_its_work_and_then_releases() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    server.requests.clear()
    await one.stop()
    assert one.story == ["leader one", "work", "work ended", "stopped"]
    assert server.requests == ["GET", "PUT"]
    now = "2023-11-14T22:13:25.000000Z"
    assert server.spec == {
        "holderIdentity": "",
        "leaseDurationSeconds": 1,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }


@in_virtual_time
async def test_a_released_lease_is_taken_within_the_next_attempt() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(1)
    two = Candidate(server, "two", seed=1)
    await asyncio.sleep(20)
    assert not two.leads
    await one.stop()
    left_s = asyncio.get_running_loop().time()
    await asyncio.sleep(4.4)
    assert two.worked[0][0] - left_s <= 4.4
    assert server.spec["leaseTransitions"] == 1
    assert two.story == ["leader one", "leader two", "work"]
    await two.stop()


@in_virtual_time
async def test_an_outage_shorter_than_the_deadline_changes_nothing() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    server.error = OUTAGE
    await asyncio.sleep(9)
    server.error = None
    await asyncio.sleep(30)
    assert one.leads
    await one.stop()


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
def test_work_is_cancelled_within_the_deadline_when_the_server(hangs: bool) -> None:
    async def check() -> None:
        server = LeaseServer()
        one = Candidate(server, "one")
        await asyncio.sleep(5)  # the last renewal was at 4 s
        server.error, server.hangs = None if hangs else OUTAGE, hangs
        with pytest.raises(LeadershipLostError, match="kube-system/kube-scheduler could not be renewed within 10"):
            await one.task
        assert one.worked[0][1] == pytest.approx(4 + CONFIG.retry_period_s + CONFIG.renew_deadline_s)
        assert one.story == ["leader one", "work", "work ended", "stopped"]

    run_in_virtual_time(check())


@in_virtual_time
async def test_a_holder_written_by_hand_ends_leading_and_is_left_alone() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.lease is not None
    server.store({**server.lease, "spec": {**server.spec, "holderIdentity": "somebody"}})
    with pytest.raises(LeadershipLostError):
        await one.task
    assert server.spec["holderIdentity"] == "somebody"
    assert one.story[:3] == ["leader one", "work", "leader somebody"]


@in_virtual_time
async def test_a_lease_deleted_while_leading_is_made_again() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    server.lease = None
    await asyncio.sleep(20)
    assert one.leads
    assert server.spec["leaseTransitions"] == 0
    await one.stop()


@in_virtual_time
async def test_an_edit_of_labels_costs_one_slow_renewal_and_survives() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    assert server.lease is not None
    server.store({**server.lease, "metadata": {**server.lease["metadata"], "labels": {"team": "infra"}}})
    await asyncio.sleep(5)
    assert one.leads
    assert one.elector.slow_renewals == 1
    assert server.lease["metadata"]["labels"] == {"team": "infra"}
    await one.stop()


@in_virtual_time
async def test_an_edit_of_labels_does_not_keep_a_dead_leader_alive() -> None:
    server = LeaseServer()
    server.store(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "kube-scheduler"},
            "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "leaseTransitions": 4},
        }
    )
    two = Candidate(server, "two")
    for count in range(4):
        await asyncio.sleep(5)
        assert server.lease is not None
        server.store({**server.lease, "metadata": {**server.lease["metadata"], "labels": {"n": str(count)}}})
    assert two.leads
    assert server.spec["leaseTransitions"] == 5
    await two.stop()


@in_virtual_time
async def test_work_that_ends_releases_the_lease() -> None:
    server = LeaseServer()
    one = Candidate(server, "one", work_s=7)
    await one.task
    assert server.spec["holderIdentity"] == ""


@in_virtual_time
async def test_work_that_fails_releases_the_lease_and_its_error_comes_out() -> None:
    server = LeaseServer()

    async def fail() -> None:
        await asyncio.sleep(3)
        raise RuntimeError("the work broke")

    elector = LeaderElector(
        server, CONFIG, "one", on_started_leading=fail, on_stopped_leading=lambda: None, clock=loop_clock()
    )
    with pytest.raises(RuntimeError, match="the work broke"):
        await elector.run()
    assert server.spec["holderIdentity"] == ""


@in_virtual_time
async def test_a_candidate_that_never_led_still_reports_that_it_stopped_and_writes_nothing() -> None:
    server = LeaseServer()
    one, two = Candidate(server, "one"), Candidate(server, "two", seed=1)
    await asyncio.sleep(5)
    await two.stop()
    assert two.story == ["leader one", "stopped"]
    assert server.spec["holderIdentity"] == "one"
    await one.stop()


@in_virtual_time
async def test_a_process_that_slept_too_long_knows_that_it_may_not_lead_any_more() -> None:
    server = LeaseServer()
    one = Candidate(server, "one")
    await asyncio.sleep(5)
    before = one.elector.may_still_lead
    server.hangs = True
    asyncio.get_running_loop().jumping.now_s += 15  # type: ignore[attr-defined]  # the process was stopped
    assert (before, one.elector.may_still_lead) == (True, False)
    assert one.elector.is_leader
    await one.stop()


outages = st.lists(
    st.tuples(st.sampled_from(["up", "down", "hangs", "slow"]), st.floats(0.1, 30)), min_size=1, max_size=12
)


@settings(max_examples=60, deadline=None)
@given(script=outages, seed=st.integers(0, 1000), leaves=st.floats(1, 60))
def test_two_candidates_never_work_at_the_same_time(script: list[tuple[str, float]], seed: int, leaves: float) -> None:
    async def play() -> None:
        server = LeaseServer()
        chance = random.Random(seed)
        candidates = [Candidate(server, f"c{n}", seed=seed + n) for n in range(3)]
        leaver = asyncio.get_running_loop().call_later(leaves, candidates[0].task.cancel)
        for mode, lasts_s in script:
            server.error = OUTAGE if mode == "down" else None
            server.hangs = mode == "hangs"
            server.delay = (lambda: chance.uniform(0, 3)) if mode == "slow" else (lambda: chance.uniform(0, 0.05))
            await asyncio.sleep(lasts_s)
        leaver.cancel()
        for candidate in candidates:
            await candidate.stop()
        worked = sorted(tuple(times) for candidate in candidates for times in candidate.worked)
        for (_, ended_s), (started_s, _) in itertools.pairwise(worked):
            assert ended_s <= started_s

    run_in_virtual_time(play())


BAD_CONFIGS: dict[str, tuple[dict[str, float], str]] = {
    "the lease must outlast the deadline": ({"lease_duration_s": 10}, "leaseDuration"),
    "the deadline must leave room for a retry": ({"renew_deadline_s": 2.4}, "renewDeadline"),
    "nothing may be zero": ({"retry_period_s": 0}, "greater than zero"),
}


@pytest.mark.parametrize(("changes", "want"), BAD_CONFIGS.values(), ids=BAD_CONFIGS.keys())
def test_durations_that_make_no_sense_are_refused(changes: dict[str, Any], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        ElectionConfig(**changes)


@in_virtual_time
async def test_an_elector_needs_an_identity() -> None:
    async def work() -> None: ...

    with pytest.raises(ValueError, match="identity"):
        LeaderElector(LeaseServer(), CONFIG, "", on_started_leading=work, on_stopped_leading=lambda: None)


def test_identities_name_the_host_and_are_new_every_time() -> None:
    assert re.fullmatch(r".+_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", new_identity())
    assert new_identity() != new_identity()
