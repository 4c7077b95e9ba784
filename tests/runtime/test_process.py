"""The running scheduler in virtual time: its start, its leadership, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import a_node, a_pod
from tests.config.builders import a_document, decoded, names
from tests.kube.virtual_time import in_virtual_time, loop_clock, run_in_virtual_time
from tests.runtime.cluster_api import LEASE_EVENTS, LEASES, NODES, PODS, ClusterApi, refusing

from berth.config.gates import features_of
from berth.config.options import RunOptions
from berth.config.versions import row_of
from berth.kube.errors import ApiError, ForbiddenError, KubeError, ServerError, TransportError, UnauthorizedError
from berth.kube.leases import LeadershipLostError
from berth.runtime.faults import StartError
from berth.runtime.metrics.instruments import Registry
from berth.runtime.process import Process

if TYPE_CHECKING:
    from berth.kube.clock import Clock

LEASE = f"{LEASES}/kube-scheduler"
ALONE = {"leaderElect": False}
OUTAGE = TransportError("no route", may_be_applied=False)
BINDING = "/api/v1/namespaces/default/pods/web/binding"


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    """The process tells the garbage collector of the interpreter how to behave."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@dataclass
class Running:
    """A process at work, and its world."""

    api: ClusterApi
    process: Process
    registry: Registry
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def start(self, others: Sequence[Coroutine[Any, Any, None]] = ()) -> Running:
        self.task = asyncio.create_task(self.process.run(self.stop, others))
        return self

    async def ended(self) -> float:
        """When the process has ended; raises what it ended with."""
        assert self.task is not None
        await self.task
        return asyncio.get_running_loop().time()

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()

    def leading(self) -> float | None:
        """What the metric of leadership shows; None for nothing."""
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name == "leader_election_master_status":
                    return sample.value
        return None


def a_process(api: ClusterApi, *, clock: Clock | None = None, election: Any = ALONE, **config: Any) -> Running:
    row, registry = row_of("1.37"), Registry()
    process = Process(
        RunOptions(),
        decoded(a_document(leaderElection=election, **config)),
        row,
        features_of(row),
        registry,
        api,
        api,
        clock or loop_clock(),
    )
    return Running(api, process, registry)


@asynccontextmanager
async def running(
    api: ClusterApi | None = None, *, clock: Clock | None = None, **options: Any
) -> AsyncIterator[Running]:
    """A process that runs until the end of the block, and leaves nothing behind."""
    api = api or ClusterApi()
    it = a_process(api, clock=clock, **options).start()
    assert it.task is not None
    try:
        yield it
    finally:
        it.task.cancel()
        await asyncio.gather(it.task, return_exceptions=True)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def with_node() -> ClusterApi:
    api = ClusterApi()
    api.add(a_node())
    return api


# -- at work ----------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_pods_that_were_there_and_pods_that_come_are_bound_and_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    api = with_node()
    api.add(a_pod("first"))
    async with running(api) as it:
        await asyncio.sleep(1)
        assert it.process.synced
        api.add(a_pod("second"))
        await asyncio.sleep(1)
    assert api.placements() == {"first": "n1", "second": "n1"}
    assert api.notes("Scheduled") == [f"Successfully assigned default/{name} to n1" for name in ("first", "second")]
    assert "synced: 1 nodes, 1 pods" in caplog.messages


@in_virtual_time
async def test_nothing_is_decided_before_all_is_known() -> None:
    api = with_node()
    api.add(a_pod())
    api.fault = refusing(ServerError(503, "ServiceUnavailable"), ("GET", NODES))
    async with running(api) as it:
        await asyncio.sleep(60)
        assert (it.process.synced, it.is_running) == (False, True)
        assert api.notes("FailedScheduling") == []
        api.fault = lambda _method, _path: None
        await asyncio.sleep(30)
        assert it.process.synced
    assert api.placements() == {"web": "n1"}


@in_virtual_time
async def test_plugins_that_are_left_out_are_named(caplog: pytest.LogCaptureFixture) -> None:
    profile = {"plugins": {"score": {"enabled": names("PodGroupPodsCount")}}}
    a_process(ClusterApi(), profiles=[profile])
    (line,) = [message for message in caplog.messages if "do not exist" in message]
    assert line.startswith("profile default-scheduler: these plugins do not exist yet")
    assert "PodGroupPodsCount" in line


