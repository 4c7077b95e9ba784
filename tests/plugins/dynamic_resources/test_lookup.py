"""The claims of a pod, and what may be wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.builders import a_pod
from tests.devices import a_device_claim, a_pod_with, a_pod_with_template

from berth.api.pod import PodResourceClaim
from berth.cluster.device_claims import DeviceClaims
from berth.cluster.kinds import RESOURCE_CLAIM
from berth.cluster.objects import Objects
from berth.plugins.dynamic_resources.lookup import find_claims

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.api.dra import ResourceClaim
    from berth.api.pod import Pod


def known(*claims: ResourceClaim) -> DeviceClaims:
    objects = Objects()
    own = DeviceClaims(objects)
    for claim in claims:
        objects.put(RESOURCE_CLAIM, claim)
    return own


GOING = a_device_claim("claim", metadata={"deletion_timestamp": "2026-01-01T00:00:00Z"})
MADE = a_pod_with_template("made")
FAULTS: Mapping[str, tuple[Pod, tuple[ResourceClaim, ...], str]] = {
    "a claim that does not exist": (a_pod_with("claim"), (), 'could not find ResourceClaim "default/claim"'),
    "a claim of another namespace": (
        a_pod_with("claim"),
        (a_device_claim("claim", namespace="other"),),
        'could not find ResourceClaim "default/claim"',
    ),
    "a claim that is going away": (a_pod_with("claim"), (GOING,), 'resourceclaim "claim" is being deleted'),
    "a template of which nothing was made yet": (
        a_pod_with_template(is_made=False),
        (),
        'pod "default/web": ResourceClaim not created yet',
    ),
    "a claim that was made for nobody": (
        MADE,
        (a_device_claim("made"),),
        "ResourceClaim default/made was not created for Pod default/web (Pod is not owner)",
    ),
    "a claim that was made for another pod": (
        MADE,
        (a_device_claim("made", owner=a_pod("other")),),
        "ResourceClaim default/made was not created for Pod default/web (Pod is not owner)",
    ),
    "an entry that says nothing": (
        a_pod(spec={"resource_claims": (PodResourceClaim(name="r"),)}),
        (),
        'pod "default/web", spec.resourceClaim "r": none of the supported fields are set',
    ),
    "the first fault counts": (
        a_pod_with("claim", "missing"),
        (GOING,),
        'resourceclaim "claim" is being deleted',
    ),
}


@pytest.mark.parametrize(("pod", "claims", "fault"), FAULTS.values(), ids=FAULTS.keys())
def test_what_is_wrong_is_told(pod: Pod, claims: tuple[ResourceClaim, ...], fault: str) -> None:
    assert find_claims(pod, known(*claims)) == ((), fault)


def test_claims_come_in_the_order_of_the_pod_whoever_they_were_made_for() -> None:
    first, second = a_device_claim("first", owner=a_pod("other")), a_device_claim("second")
    assert find_claims(a_pod_with("second", "first"), known(first, second)) == ((second, first), "")


def test_a_claim_that_was_made_for_the_pod_is_its_own() -> None:
    claim = a_device_claim("made", owner=MADE)
    assert find_claims(MADE, known(claim)) == ((claim,), "")


def test_a_claim_that_turned_out_not_to_be_needed_is_left_out() -> None:
    assert find_claims(a_pod_with_template(None), known()) == ((), "")
