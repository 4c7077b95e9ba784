"""The shape of objects: types checked, unknown fields told, one form for amounts and times."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.sandbox import api_types
from tests.sandbox.client import PODS, Client, Refused, pod

from berth.sandbox.kinds import fields
from berth.sandbox.kinds.catalogue import built_in
from berth.sandbox.kinds.conform import conformed, zero
from berth.sandbox.kinds.errors import ApiError
from berth.sandbox.kinds.fields import message, message_of

TABLE = built_in("1.37", pod_groups=True)
POD = TABLE.served("", "v1", "pods")
LEASE = TABLE.served("coordination.k8s.io", "v1", "leases")


def plain(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


MISMATCHES = {
    "text for a number": (
        plain(priority="x"),
        "json: cannot unmarshal string into Go struct field PodSpec.spec.priority of type int32",
    ),
    "a number for text": (
        plain(containers=[{"name": "c", "env": [{"name": "A", "value": 1}]}]),
        "json: cannot unmarshal number into Go struct field EnvVar.spec.containers.env.value of type string",
    ),
    "text for a list": (
        plain(containers="x"),
        "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
    ),
    "a list for an object": (
        {"metadata": [], "spec": {}},
        "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta",
    ),
    "a number for a label": (
        {"metadata": {"labels": {"a": 1}}},
        "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels.a of type map[string]string",
    ),
    "truth for a number": (
        plain(priority=True),
        "json: cannot unmarshal bool into Go struct field PodSpec.spec.priority of type int32",
    ),
    "no quantity": (plain(overhead={"cpu": "lots"}), "quantities must match the regular expression"),
    "no time": ({"metadata": {"deletionTimestamp": "now"}}, 'parsing time "now" as'),
}


@pytest.mark.parametrize(("obj", "told"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_value_of_the_wrong_type_is_refused(obj: dict[str, Any], told: str) -> None:
    with pytest.raises(ApiError) as refused:
        conformed(POD, obj)
    assert refused.value.code == 400
    assert refused.value.message.startswith('Pod in version "v1" cannot be handled as a Pod: ')
    assert told in refused.value.message


def test_unknown_fields_are_dropped_and_told_by_path() -> None:
    obj = {**plain(foo=1, containers=[{"name": "c", "imag": "x"}]), "bogus": {}}
    result, unknown = conformed(POD, obj)
    assert unknown == ["spec.containers[0].imag", "spec.foo", "bogus"]
    assert "bogus" not in result
    assert "imag" not in result["spec"]["containers"][0]
    assert "bogus" in obj, "the argument is left alone"


def test_what_is_right_already_is_shared() -> None:
    once, _ = conformed(POD, plain())
    again, unknown = conformed(POD, once)
    assert again is once
    assert unknown == []


def test_parts_that_did_not_change_are_not_looked_at_again() -> None:
    kept = {"metadata": {"name": "a"}, "spec": {"anything": 1}, "status": {}}
    result, unknown = conformed(POD, {**kept, "status": {"phase": "Running"}}, kept)
    assert result["spec"] is kept["spec"]
    assert unknown == []


def test_amounts_and_times_take_their_one_form() -> None:
    result, _ = conformed(POD, plain(overhead={"cpu": 1, "memory": "1024Ki"}))
    assert result["spec"]["overhead"] == {"cpu": "1", "memory": "1Mi"}
    spec = {"renewTime": "2026-01-01T02:00:00.500000+02:00"}
    lease, _ = conformed(LEASE, {"metadata": {"creationTimestamp": "2026-01-01T00:00:00.9Z"}, "spec": spec})
    assert lease["spec"]["renewTime"] == "2026-01-01T00:00:00.500000Z"
    assert lease["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "soon"])
def test_a_micro_time_has_six_decimals(text: str) -> None:
    with pytest.raises(ApiError, match="parsing time"):
        conformed(LEASE, {"metadata": {}, "spec": {"renewTime": text}})


def test_fields_that_are_always_written_are_filled_in() -> None:
    condition = {"type": "Ready", "status": "True"}
    result, _ = conformed(POD, {**plain(), "status": {"conditions": [condition]}})
    assert result["status"]["conditions"] == [{**condition, "lastProbeTime": None, "lastTransitionTime": None}]
    assert zero(message("core.Pod")) == {"metadata": {}, "spec": {"containers": None}, "status": {}}


def test_fields_that_stand_directly_in_their_object_are_known() -> None:
    result, unknown = conformed(POD, plain(volumes=[{"name": "v", "secret": {"secretName": "s"}}]))
    assert unknown == []
    assert result["spec"]["volumes"] == [{"name": "v", "secret": {"secretName": "s"}}]


@pytest.mark.parametrize("minor", ["1.36", "1.37"])
def test_every_kind_that_is_kept_has_its_fields_in_the_table(minor: str) -> None:
    missing = [each.qualified for each in built_in(minor, pod_groups=True) if message_of(each) is None]
    assert missing == []


def test_the_field_table_is_what_the_published_types_say() -> None:
    cache = api_types.module_cache()
    if not api_types.available(cache):
        pytest.skip(f"the sources of k8s.io/api are not in {cache}")
    lines = api_types.Table(cache).lines()
    assert {line.split(" ")[0]: line.split(" ")[1:] for line in lines} == fields._lines()


async def test_unknown_fields_are_warned_of_refused_or_ignored_as_the_client_asks(api: Client) -> None:
    body = json.dumps(pod("web", foo=1))
    headers = {"Content-Type": "application/json"}
    for mode, want in (("Warn", ['299 - "unknown field \\"spec.foo\\""']), ("Ignore", [])):
        url = f"{api.url}{PODS}?dryRun=All&fieldValidation={mode}"
        async with api.session.post(url, data=body, headers=headers) as response:
            assert response.status == 201
            assert response.headers.getall("Warning", []) == want
    with pytest.raises(Refused) as refused:
        await api.post(f"{PODS}?fieldValidation=Strict", pod("web", foo=1))
    assert (refused.value.code, refused.value.message) == (
        400,
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"',
    )


async def test_a_strict_patch_may_not_bring_unknown_fields(api: Client) -> None:
    await api.post(PODS, pod("web"))
    with pytest.raises(Refused) as refused:
        await api.patch(f"{PODS}/web?fieldValidation=Strict", {"metadata": {"labelz": {}}})
    assert refused.value.code == 422
    assert 'strict decoding error: unknown field "metadata.labelz"' in refused.value.message
