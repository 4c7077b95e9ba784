"""The second scheduler as it is deployed: its files are valid, its rights suffice, and it says so where one is missing.

What a scheduler that already runs misses is in `test_deploy_running.py`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.integration.audit import Deed
from tests.integration.deployment import ACCOUNT, GRANTED, manifest
from tests.integration.devices import claims
from tests.integration.objects import a_node, a_pod
from tests.integration.rights import (
    ALL,
    LEADER_EVENT,
    NEW_LEASE,
    NO_REQUESTS,
    OURS,
    READ_LEASE,
    RENEW_LEASE,
    contested_node,
    contested_pod,
    gpus,
    leader_events,
    not_used,
    pod_asking_for_device,
    pod_refused_again_and_again,
    pod_with_claim,
    pod_with_device,
    pod_with_left_over_claim,
    refusal,
    scrape,
    series,
    storage,
    until_refused,
)
from tests.support.client import ApiError
from tests.support.scheduler import LEADING

if TYPE_CHECKING:
    from tests.integration.audit import Audit
    from tests.integration.deployment import Deployed
    from tests.integration.scene import Scene

pytestmark = pytest.mark.timeout(300)

SHORT = {"leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "1s"}


@pytest.fixture
def scene(real_scene: Scene) -> Scene:
    return real_scene


def test_every_right_has_a_test() -> None:
    assert set(GRANTED) == set(ALL)


def test_the_rights_suffice_and_every_one_is_used(deployed: Deployed, scene: Scene, audit: Audit) -> None:
    mark = audit.mark()
    running = deployed.start(scene)
    scene.create(a_node("node-a", cpu="16"))
    running.process.wait_log(LEADING)

    contested = contested_pod(scene, running)
    assert "already assigned" in scene.event("FailedScheduling", contested)["note"]
    scene.bound(*(f"web-{i:02}" for i in range(25)))
    refused = pod_refused_again_and_again(scene, running)
    assert [each["count"] for each in scene.until("the event is a series", lambda: series(scene, refused))] == [2]
    important, victim = contested_node(scene)
    scene.bound("high")
    assert important["metadata"]["uid"] in scene.event("Preempted", victim)["note"]
    with storage(scene, "node-a"):
        for class_name in ("there", "made"):
            pod_with_claim(scene, class_name)
        scene.bound("there", "made")
    with gpus(scene, "node-a"):
        pod_with_device(scene, "device")
        pod_asking_for_device(scene, "asking")
        scene.bound("device", "asking")
        pod_with_left_over_claim(scene, "again")
        scene.until("what was left over is gone", lambda: "left-over" not in claims(scene))
    scraped = scrape(running, deployed.token("scraper", "default"))
    posted = re.search(
        r'^rest_client_requests_total\{code="201",host="127.0.0.1:\d+",method="POST"\} (\S+)', scraped, re.MULTILINE
    )
    assert posted is not None
    assert float(posted[1]) > 50, "at least a binding and an event for each pod"
    scene.until("the leader is told", lambda: leader_events(scene, running))
    assert running.process.terminate() == 0
    assert scene.api.get(running.lease)["spec"]["holderIdentity"] == ""

    done = audit.deeds(by=ACCOUNT, since=mark)
    assert {deed: codes for deed, codes in done.items() if codes & {401, 403}} == {}
    reader = {Deed(verb, "", "configmaps") for verb in ("get", "list", "watch")}
    used = set(GRANTED) - NO_REQUESTS - not_used(scene.api)
    assert set(done) == {deed._replace(name="") for deed in used} | reader


# -- what keeps it from starting, or from leading ---------------------------------------------------------------------


@pytest.mark.parametrize("deed", [Deed("list", "", "pods"), Deed("watch", "", "nodes")], ids=lambda deed: deed.verb)
def test_without_the_right_to_read_what_there_is_the_refusal_is_named(
    deed: Deed, deployed: Deployed, scene: Scene
) -> None:
    with deployed.lacking(scene, deed):
        deployed.start(scene).process.wait_log(refusal(deed))


@pytest.mark.parametrize("deed", [NEW_LEASE, READ_LEASE], ids=lambda deed: f"{deed.verb} {deed.resource}")
def test_without_the_right_to_take_the_lease_nothing_is_bound(deed: Deed, deployed: Deployed, scene: Scene) -> None:
    scene.create(a_node("node-a"), a_pod("web", schedulerName=OURS))
    with deployed.lacking(scene, deed):
        process = deployed.start(scene).process
        process.wait_log("lease kube-system/berth: 403 Forbidden")
        assert LEADING not in process.log_text()
        assert scene.placements() == {}
    scene.bound("web")  # it goes on trying


def test_without_the_right_to_renew_the_lease_leadership_is_lost(deployed: Deployed, scene: Scene) -> None:
    with deployed.lacking(scene, RENEW_LEASE):
        process = deployed.start(scene, SHORT).process
        assert process.wait_ended() == 1
    assert "Error: lease kube-system/berth could not be renewed within 3.0 s" in process.log_text().splitlines()


def test_without_the_right_to_tell_of_the_leader_there_is_no_event(
    deployed: Deployed, scene: Scene, audit: Audit
) -> None:
    with deployed.lacking(scene, LEADER_EVENT):
        mark = audit.mark()
        running = deployed.start(scene)
        running.process.wait_log(LEADING)
        until_refused(scene, audit, mark, LEADER_EVENT)
        assert leader_events(scene, running) == []


def test_without_the_authorities_of_the_cluster_a_warning_says_what_follows(deployed: Deployed, scene: Scene) -> None:
    with deployed.unbound(scene, "berth-authentication-reader"):
        process = deployed.start(scene).process
        process.wait_log("clients cannot show who they are by certificate")
        process.wait_log(LEADING)


# -- the pod ----------------------------------------------------------------------------------------------------------


def test_the_pod_meets_the_strictest_standard_for_pods(deployed: Deployed) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    api = deployed.api
    api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}})
    template = manifest("Deployment")["spec"]["template"]
    metadata = {**template["metadata"], "name": "berth", "namespace": "strict"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    made = api.post("/api/v1/namespaces/strict/pods", pod, params={"dryRun": "All"})
    assert made["spec"]["priority"] == 2_000_000_000
    lax = {**pod, "spec": {**pod["spec"], "securityContext": {}}}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        api.post("/api/v1/namespaces/strict/pods", lax, params={"dryRun": "All"})
