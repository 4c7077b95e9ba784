"""Which proxy leads to an API server, by the environment variables that every client of Kubernetes honours.

Source: golang.org/x/net/http/httpproxy, which the reference's client uses.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """The URL of the proxy to use for *server*, empty for none.

    `HTTPS_PROXY` or `HTTP_PROXY` counts, in capitals or not, unless `NO_PROXY` names the host: `*`, a name (which
    covers its subdomains), `.name` (subdomains alone), an address, or a CIDR range; a port narrows an entry down.
    Loopback is never reached through a proxy.

    Args:
        server: base URL of an API server.
        environ: the environment.
    """
    parts = urlsplit(server)
    variable = f"{parts.scheme}_proxy"
    proxy = environ.get(variable.upper()) or environ.get(variable) or ""
    host = (parts.hostname or "").rstrip(".")
    if not proxy or host == "localhost" or _is_loopback(host):
        return ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    exceptions = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_covers(entry.strip().lower(), host, port) for entry in exceptions.split(",") if entry.strip()):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip("[]"))
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback


def _covers(entry: str, host: str, port: int) -> bool:
    """Whether one entry of NO_PROXY means *host*."""
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry) is None:
        name, separator, only_port = entry.rpartition(":")
        if separator and only_port.isdecimal():
            if int(only_port) != port:
                return False
            entry = name
    if address is not None:
        return _address(entry) == address
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")
