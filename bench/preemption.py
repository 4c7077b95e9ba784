"""Whether ordinary pods notice that others make room for important ones; on a real API server.

    python -m bench.preemption --nodes 500 --preemptions 100 --pods 1000

*Idle*: ordinary pods that fit are created and placed, and nothing else happens.  *Busy*: the same number of such pods
on the same nodes, and with the first of them important pods arrive for which others have to go; whoever has to go takes
its grace period, which lasts longer than the measurement, so all preemptions are in progress until its end.

The figures, in milliseconds, are the search for a node and the whole attempt of pods that were bound, which ends with
the binding, as the scheduler's own histograms have them (values between two bounds are interpolated), and the time from
the creation of an ordinary pod until a watch shows it with a node.  The searches are those of all pods, since the
histogram has no labels: in the busy phase also those of the important pods, with the choice of who has to go.  Ends
with 1 if the p99 of the attempt or of the search is more than ``--limit`` times that of the idle phase.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import ssl
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bench.drain import MeasurementError, Target, open_session, request, running, version_now, watch
from bench.run import BERTH_COMMAND, built_assets, filled_in, scheduler_configuration
from e2e.controlplane import build
from e2e.gobuild import AssetsError
from tests.integration.objects import a_node, a_pod
from tests.support.client import NODES, PODS, ApiClient
from tests.support.controlplane import ControlPlane, ControlPlaneError, free_ports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import aiohttp

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
FLAGS = " --bind-address 127.0.0.1 --authorization-always-allow-paths=/metrics"
SEARCH, ATTEMPT = "scheduler_scheduling_algorithm_duration_seconds", "scheduler_scheduling_attempt_duration_seconds"
GRACE_S = 3600
CREATORS = 8  # ordinary pods arrive side by side, not faster than an API server takes them
WARM_UP = 100
PATIENCE_S = 120.0
HEADER = f"{'':8}{'pods':>8}{'search p50':>12}{'p99':>8}{'attempt p50':>14}{'p99':>8}{'bound p50':>12}{'p99':>8}"

Histogram = dict[float, float]
"""Upper bound in seconds -> how many were no longer, as counted up."""


@dataclass(slots=True)
class Phase:
    """What was seen of the ordinary pods of one sort of phase, over all rounds."""

    histograms: dict[str, Histogram] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    waits_s: list[float] = field(default_factory=list)

    def take(self, before: Mapping[str, Histogram], after: Mapping[str, Histogram], waits_s: Sequence[float]) -> None:
        """Add what a phase added."""
        for name, bounds in after.items():
            for bound, count in bounds.items():
                self.histograms[name][bound] += count - before.get(name, {}).get(bound, 0.0)
        self.waits_s += waits_s

    def figures(self) -> list[float]:
        """Milliseconds: p50 and p99 of the search, of the attempt, and of the time until a pod was seen bound."""
        waits = statistics.quantiles(self.waits_s, n=100, method="inclusive")
        found = [quantile(self.histograms[name], q) for name in (SEARCH, ATTEMPT) for q in (0.5, 0.99)]
        return [1000 * value for value in (*found, waits[49], waits[98])]


def quantile(histogram: Histogram, q: float) -> float:
    """The value that the share *q* of all values do not exceed, interpolated between two bounds.

    Raises:
        MeasurementError: there are no values.
    """
    counts = sorted(histogram.items())
    if not counts or not counts[-1][1]:
        raise MeasurementError("the scheduler's histograms are empty")
    wanted = q * counts[-1][1]
    for (low, below), (high, up_to) in pairwise([(0.0, 0.0), *counts]):
        if up_to >= wanted:
            return low if high == float("inf") else low + (high - low) * (wanted - below) / (up_to - below)
    raise AssertionError("a histogram counts up")


def histograms(text: str) -> dict[str, Histogram]:
    """The search and the attempts that ended with a binding, from a metrics page."""
    found: dict[str, Histogram] = defaultdict(lambda: defaultdict(float))
    for name, labels, value in re.findall(r"^(\w+)_bucket\{(.*)\} (\S+)$", text, re.MULTILINE):
        bound = re.search(r'\ble="([^"]+)"', labels)
        if name == SEARCH or (name == ATTEMPT and 'result="scheduled"' in labels):
            found[name][float(bound[1] if bound else "inf")] += float(value)
    return found


class Room:
    """One round: a freshly filled cluster, a scheduler at work, and the phases one after the other."""

    def __init__(self, session: aiohttp.ClientSession, options: argparse.Namespace, port: int) -> None:
        self._session, self._options, self._port = session, options, port
        self._created: dict[str, float] = {}
        self._waits_s: dict[str, float] = {}
        self._number = 0

    async def fill(self) -> None:
        """Nodes, some of which hold a pod that may have to go, and the others one that may not."""
        for name, value in (("bench-low", 1), ("bench-high", 1000)):
            kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            async with self._session.post(CLASSES, json={**kind, "value": value}) as answer:
                if answer.status != 409:  # it is there already, from the round before
                    answer.raise_for_status()
        nodes = [f"node-{i}" for i in range(self._options.nodes)]
        await self._create(NODES, [a_node(name, cpu="4", memory="32Gi", pods=500) for name in nodes])
        await self._create(PODS, [self._resident(i, name) for i, name in enumerate(nodes)])

    def _resident(self, i: int, node: str) -> dict[str, Any]:
        rank, cpu = ("bench-low", "3") if i < self._options.preemptions else ("bench-high", "2")
        return a_pod(f"old-{i}", cpu=cpu, nodeName=node, priorityClassName=rank, terminationGracePeriodSeconds=GRACE_S)

    async def follow(self, version: str) -> None:
        """Note when ordinary pods are first shown with a node, until cancelled."""
        while True:
            async for event in watch(self._session, PODS, {"resourceVersion": version}):
                if event["type"] == "ERROR":
                    raise MeasurementError(f"watch of pods: {event['object'].get('message')}")
                pod = event["object"]
                version, name = pod["metadata"]["resourceVersion"], pod["metadata"]["name"]
                if name in self._created and name not in self._waits_s and pod["spec"].get("nodeName"):
                    self._waits_s[name] = time.monotonic() - self._created[name]

    async def place(self, count: int) -> list[float]:
        """Create ordinary pods, and wait until all are bound; how long each waited, in seconds."""
        names = [f"new-{self._number + i}" for i in range(count)]
        self._number += count
        await self._create(PODS, [a_pod(name, cpu="10m", memory="1Mi") for name in names])
        await self._until("ordinary pods are bound", lambda: all(name in self._waits_s for name in names))
        return [self._waits_s[name] for name in names]

    async def preempt(self) -> None:
        """Create the important pods."""
        count = self._options.preemptions
        await self._create(PODS, [a_pod(f"high-{i}", cpu="3", priorityClassName="bench-high") for i in range(count)])

    async def check_preemptions(self) -> None:
        """See that every important pod is promised a node, and waits.

        Raises:
            MeasurementError: it was not so.
        """
        pods = (await request(self._session, "GET", PODS))["items"]
        high = [pod for pod in pods if pod["metadata"]["name"].startswith("high-")]
        waiting = [pod for pod in high if pod["status"].get("nominatedNodeName") and not pod["spec"].get("nodeName")]
        going = [pod for pod in pods if "deletionTimestamp" in pod["metadata"]]
        if not len(waiting) == len(going) == self._options.preemptions:
            raise MeasurementError(f"{len(waiting)} important pods wait for {len(going)} to go")

    async def metrics(self) -> dict[str, Histogram]:
        """The histograms as of now."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with self._session.get(f"https://127.0.0.1:{self._port}/metrics", ssl=context) as answer:
            answer.raise_for_status()
            return histograms(await answer.text())

    async def _create(self, path: str, objects: Sequence[dict[str, Any]]) -> None:
        left = iter(objects)

        async def creator() -> None:
            for each in left:  # shared between the creators: each takes the next one
                self._created[each["metadata"]["name"]] = time.monotonic()
                await request(self._session, "POST", path, json=each)

        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(creator())

    async def _until(self, what: str, is_so: Any) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > until_s:
                raise MeasurementError(f"not within {PATIENCE_S:g} s: {what}")
            await asyncio.sleep(0.02)


