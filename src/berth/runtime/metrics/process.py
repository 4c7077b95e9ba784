"""What is shown of the process itself: who it is, what it may do, and what it uses.

Source: k8s component-base version/, featuregate and metrics; the names under ``process_`` are Prometheus' own.
"""

from __future__ import annotations

import asyncio
import platform
import resource
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

from berth.config.versions import NEWEST
from berth.runtime.metrics.instruments import Stability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth.config.versions import VersionRow
    from berth.framework.features import FeatureGates
    from berth.runtime.metrics.instruments import Registry

_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_NO_LIMIT: Final = 2.0**64  # what an unlimited amount of memory has always been shown as


class Process:
    """The ``process_*`` metrics, read from /proc at each scrape; a collector in the sense of `prometheus_client`."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._base = ProcessCollector(proc=str(proc), registry=None)
        self._netstat = proc / "self" / "net" / "netstat"

    def collect(self) -> Iterator[Metric]:
        """What this system tells about a process; nothing where there is no /proc."""
        yield from self._base.collect()
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            value=_NO_LIMIT if limit == resource.RLIM_INFINITY else limit,
        )
        traffic = self._traffic()
        for key, way in (("InOctets", "receive"), ("OutOctets", "transmit")):
            if key in traffic:
                text = f"Bytes that the network namespace of the process did {way}."
                yield CounterMetricFamily(f"process_network_{way}_bytes_total", text, value=traffic[key])

    def start_time_s(self) -> float | None:
        """When the process began, in seconds since 1970; None where the system does not tell."""
        for metric in self._base.collect():
            if metric.name == "process_start_time_seconds":
                return metric.samples[0].value
        return None

    def _traffic(self) -> dict[str, int]:
        try:
            lines = self._netstat.read_text().splitlines()
        except OSError:
            return {}
        rows = [line.split()[1:] for line in lines if line.startswith("IpExt:")]  # names, then values
        return {name: int(value) for name, value in zip(*rows, strict=True)} if rows else {}


def register_build(registry: Registry, row: VersionRow, gates: FeatureGates, min_compat: str = "") -> None:
    """Show which version is emulated and which gates are on.

    Args:
        registry: where to show it.
        row: the version whose rules apply.
        gates: of that version.
        min_compat: the oldest version to be compatible with, as ``1.36``; the one before *row* when empty.
    """
    major, minor = row.minor.split(".")
    build = {
        "major": major,
        "minor": minor,
        "git_version": row.reference,
        "git_commit": "",
        "git_tree_state": "",
        "build_date": "",
        "go_version": "",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{_MACHINES.get(platform.machine(), platform.machine())}",
    }
    family = registry.gauge(
        "kubernetes_build_info",
        "Always 1; the labels tell the version of Kubernetes whose scheduler this one stands in for.",
        tuple(build),
        Stability.BETA,
    )
    family[tuple(build.values())].set(1)
    versions = registry.gauge(
        "version_info",
        "Always 1; the labels tell the newest, the emulated and the oldest compatible version.",
        ("component", "binary", "emulation", "min_compat"),
    )
    versions["kube", NEWEST.minor, row.minor, min_compat or row.previous_minor].set(1)
    enabled = registry.gauge(
        "kubernetes_feature_enabled",
        "1 for a feature gate that is on, 0 for one that is off.",
        ("name", "stage"),
        Stability.BETA,
    )
    for name, spec in gates.specs.items():
        enabled[name, spec.stage.value].set(int(gates.enabled(name)))


def register_tasks(registry: Registry) -> None:
    """Show how many tasks there are, where dashboards look for goroutines."""
    tasks = registry.gauge(
        "go_goroutines", "Tasks on the event loop, which stand in for goroutines.", stability=Stability.STABLE
    )
    registry.on_scrape(lambda: tasks[()].set(len(asyncio.all_tasks())))


def register_registrations(registry: Registry) -> None:
    """Show how many families *registry* has, whenever they come."""
    registered = registry.counter(
        "registered_metrics_total",
        "Families that are shown, by stability.",
        ("stability_level", "deprecated_version"),
        Stability.BETA,
    )
    hidden = registry.counter(
        "hidden_metrics_total", "Deprecated families that are not shown.", stability=Stability.BETA
    )
    disabled = registry.counter("disabled_metrics_total", "Families turned off by a flag.", stability=Stability.BETA)

    def refresh() -> None:
        for stability, count in registry.registered.items():
            registered[stability.value, ""].value = count
        hidden[()].value = registry.hidden_count
        disabled[()].value = registry.disabled_count

    registry.on_scrape(refresh)
