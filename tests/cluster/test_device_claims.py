"""Claims count as shown, as written, or as promised; whoever follows them hears of each change once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.builders import a_pod
from tests.devices import a_device_claim, a_result, an_allocation

from berth.cluster.device_claims import DeviceClaims
from berth.cluster.kinds import RESOURCE_CLAIM
from berth.cluster.objects import Objects

if TYPE_CHECKING:
    from berth.api.dra import ResourceClaim

SHOWN = a_device_claim("claim")
PROMISED = a_device_claim("claim", allocation=an_allocation(a_result("gpu-0")))
WRITTEN = a_device_claim("claim", version="2", allocation=an_allocation(a_result("gpu-0")))
UID = SHOWN.metadata.uid


class Follower:
    """Keeps the changes that it heard of."""

    def __init__(self, claims: DeviceClaims) -> None:
        self.heard: list[tuple[ResourceClaim | None, ResourceClaim | None]] = []
        claims.follow(lambda old, new: self.heard.append((old, new)))


def seen(*claims: ResourceClaim) -> tuple[Objects, DeviceClaims]:
    objects = Objects()
    own = DeviceClaims(objects)
    for claim in claims:
        objects.put(RESOURCE_CLAIM, claim)
    return objects, own


def test_a_promise_counts_until_it_is_withdrawn() -> None:
    _, claims = seen(SHOWN)
    claims.promise(PROMISED)
    assert claims.promised(UID) is PROMISED
    assert claims.get("claim", "default") is SHOWN
    assert claims.withdraw(UID)
    assert claims.promised(UID) is None
    assert not claims.withdraw(UID)


def test_a_promise_that_is_shared_is_gone_with_its_last_sharer() -> None:
    _, claims = seen(SHOWN)
    claims.promise(PROMISED)
    claims.promise(PROMISED)
    assert not claims.withdraw(UID)
    assert claims.promised(UID) is PROMISED
    assert claims.withdraw(UID)


def test_a_promise_that_was_kept_is_gone_for_all_who_share_it() -> None:
    _, claims = seen(SHOWN)
    claims.promise(PROMISED)
    claims.promise(PROMISED)
    assert claims.withdraw(UID, for_all=True)
    assert claims.promised(UID) is None


def test_followers_hear_what_a_claim_counts_as_from_the_first_to_the_last() -> None:
    objects, claims = seen(SHOWN)
    follower = Follower(claims)
    claims.promise(PROMISED)
    claims.assumed.assume(WRITTEN)
    claims.withdraw(UID, for_all=True)
    objects.put(RESOURCE_CLAIM, WRITTEN)
    objects.remove(RESOURCE_CLAIM, "claim", "default")
    expected = [(None, SHOWN), (SHOWN, PROMISED), (PROMISED, WRITTEN), (WRITTEN, None)]
    assert follower.heard == expected


def test_a_late_follower_hears_of_promises_and_claims_once_each() -> None:
    other = a_device_claim("other")
    _, claims = seen(SHOWN, other)
    claims.promise(PROMISED)
    assert Follower(claims).heard == [(None, PROMISED), (None, other)]


def test_a_promise_outlives_its_claim() -> None:
    objects, claims = seen(SHOWN)
    claims.promise(PROMISED)
    follower = Follower(claims)
    objects.remove(RESOURCE_CLAIM, "claim", "default")
    assert follower.heard == [(None, PROMISED)]
    claims.withdraw(UID)
    assert follower.heard[1:] == [(PROMISED, None)]


def test_a_promise_does_not_pass_on_to_a_new_claim_of_the_same_name() -> None:
    objects, claims = seen(SHOWN)
    claims.promise(PROMISED)
    follower = Follower(claims)
    new = a_device_claim("claim", uid="another", version="3")
    objects.put(RESOURCE_CLAIM, new)
    claims.withdraw(UID)
    assert follower.heard == [(None, PROMISED), (None, new), (PROMISED, None)]


def test_the_claim_that_was_made_for_the_extended_resources_of_a_pod_is_found_while_it_exists() -> None:
    pod, other = a_pod("web"), a_pod("other")
    special, plain = a_device_claim("special", owner=pod, special=True), a_device_claim("plain", owner=other)
    objects, claims = seen(special, plain)
    assert (claims.special_of(pod.uid), claims.special_of(other.uid)) == (special, None)
    objects.remove(RESOURCE_CLAIM, "special", "default")
    assert claims.special_of(pod.uid) is None


def test_of_two_special_claims_of_a_pod_the_later_is_found_and_either_may_go_first() -> None:
    pod = a_pod("web")
    first, second = (a_device_claim(name, owner=pod, special=True) for name in ("first", "second"))
    objects, claims = seen(first, second)
    assert claims.special_of(pod.uid) is second
    objects.remove(RESOURCE_CLAIM, "first", "default")
    assert claims.special_of(pod.uid) is second
    objects.remove(RESOURCE_CLAIM, "second", "default")
    assert claims.special_of(pod.uid) is None


def test_what_was_written_counts_unless_something_later_is_shown() -> None:
    objects, claims = seen(SHOWN)
    assert claims.wrote(WRITTEN)
    assert claims.get("claim", "default") is WRITTEN
    objects.put(RESOURCE_CLAIM, later := a_device_claim("claim", version="3"))
    assert claims.wrote(WRITTEN)
    assert claims.get("claim", "default") is later


def test_what_was_created_cannot_count_before_it_is_shown() -> None:
    _, claims = seen()
    assert not claims.wrote(WRITTEN)
    assert claims.get("claim", "default") is None