async def play(plane: ControlPlane, options: argparse.Namespace, idle: Phase, busy: Phase) -> None:
    """One round.

    Raises:
        MeasurementError: it did not come to its end.
    """
    (port,) = free_ports(1)
    values = {"config": scheduler_configuration(plane), "port": port, "assets": plane.assets}
    token = plane.token_of("admin")
    target = Target(
        server=plane.server, token=token, ca_file=plane.ca_file, process_group=plane.process_group, timeout_s=0.0
    )
    await asyncio.to_thread(ApiClient(plane.server, token, ca_file=plane.ca_file).wipe)
    async with open_session(target) as session:
        room = Room(session, options, port)
        await room.fill()
        command = filled_in(options.command + FLAGS, **values)
        async with running(command, target, plane.folder / "scheduler.log"):
            following = asyncio.ensure_future(room.follow(await version_now(session, PODS)))
            try:
                await room.place(WARM_UP)
                before = await room.metrics()
                waits_s = await room.place(options.pods)
                between = await room.metrics()
                idle.take(before, between, waits_s)
                _, waits_s = await asyncio.gather(room.preempt(), room.place(options.pods))
                busy.take(between, await room.metrics(), waits_s)
                await room.check_preemptions()
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.preemption", description="Whether ordinary pods notice preemptions.")
    parser.add_argument("--nodes", type=int, default=500, help="%(default)s if absent")
    parser.add_argument("--preemptions", type=int, default=100, help="in progress at a time; %(default)s if absent")
    parser.add_argument("--pods", type=int, default=1000, help="ordinary pods of a phase; %(default)s if absent")
    parser.add_argument("--rounds", type=int, default=1, help="%(default)s if absent; what they show is put together")
    parser.add_argument("--limit", type=float, default=2.0, help="of the ratio of the p99; %(default)s if absent")
    parser.add_argument("--command", default=BERTH_COMMAND, help="what is measured; Berth if absent")
    parser.add_argument("--kubernetes", default=build.DEFAULT_MINOR, choices=build.minors(), help="the servers' minor")
    return parser.parse_args()


