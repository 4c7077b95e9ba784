"""A small synchronous client of the Kubernetes API, for tests.

It shares no code with the client under test, so that a test's view of the cluster is an independent one. It opens a
connection per request: a server that was restarted in between is of no consequence. It speaks TLS and plain HTTP, so
one suite runs against kube-apiserver and against the embedded server.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

PATCHES: Mapping[str, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
CLUSTER_SCOPED = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CSIDriver",
        "CSINode",
        "CustomResourceDefinition",
        "DeviceClass",
        "DeviceTaintRule",
        "Namespace",
        "Node",
        "PersistentVolume",
        "PriorityClass",
        "ResourceSlice",
        "RuntimeClass",
        "StorageClass",
        "VolumeAttachment",
    },
)
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
# What `wipe` deletes, users before what they use.
WIPED = (
    PODS,
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/api/v1/namespaces/default/events",
    "/api/v1/persistentvolumes",
    NODES,
)


class ApiError(Exception):
    """The server answered, and it was not a success."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        self.status, self.body = status, body
        self.reason, self.message = "", body[:400]
        with contextlib.suppress(ValueError):
            answer = json.loads(body)
            if isinstance(answer, dict):
                self.reason, self.message = answer.get("reason", ""), answer.get("message", "")
        super().__init__(f"{method} {path}: {status} {self.reason}: {self.message}")


class ApiClient:
    """Requests with one user's token.

    Args:
        server: such as ``https://127.0.0.1:6443`` or ``http://127.0.0.1:8080``.
        token: a bearer token; without one the request is anonymous.
        ca_file: the authority that must have signed the server's certificate; without one it is not verified.
        timeout_s: how long one request may take.
    """

    def __init__(
        self,
        server: str,
        token: str | None = None,
        *,
        ca_file: Path | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self.server, self.token, self.timeout_s = server.rstrip("/"), token, timeout_s
        self._url = urlsplit(self.server)
        self._tls = _tls_context(ca_file) if self._url.scheme == "https" else None

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> str:
        """The text that the server answers.

        Raises:
            ApiError: the server answered with a status of 400 or above.
            OSError, http.client.HTTPException: there was no whole answer.
        """
        headers = {"Accept": "application/json", "Content-Type": content_type}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body)
        with contextlib.closing(self._connection()) as connection:
            connection.request(method, f"{path}?{urlencode(params)}" if params else path, data, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status >= HTTPStatus.BAD_REQUEST:
            raise ApiError(method, path, answer.status, text)
        return text

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """One object, or one list."""
        return _decoded(self.request("GET", path, params=params))

    def items(self, path: str, params: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """The objects of a collection."""
        return list(self.get(path, params)["items"] or [])

    def post(self, path: str, body: object, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Creates *body* in the collection *path*, or calls a subresource such as ``binding``."""
        return _decoded(self.request("POST", path, body, params=params))

    def put(self, path: str, body: object, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Replaces the object at *path*."""
        return _decoded(self.request("PUT", path, body, params=params))

    def patch(
        self,
        path: str,
        body: object,
        kind: str = "merge",
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Changes the object at *path*; *kind* is a key of ``PATCHES``."""
        return _decoded(self.request("PATCH", path, body, content_type=PATCHES[kind], params=params))

    def delete(self, path: str, *, grace_period_s: int = 0, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Deletes the object at *path*, or everything in the collection *path*."""
        grace = {"gracePeriodSeconds": str(grace_period_s)}
        return _decoded(self.request("DELETE", path, params=grace | dict(params or {})))

    def create(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Creates *item* where its apiVersion, kind and namespace say; the namespace defaults to ``default``."""
        return self.post(collection_path(item), item)

    def wait_for(
        self,
        path: str,
        accept: Callable[[dict[str, Any]], bool],
        *,
        deadline_s: float = 20.0,
        pause_s: float = 0.05,
    ) -> dict[str, Any]:
        """The object at *path* as soon as *accept* says yes to it; an object that is absent is waited for.

        Raises:
            TimeoutError: with the object as it was last seen.
        """
        until = time.monotonic() + deadline_s
        seen: dict[str, Any] = {}
        while time.monotonic() < until:
            try:
                seen = self.get(path)
            except ApiError as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            else:
                if accept(seen):
                    return seen
            time.sleep(pause_s)
        raise TimeoutError(f"{path}: not as expected after {deadline_s} s; last seen: {json.dumps(seen)}")

    def wipe(self, paths: Sequence[str] = WIPED) -> None:
        """Empties collections; if none is named, those of what tests create most: pods, claims, events, volumes, nodes.

        Finalizers are taken off, since the controllers that would do it need not be running.
        """
        for path in paths:
            while found := self.items(path, {"limit": "500"}):
                for item in found:
                    if item["metadata"].get("finalizers"):
                        self.patch(f"{path}/{item['metadata']['name']}", {"metadata": {"finalizers": None}})
                self.delete(path)

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=self.timeout_s, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=self.timeout_s)


def collection_path(item: Mapping[str, Any]) -> str:
    """The path to which *item* is posted, such as ``/apis/apps/v1/namespaces/default/deployments``."""
    version, kind = item["apiVersion"], item["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = "" if kind in CLUSTER_SCOPED else f"/namespaces/{item['metadata'].get('namespace', 'default')}"
    return f"{root}{namespace}/{_plural(kind)}"


def object_path(item: Mapping[str, Any]) -> str:
    """The path of *item* itself."""
    return f"{collection_path(item)}/{item['metadata']['name']}"


def _plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("class"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _decoded(text: str) -> dict[str, Any]:
    answer = json.loads(text)
    if not isinstance(answer, dict):
        raise TypeError(f"want a JSON object, got {text[:200]}")
    return answer


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    if ca_file is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
