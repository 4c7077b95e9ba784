"""One measurement: fill a cluster with pods that wait, start a scheduler, and watch until every one is dealt with.

The pods are there before the scheduler is, so that the rate is its own and not that of their creation; it is taken from
the first pod to the last. The view is that of any client: a watch on the API server. ``run`` calls this for one
scheduler after the other on the same API server; ``volumes`` uses its connections, watches and scheduler processes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
from bench.usage import Usage, usage_of
from bench.workload import Done
from tests.support.client import NODES, PODS, ApiClient, collection_path

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from pathlib import Path

    from bench.workload import Workload

CREATORS = 24  # requests in flight while the cluster is filled
KILL_AFTER_S = 10.0
LOG_TAIL_LINES = 15


class MeasurementError(Exception):
    """There is no figure, because the scheduler ended or did not get done; the text holds the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    pods_per_s: float  # from the first pod dealt with to the last
    pods_per_s_since_start: float  # from the start of the process to the last
    cpu_ms_per_pod: float  # of the scheduler and its children, from the first pod to the last
    rss_mib: float  # at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to measure, with which rights, and how patiently."""

    server: str
    token: str
    ca_file: Path
    process_group: int  # in which the scheduler is to run
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment, and what the scheduler had used by then."""

    at_s: float
    usage: Usage


class Drain:
    """Watches the measured pods from the start of a scheduler to the last of them.

    Args:
        session: requests to the API server.
        workload: tells which pods are measured and when one is dealt with.
        process: the scheduler, just started.
    """

    def __init__(self, session: aiohttp.ClientSession, workload: Workload, process: Process) -> None:
        self._session, self._workload, self._process = session, workload, process
        self._seen: set[str] = set()
        self._start_s = time.monotonic()
        self._first = self._last = Mark(at_s=self._start_s, usage=usage_of(process.pid))
        # A watch of the bound pods alone spares both sides the events of all others.
        self._selector = {"fieldSelector": "spec.nodeName!="} if workload.done is Done.BOUND else {}

    async def run(self, version: str, timeout_s: float) -> Measurement:
        """Follows the pods from resource version *version* on.

        Raises:
            MeasurementError: the scheduler ended, or was not done in time.
        """
        watch, end = asyncio.ensure_future(self._watch(version)), asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait({watch, end}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if watch.done():
                watch.result()
                return self._measurement()
        finally:
            watch.cancel()
            end.cancel()
            await asyncio.gather(watch, end, return_exceptions=True)
        how = f"not done after {timeout_s} s" if not end.done() or end.cancelled() else f"ended with {end.result()}"
        raise MeasurementError(f"{how}, with {len(self._seen)} of {self._workload.pods} pods dealt with")

    async def _watch(self, version: str) -> None:
        """Returns when all pods are dealt with; where a watch ends early, as it may, a list fills the gap."""
        while not self._is_complete():
            async for event in watch(self._session, PODS, {"resourceVersion": version} | self._selector):
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._note(event["object"])
                if self._is_complete():
                    return
            listed = await request(self._session, "GET", PODS, params=self._selector)
            for pod in listed["items"]:
                self._note(pod)
            version = listed["metadata"]["resourceVersion"]

    def _is_complete(self) -> bool:
        return len(self._seen) >= self._workload.pods

    def _note(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        if name in self._seen or not self._workload.is_measured(name) or not self._workload.is_done(pod):
            return
        self._seen.add(name)
        if len(self._seen) == 1:
            self._first = self._mark()
        if self._is_complete():
            self._last = self._mark()

    def _mark(self) -> Mark:
        return Mark(at_s=time.monotonic(), usage=usage_of(self._process.pid))

    def _measurement(self) -> Measurement:
        pods, first, last = self._workload.pods, self._first, self._last
        return Measurement(
            pods_per_s=pods / (last.at_s - first.at_s),
            pods_per_s_since_start=pods / (last.at_s - self._start_s),
            cpu_ms_per_pod=(last.usage.cpu_s - first.usage.cpu_s) * 1000 / pods,
            rss_mib=last.usage.rss_kib / 1024,
        )


async def measure(workload: Workload, command: Sequence[str], target: Target, log: Path) -> Measurement:
    """Runs *command* on a freshly filled cluster and takes its figures; its output goes to *log*.

    Raises:
        MeasurementError: the command ended, or was not done after the target's timeout.
    """
    await asyncio.to_thread(ApiClient(target.server, target.token, ca_file=target.ca_file).wipe)
    async with open_session(target) as session:
        await _fill(session, workload)
        version = await version_now(session, PODS)
        async with running(command, target, log) as process:
            return await Drain(session, workload, process).run(version, target.timeout_s)


@asynccontextmanager
async def running(command: Sequence[str], target: Target, log: Path) -> AsyncIterator[Process]:
    """A scheduler process, until the block ends; its output goes to *log*.

    Raises:
        MeasurementError: as the block did, with the end of the log.
    """
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=target.process_group,
        )
    try:
        yield process
    except MeasurementError as error:
        raise MeasurementError(f"{command[0]}: {error}\n{_tail(log)}") from error
    finally:
        await _end(process)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:])


def open_session(target: Target) -> aiohttp.ClientSession:
    """Requests to the API server with the administrator's rights."""
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=target.ca_file), limit=CREATORS + 1)
    return aiohttp.ClientSession(
        target.server,
        headers={"Authorization": f"Bearer {target.token}", "Content-Type": "application/json"},
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),  # a watch takes as long as the measurement
    )


async def _fill(session: aiohttp.ClientSession, workload: Workload) -> None:
    for item in workload.objects:
        async with session.post(collection_path(item), json=item) as answer:
            if answer.status != 409:  # it is there already, from the round before
                answer.raise_for_status()
    await _create(session, NODES, workload.node_bodies())
    await _create(session, PODS, workload.initial_pod_bodies())
    await _create(session, PODS, workload.pod_bodies())


async def _create(session: aiohttp.ClientSession, path: str, bodies: Iterable[str]) -> None:
    left = iter(bodies)

    async def creator() -> None:
        for body in left:  # shared between the creators: each takes the next one
            await request(session, "POST", path, data=body)

    async with asyncio.TaskGroup() as group:
        for _ in range(CREATORS):
            group.create_task(creator())


async def request(session: aiohttp.ClientSession, method: str, path: str, **kwargs: Any) -> dict[str, Any]:
    """The object that the API server answers.

    Raises:
        MeasurementError: it refused.
    """
    async with session.request(method, path, **kwargs) as answer:
        text = await answer.text()
        if not answer.ok:
            raise MeasurementError(f"{method} {path}: {answer.status} {text[:400]}")
        decoded: dict[str, Any] = json.loads(text)
        return decoded


async def version_now(session: aiohttp.ClientSession, path: str) -> str:
    """The version of a collection from which a watch shows what comes next."""
    version: str = (await request(session, "GET", path, params={"limit": "1"}))["metadata"]["resourceVersion"]
    return version


async def watch(session: aiohttp.ClientSession, path: str, params: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
    """The events of a collection, until the API server ends the watch."""
    async with session.get(path, params={"watch": "1", **params}) as answer:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), KILL_AFTER_S)
    except TimeoutError:
        process.kill()
        await process.wait()