def report(idle: Phase, busy: Phase) -> str:
    """A row for each sort of phase, and their ratios."""
    quiet, loud = idle.figures(), busy.figures()
    ratios = [b / a if a else 1.0 for a, b in zip(quiet, loud, strict=True)]
    rows = [("idle", len(idle.waits_s), quiet), ("busy", len(busy.waits_s), loud), ("ratio", "", ratios)]
    widths = (12, 8, 14, 8, 12, 8)
    return "\n".join(
        [HEADER]
        + [
            f"{name:8}{count:>8}" + "".join(f"{value:{width}.2f}" for value, width in zip(values, widths, strict=True))
            for name, count, values in rows
        ]
    )


def ratios_of_p99(idle: Phase, busy: Phase) -> tuple[float, float]:
    """Of the search, and of the attempt."""
    quiet, loud = idle.figures(), busy.figures()
    return loud[1] / quiet[1], loud[3] / quiet[3]


def main() -> int:
    options, idle, busy = arguments(), Phase(), Phase()
    try:
        with ControlPlane(built_assets(options.kubernetes), benchmark=True) as plane:
            for _ in range(options.rounds):
                asyncio.run(play(plane, options, idle, busy))
            print(f"{options.nodes} nodes, {options.preemptions} preemptions in progress, on {plane.version}; ms:")
    except (AssetsError, ControlPlaneError, MeasurementError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(report(idle, busy))
    return int(max(ratios_of_p99(idle, busy)) > options.limit)


if __name__ == "__main__":
    sys.exit(main())
