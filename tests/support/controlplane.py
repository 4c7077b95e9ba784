"""A real control plane for tests: etcd and kube-apiserver on loopback, with everything they write in one folder.

It relies on binaries that ``make envtest`` built (or ``KUBEBUILDER_ASSETS`` names) and builds none itself. Users are
tokens: ``admin`` may do everything, the others what the cluster's RBAC rules give them. There is no kubelet, and no
controller unless ``start_controller_manager`` is called, so nothing happens to an object that a test did not cause.

Safety of the data is traded for speed (etcd does not sync), which is right for a store that lives as long as its test.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
import signal
import socket
import subprocess
import tempfile
import time
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from e2e.controlplane import build
from tests.support.client import ApiClient, ApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
PORTS = range(20_000, 30_000)  # below the ports that systems hand out, so a port stays free across a restart
POLL_S = 0.05
LOG_TAIL_LINES = 25
USERS: dict[str, tuple[str, ...]] = {
    "admin": ("system:masters",),
    "berth": (),  # an account without a group: what RBAC grants it is all it has
    "system:kube-scheduler": (),  # the account to which the cluster's own rules bind the scheduler's role
}


class ControlPlaneError(Exception):
    """A server did not start, or ended; the text holds the end of its log."""


def find_assets(version: str = build.DEFAULT_MINOR) -> Path | None:
    """The folder with the servers' binaries of a Kubernetes minor, None where they have to be built first."""
    return build.find(version)