@in_virtual_time
async def test_a_configuration_that_cannot_be_had_ends_the_start() -> None:
    profile = {"plugins": {"filter": {"enabled": names("NoSuch")}}}
    with pytest.raises(StartError, match=r"^profiles\[0\]: .* FilterPlugin \"NoSuch\" does not exist$"):
        a_process(ClusterApi(), profiles=[profile])


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ForbiddenError(403, "Forbidden", "no"), UnauthorizedError(401, "Unauthorized", "no")]
)
@pytest.mark.parametrize("path", [PODS, NODES])
def test_who_may_not_read_at_the_start_is_told_what_to_mend(path: str, error: ApiError) -> None:
    async def main() -> None:
        api = with_node()
        api.fault = refusing(error, ("GET", path))
        it = a_process(api).start()
        with pytest.raises(StartError) as raised:
            await it.ended()
        assert str(raised.value) == f"list {path}: {error}"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@in_virtual_time
async def test_a_refusal_later_is_a_warning_and_its_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    api = with_node()
    async with running(api) as it:
        await asyncio.sleep(1)
        api.fault = refusing(ForbiddenError(403, "Forbidden", "not now"), ("WATCH", PODS))
        api.end_watches(PODS)
        await asyncio.sleep(45)
        assert it.is_running
        api.fault = lambda _method, _path: None
        await asyncio.sleep(30)
        api.add(a_pod())
        await asyncio.sleep(1)
    warnings = [message for message in caplog.messages if message.startswith(f"watch {PODS}")]
    assert warnings[0] == f"watch {PODS}: 403 Forbidden: not now"
    assert warnings[1].startswith(f"watch {PODS}: works again after ")
    assert len(warnings) == 2
    assert api.placements() == {"web": "n1"}


