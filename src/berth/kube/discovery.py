"""Which version the API server has, and which resources it serves.

Asked once at the start, so that a feature whose API is missing can be left out instead of failing again and again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from berth.kube.errors import KubeError, NotFoundError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.kube.session import Api

_MINOR = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class ServerVersion:
    """The version of an API server, such as 1, 37, `v1.37.2`."""

    major: int
    minor: int
    git_version: str


@dataclass(frozen=True, slots=True)
class Discovery:
    """Which resources of the group versions in question are served; absent group versions have none."""

    served: dict[str, frozenset[str]]

    def serves(self, group_version: str, resource: str) -> bool:
        """Whether e.g. `resource.k8s.io/v1`, `resourceclaims/status` is served."""
        return resource in self.served.get(group_version, ())


class _Version(msgspec.Struct, rename="camel"):
    major: str = ""
    minor: str = ""
    git_version: str = ""


class _GroupVersion(msgspec.Struct, rename="camel"):
    group_version: str


class _Group(msgspec.Struct):
    versions: list[_GroupVersion] = []


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: list[_Resource] = []


async def server_version(session: Api) -> ServerVersion:
    """Ask for the server's version.

    Raises:
        KubeError: no usable answer.
    """
    body = await session.request("GET", "/version")
    try:
        version = msgspec.json.decode(body, type=_Version)
    except msgspec.MsgspecError as error:
        raise TransportError(f"GET /version: unreadable: {error}", may_be_applied=False) from error
    minor = _MINOR.match(version.minor)  # some distributions write "37+"
    if not version.major.isdecimal() or minor is None:
        raise KubeError(f"GET /version: no version in {body[:200]!r}")
    return ServerVersion(int(version.major), int(minor[0]), version.git_version)


async def discover(session: Api, group_versions: Iterable[str]) -> Discovery:
    """Ask which resources of *group_versions* (such as `v1`, `resource.k8s.io/v1`) are served.

    Raises:
        KubeError: the server gave no usable answer; a group version that it does not know is none.
    """
    try:
        groups = msgspec.json.decode(await session.request("GET", "/apis"), type=_Groups)
        known = {version.group_version for group in groups.groups for version in group.versions}
        served: dict[str, frozenset[str]] = {}
        for group_version in group_versions:
            is_core = "/" not in group_version
            if is_core or group_version in known:
                served[group_version] = await _resources(session, f"/{'api' if is_core else 'apis'}/{group_version}")
    except msgspec.MsgspecError as error:
        raise TransportError(f"discovery: unreadable: {error}", may_be_applied=False) from error
    return Discovery(served)


async def _resources(session: Api, path: str) -> frozenset[str]:
    try:
        body = await session.request("GET", path)
    except NotFoundError:
        return frozenset()
    return frozenset(resource.name for resource in msgspec.json.decode(body, type=_Resources).resources)
