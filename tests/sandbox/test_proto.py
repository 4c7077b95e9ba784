"""Protobuf bodies, as clients written in Go send them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.client import PODS, Client, Refused, pod

from berth.sandbox.serving import proto

ZERO_LENGTH = b""


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def parts(*fields: tuple[int, bytes | str | int]) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    types = parts((1, api_version), (2, kind))
    return b"k8s\x00" + parts((1, types), (2, raw), (3, ""), (4, ""))


def metadata(name: str, **labels: str) -> bytes:
    entries = [(11, parts((1, key), (2, value))) for key, value in labels.items()]
    # A Go client writes empty text for what is not set.
    return parts((1, name), (2, ""), (3, ""), (7, 0), (8, ZERO_LENGTH), *entries)


def test_a_binding_is_read() -> None:
    raw = parts((1, metadata("web")), (2, parts((1, "Node"), (3, "node-1"))))
    assert proto.decode(envelope("v1", "Binding", raw)) == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "web"},
        "target": {"kind": "Node", "name": "node-1"},
    }


def test_a_pod_with_quantities_lists_maps_and_inlined_parts_is_read() -> None:
    quantity = parts((1, "500m"))
    requests = parts((1, "cpu"), (2, quantity))
    port = parts((3, 80), (4, "TCP"))
    probe_target = parts((2, parts((1, "/"), (2, parts((1, 1), (2, 0), (3, "http"))))))
    probe = parts((1, probe_target), (2, 5))
    container = parts((1, "main"), (2, "x"), (6, port), (8, parts((2, requests))), (10, probe))
    spec = parts((2, container), (4, 30), (25, 1000), (11, 0))
    decoded = proto.decode(envelope("v1", "Pod", parts((1, metadata("web", app="x")), (2, spec), (3, ZERO_LENGTH))))
    assert decoded["metadata"] == {"name": "web", "labels": {"app": "x"}}
    (main,) = decoded["spec"]["containers"]
    assert main["resources"] == {"requests": {"cpu": "500m"}}
    assert main["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert main["livenessProbe"] == {"httpGet": {"path": "/", "port": "http"}, "initialDelaySeconds": 5}
    assert (decoded["spec"]["terminationGracePeriodSeconds"], decoded["spec"]["priority"]) == (30, 1000)
    assert decoded["status"] == {}


def test_times_bytes_and_negative_numbers_are_read() -> None:
    renewed = parts((1, 1_767_225_600), (2, 500_000_000))
    lease = parts((1, metadata("l")), (2, parts((1, "me"), (2, 15), (4, renewed))))
    assert proto.decode(envelope("coordination.k8s.io/v1", "Lease", lease))["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.500000Z",
    }
    secret = parts((1, metadata("s")), (2, parts((1, "key"), (2, b"\x00\xff"))))
    assert proto.decode(envelope("v1", "Secret", secret))["data"] == {"key": "AP8="}
    priority = parts((1, metadata("p")), (2, -5))
    assert proto.decode(envelope("scheduling.k8s.io/v1", "PriorityClass", priority))["value"] == -5


def test_a_pointer_to_zero_is_not_the_same_as_nothing() -> None:
    options = parts((1, 0))
    assert proto.decode(envelope("v1", "DeleteOptions", options))["gracePeriodSeconds"] == 0


def test_fields_of_a_newer_version_are_passed_over() -> None:
    raw = parts((1, metadata("web")), (999, "new"), (2, parts((3, "n"))))
    assert proto.decode(envelope("v1", "Binding", raw))["target"] == {"name": "n"}


BROKEN: dict[str, bytes] = {
    "no envelope": b"{}",
    "an unknown kind": envelope("v1", "Gadget", b""),
    "cut short": envelope("v1", "Binding", parts((1, metadata("web"))))[:-9],
    "text for a number": envelope("v1", "DeleteOptions", field(1, "x")),
    "a number for text": envelope("v1", "Binding", field(1, 5)),
    "a group, which nobody uses": envelope("v1", "Binding", b"\x0b"),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_broken_body_is_an_error(body: bytes) -> None:
    with pytest.raises(proto.ProtobufError):
        proto.decode(body)


async def send(api: Client, path: str, body: bytes) -> Any:
    headers = {"Content-Type": proto.CONTENT_TYPE, "Accept": f"{proto.CONTENT_TYPE},application/json"}
    async with api.session.post(api.url + path, data=body, headers=headers) as response:
        answer = await response.json()
    if response.status >= 400:
        raise Refused(answer)
    return answer


async def test_over_http_protobuf_goes_in_and_json_comes_out(api: Client) -> None:
    namespace = await send(api, "/api/v1/namespaces", envelope("v1", "Namespace", parts((1, metadata("team")))))
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "team"}
    await api.post(PODS, pod("web"))
    raw = parts((1, metadata("web")), (2, parts((1, "Node"), (3, "node-1"))))
    await send(api, f"{PODS}/web/binding", envelope("v1", "Binding", raw))
    assert (await api.get(f"{PODS}/web"))["spec"]["nodeName"] == "node-1"


async def test_over_http_a_broken_body_is_refused(api: Client) -> None:
    with pytest.raises(Refused) as refused:
        await send(api, PODS, b"k8s\x00\xff")
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
