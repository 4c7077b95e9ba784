"""`berth demo`: a cluster in a box, the real scheduler, and where each pod went.

Starts the sandbox and, beside it, the scheduler as its users run it: another process that knows nothing but a
kubeconfig.  Then it applies a few workloads and tells what became of them.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from berth.kube.credentials import CredentialKeeper, Kubeconfig
from berth.kube.errors import KubeError
from berth.kube.session import ApiSession
from berth.sandbox.nodes.hollow import HollowNode, zoned_nodes
from berth.sandbox.sandbox import SandboxError, SandboxOptions, SandboxProcess

NODES: Final = 50
_GPU_NODES: Final = 5
_PODS: Final = "/api/v1/namespaces/default/pods"
_DEADLINE_S: Final = 60.0
_POLL_S: Final = 0.1
_STOP_S: Final = 10.0
_SHOWN_NODES: Final = 4
_INTERRUPTED: Final = 130  # the exit code that shells expect after Ctrl-C
_KUBECONFIG: Final = Path(".berth/kubeconfig")


def demo(arguments: Sequence[str]) -> int:
    """Run the demo; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="berth demo", description="A cluster in a box and what the scheduler makes of it."
    )
    parser.add_argument(
        "--kubeconfig", type=Path, default=_KUBECONFIG, help="where to write one (default: %(default)s)"
    )
    parser.add_argument("--keep", action="store_true", help="leave the cluster running until Ctrl-C")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends us ends the cluster and the scheduler too
    try:
        options.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
        return _run(Console(), options.kubeconfig, keep=options.keep)
    except (SandboxError, KubeError, OSError) as fault:
        print(f"Error: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(console: Console, kubeconfig: Path, *, keep: bool) -> int:
    console.print(f"[bold]1[/] a cluster: {NODES} hollow nodes in three zones, {_GPU_NODES} of them a tainted GPU pool")
    with SandboxProcess(SandboxOptions(nodes=demo_nodes(), kubeconfig=kubeconfig)) as running:
        kubectl = f"kubectl --kubeconfig {kubeconfig} get nodes"
        console.print(f"  API server at {running.endpoint.url}; {escape(kubectl)}", soft_wrap=True)
        console.print("[bold]2[/] the scheduler: berth run --kubeconfig … --leader-elect=false")
        with _scheduler(kubeconfig) as scheduler:
            code = asyncio.run(_show(console, kubeconfig, scheduler))
            if keep:
                _wait_for_signal(console)
    return code


@contextmanager
def _scheduler(kubeconfig: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The scheduler as a child process, which ends with the block."""
    command = [sys.executable, "-m", "berth", "run", f"--kubeconfig={kubeconfig}"]
    with subprocess.Popen([*command, "--leader-elect=false", "--secure-port=0"]) as scheduler:  # noqa: S603 - ourselves
        try:
            yield scheduler
        finally:
            scheduler.terminate()
            try:
                scheduler.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                scheduler.kill()


def _wait_for_signal(console: Console) -> None:
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # one that comes too early waits
    console.print("the cluster and the scheduler keep running; Ctrl-C ends them")
    signal.sigwait(signals)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)


def demo_nodes() -> tuple[HollowNode, ...]:
    """The nodes of the demo: most are alike, the last few are a pool of their own."""
    alike = zoned_nodes(NODES)
    taint = {"key": "pool", "value": "gpu", "effect": "NoSchedule"}
    pool = [
        HollowNode(
            name=node.name,
            zone=node.zone,
            resources={**node.resources, "example.com/gpu": "4"},
            labels={"pool": "gpu"},
            taints=(taint,),
        )
        for node in alike[-_GPU_NODES:]
    ]
    return (*alike[:-_GPU_NODES], *pool)


async def _show(console: Console, kubeconfig: Path, scheduler: subprocess.Popen[bytes]) -> int:
    keeper = await CredentialKeeper.open(Kubeconfig(str(kubeconfig)))
    async with ApiSession(keeper) as session:
        workloads = yaml.safe_load(files("berth.cli").joinpath("demo_workloads.yaml").read_text(encoding="utf-8"))
        console.print("[bold]3[/] workloads")
        for workload in workloads:
            await _apply(session, workload)
            console.print(f"  {workload['replicas']:3} x {workload['title']}")
        total = sum(workload["replicas"] for workload in workloads)
        pods = await _wait_decided(session, scheduler, total, console)
        console.print("[bold]4[/] who went where")
        console.print(_table(workloads, pods, await _zones(session)))
        waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
        for pod in waiting:
            console.print(f"  [bold]{pod['metadata']['name']}[/] waits: {escape(_why(pod))}", soft_wrap=True)
    if (ended := scheduler.poll()) is not None:
        console.print(f"the scheduler ended with code {ended}")
    decided = len(pods) == total and all(pod["spec"].get("nodeName") or _why(pod) for pod in pods)
    return 0 if decided and len(waiting) == 1 else 1


async def _apply(session: ApiSession, workload: dict[str, Any]) -> None:
    for i in range(workload["replicas"]):
        template = workload["pod"]
        name = f"{template['metadata']['name']}-{i}" if workload["replicas"] > 1 else template["metadata"]["name"]
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": name}}
        await session.request("POST", _PODS, msgspec.json.encode(pod))


async def _wait_decided(
    session: ApiSession, scheduler: subprocess.Popen[bytes], total: int, console: Console
) -> list[dict[str, Any]]:
    """The pods, once each has a node or a reason for having none."""
    columns = (TextColumn("  decided"), BarColumn(), MofNCompleteColumn())
    end_s = time.monotonic() + _DEADLINE_S
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=total)
        while True:
            pods: list[dict[str, Any]] = msgspec.json.decode(await session.request("GET", _PODS))["items"]
            decided = sum(1 for pod in pods if pod["spec"].get("nodeName") or _why(pod))
            progress.update(task, completed=decided)
            if decided == total or scheduler.poll() is not None or time.monotonic() > end_s:
                return pods
            await asyncio.sleep(_POLL_S)


async def _zones(session: ApiSession) -> dict[str, str]:
    nodes = msgspec.json.decode(await session.request("GET", "/api/v1/nodes"))["items"]
    return {node["metadata"]["name"]: node["metadata"]["labels"]["topology.kubernetes.io/zone"] for node in nodes}


def _why(pod: dict[str, Any]) -> str:
    """What the scheduler says about a pod that it could not place."""
    conditions = pod.get("status", {}).get("conditions", [])
    return next(
        (c.get("message", "") for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), ""
    )


def _table(workloads: list[dict[str, Any]], pods: list[dict[str, Any]], zones: dict[str, str]) -> Table:
    table = Table("workload", "pods", "placed", *sorted(set(zones.values())), "nodes")
    for workload in workloads:
        app = workload["pod"]["metadata"]["labels"]["app"]
        placed = [
            pod["spec"]["nodeName"]
            for pod in pods
            if pod["metadata"]["labels"]["app"] == app and pod["spec"].get("nodeName")
        ]
        by_zone = Counter(zones[node] for node in placed)
        table.add_row(
            workload["title"],
            str(workload["replicas"]),
            str(len(placed)),
            *(str(by_zone[zone]) for zone in sorted(set(zones.values()))),
            _some(sorted(set(placed))),
        )
    return table


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN_NODES])
    return f"{shown} and {len(names) - _SHOWN_NODES} more" if len(names) > _SHOWN_NODES else shown
