"""The files of `deploy/second-scheduler`, applied as they are, and what their account may do while a right is missing.

The scheduler runs outside of the cluster, with a token of its service account, the arguments of its container and the
configuration of its ConfigMap; only where the API server is, and where to serve, is said in addition.
"""

from __future__ import annotations

import base64
import copy
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from tests.integration.audit import RECORDED, Deed
from tests.support.client import object_path
from tests.support.controlplane import free_ports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from tests.integration.clusters import RealCluster
    from tests.integration.objects import JsonObject
    from tests.integration.scene import Scene
    from tests.support.scheduler import SchedulerProcess

FOLDER = Path(__file__).parents[2] / "deploy" / "second-scheduler"
(ACCOUNT,) = RECORDED
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
SLOW = {"qps": 5, "burst": 5}  # so that bindings wait for their turn
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_READER = Deed("get", "", "configmaps", "extension-apiserver-authentication")


def manifests() -> list[JsonObject]:
    """The objects of all files."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def manifest(kind: str, name: str = "") -> JsonObject:
    """The one object of a kind, and of a name where there are several of the kind."""
    (found,) = [each for each in manifests() if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return found


def deeds_of(role: JsonObject) -> list[Deed]:
    """What a role allows, one by one."""
    return [
        Deed(verb, group, resource, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    ]


GRANTED = {
    deed: object_path(role)
    for role in manifests()
    if role["kind"] in ("ClusterRole", "Role")
    for deed in deeds_of(role)
}


def without(role: JsonObject, deeds: Collection[Deed]) -> JsonObject:
    """The role with everything but *deeds*, rule by rule."""
    left = [each for each in deeds_of(role) if each not in deeds]
    rules = [
        {"verbs": [each.verb], "apiGroups": [each.group], "resources": [each.resource]}
        | ({"resourceNames": [each.name]} if each.name else {})
        for each in left
    ]
    return {**role, "rules": rules}


class Deployed:
    """The manifests in a cluster."""

    def __init__(self, cluster: RealCluster, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self.api = cluster.api

    def kubectl(self, *arguments: str) -> None:
        program = [str(self._cluster.plane.assets / "kubectl"), f"--cache-dir={self._folder / 'cache'}"]
        command = [*program, f"--kubeconfig={self._cluster.kubeconfig}", *arguments, f"--filename={FOLDER}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    def token(self, account: str = "berth", namespace: str = "kube-system") -> str:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        return str(self.api.post(path, body)["status"]["token"])

    def create_scraper(self) -> None:
        """An account that may read metrics, as a monitoring system has one: `default/scraper`."""
        account = {"name": "scraper", "namespace": "default"}
        self.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        self.api.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "scraper"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole",
                    "name": "system:monitoring",
                },
                "subjects": [{"kind": "ServiceAccount", **account}],
            }
        )

    def kubeconfig(self) -> Path:
        """Credentials of the account, as an operator would write them down."""
        plane = self._cluster.plane
        authority = base64.b64encode(plane.ca_file.read_bytes()).decode()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": plane.server, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": self.token()}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path = self._folder / "account.kubeconfig"
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        return path

    def start(self, scene: Scene, durations: Mapping[str, str] | None = None) -> Running:
        """Run the container's command outside; the lease that an earlier run may have left is taken away.

        Args:
            scene: ends it.
            durations: of the election, where the configured ones do not suit a test.
        """
        (port,) = free_ports(1)
        flags, config = self._command(port)
        election = config["leaderElection"]
        election.update(durations or {})
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{election['resourceNamespace']}/leases"
        lease = f"{leases}/{election['resourceName']}"
        if election["resourceName"] in {each["metadata"]["name"] for each in self.api.items(leases)}:
            self.api.delete(lease)
        return Running(scene, scene.launch(*flags, config=config), port, lease)

    def _command(self, port: int) -> tuple[list[str], JsonObject]:
        kubeconfig = str(self.kubeconfig())
        container = manifest("Deployment")["spec"]["template"]["spec"]["containers"][0]
        mount = container["volumeMounts"][0]["mountPath"]
        flags = [flag for flag in container["args"] if flag != f"--config={mount}/config.yaml"]
        assert len(flags) == len(container["args"]) - 1
        outside = [
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
        ]
        config = yaml.safe_load(manifest("ConfigMap")["data"]["config.yaml"])
        config["clientConnection"] = {"kubeconfig": kubeconfig, **SLOW}
        return [*flags, *outside], config

    @contextmanager
    def lacking(self, scene: Scene, *deeds: Deed) -> Iterator[None]:
        """Take rights of one role away, for a while."""
        (path,) = {GRANTED[deed] for deed in deeds}
        whole = self.api.get(path)
        self.api.put(path, without(whole, deeds) | {"metadata": {"name": whole["metadata"]["name"]}})
        scene.until(f"{deeds} are refused", lambda: not any(map(self.may, deeds)))
        try:
            yield
        finally:
            self.api.put(path, _fresh(whole))
            scene.until(f"{deeds} are granted again", lambda: all(map(self.may, deeds)))

    @contextmanager
    def unbound(self, scene: Scene, binding: str) -> Iterator[None]:
        """Take one RoleBinding away, for a while."""
        path = object_path(manifest("RoleBinding", binding))
        whole = self.api.get(path)
        self.api.delete(path)
        scene.until("the configmap is refused", lambda: not self.may(_READER))
        try:
            yield
        finally:
            self.api.create(_fresh(whole))
            scene.until("the configmap is granted again", lambda: self.may(_READER))

    def may(self, deed: Deed) -> bool:
        """What the API server says about the account's right."""
        resource, _, subresource = deed.resource.partition("/")
        attributes = {"verb": deed.verb, "group": deed.group, "resource": resource, "subresource": subresource}
        attributes |= {"name": deed.name, "namespace": "kube-system" if resource != "nodes" else ""}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": ACCOUNT, "groups": GROUPS, "resourceAttributes": attributes},
        }
        return bool(self.api.post(_REVIEWS, review)["status"]["allowed"])


class Running:
    """The scheduler at work under its account."""

    def __init__(self, scene: Scene, process: SchedulerProcess, port: int, lease: str) -> None:
        self.scene, self.process, self.port, self.lease = scene, process, port, lease


def _fresh(item: JsonObject) -> JsonObject:
    """An object that can be written whatever happened to it meanwhile."""
    clean = copy.deepcopy(item)
    for field in ("resourceVersion", "uid", "creationTimestamp", "managedFields"):
        clean["metadata"].pop(field, None)
    return clean
