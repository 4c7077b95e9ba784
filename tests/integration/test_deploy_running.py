"""What a deployed scheduler misses when one of its rights is taken away while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.deployment import manifest
from tests.integration.devices import claims
from tests.integration.objects import a_node, a_pod
from tests.integration.rights import (
    BIND,
    CLAIM,
    EVENT,
    EVICT,
    FINALIZE,
    GIVE,
    GIVE_FOR_GOOD,
    MAY,
    OURS,
    PROMISE,
    READ_POD,
    READS,
    SELECT,
    SERIES,
    STATUS,
    UNCLAIM,
    WHO,
    contested_node,
    contested_pod,
    gpus,
    not_used,
    pod_asking_for_device,
    pod_refused_again_and_again,
    pod_with_claim,
    pod_with_device,
    pod_with_left_over_claim,
    scrape,
    series,
    storage,
    until_refused,
    until_told,
)
from tests.integration.scene import Scene, condition_of
from tests.support.client import ApiClient, ApiError
from tests.support.scheduler import LEADING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.audit import Audit, Deed
    from tests.integration.clusters import RealCluster
    from tests.integration.deployment import Deployed, Running
    from tests.integration.objects import JsonObject

pytestmark = pytest.mark.timeout(300)


# The leader has to outlive restarts of the API server.
LONG = {"leaseDuration": "300s", "renewDeadline": "200s", "retryPeriod": "2s"}


@pytest.fixture(scope="module")
def resident(
    deployed: Deployed, real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A scheduler that runs on while rights are taken away from it."""
    scene = Scene(real_cluster, tmp_path_factory.mktemp("resident"))
    running = deployed.start(scene, LONG)
    running.process.wait_log(LEADING)
    yield running
    scene.close()


@pytest.fixture
def served(real_scene: Scene, resident: Running) -> Scene:
    real_scene.watch_over(resident.process)
    return real_scene


def test_without_the_right_to_bind_a_pod_is_told_so(deployed: Deployed, served: Scene) -> None:
    served.create(a_node("node-a"))
    with deployed.lacking(served, BIND):
        served.create(a_pod("web", schedulerName=OURS))
        condition = until_told(served, "web", 'cannot create resource "pods/binding"')
        assert condition["reason"] == "SchedulerError"
        assert served.placements() == {}
    served.bound("web")


# what cannot be written -> the class of the claim for which it would be
VOLUME_WRITES = {
    "which claim a volume is promised to": (PROMISE, "there"),
    "for which node a volume is to be made": (SELECT, "made"),
}


@pytest.mark.parametrize(("deed", "class_name"), VOLUME_WRITES.values(), ids=VOLUME_WRITES)
def test_without_the_right_to_write_what_volume_a_claim_gets_its_pod_is_told_so(
    deed: Deed, class_name: str, deployed: Deployed, served: Scene
) -> None:
    served.create(a_node("node-a"))
    with storage(served, "node-a"):
        with deployed.lacking(served, deed):
            pod = pod_with_claim(served, class_name)
            assert f'cannot patch resource "{deed.resource}"' in served.event("FailedScheduling", pod)["note"]
            assert served.placements() == {}
        served.bound(class_name)


# what cannot be written of claims -> what makes the pod for which it would be, and what is said
CLAIM_WRITES = {
    "that a claim is in use": (FINALIZE, pod_with_device, 'cannot patch resource "resourceclaims"'),
    "which devices a claim has": (GIVE, pod_with_device, 'cannot patch resource "resourceclaims/status"'),
    "which devices a claim has for good": (GIVE_FOR_GOOD, pod_with_device, "resourceclaims/binding"),
    "a claim for extended resources": (CLAIM, pod_asking_for_device, 'cannot create resource "resourceclaims"'),
}


@pytest.mark.parametrize(("deed", "make", "why"), CLAIM_WRITES.values(), ids=CLAIM_WRITES)
def test_without_the_right_to_write_what_devices_a_claim_gets_its_pod_is_told_so(
    deed: Deed, make: Callable[[Scene, str], JsonObject], why: str, deployed: Deployed, served: Scene
) -> None:
    served.create(a_node("node-a"))
    with gpus(served, "node-a"):
        with deployed.lacking(served, deed):
            pod = make(served, "web")
            assert why in served.event("FailedScheduling", pod)["note"]
            assert served.placements() == {}
        served.bound("web")


