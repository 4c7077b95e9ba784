"""The same requests to kube-apiserver and to the embedded server get the same answers.

The requests are in `scenarios`. What has to differ (uids, times, versions, generated
names) is made alike before answers are compared; everything else has to be equal to the letter.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from tests.sandbox.scenarios import SCENARIOS, Step

from berth.sandbox.serving.server import EmbeddedApiServer, ServerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.client import ApiClient

_ALIKE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"(in object meta: |in record \(|current: )\d+"), r"\1VERSION"),
    (re.compile(r"\bm-[a-z0-9]{5}\b"), "m-GENERATED"),
    (re.compile(r'"\d+s"'), '"AGE"'),
)

_GO_DIFFERENCE = "(allow it to be set to 1 if it was previously negative)\n"  # what follows compares two Go structs


def alike(text: str) -> str:
    """An answer with everything that has to differ made the same."""
    for pattern, replacement in _ALIKE:
        text = pattern.sub(replacement, text)
    try:
        return json.dumps(_alike(json.loads(text)), indent=1, sort_keys=True)
    except ValueError:
        return text


def _alike(value: Any) -> Any:
    if isinstance(value, str):
        return value.partition(_GO_DIFFERENCE)[0]
    if isinstance(value, list):
        return [_alike(member) for member in value]
    if not isinstance(value, dict):
        return value
    shown = {name: _alike(member) for name, member in value.items() if name != "managedFields"}
    if "resourceVersion" in shown:
        shown["resourceVersion"] = "VERSION"
    if "priority" in shown and "description" in shown:  # of a column
        shown["description"] = ""
    return shown


async def answers(session: aiohttp.ClientSession, url: str, steps: list[Step]) -> list[tuple[int, str, list[str]]]:
    """Status code, content type and lines of each answer."""
    found = []
    for step in steps:
        method, path, body, kind, accept = (*step, None, None, None)[:5]
        headers = {"Content-Type": kind or "application/json", "Accept": accept or "application/json"}
        data = None if body is None else json.dumps(body)
        async with session.request(method, url + path, data=data, headers=headers) as response:
            text = await response.text()
            lines = text.splitlines() if "watch=1" in path and response.ok else [text]
            found.append((response.status, response.content_type, [alike(line) for line in lines]))
    return found


@pytest.fixture
async def server(real_api: ApiClient) -> AsyncIterator[EmbeddedApiServer]:
    """An embedded server of the same minor version as the real one."""
    version = real_api.get("/version")
    embedded = EmbeddedApiServer(ServerOptions(minor=f"{version['major']}.{version['minor']}"))
    await embedded.start()
    yield embedded
    await embedded.stop()


@pytest.mark.parametrize("steps", SCENARIOS.values(), ids=SCENARIOS)
async def test_both_servers_answer_alike(steps: list[Step], real_api: ApiClient, server: EmbeddedApiServer) -> None:
    headers = {"Authorization": f"Bearer {real_api.token}"}
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        want = await answers(session, real_api.server, steps)
    async with aiohttp.ClientSession() as session:
        got = await answers(session, server.url, steps)
    for step, wanted, given in zip(steps, want, got, strict=True):
        assert given[:2] == wanted[:2], f"{step[0]} {step[1]}"
        assert "\n".join(given[2]) == "\n".join(wanted[2]), f"{step[0]} {step[1]}"
