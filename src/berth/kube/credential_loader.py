"""Reads credentials with the `kubernetes` package and prints them as one line of JSON; runs as a child process.

The package knows kubeconfig files, exec plugins, OIDC refresh and the in-cluster files; importing it costs some 20 MiB
that would stay in the scheduler for ever, and its loaders block. So `credentials.load_credentials` runs this file by
its path in a short-lived interpreter, and nothing else of ours may be imported here.

Arguments: `kubeconfig PATH` or `in-cluster TOKEN_FILE CA_FILE`. On failure the line is `{"error": reason}`.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple


class _Faults(logging.Handler):
    """Keeps what the loaders only log, so that it can become the reason of our error."""

    def __init__(self) -> None:
        super().__init__(level=logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class _Files(NamedTuple):
    """The files that a kubeconfig's active context points to; empty where it holds data instead."""

    token: str
    others: list[str]


def _read(path: str | None) -> str:
    return Path(path).read_text(encoding="utf-8") if path else ""


def _section(config: Any, kind: str, name: str | None) -> dict[str, Any]:
    """The value of `kind`s (`users`, `clusters`) with that name; empty when there is none."""
    if not name or kind + "s" not in config:
        return {}
    found = config[kind + "s"].get_with_name(name, safe=True)
    return found.value.get(kind) or {} if found is not None else {}


def _referenced_files(base: Path, user: dict[str, Any], cluster: dict[str, Any]) -> _Files:
    others = [
        str(base / section[key])
        for section, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key"))
        if section.get(key) and not section.get(key + "-data")
    ]
    token = user.get("tokenFile")
    return _Files(token=str(base / token) if token else "", others=others)


def _jwt_expiry(authorization: str) -> float | None:
    """The `exp` of a bearer token that is a JWT; None for any other."""
    parts = authorization.removeprefix("Bearer ").split(".")
    if len(parts) != 3:  # noqa: PLR2004  header, claims, signature
        return None
    try:
        expiry = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).get("exp")
    except (ValueError, binascii.Error, AttributeError):
        return None
    return float(expiry) if isinstance(expiry, int | float) else None


def _certificate_expiry(cert_pem: str) -> float:
    x509 = import_module("cryptography.x509")  # only exec plugins that hand out certificates need it
    return float(x509.load_pem_x509_certificate(cert_pem.encode()).not_valid_after_utc.timestamp())


def _expiry(loader: Any, user: dict[str, Any], authorization: str, cert_pem: str) -> float | None:
    """When what we got stops being valid, seconds since 1970; None when it is not ours to renew."""
    if getattr(loader, "expiry", None) is not None:
        return float(loader.expiry.timestamp())
    if "exec" in user and cert_pem:
        return _certificate_expiry(cert_pem)
    if "auth-provider" in user:
        return _jwt_expiry(authorization)
    return None


def _load_kubeconfig(path: str) -> dict[str, Any]:
    kube_config: Any = import_module("kubernetes.config.kube_config")

    faults = _Faults()
    logging.getLogger().addHandler(faults)
    merger = kube_config.KubeConfigMerger(path)
    loader = kube_config.KubeConfigLoader(merger.config, config_base_path=None, config_persister=merger.save_changes)
    result = kube_config.Configuration()
    loader.load_and_set(result)
    context = loader.current_context["context"]
    user = _section(merger.config, "user", context.get("user"))
    cluster = _section(merger.config, "cluster", context.get("cluster"))
    if not cluster.get("server"):
        raise ValueError(f"cluster {context.get('cluster')!r} names no server")
    authorization = str(result.api_key.get("BearerToken", "")).strip()
    cert_pem = _read(result.cert_file)
    for method in ("exec", "auth-provider"):
        if method in user and not authorization and not cert_pem:
            reason = "; ".join(faults.texts) or f"{user[method].get('name', method)!r} is not supported"
            raise ValueError(f"user {context.get('user')!r}: {method} gave no credentials: {reason}")
    base = Path(path).resolve().parent
    files = _referenced_files(base, user, cluster)
    return {
        "server": result.host,
        "authorization": authorization,
        "ca_pem": _read(result.ssl_ca_cert),
        "cert_pem": cert_pem,
        "key_pem": _read(result.key_file),
        "verify": bool(result.verify_ssl),
        "tls_server_name": result.tls_server_name or "",
        "proxy": cluster.get("proxy-url") or "",
        "token_file": files.token,
        "expires_at": _expiry(loader, user, authorization, cert_pem),
        "watched_files": [path, *files.others],
    }


def _load_in_cluster(token_file: str, ca_file: str) -> dict[str, Any]:
    incluster_config: Any = import_module("kubernetes.config.incluster_config")

    result = incluster_config.Configuration()
    incluster_config.InClusterConfigLoader(token_filename=token_file, cert_filename=ca_file).load_and_set(result)
    token = result.api_key["BearerToken"].partition(" ")[2].strip()
    return {
        "server": result.host,
        "authorization": f"Bearer {token}",
        "ca_pem": _read(ca_file),
        "token_file": token_file,
        "watched_files": [ca_file],
    }


def main(arguments: list[str]) -> int:
    """Print the credentials that *arguments* name; 0 when there are any."""
    try:
        kind, *paths = arguments
        answer = _load_kubeconfig(*paths) if kind == "kubeconfig" else _load_in_cluster(*paths)
    except Exception as error:  # noqa: BLE001  whatever the loaders raise is the reason, told to the parent
        reason = " ".join(str(error).split()) or type(error).__name__  # a YAML error comes in several lines
        sys.stdout.write(json.dumps({"error": reason}))
        return 1
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
