"""What was written, version by version, as the store of the API server remembers it.

A list shows what is; only the history shows that a pod was never on two nodes, and what came first. etcd is asked
directly, since the API server forgets with every restart; the objects have to be stored as JSON (`STORED_AS_JSON`).
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
_TIMEOUT_S = 30.0


class Written(NamedTuple):
    """One version of an object.

    Attributes:
        revision: its number among all writes of whatever kind.
    """

    revision: int
    item: JsonObject


def journeys(pods: Iterable[Written]) -> dict[str, list[str]]:
    """For each pod (name and uid) the nodes it was on, in order, without repetitions; empty while it had none."""
    seen: dict[str, list[str]] = {}
    for _, pod in pods:
        journey = seen.setdefault(f"{pod['metadata']['name']} {pod['metadata']['uid']}", [])
        node = pod["spec"].get("nodeName", "")
        if not journey or journey[-1] != node:
            journey.append(node)
    return seen


def etcd_revision(url: str) -> int:
    """The store's latest revision."""
    return int(ApiClient(url).post("/v3/maintenance/status", {})["header"]["revision"])


def write_marker(url: str) -> None:
    """Writes a key that means nothing to the API server, so that the revision grows."""
    ApiClient(url).post("/v3/kv/put", {"key": _base64("/berth/marker"), "value": _base64("")})


def written(url: str, plural: str, since: int) -> list[Written]:
    """Every version of every object that there is, written after the revision *since*, in order.

    Args:
        url: of etcd.
        plural: the kind of object, such as ``pods``.
        since: must not have been compacted.
    """
    newest = _newest(url, plural)
    if newest <= since:
        return []
    found: list[Written] = []
    request = {"create_request": {**_range(plural), "start_revision": str(since + 1)}}
    for answer in _stream(url, "/v3/watch", request):
        if "compact_revision" in answer:
            raise AssertionError(f"history begins at {answer['compact_revision']}, not at {since}")
        for event in answer.get("events", []):
            revision = int(event["kv"]["mod_revision"])
            if event.get("type") != "DELETE":
                found.append(Written(revision, json.loads(base64.b64decode(event["kv"]["value"]))))
            if revision >= newest:
                return found
    raise AssertionError("etcd ended the watch")


def _newest(url: str, plural: str) -> int:
    query = {**_range(plural), "keys_only": True, "sort_order": "DESCEND", "sort_target": "MOD", "limit": "1"}
    keys = ApiClient(url).post("/v3/kv/range", query).get("kvs", [])
    return int(keys[0]["mod_revision"]) if keys else 0


def _range(plural: str) -> dict[str, Any]:
    folder = f"/registry/{plural}"
    return {"key": _base64(f"{folder}/"), "range_end": _base64(folder + chr(ord("/") + 1))}


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
