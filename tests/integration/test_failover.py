"""Two replicas, one of which leads: whatever becomes of the leader, the other takes over, and no pod pays for it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.clusters import REPLICAS
from tests.integration.objects import a_node, a_pod
from tests.integration.scene import Scene
from tests.integration.turmoil import Creation, a_crowd, a_landscape, names
from tests.support.scheduler import LEADING

if TYPE_CHECKING:
    from tests.integration.audit import Audit
    from tests.integration.clusters import RealCluster
    from tests.integration.objects import JsonObject
    from tests.support.scheduler import SchedulerProcess

pytestmark = pytest.mark.timeout(300)

QUICK = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
PATIENT = {"leaseDuration": "600s", "renewDeadline": "500s", "retryPeriod": "1s"}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
IN_HAND = 2  # requests that a process may have begun to send when it was stopped; nothing can call those back
FIRST, SECOND = REPLICAS


class Pair:
    """Two replicas for one lease, each with an account of its own, so that the audit log tells them apart."""

    def __init__(self, scene: Scene, cluster: RealCluster, lease: str, durations: dict[str, str]) -> None:
        self._scene, self._cluster = scene, cluster
        self.lease, self._durations = lease, durations

    def start(self, user: str, connection: dict[str, Any]) -> SchedulerProcess:
        election = {"leaderElect": True, "resourceName": self.lease, **self._durations}
        kubeconfig = self._cluster.plane.kubeconfig_for(user)
        config = {"leaderElection": election}
        return self._scene.start_scheduler(config=config, connection=connection, kubeconfig=kubeconfig)

    def leader_and_standby(self, **connection: int) -> tuple[SchedulerProcess, SchedulerProcess]:
        """A leader, and a standby that knows about it."""
        speed = connection or {"qps": 2000, "burst": 2000}
        leader = self.start(FIRST, speed).wait_log(LEADING)
        standby = self.start(SECOND, speed).wait_synced().wait_log("leader: ")
        return leader, standby

    def record(self) -> JsonObject:
        """The lease as it is."""
        spec: JsonObject = self._scene.api.get(f"{LEASES}/{self.lease}")["spec"]
        return spec


@pytest.fixture
def scene(real_scene: Scene) -> Scene:
    return real_scene


def a_pair(scene: Scene, cluster: RealCluster, request: pytest.FixtureRequest, durations: dict[str, str]) -> Pair:
    return Pair(scene, cluster, request.node.name.replace("_", "-"), durations)


@pytest.fixture
def quick(scene: Scene, real_cluster: RealCluster, request: pytest.FixtureRequest) -> Pair:
    """A pair whose lease runs out within seconds."""
    return a_pair(scene, real_cluster, request, QUICK)


@pytest.fixture
def patient(scene: Scene, real_cluster: RealCluster, request: pytest.FixtureRequest) -> Pair:
    """A pair whose lease does not run out while a test lasts."""
    return a_pair(scene, real_cluster, request, PATIENT)


def test_the_standby_takes_over_from_a_killed_leader_under_load(scene: Scene, quick: Pair, audit: Audit) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(24))
    leader, standby = quick.leader_and_standby()
    crowd = a_crowd(100)
    with Creation(scene.api, crowd):
        scene.until("some pods are bound", lambda: len(scene.placements()) >= 20)
        leader.kill()
        standby.wait_log(LEADING)
    scene.bound(*names(crowd))

    scene.assert_bound_once(since)
    assert scene.overcommitted() == []
    assert quick.record()["leaseTransitions"] == 1
    (taken, *_) = audit.leases(quick.lease, by=SECOND)
    assert audit.bindings(by=SECOND)[0].received > taken.answered
    assert audit.bindings(by=FIRST)[-1].received < taken.received


def test_a_leader_that_is_asked_to_stop_hands_over_at_once(scene: Scene, patient: Pair, audit: Audit) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(24))
    leader, standby = patient.leader_and_standby()
    crowd = a_crowd(100)
    with Creation(scene.api, crowd):
        scene.until("some pods are bound", lambda: len(scene.placements()) >= 20)
        assert leader.terminate() == 0
        standby.wait_log(LEADING)  # long before the lease would have run out
    scene.bound(*names(crowd))

    scene.assert_bound_once(since)
    assert scene.overcommitted() == []
    released = audit.leases(patient.lease, by=FIRST)[-1]
    assert (released.code, released.body["spec"]["holderIdentity"]) == (200, "")
    assert released.body["spec"]["leaseDurationSeconds"] == 1
    assert audit.bindings(by=FIRST)[-1].answered < released.received
    assert standby.terminate() == 0


def test_a_standby_that_is_asked_to_stop_leaves_the_lease_alone(scene: Scene, patient: Pair) -> None:
    scene.create(a_node("node-a"))
    leader, standby = patient.leader_and_standby()
    before = patient.record()["holderIdentity"]
    assert standby.terminate() == 0
    assert patient.record()["holderIdentity"] == before
    scene.watch_over(leader)
    scene.create(a_pod("web"))
    scene.bound("web")


def test_a_leader_goes_on_leading_when_the_server_comes_back_in_time(scene: Scene, patient: Pair) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(24))
    leader, standby = patient.leader_and_standby()
    scene.watch_over(leader)
    before = patient.record()
    crowd = a_crowd(100)
    with Creation(scene.api, crowd):
        scene.until("some pods are bound", lambda: len(scene.placements()) >= 20)
        scene.cluster.restart()
    scene.bound(*names(crowd))

    scene.assert_bound_once(since)
    assert scene.overcommitted() == []
    scene.until("the lease is renewed", lambda: patient.record()["renewTime"] > before["renewTime"])
    assert patient.record()["holderIdentity"] == before["holderIdentity"]
    assert LEADING not in standby.log_text()


def test_a_leader_whose_lease_is_taken_stops_and_fails(scene: Scene, quick: Pair, audit: Audit) -> None:
    scene.create(*a_landscape(24))
    leader = quick.start(FIRST, {"qps": 2000, "burst": 2000}).wait_log(LEADING)
    with Creation(scene.api, a_crowd(100)):
        scene.until("some pods are bound", lambda: len(scene.placements()) >= 20)
        thief = {"holderIdentity": "thief", "leaseDurationSeconds": 600}
        scene.api.patch(f"{LEASES}/{quick.lease}", {"spec": thief})
        assert leader.wait_ended() == 1
    assert error_lines(leader) == [f"Error: lease kube-system/{quick.lease} could not be renewed within 4.0 s"]
    renewed = [write for write in audit.leases(quick.lease, by=FIRST) if write.code in (200, 201)][-1]
    last = audit.bindings(by=FIRST)[-1]
    assert moment(last.received) <= moment(renewed.answered) + timedelta(seconds=6)
    assert quick.record()["holderIdentity"] == "thief"


def test_a_leader_that_hung_while_the_other_took_over_binds_nothing_that_waited(
    scene: Scene, quick: Pair, audit: Audit
) -> None:
    since = scene.cluster.revision()
    scene.create(*a_landscape(24))
    leader, standby = quick.leader_and_standby(qps=20, burst=10)
    pods = scene.create(*a_crowd(120))
    scene.until("some pods are bound", lambda: len(scene.placements()) >= 20)
    leader.pause()  # with bindings under way, and more that wait for their turn
    standby.wait_log(LEADING)
    leader.resume()
    assert leader.wait_ended() == 1
    scene.bound(*names(pods))

    scene.assert_bound_once(since)
    assert scene.overcommitted() == []
    (taken, *_) = audit.leases(quick.lease, by=SECOND)
    late = [binding for binding in audit.bindings(by=FIRST) if binding.received > taken.answered]
    assert len(late) <= IN_HAND


def error_lines(scheduler: SchedulerProcess) -> list[str]:
    return [line for line in scheduler.log_text().splitlines() if line.startswith("Error: ")]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
