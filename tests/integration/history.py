"""What was written about pods, version by version, as the store of the API server remembers it.

A list shows what is; only the history shows that a pod was never on two nodes. etcd is asked directly, since the API
server forgets with every restart; the objects have to be stored as JSON (`STORED_AS_JSON`).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from tests.support.client import ApiClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.integration.objects import JsonObject

STORED_AS_JSON = "--storage-media-type=application/json"
_PODS = "/registry/pods/default/"
_TIMEOUT_S = 30.0


class PodVersion(NamedTuple):
    """A pod as it was at one time."""

    uid: str
    name: str
    node: str


def version_of(pod: JsonObject) -> PodVersion:
    return PodVersion(pod["metadata"]["uid"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))


def journeys(versions: Iterable[PodVersion]) -> dict[str, list[str]]:
    """For each pod (name and uid) the nodes it was on, in order, without repetitions; empty while it had none."""
    seen: dict[str, list[str]] = {}
    for uid, name, node in versions:
        journey = seen.setdefault(f"{name} {uid}", [])
        if not journey or journey[-1] != node:
            journey.append(node)
    return seen


def etcd_revision(url: str) -> int:
    """The store's latest revision."""
    return int(ApiClient(url).post("/v3/maintenance/status", {})["header"]["revision"])


def write_marker(url: str) -> None:
    """Writes a key that means nothing to the API server, so that the revision grows."""
    ApiClient(url).post("/v3/kv/put", {"key": _base64("/berth/marker"), "value": _base64("")})


def pod_versions(url: str, since: int) -> list[PodVersion]:
    """Every version of every pod written after the revision *since*, in order.

    Args:
        url: of etcd.
        since: must not have been compacted.
    """
    newest = _newest(url)
    if newest <= since:
        return []
    found: list[PodVersion] = []
    request = {"create_request": {**_range(), "start_revision": str(since + 1)}}
    for answer in _stream(url, "/v3/watch", request):
        if "compact_revision" in answer:
            raise AssertionError(f"history begins at {answer['compact_revision']}, not at {since}")
        for event in answer.get("events", []):
            if event.get("type") != "DELETE":
                found.append(version_of(json.loads(base64.b64decode(event["kv"]["value"]))))
            if int(event["kv"]["mod_revision"]) >= newest:
                return found
    raise AssertionError("etcd ended the watch")


def _newest(url: str) -> int:
    query = {**_range(), "keys_only": True, "sort_order": "DESCEND", "sort_target": "MOD", "limit": "1"}
    pods = ApiClient(url).post("/v3/kv/range", query).get("kvs", [])
    return int(pods[0]["mod_revision"]) if pods else 0


def _range() -> dict[str, Any]:
    end = _PODS[:-1] + chr(ord("/") + 1)
    return {"key": _base64(_PODS), "range_end": _base64(end)}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _stream(url: str, path: str, body: object) -> Iterator[JsonObject]:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=_TIMEOUT_S)
    with contextlib.closing(connection):
        connection.request("POST", path, json.dumps(body))
        answer = connection.getresponse()
        while line := answer.readline():
            yield json.loads(line)["result"]
