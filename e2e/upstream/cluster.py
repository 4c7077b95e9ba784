"""A cluster as the reference's suite expects it, with one of two schedulers in the scheduler's place.

etcd, kube-apiserver with its default admission, kube-controller-manager with all controllers and the accounts of their
own, hollow nodes, and a default storage class whose disks appear where the scheduler wants them. The scheduler is
started as kubeadm would start it: by the name ``default-scheduler``, with the lease ``kube-scheduler`` in
``kube-system``, and as the user ``system:kube-scheduler``, proved by a client certificate, with the rights that the API
server's bootstrap policy gives to that name and no others.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from pathlib import Path
from typing import Self

import yaml
from e2e.upstream.disks import Disks
from e2e.upstream.identity import make_identity
from e2e.upstream.nodes import NODES, HollowNodes
from tests.support.client import ApiError
from tests.support.controlplane import LOOPBACK, ControlPlane, ServerProcess, free_ports

USER = "system:kube-scheduler"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
DAEMON_SETS = "/apis/apps/v1/namespaces/kube-system/daemonsets"
# The suite looks for a pod of each on every node before many of its specs, for a minute, and then goes on without.
ADD_ONS = ("kube-proxy", "fluentd-elasticsearch", "node-problem-detector")
ADDRESS = "192.0.2.1"  # announced, never used: the Service `kubernetes` may not lead to loopback
START_S = 60.0
POLL_S = 0.1
BERTH = "berth"
KUBE_SCHEDULER = "kube-scheduler"
SCHEDULERS = (BERTH, KUBE_SCHEDULER)


class UpstreamCluster:
    """The cluster, from ``with`` on; the scheduler leads when it is entered.

    Args:
        assets: the folder with the servers' binaries.
        scheduler: one of ``SCHEDULERS``.
        folder: where the logs go, and what the scheduler needs to log in; it stays.
    """

    def __init__(self, assets: Path, scheduler: str, folder: Path) -> None:
        self._assets, self._scheduler, self._folder = assets, scheduler, folder
        self._identity = make_identity(USER)
        authority = folder / "clients.crt"
        authority.write_bytes(self._identity.authority)
        flags = [
            f"--client-ca-file={authority}",
            f"--advertise-address={ADDRESS}",
            "--endpoint-reconciler-type=lease",
            "--allow-privileged",
        ]
        self.plane = ControlPlane(assets, service_accounts=True, node_taints=True, apiserver_flags=flags)
        self._closing = contextlib.ExitStack()
        self._processes: list[ServerProcess] = []
        self._nodes: HollowNodes | None = None
        self._disks: Disks | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.plane)
            stack.callback(self._keep_logs)
            self.plane.start_controller_manager("--use-service-account-credentials", "--controllers=*")
            self._nodes = stack.enter_context(HollowNodes(self.plane))
            self._disks = stack.enter_context(Disks(self.plane.client()))
            self._start_scheduler(stack)
            self._add_add_ons()
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._closing.close()

    def check(self) -> None:
        """Raises what ended a part of the cluster that ought to run.

        Raises:
            ControlPlaneError: the scheduler or a server ended.
        """
        if self._nodes is not None:
            self._nodes.check()
        if self._disks is not None:
            self._disks.check()
        for process in self._processes:
            process.check()
        self.plane.process("kube-apiserver").check()
        self.plane.process("kube-controller-manager").check()

    def _start_scheduler(self, stack: contextlib.ExitStack) -> None:
        (port,) = free_ports(1)
        kubeconfig = self._folder / "scheduler.kubeconfig"
        credentials = self._identity.kubeconfig(USER, self.plane.server, self.plane.ca_file.read_bytes())
        kubeconfig.write_text(yaml.safe_dump(credentials), encoding="utf-8")
        command = [
            str(_program(self._scheduler, self._assets)),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            "--v=2",
        ]
        log = self._folder / f"{self._scheduler}.log"
        process = ServerProcess(self._scheduler, command, log, self.plane.process_group)
        self._processes.append(process)
        stack.callback(process.terminate)
        self._wait_until_leading(process)

    def _wait_until_leading(self, process: ServerProcess) -> None:
        api = self.plane.client()
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            process.check()
            with contextlib.suppress(ApiError):  # the lease is not there yet
                if api.get(LEASE)["spec"].get("holderIdentity"):
                    return
            time.sleep(POLL_S)
        raise TimeoutError(f"{self._scheduler} did not take its lease in {START_S:g} s\n{process.log_tail()}")

    def _add_add_ons(self) -> None:
        """Gives every node the pods that the suite looks for; they ask for nothing, and nothing comes of them."""
        api = self.plane.client()
        for name in ADD_ONS:
            api.post(DAEMON_SETS, _daemon_set(name))
        for name in ADD_ONS:
            api.wait_for(
                f"{DAEMON_SETS}/{name}", lambda it: it["status"].get("numberReady", 0) == NODES, deadline_s=START_S
            )

    def _keep_logs(self) -> None:
        for name in ("kube-apiserver", "kube-controller-manager"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(self.plane.folder / f"{name}.log", self._folder)


def _daemon_set(name: str) -> dict[str, object]:
    labels = {"k8s-app": name}
    spec = {
        "containers": [{"name": name, "image": f"registry.example/{name}:1"}],
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def _program(scheduler: str, assets: Path) -> Path:
    return assets / KUBE_SCHEDULER if scheduler == KUBE_SCHEDULER else Path(sys.executable).with_name("berth")