def test_without_the_right_to_delete_claims_what_an_earlier_attempt_left_stays(
    deployed: Deployed, served: Scene, audit: Audit
) -> None:
    served.create(a_node("node-a"))
    with gpus(served, "node-a"), deployed.lacking(served, UNCLAIM):
        mark = audit.mark()
        pod = pod_with_left_over_claim(served, "web")
        served.event("FailedScheduling", pod)
        until_refused(served, audit, mark, UNCLAIM)
        assert set(claims(served)) == {"left-over"}


def test_without_the_right_to_patch_a_pod_that_waits_has_no_condition(
    deployed: Deployed, served: Scene, audit: Audit
) -> None:
    with deployed.lacking(served, STATUS):
        mark = audit.mark()
        (pod,) = served.create(a_pod("web", schedulerName=OURS))
        served.event("FailedScheduling", pod)
        until_refused(served, audit, mark, STATUS)
        assert condition_of(served.pod("web"), "PodScheduled") is None


def test_without_the_right_to_create_events_nothing_is_told(deployed: Deployed, served: Scene, audit: Audit) -> None:
    served.create(a_node("node-a"))
    with deployed.lacking(served, EVENT):
        mark = audit.mark()
        (pod,) = served.create(a_pod("web", schedulerName=OURS))
        served.bound("web")
        until_refused(served, audit, mark, EVENT)
        assert served.events(pod=pod) == []


def test_without_the_right_to_patch_events_a_repetition_is_not_told(
    deployed: Deployed, served: Scene, resident: Running, audit: Audit
) -> None:
    with deployed.lacking(served, SERIES):
        mark = audit.mark()
        pod = pod_refused_again_and_again(served, resident)
        until_refused(served, audit, mark, SERIES)
        assert series(served, pod) == []


def test_without_the_right_to_read_a_pod_a_doubtful_binding_stays_in_doubt(
    deployed: Deployed, served: Scene, resident: Running
) -> None:
    served.create(a_node("node-a", cpu="16"))
    with deployed.lacking(served, READ_POD):
        event = served.event("FailedScheduling", contested_pod(served, resident))
        assert 'cannot get resource "pods"' in event["note"]


def test_without_the_right_to_delete_pods_nobody_goes_for_a_more_important_pod(
    deployed: Deployed, served: Scene, audit: Audit
) -> None:
    with deployed.lacking(served, EVICT):
        mark = audit.mark()
        contested_node(served)
        until_refused(served, audit, mark, EVICT)
        assert served.placements() == {"low": "taken"}
    served.bound("high")  # it goes on trying


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_without_the_rights_to_read_what_there_is_each_is_missed_and_no_pod_is_seen(
    verb: str, deployed: Deployed, served: Scene, audit: Audit
) -> None:
    served.create(a_node("node-a"))
    reads = [deed for deed in READS if deed.verb == verb and deed not in not_used(served.api)]
    with deployed.lacking(served, *reads):
        mark = audit.mark()
        served.cluster.restart()  # ends every watch, and remembers too little for one to be resumed
        served.create(a_pod("web", schedulerName=OURS))
        for deed in reads:
            until_refused(served, audit, mark, deed)
        assert served.placements() == {}
    served.bound("web")  # it goes on trying


def test_without_the_right_to_review_tokens_nobody_is_known(
    deployed: Deployed, served: Scene, resident: Running
) -> None:
    with deployed.lacking(served, WHO), pytest.raises(ApiError) as refused:
        scrape(resident, deployed.token("scraper", "default"))
    assert refused.value.status == 401


def test_without_the_right_to_review_access_nobody_may_scrape(
    deployed: Deployed, served: Scene, resident: Running
) -> None:
    with deployed.lacking(served, MAY), pytest.raises(ApiError) as refused:
        scrape(resident, deployed.token("scraper", "default"))
    assert refused.value.status in (403, 500)


def test_the_probes_are_answered_without_credentials(deployed: Deployed, served: Scene, resident: Running) -> None:
    del deployed, served
    container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        assert get["scheme"] == "HTTPS"
        assert ApiClient(f"https://127.0.0.1:{resident.port}").request("GET", get["path"]) == "ok"
    (port,) = [port for port in container["ports"] if port["name"] == "https"]
    assert port["containerPort"] == 10259
