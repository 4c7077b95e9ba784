"""The admission oracle: judges every binding in the order in which the API server made it known.

`Judge` is told of changes and finds violations; it knows no network. `Oracle` follows an API server past any proxy, on
a thread of its own, and hands what it sees to a judge. The scheduler may have decided on something slightly older than
the world at the moment of the binding, and is not blamed for it: what others changed within `grace_s` counts as it was
before, too. What the scheduler itself bound never does. Bindings are sent side by side, so one may arrive before
another on which it relies: what is wrong only because somebody is not there yet, is so once `PATIENCE_S` are over.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import aiohttp
from tests.chaos.loops import LoopThread
from tests.chaos.rules import RULES, devices_given_twice
from tests.chaos.world import FINISHED, KINDS, Change, JsonObject, World, key_of, node_of

from berth.runtime.tasks import end

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from tests.support.client import ApiClient

GRACE_S = 2.0
PATIENCE_S = 5.0
RELYING = frozenset({"together", "spread"})  # rules that others may be needed for
SETTLE_S = 0.3  # changes of different kinds may arrive out of order by so much
_RETRY_S = 0.1
_POLL_S = 0.1
_CLOSING_S = 0.1


class Departed(NamedTuple):
    """An object as it was until *seen_s*."""

    obj: JsonObject
    seen_s: float


class Early(NamedTuple):
    """A binding that may have come before another on which it relies, and until when that is waited for."""

    pod: JsonObject
    node: str
    until_s: float


class Judge:
    """Takes changes in, in order, and keeps what was wrong.

    Attributes:
        world: as of the last change.
        violations: in words.
        bindings: how many bindings were judged.
    """

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self.world = World()
        self.violations: list[str] = []
        self.bindings = 0
        self._grace_s = grace_s
        self._nodes: deque[Departed] = deque()
        self._pods: deque[Departed] = deque()
        self._doubled: set[str] = set()
        self._early: list[Early] = []

    def take(self, change: Change, *, initial: bool = False) -> None:
        """Take the next change in; bindings of the *initial* state are not judged."""
        self._expire(change.seen_s)
        kind, obj = change.kind, change.obj
        known = self.world.get(kind, obj["metadata"]["name"], obj["metadata"].get("namespace", ""))
        if kind == "pods" and not initial and not change.deleted:
            self._look_at(obj, known, change.seen_s)
        before = self.world.apply(kind, obj, deleted=change.deleted)
        if kind == "nodes" and before is not None:
            self._nodes.append(Departed(before, change.seen_s))
        if kind == "pods" and before is not None and _left(before, obj, deleted=change.deleted):
            self._pods.append(Departed(before, change.seen_s))
        if kind == "pods" and self._early:
            self.wait_no_longer(change.seen_s)
        if kind == "resourceclaims":
            doubled = set(devices_given_twice(self.world))
            self.violations += sorted(doubled - self._doubled)
            self._doubled = doubled

    def _look_at(self, pod: JsonObject, known: JsonObject | None, seen_s: float) -> None:
        same = known is not None and known["metadata"]["uid"] == pod["metadata"]["uid"]
        was = node_of(known) if known is not None and same else ""
        node = node_of(pod)
        if was and node != was:
            self.violations.append(f"pod {_named(pod)} went from {was} to {node or 'no node'}")
        elif node and not was:
            self.bindings += 1
            found = self._objections(pod, node)
            if found and found.keys() <= RELYING:
                self._early.append(Early(pod, node, seen_s + PATIENCE_S))
            else:
                self._blame(pod, node, found)

    def wait_no_longer(self, now_s: float) -> None:
        """Look again at bindings that came before others on which they relied; blame those whose time is up."""
        still = []
        for early in self._early:
            if found := self._objections(early.pod, early.node):
                if now_s > early.until_s:
                    self._blame(early.pod, early.node, found)
                else:
                    still.append(early)
        self._early = still

    def _blame(self, pod: JsonObject, node: str, found: Mapping[str, str]) -> None:
        self.violations += [f"pod {_named(pod)} on {node}: {rule}: {text}" for rule, text in found.items()]

    def _objections(self, pod: JsonObject, node_name: str) -> dict[str, str]:
        """What is wrong, by rule, in every version of the world that the scheduler may have had in mind."""
        now = self.world.get("nodes", node_name)
        nodes = [each.obj for each in self._nodes if each.obj["metadata"]["name"] == node_name]
        nodes += [now] if now is not None else []
        if not nodes:
            return {"node": "there is no such node"}
        worlds = [
            (self.world.with_changes([*extra, node], pods), node) for node in nodes for extra, pods in self._pasts(pod)
        ]
        found = {}
        for name, rule in RULES.items():
            texts = []
            for world, node in worlds:
                text = rule(world, pod, node)
                if not text:
                    break
                texts.append(text)
            else:
                found[name] = texts[-1]
        return found

    def _pasts(self, pod: JsonObject) -> Iterator[tuple[list[JsonObject], list[JsonObject]]]:
        """Nodes and pods that the scheduler may still have taken to be there, the more of them the earlier."""
        pods = [each.obj for each in self._pods if each.obj["metadata"]["uid"] != pod["metadata"]["uid"]]
        nodes = [each.obj for each in self._nodes if self.world.get("nodes", each.obj["metadata"]["name"]) is None]
        for extra in [nodes, []] if nodes else [[]]:
            for more in [pods, []] if pods else [[]]:
                yield extra, more

    def _expire(self, now_s: float) -> None:
        for departed in (self._nodes, self._pods):
            while departed and departed[0].seen_s < now_s - self._grace_s:
                departed.popleft()


class Oracle:
    """Follows an API server and judges; a context manager.

    Args:
        api: the administrator's client; the server may be restarted meanwhile.
        grace_s: see above.
    """

    def __init__(self, api: ApiClient, grace_s: float = GRACE_S) -> None:
        self.judge = Judge(grace_s)
        self._api = api
        self._thread = LoopThread("oracle")
        self._lock = threading.Lock()
        self._pending: list[Change] = []
        self._stores: dict[str, dict[tuple[str, str], JsonObject]] = {}
        self._kinds = {kind: path for kind, path in KINDS.items() if kind != "resourceclaims"}
        self._listed: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        self._thread.call(self._begin())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._thread.call(self._close())
        self._thread.stop()

    @property
    def violations(self) -> list[str]:
        return self.judge.violations

    def pump(self, *, everything: bool = False) -> None:
        """Judge what has been seen, up to what may still be overtaken by earlier changes."""
        until_s = time.monotonic() - (0.0 if everything else SETTLE_S)
        with self._lock:
            due = [change for change in self._pending if change.seen_s <= until_s]
            due.sort(key=lambda change: change.version)
            self._pending = [change for change in self._pending if change.seen_s > until_s]
            for change in due:
                self.judge.take(change)

    def settle(self, deadline_s: float = 20.0) -> World:
        """Wait until all that the server holds has been seen, and judge it; returns the world of then.

        Raises:
            TimeoutError: the server kept changing, or was away, for too long.
        """
        until = time.monotonic() + deadline_s
        while True:
            with suppress(OSError, aiohttp.ClientError):
                if self._is_up_to_date():
                    self.pump(everything=True)
                    return self.judge.world
            if time.monotonic() > until:
                raise TimeoutError(f"the oracle did not catch up within {deadline_s:g} s")
            time.sleep(_POLL_S)

    def _is_up_to_date(self) -> bool:
        for kind, path in self._kinds.items():
            shown = {_identity(obj) for obj in self._api.items(path)}
            with self._lock:
                seen = {_identity(obj) for obj in self._stores[kind].values()}
            if shown != seen:
                return False
        return True

    # -- following --------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {self._api.token}"} if self._api.token else {}
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trusting), headers=headers, read_bufsize=1 << 20
        )
        if await self._serves("/apis/resource.k8s.io/v1"):
            self._kinds["resourceclaims"] = KINDS["resourceclaims"]
        for kind in self._kinds:
            await self._list(kind, initial=True)
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in self._kinds]

    async def _close(self) -> None:
        await end(*self._tasks)
        await self._http.close()
        await asyncio.sleep(_CLOSING_S)  # the loop closes the sockets a moment later, if it is given that moment

    async def _serves(self, path: str) -> bool:
        async with self._http.get(self._api.server + path) as answer:
            return bool(answer.status == HTTPStatus.OK)

    async def _list(self, kind: str, *, initial: bool = False) -> None:
        async with self._http.get(self._api.server + self._kinds[kind]) as answer:
            answer.raise_for_status()
            page = await answer.json()
        version = page["metadata"]["resourceVersion"]
        store = self._stores.setdefault(kind, {})
        shown = {key_of(obj): obj for obj in page["items"] or []}
        for key in store.keys() - shown.keys():  # when is not known: as early as it can have been
            self._see(kind, store[key], store[key]["metadata"]["resourceVersion"], deleted=True)
        for key, obj in shown.items():
            if key not in store or _identity(store[key]) != _identity(obj):
                self._see(kind, obj, obj["metadata"]["resourceVersion"], initial=initial)
        self._listed[kind] = version

    async def _follow(self, kind: str) -> None:
        while True:
            try:
                if not self._listed[kind]:
                    await self._list(kind)
                await self._watch(kind)
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(_RETRY_S)

    async def _watch(self, kind: str) -> None:
        query = {"watch": "1", "resourceVersion": self._listed[kind], "allowWatchBookmarks": "true"}
        limits = aiohttp.ClientTimeout(total=None, sock_connect=5.0)
        async with self._http.get(self._api.server + self._kinds[kind], params=query, timeout=limits) as answer:
            if answer.status == HTTPStatus.GONE:
                self._listed[kind] = ""
                return
            answer.raise_for_status()
            async for line in _lines(answer.content):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    self._listed[kind] = ""
                    return
                version = event["object"]["metadata"]["resourceVersion"]
                self._listed[kind] = version
                if event["type"] != "BOOKMARK":
                    self._see(kind, event["object"], version, deleted=event["type"] == "DELETED")

    def _see(self, kind: str, obj: JsonObject, version: str, *, deleted: bool = False, initial: bool = False) -> None:
        change = Change(kind, obj, deleted, int(version), time.monotonic())
        with self._lock:
            if deleted:
                self._stores[kind].pop(key_of(obj), None)
            else:
                self._stores[kind][key_of(obj)] = obj
            if initial:
                self.judge.take(change, initial=True)
            else:
                self._pending.append(change)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    unfinished = b""
    async for chunk in content.iter_any():
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _identity(obj: Mapping[str, Any]) -> tuple[str, str]:
    return obj["metadata"]["uid"], obj["metadata"]["resourceVersion"]


def _named(pod: JsonObject) -> str:
    return f"{pod['metadata']['name']} ({pod['metadata']['uid'][:8]})"


def _left(before: JsonObject, after: JsonObject, *, deleted: bool) -> bool:
    """Whether a pod with a node went away, began to, or is another pod for selectors now."""
    if not node_of(before):
        return False
    finished = after.get("status", {}).get("phase") in FINISHED
    ending = "deletionTimestamp" in after["metadata"]
    return deleted or finished or ending or before["metadata"].get("labels") != after["metadata"].get("labels")
