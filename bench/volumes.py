"""How soon pods follow their claims: rounds of claims that are bound late, on a real API server.

    python -m bench.volumes --rounds 300 --kubernetes 1.36

What a round is, and what must hold of it, is in ``tests/integration/volume_rounds.py``. Volumes are made by a script;
claims are bound by it as well, or by kube-controller-manager. A pod waits from the moment at which a watch shows the
last of its claims as bound until a watch shows it with a node. Ends with 1 if a pod waited longer than the limit, or if
anything was wrong, such as a volume that was promised twice.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.drain import MeasurementError, Target, open_session, running, version_now, watch
from bench.run import BERTH_COMMAND, built_assets, filled_in, scheduler_configuration
from e2e.controlplane import build
from e2e.gobuild import AssetsError
from tests.integration import volume_rounds
from tests.integration.clusters import RealCluster
from tests.integration.history import STORED_AS_JSON
from tests.integration.objects import a_node, a_pod
from tests.integration.scene import Scene
from tests.integration.storage import CLAIMS, claims_of, is_ready
from tests.support.client import PODS
from tests.support.controlplane import ControlPlane, ControlPlaneError, free_ports
from tests.support.scheduler import SchedulerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import aiohttp

BINDER_FLAGS = ("--controllers=persistentvolume-binder-controller",)
SHOWN_WITHIN_S = 10.0  # how long a watch may lag behind a list
HEADER = f"{'':10}{'pods':>8}{'p50 ms':>10}{'p95 ms':>10}{'max ms':>10}{'late':>8}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.volumes", description="How soon pods follow their claims.")
    parser.add_argument("--rounds", type=int, default=30, help="%(default)s if absent")
    parser.add_argument("--latest-s", type=float, default=1.0, help="a volume takes at most so long to be made")
    parser.add_argument("--limit-s", type=float, default=2.0, help="pods may wait so long; %(default)s if absent")
    parser.add_argument("--binder", default="script", choices=("script", "controller-manager"), help="who binds claims")
    parser.add_argument("--command", default=BERTH_COMMAND, help="what is measured; Berth if absent")
    parser.add_argument("--kubernetes", default=build.DEFAULT_MINOR, choices=build.minors(), help="the servers' minor")
    return parser.parse_args()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all rounds.

    Attributes:
        waits_s: of each pod, by its name.
        faults: one line for each thing that was wrong.
    """

    waits_s: Mapping[str, float]
    faults: Sequence[str]