# -- the end ----------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_asked_to_stop_it_ends_what_it_has_begun_and_begins_nothing_more() -> None:
    api = with_node()
    api.takes_s = 3
    it = a_process(api).start()
    await asyncio.sleep(1)
    api.add(a_pod("begun"))
    await asyncio.sleep(1)
    it.stop.set()
    await asyncio.sleep(1)
    api.add(a_pod("late"))
    assert await it.ended() == pytest.approx(4, abs=0.1)
    assert api.placements() == {"begun": "n1"}
    assert not api.was_asked("POST", "/api/v1/namespaces/default/pods/late/binding")
    assert api.notes("Scheduled") == ["Successfully assigned default/begun to n1"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_asked_to_stop_it_does_not_wait_for_ever() -> None:
    api = with_node()
    api.takes_s = 1000
    it = a_process(api).start()
    api.add(a_pod())
    await asyncio.sleep(1)
    it.stop.set()
    assert await it.ended() == pytest.approx(6, abs=0.1)
    assert api.placements() == {}


@in_virtual_time
async def test_asked_to_stop_before_it_is_ready_it_stops() -> None:
    api = ClusterApi()
    api.fault = lambda _method, _path: OUTAGE
    it = a_process(api).start()
    await asyncio.sleep(1)
    it.stop.set()
    assert await it.ended() == pytest.approx(1, abs=0.1)


@in_virtual_time
async def test_what_breaks_beside_it_ends_it() -> None:
    async def breaks() -> None:
        await asyncio.sleep(5)
        raise RuntimeError("a bug")

    it = a_process(with_node()).start([breaks()])
    with pytest.raises(RuntimeError, match="a bug"):
        await it.ended()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_what_ends_beside_it_and_should_not_ends_it_too() -> None:
    it = a_process(with_node()).start([asyncio.sleep(5)])
    with pytest.raises(RuntimeError, match="ended by itself"):
        await it.ended()


@in_virtual_time
async def test_a_bug_in_a_handler_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    it = a_process(with_node())

    def broken(_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(it.process.engine(), "node_added", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        await it.start().ended()


# -- leadership -------------------------------------------------------------------------------------------------------


@in_virtual_time
async def test_the_leader_says_so_and_gives_the_lease_up_when_it_stops() -> None:
    api = with_node()
    api.add(a_pod())
    it = a_process(api, election={}).start()
    assert it.leading() == 0
    await asyncio.sleep(5)
    assert it.leading() == 1
    assert api.placements() == {"web": "n1"}
    assert api.lease is not None
    identity = api.lease["spec"]["holderIdentity"]
    it.stop.set()
    await it.ended()
    assert it.leading() == 0
    assert api.lease["spec"]["holderIdentity"] == ""
    events = api.bodies["POST", LEASE_EVENTS]
    assert [event["message"] for event in events] == [f"{identity} became leader", f"{identity} stopped leading"]
    assert {(event["reason"], event["source"]["component"]) for event in events} == {
        ("LeaderElection", "default-scheduler")
    }
    assert events[0]["involvedObject"] == {
        "kind": "Lease",
        "namespace": "kube-system",
        "name": "kube-scheduler",
        "apiVersion": "coordination.k8s.io/v1",
    }


@in_virtual_time
async def test_a_standby_knows_all_and_decides_nothing_until_it_leads() -> None:
    api = with_node()
    api.hold_lease("somebody")
    api.add(a_pod())
    async with running(api, election={}) as it:
        await asyncio.sleep(10)
        assert (it.process.synced, it.leading()) == (True, 0)
        assert api.placements() == {}
        await asyncio.sleep(15)  # the other one is silent
        assert it.leading() == 1
        assert api.placements() == {"web": "n1"}


@in_virtual_time
async def test_a_standby_that_stops_leaves_the_lease_alone_and_has_nothing_to_say() -> None:
    api = with_node()
    api.hold_lease("somebody")
    it = a_process(api, election={}).start()
    await asyncio.sleep(5)
    it.stop.set()
    await it.ended()
    assert api.lease is not None
    assert api.lease["spec"]["holderIdentity"] == "somebody"
    assert api.bodies["POST", LEASE_EVENTS] == []


@in_virtual_time
async def test_a_standby_that_is_to_read_late_reads_nothing_before_it_leads() -> None:
    api = with_node()
    api.hold_lease("somebody")
    api.add(a_pod())
    async with running(api, election={}, delayCacheUntilActive=True) as it:
        await asyncio.sleep(10)
        assert (it.process.synced, {path for _, path in api.asked}) == (False, {LEASE})
        await asyncio.sleep(15)
        assert it.process.synced
        assert api.placements() == {"web": "n1"}


@in_virtual_time
async def test_without_an_election_reading_late_means_nothing() -> None:
    async with running(with_node(), delayCacheUntilActive=True) as it:
        await asyncio.sleep(1)
        assert it.process.synced


@in_virtual_time
async def test_without_an_election_there_is_no_lease_and_nothing_to_show_of_one() -> None:
    api = with_node()
    async with running(api) as it:
        await asyncio.sleep(5)
        assert it.leading() is None
        assert it.process.election_check is None
    assert not any(path.startswith(LEASES) for _, path in api.asked)


def losing_the_lease(method: str, path: str) -> KubeError | None:
    del method
    return OUTAGE if path.startswith(LEASES) else None


@in_virtual_time
async def test_who_loses_the_lease_stops_at_once_and_says_why() -> None:
    api = with_node()
    it = a_process(api, election={}).start()
    await asyncio.sleep(5)
    api.takes_s = 1000
    api.add(a_pod())
    api.fault = losing_the_lease
    with pytest.raises(LeadershipLostError, match=r"lease kube-system/kube-scheduler could not be renewed within 10"):
        await it.ended()
    assert asyncio.get_running_loop().time() < 5 + 15 + 2
    assert it.leading() == 0
    assert api.placements() == {}
    assert asyncio.all_tasks() == {asyncio.current_task()}


@in_virtual_time
async def test_losing_the_lease_while_it_stops_is_no_fault() -> None:
    api = with_node()
    it = a_process(api, election={}).start()
    await asyncio.sleep(5)
    api.takes_s = 1000
    api.add(a_pod())
    api.fault = losing_the_lease
    await asyncio.sleep(8)
    assert it.is_running
    it.stop.set()
    await it.ended()
    assert it.leading() == 0


@in_virtual_time
async def test_who_was_asleep_for_longer_than_the_lease_binds_nothing_before_it_has_renewed() -> None:
    clock, asleep_s = loop_clock(), [0.0]
    loop = asyncio.get_running_loop()
    api = with_node()
    async with running(api, election={}, clock=replace(clock, monotonic=lambda: loop.time() + asleep_s[0])) as it:
        await asyncio.sleep(4.5)
        check = it.process.election_check
        assert check is not None
        assert check() is None
        asleep_s[0] = 60
        assert check() == "failed election to renew leadership on lease"
        api.add(a_pod())
        await asyncio.sleep(0.1)
        assert not api.was_asked("POST", BINDING)
        await asyncio.sleep(10)
        assert check() is None
        assert api.placements() == {"web": "n1"}
        assert api.notes("FailedScheduling") == []
