"""Which proxy leads where."""

from __future__ import annotations

import pytest

from berth.kube.proxy import proxy_for

PROXY = "http://proxy:3128"

# server, value of NO_PROXY, whether the proxy is used
CASES: dict[str, tuple[str, str, bool]] = {
    "no exceptions": ("https://k.example", "", True),
    "everything is an exception": ("https://k.example", "a, *", False),
    "the name itself": ("https://k.example", "k.example", False),
    "a name covers its subdomains": ("https://a.k.example", "k.example", False),
    "a name covers no other name": ("https://ak.example", "k.example", True),
    "a dotted name covers subdomains": ("https://a.k.example", ".k.example", False),
    "a dotted name does not cover itself": ("https://k.example", ".k.example", True),
    "a starred name covers subdomains": ("https://a.k.example", "*.k.example", False),
    "capitals do not matter": ("https://k.example", "K.Example", False),
    "the port of the server": ("https://k.example:6443", "k.example:6443", False),
    "another port": ("https://k.example", "k.example:6443", True),
    "an address": ("https://10.96.0.1", "10.96.0.1", False),
    "an address with its port": ("https://10.96.0.1:6443", "10.96.0.1:6443", False),
    "another address": ("https://10.96.0.1", "10.96.0.2", True),
    "a range": ("https://10.96.0.1", "10.0.0.0/8", False),
    "another range": ("https://10.96.0.1", "192.168.0.0/16", True),
    "a range that is none": ("https://10.96.0.1", "10.0.0.0/ten", True),
    "a range for a name": ("https://k.example", "10.0.0.0/8", True),
    "an IPv6 range": ("https://[fd00::1]:443", "fd00::/8", False),
    "an IPv6 address": ("https://[fd00::1]:443", "fd00::1", False),
    "loopback": ("https://127.0.0.1:6443", "", False),
    "localhost": ("https://localhost:6443", "", False),
}


@pytest.mark.parametrize(("server", "exceptions", "used"), CASES.values(), ids=CASES.keys())
def test_whether_the_proxy_is_used(server: str, exceptions: str, used: bool) -> None:
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}
    assert proxy_for(server, environ) == (PROXY if used else "")


def test_each_scheme_has_its_variable_in_either_case() -> None:
    assert proxy_for("http://k", {"HTTPS_PROXY": PROXY}) == ""
    assert proxy_for("http://k", {"http_proxy": "proxy:3128"}) == PROXY
