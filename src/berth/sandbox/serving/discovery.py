"""What the server says about itself: versions, groups, resources, health.

Everything here is worked out from the resource table at the time of asking, because custom resources come and go.
Called by `server` for paths that name no resource.

Source: k8s apiserver/pkg/endpoints/discovery, apimachinery/pkg/apis/meta/v1/types.go (`APIResourceList`),
k8s.io/api/apidiscovery/v2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from berth.sandbox.kinds.errors import ApiError
from berth.sandbox.kinds.resources import STATUS_VERBS
from berth.sandbox.serving.openapi import document

if TYPE_CHECKING:
    from berth.sandbox.kinds.resources import Resource, ResourceTable

JsonObject = dict[str, Any]

AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_HEALTH: Final = ("/healthz", "/livez", "/readyz")
# (kind, group, version) of subresources that are no part of their object.
_SUBRESOURCE_KINDS: Final = {
    "binding": ("Binding", "", "v1"),
    "eviction": ("Eviction", "policy", "v1"),
}


class Discovery:
    """Answers about one table of resources.

    Args:
        table: what is served.
        minor: the Kubernetes version to be, such as `1.37`.
    """

    def __init__(self, table: ResourceTable, minor: str) -> None:
        self._table = table
        self._minor = minor

    def answer(self, path: str, accept: str) -> JsonObject | str | None:
        """The answer for a path that names no resource.

        Args:
            path: of the URL, without its query.
            accept: the Accept header.

        Returns:
            A JSON object, a text, or None if nothing is served there.

        Raises:
            ApiError: 404 for an unknown resource of a known group version.
        """
        path = path.rstrip("/")
        if path.startswith(_HEALTH):
            return "ok"
        if path.startswith("/openapi/v3"):
            return self._openapi(path.removeprefix("/openapi/v3").strip("/"))
        fixed = {"": self._index, "/version": self._version}
        if path in fixed:
            return fixed[path]()
        return self._groups(path, aggregated="as=APIGroupDiscoveryList" in accept)

    def is_aggregated(self, path: str, accept: str) -> bool:
        """Whether the answer for *path* is in the aggregated form, which has a content type of its own."""
        return path.rstrip("/") in ("/api", "/apis") and "as=APIGroupDiscoveryList" in accept

    def _version(self) -> JsonObject:
        major, _, minor = self._minor.partition(".")
        return {
            "major": major,
            "minor": minor,
            "emulationMajor": major,
            "emulationMinor": minor,
            "minCompatibilityMajor": major,
            "minCompatibilityMinor": str(int(minor) - 1),
            "gitVersion": f"v{self._minor}.0",
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "berth-sandbox",
            "platform": "linux/amd64",
        }

    def _index(self) -> JsonObject:
        groups = {f"/apis/{resource.group}" for resource in self._table if resource.group}
        versions = {resource.base_path for resource in self._table}
        fixed = {"/api", "/apis", "/openapi/v3", "/version", *_HEALTH}
        return {"paths": sorted(groups | versions | fixed)}

    def _groups(self, path: str, *, aggregated: bool) -> JsonObject | None:
        if path == "/api":
            return self._aggregated([""]) if aggregated else {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            return self._aggregated(self._group_names()) if aggregated else self._group_list()
        match path.split("/")[1:]:
            case ["api", version, *rest]:
                return self._versioned("", version, rest)
            case ["apis", group] if group in self._group_names():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ["apis", group, version, *rest]:
                return self._versioned(group, version, rest)
            case _:
                return None

    def _group_list(self) -> JsonObject:
        groups = [self._group(name) for name in self._group_names()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _versioned(self, group: str, version: str, rest: list[str]) -> JsonObject | None:
        if not self._members(group, version):
            return None
        if rest:
            raise ApiError(404, "NotFound", "the server could not find the requested resource", {})
        return self._resource_list(group, version)

    def _group_names(self) -> list[str]:
        return list(dict.fromkeys(resource.group for resource in self._table if resource.group))

    def _members(self, group: str, version: str) -> list[Resource]:
        members = [resource for resource in self._table if resource.group == group and resource.version == version]
        return sorted(members, key=lambda resource: resource.plural)

    def _versions(self, group: str) -> list[str]:
        return list(dict.fromkeys(resource.version for resource in self._table if resource.group == group))

    def _group(self, name: str) -> JsonObject:
        versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in self._versions(name)]
        return {"name": name, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> JsonObject:
        resources: list[JsonObject] = []
        for resource in self._members(group, version):
            resources.append(_named(resource))
            resources += [_named_subresource(resource, name) for name in resource.subresources]
        group_version = f"{group}/{version}" if group else version
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        }

    def _aggregated(self, groups: list[str]) -> JsonObject:
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [
                    {
                        "version": version,
                        "resources": [_aggregated(resource) for resource in self._members(group, version)],
                        "freshness": "Current",
                    }
                    for version in self._versions(group)
                ],
            }
            for group in groups
        ]
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        }

    def _openapi(self, rest: str) -> JsonObject | None:
        bases = {resource.base_path.strip("/"): (resource.group, resource.version) for resource in self._table}
        if not rest:
            return {"paths": {base: {"serverRelativeURL": f"/openapi/v3/{base}"} for base in sorted(bases)}}
        if rest not in bases:
            return None
        return document(self._members(*bases[rest]), self._minor)


def _names(resource: Resource) -> JsonObject:
    named: JsonObject = {}
    if resource.short_names:
        named["shortNames"] = list(resource.short_names)
    if resource.categories:
        named["categories"] = list(resource.categories)
    return named


def _verbs_of(subresource: str) -> list[str]:
    return ["create"] if subresource in _SUBRESOURCE_KINDS else list(STATUS_VERBS)


def _named(resource: Resource) -> JsonObject:
    return {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }


def _named_subresource(resource: Resource, name: str) -> JsonObject:
    kind, group, version = _SUBRESOURCE_KINDS.get(name, (resource.kind, "", ""))
    described: JsonObject = {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    if group:
        described |= {"group": group, "version": version}
    return {**described, "kind": kind, "verbs": _verbs_of(name)}


def _aggregated(resource: Resource) -> JsonObject:
    described: JsonObject = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.subresources:
        described["subresources"] = [_aggregated_subresource(resource, name) for name in resource.subresources]
    return described


def _aggregated_subresource(resource: Resource, name: str) -> JsonObject:
    kind, group, version = _SUBRESOURCE_KINDS.get(name, (resource.kind, "", ""))
    response_kind = {"group": group, "version": version if group else "", "kind": kind}
    return {"subresource": name, "responseKind": response_kind, "verbs": _verbs_of(name)}
