"""A kubeconfig for the embedded API server, for kubectl and every client library.

Called by the sandbox command and by tests.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

JsonObject = dict[str, Any]

NAME = "berth-sandbox"


def kubeconfig(url: str, *, token: str | None = None, ca_pem: bytes | None = None) -> JsonObject:
    """The content of a kubeconfig.

    Args:
        url: of the API server.
        token: bearer token; None sends none.
        ca_pem: the certificate that signed the server's, in PEM; None for plain HTTP.
    """
    cluster: JsonObject = {"server": url}
    if ca_pem is not None:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    user = {} if token is None else {"token": token}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": user}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }


def write_kubeconfig(path: Path, url: str, *, token: str | None = None, ca_pem: bytes | None = None) -> None:
    """Write a kubeconfig that only its owner can read.

    Raises:
        OSError: the file cannot be written.
    """
    text = yaml.safe_dump(kubeconfig(url, token=token, ca_pem=ca_pem), sort_keys=False)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