class Follower:
    """Notes when objects of a collection were first shown as something.

    Args:
        session: requests to the API server.
        path: the collection.
        is_so: of which objects it is noted.

    Attributes:
        seen: when each was, and the object, by its name.
    """

    def __init__(self, session: aiohttp.ClientSession, path: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        self._session, self._path, self._is_so = session, path, is_so
        self.seen: dict[str, tuple[float, dict[str, Any]]] = {}

    async def run(self, version: str) -> None:
        """Follow the collection from a version on, until cancelled.

        Raises:
            MeasurementError: the API server does not go on.
        """
        while True:
            async for event in watch(self._session, self._path, {"resourceVersion": version}):
                if event["type"] == "ERROR":
                    raise MeasurementError(f"watch {self._path}: {event['object'].get('message')}")
                item = event["object"]
                version = item["metadata"]["resourceVersion"]
                if event["type"] != "DELETED" and self._is_so(item):
                    self.seen.setdefault(item["metadata"]["name"], (time.monotonic(), item))


async def measured(plane: ControlPlane, options: argparse.Namespace) -> Outcome:
    """Plays the rounds with a scheduler at work.

    Raises:
        MeasurementError: a round did not come to its end.
    """
    target = Target(
        server=plane.server,
        token=plane.token_of("admin"),
        ca_file=plane.ca_file,
        process_group=plane.process_group,
        timeout_s=0.0,
    )
    (port,) = free_ports(1)
    values = {"config": scheduler_configuration(plane), "port": port, "assets": plane.assets}
    command = filled_in(options.command, **values)
    async with open_session(target) as session, running(command, target, plane.folder / "scheduler.log"):
        pods = Follower(session, PODS, lambda pod: "nodeName" in pod["spec"] and bool(claims_of(pod)))
        claims = Follower(session, CLAIMS, is_ready)
        following = [
            asyncio.ensure_future(each.run(await version_now(session, path)))
            for each, path in ((pods, PODS), (claims, CLAIMS))
        ]
        try:
            faults = await asyncio.to_thread(play, plane, options)
            await _until_shown(pods, options.rounds * sum(volume_rounds.PODS_PER_ROUND.values()), following)
        finally:
            for each in following:
                each.cancel()
            await asyncio.gather(*following, return_exceptions=True)
    return Outcome(waits_s(pods, claims), faults)


def play(plane: ControlPlane, options: argparse.Namespace) -> list[str]:
    """Plays the rounds one after the other, once the scheduler is at work; returns what was wrong.

    Raises:
        MeasurementError: a round did not come to its end.
    """
    scene = Scene(RealCluster(plane), plane.folder)
    scene.create(*map(a_node, volume_rounds.NODES), *volume_rounds.a_landscape())
    scene.create(a_pod("first"))
    found = []
    try:
        scene.bound("first")
        with volume_rounds.a_controller(scene.api, options.latest_s, binds=options.binder == "script"):
            for number in range(options.rounds):
                wrong = volume_rounds.play(scene, volume_rounds.a_round(number))
                found += [f"round {number}: {line}" for line in wrong]
    except SchedulerError as error:
        raise MeasurementError(str(error)) from error
    return found


async def _until_shown(pods: Follower, count: int, following: Iterable[asyncio.Future[None]]) -> None:
    until_s = time.monotonic() + SHOWN_WITHIN_S
    while len(pods.seen) < count:
        for each in following:
            if each.done():
                each.result()
        if time.monotonic() > until_s:
            raise MeasurementError(f"of {count} pods the watch has shown {len(pods.seen)}")
        await asyncio.sleep(0.05)


def waits_s(pods: Follower, claims: Follower) -> dict[str, float]:
    """How long each pod waited after the last of its claims was ready."""
    return {
        name: shown_s - max(claims.seen[claim][0] for claim in claims_of(pod))
        for name, (shown_s, pod) in pods.seen.items()
    }


def report(waits: Mapping[str, float], limit_s: float) -> str:
    """A row for each kind of pod, and one for all."""
    kinds = {kind: [wait for name, wait in waits.items() if name.startswith(kind)] for kind in volume_rounds.KINDS}
    rows = [row(kind, found, limit_s) for kind, found in {**kinds, "all": list(waits.values())}.items()]
    return "\n".join([HEADER, *rows])


def row(kind: str, waits: Sequence[float], limit_s: float) -> str:
    cuts = statistics.quantiles(waits, n=20, method="inclusive")
    figures = "".join(f"{1000 * wait:10.1f}" for wait in (cuts[9], cuts[18], max(waits)))
    return f"{kind:10}{len(waits):8}{figures}{late(waits, limit_s):8}"


def late(waits: Iterable[float], limit_s: float) -> int:
    """How many waited too long."""
    return sum(wait > limit_s for wait in waits)


def main() -> int:
    options = arguments()
    try:
        with ControlPlane(built_assets(options.kubernetes), apiserver_flags=[STORED_AS_JSON]) as plane:
            if options.binder == "controller-manager":
                plane.start_controller_manager(*BINDER_FLAGS)
            outcome = asyncio.run(measured(plane, options))
            print(f"{options.rounds} rounds on {plane.version}, claims bound by {options.binder}:")
    except (AssetsError, ControlPlaneError, MeasurementError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(report(outcome.waits_s, options.limit_s))
    for line in outcome.faults:
        print(line)
    print(f"{len(outcome.faults)} faults")
    return int(bool(outcome.faults) or late(outcome.waits_s.values(), options.limit_s) > 0)


if __name__ == "__main__":
    sys.exit(main())
