"""Berth beside kube-scheduler: the same workload on the same real API server, in turn, and the ratios.

    python -m bench.run --nodes 5000 --pods 3000 --rounds 3

Figures of one run compare with each other and with nothing else: they move with the machine and with what else it does.
The servers come from ``make envtest``. ``--command`` measures any other scheduler in Berth's place; in it ``{config}``,
``{port}`` and ``{assets}`` stand for the configuration file, a free port and the folder of the servers' binaries.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import shlex
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from bench.drain import Measurement, MeasurementError, Target, measure
from e2e.controlplane import build
from e2e.gobuild import AssetsError
from tests.support.controlplane import ControlPlane, ControlPlaneError, free_ports

from bench import workload as workloads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

YARDSTICK = "kube-scheduler"
YARDSTICK_COMMAND = "{assets}/kube-scheduler --config {config} --secure-port {port}"
BERTH_COMMAND = f"{Path(sys.executable).parent / 'berth'} --config {{config}} --secure-port {{port}}"
COLUMNS = {
    "pods_per_s": "pods/s",
    "pods_per_s_since_start": "since start",
    "cpu_ms_per_pod": "CPU ms/pod",
    "rss_mib": "RSS MiB",
}
REQUESTS_PER_S = 5000  # more than either can use, so that neither waits for its own limit


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description="Berth beside kube-scheduler on a real API server.")
    parser.add_argument("--workload", default="basic", choices=workloads.names(), help="%(default)s if absent")
    parser.add_argument("--nodes", type=int, help="as the workload says if absent")
    parser.add_argument("--pods", type=int, help="measured pods; as the workload says if absent")
    parser.add_argument("--initial-pods", type=int, help="pods bound beforehand; as the workload says if absent")
    parser.add_argument("--rounds", type=int, default=3, help="%(default)s if absent; the medians are compared")
    parser.add_argument("--command", default=BERTH_COMMAND, help="what is measured; Berth if absent")
    parser.add_argument("--kubernetes", default=build.DEFAULT_MINOR, choices=build.minors(), help="the servers' minor")
    parser.add_argument("--timeout-s", type=float, default=300.0, help="of one measurement; %(default)s if absent")
    return parser.parse_args()


def built_assets(minor: str) -> Path:
    """The folder with the servers' binaries.

    Raises:
        AssetsError: they have not been built.
    """
    assets = build.find(minor)
    if assets is None:
        raise AssetsError(f"no control plane for Kubernetes {minor}: run `make envtest K8S={minor}` first", 2)
    return assets


def measured_rounds(plane: ControlPlane, options: argparse.Namespace) -> dict[str, list[Measurement]]:
    """The figures of every round, by scheduler, the yardstick's last; who goes first changes from round to round.

    Raises:
        MeasurementError, WorkloadError: see there.
    """
    chosen = workloads.load(options.workload, nodes=options.nodes, pods=options.pods, initial_pods=options.initial_pods)
    target = Target(
        server=plane.server,
        token=plane.token_of("admin"),
        ca_file=plane.ca_file,
        process_group=plane.process_group,
        timeout_s=options.timeout_s,
    )
    measured = "berth" if options.command == BERTH_COMMAND else "measured"
    commands = {measured: options.command, YARDSTICK: YARDSTICK_COMMAND}
    rounds: dict[str, list[Measurement]] = {name: [] for name in commands}
    config = scheduler_configuration(plane)
    for number in range(options.rounds):
        for name in list(commands) if number % 2 == 0 else reversed(commands):
            (port,) = free_ports(1)
            command = filled_in(commands[name], config=config, port=port, assets=plane.assets)
            figures = asyncio.run(measure(chosen, command, target, plane.folder / f"{name}.log"))
            rounds[name].append(figures)
            print(f"round {number + 1}, {row(name, dataclasses.asdict(figures))}", file=sys.stderr, flush=True)
    return rounds


def scheduler_configuration(plane: ControlPlane) -> Path:
    """Writes the configuration file that both schedulers get."""
    path = plane.folder / "scheduler.yaml"
    connection = {"kubeconfig": str(plane.admin_kubeconfig), "qps": REQUESTS_PER_S, "burst": REQUESTS_PER_S}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {"leaderElect": False},
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def filled_in(template: str, **values: object) -> list[str]:
    """The words of a command, with its placeholders replaced."""
    return [word.format(**values) for word in shlex.split(template)]


def medians(rounds: Sequence[Measurement]) -> dict[str, float]:
    """The median of each figure on its own."""
    return {name: statistics.median(getattr(figures, name) for figures in rounds) for name in COLUMNS}


def report(rounds: Mapping[str, Sequence[Measurement]]) -> str:
    """A row of medians per scheduler, the measured one first, and the row of their ratios."""
    of = {name: medians(figures) for name, figures in rounds.items()}
    measured = next(iter(of))
    ratios = {column: of[measured][column] / of[YARDSTICK][column] for column in COLUMNS}
    header = "".join(f"{title:>14}" for title in COLUMNS.values())
    rows = [*(row(name, figures) for name, figures in of.items()), row("ratio", ratios, digits=2)]
    return "\n".join([f"{'':15}{header}", *rows])


def row(name: str, figures: Mapping[str, float], digits: int = 1) -> str:
    return f"{name:15}" + "".join(f"{figures[column]:14.{digits}f}" for column in COLUMNS)


def main() -> int:
    options = arguments()
    try:
        with ControlPlane(built_assets(options.kubernetes), benchmark=True) as plane:
            rounds = measured_rounds(plane, options)
            print(f"{options.workload} on {plane.version}, medians of {options.rounds}:")
    except (AssetsError, ControlPlaneError, MeasurementError, workloads.WorkloadError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(report(rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