class ServerProcess:
    """One server as a child process, its output in a file."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name, self.log = name, log
        with log.open("ab") as output:
            # A session of its own: an interrupt from the keyboard reaches the tests only, and they end their servers.
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        """Raises ControlPlaneError if the process has ended."""
        if not self.is_running:
            raise ControlPlaneError(f"{self.name} ended with {self._process.returncode}\n{self.log_tail()}")

    def log_tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n".join([f"the end of {self.log.name}:", *lines])

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def terminate(self, timeout_s: float = 10.0) -> int:
        """Asks the process to end, then makes it; returns its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def pause(self) -> None:
        """Stops the process in its tracks: connections stay open and nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)


class ControlPlane:
    """etcd and kube-apiserver, from ``start`` (or ``with``) to ``stop``.

    Args:
        assets: the folder with the binaries.
        benchmark: take the API server's limits on requests in flight away.
        service_accounts: keep the admission plugin that gives every pod a service account; without a controller
            manager there is none to give, and no pod can be created.
        node_taints: keep the admission plugin that taints new nodes as not ready, which a kubelet would have undone.
        apiserver_flags: further flags, such as ``--runtime-config=...``; they come last and win.
        deadline_s: how long a start or a restart may take.
    """

    def __init__(
        self,
        assets: Path,
        *,
        benchmark: bool = False,
        service_accounts: bool = False,
        node_taints: bool = False,
        apiserver_flags: Sequence[str] = (),
        deadline_s: float = 90.0,
    ) -> None:
        self.assets, self.benchmark, self.deadline_s = assets, benchmark, deadline_s
        off = {"ServiceAccount": service_accounts, "TaintNodesByCondition": node_taints}
        self._admission_off = [name for name, keep in off.items() if not keep]
        self._apiserver_flags = tuple(apiserver_flags)
        self._users = dict(USERS)
        self._servers: dict[str, ServerProcess] = {}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._etcd_port, self._etcd_peer_port, self._port = free_ports(3)
        self.server = f"https://{LOOPBACK}:{self._port}"
        self.version = ""  # such as v1.37.2, known once started

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def add_user(self, name: str, groups: Sequence[str] = ()) -> None:
        """Adds a user to those of ``USERS``; the API server reads them when it starts."""
        self._users[name] = tuple(groups)

    @property
    def folder(self) -> Path:
        """Where the servers' data, logs and credentials are, while they run."""
        if self._temporary is None:
            raise ControlPlaneError("the control plane has not been started")
        return Path(self._temporary.name)

    @property
    def ca_file(self) -> Path:
        """The authority that signed the API server's certificate."""
        return self.folder / "certs" / "apiserver.crt"

    @property
    def etcd_url(self) -> str:
        """The store itself, for tests that look behind the API server."""
        return f"http://{LOOPBACK}:{self._etcd_port}"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.kubeconfig_for("admin")

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of the servers that run, by name."""
        return {name: server.pid for name, server in self._servers.items() if server.is_running}

    def process(self, name: str) -> ServerProcess:
        """A server by the name of its binary, to pause it or to read its log."""
        return self._servers[name]

    def client(self, user: str = "admin") -> ApiClient:
        return ApiClient(self.server, self.token_of(user), ca_file=self.ca_file)

    def token_of(self, user: str) -> str:
        if user not in self._users:
            raise ControlPlaneError(f"no user {user!r}: want one of {', '.join(self._users)}")
        return f"token-of-{user.replace(':', '-')}"

    def kubeconfig_for(self, user: str) -> Path:
        """A kubeconfig file with the user's token, complete in itself; written on first use."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            authority = base64.b64encode(self.ca_file.read_bytes()).decode()
            cluster = {"server": self.server, "certificate-authority-data": authority}
            config = {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": user, "user": {"token": self.token_of(user)}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
                "current-context": "test",
            }
            path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def start(self) -> None:
        """Starts both servers and waits until they serve.

        Raises:
            ControlPlaneError: a server ended, or was not ready in time. Nothing is left running.
        """
        self._temporary = tempfile.TemporaryDirectory(prefix="berth-controlplane-")
        try:
            self._write_users_and_key()
            self._spawn("etcd", self._etcd_flags())
            self.start_apiserver()
            self.version = self.client().get("/version")["gitVersion"]
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the servers and removes their folder; does nothing if nothing runs.

        The API server goes before its store, and at once: asked politely it waits for etcd.
        """
        for server in reversed(self._servers.values()):
            server.kill()
        self._servers.clear()
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def start_apiserver(self) -> None:
        """Starts the API server, on the same port as before if it ran before, and waits until it is ready."""
        self._spawn("kube-apiserver", self._kube_apiserver_flags())
        self._wait_until_ready()

    def kill_apiserver(self) -> None:
        """Ends the API server without a warning."""
        self._servers["kube-apiserver"].kill()

    def restart_apiserver(self) -> None:
        """Kills the API server and starts it again: same port, same certificate, same objects, every watch broken."""
        self.kill_apiserver()
        self.start_apiserver()

    def start_controller_manager(self, *flags: str) -> None:
        """Starts kube-controller-manager with the administrator's rights; it does not take part in elections.

        Raises:
            ControlPlaneError: it ended, or did not report to be healthy in time.
        """
        (port,) = free_ports(1)
        fixed = [
            f"--kubeconfig={self.admin_kubeconfig}",
            f"--authentication-kubeconfig={self.admin_kubeconfig}",
            f"--authorization-kubeconfig={self.admin_kubeconfig}",
            f"--service-account-private-key-file={self._key}",
            f"--root-ca-file={self.ca_file}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            "--leader-elect=false",
        ]
        self._spawn("kube-controller-manager", [*fixed, *flags])
        self._wait_for("kube-controller-manager", ApiClient(f"https://{LOOPBACK}:{port}", timeout_s=5), "/healthz")

    def compact_etcd(self) -> int:
        """Makes etcd forget every version but the newest; returns the revision that is the oldest from then on.

        The API server keeps versions of its own for a while, so only after its restart is an old one really gone.
        """
        etcd = ApiClient(self.etcd_url)
        revision = int(etcd.post("/v3/maintenance/status", {})["header"]["revision"])
        etcd.post("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def _spawn(self, name: str, flags: Sequence[str]) -> None:
        self._servers[name] = ServerProcess(name, [str(self.assets / name), *flags], self.folder / f"{name}.log")

    def _wait_until_ready(self) -> None:
        client = ApiClient(self.server, self.token_of("admin"), timeout_s=5)
        self._wait_for("kube-apiserver", client, "/readyz")
        # The namespace is made by a loop that readiness does not wait for, and without it no pod can be created.
        self._wait_for("kube-apiserver", client, "/api/v1/namespaces/default")

    def _wait_for(self, name: str, client: ApiClient, path: str) -> None:
        until = time.monotonic() + self.deadline_s
        last = "no answer"
        while time.monotonic() < until:
            for server in self._servers.values():
                server.check()
            try:
                client.request("GET", path)
            except (OSError, HTTPException, ApiError) as error:
                last = str(error)
            else:
                return
            time.sleep(POLL_S)
        tail = self._servers[name].log_tail()
        raise ControlPlaneError(f"{name}: {path} did not succeed in {self.deadline_s} s ({last})\n{tail}")

    @property
    def _key(self) -> Path:
        return self.folder / "service-accounts.key"

    def _write_users_and_key(self) -> None:
        rows = [
            ",".join([self.token_of(name), name, name, json.dumps(",".join(groups))])
            for name, groups in self._users.items()
        ]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        key = ec.generate_private_key(ec.SECP256R1())
        self._key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))

    def _etcd_flags(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls=http://{LOOPBACK}:{self._etcd_peer_port}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={8 << 30}",
            "--log-level=error",
        ]

    def _kube_apiserver_flags(self) -> list[str]:
        limits = [
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
        ]
        return [
            f"--etcd-servers={self.etcd_url}",
            f"--secure-port={self._port}",
            f"--bind-address={LOOPBACK}",
            f"--advertise-address={LOOPBACK}",  # so that the certificate names it
            "--endpoint-reconciler-type=none",  # nothing runs in this cluster that would look for its API server
            f"--cert-dir={self.folder / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._key}",
            f"--service-account-signing-key-file={self._key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            *([f"--disable-admission-plugins={','.join(self._admission_off)}"] if self._admission_off else []),
            *(limits if self.benchmark else []),
            *self._apiserver_flags,
        ]


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on."""
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            found.append(port)
        if len(found) == count:
            return found
    raise ControlPlaneError(f"no {count} free ports in {PORTS}")
